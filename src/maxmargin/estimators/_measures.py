"""From the name of a measure to its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.losses import (
    AllTables,
    AtK,
    BalancedError,
    FBeta,
    Hinge,
    Prevalence,
    QMeasure,
    RocArea,
    ScoreLoss,
    TableLoss,
    table_losses,
)

#: measures that do not change when a constant is added to all scores
WITHOUT_INTERCEPT = ("prbep", "roc_auc")
#: measures that are sums over rows or pairs, each with its weight
WEIGHTED = ("error", "balanced_error", "roc_auc")

_LOSSES: dict[str, Callable[[float, Any], ScoreLoss]] = {
    "error": lambda beta, k: Hinge(),
    "balanced_error": lambda beta, k: BalancedError(),
    "f1": lambda beta, k: FBeta(),
    "fbeta": lambda beta, k: FBeta(beta),
    "prbep": lambda beta, k: AtK(),
    "precision_at_k": lambda beta, k: AtK("precision", _given(k)),
    "recall_at_k": lambda beta, k: AtK("recall", _given(k)),
    "roc_auc": lambda beta, k: RocArea(),
    "ae": lambda beta, k: Prevalence("ae"),
    "nae": lambda beta, k: Prevalence("nae"),
    "rae": lambda beta, k: Prevalence("rae"),
    "kld": lambda beta, k: Prevalence("kld"),
    "nkld": lambda beta, k: Prevalence("nkld"),
    "q": lambda beta, k: QMeasure(beta),
}


def _given(k: Any) -> int:
    if k is None:
        raise ValueError("this measure needs k, the number of rows to be called positive.")
    number: int = k
    return number


def _error(tp: int, fp: int, fn: int, tn: int) -> float:
    return (fp + fn) / (tp + fp + fn + tn)


def _balanced_error(tp: int, fp: int, fn: int, tn: int) -> float:
    return 0.5 * (fn / (tp + fn) + fp / (fp + tn))


def measure_loss(measure: Any, beta: float, k: Any, rescaling: str, y: Array) -> ScoreLoss:
    """The loss of a measure for these labels, -1 and +1."""
    if rescaling not in ("margin", "slack"):
        raise ValueError(f"rescaling={rescaling!r}: use 'margin' or 'slack'.")
    P, N = int(np.sum(y > 0)), int(np.sum(y <= 0))
    if callable(measure):
        return AllTables(table_losses(measure, P, N), "slack" if rescaling == "slack" else "margin")
    if not isinstance(measure, str) or measure not in _LOSSES:
        raise ValueError(
            f"measure={measure!r} is not known; use one of {', '.join(_LOSSES)}, or a callable "
            "(tp, fp, fn, tn) -> loss."
        )
    loss = _LOSSES[measure](beta, k)
    loss.check_labels(y)
    if rescaling == "margin":
        return loss
    if measure == "roc_auc":
        raise ValueError(
            "rescaling='slack' needs a measure of contingency tables; the ROC area is one of pairs of rows. "
            "Use rescaling='margin'."
        )
    of_rows = {"error": _error, "balanced_error": _balanced_error}
    table = loss if isinstance(loss, TableLoss) else of_rows[measure]
    return AllTables(table_losses(table, P, N), "slack")


def counts_rows(measure: Any, rescaling: str) -> bool:
    """Whether a row counts as one, so that its weight can only be a number of copies."""
    return rescaling != "margin" or not (isinstance(measure, str) and measure in WEIGHTED)


def as_copies(weight: Array, measure: Any) -> Any:
    """The rows with each repeated as often as its weight says; weights that are no numbers of copies are
    refused: no measure of whole rows is defined for them."""
    copies = weight.astype(np.int64)
    if (copies != weight).any():
        name = measure if isinstance(measure, str) else "a measure of your own"
        raise ValueError(
            f"{name} counts rows: sample weights must be whole numbers, a row of weight 2 being two rows. "
            "With margin rescaling error, balanced_error and roc_auc take any weights."
        )
    return np.repeat(np.arange(len(weight)), copies)


def threshold(scores: Array, weight: Array, positive: float) -> float:
    """The number between two scores above which lies this much weight."""
    there = np.flatnonzero(weight > 0.0)
    order = there[np.argsort(-scores[there], kind="stable")]
    above = np.cumsum(weight[order])
    last = int(np.searchsorted(above, positive * (1.0 - 1e-12)))
    split = above[last] > positive * (1.0 + 1e-12)  # part of this row's weight would be enough
    following = last if split else min(last + 1, len(order) - 1)
    return 0.5 * float(scores[order[last]] + scores[order[following]])
