"""Matrix-free products with k-mer features of strings.

The columns of one *table* are all words of order ``first``, then all of order ``first + 1``, and so on up to
``last``; ``size[k]`` is the number of words of order k. Positional features have one table per position
(shorter near the end of the string), counts have one for all positions.

Words of one order are sorted by their *last* letter, then the one before: word x_0 x_1 .. x_{k-1} has the
index ``sum_i x_i size[i]``. The prefixes of a word are the words of lower order at the same position, so one
table of sums,

    T_k[x_0 .. x_{k-1}] = T_{k-1}[x_0 .. x_{k-2}] + value[k] w_k[x_0 .. x_{k-1}]

replaces the products of all orders by a single access to T_last: an eighth of the accesses for orders 1 .. 8,
into 0.5 MB that stay in the cache, because all rows visit one position before the next. One sequential pass
over w fills it; with this indexing its loops run over contiguous memory. The transposed product does the
reverse: coefficients are added up by longest word, then folded from order to order.

Strings are read from their end: the index of the longest word at p is that at p + 1 times ``size[1]``, plus
the new letter, minus the letter that drops out. Letters are stored as (position, row), so that the letters of
a position are contiguous. A letter outside the alphabet is any number >= ``size[1]``; words that contain one
are ignored. The functions ``.._tables`` require rows without such letters; the functions ``.._words`` accept
any rows and are faster for few rows. Both add in the same order, so their scores are bit-identical.
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
def _roll(letters, rows, p, last, size, code):
    """The longest word at position p of every row, from the one at p + 1; returns its order."""
    base, new = np.int32(size[1]), letters[p]
    if p + last < letters.shape[0]:
        head, gone = np.int32(size[last - 1]), letters[p + last]
        for i in range(len(rows)):
            r = np.uint64(rows[i])
            code[i] = (code[i] - head * np.int32(gone[r])) * base + np.int32(new[r])
        return last
    for i in range(len(rows)):
        code[i] = code[i] * base + np.int32(new[np.uint64(rows[i])])
    return letters.shape[0] - p


@entry
def positional_dot_tables(letters, offset, first, last, value, size, w, columns, rows, out):
    """``out[c, i]``: scores of the rows; ``w`` is flat, ``columns`` numbers per feature."""
    table, code = np.empty(offset[1]), np.zeros(len(rows), np.int32)
    for p in range(letters.shape[0] - 1, -1, -1):
        order = _roll(letters, rows, p, last, size, code)
        if order < first:
            continue
        for c in range(columns):
            start = fill_table(w, offset[p], columns, c, first, order, value, size, table)
            longest, scores = table[start:], out[c]
            for i in range(len(rows)):
                scores[i] += longest[np.uint64(code[i])]


@entry
def positional_accumulate_tables(
    letters, offset, first, last, value, size, coef, columns, rows, out
):
    """``out += sum_i coef[c, i] x_i``, flat as ``w`` above."""
    table, code = np.zeros(offset[1]), np.zeros(len(rows), np.int32)
    for p in range(letters.shape[0] - 1, -1, -1):
        order = _roll(letters, rows, p, last, size, code)
        if order < first:
            continue
        start = np.int64(0)
        for k in range(first, order):
            start += size[k]
        longest = table[start:]
        for c in range(columns):
            factor = coef[c]
            for i in range(len(rows)):
                longest[np.uint64(code[i])] += factor[i]
            fold_table(table, offset[p], columns, c, first, order, value, size, out)


@entry
def positional_kernel_dot(letters, offset, first, last, value, size, coef, columns, rows, out):
    """``out[c] += X X' coef[c]``: both products at once, without a weight vector.

    At each position the table of coefficients becomes the table of scores: first the sums over words with a
    common prefix, order by order, then value^2 times them accumulated along the prefixes.
    """
    table, code = np.zeros(offset[1]), np.zeros(len(rows), np.int32)
    for p in range(letters.shape[0] - 1, -1, -1):
        order = _roll(letters, rows, p, last, size, code)
        if order < first:
            continue
        start = np.int64(0)
        for k in range(first, order):
            start += size[k]
        longest = table[start : start + size[order]]
        for c in range(columns):
            factor, scores = coef[c], out[c]
            for i in range(len(rows)):
                longest[np.uint64(code[i])] += factor[i]
            at = start
            for k in range(order, first, -1):
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
            for k in range(first + 1, order + 1):
                n, square = size[k - 1], value[k] * value[k]
                prefix = table[at : at + n]
                at += n
                for letter in range(size[1]):
                    part = table[at + letter * n : at + (letter + 1) * n]
                    for j in range(n):
                        part[j] = prefix[j] + square * part[j]
            for i in range(len(rows)):
                scores[i] += longest[np.uint64(code[i])]
            table[: start + size[order]] = 0.0


@entry
def positional_dot_words(letters, offset, first, last, value, size, w, columns, rows, out):
    """The same, word by word."""
    length = letters.shape[0]
    for p in range(length - first, -1, -1):
        for i in range(len(rows)):
            for c in range(columns):
                at, word, total = offset[p], np.int64(0), 0.0
                for k in range(1, min(last, length - p) + 1):
                    letter = np.int64(letters[p + k - 1, rows[i]])
                    if letter >= size[1]:
                        break
                    word += letter * size[k - 1]
                    if k >= first:
                        total += value[k] * w[(at + word) * columns + c]
                        at += size[k]
                out[c, i] += total


@entry
def positional_accumulate_words(
    letters, offset, first, last, value, size, coef, columns, rows, out
):
    """The same, word by word."""
    length = letters.shape[0]
    for p in range(length - first, -1, -1):
        for i in range(len(rows)):
            at, word = offset[p], np.int64(0)
            for k in range(1, min(last, length - p) + 1):
                letter = np.int64(letters[p + k - 1, rows[i]])
                if letter >= size[1]:
                    break
                word += letter * size[k - 1]
                if k >= first:
                    for c in range(columns):
                        out[(at + word) * columns + c] += value[k] * coef[c, i]
                    at += size[k]


@entry
def positional_rows(strings, offset, first, last, value, size, indptr, indices, data):
    """Rows as CSR, columns ascending; ``strings`` holds their letters by row."""
    n, length = strings.shape
    filled = np.uint64(0)
    for i in range(n):
        for p in range(length - first + 1):
            at, word = offset[p], np.int64(0)
            for k in range(1, min(last, length - p) + 1):
                letter = np.int64(strings[i, p + k - 1])
                if letter >= size[1]:
                    break
                word += letter * size[k - 1]
                if k >= first:
                    indices[filled] = at + word
                    data[filled] = value[k]
                    filled += np.uint64(1)
                    at += size[k]
        indptr[i + 1] = filled


@entry
def positional_norms(letters, first, last, value, size, rows, counts, squares):
    """Number of words in each row and the sum of their squared values."""
    length = letters.shape[0]
    for i in range(len(rows)):
        run = 0  # number of valid letters from here
        for p in range(length - 1, -1, -1):
            run = run + 1 if letters[p, rows[i]] < size[1] else 0
            for k in range(first, min(run, last) + 1):
                counts[i] += 1
                squares[i] += value[k] * value[k]
