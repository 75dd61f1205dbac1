"""The logistic loss."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import logistic
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss
from maxmargin.losses.derivatives import LogisticMargin, NewtonTerms


class Logistic(ScoreLoss):
    """sum_i c_i log(1 + exp(-y_i s_i)) with y in {-1, +1}, computed without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.losses import Logistic
    >>> from maxmargin.risks import ScoreRisk
    >>> X, y = np.array([[2.0], [-1.0]]), np.array([1.0, -1.0])
    >>> result = minimize(ScoreRisk(X, y, Logistic()), C=1.0)
    >>> round(result.objective, 3), result.certificate
    (0.868, 'exact')
    """

    label_kind = "sign"
    smooth = True

    def newton_terms(self, y: Labels) -> NewtonTerms:
        """See :meth:`ScoreLoss.newton_terms`."""
        return NewtonTerms(y, LogisticMargin())

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        if not ((y == 1.0) | (y == -1.0)).all():
            raise ValueError("labels of the logistic loss must be -1 or +1.")

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        gradient = np.empty_like(scores)
        return logistic.cut(scores, y, weight, gradient), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return float(logistic.value(scores, y, weight))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        out = np.zeros(len(ts))
        logistic.slopes(scores, other, y, weight, ts, out)
        return out
