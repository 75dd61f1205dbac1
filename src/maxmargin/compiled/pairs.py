"""Pair hinges within queries: L(s) = sum over pairs y_i > y_j of one query of c_ij max(0, 1 - (s_i - s_j)).

The pair is violated if s_j > s_i - 1. With rows in descending order of score, the rows j that can conflict
with row i are a growing prefix, and the less relevant ones among them are a prefix of the levels: a Fenwick
tree over levels gives sums over both. So a query of m rows costs O(m log m) for any number of levels,
independent of the number of pairs.

    c_ij = u_i u_j k_ij,   u weights of rows,   k_ij = 1 (EQUAL), y_i - y_j (DIFFERENCE),
                                                or an entry of a matrix (MATRIX; then O(m (log m + K)))

On the line s + t d a pair has the value 1 - (s_i - s_j) - t (d_i - d_j). A pair of value zero counts as
violated if d_j > d_i, so that slopes are right derivatives.

Labels have three columns: relevance y, index of the query, rank of y within the query.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined
from maxmargin.compiled.ordering import sort

EQUAL, DIFFERENCE, MATRIX = 0, 1, 2
#: sums over the rows of a level: of u, u x, u y, u x y
SUMS = 4
#: maximum difference of scores for which one of them serves as the origin of the others; number of levels
#: updated per step when the origin moves
FAR, FAR_LEVELS = 64.0, 64


@inlined
def query_end(labels, lo):
    """The row after the last row of the query that begins at ``lo``."""
    n, hi = labels.shape[0], lo + 1
    while hi < n and labels[hi, 1] == labels[lo, 1]:
        hi += 1
    return hi


@inlined
def longest_query(labels):
    """The largest number of rows of one query."""
    longest, lo = 0, 0
    while lo < labels.shape[0]:
        hi = query_end(labels, lo)
        longest = max(longest, hi - lo)
        lo = hi
    return longest


@inlined
def n_levels(labels, lo, hi):
    """Number of distinct relevances of the rows ``lo .. hi-1`` of one query."""
    top = 0.0
    for i in range(lo, hi):
        top = max(top, labels[i, 2])
    return int(top) + 1


@inlined
def _put(tree, kind, size, level, u, x, y):
    """Add a row of this level."""
    if kind == MATRIX:
        tree[level, 0] += u
        tree[level, 1] += u * x
        return
    at = level + 1
    while at <= size:
        tree[at, 0] += u
        tree[at, 1] += u * x
        if kind == DIFFERENCE:
            tree[at, 2] += u * y
            tree[at, 3] += u * x * y
        at += at & -at


@inlined
def _below(tree, kind, level, y, flip, matrix):
    """Sums of u k and of u k x over the added rows of lower levels."""
    c, cx, cy, cxy = 0.0, 0.0, 0.0, 0.0
    if kind == MATRIX:
        top = matrix.shape[0] - 1
        for b in range(level):
            k = matrix[top - b, top - level] if flip else matrix[level, b]
            c += k * tree[b, 0]
            cx += k * tree[b, 1]
        return c, cx
    at = level
    while at > 0:
        c += tree[at, 0]
        cx += tree[at, 1]
        if kind == DIFFERENCE:
            cy += tree[at, 2]
            cxy += tree[at, 3]
        at -= at & -at
    if kind == DIFFERENCE:
        return y * c - cy, y * cx - cxy
    return c, cx


@inlined
def _sweep(flip, kind, matrix, size, m, keys, tie, rows, level, tree, sums, values):
    """For each row the sums of u k and u k x over the rows it conflicts with: less relevant rows, or (with
    ``flip``) more relevant rows, where scores, relevances and levels have changed sign. Rows come in
    ascending order of score, their u, x, y in ``rows``.

    With ``values`` the x are scores, and the second sums are of u k (x - x of the row). They are stored as
    differences to a nearby score, so that distant scores of pairs without a loss do not reduce precision."""
    tree[: size + 1] = 0.0
    sign = -1.0 if flip else 1.0
    p, near, since = 0, rows[1, m - 1], 0
    for step in range(m):
        k = step if flip else m - 1 - step
        since += 1
        if values and abs(rows[1, k] - near) > FAR and FAR_LEVELS * since >= size:
            for at in range(size + 1):
                tree[at, 1] += (near - rows[1, k]) * tree[at, 0]
                tree[at, 3] += (near - rows[1, k]) * tree[at, 2]
            near, since = rows[1, k], 0
        while p < m:
            q = p if flip else m - 1 - p
            hi, lo = (q, k) if flip else (k, q)
            edge = keys[0, hi] - 1.0
            if not (keys[0, lo] > edge or (keys[0, lo] == edge and tie[lo] > tie[hi])):
                break
            at = size - 1 - level[q] if flip else level[q]
            x = rows[1, q] - near if values else rows[1, q]
            _put(tree, kind, size, at, rows[0, q], x, sign * rows[2, q])
            p += 1
        at = size - 1 - level[k] if flip else level[k]
        sums[0, k], sums[1, k] = _below(tree, kind, at, sign * rows[2, k], flip, matrix)
        if values:
            sums[1, k] -= (rows[1, k] - near) * sums[0, k]


@inlined
def _gather(labels, weight, kind, lo, m, order, rows, level):
    """Weights, relevances and levels in the order of the scores."""
    for k in range(m):
        i = lo + order[0, k]
        rows[0, k] = weight[i]
        rows[2, k] = labels[i, 0]
        level[k] = int(labels[i, 0]) if kind == MATRIX else int(labels[i, 2])


@entry
def cut(scores, labels, weight, kind, matrix, gradient):
    """Value and offset of the cut that is tight at the scores; also fills the gradient unless it is empty."""
    room = longest_query(labels)
    order, level = np.empty((2, room), np.int64), np.empty(room, np.int64)
    keys, rows, sums = np.empty((2, room)), np.empty((3, room)), np.empty((2, room))
    tree = np.empty((max(room, matrix.shape[0]) + 1, SUMS))
    total, offset, lo = 0.0, 0.0, 0
    gradient[:] = 0.0
    while lo < labels.shape[0]:
        hi = query_end(labels, lo)
        m, size = hi - lo, n_levels(labels, lo, hi)
        if size > 1:
            size = matrix.shape[0] if kind == MATRIX else size
            own = scores[lo:hi]
            for k in range(m):
                order[0, k] = k
            sort(own, own, m, order, keys)
            _gather(labels, weight, kind, lo, m, order, rows, level)
            for k in range(m):
                rows[1, k] = keys[0, k]
            _sweep(False, kind, matrix, size, m, keys, keys[0], rows, level, tree, sums, True)
            for k in range(m):
                total += rows[0, k] * (sums[0, k] + sums[1, k])
                offset += rows[0, k] * sums[0, k]
            if gradient.shape[0] > 0:
                for k in range(m):
                    gradient[lo + order[0, k]] = -rows[0, k] * sums[0, k]
                _sweep(True, kind, matrix, size, m, keys, keys[0], rows, level, tree, sums, False)
                for k in range(m):
                    gradient[lo + order[0, k]] += rows[0, k] * sums[0, k]
        lo = hi
    return total, offset


@entry
def slopes(s, r, labels, weight, kind, matrix, ts, out):
    """Add the right derivatives of L(s + t (r - s)) at each t; the order at one t is reused for the next."""
    room = longest_query(labels)
    order, level = np.empty((2, room), np.int64), np.empty(room, np.int64)
    keys, rows, sums = np.empty((2, room)), np.empty((3, room)), np.empty((2, room))
    tree = np.empty((max(room, matrix.shape[0]) + 1, SUMS))
    here, d = np.empty(room), np.empty(room)
    lo = 0
    while lo < labels.shape[0]:
        hi = query_end(labels, lo)
        m, size = hi - lo, n_levels(labels, lo, hi)
        if size > 1:
            size = matrix.shape[0] if kind == MATRIX else size
            for k in range(m):
                order[0, k] = k
                d[k] = r[lo + k] - s[lo + k]
            for q in range(ts.shape[0]):
                for k in range(m):
                    here[k] = s[lo + k] + ts[q] * d[k]
                sort(here, d, m, order, keys)
                _gather(labels, weight, kind, lo, m, order, rows, level)
                for k in range(m):
                    rows[1, k] = d[order[0, k]]
                _sweep(False, kind, matrix, size, m, keys, rows[1], rows, level, tree, sums, False)
                total = 0.0
                for k in range(m):
                    total += rows[0, k] * (sums[1, k] - rows[1, k] * sums[0, k])
                out[q] += total
        lo = hi
