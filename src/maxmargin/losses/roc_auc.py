"""ROC AUC and balanced error: losses of two classes that depend on the total weight of each class."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import measures
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss
from maxmargin.losses.confusion_matrix import check_two_classes
from maxmargin.losses.hinge import Hinge


class RocAuc(ScoreLoss):
    """n (1 - ROC AUC) with a margin: n / (P N) sum over pairs of max(0, 1 - (s_i - s_j)).

    Sample i is positive and j negative; P, N and n are the total weights of the positive, the negative and
    all samples. A cut costs O(n log n). Adding a constant to all scores leaves the loss unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import RocAuc
    >>> RocAuc().value(np.array([1.0, 0.5, 0.0]), np.array([1.0, -1.0, -1.0]), np.ones(3))
    0.75
    """

    decomposable = False
    expensive_slopes = True
    label_kind = "sign"
    shift_invariant = True
    exact_demands = True

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        check_two_classes(y, "ROC AUC")

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        _, offset, gradient = self._pairs(scores, y, weight)
        return offset, gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return self._pairs(scores, y, weight)[0]

    @staticmethod
    def _pairs(scores: Array, y: Labels, weight: Array) -> tuple[float, float, Array]:
        rows = np.flatnonzero(y > 0), np.flatnonzero(y <= 0)
        sorted_rows = [r[np.argsort(scores[r])] for r in rows]
        gradient = np.empty(len(scores))
        total, offset = measures.pair_hinge(scores, weight, *sorted_rows, gradient)
        P, N = (float(np.sum(weight[r])) for r in rows)
        scale = (P + N) / (P * N) if P * N > 0.0 else 0.0
        return scale * total, scale * offset, scale * gradient


class BalancedError(ScoreLoss):
    """n times the mean of the two class error rates, as a structured hinge loss over labelings.

    This is the sum over samples of max(0, n / (2 P) - s_i) for positives and max(0, n / (2 N) + s_i) for
    negatives, with total weights P, N and n: the rarer class gets the larger margin.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import BalancedError
    >>> BalancedError().value(np.array([1.0, 0.5, 0.0]), np.array([1.0, -1.0, -1.0]), np.ones(3))
    2.5
    """

    decomposable = False
    label_kind = "sign"
    _hinge = Hinge()

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        check_two_classes(y, "the balanced error")

    @staticmethod
    def _margins(y: Labels, weight: Array) -> Array:
        """Required margins m; max(0, m - y s) = m max(0, 1 - y s / m), a hinge loss of scaled scores."""
        positive = y > 0
        P, N = float(np.sum(weight[positive])), float(np.sum(weight[~positive]))
        n = P + N
        return np.where(positive, n / (2.0 * P) if P else 1.0, n / (2.0 * N) if N else 1.0)

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        m = self._margins(y, weight)
        offset, gradient = self._hinge.cut(scores / m, y, weight * m)
        return offset, gradient / m

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        m = self._margins(y, weight)
        return self._hinge.slopes(scores / m, other / m, y, weight * m, ts)

    def breakpoints(
        self,
        scores: Array,
        other: Array,
        y: Labels,
        weight: Array,
        lo: float,
        hi: float,
        limit: int,
    ) -> tuple[Array, Array] | None:
        """See :meth:`ScoreLoss.breakpoints`."""
        m = self._margins(y, weight)
        return self._hinge.breakpoints(scores / m, other / m, y, weight * m, lo, hi, limit)
