"""Dual coordinate ascent for one score per row.

    maximise  D(alpha) = sum_i (alpha_i - q_i alpha_i^2 / 2) - 1/2 |w|^2,   w = sum_i alpha_i y_i x_i,
              0 <= alpha_i <= u_i

With c_i = C s_i the hinge loss has u_i = c_i and q_i = 0; the squared hinge c_i max(0, 1 - m)^2 has no
upper bound and q_i = 1 / (2 c_i). A visit to row i costs its score and, if alpha_i moves, an update of w:

    g = m_i - 1 + q_i alpha_i,   alpha_i <- clip(alpha_i - g / (|x_i|^2 + q_i), 0, u_i)

The row's part of the duality gap (hinge: c max(0, 1 - m) - alpha (1 - m)) is known before the move;
added up over an epoch it estimates the gap for free: rows that were dropped sit at a bound where it is
zero. A row at a bound whose gradient points outward by more than ``slack`` is dropped; the mean
violation of the last epoch is the slack that costs least, and the exact check brings back what was
dropped too early.

The order is a full random permutation. Visiting rows in blocks of neighbours has three times cheaper
epochs on data larger than the caches, but real files are sorted (by time, by class, by place), and then
such an order costs ten times the epochs. Instead what a visit needs of a row is packed into one half
cache line (``state``) and fetched, with the row, some visits ahead.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, entry_products, leaf
from maxmargin.compiled.prefetch import prefetch

#: columns of a row's state
ALPHA, CAP, SQUARE, LABEL = range(4)
#: what an epoch reports: estimated gap, summed violation, rows that violate, changes of the sums of
#: alpha and of q alpha^2 / 2
GAP, TOTAL, VIOLATED, GAIN, BEND = range(5)
#: visits ahead that a row is fetched, and cache lines of it (the hardware follows a longer row by itself)
AHEAD = 16
LINES = 8


@leaf
def draw(state, bound):
    """The generator's next state (splitmix64) and a number in 0 .. bound-1."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, ((z >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)


@entry
def shuffle(rows, count, seed):
    """A random order of the first ``count`` rows, in place."""
    state = np.uint64(seed)
    for k in range(count - 1, 0, -1):
        state, j = draw(state, k + 1)
        rows[k], rows[j] = rows[j], rows[k]


@entry_products
def csr_squares(indptr, data, intercept, state):
    for i in range(state.shape[0]):
        s = intercept * intercept
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            s += np.float64(data[k]) * data[k]
        state[i, SQUARE] = s


@entry_products
def dense_squares(X, intercept, state):
    for i in range(state.shape[0]):
        s = intercept * intercept
        for k in range(X.shape[1]):
            s += np.float64(X[i, k]) * X[i, k]
        state[i, SQUARE] = s


@leaf
def move(a, cap, square, zeta, squared):
    """(gradient, new multiplier, gap) of a row with 1 - margin = zeta. Numbers only: arrays handed to a
    function cost more than the row."""
    if squared:
        q = 0.5 / cap
        g = q * a - zeta
        loss = max(0.0, zeta)
        return g, max(0.0, a - g / (square + q)), cap * loss * loss - a * zeta + 0.5 * q * a * a
    # a row of zeros loses 1 whatever w is
    new = min(cap, max(0.0, a + zeta / square)) if square > 0.0 else cap
    return -zeta, new, cap * max(0.0, zeta) - a * zeta


