"""Epsilon-insensitive loss L(s) = sum_i c_i max(0, |s_i - y_i| - e_i), plain or squared: cuts, slopes and
kinks.

On the line s + t (r - s), row i deviates from its target by u(t) = A + t B, A = s - y, B = r - s. It has two
kinks, at u = e and u = -e, where the slope jumps by c |B|; they coincide if e = 0. The slope of the squared
loss is continuous.
"""

from __future__ import annotations

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, entry_products


@entry_products
def value(scores, y, width, weight, squared):
    total = 0.0
    for i in range(scores.shape[0]):
        loss = max(0.0, abs(scores[i] - y[i]) - width[i])
        total += weight[i] * (loss * loss if squared else loss)
    return total


@entry
def cut(scores, y, width, weight, squared, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    offset = 0.0
    for i in range(scores.shape[0]):
        off = scores[i] - y[i]
        loss = max(0.0, abs(off) - width[i])
        g = weight[i] if loss > 0.0 else 0.0
        if squared:
            g *= 2.0 * loss
        # value - gradient * score, where the value is g * loss, or half of that if squared
        offset -= g * width[i]
        if squared:
            offset -= 0.5 * g * loss
        g = g if off > 0.0 else -g
        offset -= g * y[i]
        gradient[i] = g
    return offset


@entry
def slopes(s, r, y, width, weight, ts, out):
    """Add the right derivatives at each t, eight at a time."""
    zero = simd.fill(0.0)
    for q in range(0, ts.shape[0], simd.LANES):
        here = simd.first(ts.shape[0] - q)
        t = simd.load(ts, q, here, zero)
        even, odd = zero, zero  # two accumulators hide the latency of additions
        for i in range(s.shape[0]):
            b = r[i] - s[i]
            value = simd.fma(t, simd.fill(b), simd.fill(s[i] - y[i]))
            top, bottom = simd.fill(width[i]), simd.fill(-width[i])
            above, below = simd.above(value, top), simd.above(bottom, value)
            if b > 0.0:
                above = simd.either(above, simd.equal(value, top))
            elif b < 0.0:
                below = simd.either(below, simd.equal(value, bottom))
            part = simd.choose(above, simd.fill(weight[i] * b), zero)
            part = simd.choose(below, simd.fill(-weight[i] * b), part)
            even, odd = odd, simd.add(even, part)
        total = simd.add(even, odd)
        simd.store(out, q, here, simd.add(simd.load(out, q, here, zero), total))


@entry
def squared_slopes(s, r, y, width, weight, ts, out):
    """Add the derivatives of the squared loss at each t."""
    n_ts = ts.shape[0]
    for i in range(s.shape[0]):
        a, b = s[i] - y[i], r[i] - s[i]
        c = 2.0 * weight[i] * b
        for q in range(n_ts):
            off = a + ts[q] * b
            out[q] += c * (max(0.0, off - width[i]) - max(0.0, -off - width[i]))


@entry
def kinks(s, r, y, width, weight, lo, hi, ts, jumps):
    """Kinks in (lo, hi); returns their number, or -1 if there is no room."""
    count, room = 0, ts.shape[0]
    for i in range(s.shape[0]):
        b = r[i] - s[i]
        for side in range(2):
            edge = width[i] if side else -width[i]
            t = (edge - (s[i] - y[i])) / b  # nan or infinite if there is no kink
            inside = (lo < t) & (t < hi) & (b != 0.0) & (weight[i] > 0.0)
            if count >= room:
                if inside:
                    return -1
                continue
            ts[count] = t  # always written: a branch would be mispredicted
            jumps[count] = weight[i] * abs(b)
            count += int(inside)
    return count
