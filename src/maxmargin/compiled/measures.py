"""The best confusion matrix of a non-decomposable metric, given sorted scores.

    R(s) = max over labelings v of   Delta(v) + sum_i 1/2 (v_i - y_i) s_i

A false negative adds -s_i, a false positive adds +s_i. Delta depends only on the numbers c of false negatives
and b of false positives, so for given (c, b) the best labeling takes the c lowest positives and the b highest
negatives. With prefix sums M_c and A_b of these scores, this leaves max over (c, b) of Delta(c, b) + M_c +
A_b: not n^2 confusion matrices but O(n), or O(n log n), if Delta has enough structure.

``low`` holds the scores of the positives, ascending; ``high`` those of the negatives, descending. The
functions here only choose a confusion matrix; the loss recomputes its value from the labeling.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined, leaf
from maxmargin.compiled.pairs import FAR


@leaf
def _prefix_sums(values, sign):
    out = np.empty(values.shape[0] + 1)
    total = 0.0
    out[0] = 0.0
    for k in range(values.shape[0]):
        total += sign * values[k]
        out[k + 1] = total
    return out


@entry
def best_f_beta(low, high, beta2):
    """(false negatives, false positives) for Delta = n (1 - F), F = (1 + beta^2) a / (a + b + beta^2 P), a =
    P - c.

    For a given c the objective is concave in b. The best b is nonincreasing in c if beta >= 1, and one pass
    finds all of them; otherwise each is found by bisection.
    """
    P, N = low.shape[0], high.shape[0]
    alarms = _prefix_sums(high, 1.0)
    top = (1.0 + beta2) * (P + N)
    best, best_c, best_b = -np.inf, 0, 0
    missed, b = 0.0, N
    for c in range(P + 1):
        a = P - c
        base = a + beta2 * P
        if beta2 >= 1.0:
            while b > 0 and high[b - 1] + top * a / ((base + b - 1.0) * (base + b)) < 0.0:
                b -= 1
        else:
            lo, hi = 0, N
            while lo < hi:  # the last b with a nonnegative increment
                middle = (lo + hi + 1) // 2
                share = top * a / ((base + middle - 1.0) * (base + middle))
                if high[middle - 1] + share < 0.0:
                    hi = middle - 1
                else:
                    lo = middle
            b = lo
        value = (P + N) - top * a / (base + b) + missed + alarms[b]
        if value > best:
            best, best_c, best_b = value, c, b
        if c < P:
            missed -= low[c]
    return best_c, best_b


@entry
def best_count(low, high, delta):
    """(false negatives, false positives) for a Delta that depends only on the number m of predicted
    positives.

    For a given m the m highest rows are predicted as positive, so one merge of the two lists covers all m.
    """
    P, N = low.shape[0], high.shape[0]
    gain = 0.0
    for k in range(P):
        gain -= low[k]
    i, j = P, 0  # positives not yet included, negatives included
    best, best_c, best_b = delta[0] + gain, P, 0
    for m in range(1, P + N + 1):
        if j >= N or (i > 0 and low[i - 1] >= high[j]):
            i -= 1
            gain += low[i]
        else:
            gain += high[j]
            j += 1
        if delta[m] + gain > best:
            best, best_c, best_b = delta[m] + gain, i, j
    return best_c, best_b


@inlined
def _q_delta(a, b, P, N, beta2, over):
    largest = max(P, N)
    excess = (a + b - P) / largest
    count = 1.0 - excess if over else 1.0 + excess
    recall = a / P
    if count * recall <= 0.0:
        return float(P + N)
    return (P + N) * (1.0 - (1.0 + beta2) * count * recall / (beta2 * recall + count))


@leaf
def _q_side(low, high, beta2, over):
    """The best confusion matrix for one side of |m - P|, by divide and conquer over the rows of the matrix.

    There the mixed difference of Delta in (a, b) has one sign (nonnegative for too many positives,
    nonpositive for too few), so the best b is monotone in a.
    """
    P, N = low.shape[0], high.shape[0]
    misses, alarms = _prefix_sums(low, -1.0), _prefix_sums(high, 1.0)
    best, best_c, best_b = -np.inf, 0, 0
    todo = np.empty((130, 4), dtype=np.int64)  # twice the depth of the recursion
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, P, 0, N
    size = 1
    while size > 0:
        size -= 1
        first, last, left, right = todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3]
        row = (first + last) // 2
        a = row if over else P - row
        row_best, row_b = -np.inf, left
        for b in range(left, right + 1):
            value = _q_delta(a, b, P, N, beta2, over) + misses[P - a] + alarms[b]
            if value > row_best:
                row_best, row_b = value, b
        if row_best > best:
            best, best_c, best_b = row_best, P - a, row_b
        if first < row:
            todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3] = first, row - 1, left, row_b
            size += 1
        if row < last:
            todo[size, 0], todo[size, 1], todo[size, 2], todo[size, 3] = row + 1, last, row_b, right
            size += 1
    return best, best_c, best_b


@entry
def best_q(low, high, beta2):
    """(false negatives, false positives) for the Q measure of Barranquero and others.

    The accuracy of the count is 1 - |m - P| / max(P, N), the minimum of two linear functions, and Delta
    decreases with it: Delta is the maximum of the two formulas, so each may be evaluated everywhere.
    """
    over, c, b = _q_side(low, high, beta2, True)
    under, other_c, other_b = _q_side(low, high, beta2, False)
    if under > over:
        return other_c, other_b
    return c, b


@entry
def best_enumerated(low, high, delta, slack):
    """(false negatives, false positives) for any Delta, given as a matrix ``delta[c, b]``; negative: not
    allowed.

    With ``slack`` the objective is Delta (1 + M_c + A_b).
    """
    P, N = low.shape[0], high.shape[0]
    misses, alarms = _prefix_sums(low, -1.0), _prefix_sums(high, 1.0)
    best, best_c, best_b = -np.inf, 0, 0
    for c in range(P + 1):
        for b in range(N + 1):
            loss, gain = delta[c, b], misses[c] + alarms[b]
            value = loss * (1.0 + gain) if slack else loss + gain
            if loss >= 0.0 and value > best:
                best, best_c, best_b = value, c, b
    return best_c, best_b


@leaf
def _ties(values, count):
    """How many of the first ``count`` sorted values equal the last of them."""
    ties = 0
    while ties < count and values[count - 1 - ties] == values[count - 1]:
        ties += 1
    return ties


@entry
def mark(scores, y, low, high, misses, alarms, gradient):
    """Fill 1/2 (v_i - y_i): -1 for the ``misses`` lowest positives, +1 for the ``alarms`` highest negatives,
    else 0. Of rows with equal scores the first are taken."""
    low_ties, high_ties = _ties(low, misses), _ties(high, alarms)
    low_bar = low[misses - 1] if misses > 0 else -np.inf
    high_bar = high[alarms - 1] if alarms > 0 else np.inf
    for i in range(scores.shape[0]):
        s = scores[i]
        gradient[i] = 0.0
        if y[i] > 0.0:
            if s < low_bar:
                gradient[i] = -1.0
            elif s == low_bar and low_ties > 0:
                gradient[i] = -1.0
                low_ties -= 1
        elif s > high_bar:
            gradient[i] = 1.0
        elif s == high_bar and high_ties > 0:
            gradient[i] = 1.0
            high_ties -= 1


@entry
def pair_hinge(scores, weight, positives, negatives, gradient):
    """sum over pairs of w_i w_j max(0, 1 - (s_i - s_j)): fills the gradient, returns the sum and the offset.

    ``positives`` and ``negatives`` are rows in ascending order of their scores. The pair (i, j) counts if s_j
    > s_i - 1: as i falls, negatives join from above; as j rises, positives join from below. Sums of weights
    are only added to, and scores are differences to a nearby score, so that weights and scores of very
    different magnitudes cause no loss of precision.
    """
    n_positive, n_negative = positives.shape[0], negatives.shape[0]
    seen, at = 0.0, 0
    for k in range(n_negative):
        j = negatives[k]
        while at < n_positive and scores[j] > scores[positives[at]] - 1.0:
            seen += weight[positives[at]]
            at += 1
        gradient[j] = weight[j] * seen
    total, offset, active, sum_scores, near = 0.0, 0.0, 0.0, 0.0, 0.0
    at = n_negative - 1
    for k in range(n_positive - 1, -1, -1):
        i = positives[k]
        if abs(scores[i] - near) > FAR:
            sum_scores += (near - scores[i]) * active
            near = scores[i]
        while at >= 0 and scores[negatives[at]] > scores[i] - 1.0:
            j = negatives[at]
            active += weight[j]
            sum_scores += weight[j] * (scores[j] - near)
            at -= 1
        gradient[i] = -weight[i] * active
        offset += weight[i] * active
        total += weight[i] * (active + (sum_scores - (scores[i] - near) * active))
    return total, offset
