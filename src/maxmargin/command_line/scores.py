"""The scores of ``evaluate``, by the kind of prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.command_line.examples import AnyArray, FileExamples
from maxmargin.command_line.report import CommandError, table
from maxmargin.metrics import are_span_labels, span_scores

#: names of metrics and their values; for classes also the confusion matrix
Scores = dict[str, Any]
#: with more classes than this, nobody reads a confusion matrix
MOST_CLASSES = 20


def scores_of(estimator: Any, X: Any, examples: FileExamples) -> Scores:
    """All scores of a model on labeled examples; ``X`` is the argument of ``predict``."""
    if examples.on_disk and examples.are_sequences:
        examples = examples.loaded()
    if examples.y is None:
        raise CommandError("the input has no labels. Name their column with --label.")
    if examples.are_sequences:
        return _of_sequences(examples.y, estimator.predict(X))
    name, y = type(estimator).__name__, np.asarray(examples.y[:])
    if name == "RankSVM":
        return _of_ranking(estimator, X, y, examples.group)
    if name == "LinearSVR":
        return _of_regression(y, estimator.predict(X))
    return _of_classes(estimator, X, y)


def in_words(found: Scores) -> str:
    """The scores as a table, and below it the confusion matrix, if there is one."""
    text = table([[name, _figure(v)] for name, v in found.items() if isinstance(v, float)])
    if "confusion_matrix" not in found:
        return text
    names = list(map(str, found["classes"]))
    counts = [[f"{count:,}" for count in row] for row in found["confusion_matrix"]]
    rows = [["true \\ predicted", *names]]
    rows += [[name, *row] for name, row in zip(names, counts, strict=True)]
    return f"{text}\n\n{table(rows)}"


def _figure(value: float) -> str:
    """A number in a table, with four digits behind the point where that shows enough of it."""
    return f"{value:.4f}" if value == 0.0 or 1e-2 <= abs(value) < 1e4 else f"{value:.4g}"


def _of_classes(estimator: Any, X: Any, y: AnyArray) -> Scores:
    from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

    classes = list(estimator.classes_)
    predicted = np.asarray(estimator.predict(X))
    if y.dtype.kind in "US" or predicted.dtype.kind in "US":
        y, predicted = y.astype(str), predicted.astype(str)
        classes = [str(label) for label in classes]
    unknown = sorted({str(label) for label in np.unique(y) if label not in classes})
    out: Scores = {"accuracy": float(np.mean(predicted == y))}
    if unknown:
        return out | {"labels unknown to the model": float(len(unknown))}
    if len(classes) == 2:
        positive = {"pos_label": classes[1], "zero_division": 0.0}
        metrics = {"precision": precision_score, "recall": recall_score, "F1": f1_score}
        for name, metric in metrics.items():
            out[f"{name} of {classes[1]}"] = float(metric(y, predicted, **positive))
        if len(np.unique(y)) == 2:
            scores = estimator.decision_function(X)
            out["ROC AUC"] = float(roc_auc_score(y == classes[1], scores))
    else:
        mean = f1_score(y, predicted, average="macro", zero_division=0.0)
        out["F1, mean over classes"] = float(mean)
    return out | _confusion(classes, y, predicted)


def _confusion(classes: Sequence[Any], y: Any, predicted: Any) -> Scores:
    """The classes, and how often each was predicted in place of each; nothing if there are many."""
    from sklearn.metrics import confusion_matrix

    if len(classes) > MOST_CLASSES:
        return {}
    counts = confusion_matrix(y, predicted, labels=classes)
    return {"classes": list(classes), "confusion_matrix": counts.tolist()}


def _of_regression(y: AnyArray, predicted: AnyArray) -> Scores:
    out = {
        "mean squared error": float(np.mean((predicted - y) ** 2)),
        "mean absolute error": float(np.mean(np.abs(predicted - y))),
    }
    if np.var(y) > 0.0:
        out["R2"] = 1.0 - out["mean squared error"] / float(np.var(y))
    return out


def _of_ranking(estimator: Any, X: Any, y: AnyArray, group: AnyArray | None) -> Scores:
    """The same figures for every loss; the gains of NDCG are 2^relevance - 1."""
    from maxmargin.estimators.linear.queries import list_quality, pair_accuracy

    group = np.zeros(len(y)) if group is None else np.asarray(group[:])
    scores, ones = estimator.predict(X), np.ones(len(y))
    gains = np.exp2(y - min(float(y.min()), 0.0)) - 1.0
    return {
        "pairs in the right order": pair_accuracy(scores, y.astype(float), group, ones),
        "NDCG@10": list_quality(scores, gains, group, ones, 10, "ndcg"),
    }


def _of_sequences(truth: list[list[Any]], predicted: list[list[Any]]) -> Scores:
    pairs = list(zip(truth, predicted, strict=True))
    true, found = ([label for labels in part for label in labels] for part in (truth, predicted))
    if not true:
        raise CommandError("the input holds no tokens.")
    out: Scores = {
        "accuracy over tokens": sum(a == b for a, b in zip(true, found, strict=True)) / len(true),
        "sequences without an error": sum(list(y) == list(p) for y, p in pairs) / len(truth),
    }
    if are_span_labels(true):
        names = ("precision of spans", "recall of spans", "F1 of spans")
        out |= dict(zip(names, span_scores(truth, predicted), strict=True))
    labels = sorted({*map(str, true), *map(str, found)})
    return out | _confusion(labels, list(map(str, true)), list(map(str, found)))
