"""All multipliers of small working sets at once: the QP over the planes that are held.

    maximise   sum_s beta_s g_s - 1/2 |sum_s beta_s q_s|^2,    q_s = c_i p_s,  g_s = c_i l_s,

over a product of simplices, one per example, in which the true output has the plane zero. Block steps, one
example at a time, get there too, but not soon where planes of different examples are nearly parallel and
long: features of 1,000 beside constants of 1, or a large C.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.qp import SimplexQP
from maxmargin.core.vectors import Array, IntArray

#: planes, and numbers in them, up to which one joint solution costs no more than a few hundred block steps
MOST_PLANES, MOST_NUMBERS = 400, 2_000_000


class HeldPlanes(NamedTuple):
    """The planes of working sets without those of the true outputs, one to a row, with their offsets,
    examples, the caps of these, and multipliers. Examples of cap zero are left out."""

    planes: Array
    losses: Array
    owner: IntArray
    caps: Array
    alpha: Array


def is_small(n_planes: int, dim: int) -> bool:
    """Whether all planes can be held as one dense matrix and solved for at once."""
    return 0 < n_planes <= MOST_PLANES and n_planes * dim <= MOST_NUMBERS


def solve_jointly(sets: Any, tol: float) -> bool:
    """Move working sets to the best multipliers of the planes they hold, to a gap of ``tol``. True if that
    raised their dual value; they stay as they were otherwise, and where they are too large."""
    held: HeldPlanes | None = sets.held_planes() if hasattr(sets, "held_planes") else None
    if held is None:
        return False
    before = sets.dual_value()
    sets.set_multipliers(joint_multipliers(held, tol))
    if sets.dual_value() > before:
        return True
    sets.set_multipliers(held.alpha)
    sets.dual_value()
    return False


def joint_multipliers(held: HeldPlanes, tol: float) -> Array:
    """The best multipliers; feasible, whatever the precision of the solution."""
    examples, block = np.unique(held.owner, return_inverse=True)
    n, m = len(examples), len(block)
    scaled, gains = held.planes * held.caps[:, None], held.losses * held.caps
    gram = scaled @ scaled.T
    if not (np.isfinite(gram).all() and np.isfinite(gains).all()):
        return held.alpha
    qp, row = SimplexQP(n), np.zeros(n + m)
    for s in range(m):
        row[n : n + s + 1] = gram[s, : s + 1]
        qp.append(row[: n + s + 1], int(block[s]))
    shares = held.alpha / held.caps
    rest = 1.0 - np.bincount(block, weights=shares, minlength=n)
    qp.move(np.concatenate([np.maximum(rest, 0.0), shares]))
    qp.solve(np.concatenate([np.zeros(n), gains]), tol)
    found: Array = np.maximum(qp.beta[n:], 0.0)
    total = np.bincount(block, weights=found, minlength=n)[block]
    found = found / np.maximum(total, 1.0)
    return found * held.caps if np.isfinite(found).all() else held.alpha
