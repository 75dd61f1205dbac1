"""Matrix-free products with k-mer features of strings.

The columns of one *table* are all words of order ``first``, then all of order ``first + 1``, and so on up to
``last``; ``size[k]`` is the number of words of order k. The table of position p begins at column
``offset[p]``. Words at positions have one table per position (shorter near the end of the strings); counted
words have one table for all positions, and ``offset`` is zero.

Words of one order are sorted by their *last* letter, then the one before: word x_0 x_1 .. x_{k-1} has the
index ``sum_i x_i size[i]``. The prefixes of a word are the words of lower order at the same position, so one
table of sums,

    T_k[x_0 .. x_{k-1}] = T_{k-1}[x_0 .. x_{k-2}] + value[k] w_k[x_0 .. x_{k-1}]

replaces the products of all orders by a single access to T_k, with k the order of the longest word at p: an
eighth of the accesses for orders 1 .. 8, into 0.7 MB that stay in the cache, because all rows visit one
position before the next. One sequential pass over w fills it; with this indexing its loops run over
contiguous memory. The transposed product does the reverse: coefficients are added up by longest word, then
folded from order to order.

Letters are stored by position: ``letters[begin[p] + r]`` is the letter at p of the string of rank r. Ranks
are by decreasing length, so that the strings that reach position p are the first ``begin[p + 1] - begin[p]``.
Functions take the ranks of their rows in increasing order. A letter outside the alphabet is any number >=
``size[1]``; words that contain one are ignored.

Strings are read from their end, and the longest word at p is a number v: words of all orders from 0 (the
empty word, v = 0) in the order above. With one more letter x in front, v becomes ``v size[1] + 1 + x``; a
word of order ``last`` first loses its last letter y, ``v - size[last - 1] (1 + y)``. The entries of orders
below ``first`` in a table of sums are zero.

The functions ``.._words`` look up every word, which is faster for few rows. They add in the same order as
``.._tables``, so their scores are bit-identical.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined


@inlined
def fill_table(w, at, columns, c, first, last, value, size, table):
    """Sums over the prefixes of all words; returns the first index of the words of order ``last``.

    The weights of word j are ``w[(at + j) columns + c]``.
    """
    start = np.int64(0)
    for j in range(size[first]):
        table[j] = value[first] * w[(at + j) * columns + c]
    for k in range(first + 1, last + 1):
        n, v = size[k - 1], value[k]
        prefix, here = table[start : start + n], start + n
        for _ in range(size[1]):
            sums, weights = table[here : here + n], w[(at + here) * columns + c :]
            for j in range(n):
                sums[j] = prefix[j] + v * weights[j * columns]
            here += n
        start += n
    return start


@inlined
def fold_table(table, at, columns, c, first, last, value, size, out):
    """Add a table of coefficients by longest word to all orders of ``out``, and reset it to zero."""
    start = np.int64(0)
    for k in range(first, last):
        start += size[k]
    for k in range(last, first - 1, -1):
        v = value[k]
        here, target = table[start : start + size[k]], out[(at + start) * columns + c :]
        for j in range(size[k]):
            target[j * columns] += v * here[j]
        if k > first:
            n = size[k - 1]
            above = table[start - n : start]
            for letter in range(size[1]):
                part = here[letter * n : (letter + 1) * n]
                for j in range(n):
                    above[j] += part[j]
            start -= n
        here[:] = 0.0


@inlined
def _below(k, size):
    """Number of words of orders 0 .. k - 1."""
    total = np.int64(0)
    for j in range(k):
        total += size[j]
    return total


@inlined
def _roll(letters, begin, rows, p, last, size, word):
    """The longest word at position p of every row, from the one at p + 1; returns how many rows reach p."""
    base, head, full = np.int32(size[1]), np.int32(size[last - 1]), np.int32(_below(last, size))
    new = letters[begin[p] : begin[p + 1]]
    old = letters[begin[p + last] : begin[p + last + 1]] if p + last + 1 < len(begin) else new
    for i in range(len(rows)):
        r = np.uint64(rows[i])
        if r >= np.uint64(len(new)):
            return i
        v, letter = word[i], np.int32(new[r])
        if v >= full:
            v -= head * np.int32(1 + old[r])
        word[i] = v * base + 1 + letter if letter < base else 0
    return len(rows)


@entry
def dot_tables(letters, begin, offset, first, last, value, size, w, columns, rows, out):
    """``out[c, i]``: scores of the rows; ``w`` is flat, ``columns`` numbers per feature."""
    tables, word = np.zeros((columns, _below(last + 1, size))), np.zeros(len(rows), np.int32)
    length, low, counted = len(begin) - 1, _below(first, size), offset[-1] == 0
    for p in range(length - 1, -1, -1):
        n = _roll(letters, begin, rows, p, last, size, word)
        for c in range(columns):
            table, scores = tables[c], out[c]
            if counted and p == length - 1:
                fill_table(w, np.int64(0), columns, c, first, last, value, size, table[low:])
            elif not counted and length - p >= first:
                longest = min(last, length - p)
                fill_table(w, offset[p], columns, c, first, longest, value, size, table[low:])
            for i in range(n):
                scores[i] += table[np.uint64(word[i])]


@entry
def accumulate_tables(letters, begin, offset, first, last, value, size, coef, columns, rows, out):
    """``out += sum_i coef[c, i] x_i``, flat as ``w`` above."""
    tables, word = np.zeros((columns, _below(last + 1, size))), np.zeros(len(rows), np.int32)
    length, low, counted = len(begin) - 1, _below(first, size), offset[-1] == 0
    for p in range(length - 1, -1, -1):
        n = _roll(letters, begin, rows, p, last, size, word)
        for c in range(columns):
            table, factor = tables[c], coef[c]
            for i in range(n):
                table[np.uint64(word[i])] += factor[i]
            if counted and p == 0:
                fold_table(table[low:], np.int64(0), columns, c, first, last, value, size, out)
            elif not counted and length - p >= first:
                longest = min(last, length - p)
                fold_table(table[low:], offset[p], columns, c, first, longest, value, size, out)


@entry
def kernel_dot(letters, begin, offset, first, last, value, size, coef, columns, rows, out):
    """``out[c] += X X' coef[c]`` for words at positions: both products at once, without a weight vector.

    At each position the table of coefficients becomes the table of scores: first the sums over words with a
    common prefix, order by order, then value^2 times them accumulated along the prefixes.
    """
    table, word = np.zeros(_below(last + 1, size)), np.zeros(len(rows), np.int32)
    length, low = len(begin) - 1, _below(first, size)
    for p in range(length - 1, -1, -1):
        n = _roll(letters, begin, rows, p, last, size, word)
        if length - p < first:
            continue
        for c in range(columns):
            factor, scores = coef[c], out[c]
            for i in range(n):
                table[np.uint64(word[i])] += factor[i]
            table[:low] = 0.0
            _to_scores(table[low:], first, min(last, length - p), value, size)
            for i in range(n):
                scores[i] += table[np.uint64(word[i])]
            table[:] = 0.0


@inlined
def _to_scores(table, first, longest, value, size):
    at = np.int64(0)
    for k in range(first, longest):
        at += size[k]
    for k in range(longest, first, -1):
        n = size[k - 1]
        above = table[at - n : at]
        for letter in range(size[1]):
            part = table[at + letter * n : at + (letter + 1) * n]
            for j in range(n):
                above[j] += part[j]
        at -= n
    square = value[first] * value[first]
    for j in range(size[first]):
        table[j] *= square
    for k in range(first + 1, longest + 1):
        n, square = size[k - 1], value[k] * value[k]
        prefix = table[at : at + n]
        at += n
        for letter in range(size[1]):
            part = table[at + letter * n : at + (letter + 1) * n]
            for j in range(n):
                part[j] = prefix[j] + square * part[j]


@inlined
def _text(letters, begin, r, text):
    """Copy the letters of the string of rank r to ``text``; returns its length."""
    for p in range(len(text)):
        if r >= begin[p + 1] - begin[p]:
            return p
        text[p] = letters[begin[p] + r]
    return len(text)


@entry
def dot_words(letters, begin, offset, first, last, value, size, w, columns, rows, out):
    """The same as ``dot_tables``, word by word."""
    text = np.empty(len(begin) - 1, np.int64)
    for i in range(len(rows)):
        length = _text(letters, begin, rows[i], text)
        for p in range(length - 1, -1, -1):
            for c in range(columns):
                at, word, total = offset[p], np.int64(0), 0.0
                for k in range(1, min(last, length - p) + 1):
                    if text[p + k - 1] >= size[1]:
                        break
                    word += text[p + k - 1] * size[k - 1]
                    if k >= first:
                        total += value[k] * w[(at + word) * columns + c]
                        at += size[k]
                out[c, i] += total


@entry
def accumulate_words(letters, begin, offset, first, last, value, size, coef, columns, rows, out):
    """The same as ``accumulate_tables``, word by word."""
    text = np.empty(len(begin) - 1, np.int64)
    for i in range(len(rows)):
        length = _text(letters, begin, rows[i], text)
        for p in range(length):
            at, word = offset[p], np.int64(0)
            for k in range(1, min(last, length - p) + 1):
                if text[p + k - 1] >= size[1]:
                    break
                word += text[p + k - 1] * size[k - 1]
                if k >= first:
                    for c in range(columns):
                        out[(at + word) * columns + c] += value[k] * coef[c, i]
                    at += size[k]


@entry
def csr_rows(letters, begin, offset, first, last, value, size, ranks, place, indptr, indices, data):
    """The rows of these ranks, in this order, as CSR, columns in order of occurrence.

    Counted words may occur several times: ``place[j] - 1`` is the entry of column j. It has one number per
    column, initially 0; for words at positions it is empty.
    """
    text, counted = np.empty(len(begin) - 1, np.int64), len(place) > 0
    filled = np.int64(0)
    for q in range(len(ranks)):
        length, here = _text(letters, begin, ranks[q], text), filled
        for p in range(length):
            at, word = offset[p], np.int64(0)
            for k in range(1, min(last, length - p) + 1):
                if text[p + k - 1] >= size[1]:
                    break
                word += text[p + k - 1] * size[k - 1]
                if k < first:
                    continue
                j = np.uint64(at + word)
                if counted and place[j] > here:
                    data[place[j] - 1] += value[k]
                else:
                    indices[filled], data[filled] = j, value[k]
                    filled += 1
                    if counted:
                        place[j] = filled
                at += size[k]
        indptr[q + 1] = filled
