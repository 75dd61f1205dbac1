"""Dual coordinate ascent for the Crammer-Singer loss: exact steps over all classes of one row.

Row i has dual variables alpha_ik >= 0 that sum to c_i, one per class including the true one:

    w_k    =  sum_i (c_i [k = y_i] - alpha_ik) x_i
    g_k    =  cost[y_i, k] + <w_k, x_i> - <w_y, x_i>
    gap_i  =  c_i max_k g_k - sum_k alpha_ik g_k

A visit maximizes the dual over the variables of one row. With A = |x_i|^2 this is

    max over a >= 0, sum_k a_k = c_i  of   <g, a> - A/2 |a - alpha_i|^2

a projection onto a simplex: with v = g + A alpha_i,  a_k = max(0, v_k - theta) / A, where theta solves sum_k
max(0, v_k - theta) = A c_i. The class b with the largest v has the most mass, often nearly c_i, beside which
the others may be tiny: if all rows meet their margins at a large C. So neither A c_i nor changes of alpha_ib
are computed. With o = sum_{k != b} alpha_ik = c_i - alpha_ib,

    theta - (g_b - A o) = sum_{k != b} max(0, v_k - theta)

and the change of alpha_ib is that of the others with the opposite sign. Since theta >= g_b - A o, few classes
are candidates. Among them, theta is found by iterating (sum of the remaining v + g_b - A o) / (1 + number of
the remaining), dropping those below.

An offset o_ik added to the scores is part of the costs of a row: replace cost[y_i, k] by
cost[y_i, k] + o_ik - o_iy above.

Shrinking: a row whose dual variables are on one class, with a gradient that leads by more than the mean
violation of the last epoch, is removed from the active rows. A class of a dense row without a dual variable,
whose gradient is lower by that than those of all classes with one, is removed from the active classes of the
row. A call runs many epochs. At intervals that grow by half, and when the violations of the active rows are
small, all rows and classes are made active again. A call ends when the gap that such an epoch estimates is
small enough.

For sparse rows, W has K columns padded to a multiple of eight, so that all scores of a row are summed in
registers. For dense rows it has one row per class, so that few active classes cost less than all. The order
is random, with rows prefetched a few visits ahead. While most rows are active and W is small, a visit costs
less than fetching its row: then four neighboring rows are visited in sequence, which halves the time and
hardly changes the progress (longer blocks do, because real files are sorted).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, entry_products, inlined
from maxmargin.compiled.row_dual import draw

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Data = npt.NDArray[Any]

#: columns of W are padded to a multiple of this
LANES = simd.LANES
#: visits ahead that a row is prefetched, and number of its entries (the hardware prefetches the rest)
AHEAD = 4
REACH = np.uint64(128)
#: of a call: visits, change of sum alpha cost, estimated gap at which it ends, and its largest work; of the
#: last epoch: estimated gap, mean violation; for the next call: the numbers of active rows and of epochs so
#: far, the epoch after which all rows become active again, the violation below which they do, and whether all
#: of them are now
VISITS, OFFSET, GOAL, LIMIT, GAP, LEAD, COUNT, EPOCH, NEXT, NEAR, FULL = range(11)
N_STATS = 11
#: by how much the epochs between those over all rows grow
GROW = 1.5


class ClassRows(NamedTuple):
    """Rows of a CSR matrix, or of a flat dense matrix (``indices`` None), and their fixed data. ``pad`` is
    the value of the constant feature, whose weights are the last row of W. ``offset`` is added to the scores,
    relative to the true class; None for no offset."""

    indptr: Data
    indices: Any
    data: Data
    y: IntArray
    square: FloatArray
    cost: FloatArray
    pad: float
    offset: Any = None


@entry
def visiting_order(n: int, block: int, seed: int) -> Any:
    """Positions 0 .. n-1: blocks of neighbors in random order, and random order within blocks."""
    state = np.uint64(seed)
    blocks = np.arange((n + block - 1) // block)
    for k in range(blocks.size - 1, 0, -1):
        state, j = draw(state, k + 1)
        blocks[k], blocks[j] = blocks[j], blocks[k]
    order = np.empty(n, dtype=np.int64)
    at = 0
    for b in blocks:
        size = min(block, n - int(b) * block)
        for q in range(size):
            state, j = draw(state, q + 1)
            order[at + q] = order[np.uint64(at) + j]
            order[np.uint64(at) + j] = b * block + q
        at += size
    return order


@inlined
def feature(indices: Any, first: Any, p: Any) -> Any:
    """The feature index of entry p of a row that begins at ``first``."""
    if indices is None:
        return np.int64(p - first)
    return np.int64(indices[p])


@inlined
def row_dot(
    data: Data, indices: Any, first: Any, last: Any, W: FloatArray, out: FloatArray
) -> None:
    """``out = W' x`` for one row, with several accumulators to hide the latency of additions."""
    width, full, zero = W.shape[1], simd.first(LANES), simd.fill(0.0)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for c in range(0, width, 2 * LANES):
        s0, s1, s2, s3 = zero, zero, zero, zero
        p = first
        if width - c > LANES:
            while p + one < last:
                x = simd.fill(np.float64(data[p]))
                at = feature(indices, first, p) * width + c
                s0 = simd.fma(x, simd.load(W, at, full, zero), s0)
                s1 = simd.fma(x, simd.load(W, at + LANES, full, zero), s1)
                x = simd.fill(np.float64(data[p + one]))
                at = feature(indices, first, p + one) * width + c
                s2 = simd.fma(x, simd.load(W, at, full, zero), s2)
                s3 = simd.fma(x, simd.load(W, at + LANES, full, zero), s3)
                p += two
            if p < last:
                x = simd.fill(np.float64(data[p]))
                at = feature(indices, first, p) * width + c
                s0 = simd.fma(x, simd.load(W, at, full, zero), s0)
                s1 = simd.fma(x, simd.load(W, at + LANES, full, zero), s1)
            simd.store(out, c, full, simd.add(s0, s2))
            simd.store(out, c + LANES, full, simd.add(s1, s3))
        else:
            while p + three < last:
                at = feature(indices, first, p) * width + c
                s0 = simd.fma(simd.fill(np.float64(data[p])), simd.load(W, at, full, zero), s0)
                q = p + one
                at = feature(indices, first, q) * width + c
                s1 = simd.fma(simd.fill(np.float64(data[q])), simd.load(W, at, full, zero), s1)
                q = p + two
                at = feature(indices, first, q) * width + c
                s2 = simd.fma(simd.fill(np.float64(data[q])), simd.load(W, at, full, zero), s2)
                q = p + three
                at = feature(indices, first, q) * width + c
                s3 = simd.fma(simd.fill(np.float64(data[q])), simd.load(W, at, full, zero), s3)
                p += four
            while p < last:
                at = feature(indices, first, p) * width + c
                s0 = simd.fma(simd.fill(np.float64(data[p])), simd.load(W, at, full, zero), s0)
                p += one
            simd.store(out, c, full, simd.add(simd.add(s0, s1), simd.add(s2, s3)))


