"""Dual coordinate ascent for one score per row: hinge and epsilon-insensitive losses, plain and squared.

    maximize  D = sum_i d_i(a_i) - 1/2 |w|^2

    one-sided   w = sum_i a_i y_i x_i    d(a) = m a - q a^2 / 2              0 <= a <= u
    two-sided   w = sum_i a_i x_i        d(a) = y a - m |a| - q a^2 / 2     -u <= a <= u

The one-sided loss (hinge) is c max(0, m - y s) with label y and margin m; the two-sided loss
(epsilon-insensitive) is c max(0, |y - s| - m) with target y and half width m. With c = C s_i both have u = c
and q = 0; their squares have no upper bound and q = 1 / (2 c). A loss that is quadratic near zero and linear
beyond has both, u = c and q > 0. Losses declare these numbers (:mod:`maxmargin.losses.dual_terms`); ``kind``
says which of them apply, and ``curvature`` is q times the cap of the row. The quantile loss is two-sided with
q = 0 and -v <= a <= u; ``curvature`` is then -v / u, see :func:`lowest`. A visit of row i computes its score
s and, if a changes, updates w:

    one-sided   z = m - y s - q a:   a <- clip(a + z / (|x|^2 + q), 0, u)
    two-sided   r = y - s - q a:     a <- a + (r - m) / (|x|^2 + q)  if that is positive,
                                     a + (r + m) / (|x|^2 + q)       if that is negative, else 0; then clipped

Without an upper bound nothing is clipped from above.

Weights with a lower bound ``floor``: the stored vector is u = sum_i a_i y_i x_i, unconstrained, w is u
clipped at the bound, and D has conjugate(u) in place of 1/2 |w|^2 (:mod:`maxmargin.core.regularizer`). D is
still smooth with a curvature of at most |x|^2 in a, so the same step increases it. Clipping the stored vector
would lose how far u is below the bound, and it would no longer match the dual variables.

An offset of the score of a row is part of its margin or its target. ``margins`` holds the margins of the
rows, or is None if all have the ``common`` one.

The contribution of a row to the duality gap (hinge: c max(0, z) - a z) is known before the step. Its sum over
an epoch estimates the gap for free: dropped rows are at a bound or at a kink, where the contribution is zero.
Shrinking drops a row there if its gradient holds it by more than ``slack``. The mean violation of the last
epoch is the best slack, and the exact check restores rows dropped too early.

The order is a full random permutation. Visiting rows in blocks of neighbors makes epochs three times cheaper
on data larger than the caches, but real files are sorted (by time, class or place), and then such an order
needs ten times as many epochs. Instead, the data that a visit needs is packed into half a cache line
(``state``) and prefetched, with the row, a few visits ahead.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, entry_in_order, entry_products, inlined, leaf

#: columns of a row's state
ALPHA, CAP, SQUARE, LABEL = range(4)
#: kinds of losses are sums of these: a curved dual, a two-sided loss, bounded dual variables
CURVED, TWO_SIDED, CAPPED = 1, 2, 4
#: statistics of an epoch: estimated gap, summed violation, number of violating rows, changes of the sums of
#: d(a) + q a^2 / 2 and of q a^2 / 2
GAP, TOTAL, VIOLATED, GAIN, BEND = range(5)
#: visits ahead that a row is prefetched, and number of its cache lines (the hardware prefetches the rest)
AHEAD = 16
LINES = 8


@leaf
def draw(state, bound):
    """The next state of the generator (splitmix64) and a number in 0 .. bound-1."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, ((z >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)


@entry
def shuffle(rows, count, seed):
    """Shuffle the first ``count`` rows in place."""
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


@inlined
def move(a, cap, square, y, score, margin, kind, curvature):
    """(gradient, new dual variable, gap) of a row. Scalars only: passing arrays to a function costs more than
    the row."""
    if kind & TWO_SIDED:
        return move_two_sided(a, cap, square, y - score, margin, kind, curvature)
    zeta = margin - y * score
    if kind & CURVED:
        q = curvature / cap
        g = q * a - zeta
        new = max(0.0, a - g / (square + q))
        if kind & CAPPED:
            new = min(cap, new)
        return g, new, curved_loss(cap, zeta, kind, curvature) - a * zeta + 0.5 * q * a * a
    # A row of zeros has the same loss for any w.
    full = cap if zeta > 0.0 else 0.0
    new = min(cap, max(0.0, a + zeta / square)) if square > 0.0 else full
    return -zeta, new, cap * max(0.0, zeta) - a * zeta


@leaf
def curved_loss(cap, short, kind, curvature):
    """The loss of a row that falls short by ``short``: quadratic, then linear once its slope reaches the
    cap."""
    loss = max(0.0, short)
    if kind & CAPPED and loss > curvature:
        return cap * (loss - 0.5 * curvature)
    return cap * loss * loss * (0.5 / curvature)


