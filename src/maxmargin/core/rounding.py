"""What rounding may do to sums in double precision.

A sum of n products, in whatever order it is computed, is wrong by at most gamma(n) times the sum of their
absolute values. So a plane X'g, computed as a, differs from the true one by a vector of length

    |a - X'g|  <=  gamma(n) sum_i |g_i| |x_i|,

and a cut made of it may lie above the risk R at a point v, but not by more than ``error * (1 + |v|)`` with
this ``error`` (and what summing up the offset adds). The optimum w* has a norm of at most sqrt(2 F) for any
attained value F, so a dual point pays ``error * (1 + sqrt(2 F))`` for each unit of its multipliers, and what
is left is a true lower bound.

gamma(n) is n units of rounding for short sums, where that is a proof. For long ones it is 8 sqrt(n): errors
that do not conspire exceed it with a probability below 1e-13 (Higham and Mary, 2019).

Mostly all this is far below any tolerance. Errors whose bound is at most 1e-10 of F are not looked at one by
one: the lower bound pays ``level(n)`` of F, which depends on the number of rows alone, so that results are
bit-identical wherever the rows are. (That may be less than the bound of the error: so far it is a judgement,
not a proof.) Larger ones are rounded up to a power of two before they are paid, for
the same reason.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

#: of double precision: the largest relative error of one operation
UNIT = float(np.finfo(np.float64).eps) / 2.0
#: operations around a sum that are not counted one by one: products, sums over shards, the last roundings
AROUND = 40
#: how many times as large as their sum terms are assumed to be where nobody looks
CANCELLING = 100.0
#: errors up to this share of F are not looked at: bounds of them are far too large as a rule
UNSEEN = 1e-10


def gamma(n: int) -> float:
    """The relative error of a sum of ``n`` products, and of a few operations with it."""
    return (min(float(n), 8.0 * sqrt(n)) + AROUND) * UNIT


def level(n: int) -> float:
    """The share of F that a lower bound pays for rounding over ``n`` rows in any case."""
    return CANCELLING * gamma(n)


def unseen(n: int) -> float:
    """The share of F up to which the bound of an error is not looked at."""
    return max(UNSEEN, level(n))


def paid(error: float, negligible: float) -> float:
    """What is paid for an error: nothing more if it is negligible."""
    if error <= negligible:
        return 0.0
    return float(2.0 ** np.ceil(np.log2(error))) if np.isfinite(error) else error


class Attained(NamedTuple):
    """A value that F attains, and an error that is negligible beside it."""

    upper: float
    negligible: float = 0.0

    @classmethod
    def by(cls, upper: float, n: int) -> Attained:
        """With the error that is negligible for so many rows."""
        return cls(upper, unseen(n) * abs(upper))
