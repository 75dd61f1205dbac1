"""Newton steps for few rows, several in one call; see :mod:`maxmargin.duals.interior_point` and
:mod:`maxmargin.duals.smooth_newton`.

For few rows the calls of a step take longer than its arithmetic. The steps themselves are those that
``InteriorPoint`` and ``SmoothNewton`` compose of calls for larger problems. Loops are vectorized in the order
of the source, so ``Z`` is needed by rows and by columns (``Zt``).
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.compiled import interior, smooth
from maxmargin.compiled.jit import entry_in_order, leaf_in_order


@entry_in_order
def interior_steps(count, enough, Z, Zt, penalty, back, correctors, longer, a, t, u, xi, m, c, w):
    """Take up to ``count`` steps, fewer if the gap is surely less than ``enough`` times the objective, or if
    no step is left; return their number."""
    residual = np.empty(w.shape[0])
    for taken in range(count):
        slack, loss, _ = interior.summary(a, t, u, xi, m, c)
        omega, off = residuals(Z, penalty, a, w, residual)
        if taken > 0 and slack + off <= enough * (omega + loss):
            return taken
        if not step(
            Z, Zt, penalty, residual, slack, back, correctors, longer, a, t, u, xi, m, c, w
        ):
            return taken
    return count


@leaf_in_order
def residuals(Z, penalty, alpha, w, residual):
    """residual = P w - Z' alpha; return w' P w / 2 and |residual|^2 / 2."""
    n, d = Z.shape
    omega, off = 0.0, 0.0
    for k in range(d):
        residual[k] = penalty[k] * w[k]
        omega += 0.5 * residual[k] * w[k]
    for i in range(n):
        for k in range(d):
            residual[k] -= alpha[i] * Z[i, k]
    for k in range(d):
        off += 0.5 * residual[k] * residual[k]
    return omega, off


@leaf_in_order
def step(Z, Zt, penalty, residual, slack, back, correctors, longer, a, t, u, xi, m, c, w):
    """Take a predictor-corrector step; whether there is one."""
    n, d = Z.shape
    theta, coef, r, s, dm = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    dw, factor, scale = np.empty(d), np.empty((d, d)), np.empty(d)
    interior.weigh(a, t, u, xi, m, theta, coef)
    if not factorize(gram(Z, theta, penalty), factor, scale):
        return False
    direction(Z, Zt, factor, scale, residual, coef, dw, dm)
    k, linear, square = interior.predict(a, t, u, xi, m, theta, dm)
    left = max(0.0, 1.0 + (k * linear + k * k * square) / slack)
    target = left**3 * slack / (2.0 * c.sum())
    interior.correct(a, t, u, xi, m, theta, dm, target, c, r, s, coef)
    direction(Z, Zt, factor, scale, residual, coef, dw, dm)
    length = interior.longest(a, t, u, xi, m, theta, dm, r, s)
    for _ in range(correctors):
        if length > 0.9:
            break
        other_r, other_s, other_w, other_m = r.copy(), s.copy(), np.empty(d), np.empty(n)
        trial = min(1.0, length + longer)
        interior.recenter(trial, target, c, a, t, u, xi, m, theta, dm, other_r, other_s, coef)
        direction(Z, Zt, factor, scale, residual, coef, other_w, other_m)
        new = interior.longest(a, t, u, xi, m, theta, other_m, other_r, other_s)
        if not new > length + 0.1 * longer:
            break
        length, dw, dm, r, s = new, other_w, other_m, other_r, other_s
    length = min(1.0, back * length)
    if not (np.isfinite(dw).all() and length > 1e-10):
        return False
    interior.move(length, a, t, u, xi, m, c, theta, dm, r, s)
    for k in range(d):
        w[k] += length * dw[k]
    return True


@entry_in_order
def squared_steps(count, enough, Z, Zt, penalty, trials, m, c, w):
    """The same for the losses c max(0, -m)^2: Newton steps with an exact line search."""
    n, d = Z.shape
    alpha, theta, zero, dm = np.empty(n), np.empty(n), np.zeros(n), np.empty(n)
    gradient, dw, factor, scale = np.empty(d), np.empty(d), np.empty((d, d)), np.empty(d)
    for taken in range(count):
        loss, _, _ = smooth.squared_hinge(m, c, alpha, theta)
        omega, off = residuals(Z, penalty, alpha, w, gradient)
        if taken > 0 and off <= enough * (omega + loss):
            return taken
        if not factorize(gram(Z, theta, penalty), factor, scale):
            return taken
        direction(Z, Zt, factor, scale, gradient, zero, dw, dm)
        linear, square = 0.0, 0.0
        for k in range(d):
            linear += penalty[k] * w[k] * dw[k]
            square += penalty[k] * dw[k] * dw[k]
        length = search(linear, square, trials, m, dm, c)
        if not length > 0.0:
            return taken
        for k in range(d):
            w[k] += length * dw[k]
        for i in range(n):
            m[i] += length * dm[i]
    return count


@leaf_in_order
def search(linear, square, trials, m, dm, c):
    """The minimizer of F on a line, as ``SmoothNewton`` finds it; zero if F does not decrease."""
    start = linear - smooth.squared_hinge_slope(m, dm, c, 0.0)[0]
    if not start < 0.0:
        return 0.0
    lo, hi, k = 0.0, np.inf, 1.0
    for _ in range(trials):
        sum_alpha, sum_theta = smooth.squared_hinge_slope(m, dm, c, k)
        slope, curvature = linear + square * k - sum_alpha, square + sum_theta
        if abs(slope) <= 1e-9 * -start:
            return k
        if slope < 0.0:
            lo = k
        else:
            hi = k
        if hi - lo <= 1e-12 * hi:
            return k
        k = k - slope / curvature if curvature > 0.0 else np.inf
        if not lo < k < hi:
            k = 0.5 * (lo + hi) if math.isfinite(hi) else 4.0 * lo
    return k


@leaf_in_order
def gram(Z, theta, penalty):
    """The lower triangle of P + Z' diag(theta) Z."""
    n, d = Z.shape
    H = np.zeros((d, d))
    for i in range(n):
        for j in range(d):
            v = theta[i] * Z[i, j]
            for k in range(j + 1):
                H[j, k] += v * Z[i, k]
    for j in range(d):
        H[j, j] += penalty[j]
    return H


