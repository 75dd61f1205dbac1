"""Binary hinge: L(s) = sum_i c_i max(0, 1 - y_i s_i), its cut, and its shape on a line of scores.

On the line s + t (r - s) row i contributes max(0, A_i + t B_i) with A = c (1 - y s), B = c y (s -
r): one kink at -A / B where the slope jumps by |B|.
"""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def value(scores, y, weight):
    total = 0.0
    for i in range(scores.shape[0]):
        total += weight[i] * max(0.0, 1.0 - y[i] * scores[i])
    return total


@njit(nogil=True, cache=True)
def cut(scores, y, weight, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    offset = 0.0
    for i in range(scores.shape[0]):
        if y[i] * scores[i] < 1.0:
            gradient[i] = -weight[i] * y[i]
            offset += weight[i]
        else:
            gradient[i] = 0.0
    return offset


@njit(nogil=True, cache=True)
def slopes(s, r, y, weight, ts, out):
    """Add the right derivatives at each t."""
    n_ts = ts.shape[0]
    for i in range(s.shape[0]):
        a = weight[i] * (1.0 - y[i] * s[i])
        b = weight[i] * y[i] * (s[i] - r[i])
        for q in range(n_ts):
            v = a + ts[q] * b
            out[q] += b if v > 0.0 or (v == 0.0 and b > 0.0) else 0.0


@njit(nogil=True, cache=True)
def kinks(s, r, y, weight, lo, hi, ts, jumps):
    """Kinks in (lo, hi); returns their number, or -1 if there is no room."""
    count = 0
    for i in range(s.shape[0]):
        b = weight[i] * y[i] * (s[i] - r[i])
        if b == 0.0:
            continue
        t = -weight[i] * (1.0 - y[i] * s[i]) / b
        if lo < t < hi:
            if count >= ts.shape[0]:
                return -1
            ts[count] = t
            jumps[count] = abs(b)
            count += 1
    return count
