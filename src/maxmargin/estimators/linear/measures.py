"""From the name of a metric to its loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from maxmargin.core.vectors import Array
from maxmargin.estimators.constraints import Constraint
from maxmargin.losses import (
    AllConfusionMatrices,
    AtK,
    BalancedError,
    ConfusionMatrixLoss,
    FBeta,
    Hinge,
    QMeasure,
    QuantificationLoss,
    RocAuc,
    ScoreLoss,
    confusion_matrix_losses,
)

_LOSSES: dict[str, Callable[[float, Any], ScoreLoss]] = {
    "error": lambda beta, k: Hinge(),
    "balanced_error": lambda beta, k: BalancedError(),
    "f1": lambda beta, k: FBeta(),
    "fbeta": lambda beta, k: FBeta(beta),
    "prbep": lambda beta, k: AtK(),
    "precision_at_k": lambda beta, k: AtK("precision", _given(k)),
    "recall_at_k": lambda beta, k: AtK("recall", _given(k)),
    "roc_auc": lambda beta, k: RocAuc(),
    "ae": lambda beta, k: QuantificationLoss("ae"),
    "nae": lambda beta, k: QuantificationLoss("nae"),
    "rae": lambda beta, k: QuantificationLoss("rae"),
    "kld": lambda beta, k: QuantificationLoss("kld"),
    "nkld": lambda beta, k: QuantificationLoss("nkld"),
    "q": lambda beta, k: QMeasure(beta),
}


#: names in scikit-learn
_OTHER_NAMES = {
    "accuracy": "error",
    "accuracy_score": "error",
    "zero_one_loss": "error",
    "balanced_accuracy": "balanced_error",
    "balanced_accuracy_score": "balanced_error",
    "f1_score": "f1",
    "fbeta_score": "fbeta",
    "roc_auc_score": "roc_auc",
    "auc": "roc_auc",
    "precision": "precision_at_k",
    "precision_score": "precision_at_k",
    "recall": "recall_at_k",
    "recall_score": "recall_at_k",
}


def _given(k: Any) -> int:
    if k is None:
        raise ValueError(
            "this metric requires k, the number of samples that are predicted as positive."
        )
    number: int = k
    return number


def _error(tp: float, fp: float, fn: float, tn: float) -> float:
    return (fp + fn) / (tp + fp + fn + tn)


def _balanced_error(tp: float, fp: float, fn: float, tn: float) -> float:
    return 0.5 * (fn / (tp + fn) + fp / (fp + tn))


#: metrics that are sums over samples
_OF_ROWS = {"error": _error, "balanced_error": _balanced_error}


def measure_loss(measure: Any, beta: float, k: Any, rescaling: str, y: Array) -> ScoreLoss:
    """The loss of a metric for these labels, -1 and +1."""
    P, N = int(np.sum(y > 0)), int(np.sum(y <= 0))
    loss = declared(measure, beta, k)
    if loss is None:
        require_counts(measure)
        return AllConfusionMatrices(
            confusion_matrix_losses(measure, P, N), "slack" if rescaling == "slack" else "margin"
        )
    loss.check_labels(y)
    if rescaling == "margin":
        return loss
    table: Any = loss if isinstance(loss, ConfusionMatrixLoss) else None
    if isinstance(measure, str):
        table = _OF_ROWS.get(measure, table)
    if table is None:
        named = "the ROC AUC" if measure == "roc_auc" else repr(measure)
        raise ValueError(
            f"rescaling='slack' requires a metric of confusion matrices; {named} depends on pairs of samples "
            "or on scores. Use rescaling='margin'."
        )
    return AllConfusionMatrices(confusion_matrix_losses(table, P, N), "slack")


def declared(measure: Any, beta: float, k: Any) -> ScoreLoss | None:
    """The loss of a string or an object; None for a callable of the four counts."""
    if isinstance(measure, ScoreLoss):
        if measure.label_kind != "sign" or measure.n_outputs() is not None:
            raise ValueError(
                f"measure={measure!r} cannot train a binary classifier: it must have one score per sample "
                'and labels -1 and +1 (label_kind = "sign").'
            )
        return deepcopy(measure)  # set_params must not change the loss of a fitted model
    if callable(measure):
        return None
    return _LOSSES[measure](beta, k)


def is_measure(measure: Any) -> bool:
    """Whether this can be the parameter ``measure``; raises ValueError for the name of scikit-learn's."""
    known = isinstance(measure, str) and measure in _LOSSES
    if isinstance(measure, str) and measure in _OTHER_NAMES and not known:
        raise ValueError(f"measure={measure!r} is unknown; use {_OTHER_NAMES[measure]!r}.")
    return known or callable(measure) or isinstance(measure, ScoreLoss)