@leaf_in_order
def factorize(H, factor, scale):
    """The Cholesky factor of ``H`` scaled to a unit diagonal, as :class:`maxmargin.duals.gram.Factor`;
    whether there is one."""
    d = H.shape[0]
    for j in range(d):
        scale[j] = 1.0 / math.sqrt(H[j, j]) if H[j, j] > 0.0 else 1.0
        for k in range(j + 1):
            H[j, k] *= scale[j] * scale[k]
            if not math.isfinite(H[j, k]):
                return False
    ridge = 0.0
    while ridge < 1e-3:
        for j in range(d):
            H[j, j] = 1.0 + ridge
        if cholesky(H, factor):
            return True
        ridge = max(1e-15, 10.0 * ridge)
    return False


@leaf_in_order
def cholesky(H, factor):
    """Write the lower factor of ``H``; whether ``H`` is positive definite."""
    for j in range(H.shape[0]):
        for k in range(j + 1):
            s = H[j, k]
            for p in range(k):
                s -= factor[j, p] * factor[k, p]
            if k < j:
                factor[j, k] = s / factor[k, k]
            elif s > 0.0:
                factor[j, j] = math.sqrt(s)
            else:
                return False
    return True


@leaf_in_order
def direction(Z, Zt, factor, scale, residual, coef, dw, dm):
    """dw = H^-1 (-residual - Z' coef) and dm = Z dw."""
    n, d = Z.shape
    for k in range(d):
        dw[k] = 0.0
    for i in range(n):
        for k in range(d):
            dw[k] -= coef[i] * Z[i, k]
    for k in range(d):
        s = (dw[k] - residual[k]) * scale[k]
        for p in range(k):
            s -= factor[k, p] * dw[p]
        dw[k] = s / factor[k, k]
    for k in range(d - 1, -1, -1):
        dw[k] /= factor[k, k]
        for p in range(k):
            dw[p] -= factor[k, p] * dw[k]
    for i in range(n):
        dm[i] = 0.0
    for k in range(d):
        dw[k] *= scale[k]
        for i in range(n):
            dm[i] += dw[k] * Zt[k, i]
