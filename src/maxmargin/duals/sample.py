"""A sample of the rows in memory: its solution, and its Hessian as the metric of steps over all rows.

    F_s(w) = 1/2 |w|^2 + n / m sum over the m sampled rows of l_i(<z_i, w>)

Newton's method minimizes F_s, which takes no pass over the other rows. Its minimum is a first point. From
there, a step ``-H_s(w)^-1 grad F(w)`` with the gradient of all rows has an error of about sqrt(d / m) of that
of w, for any C and any correlations of the features: with m = 128 d, a pass reduces the gap about 100 times.

References:

- M. Erdogdu and A. Montanari, "Convergence rates of sub-sampled Newton methods", NeurIPS 2015: theorem 3.2.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.design import BlockDesign
from maxmargin.duals.gram import Factor
from maxmargin.duals.loaded_rows import LoadedRows
from maxmargin.duals.rows import Rows
from maxmargin.duals.smooth_newton import SmoothNewton
from maxmargin.losses.dual_terms import DualTerms

#: rows of the sample per coordinate of w, at least, the largest share of all rows, and entries
PER_COORDINATE, LEAST, SHARE, ENTRIES = 128, 2**14, 0.25, 2**24
#: rows per coordinate without which it does not serve, and the largest length of w
FEWEST, MOST_COORDINATES = 16, 4096
#: rows of a run of neighbors
RUN = 64
#: relative gap to which the sample is solved, and the most steps
ENOUGH, STEPS = 1e-4, 30


def size_of(rows: Rows) -> int:
    """Number of rows of the sample."""
    entries = max(1, rows.design.nnz // max(1, rows.design.shape[0]))
    wanted = max(PER_COORDINATE * rows.dim, LEAST)
    return min(wanted, ENTRIES // entries, int(SHARE * rows.n))


def sample_refusal(rows: Rows, regularizer: SquaredNorm) -> str | None:
    """The reason why a sample does not serve; None if it does."""
    terms = rows.first_terms
    if not isinstance(rows.design, BlockDesign):
        return f"{type(rows.design).__name__} has no block(lo, hi) method"
    if isinstance(terms, DualTerms):
        if terms.capped:
            return f"the loss {type(rows.loss).__name__} is not smooth"
    elif not rows.loss.decomposable or rows.loss.newton_terms(rows.y[:1]) is None:
        return f"the loss {type(rows.loss).__name__} offers neither dual_terms nor newton_terms"
    if len(regularizer.nonnegative):
        return "it cannot constrain weights to be nonnegative"
    if rows.dim > MOST_COORDINATES:
        return "there are too many features for a Hessian"
    if size_of(rows) < FEWEST * rows.dim:
        return "there are too few rows for a sample of them"
    return None


class Sample:
    """Newton's method over runs of rows from all over the data."""

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        rng = np.random.default_rng(0)  # the same rows in every fit
        runs, size = [], size_of(rows)
        for lo, hi in rows.ranges:
            count = max(1, -(-size * (hi - lo) // (RUN * rows.n)))
            bounds = [lo + k * (hi - lo) // count for k in range(count + 1)]
            for a, b in pairwise(bounds):
                first = int(rng.integers(a, max(a, b - RUN) + 1))
                runs.append((first, min(first + RUN, b)))
        held = LoadedRows.read_all(rows, runs).rows
        self._newton = SmoothNewton(held, C * rows.n / held.n, regularizer)

    def solution(self) -> Array:
        """The minimum of F over the sample."""
        for step in range(STEPS):
            stats = self._newton.improve(step)
            if not stats.gap_estimate > ENOUGH * self._newton.dual_estimate(self._newton.C):
                break
        return self._newton.w.copy()

    def step(self, w: Array, gradient: Array) -> Array | None:
        """The Newton step for this gradient of all rows, by the Hessian of the sample at w; None if that is
        not finite."""
        self._newton.start_at(w, 1.0)
        factor = Factor(self._newton.hessian())
        return factor.solve(-gradient) if factor.ok else None
