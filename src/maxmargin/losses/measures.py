"""Non-decomposable metrics for two classes: F_beta, break-even point, precision and recall at k.

References:

- T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
  https://doi.org/10.1145/1102351.1102399
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from maxmargin.compiled import measures
from maxmargin.core.checks import integer, number, one_of
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels
from maxmargin.losses.confusion_matrix import ConfusionMatrixLoss

NUMBER = (int, float, np.integer, np.floating)


class FBeta(ConfusionMatrixLoss):
    """n (1 - F_beta) as a structured hinge loss over labelings; a cut costs O(n log n).

    F_beta = (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp): recall is weighted beta times as much as
    precision.

    Parameters
    ----------
    beta : float, default 1.0
        With 1, F_beta is the harmonic mean of precision and recall.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import FBeta
    >>> FBeta().value(np.zeros(4), np.array([1.0, -1.0, -1.0, -1.0]), np.ones(4))
    4.0
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = number("beta", beta, positive=True)

    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """See :meth:`ConfusionMatrixLoss.loss`."""
        weight = self.beta**2
        return (weight * fn + fp) / ((1.0 + weight) * tp + weight * fn + fp)

    def best_matrix(self, low: Array, high: Array) -> tuple[int, int]:
        """See :meth:`ConfusionMatrixLoss.best_matrix`."""
        fn, fp = measures.best_f_beta(low, high, self.beta**2)
        return int(fn), int(fp)


class AtK(ConfusionMatrixLoss):
    """Precision or recall at k: labelings have exactly k positives. A cut costs O(n log n).

    The loss is 1 - tp / k or 1 - tp / P, where P is the number of positive samples. With k = P both equal one
    minus the precision-recall break-even point (PRBEP), and adding a constant to all scores leaves the loss
    unchanged.

    Parameters
    ----------
    kind : {"precision", "recall"}, default "precision"
        The metric.
    k : int, optional
        Number of samples predicted as positive; P by default.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import AtK
    >>> AtK("precision", k=1).value(np.array([3.0, 1.0, 2.5]), np.array([1.0, 1.0, -1.0]), np.ones(3))
    1.5
    """

    def __init__(
        self, kind: Literal["precision", "recall"] = "precision", k: int | None = None
    ) -> None:
        self.kind = one_of("kind", kind, ("precision", "recall"))
        self.k: int | None = integer("k", k, optional=True)

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        """See :class:`ScoreLoss`; true for k = P, the number of positives."""
        return self.k is None

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        super().check_labels(y)
        if self.k is not None and self.k > len(y):
            raise ValueError(f"k={self.k} exceeds the number of samples, {len(y)}.")

    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """See :meth:`ConfusionMatrixLoss.loss`."""
        k = tp + fn if self.k is None else self.k
        base = k if self.kind == "precision" else tp + fn
        return np.where(tp + fp == k, 1.0 - tp / base, -1.0)

    def best_matrix(self, low: Array, high: Array) -> tuple[int, int]:
        """See :meth:`ConfusionMatrixLoss.best_matrix`."""
        P, N = len(low), len(high)
        k = P if self.k is None else self.k
        tp = np.arange(max(0, k - N), min(k, P) + 1)
        fn, fp = P - tp, k - tp
        missed = np.concatenate([[0.0], -np.cumsum(low)])
        taken = np.concatenate([[0.0], np.cumsum(high)])
        value = (P + N) * self.loss(tp, fp, fn, N - fp) + missed[fn] + taken[fp]
        best = int(np.argmax(value))
        return int(fn[best]), int(fp[best])
