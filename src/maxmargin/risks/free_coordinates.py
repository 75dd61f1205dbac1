"""Dual points of the hinge with an intercept that is not penalised, improved by epochs of coordinate ascent.

    max D(a) = sum_i a_i - |sum_i a_i y_i x_i|^2 / 2     with 0 <= a_i <= c_i and r(a) = sum_i a_i y_i = 0

The equation is not for single coordinates. It is left to the method of multipliers: epochs climb
D(a) - b_0 r - r^2 / 2 (times the square of the constant feature), which is the problem with an intercept
b = b_0 + r that is penalised for its distance from b_0; then b_0 becomes b. So the compiled epochs are those
of a penalised intercept, with a constant added to one weight.

A bound needs r = 0. What is too much is taken from rows of the heavier class, first from those whose
multiplier is inside its box: their margin is about 1, so that D hardly changes. The rest that is rounding is
paid for by the bound of the optimal intercept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.compiled.row_dual import ALPHA, CAP, LABEL
from maxmargin.core.cut import Cut
from maxmargin.core.protocols import SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.losses import Hinge
from maxmargin.risks.binary_coordinates import BinaryCoordinates
from maxmargin.risks.rows import Rows

#: what summing multipliers may leave of a zero, in units of their sum
ROUNDING = 1e-14


def serves(rows: Rows, regularizer: SquaredNorm) -> bool:
    """Whether the intercept, and it alone, is free, and the loss is the hinge."""
    alone = list(regularizer.free) == [rows.dim - 1] and not len(regularizer.nonnegative)
    return alone and rows.intercept != 0.0 and type(rows.loss) is Hinge


class FreeCoordinates(BinaryCoordinates):
    """See :class:`maxmargin.core.RowDuals`. The last weight is ``centre`` + intercept * r."""

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        self._centre = 0.0
        super().__init__(rows, C)
        self._bound = regularizer.free_bound

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """A step of the multiplier of r = 0, and an epoch."""
        self._move(float(self._u[-1]))
        return super().improve(seed, epochs)

    def _move(self, centre: float) -> None:
        self._u[-1] += centre - self._centre
        self._centre = centre

    def _balanced(self) -> tuple[float, Array]:
        """The linear part of D and the weights at r = 0; zeros where that is out of reach."""
        excess = float(self._u[-1] - self._centre) / self.rows.intercept
        active = self.active
        own = self._state[active]
        alpha = own[:, ALPHA]
        heavy = (own[:, LABEL] * excess > 0.0) & (alpha > 0.0)
        inside = heavy & (alpha < own[:, CAP])
        order = np.concatenate([np.flatnonzero(inside), np.flatnonzero(heavy & ~inside)])
        total = np.cumsum(alpha[order])
        if excess != 0.0 and not (len(total) and total[-1] >= abs(excess)):
            return 0.0, np.zeros_like(self._u)
        last = int(np.searchsorted(total, abs(excess))) + 1 if excess != 0.0 else 0
        taken, rows = alpha[order[:last]].copy(), active[order[:last]]
        if last:
            taken[-1] -= total[last - 1] - abs(excess)
        margins = self._common if self._margins is None else self._margins[rows]
        design = self.rows.design
        assert isinstance(design, DenseDesign | CSRDesign)
        u = np.zeros_like(self._u)
        design.take(rows).accumulate(taken * own[order[:last], LABEL], 0, last, u[:-1])
        np.subtract(self._u[:-1], u[:-1], out=u[:-1])
        return self._linear - float(np.sum(margins * taken)), u

    def dual_estimate(self, C: float) -> float:
        """See :class:`BinaryCoordinates`; of the multipliers at r = 0."""
        linear, u = self._balanced()
        square = float(u @ u)
        t = 1.0 if C == self.C else C / self.C
        if C != self.C and square > 0.0:
            t = min(t, max(0.0, linear / square))
        rest = ROUNDING * t * abs(linear) * self._bound
        return t * linear - 0.5 * t * t * square - rest

    def dual_value(self, C: float) -> float:
        """See :class:`BinaryCoordinates`."""
        centre, self._centre = self._centre, 0.0
        super().dual_value(C)  # which sets the weights anew, without a centre
        self._move(centre)
        return self.dual_estimate(C)

    def aggregate(self) -> Cut:
        """The multipliers at r = 0 as one cut."""
        linear, u = self._balanced()
        return Cut(linear / self.C, u / -self.C)

    def start_at(self, w: Array, gap: float) -> None:
        """A point says where the intercept may end."""
        self._move(float(w[-1]) - (float(self._u[-1]) - self._centre))

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """See :class:`BinaryCoordinates`."""
        self._centre *= C / self.C
        self._bound = regularizer.free_bound
        super().rescale(C, regularizer)

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        return {**super().state(), "centre": self._centre}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`."""
        super().restore(state)
        self._move(float(state["centre"]))
