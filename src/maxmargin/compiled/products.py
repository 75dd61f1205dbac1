"""Products with the rows ``lo .. hi-1`` of a CSR or dense matrix, for one vector or for K columns.

Indices are cast to unsigned: handling of negative indices is the only overhead of Numba compared to C. Sums
within a row may be reordered; the order is fixed at compile time, so results are bit-identical between runs.
Data may be float32 or float64; products and sums are float64. Transposed products skip rows with coefficient
zero. Columns are processed in registers of eight, two at a time.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, entry_in_order, entry_products, inlined, inlined_in_order


@entry_in_order
def csr_dot(indptr, indices, data, w, lo, hi, out):
    for i in range(lo, hi):
        s = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            s += data[k] * w[np.uint64(indices[k])]
        out[i - lo] = s


@entry_in_order
def csr_accumulate(indptr, indices, data, coef, lo, hi, out):
    for i in range(lo, hi):
        c = coef[i - lo]
        if c != 0.0:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                out[np.uint64(indices[k])] += c * data[k]


@inlined_in_order
def _dot_8(indptr, indices, data, W, lo, hi, out, c):
    n_columns = W.shape[1]
    here, zero = simd.first(n_columns - c), simd.fill(0.0)
    for i in range(lo, hi):
        s = zero
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            source = np.int64(indices[k]) * n_columns + c
            s = simd.fma(simd.fill(np.float64(data[k])), simd.load(W, source, here, zero), s)
        simd.store(out, (i - lo) * n_columns + c, here, s)


@inlined_in_order
def _dot_16(indptr, indices, data, W, lo, hi, out, c):
    n_columns = W.shape[1]
    there, zero = simd.first(n_columns - c - simd.LANES), simd.fill(0.0)
    here = simd.first(simd.LANES)
    for i in range(lo, hi):
        s, r = zero, zero
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            source = np.int64(indices[k]) * n_columns + c
            v = simd.fill(np.float64(data[k]))
            s = simd.fma(v, simd.load(W, source, here, zero), s)
            r = simd.fma(v, simd.load(W, source + simd.LANES, there, zero), r)
        simd.store(out, (i - lo) * n_columns + c, here, s)
        simd.store(out, (i - lo) * n_columns + c + simd.LANES, there, r)


@entry_in_order
def csr_dot_columns(indptr, indices, data, W, lo, hi, out):
    n_columns = W.shape[1]
    for c in range(0, n_columns, 2 * simd.LANES):
        if n_columns - c > simd.LANES:
            _dot_16(indptr, indices, data, W, lo, hi, out, c)
        else:
            _dot_8(indptr, indices, data, W, lo, hi, out, c)


@inlined_in_order
def _add_row(indices, data, start, end, coef, at, out):
    """Add one row times the coefficients starting at element ``at``, all columns."""
    n_columns, zero = out.shape[1], simd.fill(0.0)
    for c in range(0, n_columns, simd.LANES):
        here = simd.first(n_columns - c)
        scale = simd.load(coef, at + c, here, zero)
        for k in range(start, end):
            target = np.int64(indices[k]) * n_columns + c
            before = simd.load(out, target, here, zero)
            simd.store(out, target, here, simd.fma(simd.fill(np.float64(data[k])), scale, before))


@inlined
def _columns_of(coef, at, n_columns):
    """Number of nonzero coefficients, and the first and the last of them."""
    zero = simd.fill(0.0)
    count, p, q = 0, np.int64(0), np.int64(0)
    for c in range(0, n_columns, simd.LANES):
        some = simd.bits(
            simd.differ(simd.load(coef, at + c, simd.first(n_columns - c), zero), zero)
        )
        while some:
            q = c + simd.lowest(some)
            p = q if count == 0 else p
            count += 1
            some &= some - 1
    return count, p, q


@entry_in_order
def csr_accumulate_columns(indptr, indices, data, coef, lo, hi, out):
    n_columns = coef.shape[1]
    for i in range(lo, hi):
        at = (i - lo) * n_columns
        count, p, q = _columns_of(coef, at, n_columns)
        if count == 0:
            continue
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if count == 2:  # the common case: the true class and the violator
            first, second = coef[i - lo, p], coef[i - lo, q]
            left, right = np.uint64(p), np.uint64(q)
            for k in range(start, end):
                j, v = np.uint64(indices[k]), np.float64(data[k])
                out[j, left] += v * first
                out[j, right] += v * second
        else:
            _add_row(indices, data, start, end, coef, at, out)


@entry_products
def dense_dot(X, w, lo, hi, out):
    d = X.shape[1]
    for i in range(lo, hi):
        s = 0.0
        for k in range(d):
            s += X[i, k] * w[k]
        out[i - lo] = s


@entry_products
def dense_accumulate(X, coef, lo, hi, out):
    d = X.shape[1]
    for i in range(lo, hi):
        c = coef[i - lo]
        if c != 0.0:
            for k in range(d):
                out[k] += c * X[i, k]


@entry_products
def blend(a, b, t, out):
    """``out = a + t (b - a)`` for flat arrays."""
    for i in range(a.shape[0]):
        out[i] = a[i] + t * (b[i] - a[i])


@entry
def dense_lengths(X, out):
    """The norms of the rows."""
    for i in range(X.shape[0]):
        s = 0.0
        for k in range(X.shape[1]):
            s += np.float64(X[i, k]) * X[i, k]
        out[i] = np.sqrt(s)


@entry
def csr_lengths(indptr, data, out):
    """The norms of the rows."""
    for i in range(out.shape[0]):
        s = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            s += np.float64(data[k]) * data[k]
        out[i] = np.sqrt(s)