@entry_products
def csr_epoch(indptr, indices, data, intercept, squared, slack, rows, count, state, w, stats):
    """Visit the first ``count`` rows; those that stay move to the front. Returns their number."""
    last = w.shape[0] - 1
    kept, violated = 0, 0
    gap, total, gain, bend = 0.0, 0.0, 0.0, 0.0
    for p in range(count):
        if p + 2 * AHEAD < count:
            prefetch(indptr, rows[p + 2 * AHEAD])
        if p + AHEAD < count:
            j = np.uint64(rows[p + AHEAD])
            prefetch(state, j * np.uint64(4))
            lo, hi = np.uint64(indptr[j]), np.uint64(indptr[j + np.uint64(1)])
            hi = min(hi, lo + np.uint64(8 * LINES))
            for k in range(lo, hi, np.uint64(8)):
                prefetch(data, k)
            for k in range(lo, hi, np.uint64(16)):
                prefetch(indices, k)
        i = np.uint64(rows[p])
        lo, hi = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        s = intercept * w[last] if intercept != 0.0 else 0.0
        for k in range(lo, hi):
            s += data[k] * w[np.uint64(indices[k])]
        a, y = state[i, ALPHA], state[i, LABEL]
        g, new, part = move(a, state[i, CAP], state[i, SQUARE], 1.0 - y * s, squared)
        gap += part
        stays = True
        if new == a:
            stays = abs(g) <= slack
        else:
            violated += 1
            total += abs(g)
            gain += new - a
            if squared:
                bend += 0.25 / state[i, CAP] * (new * new - a * a)
            state[i, ALPHA] = new
            step = y * (new - a)
            for k in range(lo, hi):
                w[np.uint64(indices[k])] += step * data[k]
            if intercept != 0.0:
                w[last] += step * intercept
        rows[kept] = rows[p]
        kept += stays
    stats[GAP], stats[TOTAL], stats[VIOLATED], stats[GAIN], stats[BEND] = (
        gap,
        total,
        violated,
        gain,
        bend,
    )
    return kept


@entry_products
def dense_epoch(X, intercept, squared, slack, rows, count, state, w, stats):
    """The same for a dense matrix."""
    d = X.shape[1]
    line = 64 // X.itemsize
    n_lines = min(LINES, (d + line - 1) // line)
    kept, violated = 0, 0
    gap, total, gain, bend = 0.0, 0.0, 0.0, 0.0
    for p in range(count):
        if p + AHEAD < count:
            j = np.uint64(rows[p + AHEAD])
            prefetch(state, j * np.uint64(4))
            for k in range(n_lines):
                prefetch(X, j * np.uint64(d) + np.uint64(k * line))
        i = np.uint64(rows[p])
        s = intercept * w[d] if intercept != 0.0 else 0.0
        for k in range(d):
            s += X[i, k] * w[k]
        a, y = state[i, ALPHA], state[i, LABEL]
        g, new, part = move(a, state[i, CAP], state[i, SQUARE], 1.0 - y * s, squared)
        gap += part
        stays = True
        if new == a:
            stays = abs(g) <= slack
        else:
            violated += 1
            total += abs(g)
            gain += new - a
            if squared:
                bend += 0.25 / state[i, CAP] * (new * new - a * a)
            state[i, ALPHA] = new
            step = y * (new - a)
            for k in range(d):
                w[k] += step * X[i, k]
            if intercept != 0.0:
                w[d] += step * intercept
        rows[kept] = rows[p]
        kept += stays
    stats[GAP], stats[TOTAL], stats[VIOLATED], stats[GAIN], stats[BEND] = (
        gap,
        total,
        violated,
        gain,
        bend,
    )
    return kept


@entry
def choose_active(members, scores, squared, slack, state, rows):
    """The rows that are not at a bound which their exact scores confirm by more than ``slack``."""
    count = 0
    for p in range(members.shape[0]):
        i = members[p]
        a, cap = state[i, ALPHA], state[i, CAP]
        g = state[i, LABEL] * scores[i] - 1.0 + (0.5 / cap * a if squared else 0.0)
        rows[count] = i
        count += not ((a <= 0.0 and g > slack) or (not squared and a >= cap and g < -slack))
    return count


@entry
def rescale_rows(state, weight, C, factor, squared):
    """Multipliers and caps for another C; rounding must not leave the box."""
    for i in range(state.shape[0]):
        cap = C * weight[i]
        a = factor * state[i, ALPHA]
        state[i, ALPHA] = a if squared or a < cap else cap
        state[i, CAP] = cap


@entry
def signed(state, squared, coef):
    """Fill ``coef`` with y alpha; returns the sums of alpha and of q alpha^2 / 2."""
    linear, curved = 0.0, 0.0
    for i in range(state.shape[0]):
        a = state[i, ALPHA]
        coef[i] = state[i, LABEL] * a
        linear += a
        if squared and a > 0.0:
            curved += 0.25 * a * a / state[i, CAP]
    return linear, curved


@entry
def count_support(state):
    """Rows with a positive multiplier."""
    count = 0
    for i in range(state.shape[0]):
        count += state[i, ALPHA] > 0.0
    return count
