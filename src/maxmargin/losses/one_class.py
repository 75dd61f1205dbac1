"""Loss of the one-class SVM."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import hinge
from maxmargin.losses.base import Labels
from maxmargin.losses.dual_terms import DualTerms
from maxmargin.losses.hinge import CompiledLoss


class OneClass(CompiledLoss):
    """sum_i c_i max(0, 1 - s_i): every sample should score at least one. Labels are ignored.

    This is the one-class SVM with its threshold rho fixed at one, so that w is the only variable. The two
    forms are equivalent: if (v, rho) minimizes
    ``1/2 |v|^2 - rho + (1 / (nu n)) sum_i max(0, rho - <v, x_i>)``, then w = v / rho minimizes
    ``1/2 |w|^2 + C sum_i max(0, 1 - <w, x_i>)`` with C = 1 / (nu n rho), and ``<w, x> >= 1`` is equivalent
    to ``<v, x> >= rho``.
    Samples should have unit norm (or another common norm), without a constant feature: the class is the
    half-space ``<w, x> >= 1``, which excludes the origin.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.losses import OneClass
    >>> from maxmargin.risks import ScoreRisk
    >>> X = np.array([[0.6, 0.8], [0.8, 0.6], [1.0, 0.0], [-1.0, 0.0]])
    >>> result = minimize(ScoreRisk(X, np.zeros(4), OneClass()), C=1.0)
    >>> [round(float(score), 2) for score in X @ result.w]
    [1.0, 1.0, 0.71, -0.71]
    """

    label_kind = "none"
    margin = 1.0
    _compiled = hinge

    def dual_terms(self, y: Labels) -> DualTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        return DualTerms(np.ones(len(y)), self.margin)

    def _arguments(self, y: Labels) -> tuple[Labels, float]:
        return np.ones(len(y)), self.margin