@inlined
def row_add(
    data: Data, indices: Any, first: Any, last: Any, W: FloatArray, delta: FloatArray
) -> None:
    """``W += x delta'``, for the groups of eight columns with a nonzero delta."""
    width, full, zero = W.shape[1], simd.first(LANES), simd.fill(0.0)
    for c in range(0, width, LANES):
        changed = False
        for k in range(c, c + LANES):
            changed |= delta[k] != 0.0
        if changed:
            change = simd.load(delta, c, full, zero)
            for p in range(first, last):
                at = feature(indices, first, p) * width + c
                x = simd.fill(np.float64(data[p]))
                simd.store(W, at, full, simd.fma(x, change, simd.load(W, at, full, zero)))


@inlined
def row_add_pair(
    data: Data,
    indices: Any,
    first: Any,
    last: Any,
    W: FloatArray,
    delta: FloatArray,
    a: int,
    b: int,
) -> None:
    """``W += x delta'`` if only the columns a and b of delta are nonzero."""
    j, k = np.uint64(a), np.uint64(b)
    for p in range(first, last):
        f, x = np.uint64(feature(indices, first, p)), np.float64(data[p])
        W[f, j] += x * delta[j]
        W[f, k] += x * delta[k]


@inlined
def demand(cost: FloatArray, offset: Any, i: int, truth: int, k: int) -> Any:
    """The required margin of the true class over class k."""
    if offset is None:
        return cost[truth, k]
    return cost[truth, k] + offset[i, k]


@inlined
def fetch_offset(offset: Any, at: int) -> None:
    """Prefetch the offsets of a row. (A separate function, so that Numba specializes on None.)"""
    if offset is not None:
        simd.prefetch(offset, at)


