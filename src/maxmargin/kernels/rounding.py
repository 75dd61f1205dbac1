"""Rigorous bounds of rounding errors of kernel values and their sums in double precision.

Let d bound |K~ - K| for a computed value K~, let k be the largest |K|, and u the unit roundoff. For an
expansion of m terms with coefficients beta,

    |f~ - f|  <=  (d + (m + 2) u k) |beta|_1  =: e

The error of its squared norm beta'K beta is at most |beta|_1 e plus the error of summation. A fit adds these
errors to its upper bound and subtracts them from its lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.rounding import UNIT
from maxmargin.core.vectors import Array


def summed(value: float, n: int) -> float:
    """An upper bound of a sum of ``n`` nonnegative terms whose computed value is ``value``."""
    return value * (1.0 + 2.0 * (n + 8) * UNIT)


@dataclass(frozen=True, slots=True)
class Rounding:
    """Error bound of one kernel value, and the largest absolute value, for given rows."""

    value: float
    largest: float

    def of_scores(self, coef: Array, intercept: Array | float = 0.0) -> float:
        """Error bound of a score, the largest over outputs (columns)."""
        last = 2.0 * UNIT * (1.0 + float(np.max(np.abs(intercept), initial=0.0)))
        return float(np.max(self._scores(coef), initial=0.0)) + last

    def of_norm(self, coef: Array) -> float:
        """Error bound of half the squared norm, summed over outputs."""
        sizes = np.abs(coef).sum(axis=0)
        terms = (len(coef) + 2) * UNIT * self.largest * sizes
        return float(np.sum(0.5 * sizes * (self._scores(coef) + terms)))

    def _scores(self, coef: Array) -> Array:
        m = np.count_nonzero(coef, axis=0)
        sizes: Array = np.abs(coef).sum(axis=0)
        return (self.value + (m + 2) * UNIT * self.largest) * sizes
