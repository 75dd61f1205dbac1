"""The rule by which bounds account for rounding in double precision.

A sum of n products, computed in any order, has an error of at most gamma(n) times the sum of their absolute
values. An affine function of v, offset + <plane, v>, whose coefficients are such sums, is therefore wrong by
at most

    gamma(n) (size of the offset + size of the plane |v|)                                            (*)

where the sizes are the sums of the absolute values of the terms (:class:`Scale`). For a plane X'g the size is
sum_i |g_i| |x_i|. The same rule serves both bounds:

* a cut keeps ``error`` = gamma(n) times both sizes, so it lies above the risk by at most ``error (1 + |v|)``;
  the optimum has a norm of at most sqrt(2 F) for any attained value F;
* the dual value of multipliers is that of their aggregate cut at its own point u = X'g: (*) at |u|;
* the slopes of the losses in R(w) multiply the errors of the scores: (*) at |w|, with the steepest slopes.

A bound on the error is subtracted from the lower bound and added to the upper one. It is of first order: what
a loss or a search for a maximum does with rounded numbers besides is not followed. For a few rows in memory
the final check uses scores that are rounded once (:mod:`maxmargin.duals.proofs`). If the errors exceed the
tolerance, the fit ends with the reason "rounding".

gamma(n) is n units of rounding for short sums, which is a proven bound. For long ones it is 8 sqrt(n): random
errors exceed it with a probability below 1e-13 (Higham and Mary, 2019).

Usually all this is far below any tolerance. Errors whose bound is at most 1e-10 of F are not computed
individually: ``level(n)`` times F is subtracted from the lower bound instead. This depends on the number of
rows only, so that results are bit-identical wherever the rows are. (It may be less than the bound on the
error: this is a judgment, not a proof.) Larger errors are rounded up to a power of two before they are
subtracted, for the same reason.

References:

- N. J. Higham and T. Mary, "A new approach to probabilistic rounding error analysis", SIAM Journal on
  Scientific Computing 41 (2019), A2815-A2835, https://doi.org/10.1137/18M1226312
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

#: unit roundoff of double precision: the largest relative error of one operation
UNIT = float(np.finfo(np.float64).eps) / 2.0
#: operations around a sum that are not counted individually: products, sums over shards, final roundings
AROUND = 40
#: assumed ratio of the terms' magnitudes to their sum where errors are not computed individually
CANCELLING = 100.0
#: error bounds up to this fraction of F are ignored: they are usually far too pessimistic
NEGLIGIBLE = 1e-10


def gamma(n: int) -> float:
    """Bound on the relative error of a sum of ``n`` products and of a few operations with it."""
    return (min(float(n), 8.0 * sqrt(n)) + AROUND) * UNIT


def level(n: int) -> float:
    """The fraction of F that is always subtracted from a lower bound for rounding over ``n`` rows."""
    return CANCELLING * gamma(n)


def negligible_fraction(n: int) -> float:
    """The fraction of F up to which error bounds are ignored."""
    return max(NEGLIGIBLE, level(n))


def correction(error: float, negligible: float) -> float:
    """The amount to subtract for an error: 0 if it is negligible, otherwise rounded up to a power of two."""
    if error <= negligible:
        return 0.0
    return float(2.0 ** np.ceil(np.log2(error))) if np.isfinite(error) else error


@dataclass(frozen=True, slots=True)
class Scale:
    """The sums of the absolute values of the terms of an offset and of a plane, and their number."""

    offset: float = 0.0
    plane: float = 0.0
    terms: int = 0

    def __add__(self, other: Scale) -> Scale:
        return Scale(self.offset + other.offset, self.plane + other.plane, self.terms + other.terms)

    def of_cut(self) -> float:
        """Bound on the error of a cut, per unit of 1 + |v|."""
        return gamma(self.terms) * (self.offset + self.plane)

    def error(self, radius: float, unit: float) -> float:
        """Bound on the error of the dual value at a point of this norm, if products and sums have relative
        errors of ``unit``."""
        return unit * (self.offset + self.plane * (radius + unit * self.plane))


class UpperBound(NamedTuple):
    """An attained value of F, and the size of error that is negligible relative to it."""

    upper: float
    negligible: float = 0.0

    @classmethod
    def by(cls, upper: float, n: int) -> UpperBound:
        """Use the error that is negligible for ``n`` rows."""
        return cls(upper, negligible_fraction(n) * abs(upper))