@inlined
def fetch_indices(indices: Any, first: Any, last: Any) -> None:
    """Prefetch the indices of a sparse row. (A separate function, so that Numba specializes on None.)"""
    if indices is not None:
        for p in range(first, last, np.uint64(16)):
            simd.prefetch(indices, p)


@inlined
def fetch(rows: ClassRows, caps: FloatArray, alpha: FloatArray, near: int, far: int) -> None:
    """Prefetch the data of two later visits."""
    K = alpha.shape[1]
    simd.prefetch(rows.indptr, far)
    simd.prefetch(rows.y, far)
    simd.prefetch(rows.square, far)
    simd.prefetch(caps, far)
    simd.prefetch(alpha, far * K)
    simd.prefetch(alpha, near * K + K - 1)
    fetch_offset(rows.offset, far * K)
    first = np.uint64(rows.indptr[near])
    last = min(np.uint64(rows.indptr[near + 1]), first + REACH)
    for p in range(first, last, np.uint64(8)):
        simd.prefetch(rows.data, p)
    fetch_indices(rows.indices, first, last)


@entry_products
def squares(indptr: Data, data: Data, pad: float, out: FloatArray) -> None:
    """|x_i|^2, including the constant feature."""
    for i in range(out.size):
        total = pad * pad
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += np.float64(data[p]) * np.float64(data[p])
        out[i] = total


@inlined
def dense_scores(x: FloatArray, W: FloatArray, here: IntArray, size: int, out: FloatArray) -> None:
    """The scores of one dense row for these classes, two at a time."""
    width, full, zero = W.shape[1], simd.first(LANES), simd.fill(0.0)
    for q in range(0, size, 2):
        r = min(q + 1, size - 1)
        a, b = here[q] * width, here[r] * width
        s0, s1 = zero, zero
        for p in range(0, width, LANES):
            entries = simd.load(x, p, full, zero)
            s0 = simd.fma(entries, simd.load(W, a + p, full, zero), s0)
            s1 = simd.fma(entries, simd.load(W, b + p, full, zero), s1)
        out[q], out[r] = simd.total(s0), simd.total(s1)


@inlined
def add_dense(x: FloatArray, W: FloatArray, k: int, change: float) -> None:
    """Add a multiple of one dense row to the weights of class k."""
    width, full, zero = W.shape[1], simd.first(LANES), simd.fill(0.0)
    factor, at = simd.fill(change), k * width
    for p in range(0, width, LANES):
        w = simd.load(W, at + p, full, zero)
        simd.store(W, at + p, full, simd.fma(factor, simd.load(x, p, full, zero), w))


@inlined
def load_row(rows: ClassRows, i: int, x: FloatArray) -> None:
    """Write a dense row and the constant feature to x, which is zero behind them."""
    if rows.indices is None:
        first = np.uint64(rows.indptr[i])
        d = np.int64(np.uint64(rows.indptr[i + 1]) - first)
        for p in range(d):
            x[p] = rows.data[first + np.uint64(p)]
        x[d] = rows.pad


@inlined
def row_scores(
    rows: ClassRows,
    i: int,
    x: FloatArray,
    W: FloatArray,
    here: IntArray,
    size: int,
    out: FloatArray,
) -> None:
    """The scores of one row for the first ``size`` of the classes ``here``; for all, if it is sparse."""
    if rows.indices is None:
        dense_scores(x, W, here, size, out)
    else:
        first, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        row_dot(rows.data, rows.indices, first, last, W, out)
        d = W.shape[0] - 1
        for k in range(size):
            out[k] += rows.pad * W[d, k]


@inlined
def add_row(
    rows: ClassRows,
    i: int,
    x: FloatArray,
    W: FloatArray,
    here: IntArray,
    size: int,
    delta: FloatArray,
) -> None:
    """Add one row to the weights of these classes, with the factors delta."""
    if rows.indices is None:
        for q in range(size):
            if delta[q] != 0.0:
                add_dense(x, W, here[q], delta[q])
    else:
        first, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        d, count, a, b = W.shape[0] - 1, 0, 0, 0
        for k in range(size):
            if delta[k] != 0.0:
                W[d, k] += rows.pad * delta[k]
                a, b = b, k
                count += 1
        if count == 2 and W.shape[1] > LANES:
            row_add_pair(rows.data, rows.indices, first, last, W, delta, a, b)
        elif count > 0:
            row_add(rows.data, rows.indices, first, last, W, delta)


