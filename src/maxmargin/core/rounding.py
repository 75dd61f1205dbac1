"""What rounding may do to sums in double precision: bounds, not estimates.

A sum of n products, in whatever order it is computed, is wrong by at most gamma(n) times the sum of their
absolute values. So a plane X'g, computed as a, differs from the true one by a vector of length

    |a - X'g|  <=  gamma(n) sum_i |g_i| |x_i|,

and a cut made of it may lie above the risk R at a point v, but not by more than ``error * (1 + |v|)`` with
this ``error`` (and what summing up the offset adds). The optimum w* has a norm of at most sqrt(2 F) for any
attained value F, so a dual point pays ``error * (1 + sqrt(2 F))`` for each unit of its multipliers, and what
is left is a true lower bound.
"""

from __future__ import annotations

import numpy as np

#: of double precision: the largest relative error of one operation
UNIT = float(np.finfo(np.float64).eps) / 2.0
#: operations around a sum that are not counted one by one: products, sums over shards, the last roundings
AROUND = 40
#: an error of this share of a value is too small to look at more closely
NEGLIGIBLE = 1e-11


def gamma(n: int) -> float:
    """The relative error of a sum of ``n`` products, and of a few operations with it."""
    return (n + AROUND) * UNIT
