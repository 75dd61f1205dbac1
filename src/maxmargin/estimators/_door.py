"""What comes in at an estimator's door: a matrix, a design, or a data set on disk.

Matrices go through scikit-learn's checks. A design (features computed on the fly, a file) is taken as it
is; a data set brings its own labels and weights, which are read a range at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from maxmargin.core.vectors import IntArray
from maxmargin.data.columns import Column, LazyColumn
from maxmargin.data.design import Design, as_design, is_design, largest_square


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Rows with their labels and weights, checked."""

    design: Design
    y: Column
    weight: Column

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.design.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.design.shape[1]

    def largest_norm(self) -> float:
        """The largest norm of a row."""
        return float(np.sqrt(largest_square(self.design)))


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The distinct labels, and for every row which one it has."""

    names: Any
    codes: Column
    counts: IntArray


def training(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, numeric: bool = False
) -> Training:
    """Check what was given to ``fit``. ``numeric``: labels are numbers."""
    if not is_design(X):
        X, y = validate_data(
            estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            y_numeric=numeric,
        )  # fmt: skip
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return Training(as_design(X), y, weight)
    design, n = as_design(X), int(X.shape[0])
    estimator.n_features_in_ = int(X.shape[1])
    _take_names(estimator, X)
    own = getattr(X, "y", None)
    if own is not None and y is not None:
        raise ValueError("y is given, but the data set has labels of its own: leave y out.")
    y = _labels(own if y is None else y, n, estimator)
    given = getattr(X, "weight", None)
    if given is not None and sample_weight is not None:
        raise ValueError(
            "sample_weight is given, but the data set has weights of its own: leave it out."
        )
    return Training(design, y, _weights(sample_weight if given is None else given, n))


def rows_for(estimator: Any, X: Any) -> Design:
    """Check rows that are to be predicted."""
    if not is_design(X):
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=False,
        )
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return as_design(X)


def classes_of(data: Training, X: Any) -> Classes:
    """The classes of the labels; ``X`` is what was given to ``fit``, which may know them."""
    names = getattr(X, "classes", None) if isinstance(data.y, LazyColumn) else None
    if names is None:
        y = data.y[:]
        check_classification_targets(y)
        names = np.unique(y)
        codes = np.searchsorted(names, y)  # np.unique would sort to find them
        return Classes(names, codes, np.bincount(codes, minlength=len(names)))
    names, column = np.asarray(names), data.y
    check_classification_targets(names)
    lazy = getattr(X, "codes", None)  # a data set has texts as codes; comparing texts takes long
    if lazy is None:
        lazy = LazyColumn(data.n, lambda lo, hi: np.searchsorted(names, column[lo:hi]))
    return Classes(names, lazy, np.asarray(X.class_counts))


def _take_names(estimator: Any, X: Any) -> None:
    names = getattr(X, "feature_names", None)
    if names is not None and not callable(names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _labels(y: Any, n: int, estimator: Any) -> Column:
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    if isinstance(y, np.ndarray | list | tuple) or not hasattr(y, "__getitem__"):
        y = column_or_1d(y, warn=True)
    elif not isinstance(y, LazyColumn):
        y = column_or_1d(np.asarray(y), warn=True)
    if len(y) != n:
        raise ValueError(f"X has {n} rows, but y has {len(y)}: one label each is needed.")
    return y


def _weights(weight: Any, n: int) -> Column:
    if isinstance(weight, LazyColumn):
        return weight
    if weight is None:
        return LazyColumn(n, lambda lo, hi: np.ones(hi - lo))
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; {n} weights are needed.")
    return weight
