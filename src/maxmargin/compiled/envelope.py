"""Upper envelopes of lines, for exact line searches of a maximum of linear scores.

Example i has the lines a_j + t b_j; its loss at t is s_i times their maximum. The derivative of the maximum
is the slope of the active line (the steepest one at ties: right derivatives). Its kinks in (lo, hi) are found
by walking: from the active line at lo to the earliest crossing with a steeper line. This is algorithm 3 of
Franc and Sonnenburg, restricted to the relevant interval.

The lengths of arrays of lines are multiples of eight; unused lines have a = -inf, b = 0.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, inlined


@inlined
def padded(n):
    """The length of arrays for n lines."""
    return (n + simd.LANES - 1) // simd.LANES * simd.LANES


@inlined
def slope_after(a, b, n, t):
    """The slope of the active line just after t."""
    all_lanes, none = simd.first(simd.LANES), simd.fill(-np.inf)
    time, best = simd.fill(t), none
    for j in range(0, n, simd.LANES):
        slopes = simd.load(b, j, all_lanes, none)
        best = simd.larger(best, simd.fma(time, slopes, simd.load(a, j, all_lanes, none)))
    top, steepest = simd.fill(simd.largest(best)), none
    for j in range(0, n, simd.LANES):
        slopes = simd.load(b, j, all_lanes, none)
        values = simd.fma(time, slopes, simd.load(a, j, all_lanes, none))
        leads = simd.equal(values, top)
        steepest = simd.larger(steepest, simd.choose(leads, slopes, none))
    return simd.largest(steepest)


@inlined
def _leader(a, b, n, t, slope):
    """A line of this slope that is active at t."""
    at, value = -1, -np.inf
    for j in range(n):
        if b[j] == slope and a[j] > value:
            at, value = j, a[j]
    return at


@inlined
def slopes_after(a, b, n, ts):
    """The same at eight values of t at once."""
    start, slope = simd.fill(a[0]), simd.fill(b[0])
    best = simd.fma(ts, slope, start)
    for j in range(1, n):
        rise = simd.fill(b[j])
        value = simd.fma(ts, rise, simd.fill(a[j]))
        steeper = simd.both(simd.equal(value, best), simd.above(rise, slope))
        slope = simd.choose(simd.either(simd.above(value, best), steeper), rise, slope)
        best = simd.larger(value, best)
    return slope


@inlined
def add_kinks(a, b, n, weight, lo, hi, ts, jumps, count):
    """Append the kinks of an example in (lo, hi); returns the new count, or -1 if there is no room."""
    slope = slope_after(a, b, n, lo)
    last = slope_after(a, b, n, hi) if np.isfinite(hi) else np.inf
    if slope == last:
        return count
    at, t = _leader(a, b, n, lo, slope), lo
    while True:
        crossing, following = hi, -1
        for j in range(n):
            if b[j] > b[at]:
                c = (a[at] - a[j]) / (b[j] - b[at])
                c = max(c, t)
                if c < crossing or (c == crossing and following >= 0 and b[j] > b[following]):
                    crossing, following = c, j
        if following < 0:
            return count
        if count >= ts.shape[0]:
            return -1
        ts[count] = crossing
        jumps[count] = weight * (b[following] - b[at])
        count += 1
        if b[following] == last:
            return count
        at, t = following, crossing


@inlined
def _fill(a0, a1, start, end, a, b):
    """Cached constraints as lines; line 0 is the true output: value 0, slope 0. Returns the padded length."""
    a[0], b[0], n = 0.0, 0.0, 1
    for j in range(start, end):
        a[n] = a0[j]
        b[n] = a1[j] - a0[j]
        n += 1
    whole = padded(n)
    for j in range(n, whole):
        a[j], b[j] = -np.inf, 0.0
    return whole


@inlined
def _widest(pointers):
    widest = 1
    for i in range(pointers.shape[0] - 1):
        widest = max(widest, pointers[i + 1] - pointers[i] + 1)
    return padded(widest)


@entry
def ragged_slopes(a0, a1, pointers, weight, ts, out):
    """Slopes of sum_i s_i max(0, max_j ((1 - t) a0_j + t a1_j)), for cached constraints on a line."""
    room, zero = _widest(pointers), simd.fill(0.0)
    a, b = np.empty(room), np.empty(room)
    for q in range(0, ts.shape[0], simd.LANES):
        here = simd.first(ts.shape[0] - q)
        at, total = simd.load(ts, q, here, zero), simd.load(out, q, here, zero)
        for i in range(pointers.shape[0] - 1):
            _fill(a0, a1, pointers[i], pointers[i + 1], a, b)
            n = pointers[i + 1] - pointers[i] + 1
            total = simd.fma(simd.fill(weight[i]), slopes_after(a, b, n, at), total)
        simd.store(out, q, here, total)


@entry
def ragged_kinks(a0, a1, pointers, weight, lo, hi, ts, jumps):
    """Kinks of the same function in (lo, hi); returns their number, or -1 if there is no room."""
    room = _widest(pointers)
    a, b = np.empty(room), np.empty(room)
    count = 0
    for i in range(pointers.shape[0] - 1):
        n = _fill(a0, a1, pointers[i], pointers[i + 1], a, b)
        count = add_kinks(a, b, n, weight[i], lo, hi, ts, jumps, count)
        if count < 0:
            return -1
    return count


@entry
def ragged_leaders(scores, pointers, chosen):
    """The best entry of each example, -1 if none is positive."""
    for i in range(pointers.shape[0] - 1):
        best, value = -1, 0.0
        for j in range(pointers[i], pointers[i + 1]):
            if scores[j] > value:
                best, value = j, scores[j]
        chosen[i] = best