MEASURE = Constraint(
    (
        *map(repr, _LOSSES),
        "a callable (tp, fp, fn, tn) -> loss",
        "an object of a class derived from maxmargin.losses.ConfusionMatrixLoss",
    ),
    is_measure,
)


def require_counts(measure: Callable[..., Any]) -> None:
    """Raise TypeError unless a callable takes the four counts of a confusion matrix."""
    try:
        signature = inspect.signature(measure)
        signature.bind(1, 1, 1, 1)
    except ValueError:  # compiled functions may have no signature
        return
    except TypeError as error:
        name = getattr(measure, "__name__", repr(measure))
        instead = _OTHER_NAMES.get(name)
        raise TypeError(
            f"measure={name} has the signature {signature}, but a metric is called with the four counts "
            "(tp, fp, fn, tn) of true positives, false positives, false negatives and true negatives. It "
            "returns a loss: 0 without errors, about 1 in the worst case."
            + (f" Use measure={instead!r}." if instead else "")
        ) from error


def measured(
    measure: Any, beta: float, k: Any, scores: Array, positive: Any, called: Any, weight: Array
) -> float:
    """1 - the loss of a metric for predictions.

    ``positive``: the samples that are positive. ``called``: the samples that are predicted as positive.
    Metrics of the k highest scores count ties partly and ignore ``called``.
    """
    P, n = float(np.sum(weight[positive])), float(np.sum(weight))
    if measure == "roc_auc":
        _require_both(measure, P, n)
        return float(roc_auc_score(positive, scores, sample_weight=weight))
    if isinstance(measure, str) and measure in ("prbep", "precision_at_k", "recall_at_k"):
        count = P if measure == "prbep" else float(_given(k))
        if count > n:
            raise ValueError(
                f"k={k} samples are predicted as positive, but there are {len(scores)} samples."
            )
        if measure != "precision_at_k":
            _require_both(measure, P, n)
        hits = _hits(scores, positive, weight, count)
        return hits / (P if measure == "recall_at_k" else count)
    tp, fp = (float(np.sum(weight[called & side])) for side in (positive, ~positive))
    fn, tn = P - tp, n - P - fp
    if fp == 0.0 and fn == 0.0:
        return 1.0
    if isinstance(measure, ScoreLoss):
        return 1.0 - _loss_of_table(measure, tp, fp, fn, tn)
    if callable(measure):
        return 1.0 - float(measure(*(round(count) for count in (tp, fp, fn, tn))))
    if measure in ("balanced_error", "q"):
        _require_both(measure, P, n)
    table: Any = _OF_ROWS.get(measure) or _LOSSES[measure](beta, k)
    return 1.0 - float(getattr(table, "loss", table)(tp, fp, fn, tn))


