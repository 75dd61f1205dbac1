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
    first_not_finite,
    is_finite,
    not_finite,
    row_name,
    sound,
)


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """What ``sklearn.utils.validation.validate_data`` returns for rows of floats, C order or CSR."""
    if sp.issparse(X):
        X = sound(X)
    out = validation.validate_data(
        estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
        ensure_all_finite=False, **options,
    )  # fmt: skip
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
