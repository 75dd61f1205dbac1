"""The dual value of multipliers from their sums: u = X'coef, and the two parts of sum_i d_i(alpha_i)."""

from __future__ import annotations

from abc import abstractmethod

from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale
from maxmargin.core.vectors import Array


class DualSums:
    """A base class for duals with one multiplier per row."""

    C: float
    _norm: SquaredNorm
    _u: Array
    #: sums of d(a) + q a^2 / 2 and of q a^2 / 2
    _linear: float
    _curved: float
    #: q times the cap of a row
    _curvature: float

    @property
    def w(self) -> Array:
        """The weights of the multipliers."""
        return self._norm.primal(self._u) if len(self._norm.nonnegative) else self._u

    @abstractmethod
    def sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""

    def aggregate(self) -> Cut:
        """The multipliers as one cut."""
        error = self.sizes().of_cut() / self.C
        return Cut((self._linear - self._curved) / self.C, self._u / -self.C, error)

    def start_at(self, w: Array, gap: float) -> None:
        """Do nothing: a point does not determine multipliers."""

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C, at the w that the epochs maintain."""
        if self._norm.floor is not None:
            return self._floored_estimate(C)
        w = self.w
        curved = self._curved + 0.5 * float(w @ w)
        # The best multiple. For curved duals and a larger C the curvature is overestimated: still a bound.
        t = 1.0 if C == self.C else C / self.C
        if C != self.C and curved > 0.0:
            t = min(t, max(0.0, 0.5 * self._linear / curved))
        if self._curvature > 0.0 and C < self.C:
            curved *= self.C / C
        return t * self._linear - t * t * curved

    def _floored_estimate(self, C: float) -> float:
        """The same with floors, where primal(t u) is not t primal(u): the better of two multiples."""
        ratio = C / self.C
        curved = self._curved * (max(1.0, 1.0 / ratio) if self._curvature > 0.0 else 1.0)
        values = []
        for t in {ratio, min(1.0, ratio)}:
            u = t * self._u
            omega = self._norm.conjugate(u, self._norm.primal(u))
            values.append(t * self._linear - t * t * curved - omega)
        return max(values)
