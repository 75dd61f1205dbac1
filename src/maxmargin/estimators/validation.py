"""Input validation: a matrix, matrix-free features, or a data set on disk.

Matrices are validated by scikit-learn. Matrix-free features (computed on the fly, or read from a file) are
used as they are. A data set has its own labels and weights, which are read in ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from maxmargin.compat import check_sample_weight
from maxmargin.core.matrices import check_dense, first_not_finite, is_finite
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.columns import (
    Column,
    LazyColumn,
    Ones,
    StoredColumn,
    chunks,
    signs,
    stored_signs,
)
from maxmargin.data.dataset import Dataset
from maxmargin.data.design import (
    CSRDesign,
    DenseDesign,
    Design,
    as_design,
    as_matrix,
    is_design,
    largest_square,
)
from maxmargin.data.typed_design import by_blocks
from maxmargin.estimators.checked_matrices import validate_data
from maxmargin.risks.lines.evaluation import check_weights


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Validated samples with their labels and weights."""

    design: Design
    y: Column
    weight: Column

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.design.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.design.shape[1]

    def largest_norm(self) -> float:
        """The largest norm of a sample."""
        return float(np.sqrt(largest_square(self.design)))


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The distinct labels, and the index of the label of every sample."""

    names: Any
    codes: Column
    counts: IntArray
    #: a column that is faster to compare than codes are to compute, and its value for each class
    labels: LazyColumn | None = None
    values: Any = None
    #: whether the labels are -1 and +1 in one byte each, in local files: a copy gains nothing
    as_stored: bool = False

    def signs(self, k: int) -> Column:
        """+1 for samples of class k, -1 for the others."""
        if self.labels is None:
            return signs(self.codes[:], k).astype(np.float64)
        if k == 1 and self.as_stored:
            return self.labels
        return stored_signs(self.labels, self.values[k])


def is_path(X: Any) -> bool:
    """Whether this is a string or a path instead of data."""
    return isinstance(X, str | bytes) or hasattr(X, "__fspath__")


def require_no_path(X: Any) -> None:
    """Raise TypeError for the name of a file where data are expected."""
    if is_path(X):
        shown = repr(X) if len(repr(X)) <= 200 else repr(X)[:197] + "..."
        raise TypeError(
            f"X must be data, but it is {shown}, a {type(X).__name__}. To train on a data set on disk, "
            "pass maxmargin.data.open(path). maxmargin.data.read_svmlight and read_parquet read other "
            "formats. Sequences are lists of tokens, not strings."
        )


def training(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    numeric: bool = False,
    reset: bool = True,
    narrow: bool = True,
) -> Training:
    """Validate the arguments of ``fit``.

    ``numeric``: labels are numbers. ``reset=False``: further samples for an estimator that already knows
    the number of features. ``narrow``: the estimator reads rows in a narrow type in blocks.
    """
    require_no_path(X)
    check_labels(y, numeric=numeric)
    X = by_blocks(X) if narrow else X
    if not is_design(X):
        X, y = validate_data(estimator, X, y, y_numeric=numeric, reset=reset)
        weight: Column = np.ones(X.shape[0])
        if sample_weight is not None:
            weight = check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return Training(as_design(X, checked=True), y, weight)
    data = X if isinstance(X, Dataset) else None
    if data is not None and data.ragged:
        raise ValueError(
            f"X is a data set of sequences, but {type(estimator).__name__} learns from single samples. Use "
            "SequenceTagger or StructuredSVM for sequences."
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
        if isinstance(X, DenseDesign):  # sparse ones were validated when they were made
            check_dense(X.X)
        return Training(X, labels, check_weights(sample_weight, n))
    if y is not None and data.y is not None:
        raise ValueError("y is given, but the data set has labels of its own: leave out y.")
    require_one_weight(sample_weight, data.weight)
    labels = _labels(y if data.y is None else StoredColumn(data.y), n, estimator, numeric)
    weight = (
        _weights(sample_weight, n) if data.weight is None else StoredColumn(data.weight, np.float64)
    )
    return Training(data, labels, weight)


def check_labels(y: Any, name: str = "y", *, numeric: bool = False) -> None:
    """Raise ValueError for labels that cannot be compared: strings beside numbers, or None.

    NumPy cannot sort them in an array of objects, and silently makes strings of the numbers in a list.
    ``numeric``: labels are numbers only.
    """
    values: Any = y
    if not isinstance(y, list | tuple):
        if getattr(getattr(y, "dtype", None), "kind", None) not in (
            ("O", "U") if numeric else ("O",)
        ):
            return
        values = np.ravel(np.asarray(y, dtype=object)).tolist()
    found: dict[str, Any] = {}
    for value in {type(value): value for value in values}.values():
        kind = "a string" if isinstance(value, str) else "a number"
        if value is None or isinstance(value, str | Real | np.bool_):
            found.setdefault("no label" if value is None else kind, value)
    wrong = ("no label",) if len(found) == 1 else tuple(found)
    if numeric:
        wrong = ("no label", "a string")
    shown = [f"{value!r:.80} ({kind})" for kind, value in found.items() if kind in wrong]
    if shown:
        raise ValueError(
            f"{name} contains {' and '.join(shown)}, but must contain only numbers"
            + (
                "."
                if numeric
                else " or only strings: convert them, as by [str(label) for label in y]."
            )
            + (" Leave out samples without a label." if "no label" in found else "")
        )


def rows_for(estimator: Any, X: Any) -> Design:
    """Validate samples for a prediction."""
    require_no_path(X)
    X = by_blocks(X)
    if not is_design(X):
        return as_design(validate_data(estimator, X, reset=False), checked=True)
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return as_design(X)


def finite_scores(scores: Array, first: int = 0) -> Array:
    """Raise ValueError if a score is not finite: matrix-free features are not validated. ``first`` is the
    number of the first row."""
    if not is_finite(scores):
        row = first + first_not_finite(scores) // (scores.shape[1] if scores.ndim == 2 else 1)
        raise ValueError(
            f"the score of row {row} is NaN or infinite: its features are not finite, or too large. Check "
            "and scale them."
        )
    return scores


def loaded(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """The samples or sequences, labels and weights of a data set in memory; anything else unchanged."""
    require_no_path(X)
    if isinstance(X, DenseDesign | CSRDesign):  # a chunk of a data set
        X = as_matrix(X)
    if not isinstance(X, Dataset):
        return X, y, sample_weight
    examples, labels, weight = X.load()
    if y is not None and labels is not None:
        raise ValueError("y is given, but the data set has labels of its own: leave y out.")
    require_one_weight(sample_weight, weight)
    return (
        examples,
        y if labels is None else labels,
        sample_weight if weight is None else weight,
    )


def require_one_weight(given: object, own: Any) -> None:
    """Raise ValueError for sample weights beside those of a data set."""
    if given is not None and own is not None:
        raise ValueError(
            "sample_weight is given, but the data set has weights of its own: leave it out."
        )


def scored(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Labels and weights for a score: the given ones, or those of a data set."""
    require_no_path(X)
    if isinstance(X, Dataset) and not X.ragged:
        if y is None and X.y is not None:
            y = np.asarray(X.y)
        if sample_weight is None and X.weight is not None:
            sample_weight = np.asarray(X.weight)
    if y is None:
        raise ValueError(
            "score requires y to be passed, but it is None. It may be omitted only for a data set that was "
            "written with labels."
        )
    return y, sample_weight


