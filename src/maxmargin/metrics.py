"""Metrics of sequences whose labels mark spans, such as names or chunks, and of decisions.

The labels of spans are ``O``, ``B-name``, ``I-name`` (BIO), or also ``E-``, ``S-`` (IOBES) and ``L-``, ``U-``
(BILOU).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["SpanScores", "regret_score", "span_f1_score", "span_scores", "spans"]


class SpanScores(NamedTuple):
    """Precision, recall, and F1 of spans."""

    precision: float
    recall: float
    f1: float


def span_scores(
    y_true: Sequence[Sequence[object]], y_pred: Sequence[Sequence[object]]
) -> SpanScores:
    """Precision, recall, and F1 of whole spans, counted over all sequences as conlleval does.

    A span is found if its begin, its end, and its name are right.

    Parameters
    ----------
    y_true, y_pred : lists of sequences of labels
        The true and the predicted label of each token of each sequence.

    Returns
    -------
    SpanScores
        The named tuple ``(precision, recall, f1)``. A ratio over no spans is 0.

    Examples
    --------
    >>> from maxmargin.metrics import span_scores
    >>> span_scores([["B-PER", "I-PER", "O"], ["O", "B-LOC"]], [["B-PER", "O", "O"], ["O", "B-LOC"]])
    SpanScores(precision=0.5, recall=0.5, f1=0.5)
    """
    right = n_true = n_predicted = 0
    for true, predicted in zip(y_true, y_pred, strict=True):
        if len(true) != len(predicted):
            raise ValueError(
                f"a sequence has {len(true)} true labels, but {len(predicted)} predicted ones."
            )
        own, other = spans(true), spans(predicted)
        right += len(own & other)
        n_true += len(own)
        n_predicted += len(other)
    precision = right / n_predicted if n_predicted else 0.0
    recall = right / n_true if n_true else 0.0
    total = precision + recall
    return SpanScores(precision, recall, 2 * precision * recall / total if total else 0.0)


def span_f1_score(y_true: Sequence[Sequence[object]], y_pred: Sequence[Sequence[object]]) -> float:
    """F1 of whole spans; see :func:`span_scores`.

    Parameters
    ----------
    y_true, y_pred : lists of sequences of labels
        The true and the predicted label of each token of each sequence.

    Returns
    -------
    float
        The F1 score.

    Examples
    --------
    >>> from sklearn.metrics import make_scorer
    >>> from maxmargin import SequenceTagger
    >>> from maxmargin.metrics import span_f1_score
    >>> X, y = [[["w=Ada"], ["w=smiled"]], [["w=In"], ["w=London"]]], [["B-PER", "O"], ["O", "B-LOC"]]
    >>> tagger = SequenceTagger().fit(X, y)
    >>> span_f1_score(y, tagger.predict(X))
    1.0
    >>> make_scorer(span_f1_score)(tagger, X, y)  # scoring= of a search
    1.0
    """
    return span_scores(y_true, y_pred).f1


def spans(labels: Sequence[object]) -> set[tuple[int, int, str]]:
    """The spans of a sequence of labels, as conlleval reads them.

    An I- label that follows another name, or O, begins a span.

    Parameters
    ----------
    labels : sequence of labels
        ``O``, ``B-name``, ``I-name``; also ``E-``, ``S-``, ``L-``, and ``U-``.

    Returns
    -------
    set of (begin, end, name)
        The tokens ``begin .. end-1`` and the name of each span.

    Examples
    --------
    >>> from maxmargin.metrics import spans
    >>> sorted(spans(["B-NP", "I-NP", "O", "I-VP", "B-VP"]))
    [(0, 2, 'NP'), (3, 4, 'VP'), (4, 5, 'VP')]
    """
    out: set[tuple[int, int, str]] = set()
    begin, open_name = 0, ""
    for at, label in enumerate([*map(str, labels), "O"]):
        kind, _, name = label.partition("-")
        if open_name and (kind in ("O", "B", "S", "U") or name != open_name):
            out.add((begin, at, open_name))
            open_name = ""
        if kind == "O":
            continue
        if not open_name:
            begin, open_name = at, name
        if kind in ("E", "L", "S", "U"):
            out.add((begin, at + 1, name))
            open_name = ""
    return out


def are_span_labels(labels: Iterable[object]) -> bool:
    """Whether the labels mark spans: O, B-name, I-name, and so on."""
    seen = {str(label) for label in labels}
    return any(label.startswith("B-") for label in seen) and all(
        label == "O" or label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") for label in seen
    )


def regret_score(
    y_true: Sequence[Any],
    y_pred: Sequence[Any],
    *,
    normalize: bool = True,
) -> float:
    """The regret of decisions: how much more they cost than the optimal decisions. 0 is the best value.

    Parameters
    ----------
    y_true : sequence of TrueCosts
        The true costs of each example with an optimal decision; see :class:`maxmargin.tasks.TrueCosts`.
    y_pred : sequence of arrays
        The decision for each example, for instance of ``StructuredSVM.predict``.
    normalize : bool, default True
        Whether to divide the sum of the regrets by the sum of the absolute optimal costs. Otherwise, it is
        divided by the number of examples.

    Returns
    -------
    float
        The regret.

    Examples
    --------
    >>> from maxmargin.metrics import regret_score
    >>> from maxmargin.tasks import LinearObjective
    >>> Y = LinearObjective([[1, 0], [0, 1]]).labels([None, None], [[2.0, 5.0], [6.0, 3.0]])
    >>> regret_score(Y, [[1, 0], [1, 0]])  # 3 more than 2 + 3
    0.6

    In a search, it is a loss:

    >>> from sklearn.metrics import make_scorer
    >>> scoring = make_scorer(regret_score, greater_is_better=False)
    """
    regret, best = 0.0, []
    for i, (label, decision) in enumerate(zip(y_true, y_pred, strict=True)):
        if not hasattr(label, "costs"):
            raise ValueError(f"y_true[{i}] must be a maxmargin.tasks.TrueCosts, got {type(label)}.")
        if label.sense not in ("minimize", "maximize"):
            raise ValueError(
                f"y_true[{i}] has sense={label.sense!r}: use 'minimize' or 'maximize'."
            )
        best.append(np.dot(label.costs, label.decision))
        more = float(np.dot(label.costs, decision) - best[-1])
        regret += -more if label.sense == "maximize" else more
    if not best:
        raise ValueError("there are no examples.")
    size = float(np.abs(best).sum()) if normalize else len(best)
    if size == 0.0:
        raise ValueError("all optimal costs are 0: use normalize=False.")
    return regret / size
