"""Logistic loss L(s) = sum_i c_i log(1 + exp(-y_i s_i)): its cut, and its slopes on a line of scores.

With e = exp(-|m|) for the margin m = y s nothing overflows: the loss is log(1 + e) + max(0, -m), and the
probability of the other label is e / (1 + e) for m >= 0 and 1 / (1 + e) for m < 0.
"""

from __future__ import annotations

import math

from maxmargin.compiled.jit import entry


@entry
def value(scores, y, weight):
    total = 0.0
    for i in range(scores.shape[0]):
        margin = y[i] * scores[i]
        total += weight[i] * (math.log1p(math.exp(-abs(margin))) + max(0.0, -margin))
    return total


@entry
def cut(scores, y, weight, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    offset = 0.0
    for i in range(scores.shape[0]):
        margin = y[i] * scores[i]
        e = math.exp(-abs(margin))
        # log(1 + e) + |m| e / (1 + e) for either sign: the entropy of the two labels
        offset += weight[i] * (math.log1p(e) + abs(margin) * (e / (1.0 + e)))
        gradient[i] = -weight[i] * y[i] * ((e if margin >= 0.0 else 1.0) / (1.0 + e))
    return offset


@entry
def slopes(s, r, y, weight, ts, out):
    """Add the derivatives at each t."""
    n_ts = ts.shape[0]
    for i in range(s.shape[0]):
        a = y[i] * s[i]
        b = y[i] * (r[i] - s[i])
        c = weight[i] * b
        for q in range(n_ts):
            margin = a + ts[q] * b
            e = math.exp(-abs(margin))
            out[q] -= c * ((e if margin >= 0.0 else 1.0) / (1.0 + e))
