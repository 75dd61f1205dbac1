"""Average precision and NDCG of whole rankings, one query at a time. The loss of a query is the maximum of

    H(pi) = 1 - measure(pi) + <s, a(pi) - a(truth)>      over rankings pi,

where a(pi) is a vector of one coefficient per row.

Average precision (AP; relevances 0 and 1, with N and R rows):  a(pi) is the sum over pairs of a relevant row
i and an irrelevant row j of +-(e_i - e_j) / (R N), with + if i is ranked above j. Some best ranking has both
kinds in the order of their scores (Yue, Finley, Radlinski and Joachims). With i, j the ranks within each
kind,

    1 - AP = (1 / R) sum over pairs with j above i of  i / ((i + j - 1) (i + j)),

so H is a sum over such pairs of  i / (R (i + j - 1) (i + j)) - 2 (s_i - s_j) / (R N).  For every j, the best
i to rank below j begins the best suffix of a sum, and it is nondecreasing in j: O(R N), exact.

NDCG with gains y and discounts D:  a(pi) = sum over positions p of D_p e_pi(p).  Then

    H(pi) = 1 + sum over p of D_p (s - y / IDCG)_pi(p) - <s, a(truth)>

is maximal if s - y / IDCG descends, as D does (rearrangement inequality): O(m log m), exact. a(truth) is the
mean over all ideal rankings, so that rows of equal gain are treated alike.

Among best rankings, the one with the largest increase in a direction d is chosen: right derivatives on lines.
Labels are those of compiled.pairs. Queries with a single relevance level contribute nothing.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined
from maxmargin.compiled.ordering import sort
from maxmargin.compiled.pairs import longest_query, n_levels, query_end

PRECISION, GAIN = 0, 1


@inlined
def _discounts(n, k):
    """1 / log2(1 + position), zero after the first k positions."""
    out = np.zeros(n)
    for p in range(min(n, k)):
        out[p] = 1.0 / np.log2(p + 2.0)
    return out


@inlined
def _precision(labels, lo, m, order, s, d, coef):
    """``order`` is ascending by score. Fills a(pi) - a(truth) and returns 1 - AP of the best ranking."""
    R = 0
    for k in range(m):
        R += int(labels[lo + k, 0] > 0.0)
    N = m - R
    # relevant rows first, then irrelevant ones, each by descending score
    ranked = np.empty(m, np.int64)
    a, b = 0, R
    for k in range(m - 1, -1, -1):
        row = order[0, k]
        if labels[lo + row, 0] > 0.0:
            ranked[a] = row
            a += 1
        else:
            ranked[b] = row
            b += 1
    passed = np.zeros(
        R + 1, np.int64
    )  # number of irrelevant rows directly above the i-th relevant row
    pair, start = 2.0 / (R * N), 0
    for j in range(1, N + 1):
        row = ranked[R + j - 1]
        gain, rise, best, steepest, at = 0.0, 0.0, 0.0, 0.0, R
        for i in range(R, start, -1):
            other = ranked[i - 1]
            gain += i / (R * (i + j - 1.0) * (i + j)) - pair * (s[other] - s[row])
            rise -= pair * (d[other] - d[row])
            if gain > best or (gain == best and rise > steepest):
                best, steepest, at = gain, rise, i - 1
        coef[row] = pair * (R - at)
        passed[at] += 1
        start = at
    loss, above = 0.0, 0
    for i in range(R):
        above += passed[i]
        coef[ranked[i]] = -pair * above
        loss += above / (i + 1.0 + above)
    return loss / R


@inlined
def _ideal(labels, lo, m, size, discount, truth):
    """Mean discounts of the rows over all ideal rankings; returns the ideal DCG."""
    number, total = np.zeros(size, np.int64), np.zeros(size)
    for k in range(m):
        number[int(labels[lo + k, 2])] += 1
    p = 0
    for level in range(size - 1, -1, -1):
        for _ in range(number[level]):
            total[level] += discount[p]
            p += 1
    ideal = 0.0
    for k in range(m):
        level = int(labels[lo + k, 2])
        truth[k] = total[level] / number[level]
        ideal += truth[k] * labels[lo + k, 0]
    return ideal


@inlined
def _scale(kind, labels, lo, hi, discount, truth):
    """0 if a query has nothing to rank, else its ideal DCG (NDCG) or 1."""
    size = n_levels(labels, lo, hi)
    if size < 2:
        return 0.0
    return 1.0 if kind == PRECISION else _ideal(labels, lo, hi - lo, size, discount, truth)


@inlined
def _best(kind, labels, lo, m, discount, truth, scale, s, d, order, keys, coef):
    """The best ranking of a query at the scores s: fills a(pi) - a(truth), returns 1 - measure(pi)."""
    if kind == PRECISION:
        sort(s, d, m, order, keys)
        return _precision(labels, lo, m, order, s, d, coef)
    shifted = coef  # reused as scratch until the order is known
    for k in range(m):
        shifted[k] = s[k] - labels[lo + k, 0] / scale
    sort(shifted, d, m, order, keys)
    reached = 0.0
    for k in range(m):
        row, weight = order[0, k], discount[m - 1 - k]
        reached += weight * labels[lo + row, 0]
        coef[row] = weight - truth[row]
    return 1.0 - reached / scale


@inlined
def _mean(weight, lo, hi):
    """The weight of a query."""
    total = 0.0
    for i in range(lo, hi):
        total += weight[i]
    return total / (hi - lo)


@entry
def cut(scores, labels, weight, kind, k, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    room = longest_query(labels)
    discount, truth, coef = _discounts(room, k), np.empty(room), np.empty(room)
    order, keys = np.empty((2, room), np.int64), np.empty((2, room))
    offset, lo = 0.0, 0
    gradient[:] = 0.0
    while lo < labels.shape[0]:
        hi = query_end(labels, lo)
        scale, m = _scale(kind, labels, lo, hi, discount, truth), hi - lo
        if scale > 0.0:
            for q in range(m):
                order[0, q] = q
            s, u = scores[lo:hi], _mean(weight, lo, hi)
            loss = _best(kind, labels, lo, m, discount, truth, scale, s, s, order, keys, coef)
            offset += u * loss
            for q in range(m):
                gradient[lo + q] = u * coef[q]
        lo = hi
    return offset


@entry
def slopes(s, r, labels, weight, kind, k, ts, out):
    """Add the right derivatives of L(s + t (r - s)) at each t."""
    room = longest_query(labels)
    discount, truth, coef = _discounts(room, k), np.empty(room), np.empty(room)
    order, keys = np.empty((2, room), np.int64), np.empty((2, room))
    here, d = np.empty(room), np.empty(room)
    lo = 0
    while lo < labels.shape[0]:
        hi = query_end(labels, lo)
        scale, m = _scale(kind, labels, lo, hi, discount, truth), hi - lo
        if scale > 0.0:
            u = _mean(weight, lo, hi)
            for q in range(m):
                order[0, q] = q
                d[q] = r[lo + q] - s[lo + q]
            for p in range(ts.shape[0]):
                for q in range(m):
                    here[q] = s[lo + q] + ts[p] * d[q]
                _best(kind, labels, lo, m, discount, truth, scale, here, d, order, keys, coef)
                total = 0.0
                for q in range(m):
                    total += coef[q] * d[q]
                out[p] += u * total
        lo = hi
