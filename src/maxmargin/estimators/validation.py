"""What comes in at an estimator's door: a matrix, a design, or a data set on disk.

Matrices go through scikit-learn's checks. A design (features computed on the fly, a file) is taken as it
is; a data set brings its own labels and weights, which are read a range at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from maxmargin.core.matrices import check_dense, first_not_finite, is_finite
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.columns import Column, LazyColumn, Ones, Signs, Stored, chunks, signs
from maxmargin.data.dataset import Dataset
from maxmargin.data.design import (
    CSRDesign,
    DenseDesign,
    Design,
    as_design,
    is_design,
    largest_square,
)
from maxmargin.estimators.checked_matrices import validate_data
from maxmargin.estimators.parameters import check_parameters
from maxmargin.risks.lines.evaluation import check_weights


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
    #: a column that is quicker to compare than the codes are to compute, and its value for each class
    labels: LazyColumn | None = None
    values: Any = None

    def signs(self, k: int) -> Column:
        """+1 for rows of class k, -1 for the others."""
        if self.labels is None:
            return signs(self.codes[:], k).astype(np.float64)
        return Signs(self.labels, self.values[k])


def require_no_path(X: Any) -> None:
    """Refuse the name of a file where data is expected."""
    if isinstance(X, str | bytes) or hasattr(X, "__fspath__"):
        shown = repr(X) if len(repr(X)) <= 200 else repr(X)[:197] + "..."
        raise TypeError(
            f"X is {shown}, a {type(X).__name__}, where data is expected. To train on a data set on disk "
            "pass maxmargin.data.open(path); maxmargin.data.read_svmlight and read_parquet read files of "
            "other formats. Sequences are lists of tokens, not strings."
        )


def training(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    numeric: bool = False,
    reset: bool = True,
) -> Training:
    """Check what was given to ``fit``. ``numeric``: labels are numbers; ``reset=False``: more rows of data
    that are known already."""
    check_parameters(estimator)
    require_no_path(X)
    if not is_design(X):
        X, y = validate_data(estimator, X, y, y_numeric=numeric, reset=reset)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return Training(as_design(X, checked=True), y, weight)
    data = X if isinstance(X, Dataset) else None
    if data is not None and data.ragged:
        raise ValueError(
            f"this is a data set of sequences, but {type(estimator).__name__} learns from single rows. "
            "Sequences are for SequenceTagger and StructuredSVM."
        )
    n = int(X.shape[0])
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
        _take_names(estimator, X)
    else:
        rows_for(estimator, X)
    if data is None:
        labels = _labels(y, n, estimator, numeric)
        if not isinstance(X, DenseDesign | CSRDesign):
            return Training(X, labels, _weights(sample_weight, n))
        if isinstance(X, DenseDesign):  # sparse ones were checked when they were made
            check_dense(X.X)
        return Training(X, labels, check_weights(sample_weight, n))
    if y is not None and data.y is not None:
        raise ValueError("y is given, but the data set has labels of its own: leave y out.")
    if sample_weight is not None and data.weight is not None:
        raise ValueError(
            "sample_weight is given, but the data set has weights of its own: leave it out."
        )
    labels = _labels(y if data.y is None else Stored(data.y), n, estimator, numeric)
    weight = _weights(sample_weight, n) if data.weight is None else Stored(data.weight, np.float64)
    return Training(data, labels, weight)


def rows_for(estimator: Any, X: Any) -> Design:
    """Check rows that are to be predicted."""
    require_no_path(X)
    if not is_design(X):
        return as_design(validate_data(estimator, X, reset=False), checked=True)
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return as_design(X)


def finite_scores(scores: Array) -> Array:
    """Scores of rows that were not checked, those of a design; a label by NaN would be no prediction."""
    if not is_finite(scores):
        row = first_not_finite(scores) // (scores.shape[1] if scores.ndim == 2 else 1)
        raise ValueError(
            f"the score of row {row} is NaN or infinite: its features are, or so large that it overflows."
        )
    return scores


def loaded(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """A data set's rows or sequences, labels and weights in memory; anything else as it is."""
    require_no_path(X)
    if not isinstance(X, Dataset):
        return X, y, sample_weight
    examples, labels, weight = X.load()
    if y is not None and labels is not None:
        raise ValueError("y is given, but the data set has labels of its own: leave y out.")
    if sample_weight is not None and weight is not None:
        raise ValueError(
            "sample_weight is given, but the data set has weights of its own: leave it out."
        )
    return (
        examples,
        y if labels is None else labels,
        sample_weight if weight is None else weight,
    )


def scored(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Labels and weights to score by: those given, else those of a data set."""
    require_no_path(X)
    if isinstance(X, Dataset) and not X.ragged:
        if y is None and X.y is not None:
            y = np.asarray(X.y)
        if sample_weight is None and X.weight is not None:
            sample_weight = np.asarray(X.weight)
    if y is None:
        raise ValueError(
            "score requires y to be passed, but it is None; only a data set that was written with labels has "
            "its own."
        )
    return y, sample_weight


def classes_of(data: Training, X: Any) -> Classes:
    """The classes of the labels; ``X`` is what was given to ``fit``, which may know them."""
    if isinstance(X, Dataset) and X.classes is not None:
        check_classification_targets(X.classes)
        texts = X.classes.dtype.kind not in "iufb"
        return Classes(
            X.classes,
            Stored(X.codes, np.int64),
            np.asarray(X.class_counts),
            Stored(X.codes if texts else X.y),
            np.arange(len(X.classes)) if texts else X.classes,
        )
    y = data.y[:]
    check_classification_targets(y)
    names = np.unique(y)
    codes = np.searchsorted(names, y)  # np.unique would sort to find them
    return Classes(names, codes, np.bincount(codes, minlength=len(names)))


def _take_names(estimator: Any, X: Any) -> None:
    names = getattr(X, "feature_names", None)
    if names is not None and not callable(names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _labels(y: Any, n: int, estimator: Any, numeric: bool) -> Column:
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
    if numeric and not all(np.isfinite(y[lo:hi]).all() for lo, hi in chunks(n)):
        raise ValueError("y contains NaN or infinite values.")
    return y


def _weights(weight: Any, n: int) -> Column:
    if isinstance(weight, LazyColumn):
        return weight
    if weight is None:
        return Ones(n)
    return check_weights(weight, n)
