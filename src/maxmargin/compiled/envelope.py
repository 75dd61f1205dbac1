"""Upper envelopes of lines, the heart of every exact line search of a maximum of linear scores.

Example i owns the lines a_j + t b_j; its loss at t is s_i times their maximum. The derivative of
the maximum is the slope of the leading line (of the steepest leading line: right derivatives). Its
kinks in (lo, hi) are found by walking: from the leading line at lo go to the earliest crossing with
a steeper one. Algorithm 3 of Franc and Sonnenburg, restricted to the part of the line that matters.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, inline="always")
def leader(a, b, n, t):
    """The line that leads just after t."""
    best, value, slope = 0, a[0] + t * b[0], b[0]
    for j in range(1, n):
        v = a[j] + t * b[j]
        # bitwise, and one conditional move each: a mispredicted branch costs more than all of this
        better = (v > value) | ((v == value) & (b[j] > slope))
        best = j if better else best
        value = v if better else value
        slope = b[j] if better else slope
    return best


@njit(nogil=True, cache=True, inline="always")
def add_slopes(a, b, n, weight, ts, out):
    """Add the example's right derivatives at each t; the ts ascend.

    A line that leads at both ends leads in between, so most examples need two looks, not one per t.
    """
    lo, hi = 0, ts.shape[0] - 1
    first = leader(a, b, n, ts[lo])
    out[lo] += weight * b[first]
    if hi == 0:
        return
    last = leader(a, b, n, ts[hi])
    out[hi] += weight * b[last]
    for q in range(1, hi):
        if first != last:
            first = leader(a, b, n, ts[q])
        out[q] += weight * b[first]


@njit(nogil=True, cache=True, inline="always")
def add_kinks(a, b, n, weight, lo, hi, ts, jumps, count):
    """Append the example's kinks in (lo, hi); returns the new count, or -1 if there is no room."""
    at = leader(a, b, n, lo)
    if np.isfinite(hi) and b[leader(a, b, n, hi)] == b[at]:
        return count
    t = lo
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
        at, t = following, crossing


@njit(nogil=True, cache=True)
def ragged_slopes(a0, a1, pointers, weight, ts, out):
    """Slopes of sum_i s_i max(0, max_j ((1 - t) a0_j + t a1_j)): cached constraints on a line."""
    widest = 1
    for i in range(pointers.shape[0] - 1):
        widest = max(widest, pointers[i + 1] - pointers[i] + 1)
    a, b = np.zeros(widest), np.zeros(widest)
    for i in range(pointers.shape[0] - 1):
        n = 1  # line 0 is the truth: value 0, slope 0
        for j in range(pointers[i], pointers[i + 1]):
            a[n] = a0[j]
            b[n] = a1[j] - a0[j]
            n += 1
        add_slopes(a, b, n, weight[i], ts, out)


@njit(nogil=True, cache=True)
def ragged_kinks(a0, a1, pointers, weight, lo, hi, ts, jumps):
    """Kinks of the same function in (lo, hi); returns their number, or -1 if there is no room."""
    widest = 1
    for i in range(pointers.shape[0] - 1):
        widest = max(widest, pointers[i + 1] - pointers[i] + 1)
    a, b = np.zeros(widest), np.zeros(widest)
    count = 0
    for i in range(pointers.shape[0] - 1):
        n = 1
        for j in range(pointers[i], pointers[i + 1]):
            a[n] = a0[j]
            b[n] = a1[j] - a0[j]
            n += 1
        count = add_kinks(a, b, n, weight[i], lo, hi, ts, jumps, count)
        if count < 0:
            return -1
    return count


@njit(nogil=True, cache=True)
def ragged_leaders(scores, pointers, chosen):
    """The best entry of each example, -1 where none is above zero; returns nothing."""
    for i in range(pointers.shape[0] - 1):
        best, value = -1, 0.0
        for j in range(pointers[i], pointers[i + 1]):
            if scores[j] > value:
                best, value = j, scores[j]
        chosen[i] = best
