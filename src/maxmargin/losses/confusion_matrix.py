"""Losses of confusion matrices: a base class for non-decomposable metrics, and any metric on small data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from maxmargin.compiled import measures
from maxmargin.core.checks import one_of, signs
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss
from maxmargin.losses.confusion_matrix_search import Errors, best_concave_matrix, check_concave

#: limit on the confusion matrices enumerated for every cut: n = 4,000 samples if half of them are positive
MAX_MATRICES = 4_000_000

#: loss(tp, fp, fn, tn) of a confusion matrix; 0 if there are no errors
Measure = Callable[[Any, Any, Any, Any], Any]
Rescaling = Literal["margin", "slack"]


class ConfusionMatrixLoss(ScoreLoss):
    """max over labelings v of Delta(v) + sum_i 1/2 (v_i - y_i) s_i with y in {-1, +1}.

    Delta(v) = n loss(tp, fp, fn, tn) is the loss of the confusion matrix of v; the maximum includes Delta(y)
    = 0. A subclass implements ``loss``. If the loss is concave in the number of false negatives or false
    positives, set ``concave_in``, and the best confusion matrix is found in O(n log n). Otherwise override
    ``best_matrix``, or all confusion matrices are enumerated, which is feasible for small data only.

    Examples
    --------
    The Jaccard index, 1 - (fn + fp) / (P + fp), concave in fp:

    >>> import numpy as np
    >>> from maxmargin import MeasureSVC
    >>> from maxmargin.losses import ConfusionMatrixLoss
    >>> class Jaccard(ConfusionMatrixLoss):
    ...     concave_in = "fp"
    ...     def loss(self, tp, fp, fn, tn):
    ...         return (fn + fp) / (tp + fn + fp)
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> svc = MeasureSVC(Jaccard()).fit(X, X[:, 0] > 1.0)
    >>> svc.converged_, svc.certificate_
    (True, 'exact')
    """

    decomposable = False
    weighted = False
    expensive_slopes = True
    label_kind = "sign"
    #: "fn" or "fp" if the loss is concave in the number of these errors for any number of the other
    concave_in: ClassVar[Errors | None] = None

    @abstractmethod
    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """Loss of a confusion matrix, or of arrays of them, per sample; negative if the matrix is not
        allowed."""

    def best_matrix(self, low: Array, high: Array) -> tuple[int, int]:
        """(false negatives, false positives) of the best confusion matrix; ``low`` holds the positive scores
        in ascending order, ``high`` the negative scores in descending order."""
        if self.concave_in is not None:
            return best_concave_matrix(self.loss, low, high, self.concave_in)
        delta = (len(low) + len(high)) * confusion_matrix_losses(self, len(low), len(high))
        fn, fp = measures.best_enumerated(low, high, delta, False)
        return int(fn), int(fp)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        name = type(self).__name__
        check_two_classes(y, name)
        if (
            self.concave_in is not None
            and type(self).best_matrix is ConfusionMatrixLoss.best_matrix
        ):
            one_of("concave_in", self.concave_in, ("fn", "fp"))
            check_concave(self.loss, int(np.sum(y > 0)), int(np.sum(y <= 0)), self.concave_in, name)

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`; weights must be ones."""
        return self._cut(scores, y, slack=False)

    def _cut(self, scores: Array, y: Labels, *, slack: bool) -> tuple[float, Array]:
        positive = y > 0
        low = np.sort(scores[positive])
        high = np.ascontiguousarray(np.sort(scores[~positive])[::-1])
        fn, fp = self.best_matrix(low, high)
        gradient = np.empty(len(scores))
        measures.mark(scores, y, low, high, fn, fp, gradient)
        loss = float(self.loss(len(low) - fn, fp, fn, len(high) - fp))
        delta = len(scores) * max(0.0, loss)
        if slack:
            gradient *= delta
        if delta + float(np.sum(gradient * scores)) < 0.0:  # y itself attains the maximum
            return 0.0, np.zeros(len(scores))
        return delta, gradient