def best_threshold(
    measure: Any, loss: ScoreLoss | None, scores: Array, positive: Any, weight: Array
) -> float:
    """The threshold with the smallest loss if samples with a larger score are predicted as positive.

    ``loss`` is what :func:`declared` returns. The threshold is 0 if no other is better, and for losses that
    are sums over samples or pairs, or that are computed from the highest scores.
    """
    table = measure if loss is None else getattr(loss, "loss", None)
    if table is None or (loss is not None and loss.shift_invariant):
        return 0.0
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], weight[order] * positive[order]
    # the numbers of samples with a score above a threshold, and what they contain
    counts = np.concatenate([[0], np.flatnonzero(np.diff(ranked)) + 1, [len(ranked)]])
    tp = np.concatenate([[0.0], np.cumsum(hits)])[counts]
    fp = np.concatenate([[0.0], np.cumsum(weight[order] - hits)])[counts]
    of_each = table if loss is not None else np.vectorize(_of_counts(table), otypes=[np.float64])
    losses = np.asarray(of_each(tp, fp, tp[-1] - tp, fp[-1] - fp), dtype=np.float64)
    losses = np.where(losses < 0.0, np.inf, losses)  # negative: the table is not allowed
    best, at_zero = int(np.argmin(losses)), np.searchsorted(counts, np.count_nonzero(scores > 0.0))
    if losses[best] >= losses[at_zero]:
        return 0.0
    first, last = ranked[0], ranked[-1]  # no sample or all of them: well outside of the scores
    padded = np.concatenate(
        [[first + 2.0 * max(1.0, abs(first))], ranked, [last - 2.0 * max(1.0, abs(last))]]
    )
    return 0.5 * float(padded[counts[best]] + padded[counts[best] + 1])


def _of_counts(measure: Callable[..., Any]) -> Callable[..., float]:
    """A user's function of four whole numbers; 0 if there are no errors."""

    def loss(tp: float, fp: float, fn: float, tn: float) -> float:
        if fp == 0.0 and fn == 0.0:
            return 0.0
        return float(measure(round(tp), round(fp), round(fn), round(tn)))

    return loss


def _loss_of_table(measure: ScoreLoss, *table: float) -> float:
    """The loss of a confusion matrix, from the method ``loss`` of a user's object."""
    loss = getattr(measure, "loss", None)
    if loss is None:
        raise TypeError(
            f"{measure!r} has no method loss(tp, fp, fn, tn), which score() requires: implement it."
        )
    found = float(loss(*table))
    if found < 0.0:
        raise ValueError(
            f"{measure!r} does not allow the confusion matrix tp={table[0]:g}, fp={table[1]:g}, "
            f"fn={table[2]:g}, tn={table[3]:g} of these predictions, so they have no score."
        )
    return found


def _require_both(measure: str, P: float, n: float) -> None:
    if P in (0.0, n):
        raise ValueError(
            f"the samples to score are all {'positive' if P else 'negative'}: {measure} compares two "
            "classes. Pass samples of both."
        )


def _hits(scores: Array, positive: Any, weight: Array, count: float) -> float:
    """Positives among the ``count`` highest scores; samples that tie for the last places count partly."""
    order = np.argsort(-scores, kind="stable")
    last = order[np.searchsorted(np.cumsum(weight[order]), count * (1.0 - 1e-12))]
    above, tied = scores > scores[last], scores == scores[last]
    share = (count - np.sum(weight[above])) / np.sum(weight[tied])
    return float(np.sum(weight[above & positive]) + share * np.sum(weight[tied & positive]))


def counts_rows(loss: ScoreLoss | None, rescaling: str) -> bool:
    """Whether a metric counts samples, so that a sample weight must be a number of copies.

    ``loss`` is what :func:`declared` returns.
    """
    return rescaling != "margin" or loss is None or not loss.weighted


def as_copies(weight: Array, measure: Any) -> Any:
    """Indices of the samples, each repeated as often as its weight.

    Weights that are not integers are an error, because metrics that count samples are not defined for
    them.
    """
    copies = weight.astype(np.int64)
    if (copies != weight).any():
        name = measure if isinstance(measure, str) else "a metric of your own"
        raise ValueError(
            f"{name} counts samples: sample weights must be whole numbers, and a sample of weight 2 counts "
            "as two samples. With margin rescaling, error, balanced_error and roc_auc accept any weights."
        )
    return np.repeat(np.arange(len(weight)), copies)


def threshold(scores: Array, weight: Array, positive: float) -> float:
    """The value between two scores above which this much weight lies."""
    there = np.flatnonzero(weight > 0.0)
    order = there[np.argsort(-scores[there], kind="stable")]
    above = np.cumsum(weight[order])
    last = int(np.searchsorted(above, positive * (1.0 - 1e-12)))
    split = above[last] > positive * (1.0 + 1e-12)  # a part of this sample's weight is enough
    following = last if split else min(last + 1, len(order) - 1)
    return 0.5 * float(scores[order[last]] + scores[order[following]])
