"""Logistic losses: binary and multinomial."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import logistic, softmax
from maxmargin.core.checks import integer, signs
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss, require_classes
from maxmargin.losses.column_terms import ColumnTerms, LogisticTerms, SoftmaxTerms
from maxmargin.losses.derivatives import LogisticMargin, NewtonTerms, Softmax


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

    def column_terms(self) -> ColumnTerms:
        """See :meth:`ScoreLoss.column_terms`."""
        return LogisticTerms()

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        signs("the logistic loss", y)

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


class Multinomial(ScoreLoss):
    """sum_i c_i (log sum_k exp(S_ik) - S_iy_i) with y in 0..K-1: the negative log probability of the labels,
    if the probabilities of the classes are proportional to exp(S_ik).

    Parameters
    ----------
    n_classes : int
        K, the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import Multinomial
    >>> round(Multinomial(4).value(np.zeros((1, 4)), np.array([2]), np.ones(1)), 6)
    1.386294
    """

    label_kind = "class"
    smooth = True

    def __init__(self, n_classes: int) -> None:
        self.n_classes: int = integer("n_classes", n_classes, 2)

    def newton_terms(self, y: Labels) -> NewtonTerms:
        """See :meth:`ScoreLoss.newton_terms`."""
        return NewtonTerms(y, Softmax(y, self.n_classes))

    def column_terms(self) -> ColumnTerms:
        """See :meth:`ScoreLoss.column_terms`."""
        return SoftmaxTerms()

    def n_outputs(self) -> int | None:
        """One score per class."""
        return self.n_classes

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        require_classes(y, self.n_classes)

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        gradient = np.empty_like(scores)
        return softmax.cut(scores, y, weight, np.empty(self.n_classes), gradient), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return float(softmax.value(scores, y, weight, np.empty(self.n_classes)))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        out, p, at = np.zeros(len(ts)), np.empty(self.n_classes), np.empty((1, self.n_classes))
        softmax.slopes(scores, other, y, weight, ts, p, at, out)
        return out
