"""Dual points of the hinge with an intercept that is not penalised, improved by epochs of coordinate ascent.

    max D(a) = sum_i a_i - |sum_i a_i y_i x_i|^2 / 2     with 0 <= a_i <= c_i and r(a) = sum_i a_i y_i = 0

The equation is not for single coordinates. It is left to the method of multipliers: epochs climb
D(a) - b_0 r - r^2 / 2 (times the square of the constant feature), which is the problem with an intercept
b = b_0 + r that is penalised for its distance from b_0; then b_0 becomes b. So the compiled epochs are those
of a penalised intercept, with a constant added to one weight.

A bound needs r = 0. What is too much is taken from rows of the heavier class, first from those whose
multiplier is inside its box: their margin is about 1, so that D hardly changes. The rest that is rounding is
paid for by the bound of the optimal intercept. It adds up over epochs, so where D is computed anew r is too,
and what summing may have done to D is given away.
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
from maxmargin.core.rounding import gamma
from maxmargin.core.stored_values import number
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.rows import Rows
from maxmargin.losses.dual_terms import DualTerms

#: what summing multipliers may leave of a zero, in units of their sum
ROUNDING = 1e-14
#: rows that are looked at for their length
SAMPLE = 1000


def serves(rows: Rows, regularizer: SquaredNorm) -> bool:
    """Whether the intercept, and it alone, is free, and duals are those of a hinge with signs."""
    alone = list(regularizer.free) == [rows.dim - 1] and not len(regularizer.nonnegative)
    if not alone or rows.intercept == 0.0 or rows.loss.label_kind != "sign":
        return False
    terms = rows.loss.dual_terms(rows.y[:1])
    if not isinstance(terms, DualTerms):
        return False
    return terms.capped and not terms.two_sided and terms.curvature == 0.0


def _exact_sum(values: Array) -> float:
    """The sum, rounded once; most multipliers are zero, and a list of floats is added up fastest."""
    return math.fsum(values[values != 0.0].tolist())


def _mean_square(rows: Rows) -> float:
    """The mean of |x|^2 over some rows: its order of magnitude will do."""
    design = rows.design
    assert isinstance(design, DenseDesign | CSRDesign)
    n = design.shape[0]
    some = design.take(np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)))
    entries = some.X if isinstance(some, DenseDesign) else some.data
    return float(np.sum(np.square(entries, dtype=np.float64))) / max(1, some.shape[0])


class FreeCoordinates(BinaryCoordinates):
    """See :class:`maxmargin.core.RowDuals`. The last weight is ``centre`` + intercept * r.

    D at r = 0 does not rise with every epoch: the best multipliers are kept, and are what is claimed.
    """

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        # the constant feature of one's own: as long as rows are, or so long that r moves b where C is small
        total = C * float(np.sum(rows.weight[:]))
        own = float(np.sqrt(max(_mean_square(rows), 1.0 / max(total, 1e-300))))
        self._ratio, self._centre = own / rows.intercept, 0.0
        super().__init__(replace(rows, intercept=own), C)
        self._bound = regularizer.free_bound * rows.intercept  # of the intercept itself
        self._forget()

    def _forget(self) -> None:
        """No multipliers are the best so far; the first ones to be are copied as a whole."""
        self._kept: Array = np.zeros(len(self._state))
        self._value, self._stale, self._lost = -np.inf, True, (0.0, 0.0)
        self._gave: IntArray = np.empty(0, dtype=np.int64)

    @property
    def w(self) -> Array:
        """The weights of the multipliers, and the intercept of the epochs."""
        w = self._u.copy()
        w[-1] *= self._ratio
        return w

    @property
    def multipliers(self) -> Array:
        """One per row."""
        return self._state[:, ALPHA]

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """A step of the multiplier of r = 0, and an epoch."""
        before = None if self._stale else self.active.copy()
        self._move(float(self._u[-1]))
        stats = super().improve(seed, epochs)
        self._keep(before)
        return stats

    def _move(self, centre: float) -> None:
        self._u[-1] += centre - self._centre
        self._centre = centre

    def _keep(self, changed: IntArray | None) -> None:
        """Keep the multipliers at r = 0 if they are the best so far; ``changed``: none but these differ."""
        linear, u, rows, taken = self._balanced()
        value = self._worth(linear, u)
        self._stale = value <= self._value
        if self._stale:
            return
        # rows that gave something away the last time are not what the state says
        every = changed is None
        changed = np.arange(len(self._kept)) if every else np.concatenate([changed, self._gave])
        self._kept[changed] = self._state[changed, ALPHA]
        self._kept[rows] -= taken
        self._best, self._value, self._gave = (linear, u), value, rows
        self._lost = (0.0, 0.0)  # unknown until it is computed anew

    def _worth(self, linear: float, u: Array, t: float = 1.0) -> float:
        """The dual value of a multiple; what rounding may leave of r is given away."""
        rest = ROUNDING * t * abs(linear) * self._bound
        return t * linear - 0.5 * t * t * float(u @ u) - rest

    def _balanced(self) -> tuple[float, Array, IntArray, Array]:
        """The linear part of D and the weights at r = 0, and what was taken from which rows for it."""
        excess = float(self._u[-1] - self._centre) / self.rows.intercept
        u = self._u.copy()
        u[-1] = 0.0
        if excess == 0.0:
            return self._linear, u, np.empty(0, dtype=np.int64), np.empty(0)
        rows, taken = self._givers(self.active, excess)
        if rows is None:  # the others do not change, but may have something to give
            rows, taken = self._givers(self._members, excess)
        if rows is None:  # rounding: there is nothing but zeros
            return 0.0, np.zeros_like(u), self._members, self._state[self._members, ALPHA]
        margins = self._common if self._margins is None else self._margins[rows]
        design = self.rows.design
        assert isinstance(design, DenseDesign | CSRDesign)
        change = np.zeros(len(u) - 1)
        coef = taken * self._state[rows, LABEL]
        design.take(rows).accumulate(coef, 0, len(rows), change)
        u[:-1] -= change
        return self._linear - float(np.sum(margins * taken)), u, rows, taken

    def _givers(self, among: IntArray, excess: float) -> Any:
        """Rows of the heavier class that give away the excess, and how much each; None if they cannot."""
        rows, taken = np.empty(len(among), np.int64), np.empty(len(among))
        count = take_from(self._state, among, excess, rows, taken)
        return (None, None) if count < 0 else (rows[:count].copy(), taken[:count].copy())

    def dual_estimate(self, C: float) -> float:
        """See :class:`BinaryCoordinates`; of the best multipliers at r = 0."""
        if not np.isfinite(self._value):
            self._keep(None)
        linear, u = self._best
        t, square = C / self.C, float(u @ u)
        if C != self.C and square > 0.0:
            t = min(t, max(0.0, linear / square))
        return self._worth(linear, u, t) - t * self._lost[0] - t * t * self._lost[1]

    def dual_value(self, C: float) -> float:
        """See :class:`BinaryCoordinates`; both points are computed anew."""
        centre, self._centre = self._centre, 0.0
        super().dual_value(self.C)  # sets the weights of the epochs, without a centre
        self._move(centre)
        if np.isfinite(self._value):
            y = self._state[:, LABEL]
            left = self._settle()
            u = self.rows.accumulate(self._kept * y)
            u[-1] = 0.0
            margins = self._common if self._margins is None else self._margins
            self._best = (float(np.sum(margins * self._kept)), u)
            self._lost = self._roundings(left, margins)
            self._value = self._worth(*self._best) - sum(self._lost)
        return self.dual_estimate(C)

    def _settle(self) -> float:
        """Take what epochs have left of r from the largest multiplier of the heavier class; what remains."""
        signed = self._kept * self._state[:, LABEL]
        rest = _exact_sum(signed)
        k = int(np.argmax(np.sign(rest) * signed))
        if rest * signed[k] > 0.0:
            self._kept[k] = max(0.0, self._kept[k] - abs(rest))
            self._gave = np.append(self._gave, k)
            signed[k] = self._kept[k] * self._state[k, LABEL]
        return abs(_exact_sum(signed))

    def _roundings(self, left: float, margins: Any) -> tuple[float, float]:
        """What r and rounding may have done to the linear part of D, and to |u|^2 / 2."""
        unit = (np.count_nonzero(self._kept) + 2) * np.finfo(np.float64).eps
        squares = self._state[:, SQUARE]
        lengths = np.sqrt(np.maximum(0.0, squares * (1.0 + unit) - self.rows.intercept**2))
        wrong = unit * float(self._kept @ lengths)  # the length of what u may be wrong by
        linear = unit * float(np.sum(np.abs(margins) * self._kept)) + left * self._bound
        return linear, wrong * (float(np.linalg.norm(self._best[1])) + wrong)

    def proved_value(self, C: float, negligible: float) -> float:
        """See :class:`maxmargin.core.RowDuals`: what is claimed has paid for rounding already."""
        return self.dual_value(C)

    def aggregate(self) -> Cut:
        """The best multipliers as one cut, which does not look at the intercept."""
        self.dual_estimate(self.C)
        linear, u = self._best
        # what rounding may leave of r, times the intercept, and what it may have done to u
        unit = gamma(int(np.count_nonzero(self._kept)))
        lengths = np.sqrt(self._state[:, SQUARE])
        demands = np.abs(self._common if self._margins is None else self._margins)
        error = unit * float(self._kept @ (lengths + demands)) * (1.0 + self._bound)
        return Cut(linear / self.C, u / -self.C, error / self.C)

    def load(self, multipliers: Array) -> None:
        """See :class:`BinaryCoordinates`."""
        self._forget()
        super().load(multipliers)

    def start_at(self, w: Array, gap: float) -> None:
        """A point says where the intercept may end."""
        self._move(float(w[-1]) / self._ratio - (float(self._u[-1]) - self._centre))

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """See :class:`BinaryCoordinates`."""
        self._centre *= C / self.C
        self._bound = regularizer.free_bound * self.rows.intercept / self._ratio
        super().rescale(C, regularizer)
        self._forget()

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        return {**super().state(), "centre": self._centre}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`."""
        super().restore(state)
        self._move(number(state["centre"], "the centre"))
