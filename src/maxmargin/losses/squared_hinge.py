"""The squared hinge loss."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import squared_hinge
from maxmargin.losses.base import Labels
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

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        if not ((y == 1.0) | (y == -1.0)).all():
            raise ValueError("labels of the squared hinge loss must be -1 or +1.")

    def _arguments(self, y: Labels) -> tuple[Labels, float]:
        return y, self.margin