@leaf
def move_two_sided(a, cap, square, r, margin, kind, curvature):
    """The same for a two-sided loss whose target is ``r`` above the score."""
    q = curvature / cap if kind & CURVED else 0.0
    low = lowest(cap, curvature)
    loss = max(0.0, abs(r) - margin)
    g = abs(r) - margin if a == 0.0 else r - q * a - (margin if a > 0.0 else -margin)
    if square + q > 0.0:
        up = a + (r - q * a - margin) / (square + q)
        down = a + (r - q * a + margin) / (square + q)
        new = up if up > 0.0 else min(0.0, down)
    else:
        new = 0.0 if loss == 0.0 else (cap if r > 0.0 else low)
    if kind & CAPPED:
        new = min(cap, max(low, new))
    if kind & CURVED:
        lost = curved_loss(cap, loss, kind, curvature)
        return g, new, lost - a * r + margin * abs(a) + 0.5 * q * a * a
    return g, new, (cap if r > 0.0 else -low) * loss - a * r + margin * abs(a)


@inlined
def lowest(cap, curvature):
    """The lower bound of a dual variable of a two-sided loss whose dual variables are bounded."""
    return cap * curvature if curvature < 0.0 else -cap


@inlined
def linear(a, y, margin, kind):
    """d(a) + q a^2 / 2."""
    return y * a - margin * abs(a) if kind & TWO_SIDED else margin * a