@inlined
def all_classes(classes: Any, sizes: Any) -> None:
    """Make all classes of all rows active."""
    if classes is not None:
        sizes[:] = classes.shape[1]


@inlined
def classes_of(classes: Any, sizes: Any, i: int, here: IntArray) -> Any:
    """Write the active classes of a row to ``here``; returns their number."""
    if classes is None:
        return here.size
    size = np.int64(sizes[i])
    for q in range(size):
        here[q] = classes[i, q]
    return size


@inlined
def keep_classes(classes: Any, sizes: Any, i: int, here: IntArray, size: int, kept: int) -> None:
    """Store the classes of a row, of which the first ``kept`` remain active."""
    if classes is not None and kept < size:
        for q in range(size):
            classes[i, q] = here[q]
        sizes[i] = kept


@inlined
def threshold(v: FloatArray, pick: IntArray, m: int, total: float, floor: float) -> Any:
    """theta, given the classes ``pick[:m]`` that may be above it, the sum of their v, and g_b - A o.

    Classes above it stay in ``pick``; returns (theta, their number).
    """
    while True:
        theta, kept = (total + floor) / (m + 1), 0
        total = 0.0
        for q in range(m):
            k = pick[q]
            if v[k] > theta:
                pick[kept] = k
                kept += 1
                total += v[k]
        if kept == m:
            return theta, m
        m = kept


@entry
def ascend(
    rows: ClassRows,
    caps: FloatArray,
    alpha: FloatArray,
    W: FloatArray,
    members: IntArray,
    active: IntArray,
    classes: Any,
    sizes: Any,
    block: int,
    seed: int,
    epochs: int,
    stats: FloatArray,
) -> Any:
    """Run epochs over the active rows, until one over all rows estimates a gap of at most ``stats[GOAL]``, or
    after ``epochs`` or the work of ``stats[LIMIT]``. The active rows, of the first ``stats[COUNT]``, are at
    the front of ``active``; those of ``classes`` at the front of each of its rows."""
    cost, K, n_all = rows.cost, rows.cost.shape[0], members.size
    s, delta = np.zeros(max(K, W.shape[1])), np.zeros(max(K, W.shape[1]))
    g, v, old = np.empty(K), np.empty(K), np.empty(K)
    pick, here, x = np.empty(K, dtype=np.int64), np.arange(K), np.zeros(W.shape[1])
    drop = np.zeros(n_all, dtype=np.bool_)
    n = int(stats[COUNT])
    work = visits = offset = 0.0
    for e in range(epochs):
        full = stats[FULL] > 0.0
        lead = stats[LEAD]
        order = visiting_order(n, block if 4 * n > n_all else 1, seed + e)
        gap = violation = largest = 0.0
        drop[:n] = False
        for at in range(n):
            if at + 2 * AHEAD < n:
                fetch(rows, caps, alpha, active[order[at + AHEAD]], active[order[at + 2 * AHEAD]])
            i = active[order[at]]
            truth = rows.y[i]
            size = classes_of(classes, sizes, i, here)
            load_row(rows, i, x)
            row_scores(rows, i, x, W, here, size, s)
            work += size * (rows.indptr[i + 1] - rows.indptr[i])

            # Subtract the largest entry of the gradient: a constant makes no difference.
            top, second, best = -np.inf, -np.inf, 0
            for q in range(size):
                r = demand(cost, rows.offset, i, truth, here[q]) + s[q]
                g[q] = r
                old[q] = alpha[i, here[q]]
                second = max(second, min(r, top))
                best = q if r > top else best
                top = max(top, r)
            own, lack, worst = 0, 0.0, 0.0
            for q in range(size):
                g[q] -= top
                lack -= old[q] * g[q]
                own += old[q] > 0.0
                worst = max(worst, -g[q] if old[q] > 0.0 else 0.0)
            gap += lack
            violation += worst
            largest = max(largest, worst)
            if worst <= 0.0 and own == 1 and old[best] > 0.0 and top - second > lead:
                drop[order[at]] = True
                continue
            if classes is not None:
                # classes without a multiplier, whose gradient is below that of all with one
                kept, low = 0, -worst - lead
                for q in range(size):
                    if old[q] > 0.0 or g[q] >= low:
                        here[kept], here[q] = here[q], here[kept]
                        g[kept], g[q] = g[q], g[kept]
                        old[kept], old[q] = old[q], old[kept]
                        kept += 1
                keep_classes(classes, sizes, i, here, size, kept)
                size = kept
            if worst <= 0.0:
                continue

            A, c = rows.square[i], caps[i]
            peak, best = -np.inf, 0
            for q in range(size):
                v[q] = g[q] + A * old[q]
                best = q if v[q] > peak else best
                peak = max(peak, v[q])
            others = 0.0
            for q in range(size):
                others += old[q] if q != best else 0.0
            m, total, floor = 0, 0.0, g[best] - A * others
            for q in range(size):
                pick[m] = q
                above = q != best and v[q] > floor
                m += above
                total += v[q] if above else 0.0
            theta, m = threshold(v, pick, m, total, floor)

            # delta is the change of w, the negative change of alpha; the largest class gets the remainder.
            rest, moved = c, 0.0
            for q in range(size):
                delta[q] = old[q]
                old[q] = 0.0
            for p in range(m):
                q = pick[p]
                a = min((v[q] - theta) / A, rest)
                rest -= a
                old[q] = a
            old[best] = rest
            for q in range(size):
                delta[q] -= old[q]
                moved += delta[q] if q != best else 0.0
                alpha[i, here[q]] = old[q]
            delta[best] = -moved
            for q in range(size):
                offset -= delta[q] * demand(cost, rows.offset, i, truth, here[q])
            add_row(rows, i, x, W, here, size, delta)
        visits += n
        left = 0
        for q in range(n):
            active[left] = active[q]
            left += not drop[q]
        stats[GAP], stats[LEAD] = gap, violation / max(1, n)
        n = left
        stats[FULL] = 0.0
        stats[EPOCH] += 1.0
        if stats[NEAR] <= 0.0:
            stats[NEAR] = 0.3 * largest
        if (full and gap <= stats[GOAL]) or work >= stats[LIMIT] or e + 1 == epochs:
            break
        solved = n == 0 or largest <= stats[NEAR]
        if solved or gap <= stats[GOAL] or stats[EPOCH] >= stats[NEXT]:
            if solved:
                stats[NEAR] = 0.3 * min(stats[NEAR], largest)
            stats[NEXT] = max(stats[EPOCH] + 2.0, np.floor(GROW * stats[EPOCH]))
            stats[FULL] = 1.0
            n = n_all
            active[:n] = members
            all_classes(classes, sizes)
    stats[COUNT], stats[VISITS], stats[OFFSET] = n, visits, offset
    return work


