"""Matrix-free products with hashed n-grams.

Document i has the tokens ``tokens[indptr[i] : indptr[i + 1]]``, 32-bit hashes. The n-gram t_1 .. t_n has the
64-bit hash h(t_1 .. t_n) = mix(h(t_1 .. t_{n-1}) + t_n); the hash of the empty n-gram is a seed. So one pass
over n tokens hashes n n-grams. The upper bits of h, scaled to the number of columns, give the column, the
lowest bit the sign.

Weights are accessed randomly: the columns of a stretch of tokens are computed first, and each weight is
prefetched a few visits ahead.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, inlined

SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
#: n-grams hashed at a time, and number of visits ahead that a weight is prefetched
STRETCH, AHEAD = 512, 16


@inlined
def _mix(h):
    """The finalizer of SplitMix64: every input bit affects every output bit."""
    h += SEED
    h = (h ^ (h >> np.uint64(30))) * _FIRST
    h = (h ^ (h >> np.uint64(27))) * _SECOND
    return h ^ (h >> np.uint64(31))


@inlined
def _column(h, n_features):
    """The upper 32 bits, scaled to the number of columns."""
    return np.int64(((h >> np.uint64(32)) * np.uint64(n_features)) >> np.uint64(32))


@inlined
def _sign(h, signed):
    return -1.0 if signed and (h & np.uint64(1)) else 1.0


@inlined
def _number(tokens, at, end, first, last, n_features, signed, columns, signs, filled):
    """Append columns and signs of the n-grams that begin at ``at``; returns their new number."""
    h = np.uint64(0)
    for n in range(1, min(last, end - at) + 1):
        h = _mix(h + np.uint64(tokens[at + n - 1]))
        if n >= first:
            columns[filled] = _column(h, n_features)
            signs[filled] = _sign(h, signed)
            filled += 1
    return filled


@entry
def ngrams_dot(tokens, indptr, first, last, n_features, signed, w, k, lo, hi, out):
    """``out[c, i]``: scores of the rows; ``w`` is flat, k numbers per feature."""
    room = STRETCH + last
    columns, signs = np.empty(room, np.int64), np.empty(room)
    for i in range(lo, hi):
        at, end = indptr[i], indptr[i + 1]
        while at < end:
            filled = 0
            while at < end and filled < STRETCH:
                filled = _number(
                    tokens, at, end, first, last, n_features, signed, columns, signs, filled
                )
                at += 1
            for j in range(min(AHEAD, filled)):
                simd.prefetch(w, columns[j] * k)
            for j in range(filled):
                if j + AHEAD < filled:
                    simd.prefetch(w, columns[j + AHEAD] * k)
                for c in range(k):
                    out[c, i - lo] += signs[j] * w[np.uint64(columns[j] * k + c)]


@entry
def ngrams_accumulate(tokens, indptr, first, last, n_features, signed, coef, k, lo, hi, out):
    """``out += sum_i coef[c, i] x_i``."""
    room = STRETCH + last
    columns, signs = np.empty(room, np.int64), np.empty(room)
    for i in range(lo, hi):
        some = False
        for c in range(k):
            some |= coef[c, i - lo] != 0.0
        if not some:
            continue
        at, end = indptr[i], indptr[i + 1]
        while at < end:
            filled = 0
            while at < end and filled < STRETCH:
                filled = _number(
                    tokens, at, end, first, last, n_features, signed, columns, signs, filled
                )
                at += 1
            for j in range(min(AHEAD, filled)):
                simd.prefetch(out, columns[j] * k)
            for j in range(filled):
                if j + AHEAD < filled:
                    simd.prefetch(out, columns[j + AHEAD] * k)
                for c in range(k):
                    out[np.uint64(columns[j] * k + c)] += signs[j] * coef[c, i - lo]


@inlined
def _sorted(tokens, at, end, first, last, n_features, signed):
    """The n-grams of one document by column, as ``2 column``, plus 1 if the sign is negative."""
    columns, signs = np.empty(last, np.int64), np.empty(last)
    keys = np.empty((end - at) * (last - first + 1), np.int64)
    n = 0
    for start in range(at, end):
        filled = _number(tokens, start, end, first, last, n_features, signed, columns, signs, 0)
        for j in range(filled):
            keys[n] = 2 * columns[j] + (signs[j] < 0.0)
            n += 1
    keys = keys[:n]
    keys.sort()
    return keys


@inlined
def _sum_of(keys, j):
    """The value of the column at index j, and the index of the next column."""
    column, total = keys[j] >> 1, 0.0
    while j < len(keys) and keys[j] >> 1 == column:
        total += -1.0 if keys[j] & 1 else 1.0
        j += 1
    return total, j


@entry
def ngrams_rows(tokens, indptr, first, last, n_features, signed, rows, out_indptr, indices, data):
    """The rows as CSR, columns ascending; n-grams that cancel stay as explicit zeros."""
    filled = 0
    for q in range(len(rows)):
        i = rows[q]
        keys = _sorted(tokens, indptr[i], indptr[i + 1], first, last, n_features, signed)
        j = 0
        while j < len(keys):
            indices[filled] = keys[j] >> 1
            data[filled], j = _sum_of(keys, j)
            filled += 1
        out_indptr[q + 1] = filled


@entry
def ngrams_norms(tokens, indptr, first, last, n_features, signed, entries, squares):
    """Number of distinct columns and squared norm of every row."""
    for i in range(len(entries)):
        keys = _sorted(tokens, indptr[i], indptr[i + 1], first, last, n_features, signed)
        j = 0
        while j < len(keys):
            total, j = _sum_of(keys, j)
            squares[i] += total * total
            entries[i] += 1


@entry
def ngrams_find(tokens, indptr, first, last, n_features, signed, wanted, at, order):
    """Positions and lengths of the n-grams of one column; the length is negative if the sign is. Returns the
    number found."""
    columns, signs = np.empty(last, np.int64), np.empty(last)
    found = 0
    for i in range(len(indptr) - 1):
        for start in range(indptr[i], indptr[i + 1]):
            n = _number(
                tokens, start, indptr[i + 1], first, last, n_features, signed, columns, signs, 0
            )
            for j in range(n):
                if columns[j] == wanted:
                    at[found], order[found] = start, (first + j) * np.int64(signs[j])
                    found += 1
                    if found == len(at):
                        return found
    return found
