"""Parser of text lines ``label [qid:number] index:value ... [# comment]`` into CSR arrays.

A number whose digits fit into 53 bits and whose power of ten is at most 22 needs one exact multiplication or
division, rounded once: bit-identical to C's strtod. Other numbers and invalid text are left to the caller:
``doubts`` holds their positions.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined

#: kinds of errors of a line
FINE, NO_COLON, BAD_INDEX, ORDER, MIXED_QID = 0, 1, 2, 3, 4

POWERS = 10.0 ** np.arange(23)
_NEWLINE, _HASH, _COLON, _POINT, _PLUS, _MINUS = 10, 35, 58, 46, 43, 45


@inlined
def _ends(c):
    """Whether a character ends a number: white space or a comment."""
    return c <= 32 or c == _HASH


@inlined
def _number(text, at, stop, powers):
    """(value, end, exact) of the number that begins here."""
    begin, negative = at, False
    if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1
    mantissa, digits, scale, point = np.uint64(0), 0, 0, False
    while at < stop:
        c = text[at]
        if 48 <= c <= 57:
            mantissa = mantissa * np.uint64(10) + np.uint64(c - 48)
            digits += 1 if mantissa else 0
            scale -= 1 if point else 0
        elif c == _POINT and not point:
            point = True
        else:
            break
        at += 1
    sure = at > begin + negative and digits <= 18
    if at < stop and (text[at] | 32) == 101:  # e
        at += 1
        down, power, some = False, 0, 0
        if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
            down = text[at] == _MINUS
            at += 1
        while at < stop and 48 <= text[at] <= 57 and some < 6:
            power = power * 10 + (text[at] - 48)
            some += 1
            at += 1
        sure = sure and some > 0
        scale += -power if down else power
    while at < stop and not _ends(text[at]):  # text after the number
        sure = False
        at += 1
    value = np.float64(mantissa)
    if mantissa > np.uint64(9007199254740992) or scale < -22 or scale > 22:
        sure = sure and mantissa == 0
    elif scale < 0:
        value /= powers[-scale]
    else:
        value *= powers[scale]
    return (-value if negative else value), at, sure


@inlined
def _integer(text, at, stop):
    """(number, end) of the digits here; -1 if there are none or more than 18."""
    number, begin = np.int64(0), at
    while at < stop and 48 <= text[at] <= 57:
        number = number * 10 + np.int64(text[at] - 48)
        at += 1
    if at == begin or at > begin + 18:
        number = np.int64(-1)
    return number, at


@entry
def parse(text, stop, first_index, powers, labels, queries, indptr, indices, data, doubts):
    """Parse whole lines; fill the arrays.

    Returns (rows, entries, doubts, kind of error, position). A doubt is (begin, end, k): the text of entry k,
    or of the label of row -1-k. ``queries`` is -1 for rows without a query.
    """
    rows, entries, n_doubts, at = 0, 0, 0, 0
    indptr[0] = 0
    while at < stop:
        while at < stop and text[at] <= 32:  # skips empty lines, too
            at += 1
        if at >= stop:
            break
        if text[at] != _HASH:
            begin = at
            labels[rows], at, sure = _number(text, at, stop, powers)
            if not sure:
                doubts[n_doubts, 0], doubts[n_doubts, 1], doubts[n_doubts, 2] = begin, at, -1 - rows
                n_doubts += 1
            queries[rows] = -1
            last = np.int64(-1)
            while True:
                while at < stop and text[at] != _NEWLINE and text[at] <= 32:
                    at += 1
                if at >= stop or text[at] == _NEWLINE or text[at] == _HASH:
                    break
                begin = at
                if text[at] == 113:  # q
                    if stop - at < 5 or text[at + 1] != 105 or text[at + 2] != 100:
                        return rows, entries, n_doubts, NO_COLON, begin
                    at += 3
                    index = np.int64(-2)
                else:
                    index, at = _integer(text, at, stop)
                    if index < first_index:
                        return rows, entries, n_doubts, BAD_INDEX, begin
                    index -= first_index
                if at >= stop or text[at] != _COLON:
                    return rows, entries, n_doubts, NO_COLON, begin
                at += 1
                if index == -2:
                    queries[rows], at = _integer(text, at, stop)
                    if queries[rows] < 0 or last >= 0:
                        return rows, entries, n_doubts, MIXED_QID, begin
                    continue
                if index <= last:
                    return rows, entries, n_doubts, ORDER, begin
                last = index
                begin = at
                data[entries], at, sure = _number(text, at, stop, powers)
                if not sure:
                    doubts[n_doubts, 0], doubts[n_doubts, 1] = begin, at
                    doubts[n_doubts, 2] = entries
                    n_doubts += 1
                indices[entries] = index
                entries += 1
            if (queries[rows] < 0) != (queries[0] < 0):
                return rows, entries, n_doubts, MIXED_QID, at - 1
            rows += 1
            indptr[rows] = entries
        while at < stop and text[at] != _NEWLINE:  # the rest of the line is a comment
            at += 1
    return rows, entries, n_doubts, FINE, at
