"""Products with counts of k-mers in strings of any lengths.

One table of columns serves all positions (see :mod:`maxmargin.compiled.kmers`). It is small enough for the
cache, so rows are read one after another, each from its end: string i is ``letters[indptr[i] : indptr[i +
1]]``. ``start[k]`` is the first word of order k.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined
from maxmargin.compiled.kmers import fill_table, fold_table


@inlined
def _starts(first, last, size):
    start = np.zeros(last + 2, np.int64)
    for k in range(first, last + 1):
        start[k + 1] = start[k] + size[k]
    return start


@entry
def counts_dot_table(letters, indptr, first, last, value, size, w, columns, lo, hi, out):
    """``out[c, i]``: scores of the rows lo .. hi-1."""
    start = _starts(first, last, size)
    table = np.empty(start[last + 1])
    base, head = np.int64(size[1]), np.int64(size[last - 1])
    for c in range(columns):
        fill_table(w, np.int64(0), columns, c, first, last, value, size, table)
        for i in range(lo, hi):
            order, word, total = np.int64(0), np.int64(0), 0.0
            for at in range(np.uint64(indptr[i + 1]), np.uint64(indptr[i]), -1):
                letter = np.int64(letters[at - np.uint64(1)])
                if letter >= base:
                    order, word = np.int64(0), np.int64(0)
                    continue
                if order == last:
                    word -= head * np.int64(letters[at + np.uint64(last - 1)])
                else:
                    order += 1
                word = word * base + letter
                if order >= first:
                    total += table[np.uint64(start[order] + word)]
            out[c, i - lo] = total


@entry
def counts_accumulate_table(letters, indptr, first, last, value, size, coef, columns, lo, hi, out):
    """``out += sum_i coef[c, i] x_i``."""
    start = _starts(first, last, size)
    table = np.zeros(start[last + 1])
    base, head = np.int64(size[1]), np.int64(size[last - 1])
    for c in range(columns):
        for i in range(lo, hi):
            factor = coef[c, i - lo]
            if factor == 0.0:
                continue
            order, word = np.int64(0), np.int64(0)
            for at in range(np.uint64(indptr[i + 1]), np.uint64(indptr[i]), -1):
                letter = np.int64(letters[at - np.uint64(1)])
                if letter >= base:
                    order, word = np.int64(0), np.int64(0)
                    continue
                if order == last:
                    word -= head * np.int64(letters[at + np.uint64(last - 1)])
                else:
                    order += 1
                word = word * base + letter
                if order >= first:
                    table[np.uint64(start[order] + word)] += factor
        fold_table(table, np.int64(0), columns, c, first, last, value, size, out)


@entry
def counts_dot_words(letters, indptr, first, last, value, size, w, columns, lo, hi, out):
    """The same scores, bit-identical, word by word: faster for few letters."""
    start = _starts(first, last, size)
    for i in range(lo, hi):
        end = indptr[i + 1]
        for c in range(columns):
            total = 0.0
            for at in range(end - 1, indptr[i] - 1, -1):
                word, part = np.int64(0), 0.0
                for k in range(1, min(last, end - at) + 1):
                    letter = np.int64(letters[at + k - 1])
                    if letter >= size[1]:
                        break
                    word += letter * size[k - 1]
                    if k >= first:
                        part += value[k] * w[(start[k] + word) * columns + c]
                total += part
            out[c, i - lo] = total


@entry
def counts_accumulate_words(letters, indptr, first, last, value, size, coef, columns, lo, hi, out):
    """The same, word by word: faster for few letters."""
    start = _starts(first, last, size)
    for i in range(lo, hi):
        end = indptr[i + 1]
        for at in range(indptr[i], end):
            word = np.int64(0)
            for k in range(1, min(last, end - at) + 1):
                letter = np.int64(letters[at + k - 1])
                if letter >= size[1]:
                    break
                word += letter * size[k - 1]
                if k >= first:
                    for c in range(columns):
                        out[(start[k] + word) * columns + c] += value[k] * coef[c, i - lo]


@inlined
def _words(letters, lo, hi, first, last, size, start, seen, columns, order):
    """Count the words of one string in ``seen``; returns the number of distinct words, which are listed in
    ``columns`` with their ``order``."""
    n = 0
    for at in range(lo, hi):
        word = np.int64(0)
        for k in range(1, min(last, hi - at) + 1):
            letter = np.int64(letters[at + k - 1])
            if letter >= size[1]:
                break
            word += letter * size[k - 1]
            if k >= first:
                j = np.uint64(start[k] + word)
                if seen[j] == 0:
                    columns[n], order[n] = j, k
                    n += 1
                seen[j] += 1
    return n


@inlined
def _longest(indptr, rows):
    longest = np.int64(0)
    for i in rows:
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


@entry
def counts_rows(letters, indptr, first, last, value, size, rows, out_indptr, indices, data):
    """The rows as CSR, columns in order of occurrence, each with its count times its value."""
    start = _starts(first, last, size)
    seen = np.zeros(start[last + 1], np.int32)
    room = _longest(indptr, rows) * (last - first + 1)
    order = np.empty(room, np.int64)
    filled = 0
    for q in range(len(rows)):
        i = rows[q]
        here = indices[filled:]
        n = _words(letters, indptr[i], indptr[i + 1], first, last, size, start, seen, here, order)
        for j in range(n):
            data[filled + j] = seen[here[j]] * value[order[j]]
            seen[here[j]] = 0
        filled += n
        out_indptr[q + 1] = filled


@entry
def counts_norms(letters, indptr, first, last, value, size, rows, words, squares):
    """Number of distinct words in each string, and the squared norm of counts times values."""
    start = _starts(first, last, size)
    seen = np.zeros(start[last + 1], np.int32)
    room = _longest(indptr, rows) * (last - first + 1)
    order, here = np.empty(room, np.int64), np.empty(room, np.int64)
    for i in rows:
        n = _words(letters, indptr[i], indptr[i + 1], first, last, size, start, seen, here, order)
        words[i] = n
        for j in range(n):
            squares[i] += (seen[here[j]] * value[order[j]]) ** 2
            seen[here[j]] = 0
