"""The squared hinge loss, for two classes and one-vs-rest."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import squared_hinge
from maxmargin.core.checks import signs
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss, require_classes
from maxmargin.losses.column_terms import ColumnTerms, SquaredHingeTerms
from maxmargin.losses.dual_terms import DualTerms
from maxmargin.losses.hinge import CompiledLoss


class SquaredHinge(CompiledLoss):
    """sum_i c_i max(0, margin - y_i s_i)^2 with y in {-1, +1}: scikit-learn's ``loss="squared_hinge"``.

    Parameters
    ----------
    margin : float, default 1.0
        As in :class:`Hinge`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.losses import SquaredHinge
    >>> from maxmargin.risks import ScoreRisk
    >>> X, y = np.array([[2.0], [-1.0]]), np.array([1.0, -1.0])
    >>> result = minimize(ScoreRisk(X, y, SquaredHinge()), C=1.0)
    >>> round(result.objective, 3), result.certificate
    (0.333, 'exact')
    """

    label_kind = "sign"
    smooth = True
    _compiled = squared_hinge

    def __init__(self, margin: float = 1.0) -> None:
        self.margin = float(margin)

    def dual_terms(self, y: Labels) -> DualTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        return DualTerms(y, self.margin, steepest=np.inf, curvature=0.5)

    def column_terms(self) -> ColumnTerms:
        """See :meth:`ScoreLoss.column_terms`."""
        return SquaredHingeTerms(self.margin)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        signs("the squared hinge loss", y)

    def _arguments(self, y: Labels) -> tuple[Labels, float]:
        return y, self.margin


class OneVsRestSquaredHinge(ScoreLoss):
    """The squared hinge losses of all classes against their rest, with y in 0..K-1: one problem for the K
    problems of one-vs-rest.

    Parameters
    ----------
    n_classes : int
        K, the number of classes.
    margin : float, default 1.0
        As in :class:`Hinge`.
    factors : array of shape (n_classes,), optional
        By which the weights of the samples of each class are multiplied in the problem of this class.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import OneVsRestSquaredHinge
    >>> OneVsRestSquaredHinge(3).value(np.array([[0.5, -2.0, 0.0]]), np.array([0]), np.ones(1))
    1.25
    """

    label_kind = "class"
    smooth = True

    def __init__(self, n_classes: int, margin: float = 1.0, factors: Array | None = None) -> None:
        self.n_classes, self.margin = int(n_classes), float(margin)
        #: None if all are 1
        self.factors: Array | None = None
        if factors is not None and (np.asarray(factors) != 1.0).any():
            self.factors = np.array(factors, dtype=np.float64)
            self.heaviest = max(1.0, float(self.factors.max()))

    def n_outputs(self) -> int | None:
        """One score per class."""
        return self.n_classes

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        require_classes(y, self.n_classes)

    def column_terms(self) -> ColumnTerms:
        """See :meth:`ScoreLoss.column_terms`."""
        return SquaredHingeTerms(self.margin, classes=True, factors=self.factors)

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        sign, short = self._short(scores, y)
        c = self._weights(y, weight)
        gradient = -2.0 * c * sign * short
        # short^2 - gradient s = short^2 + 2 short (margin - short)
        return float(np.sum(c * (short * (2.0 * self.margin - short)))), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return float(np.sum(self._weights(y, weight) * self._short(scores, y)[1] ** 2))

    def _weights(self, y: Labels, weight: Array) -> Array:
        """The weight of each sample, in each problem if they differ."""
        out = weight[:, None]
        if self.factors is not None:
            out = np.repeat(out, self.n_classes, axis=1)
            out[np.arange(len(y)), y] *= self.factors[y]
        return out

    def _short(self, scores: Array, y: Labels) -> tuple[Array, Array]:
        """The sign of each score, and by how much it falls short of the margin."""
        sign = np.full(scores.shape, -1.0)
        sign[np.arange(len(y)), y] = 1.0
        return sign, np.maximum(0.0, self.margin - sign * scores)
