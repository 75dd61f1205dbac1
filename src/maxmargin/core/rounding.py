"""Bounds on rounding errors of sums in double precision.

A sum of n products, computed in any order, has an error of at most gamma(n) times the sum of their
absolute values. So a plane X'g, computed as a, differs from the exact one by a vector of norm

    |a - X'g|  <=  gamma(n) sum_i |g_i| |x_i|,

and its cut may lie above the risk R at a point v by at most ``error * (1 + |v|)`` with this ``error`` (plus
the rounding of the offset). The optimum w* has a norm of at most sqrt(2 F) for any attained value F.
Subtracting ``error * (1 + sqrt(2 F))`` per unit of the multipliers from a dual value therefore gives a valid
lower bound.

gamma(n) is n units of rounding for short sums, which is a proven bound. For long ones it is 8 sqrt(n): random
errors exceed it with a probability below 1e-13 (Higham and Mary, 2019).

Usually all this is far below any tolerance. Errors whose bound is at most 1e-10 of F are not computed
individually: ``level(n)`` times F is subtracted from the lower bound instead. This depends on the number of
rows only, so that results are bit-identical wherever the rows are. (It may be less than the bound on the
error: this is a judgment, not a proof.) Larger errors are rounded up to a power of two before they are
subtracted, for the same reason.
"""

from __future__ import annotations

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
UNSEEN = 1e-10


def gamma(n: int) -> float:
    """Bound on the relative error of a sum of ``n`` products and of a few operations with it."""
    return (min(float(n), 8.0 * sqrt(n)) + AROUND) * UNIT


def level(n: int) -> float:
    """The fraction of F that is always subtracted from a lower bound for rounding over ``n`` rows."""
    return CANCELLING * gamma(n)


def unseen(n: int) -> float:
    """The fraction of F up to which error bounds are ignored."""
    return max(UNSEEN, level(n))


def paid(error: float, negligible: float) -> float:
    """The amount to subtract for an error: 0 if it is negligible, otherwise rounded up to a power of two."""
    if error <= negligible:
        return 0.0
    return float(2.0 ** np.ceil(np.log2(error))) if np.isfinite(error) else error


class Attained(NamedTuple):
    """An attained value of F, and the size of error that is negligible relative to it."""

    upper: float
    negligible: float = 0.0

    @classmethod
    def by(cls, upper: float, n: int) -> Attained:
        """Use the error that is negligible for ``n`` rows."""
        return cls(upper, unseen(n) * abs(upper))
