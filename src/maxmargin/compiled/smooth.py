"""Row-wise parts of Newton's method for smooth losses of margins: squared hinge and logistic.

For a row of weight c with loss l, ``m`` is the margin minus the required margin, alpha = -c l'(m) the dual
variable, theta = c l''(m) the curvature, and ``dual`` the conjugate part: the dual value is
sum_i alpha_i demand_i + dual_i - |Z' alpha|^2 / 2. The squared hinge is c max(0, -m)^2.
"""

from __future__ import annotations

import math

from maxmargin.compiled.jit import entry


@entry
def squared_hinge(m, c, alpha, theta):
    """Fill ``alpha`` and ``theta``; returns (sum of losses, conjugate part of the dual, number of
    nonzeros)."""
    loss, dual, support = 0.0, 0.0, 0
    for i in range(m.shape[0]):
        short = max(0.0, -m[i])
        loss += c[i] * short * short
        dual -= c[i] * short * short  # alpha^2 / (4 c)
        alpha[i] = 2.0 * c[i] * short
        theta[i] = 2.0 * c[i] if short > 0.0 else 0.0
        support += short > 0.0
    return loss, dual, support


@entry
def squared_hinge_slope(m, dm, c, k):
    """(sum of alpha dm, sum of theta dm^2) after a step k."""
    slope, curvature = 0.0, 0.0
    for i in range(m.shape[0]):
        short = -m[i] - k * dm[i]
        if short > 0.0:
            slope += 2.0 * c[i] * short * dm[i]
            curvature += 2.0 * c[i] * dm[i] * dm[i]
    return slope, curvature


@entry
def logistic(m, c, alpha, theta):
    """As :func:`squared_hinge`; the conjugate part is c times the entropy of alpha / c."""
    loss, dual = 0.0, 0.0
    for i in range(m.shape[0]):
        size = abs(m[i])
        e = math.exp(-size)
        rare = e / (1.0 + e)
        both = math.log1p(e)
        loss += c[i] * (both + max(0.0, -m[i]))
        dual += c[i] * (both + size * rare)
        alpha[i] = c[i] * (rare if m[i] >= 0.0 else 1.0 / (1.0 + e))
        theta[i] = c[i] * rare / (1.0 + e)
    return loss, dual, m.shape[0]


@entry
def logistic_slope(m, dm, c, k):
    """(sum of alpha dm, sum of theta dm^2) after a step k."""
    slope, curvature = 0.0, 0.0
    for i in range(m.shape[0]):
        at = m[i] + k * dm[i]
        e = math.exp(-abs(at))
        slope += c[i] * dm[i] * ((e if at >= 0.0 else 1.0) / (1.0 + e))
        curvature += c[i] * dm[i] * dm[i] * (e / (1.0 + e) / (1.0 + e))
    return slope, curvature
