"""Upper bounds on losses for scores in twice the precision of doubles."""

from __future__ import annotations

import numpy as np

from maxmargin.core.rounding import UNIT, gamma
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss, difference

#: maximum number of pairs
MOST = 1_000_000


def pair_sum(high: Array, low: Array, off: Array, importance: Array) -> float:
    """Upper bound on the sum over i, j of importance[i, j] max(0, 1 - (s_i - s_j)), for scores high + low
    with errors of at most ``off``."""
    apart, lost = difference(high[:, None], high)
    short, more = difference(1.0, apart)
    rest = more - lost - (low[:, None] - low) + (off[:, None] + off)
    return float(np.sum(importance * np.maximum(0.0, short + rest)))


def value_by_slopes(
    loss: ScoreLoss,
    high: Array,
    low: Array,
    off: Array,
    y: Labels,
    weight: Array,
    center: Array | float,
) -> float:
    """Upper bound on the loss of the scores high + low - center with errors of at most ``off``.

    The loss is computed in double precision at the rounded scores s. Its slopes limit what the rounding of s
    costs, and the error of a maximum over sums of slopes times scores. So the bound is tight if s is not much
    larger than its differences: subtract a center of the scores from a loss that does not depend on it.
    """
    apart, lost = difference(high, center)
    rest = lost + low
    s = apart + rest
    error = np.abs(apart - s + rest) + UNIT * (np.abs(s) + 2.0 * np.abs(rest)) + off
    limits = loss.slope_limits(y, weight)
    value = loss.value(s, y, weight)
    size = abs(value) + float(limits @ np.abs(s))
    return value + float(limits @ error) + gamma(2 * len(y)) * size
