"""Squared hinge loss L(s) = sum_i c_i max(0, m - y_i s_i)^2: its cut, and its slopes on a line of scores.

On the line s + t (r - s), row i contributes c max(0, A + t B)^2 with A = m - y s, B = y (s - r): the slope
2 c B max(0, A + t B) is continuous, with a kink at -A / B.
"""

from __future__ import annotations

from maxmargin.compiled.jit import entry, entry_products


@entry_products
def value(scores, y, weight, margin):
    total = 0.0
    for i in range(scores.shape[0]):
        short = max(0.0, margin - y[i] * scores[i])
        total += weight[i] * (short * short)
    return total


@entry
def cut(scores, y, weight, margin, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    offset = 0.0
    for i in range(scores.shape[0]):
        short = max(0.0, margin - y[i] * scores[i])
        gradient[i] = -2.0 * weight[i] * y[i] * short
        offset += weight[i] * short * (2.0 * margin - short)  # short^2 - gradient * score
    return offset


@entry
def slopes(s, r, y, weight, margin, ts, out):
    """Add the derivatives at each t."""
    n_ts = ts.shape[0]
    for i in range(s.shape[0]):
        a = margin - y[i] * s[i]
        b = y[i] * (s[i] - r[i])
        c = 2.0 * weight[i] * b
        for q in range(n_ts):
            out[q] += c * max(0.0, a + ts[q] * b)
