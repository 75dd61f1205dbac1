"""Binary hinge loss L(s) = sum_i c_i max(0, m - y_i s_i): its cut, and its slopes and kinks on a line of
scores.

On the line s + t (r - s), row i contributes max(0, A_i + t B_i) with A = c (m - y s), B = c y (s - r): one
kink at -A / B where the slope jumps by |B|.
"""

from __future__ import annotations

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, entry_products

#: number of rows below which a loop that both stores and sums is split into two. Such a loop is compiled
#: twice; the version without vector instructions, which sums in another order, runs if output and input
#: arrays seem to overlap, which for short arrays depends on their addresses
SHORT = 1024


@entry_products
def value(scores, y, weight, margin):
    total = 0.0
    for i in range(scores.shape[0]):
        total += weight[i] * max(0.0, margin - y[i] * scores[i])
    return total


@entry_products
def cut(scores, y, weight, margin, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    offset, n = 0.0, scores.shape[0]
    if n < SHORT:
        for i in range(n):
            offset += weight[i] if y[i] * scores[i] < margin else 0.0
        for i in range(n):
            gradient[i] = -(weight[i] if y[i] * scores[i] < margin else 0.0) * y[i]
        return margin * offset
    for i in range(n):
        c = weight[i] if y[i] * scores[i] < margin else 0.0  # no branch: it would be mispredicted
        gradient[i] = -c * y[i]
        offset += c
    return margin * offset


@entry
def slopes(s, r, y, weight, margin, ts, out):
    """Add the right derivatives at each t, eight at a time."""
    zero = simd.fill(0.0)
    for q in range(0, ts.shape[0], simd.LANES):
        here = simd.first(ts.shape[0] - q)
        t = simd.load(ts, q, here, zero)
        even, odd = zero, zero  # two accumulators hide the latency of additions
        for i in range(s.shape[0]):
            a = weight[i] * (margin - y[i] * s[i])
            b = weight[i] * y[i] * (s[i] - r[i])
            slope, value = simd.fill(b), simd.fma(t, simd.fill(b), simd.fill(a))
            rising = simd.both(simd.equal(value, zero), simd.above(slope, zero))
            part = simd.choose(simd.either(simd.above(value, zero), rising), slope, zero)
            even, odd = odd, simd.add(even, part)
        total = simd.add(even, odd)
        simd.store(out, q, here, simd.add(simd.load(out, q, here, zero), total))


@entry
def kinks(s, r, y, weight, margin, lo, hi, ts, jumps):
    """Kinks in (lo, hi); returns their number, or -1 if there is no room."""
    count, room = 0, ts.shape[0]
    for i in range(s.shape[0]):
        b = weight[i] * y[i] * (s[i] - r[i])
        t = -weight[i] * (margin - y[i] * s[i]) / b  # nan or infinite if there is no kink
        inside = (lo < t) & (t < hi) & (b != 0.0)
        if count >= room:
            if inside:
                return -1
            continue
        ts[count] = t  # always written: a branch would be mispredicted
        jumps[count] = abs(b)
        count += int(inside)
    return count
