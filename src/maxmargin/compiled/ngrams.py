"""Products with hashed n-grams that are never written down.

Document i is the tokens ``tokens[indptr[i] : indptr[i + 1]]``, 32-bit hashes. The n-gram t_1 .. t_n has
the number h(t_1 .. t_n) = mix(h(t_1 .. t_{n-1}) + t_n), 64 bits, and h of nothing is a seed; so one walk
over n tokens numbers n n-grams. Its column are the upper bits of h, scaled to the number of columns,
its sign the lowest one.

Weights are visited at random: the columns of a stretch of tokens are computed first, and each weight
fetched some visits ahead.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined
from maxmargin.compiled.prefetch import prefetch

SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
#: n-grams numbered at a time, and how many visits ahead a weight is fetched
STRETCH, AHEAD = 512, 16


@inlined
def _mix(h):
    """The finaliser of SplitMix64: every bit of the input moves every bit of the output."""
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
    """Columns and signs of the n-grams that begin at ``at``; returns how many there are by now."""
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
    """``out[c, i]``: scores of the rows; ``w`` is flat, k numbers for each feature."""
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
                prefetch(w, columns[j] * k)
            for j in range(filled):
                if j + AHEAD < filled:
                    prefetch(w, columns[j + AHEAD] * k)
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
                prefetch(out, columns[j] * k)
            for j in range(filled):
                if j + AHEAD < filled:
                    prefetch(out, columns[j + AHEAD] * k)
                for c in range(k):
                    out[np.uint64(columns[j] * k + c)] += signs[j] * coef[c, i - lo]


@inlined
def _count(tokens, at, end, first, last, n_features, signed, columns, signs, seen, here):
    """Sum the signs of one document in ``seen``; returns the number of different columns, listed in
    ``here`` (some of their sums may be zero)."""
    n = 0
    for start in range(at, end):
        filled = _number(
            tokens, start, end, first, last, n_features, signed, columns, signs, 0
        )
        for j in range(filled):
            column = np.uint64(columns[j])
            if seen[2 * column + 1] == 0:
                here[n] = columns[j]
                n += 1
                seen[2 * column + 1] = 1
            seen[2 * column] += np.int32(signs[j])
    return n


@entry
def ngrams_rows(tokens, indptr, first, last, n_features, signed, rows, out_indptr, indices, data):
    """The rows as CSR, columns as they occur; n-grams that cancel stay as zeros."""
    columns, signs = np.empty(last, np.int64), np.empty(last)
    seen = np.zeros(2 * n_features, np.int32)
    filled = 0
    for q in range(len(rows)):
        at, end = indptr[rows[q]], indptr[rows[q] + 1]
        here = indices[filled:]
        n = _count(
            tokens, at, end, first, last, n_features, signed, columns, signs, seen, here
        )
        for j in range(n):
            column = np.uint64(here[j])
            data[filled + j] = seen[2 * column]
            seen[2 * column] = 0
            seen[2 * column + 1] = 0
        filled += n
        out_indptr[q + 1] = filled


@entry
def ngrams_norms(tokens, indptr, first, last, n_features, signed, room, entries, squares):
    """Number of different columns and squared norm of every row."""
    columns, signs = np.empty(last, np.int64), np.empty(last)
    seen, here = np.zeros(2 * n_features, np.int32), np.empty(room, np.int64)
    for i in range(len(entries)):
        n = _count(
            tokens, indptr[i], indptr[i + 1], first, last, n_features, signed, columns, signs, seen,
            here,
        )  # fmt: skip
        entries[i] = n
        for j in range(n):
            column = np.uint64(here[j])
            squares[i] += np.float64(seen[2 * column]) ** 2
            seen[2 * column] = 0
            seen[2 * column + 1] = 0


@entry
def ngrams_find(tokens, indptr, first, last, n_features, wanted, at, order):
    """Where n-grams of one column begin and how long they are; returns how many were found."""
    columns, signs = np.empty(last, np.int64), np.empty(last)
    found = 0
    for i in range(len(indptr) - 1):
        for start in range(indptr[i], indptr[i + 1]):
            n = _number(
                tokens, start, indptr[i + 1], first, last, n_features, False, columns, signs, 0
            )
            for j in range(n):
                if columns[j] == wanted:
                    at[found], order[found] = start, first + j
                    found += 1
                    if found == len(at):
                        return found
    return found
