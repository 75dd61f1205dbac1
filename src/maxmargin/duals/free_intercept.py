"""Dual points of the hinge loss with an unpenalized intercept, optimized by coordinate ascent.

    max D(a) = sum_i a_i - |sum_i a_i y_i x_i|^2 / 2     with 0 <= a_i <= c_i and r(a) = sum_i a_i y_i = 0

Single coordinate steps cannot maintain the equality constraint. The method of multipliers enforces it: epochs
maximize D(a) - b_0 r - r^2 / 2 (times the square of the constant feature), which is the problem with an
intercept b = b_0 + r whose distance from b_0 is penalized. Then b_0 is set to b. So the compiled epochs are
those of a penalized intercept, with a constant added to one weight.

A bound requires r = 0. The excess is subtracted from rows of the heavier class, first from those whose
multiplier is strictly inside its box: their margin is about 1, so D hardly changes. The rounding error left
in r is multiplied by the bound of the optimal intercept and subtracted from the lower bound. It accumulates
over epochs, so r is recomputed whenever D is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.compiled.row_dual import ALPHA, LABEL, SQUARE, take_from
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.core.stored_values import number
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.proofs import proved_multiple, scale_of
from maxmargin.duals.rows import Rows
from maxmargin.losses.dual_terms import DualTerms

#: rounding error left of a sum of multipliers that should be zero, relative to the sum of their sizes
ROUNDING = 1e-14
#: number of rows from which the mean length is estimated
SAMPLE = 1000


def serves(rows: Rows, regularizer: SquaredNorm) -> bool:
    """Whether the intercept is the only free coordinate and the loss is a hinge of signed labels."""
    alone = list(regularizer.free) == [rows.dim - 1] and not len(regularizer.nonnegative)
    if not alone or rows.intercept == 0.0 or rows.loss.label_kind != "sign":
        return False
    terms = rows.first_terms
    if not isinstance(terms, DualTerms):
        return False
    return terms.capped and not terms.two_sided and terms.curvature == 0.0


def _exact_sum(values: Array) -> float:
    """The sum, rounded once; most multipliers are zero, and a list of floats is added up fastest."""
    return math.fsum(values[values != 0.0].tolist())


def _mean_square(rows: Rows) -> float:
    """The mean of |x|^2 over a sample of rows: only its order of magnitude matters."""
    design = rows.design
    assert isinstance(design, DenseDesign | CSRDesign)
    n = design.shape[0]
    some = design.take(np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)))
    entries = some.X if isinstance(some, DenseDesign) else some.data
    return float(np.sum(np.square(entries, dtype=np.float64))) / max(1, some.shape[0])


class FreeCoordinates(BinaryCoordinates):
    """See :class:`maxmargin.core.RowDuals`. The last weight is ``_center`` + intercept * r.

    D at r = 0 does not increase with every epoch, so the best multipliers are kept and give the bound.
    """

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        # a separate constant feature: as long as the rows, or long enough for r to move b if C is small
        total = C * float(np.sum(rows.weight[:]))
        own = float(np.sqrt(max(_mean_square(rows), 1.0 / max(total, 1e-300))))
        self._ratio, self._center = own / rows.intercept, 0.0
        super().__init__(replace(rows, intercept=own), C)
        self._bound = regularizer.free_bound * rows.intercept  # bound of the intercept itself
        self._forget()

    def _forget(self) -> None:
        """Reset the best multipliers; the first ones kept are copied as a whole."""
        self._kept: Array = np.zeros(len(self._state))
        self._value, self._stale = -np.inf, True
        self._reduced: IntArray = np.empty(0, dtype=np.int64)

    @property
    def w(self) -> Array:
        """The weights of the multipliers, and the intercept that the epochs use."""
        w = self._u.copy()
        w[-1] *= self._ratio
        return w

    @property
    def multipliers(self) -> Array:
        """One per row."""
        return self._state[:, ALPHA]

    @property
    def balanced(self) -> Array:
        """The best multipliers at r = 0."""
        return self._kept

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """Update the multiplier of r = 0, then run an epoch."""
        before = None if self._stale else self.active.copy()
        self._move(float(self._u[-1]))
        stats = super().improve(seed, epochs)
        self._keep(before)
        return stats

    def _move(self, center: float) -> None:
        self._u[-1] += center - self._center
        self._center = center

    def _keep(self, changed: IntArray | None) -> None:
        """Keep the multipliers at r = 0 if they are the best so far; only those in ``changed`` differ."""
        linear, u, rows, taken = self._balanced()
        value = self._dual_value(linear, u)
        self._stale = value <= self._value
        if self._stale:
            return
        # rows that were reduced the last time differ from the state, too
        every = changed is None
        changed = np.arange(len(self._kept)) if every else np.concatenate([changed, self._reduced])
        self._kept[changed] = self._state[changed, ALPHA]
        self._kept[rows] -= taken
        self._best, self._value, self._reduced = (linear, u), value, rows

    def _dual_value(self, linear: float, u: Array, t: float = 1.0) -> float:
        """The dual value of a multiple, minus a bound on the rounding error of r."""
        rest = ROUNDING * t * abs(linear) * self._bound
        return t * linear - 0.5 * t * t * float(u @ u) - rest

    def _balanced(self) -> tuple[float, Array, IntArray, Array]:
        """The linear part of D and the weights at r = 0, the reduced rows, and their reductions."""
        excess = float(self._u[-1] - self._center) / self.rows.intercept
        u = self._u.copy()
        u[-1] = 0.0
        if excess == 0.0:
            return self._linear, u, np.empty(0, dtype=np.int64), np.empty(0)
        rows, taken = self._rows_to_reduce(self.active, excess)
        if rows is None:  # inactive rows do not change, but may be reduced
            rows, taken = self._rows_to_reduce(self._members, excess)
        if rows is None:  # rounding: all multipliers are zero
            return 0.0, np.zeros_like(u), self._members, self._state[self._members, ALPHA]
        margins = self._common if self._margins is None else self._margins[rows]
        design = self.rows.design
        assert isinstance(design, DenseDesign | CSRDesign)
        change = np.zeros(len(u) - 1)
        coef = taken * self._state[rows, LABEL]
        design.take(rows).accumulate(coef, 0, len(rows), change)
        u[:-1] -= change
        return self._linear - float(np.sum(margins * taken)), u, rows, taken

    def _rows_to_reduce(self, among: IntArray, excess: float) -> Any:
        """Rows of the heavier class to reduce and by how much; None if they are not enough."""
        rows, taken = np.empty(len(among), np.int64), np.empty(len(among))
        count = take_from(self._state, among, excess, rows, taken)
        return (None, None) if count < 0 else (rows[:count].copy(), taken[:count].copy())

    def dual_estimate(self, C: float) -> float:
        """See :class:`BinaryCoordinates`; the value of the best multipliers at r = 0."""
        if not np.isfinite(self._value):
            self._keep(None)
        linear, u = self._best
        t, square = C / self.C, float(u @ u)
        if C != self.C and square > 0.0:
            t = min(t, max(0.0, linear / square))
        return self._dual_value(linear, u, t)

    def dual_value(self, C: float) -> float:
        """See :class:`BinaryCoordinates`; both points are recomputed."""
        center, self._center = self._center, 0.0
        super().dual_value(self.C)  # sets the weights of the epochs, without the center
        self._move(center)
        if not np.isfinite(self._value):
            self._keep(None)
        self._subtract_rest()
        u = self.rows.accumulate(self._kept * self._state[:, LABEL])
        u[-1] = 0.0
        margins = self._common if self._margins is None else self._margins
        self._best = (float(np.sum(margins * self._kept)), u)
        self._value = self._dual_value(*self._best)
        return self.dual_estimate(C)

    def _subtract_rest(self) -> None:
        """Subtract the rest of r from the largest multiplier of the heavier class."""
        signed = self._kept * self._state[:, LABEL]
        rest = _exact_sum(signed)
        k = int(np.argmax(np.sign(rest) * signed))
        if rest * signed[k] > 0.0:
            self._kept[k] = max(0.0, self._kept[k] - abs(rest))
            self._reduced = np.append(self._reduced, k)

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """See :class:`maxmargin.core.RowDuals`: of the best multipliers at r = 0."""
        self.dual_value(C)
        lengths = np.sqrt(self._state[:, SQUARE])
        last = np.array([self.rows.dim - 1])
        norm = SquaredNorm(free=last, free_bound=self._bound / self.rows.intercept)
        return proved_multiple(self.rows, C, self.C, norm, self._kept, lengths, attained.negligible)

    def aggregate(self) -> Cut:
        """The best multipliers as one cut, which does not depend on the intercept."""
        self.dual_estimate(self.C)
        linear, u = self._best
        lengths = np.sqrt(self._state[:, SQUARE])
        sizes = scale_of(self.rows, self._kept, self._kept, 0.0, lengths)
        # the rounding error of r is multiplied by the intercept
        error = sizes.of_cut() * (1.0 + self._bound)
        return Cut(linear / self.C, u / -self.C, error / self.C)

    def load(self, multipliers: Array) -> None:
        self._forget()
        super().load(multipliers)

    def start_at(self, w: Array, gap: float) -> None:
        """Use a point as a hint for the intercept."""
        self._move(float(w[-1]) / self._ratio - (float(self._u[-1]) - self._center))

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        self._center *= C / self.C
        self._bound = regularizer.free_bound * self.rows.intercept / self._ratio
        super().rescale(C, regularizer)
        self._forget()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "center": self._center}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._move(number(state["center"], "the center"))
