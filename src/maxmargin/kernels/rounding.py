"""What rounding may do to kernel values and sums of them, in double precision: bounds, not estimates.

Let d bound |K~ - K| for a computed value K~, k the largest |K|, u the unit of rounding. For a function of m
terms with coefficients beta

    |f~ - f|  <=  (d + (m + 2) u k) |beta|_1  =: e

and its squared norm beta'K beta is wrong by |beta|_1 e at most, and what summing it up adds. A fit that
claims bounds adds this to the upper one and takes it from the lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.rounding import UNIT
from maxmargin.core.vectors import Array


def summed(value: float, n: int) -> float:
    """Not less than the sum of n terms, none negative, that was computed as ``value``."""
    return value * (1.0 + 2.0 * (n + 8) * UNIT)


@dataclass(frozen=True, slots=True)
class Rounding:
    """Errors of kernel values between some rows: of one of them, and how large they are."""

    value: float
    largest: float

    def of_scores(self, coef: Array, intercept: Array | float = 0.0) -> float:
        """How wrong a score of a function may be, the largest over outputs (columns)."""
        last = 2.0 * UNIT * (1.0 + float(np.max(np.abs(intercept), initial=0.0)))
        return float(np.max(self._scores(coef), initial=0.0)) + last

    def of_norm(self, coef: Array) -> float:
        """How wrong half the squared norm may be, the sum over outputs."""
        sizes = np.abs(coef).sum(axis=0)
        terms = (len(coef) + 2) * UNIT * self.largest * sizes
        return float(np.sum(0.5 * sizes * (self._scores(coef) + terms)))

    def _scores(self, coef: Array) -> Array:
        m = np.count_nonzero(coef, axis=0)
        sizes: Array = np.abs(coef).sum(axis=0)
        return (self.value + (m + 2) * UNIT * self.largest) * sizes
