"""Objectives of fitted models, recomputed by the plain code of :mod:`maxmargin.testing`."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import AnyArray


def objective(estimator: Any, options: dict[str, Any]) -> float:
    """F of the weights of an estimator; ``options`` are the arguments of its ``fit``."""
    name = type(estimator).__name__
    for parameter in ("prior", "fixed"):
        if getattr(estimator, parameter, None) is not None:
            raise CommandError(f"the objective with {parameter} cannot be recomputed.")
    if name == "LinearSVC":
        return _of_classes(estimator, options)
    if name == "LinearSVR":
        from maxmargin.testing import regression_objective

        return regression_objective(
            estimator.coef_, float(estimator.intercept_[0]), options["X"], options["y"], estimator.C,
            epsilon=estimator.epsilon, weight=options.get("sample_weight"),
            squared=str(estimator.loss).startswith("squared"), **_intercept(estimator),
        )  # fmt: skip
    if name == "SequenceTagger" and estimator.order == 1 and estimator.kernel is None:
        return _of_sequences(estimator, options)
    raise CommandError(f"the objective of this {name} cannot be recomputed.")


def _intercept(estimator: Any) -> dict[str, Any]:
    return {
        "intercept_scaling": estimator.intercept_scaling,
        "penalize_intercept": estimator.penalize_intercept,
    }


def _of_classes(estimator: Any, options: dict[str, Any]) -> float:
    from maxmargin.testing import multiclass_objective

    X, y = options["X"], np.asarray(options["y"])
    classes = np.asarray(estimator.classes_)
    codes = np.searchsorted(classes, y)
    if (classes[np.minimum(codes, len(classes) - 1)] != y).any():
        raise ValueError("the data have labels that the model does not know")
    weight = _weights(estimator, codes, options.get("sample_weight"))
    joint = estimator.multi_class != "ovr" and estimator.loss == "hinge"
    if estimator.cost is not None and not (joint and len(classes) > 2):
        raise CommandError("the objective with cost cannot be recomputed for two classes.")
    if len(classes) > 2 and joint:
        return multiclass_objective(
            estimator.coef_, estimator.intercept_, X, codes, estimator.C, cost=estimator.cost,
            weight=weight, **_intercept(estimator),
        )  # fmt: skip
    if len(classes) == 2:
        return _binary(estimator, 0, X, np.where(codes == 1, 1.0, -1.0), weight)
    parts = [
        _binary(estimator, k, X, np.where(codes == k, 1.0, -1.0), weight)
        for k in range(len(classes))
    ]
    return float(np.sum(parts))


def _binary(estimator: Any, row: int, X: Any, signs: AnyArray, weight: AnyArray) -> float:
    from maxmargin.testing import binary_objective

    w, b = estimator.coef_[row], float(estimator.intercept_[row])
    if estimator.loss == "hinge":
        return binary_objective(w, b, X, signs, estimator.C, weight=weight, **_intercept(estimator))
    if estimator.loss != "squared_hinge":
        raise CommandError(f"the objective with loss={estimator.loss!r} cannot be recomputed.")
    losses = np.maximum(0.0, 1.0 - signs * (np.asarray(X @ w).ravel() + b)) ** 2
    penalty = 0.5 * float(w @ w)
    if estimator.penalize_intercept:
        penalty += 0.5 * (b / estimator.intercept_scaling) ** 2
    return penalty + estimator.C * float(weight @ losses)


def _weights(estimator: Any, codes: AnyArray, sample_weight: Any) -> AnyArray:
    """The weight of each sample: its own, times the multiplier of its class."""
    from sklearn.utils.class_weight import compute_class_weight

    weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, float)
    if estimator.class_weight is not None:
        classes = np.asarray(estimator.classes_)
        own = compute_class_weight(estimator.class_weight, classes=classes, y=classes[codes])
        weight = weight * own[codes]
    return weight


def _of_sequences(estimator: Any, options: dict[str, Any]) -> float:
    from maxmargin.estimators.structured import sequences as seq
    from maxmargin.testing import structured_objective

    if estimator.vectorizer_ is not None:
        rows = estimator.vectorizer_.transform(options["X"])
        lengths = np.array([len(x) for x in options["X"]])
    else:
        rows, lengths = options["X"], np.asarray(options["lengths"])
    number = {label: k for k, label in enumerate(estimator.classes_)}
    labels = seq.flatten_labels(options["y"], lengths, stacked="lengths" in options)
    codes = np.array([number[label] for label in labels])
    return structured_objective(
        estimator.task_, seq.by_sequence(rows, lengths), seq.by_sequence(codes, lengths),
        estimator.weights_, estimator.C, options.get("sample_weight"), estimator.rescaling,
    )  # fmt: skip
