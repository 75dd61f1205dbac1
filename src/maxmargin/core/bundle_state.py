"""The stored state of a bundle: read from a checkpoint, which may be damaged, and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.stored_values import count, entries, floats, integers, number
from maxmargin.core.vectors import Array, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class BundleState:
    """The planes of a bundle, and where the solution of its reduced problem stands.

    ``ages`` counts the solves in which a plane's multiplier was zero, ``beta`` holds the multipliers of the
    zero planes and of the planes, ``v`` and ``tau`` belong to free coordinates.
    """

    n_blocks: int
    base: float
    max_planes: int | None
    idle: int
    cuts: list[Cut]
    blocks: IntArray
    ages: IntArray
    beta: Array
    v: Array
    tau: float


def read_bundle_state(state: dict[str, Any], n_free: int) -> BundleState:
    """The checked content of ``state``, for a regularizer with ``n_free`` free coordinates."""
    names = ("n_blocks", "base", "max_planes", "idle", "tau", "planes")
    n_blocks, base, max_planes, idle, tau, planes = entries(state, *names)
    m = len(planes)
    # every block has a multiplier, so there cannot be more blocks than multipliers
    beta = floats(state.get("beta"), "the multipliers", (None,))
    n_blocks = count(n_blocks, "the number of blocks", 1, len(beta))
    blocks = integers(state.get("blocks"), "the blocks of planes", (m,), below=n_blocks)
    offsets = floats(state.get("offsets"), "the offsets of planes", (m,))
    errors = floats(state.get("errors"), "the errors of planes", (m,))
    if not (errors >= 0.0).all():
        raise ValueError("the errors of a bundle's planes must not be negative.")
    beta = floats(beta, "the multipliers", (n_blocks + m,))
    sums = np.bincount(np.concatenate([np.arange(n_blocks), blocks]), beta, n_blocks)
    if not ((beta >= 0.0).all() and np.allclose(sums, 1.0)):
        raise ValueError("the multipliers of a bundle's planes are not feasible.")
    values = zip(offsets, planes, errors, strict=True)
    return BundleState(
        n_blocks,
        number(base, "the lower bound of a bundle"),
        None if max_planes is None else count(max_planes, "the room for planes"),
        count(idle, "the age at which planes are dropped"),
        [Cut(float(offset), plane, float(error)) for offset, plane, error in values],
        blocks,
        integers(state.get("ages"), "the ages of planes", (m,)),
        beta,
        floats(state.get("v"), "the multipliers of free weights", (n_free,)),
        number(tau, "the penalty of free weights", 0.0),
    )
