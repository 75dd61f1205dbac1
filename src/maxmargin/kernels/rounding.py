"""Rigorous bounds of rounding errors of kernel values and their sums in double precision.

Let d bound |K~ - K| for a computed value K~, let k be the largest |K|, and u the unit roundoff. For an
expansion of m terms with coefficients beta,

    |f~ - f|  <=  (d + (m + 2) u k) |beta|_1  =: e

The error of its squared norm beta'K beta is at most |beta|_1 e plus the error of summation. A fit adds these
errors to its upper bound and subtracts them from its lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
        m, sizes = np.count_nonzero(coef, axis=0), np.abs(coef).sum(axis=0)
        last = self.of_intercept(float(np.max(np.abs(intercept), initial=0.0)))
        return float(np.max(self.of_sums(m, sizes), initial=0.0)) + last

    def of_norm(self, coef: Array) -> float:
        """Error bound of half the squared norm, summed over outputs."""
        m, sizes = np.count_nonzero(coef, axis=0), np.abs(coef).sum(axis=0)
        return float(np.sum(self.of_norms(len(coef), m, sizes)))

    @staticmethod
    def of_intercept(b: Any) -> Any:
        """What an intercept adds to the error bound of a score."""
        return 2.0 * UNIT * (1.0 + np.abs(b))

    def of_sums(self, m: Any, sizes: Any) -> Any:
        """Error bounds of scores with ``m`` terms, whose coefficients have the absolute sum ``sizes``."""
        return (self.value + (m + 2) * UNIT * self.largest) * sizes

    def of_norms(self, n: Any, m: Any, sizes: Any) -> Any:
        """Error bounds of half the squared norms, for ``n`` coefficients of which ``m`` are not zero."""
        terms = (n + 2) * UNIT * self.largest * sizes
        return 0.5 * sizes * (self.of_sums(m, sizes) + terms)
