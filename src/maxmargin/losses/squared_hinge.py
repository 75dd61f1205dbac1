"""The squared hinge loss."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import squared_hinge
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss
from maxmargin.losses.dual_terms import DualTerms


class SquaredHinge(ScoreLoss):
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

    def __init__(self, margin: float = 1.0) -> None:
        self.margin = float(margin)

    def dual_terms(self, y: Labels) -> DualTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        return DualTerms(y, self.margin, steepest=np.inf, curvature=0.5)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        if not ((y == 1.0) | (y == -1.0)).all():
            raise ValueError("labels of the squared hinge loss must be -1 or +1.")

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        gradient = np.empty_like(scores)
        return squared_hinge.cut(scores, y, weight, self.margin, gradient), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return float(squared_hinge.value(scores, y, weight, self.margin))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        out = np.zeros(len(ts))
        squared_hinge.slopes(scores, other, y, weight, self.margin, ts, out)
        return out
