"""A dense matrix with few nonzeros, row by row into CSR."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry


@entry
def count(X, indptr):
    """Fill the row pointers."""
    indptr[0] = 0
    for i in range(X.shape[0]):
        n = 0
        for k in range(X.shape[1]):
            n += X[i, k] != 0.0
        indptr[i + 1] = indptr[i] + n


@entry
def fill(X, indptr, indices, data):
    """Fill indices and data."""
    at = np.uint64(0)
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            if X[i, k] != 0.0:
                indices[at] = k
                data[at] = X[i, k]
                at += np.uint64(1)
