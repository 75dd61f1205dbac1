"""Average precision and NDCG of whole rankings, one query at a time. The loss of a query is the maximum of

    H(pi) = 1 - measure(pi) + <s, a(pi) - a(truth)>      over rankings pi,

a(pi) a vector of one coefficient per row: a function of the scores alone.

Average precision (AP; relevances 0 and 1, R and N rows of each kind):  a(pi) is the sum over pairs of a
relevant row i and another row j of +-(e_i - e_j) / (R N), + if i stands above j. Some best ranking has both
kinds in the order of their scores (Yue, Finley, Radlinski and Joachims). With i, j ranks within the kinds,

    1 - AP = (1 / R) sum over pairs with j above i of  i / ((i + j - 1) (i + j)),

so H is a sum over such pairs of  i / (R (i + j - 1) (i + j)) - 2 (s_i - s_j) / (R N).  For every j the best
i to stand above begins the best suffix of a sum, and it does not fall as j grows: O(R N), exact.

NDCG with gains y and discounts D:  a(pi) = sum over positions p of D_p e_pi(p).  Then

    H(pi) = 1 + sum over p of D_p (s - y / IDCG)_pi(p) - <s, a(truth)>

is greatest if s - y / IDCG descends, as D does (rearrangement): O(m log m), exact. Rows of equal gain share
the truth: a(truth) is the mean over all ideal rankings.

Among best rankings the one that rises fastest in a direction d is taken: right derivatives on lines.
Labels are those of compiled.pairs. Queries with one level of relevance contribute nothing.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined
from maxmargin.compiled.ordering import sort
from maxmargin.compiled.pairs import longest_query, n_levels, query_end

PRECISION, GAIN = 0, 1
#: parts of a query's line that wait to be split
STACK = 256


@inlined
def _discounts(n, k):
    """1 / log2(1 + position), zero after the first k positions."""
    out = np.zeros(n)
    for p in range(min(n, k)):
        out[p] = 1.0 / np.log2(p + 2.0)
    return out


@inlined
def _precision(labels, lo, m, order, s, d, coef):
    """Rows of ``order`` ascend by score. Fills a(pi) - a(truth) and returns 1 - AP of the best ranking."""
    R = 0
    for k in range(m):
        R += int(labels[lo + k, 0] > 0.0)
    N = m - R
    # relevant rows first, then the others, each kind by descending score
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
    passed = np.zeros(R + 1, np.int64)  # how many others stand directly above the i-th relevant row
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
    shifted = coef  # not needed before the order is known
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


@inlined
def _leader(
    kind, labels, lo, m, discount, truth, scale, s, d, t, sign, here, tie, order, keys, coef
):
    """The line a + b t that leads just after (sign 1) or before (-1) t."""
    for q in range(m):
        here[q] = s[lo + q] + t * d[q]
        tie[q] = sign * d[q]
    a = _best(kind, labels, lo, m, discount, truth, scale, here, tie, order, keys, coef)
    b = 0.0
    for q in range(m):
        a += coef[q] * s[lo + q]
        b += coef[q] * d[q]
    return a, b


@entry
def slopes(s, r, labels, weight, kind, k, ts, out):
    """Add the right derivatives of L(s + t (r - s)) at each t."""
    room = longest_query(labels)
    discount, truth, coef = _discounts(room, k), np.empty(room), np.empty(room)
    order, keys = np.empty((2, room), np.int64), np.empty((2, room))
    here, tie, d = np.empty(room), np.empty(room), np.empty(room)
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
                line = _leader(
                    kind, labels, lo, m, discount, truth, scale, s, d, ts[p], 1.0, here, tie,
                    order, keys, coef,
                )  # fmt: skip
                out[p] += u * line[1]
        lo = hi


@entry
def kinks(s, r, labels, weight, kind, k, lo, hi, ts, jumps):
    """Kinks in (lo, hi); returns their number, or -1 if there is no room.

    The lines that lead at the two ends of a part meet at a point in it: either no other leads there, and
    it is the only kink, or the part is split in two (Eisner and Severance)."""
    room = longest_query(labels)
    discount, truth, coef = _discounts(room, k), np.empty(room), np.empty(room)
    order, keys = np.empty((2, room), np.int64), np.empty((2, room))
    here, tie, d = np.empty(room), np.empty(room), np.empty(room)
    first, last = np.nextafter(lo, np.inf), np.nextafter(hi, -np.inf)
    parts = np.empty((STACK, 4))  # a and b of the lines at the two ends
    count, start = 0, 0
    while start < labels.shape[0]:
        end = query_end(labels, start)
        scale, m = _scale(kind, labels, start, end, discount, truth), end - start
        n_parts, seen, t, sign = 0, 0, lo, 1.0
        a0, b0, a1, b1 = 0.0, 0.0, 0.0, 0.0
        u = _mean(weight, start, end)
        for q in range(m):
            order[0, q] = q
            d[q] = r[start + q] - s[start + q]
        while scale > 0.0:
            a, b = _leader(
                kind, labels, start, m, discount, truth, scale, s, d, t, sign, here, tie,
                order, keys, coef,
            )  # fmt: skip
            seen += 1
            if seen == 1:  # at lo; next at hi
                a0, b0, t, sign = a, b, hi, -1.0
                continue
            if seen == 2:
                parts[0, 0], parts[0, 1], parts[0, 2], parts[0, 3] = a0, b0, a, b
                n_parts = int(b > b0)
            elif b0 < b < b1 and a + b * t - (a0 + b0 * t) > 1e-13 * (abs(a) + abs(b * t)):
                if n_parts + 2 > STACK:
                    return -1
                parts[n_parts, 0], parts[n_parts, 1] = a, b
                parts[n_parts, 2], parts[n_parts, 3] = a1, b1
                parts[n_parts + 1, 0], parts[n_parts + 1, 1] = a0, b0
                parts[n_parts + 1, 2], parts[n_parts + 1, 3] = a, b
                n_parts += 2
            else:
                if count >= ts.shape[0]:
                    return -1
                ts[count], jumps[count] = t, u * (b1 - b0)
                count += 1
            if n_parts == 0:
                break
            n_parts -= 1
            a0, b0, a1, b1 = parts[n_parts]
            t, sign = min(max((a0 - a1) / (b1 - b0), first), last), 1.0
        start = end
    return count