class AllConfusionMatrices(ConfusionMatrixLoss):
    """Any metric, by enumerating all (n_positive + 1) (n_negative + 1) confusion matrices for every cut.

    Parameters
    ----------
    losses : array of shape (n_positive + 1, n_negative + 1)
        Loss at [fn, fp] for ``fn`` false negatives and ``fp`` false positives; 0 at [0, 0]; negative where a
        confusion matrix is not allowed. See :func:`confusion_matrix_losses`.
    rescaling : {"margin", "slack"}, default "margin"
        With "slack" the loss is max over labelings of Delta(v) (1 + sum_i 1/2 (v_i - y_i) s_i).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import AllConfusionMatrices, confusion_matrix_losses
    >>> losses = confusion_matrix_losses(lambda tp, fp, fn, tn: (fp + fn) / (tp + fp + fn + tn), 2, 1)
    >>> loss = AllConfusionMatrices(losses)
    >>> loss.value(np.array([0.5, 2.0, -0.25]), np.array([1.0, 1.0, -1.0]), np.ones(3))
    1.25
    """

    def __init__(self, losses: Any, rescaling: Rescaling = "margin") -> None:
        self.losses: Array = np.ascontiguousarray(losses, dtype=np.float64)
        if self.losses.ndim != 2 or min(self.losses.shape) < 2:
            raise ValueError(
                "losses must be a matrix with a loss for every pair (false negatives, false positives)."
            )
        if self.losses[0, 0] != 0.0:
            raise ValueError(f"losses[0, 0] must be 0 (no errors), not {self.losses[0, 0]}.")
        if np.isnan(self.losses).any() or np.isposinf(self.losses).any():
            raise ValueError("losses must be finite numbers.")
        self.rescaling = one_of("rescaling", rescaling, ("margin", "slack"))
        self._delta: Array = (sum(self.losses.shape) - 2) * self.losses

    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """See :meth:`ConfusionMatrixLoss.loss`."""
        return self.losses[fn, fp]

    def best_matrix(self, low: Array, high: Array) -> tuple[int, int]:
        """See :meth:`ConfusionMatrixLoss.best_matrix`."""
        slack = self.rescaling == "slack"
        fn, fp = measures.best_enumerated(low, high, self._delta, slack)
        return int(fn), int(fp)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        super().check_labels(y)
        counts = (int(np.sum(y > 0)) + 1, int(np.sum(y <= 0)) + 1)
        if counts != self.losses.shape:
            raise ValueError(
                f"losses are for {self.losses.shape[0] - 1} positive and "
                f"{self.losses.shape[1] - 1} negative samples, but y has {counts[0] - 1} and "
                f"{counts[1] - 1}."
            )

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        return self._cut(scores, y, slack=self.rescaling == "slack")


def confusion_matrix_losses(
    measure: Measure | ConfusionMatrixLoss, n_positive: int, n_negative: int
) -> Array:
    """Losses of all confusion matrices, for :class:`AllConfusionMatrices`.

    Parameters
    ----------
    measure : callable or ConfusionMatrixLoss
        A callable is called with integers ``(tp, fp, fn, tn)``, one confusion matrix at a time, and returns
        its loss: 0 if there are no errors, nonnegative, about 1 for the worst.
    n_positive, n_negative : int
        Number of samples of each class.

    Returns
    -------
    array of shape (n_positive + 1, n_negative + 1)
        Loss at [fn, fp].

    Examples
    --------
    >>> from maxmargin.losses import confusion_matrix_losses
    >>> confusion_matrix_losses(lambda tp, fp, fn, tn: (fp + fn) / 2, 1, 1).tolist()
    [[0.0, 0.5], [0.5, 1.0]]
    """
    P, N = int(n_positive), int(n_negative)
    tables = (P + 1) * (N + 1)
    if tables > MAX_MATRICES:
        raise ValueError(
            f"{P} positive and {N} negative samples have {tables:,} confusion matrices, and every cut would "
            f"enumerate all of them; the limit is {MAX_MATRICES:,}. Use a named measure with margin "
            "rescaling, an object that declares concave_in or implements best_matrix(), or fewer samples."
        )
    if isinstance(measure, ConfusionMatrixLoss):
        misses, alarms = np.meshgrid(np.arange(P + 1), np.arange(N + 1), indexing="ij")
        grid: Array = np.array(
            measure.loss(P - misses, alarms, misses, N - alarms), dtype=np.float64
        )
        grid[0, 0] = 0.0  # the true labeling is always allowed
        return grid
    out = np.empty((P + 1, N + 1))
    for fn in range(P + 1):
        for fp in range(N + 1):
            loss = measure(P - fn, fp, fn, N - fp)
            if not isinstance(loss, Real | np.bool_):
                raise TypeError(
                    f"the measure returned {loss!r} for tp={P - fn}, fp={fp}, fn={fn}, tn={N - fp}: it must "
                    "return a number, the loss."
                )
            out[fn, fp] = loss
    _check_losses(out, P, N)
    return out


def _check_losses(out: Array, P: int, N: int) -> None:
    if out[0, 0] != 0.0:
        raise ValueError(
            f"the measure returned {out[0, 0]} for a confusion matrix without errors; it must return a loss, "
            "0 without errors (use 1 - score for a score that is best at 1)."
        )
    wrong = ~np.isfinite(out) | (out < 0.0)
    if wrong.any():
        fn, fp = (int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"the measure returned {out[fn, fp]} for tp={P - fn}, fp={fp}, fn={fn}, tn={N - fp}; a loss must "
            "be finite and nonnegative."
        )


def check_two_classes(y: Labels, name: str) -> None:
    """Raise ValueError unless labels are -1 and +1 and both occur."""
    signs(name, y)
    if not ((y == 1.0).any() and (y == -1.0).any()):
        raise ValueError(f"{name} requires two classes, but y has only one.")
