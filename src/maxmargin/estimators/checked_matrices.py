"""Validation of matrices by scikit-learn, after a check of the indices of sparse matrices.

Conversions of sparse matrices with wrong indices crash, also in scikit-learn. A value that is not finite
is reported with its row and column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import validation

from maxmargin.core.matrices import (
    check_rows,
    checked_csr,
    first_not_finite,
    is_finite,
    not_finite,
    row_name,
)

#: the types of entries that are used without a conversion
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """What ``sklearn.utils.validation.validate_data`` returns for rows of floats, C order or CSR."""
    if _is_plain(estimator, X, y, **options):
        return (X, y) if isinstance(y, np.ndarray) else X
    if sp.issparse(X):
        X = checked_csr(X)
    try:
        out = validation.validate_data(
            estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            ensure_all_finite=False, **options,
        )  # fmt: skip
    except ValueError as error:
        advice = _about_strings(X)
        if advice:
            raise ValueError(f"{advice} ({error})") from error
        raise
    rows = out[0] if isinstance(out, tuple) else out
    if sp.issparse(rows):
        if rows is not X:  # converted, perhaps to a type in which large numbers are infinite
            check_rows(rows.indptr, rows.indices, rows.data, rows.shape)
    elif not is_finite(rows):
        at = first_not_finite(rows)
        i, j = divmod(at, rows.shape[1])
        names = getattr(estimator, "feature_names_in_", None)
        column = j if names is None else f"{j} ({names[j]!r})"
        raise not_finite("X", rows.reshape(-1)[at], row_name(i), column)
    return out


def _about_strings(X: Any) -> str:
    """What to do with text where numbers are expected; empty if there is none."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name in X.columns:
            column = np.asarray(X[name])
            value = next((value for value in column if isinstance(value, str)), None)
            if value is not None:
                return (
                    f"column {name!r} of X contains text, such as {value!r}: encode it, for example by "
                    "sklearn.preprocessing.OneHotEncoder in a ColumnTransformer, or drop it."
                )
        return ""
    first = next(iter(X), None) if isinstance(X, list | tuple | np.ndarray) and len(X) else None
    if isinstance(first, str):
        return (
            "X contains text: turn documents into numbers by a vectorizer, for example "
            "make_pipeline(sklearn.feature_extraction.text.TfidfVectorizer(), estimator)."
        )
    return ""


def _is_plain(
    estimator: Any, X: Any, y: Any, *, reset: bool = True, y_numeric: bool = False
) -> bool:
    """Whether X and y are arrays that scikit-learn would return unchanged; then ``n_features_in_`` is set.

    For a small fit scikit-learn's own validation takes longer than all iterations. Everything else, and
    everything that raises an error or a warning, is left to it.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or not X.flags.c_contiguous or not X.size:
        return False
    if X.dtype not in _FLOATS or not is_finite(X):
        return False
    if isinstance(y, str):  # no labels to validate
        fits = y == "no_validation"
    else:
        fits = type(y) is np.ndarray and y.shape == X.shape[:1] and y.flags.c_contiguous
        fits = fits and (y.dtype.kind in "iub" or (y.dtype in _FLOATS and is_finite(y)))
    if not fits:
        return False
    own = estimator.__dict__
    if reset:
        own.pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return True
    return "feature_names_in_" not in own and own.get("n_features_in_") == X.shape[1]
