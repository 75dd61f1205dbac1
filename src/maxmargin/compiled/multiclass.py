"""Crammer-Singer hinge loss with a cost matrix: L(S) = sum_i c_i max_k (cost[y_i, k] + S_ik - S_iy_i).

The classes of a row are processed eight at a time.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import simd
from maxmargin.compiled.envelope import add_kinks, padded, slopes_after
from maxmargin.compiled.jit import entry, inlined


@inlined
def _worst(scores, cost, i, truth):
    """The largest cost plus score of a row."""
    n_classes, none = scores.shape[1], simd.fill(-np.inf)
    best = none
    for k in range(0, n_classes, simd.LANES):
        here = simd.first(n_classes - k)
        costs = simd.load(cost, truth * n_classes + k, here, none)
        best = simd.larger(best, simd.add(costs, simd.load(scores, i * n_classes + k, here, none)))
    return simd.largest(best)


@inlined
def _violator(scores, cost, i, truth, worst):
    """The first class that attains ``worst``."""
    n_classes, none, wanted = scores.shape[1], simd.fill(-np.inf), simd.fill(worst)
    for k in range(0, n_classes, simd.LANES):
        here = simd.first(n_classes - k)
        costs = simd.load(cost, truth * n_classes + k, here, none)
        values = simd.add(costs, simd.load(scores, i * n_classes + k, here, none))
        found = simd.bits(simd.both(here, simd.equal(values, wanted)))
        if found:
            return k + simd.lowest(found)
    return truth  # a score is nan


@entry
def value(scores, y, weight, cost):
    total = 0.0
    for i in range(scores.shape[0]):
        total += weight[i] * (_worst(scores, cost, i, np.int64(y[i])) - scores[i, y[i]])
    return total


@entry
def cut(scores, y, weight, cost, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores.

    Ties go to the true class: a row without a loss has no gradient.
    """
    n_classes, zero = scores.shape[1], simd.fill(0.0)
    offset = 0.0
    for i in range(scores.shape[0]):
        for k in range(0, n_classes, simd.LANES):
            simd.store(gradient, i * n_classes + k, simd.first(n_classes - k), zero)
        truth = np.int64(y[i])
        worst = _worst(scores, cost, i, truth)
        if worst > scores[i, truth]:
            k = _violator(scores, cost, i, truth, worst)
            gradient[i, k] = weight[i]
            gradient[i, truth] = -weight[i]
            offset += weight[i] * cost[truth, k]
    return offset


@inlined
def _lines(s, r, cost, i, truth, a, b):
    n_classes, none, zero = s.shape[1], simd.fill(-np.inf), simd.fill(0.0)
    start = simd.fill(s[i, truth])
    drift = simd.fill(r[i, truth] - s[i, truth])
    all_lanes = simd.first(simd.LANES)
    for k in range(0, n_classes, simd.LANES):
        here = simd.first(n_classes - k)
        at = i * n_classes + k
        before, after = simd.load(s, at, here, zero), simd.load(r, at, here, zero)
        costs = simd.load(cost, truth * n_classes + k, here, none)
        simd.store(a, k, all_lanes, simd.sub(simd.add(costs, before), start))
        rise = simd.sub(simd.sub(after, before), drift)
        simd.store(b, k, all_lanes, simd.choose(here, rise, zero))


@entry
def slopes(s, r, y, weight, cost, ts, out):
    """Add the right derivatives on the line from scores s to scores r."""
    n_classes, zero = s.shape[1], simd.fill(0.0)
    a, b = np.empty(padded(n_classes)), np.empty(padded(n_classes))
    for q in range(0, ts.shape[0], simd.LANES):
        here = simd.first(ts.shape[0] - q)
        at, total = simd.load(ts, q, here, zero), simd.load(out, q, here, zero)
        for i in range(s.shape[0]):
            _lines(s, r, cost, i, np.int64(y[i]), a, b)
            total = simd.fma(simd.fill(weight[i]), slopes_after(a, b, n_classes, at), total)
        simd.store(out, q, here, total)


@entry
def kinks(s, r, y, weight, cost, lo, hi, ts, jumps):
    """Kinks in (lo, hi); returns their number, or -1 if there is no room."""
    n_lines = padded(s.shape[1])
    a, b = np.empty(n_lines), np.empty(n_lines)
    count = 0
    for i in range(s.shape[0]):
        if weight[i] != 0.0:
            _lines(s, r, cost, i, np.int64(y[i]), a, b)
            count = add_kinks(a, b, n_lines, weight[i], lo, hi, ts, jumps, count)
            if count < 0:
                return -1
    return count
