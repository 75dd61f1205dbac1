"""Products with selected rows: margins Z w, sums Z' coef and Gram matrices Z' diag(theta) Z.

Row p of Z is ``y[p]`` times row ``index[p]`` of a CSR or dense matrix, followed by the constant feature
``y[p] * constant`` if ``w`` has one entry more than the matrix has columns. (y is +-1, so it cancels in Gram
matrices.) Data may be float32 or float64; all sums are float64.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.compiled.jit import entry, entry_in_order, entry_products


@entry_in_order
def csr_margins(indptr, indices, data, constant, w, index, y, out):
    d = w.shape[0] - (1 if constant != 0.0 else 0)
    last = constant * w[d] if constant != 0.0 else 0.0
    for p in range(index.shape[0]):
        i = index[p]
        s = last
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            s += data[k] * w[np.uint64(indices[k])]
        out[p] = y[p] * s


@entry_products
def dense_margins(X, constant, w, index, y, out):
    d = X.shape[1]
    last = constant * w[d] if constant != 0.0 else 0.0
    for p in range(index.shape[0]):
        i = np.uint64(index[p])
        s = last
        for k in range(d):
            s += X[i, k] * w[k]
        out[p] = y[p] * s


@entry_in_order
def csr_combine(indptr, indices, data, constant, coef, index, y, out):
    """Add Z' coef to ``out``."""
    total = 0.0
    for p in range(index.shape[0]):
        c = coef[p] * y[p]
        if c != 0.0:
            total += c
            i = index[p]
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                out[np.uint64(indices[k])] += c * data[k]
    if constant != 0.0:
        out[out.shape[0] - 1] += constant * total


@entry_products
def dense_combine(X, constant, coef, index, y, out):
    """Add Z' coef to ``out``."""
    total, d = 0.0, X.shape[1]
    for p in range(index.shape[0]):
        c = coef[p] * y[p]
        if c != 0.0:
            total += c
            i = np.uint64(index[p])
            for k in range(d):
                out[k] += c * X[i, k]
    if constant != 0.0:
        out[d] += constant * total


@entry
def csr_outer(indptr, indices, data, constant, theta, index, pairs, squares):
    """Add the outer products of the rows with theta > 0; returns the number of these rows.

    Products of different stored entries go to ``pairs`` once, squares to ``squares``: the matrix is
    pairs + pairs' + diag(squares). Indices may be unsorted and repeated.
    """
    count, total, last = 0, 0.0, np.uint64(squares.shape[0] - 1)
    for p in range(index.shape[0]):
        th = theta[p]
        if th == 0.0:
            continue
        count += 1
        total += th
        i = index[p]
        lo, hi = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for a in range(lo, hi):
            v = th * data[a]
            row = np.uint64(indices[a])
            for b in range(lo, a):
                pairs[row, np.uint64(indices[b])] += v * data[b]
            squares[row] += v * data[a]
            if constant != 0.0:
                pairs[last, row] += v * constant
    if constant != 0.0:
        squares[last] += total * constant * constant
    return count


@entry
def csr_block(indptr, indices, data, constant, theta, index, start, block):
    """Write sqrt(theta) times the rows with theta > 0, starting at ``start``, to ``block``.

    Returns (rows written, position to resume at); the rest of the block is zero.
    """
    count, p, n = 0, start, index.shape[0]
    block[:] = 0.0
    while p < n and count < block.shape[0]:
        if theta[p] > 0.0:
            root = math.sqrt(theta[p])
            i = index[p]
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                block[count, np.uint64(indices[k])] += root * data[k]
            if constant != 0.0:
                block[count, block.shape[1] - 1] = root * constant
            count += 1
        p += 1
    return count, p


@entry
def dense_block(X, constant, theta, index, start, block):
    """As :func:`csr_block`."""
    count, p, n, d = 0, start, index.shape[0], X.shape[1]
    while p < n and count < block.shape[0]:
        if theta[p] > 0.0:
            root = math.sqrt(theta[p])
            i = np.uint64(index[p])
            for k in range(d):
                block[count, k] = root * X[i, k]
            if constant != 0.0:
                block[count, d] = root * constant
            count += 1
        p += 1
    block[count:] = 0.0
    return count, p
