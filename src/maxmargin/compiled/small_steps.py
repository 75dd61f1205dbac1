"""Newton steps for few rows, several in one call; see :mod:`maxmargin.duals.interior_point` and
:mod:`maxmargin.duals.smooth_newton`.

For few rows the calls of a step take longer than its arithmetic. The steps themselves are those that
``InteriorPoint`` and ``SmoothNewton`` compose of calls for larger problems. Loops are vectorized in the order
of the source, so ``Z`` is needed by rows and by columns (``Zt``).

The last arguments are memory for the vectors of a step. Allocating it here, or dividing these functions into
smaller ones, would take seconds more to compile: Numba compiles a function again in each of its callers.
"""

from __future__ import annotations

import math

from maxmargin.compiled import interior, smooth
from maxmargin.compiled.jit import entry_in_order, inlined_in_order

#: number of vectors by row and by column that the functions need memory for
INTERIOR_VECTORS, SQUARED_VECTORS = (8, 4), (4, 3)


@entry_in_order
def interior_steps(
    count, enough, Z, Zt, penalty, back, correctors, longer, a, t, u, xi, m, c, w,
    theta, coef, r, s, dm, other_r, other_s, other_m, residual, scale, dw, other_w, factor,
):  # fmt: skip
    """Take up to ``count`` predictor-corrector steps, fewer if the gap is surely less than ``enough`` times
    the objective, or if no step is left; return their number."""
    total = 0.0
    for i in range(c.shape[0]):
        total += c[i]
    for taken in range(count):
        slack, loss, _ = interior.summary(a, t, u, xi, m, c)
        omega, off = residuals(Z, penalty, a, w, residual)
        if taken > 0 and slack + off <= enough * (omega + loss):
            return taken
        interior.weigh(a, t, u, xi, m, theta, coef)
        if not factorize(Z, theta, penalty, factor, scale):
            return taken
        length, target = 0.0, 0.0
        for turn in range(2 + correctors):
            # the predictor, the corrector, and those of Gondzio, which must lengthen the step
            direction(Z, Zt, factor, scale, residual, coef, other_w, other_m)
            if turn == 0:
                target = interior.correct(
                    a, t, u, xi, m, theta, other_m, slack, total, c, other_r, other_s, coef
                )
                continue
            new = interior.longest(a, t, u, xi, m, theta, other_m, other_r, other_s)
            if turn > 1 and not new > length + 0.1 * longer:
                break
            length, r, other_r, s, other_s = new, other_r, r, other_s, s
            dw, other_w, dm, other_m = other_w, dw, other_m, dm
            if length > 0.9 or turn == 1 + correctors:
                break
            for i in range(c.shape[0]):
                other_r[i], other_s[i] = r[i], s[i]
            trial = min(1.0, length + longer)
            interior.recenter(trial, target, c, a, t, u, xi, m, theta, dm, other_r, other_s, coef)
        length = min(1.0, back * length)
        norm = 0.0
        for k in range(w.shape[0]):
            norm += abs(dw[k])
        if not (math.isfinite(norm) and length > 1e-10):
            return taken
        interior.move(length, a, t, u, xi, m, c, theta, dm, r, s)
        for k in range(w.shape[0]):
            w[k] += length * dw[k]
    return count


@entry_in_order
def squared_steps(
    count, enough, Z, Zt, penalty, trials, m, c, w,
    alpha, theta, zero, dm, gradient, scale, dw, factor,
):  # fmt: skip
    """The same for the losses c max(0, -m)^2: Newton steps with an exact line search."""
    for i in range(m.shape[0]):
        zero[i] = 0.0
    for taken in range(count):
        loss, _, _ = smooth.squared_hinge(m, c, alpha, theta)
        omega, off = residuals(Z, penalty, alpha, w, gradient)
        if taken > 0 and off <= enough * (omega + loss):
            return taken
        if not factorize(Z, theta, penalty, factor, scale):
            return taken
        direction(Z, Zt, factor, scale, gradient, zero, dw, dm)
        linear, square = 0.0, 0.0
        for k in range(w.shape[0]):
            linear += penalty[k] * w[k] * dw[k]
            square += penalty[k] * dw[k] * dw[k]
        # the minimizer of F on the line, as SmoothNewton finds it
        start, lo, hi, length = 0.0, 0.0, math.inf, 0.0
        for trial in range(trials + 1):
            sum_alpha, sum_theta = smooth.squared_hinge_slope(m, dm, c, length)
            slope, curvature = linear + square * length - sum_alpha, square + sum_theta
            if trial == 0:
                start, length = slope, 1.0
                if not start < 0.0:
                    return taken
                continue
            if slope < 0.0:
                lo = length
            else:
                hi = length
            if abs(slope) <= 1e-9 * -start or hi - lo <= 1e-12 * hi:
                break
            length = length - slope / curvature if curvature > 0.0 else math.inf
            if not lo < length < hi:
                length = 0.5 * (lo + hi) if math.isfinite(hi) else 4.0 * lo
        for k in range(w.shape[0]):
            w[k] += length * dw[k]
        for i in range(m.shape[0]):
            m[i] += length * dm[i]
    return count


@inlined_in_order
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


@inlined_in_order
def factorize(Z, theta, penalty, factor, scale):
    """The Cholesky factor of P + Z' diag(theta) Z scaled to a unit diagonal, below the diagonal, as
    :class:`maxmargin.duals.gram.Factor` computes it; whether there is one.

    The scaled matrix itself stays above the diagonal, for further attempts.
    """
    n, d = Z.shape
    for j in range(d):
        for k in range(j, d):
            factor[j, k] = 0.0
    for i in range(n):
        for j in range(d):
            v = theta[i] * Z[i, j]
            for k in range(j, d):
                factor[j, k] += v * Z[i, k]
    for j in range(d):
        square = factor[j, j] + penalty[j]
        scale[j] = 1.0 / math.sqrt(square) if square > 0.0 else 1.0
    for j in range(d):
        for k in range(j + 1, d):
            factor[j, k] *= scale[j] * scale[k]
            if not math.isfinite(factor[j, k]):
                return False
    ridge, j = 0.0, 0
    while j < d:
        for k in range(j + 1):
            s = 1.0 + ridge if k == j else factor[k, j]
            for p in range(k):
                s -= factor[j, p] * factor[k, p]
            factor[j, k] = s / factor[k, k] if k < j else s
        if factor[j, j] > 0.0:
            factor[j, j] = math.sqrt(factor[j, j])
            j += 1
        else:  # numerically singular: again, with a larger ridge
            ridge, j = max(1e-15, 10.0 * ridge), 0
            if not ridge < 1e-3:
                return False
    return True


@inlined_in_order
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
