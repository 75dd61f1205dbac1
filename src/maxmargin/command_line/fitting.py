"""Calls of an estimator's methods with the examples of a reader."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.model_files import LoadedModel
from maxmargin.command_line.readers.examples import Examples, Matrix, Rows, Sequences, Stored


def training(examples: Examples) -> dict[str, Any]:
    """The arguments of ``fit``."""
    if isinstance(examples, Stored):
        return {"X": examples.data}
    if examples.y is None:
        raise CommandError("the input has no labels. Name their column with --label.")
    if isinstance(examples, Sequences):
        out: dict[str, Any] = {"X": examples.X, "y": _flat_labels(examples)}
        if examples.lengths is not None:
            out["lengths"] = examples.lengths
    else:
        out = {"X": examples.X, "y": examples.y}
        if examples.group is not None:
            out["groups"] = examples.group
    if examples.weight is not None:
        out["sample_weight"] = examples.weight
    return out


def inputs(model: LoadedModel, examples: Examples) -> dict[str, Any]:
    """The arguments of ``predict``: what the model knows of the examples."""
    if isinstance(examples, Stored):
        return {"X": examples.data}
    if isinstance(examples, Sequences):
        if examples.lengths is None:
            return {"X": examples.X}
        return {"X": same_width(examples.X, model.n_features), "lengths": examples.lengths}
    if model.feature_names is not None and examples.names is not None:
        return {"X": _in_order(examples, model.feature_names)}
    return {"X": same_width(examples.X, model.n_features)}


def same_width(X: Any, n_features: int) -> Any:
    """X with so many columns: later ones are features that training did not see, which have no weights."""
    if X.shape[1] == n_features:
        return X
    if not sp.issparse(X):
        raise CommandError(f"the input has {X.shape[1]} features, but the model has {n_features}.")
    X = X.copy()
    X.resize((X.shape[0], n_features))
    return X


def _in_order(rows: Rows, names: list[str]) -> Matrix:
    """The columns of these names."""
    place = {name: k for k, name in enumerate(rows.names or [])}
    missing = [name for name in names if name not in place]
    if missing:
        raise CommandError(f"the input has no column {missing[0]!r}, which the model uses.")
    return rows.X[:, [place[name] for name in names]]


def _flat_labels(examples: Sequences) -> Any:
    if examples.lengths is None or examples.y is None:
        return examples.y
    return [label for labels in examples.y for label in labels]
