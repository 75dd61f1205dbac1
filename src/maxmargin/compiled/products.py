"""Products with the rows ``lo .. hi-1`` of a CSR or dense matrix, for one vector or for K columns.

Indices are cast to unsigned: Numba's handling of negative indices is its whole penalty against C.
The flags allow re-ordered sums inside one row (the order is fixed at compile time, so results
repeat bit for bit). Data may be float32 or float64; products and sums are float64. Transposed
products skip rows with coefficient zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FLAGS = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=FLAGS)
def csr_dot(indptr, indices, data, w, lo, hi, out):
    for i in range(lo, hi):
        s = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            s += data[k] * w[np.uint64(indices[k])]
        out[i - lo] = s


@njit(nogil=True, cache=True, fastmath=FLAGS)
def csr_accumulate(indptr, indices, data, coef, lo, hi, out):
    for i in range(lo, hi):
        c = coef[i - lo]
        if c != 0.0:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                out[np.uint64(indices[k])] += c * data[k]


@njit(nogil=True, cache=True, fastmath=FLAGS)
def csr_dot_columns(indptr, indices, data, W, lo, hi, out):
    n_columns = W.shape[1]
    for i in range(lo, hi):
        row = out[i - lo]
        for c in range(n_columns):
            row[c] = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            v = np.float64(data[k])
            source = W[np.uint64(indices[k])]
            for c in range(n_columns):
                row[c] += v * source[c]


@njit(nogil=True, cache=True, fastmath=FLAGS)
def csr_accumulate_columns(indptr, indices, data, coef, lo, hi, out):
    n_columns = coef.shape[1]
    columns = np.empty(n_columns, dtype=np.uint64)
    for i in range(lo, hi):
        count = 0  # a row usually touches two classes: the true one and the violator
        for c in range(n_columns):
            if coef[i - lo, c] != 0.0:
                columns[count] = c
                count += 1
        if count == 0:
            continue
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            v = np.float64(data[k])
            target = out[np.uint64(indices[k])]
            for q in range(count):
                target[columns[q]] += v * coef[i - lo, columns[q]]


@njit(nogil=True, cache=True, fastmath=FLAGS)
def dense_dot(X, w, lo, hi, out):
    d = X.shape[1]
    for i in range(lo, hi):
        s = 0.0
        for k in range(d):
            s += X[i, k] * w[k]
        out[i - lo] = s


@njit(nogil=True, cache=True, fastmath=FLAGS)
def dense_accumulate(X, coef, lo, hi, out):
    d = X.shape[1]
    for i in range(lo, hi):
        c = coef[i - lo]
        if c != 0.0:
            for k in range(d):
                out[k] += c * X[i, k]
