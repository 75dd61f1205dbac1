"""Calls of an estimator's methods with the examples of a reader."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.model_files import LoadedModel
from maxmargin.command_line.readers.examples import Examples, Matrix, OnDisk, Samples, Sequences


def training(estimator: Any, examples: Examples) -> dict[str, Any]:
    """The arguments of ``fit``. Only rankings have queries."""
    if isinstance(examples, OnDisk):
        return {"X": examples.data}
    if examples.y is None:
        raise CommandError("the input has no labels. Name their column with --label.")
    out: dict[str, Any] = {"X": examples.X, "y": examples.y}
    if type(estimator).__name__ == "RankSVM" and isinstance(examples, Samples):
        out["groups"] = examples.group
    if examples.weight is not None:
        out["sample_weight"] = examples.weight
    return out


def inputs(model: LoadedModel, examples: Examples) -> Any:
    """The argument of ``predict``: what the model knows of the examples."""
    if isinstance(examples, OnDisk):
        return examples.data
    if isinstance(examples, Sequences):
        if examples.named:
            return examples.X
        return [_same_width(x, model.n_features) for x in examples.X]
    if model.feature_names is not None and examples.names is not None:
        return _in_order(examples, model.feature_names)
    return _same_width(examples.X, model.n_features)


def _same_width(X: Any, n_features: int) -> Matrix:
    """X with so many columns: later ones are features that training did not see, which have no weights."""
    if X.shape[1] == n_features:
        return X  # type: ignore[no-any-return]
    if not sp.issparse(X):
        raise CommandError(f"the input has {X.shape[1]} features, but the model has {n_features}.")
    X = X.copy()
    X.resize((X.shape[0], n_features))
    return X  # type: ignore[no-any-return]


def _in_order(samples: Samples, names: list[str]) -> Matrix:
    """The columns of these names."""
    place = {name: k for k, name in enumerate(samples.names or [])}
    missing = [name for name in names if name not in place]
    if missing:
        raise CommandError(f"the input has no column {missing[0]!r}, which the model uses.")
    return samples.X[:, [place[name] for name in names]]