def own_labels(X: Any, y: Any, sample_weight: Any) -> bool:
    """Whether the samples are a data set whose own labels and weights count."""
    given = y is not None or sample_weight is not None
    return isinstance(X, Dataset) and not X.ragged and X.y is not None and not given


def classes_of(data: Training, X: Any) -> Classes:
    """The classes of the labels. ``X``, the argument of ``fit``, may already know them."""
    if isinstance(X, Dataset) and X.classes is not None:
        check_classification_targets(X.classes)
        texts = X.classes.dtype.kind not in "iufb"
        labels = X.codes if texts else X.y
        return Classes(
            X.classes,
            StoredColumn(X.codes, np.int64),
            np.asarray(X.class_counts),
            labels if len(X.classes) == 2 else StoredColumn(labels),  # signs are held, too
            np.arange(len(X.classes)) if texts else X.classes,
            X.stores_signs,
        )
    y = data.y[:]
    names = np.unique(y)
    # integers are classes; scikit-learn warns if there are nearly as many as rows, and rejects other types
    if y.dtype.kind not in "iub" or 2 * len(names) > len(y):
        check_classification_targets(y)
    codes = np.searchsorted(names, y)  # faster than the inverse of np.unique, which sorts
    return Classes(names, codes, np.bincount(codes, minlength=len(names)))


def require_two_classes(estimator: Any, classes: Any) -> None:
    """Raise ValueError unless there are at least two classes."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in the data, but the data "
            f"contains only one class: {classes[0]}"
        )


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
        raise ValueError(f"X has {n} samples, but y has {len(y)}: pass one label each.")
    if numeric and not all(np.isfinite(y[lo:hi]).all() for lo, hi in chunks(n)):
        raise ValueError("y contains NaN or infinite values.")
    return y


def _weights(weight: Any, n: int) -> Column:
    if isinstance(weight, LazyColumn):
        return weight
    if weight is None:
        return Ones(n)
    return check_weights(weight, n)
