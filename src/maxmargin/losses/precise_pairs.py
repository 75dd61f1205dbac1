"""Sums over pairs of samples in twice the precision of doubles, for small data."""

from __future__ import annotations

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.losses.base import difference

#: maximum number of pairs
MOST = 1_000_000


def pair_sum(high: Array, low: Array, off: Array, importance: Array) -> float:
    """Upper bound on the sum over i, j of importance[i, j] max(0, 1 - (s_i - s_j)), for scores high + low
    with errors of at most ``off``."""
    apart, lost = difference(high[:, None], high)
    short, more = difference(1.0, apart)
    rest = more - lost - (low[:, None] - low) + (off[:, None] + off)
    return float(np.sum(importance * np.maximum(0.0, short + rest)))
