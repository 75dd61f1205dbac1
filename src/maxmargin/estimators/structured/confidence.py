"""Confidence of predicted labels: the probability that a label is right, as a function of its margin.

The margin of a token is the score of the best labeling minus that of the best labeling with another label at
this token (a difference of max-marginals). Held-out data show how often labels of a given margin are right.
The function is stored as a table of margins and confidences, between which values are interpolated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array

#: knots of a sigmoid; interpolation between them is exact to 1e-4
SIGMOID_KNOTS = 257


def margins_of(max_marginals: Array) -> Array:
    """How much the best labeling is better than the best one with another label; inf if there is none."""
    if max_marginals.shape[1] == 1:
        return np.full(len(max_marginals), np.inf)
    two = np.partition(max_marginals, -2, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]


def calibration_table(margins: Array, right: npt.NDArray[np.bool_], method: str) -> Array:
    """The table of a calibration: margins in the first row, confidences in the second.

    Confidences are at least 1 / (n + 2) and at most 1 - 1 / (n + 2): n tokens prove no certainty.
    """
    finite = margins[np.isfinite(margins)]
    margins = np.minimum(margins, finite.max(initial=0.0))
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        found: Any = IsotonicRegression(y_min=0.0, y_max=1.0).fit(margins, right)
        table = np.stack([found.X_thresholds_, found.y_thresholds_])
    else:
        table = _sigmoid_table(margins, right)
    least = 1.0 / (len(right) + 2.0)
    table[1] = np.clip(table[1], least, 1.0 - least)
    return table


def _sigmoid_table(margins: Array, right: npt.NDArray[np.bool_]) -> Array:
    if right.all() or not right.any():
        return np.array([[0.0], [float(right[0])]])
    scale = margins.mean() or 1.0
    from sklearn.linear_model import LogisticRegression  # not before it is needed: it imports much

    found: Any = LogisticRegression(C=1e6).fit(margins[:, None] / scale, right)
    slope, offset = max(0.0, float(found.coef_[0, 0])) / scale, float(found.intercept_[0])
    # from margin 0 to the largest, but not far into the flat part, where knots would be wasted
    end = float(margins.max(initial=0.0))
    if slope > 0.0:
        end = min(end, max(0.0, (16.0 - offset) / slope))
    knots = np.linspace(0.0, end, SIGMOID_KNOTS) if end > 0.0 else np.zeros(1)
    return np.stack([knots, 1.0 / (1.0 + np.exp(-(slope * knots + offset)))])