@entry_in_order
def csr_epoch(
    indptr,
    indices,
    data,
    intercept,
    kind,
    curvature,
    common,
    margins,
    slack,
    rows,
    count,
    state,
    w,
    floor,
    stats,
    damping,
    moved,
    before,
):
    """Visit the first ``count`` rows; active rows move to the front. Returns their number. ``w`` is the
    stored vector, ``floor`` None or the lower bounds at which it is clipped when read.

    For one of several blocks (:mod:`maxmargin.compiled.row_blocks`; otherwise None): ``w`` is the private
    vector of the block, ``damping`` has a factor per coordinate, and ``moved`` and ``before`` receive the
    rows whose dual variables change, and their values before."""
    last = w.shape[0] - 1
    kept, violated = 0, 0
    gap, total, gain, bend = 0.0, 0.0, 0.0, 0.0
    for p in range(count):
        if p + 2 * AHEAD < count:
            simd.prefetch(indptr, rows[p + 2 * AHEAD])
        if p + AHEAD < count:
            j = np.uint64(rows[p + AHEAD])
            simd.prefetch(state, j * np.uint64(4))
            if margins is not None:
                simd.prefetch(margins, j)
            lo, hi = np.uint64(indptr[j]), np.uint64(indptr[j + np.uint64(1)])
            hi = min(hi, lo + np.uint64(8 * LINES))
            for k in range(lo, hi, np.uint64(8)):
                simd.prefetch(data, k)
            for k in range(lo, hi, np.uint64(16)):
                simd.prefetch(indices, k)
        i = np.uint64(rows[p])
        lo, hi = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        s = intercept * w[last] if intercept != 0.0 else 0.0
        for k in range(lo, hi):
            at = np.uint64(indices[k])
            if floor is None:
                s += data[k] * w[at]
            else:
                s += data[k] * max(w[at], floor[at])
        a, y, margin = state[i, ALPHA], state[i, LABEL], common
        if margins is not None:
            margin = margins[i]
        g, new, part = move(a, state[i, CAP], state[i, SQUARE], y, s, margin, kind, curvature)
        gap += part
        stays = True
        if new == a:
            stays = abs(g) <= slack
        else:
            if damping is not None:  # a shorter step, in the same direction
                square = intercept * intercept * damping[last] if intercept != 0.0 else 0.0
                for k in range(lo, hi):
                    square += damping[np.uint64(indices[k])] * data[k] * data[k]
                _, new, _ = move(a, state[i, CAP], square, y, s, margin, kind, curvature)
                moved[violated] = i
                before[violated] = a
            violated += 1
            total += abs(g)
            gain += linear(new, y, margin, kind) - linear(a, y, margin, kind)
            if kind & CURVED:
                bend += 0.5 * curvature / state[i, CAP] * (new * new - a * a)
            state[i, ALPHA] = new
            step = new - a if kind & TWO_SIDED else y * (new - a)
            for k in range(lo, hi):
                at = np.uint64(indices[k])
                if damping is None:
                    w[at] += step * data[k]
                else:
                    w[at] += step * damping[at] * data[k]
            if intercept != 0.0:
                w[last] += step * intercept * (1.0 if damping is None else damping[last])
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
def dense_epoch(
    X,
    intercept,
    kind,
    curvature,
    common,
    margins,
    slack,
    rows,
    count,
    state,
    w,
    floor,
    stats,
    damping,
    moved,
    before,
):
    """The same for a dense matrix."""
    d = X.shape[1]
    line = 64 // X.itemsize
    n_lines = min(LINES, (d + line - 1) // line)
    kept, violated = 0, 0
    gap, total, gain, bend = 0.0, 0.0, 0.0, 0.0
    for p in range(count):
        if p + AHEAD < count:
            j = np.uint64(rows[p + AHEAD])
            simd.prefetch(state, j * np.uint64(4))
            if margins is not None:
                simd.prefetch(margins, j)
            for k in range(n_lines):
                simd.prefetch(X, j * np.uint64(d) + np.uint64(k * line))
        i = np.uint64(rows[p])
        s = intercept * w[d] if intercept != 0.0 else 0.0
        for k in range(d):
            if floor is None:
                s += X[i, k] * w[k]
            else:
                s += X[i, k] * max(w[k], floor[k])
        a, y, margin = state[i, ALPHA], state[i, LABEL], common
        if margins is not None:
            margin = margins[i]
        g, new, part = move(a, state[i, CAP], state[i, SQUARE], y, s, margin, kind, curvature)
        gap += part
        stays = True
        if new == a:
            stays = abs(g) <= slack
        else:
            if damping is not None:
                square = intercept * intercept * damping[d] if intercept != 0.0 else 0.0
                for k in range(d):
                    square += damping[k] * X[i, k] * X[i, k]
                _, new, _ = move(a, state[i, CAP], square, y, s, margin, kind, curvature)
                moved[violated] = i
                before[violated] = a
            violated += 1
            total += abs(g)
            gain += linear(new, y, margin, kind) - linear(a, y, margin, kind)
            if kind & CURVED:
                bend += 0.5 * curvature / state[i, CAP] * (new * new - a * a)
            state[i, ALPHA] = new
            step = new - a if kind & TWO_SIDED else y * (new - a)
            for k in range(d):
                if damping is None:
                    w[k] += step * X[i, k]
                else:
                    w[k] += step * damping[k] * X[i, k]
            if intercept != 0.0:
                w[d] += step * intercept * (1.0 if damping is None else damping[d])
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
def choose_active(members, scores, kind, curvature, common, margins, slack, state, rows):
    """The rows that are not held at a bound by more than ``slack``, given exact scores."""
    count = 0
    for p in range(members.shape[0]):
        i = members[p]
        a, cap, margin = state[i, ALPHA], state[i, CAP], common
        if margins is not None:
            margin = margins[i]
        square, y = state[i, SQUARE], state[i, LABEL]
        g, new, _ = move(a, cap, square, y, scores[i], margin, kind, curvature)
        rows[count] = i
        count += not (new == a and abs(g) > slack)
    return count


@entry
def rescale_rows(state, weight, C, factor, kind):
    """Dual variables and caps for another C; rounding must not leave the box."""
    for i in range(state.shape[0]):
        cap = C * weight[i]
        a = factor * state[i, ALPHA]
        state[i, ALPHA] = min(cap, max(-cap, a)) if kind & CAPPED else a
        state[i, CAP] = cap


@entry
def signed(state, kind, curvature, common, margins, coef):
    """Fill ``coef``, w = sum_i coef_i x_i; returns the sums of d(a) + q a^2 / 2 and of q a^2 / 2."""
    total, curved = 0.0, 0.0
    for i in range(state.shape[0]):
        a, y, margin = state[i, ALPHA], state[i, LABEL], common
        if margins is not None:
            margin = margins[i]
        coef[i] = a if kind & TWO_SIDED else y * a
        if a != 0.0:
            total += linear(a, y, margin, kind)
            if kind & CURVED:
                curved += 0.5 * curvature * a * a / state[i, CAP]
    return total, curved


@entry
def count_support(state):
    """Number of rows with a nonzero dual variable."""
    count = 0
    for i in range(state.shape[0]):
        count += state[i, ALPHA] != 0.0
    return count


@entry
def take_from(state, among, excess, rows, taken):
    """Take ``excess`` from multipliers of its sign's class; returns how many rows give, or -1 if they cannot.

    Rows inside their box give first. Fills ``rows`` and what is ``taken`` from each.
    """
    total, count = 0.0, 0
    for at_cap in range(2):
        for k in range(among.shape[0]):
            i = among[k]
            a = state[i, ALPHA]
            if a > 0.0 and state[i, LABEL] * excess > 0.0 and (a < state[i, CAP]) == (at_cap == 0):
                total += a
                rows[count], taken[count] = i, a
                count += 1
                if total >= abs(excess):
                    taken[count - 1] -= total - abs(excess)
                    return count
    return -1
