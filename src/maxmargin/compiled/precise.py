"""Sums of products in twice the precision of doubles: a sum is a pair (high, low) of numbers.

Products and sums are split into the rounded result and the rounding error (Veltkamp, Dekker, Knuth); the
errors are summed separately (Dot2 of Ogita, Rump and Oishi). With u the unit roundoff and n terms t_k,

    |high + low - sum_k t_k|  <=  (n u)^2 sum_k |t_k|,  approximately.

It costs a few times as much as a plain product and is used for the final check of a result. Reordering would
undo it, so nothing here is compiled with fast-math flags.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined

#: 2^27 + 1 splits a double into two halves
SPLIT = 134217729.0


@inlined
def add(a, b):
    """The sum and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inlined
def multiply(a, b):
    """The product and its rounding error."""
    p = a * b
    c = SPLIT * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = SPLIT * b
    b_high = c - (c - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@entry
def dot(a, b):
    """The inner product of two vectors."""
    high, low = 0.0, 0.0
    for k in range(a.shape[0]):
        p, e = multiply(a[k], b[k])
        high, t = add(high, p)
        low += t + e
    return add(high, low)


@entry
def dense_scores(X, w, high, low, size):
    """Add X w to pairs, and |X| |w| to ``size``."""
    for i in range(X.shape[0]):
        h, l = high[i], low[i]
        for k in range(X.shape[1]):
            p, e = multiply(np.float64(X[i, k]), w[k])
            h, t = add(h, p)
            l += t + e
            size[i] += abs(p)
        high[i], low[i] = add(h, l)


@entry
def csr_scores(indptr, indices, data, w, high, low, size):
    """Add X w to pairs, and |X| |w| to ``size``."""
    for i in range(high.shape[0]):
        h, l = high[i], low[i]
        for k in range(indptr[i], indptr[i + 1]):
            p, e = multiply(np.float64(data[k]), w[indices[k]])
            h, t = add(h, p)
            l += t + e
            size[i] += abs(p)
        high[i], low[i] = add(h, l)


@entry
def dense_combine(X, coef, high, low):
    """Add X' coef to pairs."""
    for i in range(X.shape[0]):
        if coef[i] != 0.0:
            for k in range(X.shape[1]):
                p, e = multiply(np.float64(X[i, k]), coef[i])
                high[k], t = add(high[k], p)
                low[k] += t + e


@entry
def csr_combine(indptr, indices, data, coef, high, low):
    """Add X' coef to pairs."""
    for i in range(coef.shape[0]):
        if coef[i] != 0.0:
            for q in range(indptr[i], indptr[i + 1]):
                k = indices[q]
                p, e = multiply(np.float64(data[q]), coef[i])
                high[k], t = add(high[k], p)
                low[k] += t + e


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