@entry
def choose_active(
    rows: ClassRows,
    alpha: FloatArray,
    scores: FloatArray,
    members: IntArray,
    lead: float,
    active: IntArray,
) -> Any:
    """Write the active rows, given exact scores, to ``active``; returns their number."""
    left = 0
    for i in members:
        truth = rows.y[i]
        top, second, best, own = -np.inf, -np.inf, truth, 0
        for k in range(scores.shape[1]):
            g = rows.cost[truth, k] + scores[i, k]
            second = max(second, min(g, top))
            best = k if g > top else best
            top = max(top, g)
            own += alpha[i, k] > 0.0
        active[left] = i
        left += not (own == 1 and alpha[i, best] > 0.0 and top - second > lead)
    return left


@entry
def rebuild(rows: ClassRows, alpha: FloatArray, members: IntArray, W: FloatArray) -> Any:
    """Add w of the dual variables to W; returns sum alpha cost."""
    K = rows.cost.shape[0]
    delta, here, x = np.zeros(max(K, W.shape[1])), np.arange(K), np.zeros(W.shape[1])
    offset = 0.0
    for i in members:
        truth = rows.y[i]
        away = 0.0
        for k in range(K):
            a = alpha[i, k]
            delta[k] = -a
            offset += a * demand(rows.cost, rows.offset, i, truth, k)
            away += a if k != truth else 0.0
        # Sum the other classes instead of subtracting from c_i: the bound must hold despite rounding.
        delta[truth] = away
        if away > 0.0:
            load_row(rows, i, x)
            add_row(rows, i, x, W, here, K, delta)
    return offset


@entry
def count_support(rows: ClassRows, alpha: FloatArray, members: IntArray) -> Any:
    """Number of rows with a nonzero dual variable of a wrong class."""
    count = 0
    for i in members:
        away = False
        for k in range(alpha.shape[1]):
            away |= alpha[i, k] > 0.0 and k != rows.y[i]
        count += away
    return count
