"""Dual coordinate ascent for the Crammer-Singer loss: exact steps over all classes of one row.

Row i has dual variables alpha_ik >= 0 that sum to c_i, one per class including the true one:

    w_k    =  sum_i (c_i [k = y_i] - alpha_ik) x_i
    g_k    =  cost[y_i, k] + <w_k, x_i> - <w_y, x_i>
    gap_i  =  c_i max_k g_k - sum_k alpha_ik g_k

A visit maximizes the dual over the variables of one row. With A = |x_i|^2 this is

    max over a >= 0, sum_k a_k = c_i  of   <g, a> - A/2 |a - alpha_i|^2

a projection onto a simplex: with v = g + A alpha_i,  a_k = max(0, v_k - theta) / A, where theta solves sum_k
max(0, v_k - theta) = A c_i. Since theta >= max v - A c_i, few classes are candidates. Among them, theta is
found by iterating (sum of the remaining v - A c_i) / (number of the remaining), dropping those below.

An offset o_ik added to the scores is part of the costs of a row: replace cost[y_i, k] by
cost[y_i, k] + o_ik - o_iy above.

Shrinking: a row whose dual variables are on one class, with a gradient that leads by more than the mean
violation of the last epoch, is removed from the active rows; an exact check restores rows removed too early.

W has K columns padded to a multiple of eight, so that all scores of a row are summed in registers. The order
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
#: statistics of an epoch: estimated gap, mean violation, changes of sum alpha cost and of |w|^2 / 2
GAP, VIOLATION, OFFSET, SQUARE = range(4)


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
def threshold(v: FloatArray, pick: IntArray, m: int, total: float, mass: float) -> Any:
    """theta, given the classes ``pick[:m]`` that may be above it and the sum of their v.

    Classes above it stay in ``pick``; returns (theta, their number).
    """
    theta, kept = 0.0, 0
    while kept < m:
        m = m if kept == 0 else kept
        theta = (total - mass) / m
        kept, total = 0, 0.0
        for q in range(m):
            k = pick[q]
            if v[k] > theta:
                pick[kept] = k
                kept += 1
                total += v[k]
        if kept == 0:  # all mass is on one class, up to rounding
            m = 0
    return theta, m


@entry
def epoch(
    rows: ClassRows,
    caps: FloatArray,
    alpha: FloatArray,
    W: FloatArray,
    active: IntArray,
    block: int,
    seed: int,
    lead: float,
    stats: FloatArray,
) -> Any:
    """Visit the active rows once. Rows that remain active move to the front, in order; returns their
    number."""
    data, indices, indptr, cost = rows.data, rows.indices, rows.indptr, rows.cost
    n, K, d = active.size, cost.shape[0], W.shape[0] - 1
    s, delta = np.zeros(W.shape[1]), np.zeros(W.shape[1])
    g, v = np.empty(K), np.empty(K)
    pick = np.empty(K, dtype=np.int64)
    order = visiting_order(n, block, seed)
    drop = np.zeros(n, dtype=np.bool_)
    gap = violation = offset = square = 0.0
    for at in range(n):
        if at + 2 * AHEAD < n:
            fetch(rows, caps, alpha, active[order[at + AHEAD]], active[order[at + 2 * AHEAD]])
        i = active[order[at]]
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        row_dot(data, indices, first, last, W, s)
        truth = rows.y[i]

        # Subtract the largest entry of the gradient: a constant makes no difference.
        top, second, best = -np.inf, -np.inf, truth
        for k in range(K):
            r = demand(cost, rows.offset, i, truth, k) + s[k] + rows.pad * W[d, k]
            g[k] = r
            second = max(second, min(r, top))
            best = k if r > top else best
            top = max(top, r)
        own, lack, worst = 0, 0.0, 0.0
        for k in range(K):
            a = alpha[i, k]
            g[k] -= top
            lack -= a * g[k]
            own += a > 0.0
            worst = max(worst, -g[k] if a > 0.0 else 0.0)
        gap += lack
        violation += worst
        if worst <= 0.0:
            drop[order[at]] = own == 1 and alpha[i, best] > 0.0 and top - second > lead
            continue

        A, c = rows.square[i], caps[i]
        peak, best = -np.inf, truth
        for k in range(K):
            v[k] = g[k] + A * alpha[i, k]
            best = k if v[k] > peak else best
            peak = max(peak, v[k])
        m, total, floor = 0, 0.0, peak - A * c
        for k in range(K):
            pick[m] = k
            above = v[k] > floor
            m += above
            total += v[k] if above else 0.0
        theta, m = threshold(v, pick, m, total, A * c)

        # delta is the change of w, the negative change of alpha; the largest class gets the remainder.
        rest = c
        for k in range(K):
            delta[k] = alpha[i, k]
            alpha[i, k] = 0.0
        for q in range(m):
            k = pick[q]
            if k != best:
                a = min((v[k] - theta) / A, rest)
                rest -= a
                alpha[i, k] = a
        alpha[i, best] = rest
        count, gain, gained = 0, 0.0, 0.0
        for k in range(K):
            delta[k] -= alpha[i, k]
            W[d, k] += rows.pad * delta[k]
            gained -= delta[k] * demand(cost, rows.offset, i, truth, k)
            gain -= delta[k] * (g[k] + 0.5 * A * delta[k])
            pick[count] = k
            count += delta[k] != 0.0
        offset += gained
        square += gained - gain
        if count == 2 and W.shape[1] > LANES:
            row_add_pair(data, indices, first, last, W, delta, pick[0], pick[1])
        elif count > 0:
            row_add(data, indices, first, last, W, delta)
    stats[GAP], stats[VIOLATION] = gap, violation / max(1, n)
    stats[OFFSET], stats[SQUARE] = offset, square
    left = 0
    for q in range(n):
        active[left] = active[q]
        left += not drop[q]
    return left


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
    K, d = rows.cost.shape[0], W.shape[0] - 1
    delta = np.zeros(W.shape[1])
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
            for k in range(K):
                W[d, k] += rows.pad * delta[k]
            first, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
            row_add(rows.data, rows.indices, first, last, W, delta)
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
