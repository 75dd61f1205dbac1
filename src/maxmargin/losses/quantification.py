"""Quantification errors: losses of the estimated prevalence, for training quantifiers.

A classify-and-count quantifier errs by m - P, the number of samples predicted as positive minus the number of
positive samples. The true and estimated prevalences are P / n and m / n. Where a formula could divide by
zero, they are smoothed to (P + 1/2) / (n + 1) and (m + 1/2) / (n + 1).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from maxmargin.compiled import measures
from maxmargin.core.checks import number, one_of
from maxmargin.core.vectors import Array
from maxmargin.losses.confusion_matrix import ConfusionMatrixLoss

ErrorName = Literal["ae", "nae", "rae", "kld", "nkld"]


class QuantificationLoss(ConfusionMatrixLoss):
    """n times a quantification error as a structured hinge loss over labelings; a cut costs O(n log n).

    Parameters
    ----------
    error : {"ae", "nae", "rae", "kld", "nkld"}, default "ae"
        Absolute error; normalized absolute error; relative absolute error, averaged over the two classes;
        Kullback-Leibler divergence of the estimated from the true prevalence; the same normalized to [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import QuantificationLoss
    >>> QuantificationLoss("ae").value(np.zeros(4), np.array([1.0, -1.0, -1.0, -1.0]), np.ones(4))
    3.0
    """

    def __init__(self, error: ErrorName = "ae") -> None:
        self.error = one_of("error", error, get_args(ErrorName))

    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """See :meth:`ConfusionMatrixLoss.loss`."""
        positive, negative = tp + fn, fp + tn
        return self._of_count(tp + fp, positive, negative)

    def _of_count(self, m: Any, P: Any, N: Any) -> Any:
        n, off = P + N, np.abs(m - P)
        if self.error == "ae":
            return off / n
        if self.error == "nae":
            return off / np.maximum(P, N)
        if self.error == "rae":
            return 0.5 * off * (1.0 / (P + 0.5) + 1.0 / (N + 0.5))
        p, q = (P + 0.5) / (n + 1.0), (m + 0.5) / (n + 1.0)
        divergence = p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))
        divergence = np.maximum(0.0, divergence) * (off > 0)  # exactly 0 if the count is correct
        return divergence if self.error == "kld" else np.tanh(0.5 * divergence)

    def best_matrix(self, low: Array, high: Array) -> tuple[int, int]:
        """See :meth:`ConfusionMatrixLoss.best_matrix`."""
        P, N = len(low), len(high)
        delta = (P + N) * self._of_count(np.arange(P + N + 1), P, N)
        fn, fp = measures.best_count(low, high, delta)
        return int(fn), int(fp)


class QMeasure(ConfusionMatrixLoss):
    """n (1 - Q) as a structured hinge loss over labelings; a cut costs O(n log n).

    Q is the F_beta-weighted harmonic mean of recall and ``1 - |m - P| / max(P, N)``, the accuracy of the
    number m of samples predicted as positive.

    Parameters
    ----------
    beta : float, default 1.0
        Weight of the count relative to recall, as in F_beta.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import QMeasure
    >>> QMeasure().value(np.zeros(4), np.array([1.0, -1.0, -1.0, -1.0]), np.ones(4))
    4.0
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = number("beta", beta, positive=True)

    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """See :meth:`ConfusionMatrixLoss.loss`."""
        positive, weight = tp + fn, self.beta**2
        recall = tp / positive
        count = 1.0 - np.abs(tp + fp - positive) / np.maximum(positive, fp + tn)
        total = weight * recall + count
        score = (1.0 + weight) * count * recall / np.where(total > 0.0, total, 1.0)
        return 1.0 - score

    def best_matrix(self, low: Array, high: Array) -> tuple[int, int]:
        """See :meth:`ConfusionMatrixLoss.best_matrix`."""
        fn, fp = measures.best_q(low, high, self.beta**2)
        return int(fn), int(fp)
