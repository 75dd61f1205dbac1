"""Conversion of a dense matrix with few nonzeros to CSR."""

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


@entry
def has_duplicates(indptr, indices, seen):
    """Whether a CSR row stores a column twice; ``seen`` must be -1 for every column."""
    for i in range(indptr.shape[0] - 1):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(indices[k])
            if seen[j] == i:
                return True
            seen[j] = i
    return False


@entry
def place_rows(indptr, indices, data, factor, shift, begin, out_indices, out_data):
    """Copy CSR rows, with shifted columns and scaled values, to the positions ``begin``, and advance
    ``begin``."""
    for i in range(len(begin)):
        at = np.int64(begin[i])
        for k in range(indptr[i], indptr[i + 1]):
            out_indices[at] = indices[k] + shift
            out_data[at] = factor * data[k]
            at += 1
        begin[i] = at
