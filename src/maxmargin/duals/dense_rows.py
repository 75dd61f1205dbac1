"""Dual points over the rows of a small problem, found by one dense quadratic program.

    min over w, xi     Omega(w) + C sum_i xi_i     with xi_i >= every linear term of the loss of row i

:func:`maxmargin.core.dense_qp.solve_dense` solves it from scratch in a few dozen steps of O(n d^2), without
Gram matrices of rows or features. So features of very different sizes and a large C cost no digits. It is
meant for small problems on which other methods stall, and refused for larger ones.

If all multipliers are far below their upper bounds, the digits of the program are those of the bounds. Then
it is solved again with smaller bounds: the optimum stays the same as long as no multiplier reaches them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.dense_qp import solve_dense
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.design import row_lengths
from maxmargin.duals.proofs import (
    DualValue,
    proved_multiple,
    scale_of,
)
from maxmargin.duals.row_planes import planes_per_row, row_planes
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.duals.terms import contribution, into_box, row_terms

#: maximum of planes times weights; up to here a program takes about a second
MAX_ENTRIES = 200_000
#: bounds are reduced to FACTOR times the largest multiplier if that is less than SMALL times its bound
MAX_ROUNDS, SMALL, FACTOR = 4, 1e-3, 10.0


def too_much(rows: Rows) -> str | None:
    """The reason why these rows are not for a dense program; None if they are."""
    per_row = planes_per_row(rows.loss.dual_terms(rows.y[:1]))
    if per_row == 0:
        return (
            f"the loss {type(rows.loss).__name__} is neither piecewise linear nor a square of that"
        )
    if (per_row * rows.n + rows.dim) * rows.dim > MAX_ENTRIES:
        return "there are too many rows or features for a dense quadratic program"
    return None


class DenseRows:
    """See :class:`maxmargin.core.RowDuals`; one step solves the whole problem."""

    n_steps = 1

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        self.rows, self.C, self.regularizer = rows, C, regularizer
        self.n_examples = self.n_active = rows.n
        n, columns = rows.design.shape[0], rows.loss.n_outputs()
        self.w: Array = np.zeros(rows.dim)
        self.multipliers: Array = np.zeros(n if columns is None else (n, columns))
        known = row_lengths(rows.design, 0, n)
        self._lengths: Array = np.hypot(0.0 if known is None else known, rows.intercept)

    @property
    def scale(self) -> float:
        """See :class:`maxmargin.core.RowDuals`; not used by this method itself."""
        squares = self._lengths[self.rows.indices()] ** 2
        return 1.0 / max(float(squares.sum()) / max(1, len(squares)), 1e-300)

    @property
    def n_support(self) -> int:
        """Number of rows with a nonzero multiplier."""
        return int(np.count_nonzero(row_terms(self.rows).sizes(self.multipliers)))

    def improve(self, seed: int) -> SweepStats:
        """Solve the problem. The gap is infinite: another step would change nothing."""
        terms, best, cap = row_terms(self.rows), np.inf, np.inf
        highest = float(terms.caps(self.C * self.rows.weight[:]).max())
        for _ in range(MAX_ROUNDS):
            found = self._solved(cap)
            if found is None or not found[0] < best:
                break
            best, self.w, self.multipliers = found
            largest = float(terms.sizes(self.multipliers).max())
            if not (np.isfinite(highest) and 0.0 < largest < SMALL * min(cap, highest)):
                break
            cap = FACTOR * largest
        return SweepStats(self.rows.n, np.inf, 0)

    def _solved(self, cap: float) -> tuple[float, Array, Array] | None:
        """The gap, w, and the multipliers of the solution with multipliers of at most ``cap``."""
        rows, omega = self.rows, self.regularizer
        own = row_planes(rows, cap / self.C)
        penalty = np.ones(rows.dim)
        penalty[omega.free] = 0.0
        signed = np.asarray(omega.nonnegative, dtype=np.int64)
        found = solve_dense(
            own.planes, own.offsets, own.block, self.C, penalty, signed, omega.floors, own.squared
        )
        if found is None:
            return None
        alpha = into_box(rows, self.C, own.multipliers(self.multipliers.shape, self.C * found.beta))
        if rows.intercept != 0.0 and list(omega.free) == [rows.dim - 1]:
            alpha = _balanced(alpha, contribution(rows, self.C, alpha)[0])
        w = omega.primal(found.w)
        gap = self._objective(w) - self._value(self.C, alpha, 0.0)
        return (gap, w, alpha) if np.isfinite(gap) else None

    def _objective(self, w: Array) -> float:
        """F(w)."""
        rows, here = self.rows, self.rows.indices()
        W, d = w.reshape(-1, rows.n_columns), rows.design.shape[1]
        scores = np.column_stack(
            [rows.design.dot(np.ascontiguousarray(c[:d]), 0, rows.design.shape[0]) for c in W.T]
        )
        scores += rows.intercept * W[d:].sum(axis=0)
        scores = scores if rows.loss.n_outputs() else scores[:, 0]
        scores = (scores if rows.offset is None else scores + rows.offset)[here]
        loss = rows.loss.value(scores, np.asarray(rows.y[:])[here], rows.weight[:][here])
        return self.regularizer.value(w) + self.C * loss

    def _value(self, C: float, alpha: Array, negligible: float) -> float:
        return proved_multiple(
            self.rows, C, self.C, self.regularizer, alpha, self._lengths, negligible
        )

    def check(self, scores: Array) -> None:
        """Do nothing: all rows are always active."""

    def dual_estimate(self, C: float) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        return self._value(C, self.multipliers, 0.0)

    def dual_value(self, C: float) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        return self._value(C, self.multipliers, 0.0)

    def proved_value(self, C: float, negligible: float) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        return self._value(C, self.multipliers, negligible)

    def aggregate(self) -> Cut:
        """The multipliers as one cut."""
        coef, u, linear, curved = DualValue.of(self.rows, self.C, self.multipliers)
        sizes = scale_of(self.rows, self.multipliers, coef, curved, self._lengths)
        return Cut((linear - curved) / self.C, u / -self.C, sizes.of_cut() / self.C)

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers and their point."""
        self.multipliers = into_box(self.rows, self.C, multipliers)
        u = DualValue.of(self.rows, self.C, self.multipliers).u
        self.w = self.regularizer.primal(self.regularizer.penalized(u))

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        return {"multipliers": self.multipliers}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`."""
        self.load(same_shape(state["multipliers"], self.multipliers))

    def start_at(self, w: Array, gap: float) -> None:
        """Do nothing: the program is solved from scratch."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C."""
        alpha = self.multipliers * (C / self.C)
        self.C, self.regularizer = C, regularizer
        self.load(alpha)


def _balanced(alpha: Array, coef: Array) -> Array:
    """Nearby multipliers whose coefficients sum to exactly zero, as an unpenalized intercept requires.

    All are truncated to multiples of the last digit of the largest one, so that their sum is exact.
    """
    digit = np.spacing(np.abs(coef).max(initial=0.0))
    truncated = np.trunc(coef / digit) * digit
    for _ in range(len(coef)):
        rest = math.fsum(truncated)
        if rest == 0.0:
            break
        largest = int(np.argmax(np.sign(rest) * truncated))
        truncated[largest] -= np.sign(rest) * min(abs(rest), abs(truncated[largest]))
    out: Array = np.sign(alpha) * np.abs(truncated)
    return out
