"""The figures of ``evaluate``, by the kind of prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import AnyArray, Examples, Sequences, are_sequences
from maxmargin.metrics import are_span_labels, span_scores

#: name of a metric and its value
Metrics = dict[str, float]


def evaluate(estimator: Any, X: Any, examples: Examples) -> Metrics:
    """All metrics of a model on labeled examples; ``X`` is the argument of ``predict``."""
    y: Any = examples.y
    if y is None:
        raise CommandError("the input has no labels. Name their column with --label.")
    if isinstance(examples, Sequences) or are_sequences(examples):
        return _of_sequences(y, estimator.predict(X))
    name = type(estimator).__name__
    if name == "RankSVM":
        return _of_ranking(estimator, X, y, examples.group)
    if name == "LinearSVR":
        return _of_regression(y, estimator.predict(X))
    return _of_classes(estimator, X, y)


def _of_classes(estimator: Any, X: Any, y: AnyArray) -> Metrics:
    from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

    classes = list(estimator.classes_)
    predicted = np.asarray(estimator.predict(X))
    if y.dtype.kind in "US" or predicted.dtype.kind in "US":
        y, predicted = y.astype(str), predicted.astype(str)
        classes = [str(label) for label in classes]
    unknown = sorted({str(label) for label in np.unique(y) if label not in classes})
    out: Metrics = {"accuracy": float(np.mean(predicted == y))}
    if unknown:
        out["labels unknown to the model"] = float(len(unknown))
    elif len(classes) == 2:
        positive = {"pos_label": classes[1], "zero_division": 0.0}
        out[f"precision of {classes[1]}"] = float(precision_score(y, predicted, **positive))
        out[f"recall of {classes[1]}"] = float(recall_score(y, predicted, **positive))
        out[f"F1 of {classes[1]}"] = float(f1_score(y, predicted, **positive))
        if len(np.unique(y)) == 2:
            scores = estimator.decision_function(X)
            out["ROC AUC"] = float(roc_auc_score(y == classes[1], scores))
    else:
        out["F1, mean over classes"] = float(
            f1_score(y, predicted, average="macro", zero_division=0.0)
        )
    return out


def _of_regression(y: AnyArray, predicted: AnyArray) -> Metrics:
    out = {
        "mean squared error": float(np.mean((predicted - y) ** 2)),
        "mean absolute error": float(np.mean(np.abs(predicted - y))),
    }
    if np.var(y) > 0.0:
        out["R2"] = 1.0 - out["mean squared error"] / float(np.var(y))
    return out


def _of_ranking(estimator: Any, X: Any, y: AnyArray, group: AnyArray | None) -> Metrics:
    """The same figures for every loss; the gains of NDCG are 2^relevance - 1."""
    from maxmargin.estimators.linear.queries import list_quality, pair_accuracy

    scores, group = estimator.predict(X), np.zeros(len(y)) if group is None else group
    gains, ones = np.exp2(y - min(float(y.min()), 0.0)) - 1.0, np.ones(len(y))
    return {
        "pairs in the right order": pair_accuracy(scores, y.astype(float), group, ones),
        "NDCG@10": list_quality(scores, gains, group, ones, 10, "ndcg"),
    }


def _of_sequences(truth: list[list[Any]], predicted: list[list[Any]]) -> Metrics:
    pairs = [
        (a, b) for y, p in zip(truth, predicted, strict=True) for a, b in zip(y, p, strict=True)
    ]
    if not pairs:
        raise CommandError("the input holds no tokens.")
    whole = [list(y) == list(p) for y, p in zip(truth, predicted, strict=True)]
    out = {
        "accuracy over tokens": sum(a == b for a, b in pairs) / len(pairs),
        "sequences without an error": sum(whole) / len(truth),
    }
    if are_span_labels(label for labels in truth for label in labels):
        names = ("precision of spans", "recall of spans", "F1 of spans")
        out |= dict(zip(names, span_scores(truth, predicted), strict=True))
    return out
