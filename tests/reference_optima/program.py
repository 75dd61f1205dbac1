"""A convex problem in the referee's form, and its value in extended precision.

    F(z) = 1/2 (z - m)' P (z - m) + sum_g c_g max(0, max_{t in g} (a_t z + h_t))

(or the squares of the maxima) over lower <= z <= upper, where z are the user-space weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.longdouble]
LONG = np.longdouble
#: the spacing of floating-point numbers near 1
LONG_EPS = float(np.finfo(LONG).eps)
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Program:
    """The problem; ``precision`` has one number per weight, or is a matrix."""

    center: Array | LongArray
    precision: Array | LongArray
    A: Array | LongArray
    h: Array | LongArray
    group: npt.NDArray[np.int64]
    cost: Array | LongArray
    squared: bool = False
    lower: Array | None = None
    upper: Array | None = None
    _long: list[LongArray] = field(default_factory=list, repr=False)

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.center)

    @property
    def total(self) -> float:
        """C times the sum of the weights."""
        return float(self.cost.sum())

    def long(self) -> list[LongArray]:
        """Center, precision, A, h and cost in extended precision."""
        if not self._long:
            parts = (self.center, self.precision, self.A, self.h, self.cost)
            self._long.extend(part.astype(LONG) for part in parts)
        return self._long

    def feasible(self, z: npt.ArrayLike) -> LongArray:
        """The nearest point within the bounds."""
        point = np.asarray(z, dtype=LONG)
        if self.lower is not None:
            point = np.maximum(point, self.lower)
        if self.upper is not None:
            point = np.minimum(point, self.upper)
        return point

    def violated(self, z: npt.ArrayLike) -> bool:
        """Whether a weight is outside its bounds."""
        return bool((self.feasible(z) != np.asarray(z, dtype=LONG)).any())

    def maxima(self, z: LongArray) -> LongArray:
        """max(0, max_t ...) by group."""
        _, _, A, h, _ = self.long()
        return by_group(A @ z + h, self.group, len(self.cost))

    def value(self, z: npt.ArrayLike) -> tuple[np.longdouble, float]:
        """F(z) in extended precision, and a bound on its rounding error."""
        point = np.asarray(z, dtype=LONG)
        center, precision, _, _, cost = self.long()
        off = point - center
        norm = off @ (precision * off if precision.ndim == 1 else precision @ off)
        top = self.maxima(point)
        loss = top * top if self.squared else top
        total = LONG(0.5) * norm + cost @ loss
        return total, self.rounding(point, LONG_EPS)

    def rounding(self, z: npt.ArrayLike, eps: float) -> float:
        """A bound on the error of F(z) in arithmetic with this ``eps``."""
        with np.errstate(all="ignore"):
            point = np.asarray(z, dtype=LONG)
            center, precision, A, h, cost = self.long()
            steps = (self.size + 8) * eps
            sizes = np.abs(point) + np.abs(center)
            size = np.abs(A) @ sizes + np.abs(h)
            slack = by_group(
                np.where(A @ point + h + steps * size > 0, size, 0), self.group, len(cost)
            )
            slack = steps * slack
            if self.squared:
                slack = slack * (2 * self.maxima(point) + slack)
            off, spread = np.abs(point - center), np.abs(precision)
            pull = spread * off if spread.ndim == 1 else spread @ off
            terms = len(cost) * eps * (cost @ self.maxima(point) ** (2 if self.squared else 1))
            return float(cost @ slack + steps * (pull @ sizes) + terms)


def by_group(scores: LongArray, group: npt.NDArray[np.int64], groups: int) -> LongArray:
    """The maximum over each group, at least 0."""
    top = np.zeros(groups, dtype=scores.dtype)
    np.maximum.at(top, group, scores)
    return top
