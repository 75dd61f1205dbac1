"""Newton steps for few rows, several in one call; see :mod:`maxmargin.duals.interior_point` and
:mod:`maxmargin.duals.smooth_newton`.

For few rows the calls of a step take longer than its arithmetic. The steps themselves are those that
``InteriorPoint`` and ``SmoothNewton`` compose of calls for larger problems. Loops are vectorized in the order
of the source, so ``Z`` is needed by rows and by columns (``Zt``).

The last arguments are memory for the vectors of a step. Allocating it here, or dividing these functions into
smaller ones, would take seconds more to compile: Numba compiles a function again in each of its callers.
Matrices are computed with explicit vectors (``simd``), because loops that change a row of them are not
vectorized well: LLVM must assume that rows overlap.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.compiled import interior, simd, smooth
from maxmargin.compiled.jit import entry_in_order, inlined_in_order

#: number of vectors by row and by column, and of matrices, that the functions need memory for
INTERIOR_VECTORS, SQUARED_VECTORS, SOFTMAX_VECTORS = (8, 4, 1), (4, 3, 2), (1, 3, 2)
#: in place of a matrix that is not known
UNKNOWN = np.zeros((0, 0))
#: share of the slope that the line search leaves
EXACT = 1e-3


@entry_in_order
def interior_steps(
    count, enough, Z, Zt, penalty, back, correctors, longer, a, t, u, xi, m, c, w,
    theta, coef, r, s, dm, other_r, other_s, other_m, residual, scale, dw, other_w, factor, rows,
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
        for k in range(w.shape[0]):
            for p in range(w.shape[0]):
                factor[k, p] = 0.0
        add_squares(Z, theta, factor, rows)
        if not factorize(penalty, factor, scale):
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
    count, enough, X, Xt, whole, penalty, trials, sign, m, c, w,
    alpha, theta, held, dm, gradient, scale, dw, hessian, factor, rows,
):  # fmt: skip
    """The same for the losses c max(0, -m)^2 of one row of ``sign``, ``m``, ``c`` and ``w`` after the other,
    with m = sign (X w) up to constants: Newton steps with an exact line search. Return the largest number.

    The Hessian is updated by the rows whose curvature changed, if these are fewer than all curved ones.
    ``whole`` is the Hessian of the loss if all rows are curved, the same for all rows of ``w``, or empty.
    """
    n, d = X.shape
    most = 0
    for k in range(w.shape[0]):
        known = whole.shape[0] == d
        for i in range(n):
            held[i] = 2.0 * c[k, i] if known else 0.0
        for j in range(d):
            for p in range(d):
                hessian[j, p] = whole[j, p] if known else 0.0
        for taken in range(count):
            loss, omega, off, changed, curved = 0.0, 0.0, 0.0, 0, 0
            for i in range(n):
                short = max(0.0, -m[k, i])
                loss += c[k, i] * short * short
                alpha[i] = 2.0 * c[k, i] * short * sign[k, i]
                theta[i] = 2.0 * c[k, i] if short > 0.0 else 0.0
                curved += theta[i] != 0.0
                changed += theta[i] != held[i]
            for j in range(d):
                gradient[j] = penalty[k, j] * w[k, j]
                omega += 0.5 * gradient[j] * w[k, j]
            for i in range(n):
                if alpha[i] != 0.0:
                    for j in range(d):
                        gradient[j] -= alpha[i] * X[i, j]
            for j in range(d):
                off += 0.5 * gradient[j] * gradient[j]
            if taken > 0 and off <= enough * (omega + loss):
                break
            if changed > curved:
                for j in range(d):
                    for p in range(d):
                        hessian[j, p] = 0.0
                for i in range(n):
                    held[i] = 0.0
            for i in range(n):
                held[i] = theta[i] - held[i]
            add_squares(X, held, hessian, rows)
            for i in range(n):
                held[i] = theta[i]
            for j in range(d):
                for p in range(j, d):
                    factor[j, p] = hessian[j, p]
            if not factorize(penalty[k], factor, scale):
                break
            for j in range(d):
                dw[j] = -gradient[j]
            solve(factor, scale, dw)
            for i in range(n):
                dm[i] = 0.0
            for j in range(d):
                for i in range(n):
                    dm[i] += dw[j] * Xt[j, i]
            for i in range(n):
                dm[i] *= sign[k, i]
            linear, square = 0.0, 0.0
            for j in range(d):
                linear += penalty[k, j] * w[k, j] * dw[j]
                square += penalty[k, j] * dw[j] * dw[j]
            # the minimizer of F on the line, as SmoothNewton finds it
            start, lo, hi, length = 0.0, 0.0, math.inf, 0.0
            for trial in range(trials + 1):
                sum_alpha, sum_theta = smooth.squared_hinge_slope(m[k], dm, c[k], length)
                slope, curvature = linear + square * length - sum_alpha, square + sum_theta
                if trial == 0:
                    start, length = slope, 1.0
                    if not start < 0.0:
                        break
                    continue
                if slope < 0.0:
                    lo = length
                else:
                    hi = length
                if abs(slope) <= EXACT * -start or hi - lo <= 1e-12 * hi:
                    break
                length = length - slope / curvature if curvature > 0.0 else math.inf
                if not lo < length < hi:
                    length = 0.5 * (lo + hi) if math.isfinite(hi) else 4.0 * lo
            if not start < 0.0:
                break
            for j in range(d):
                w[k, j] += length * dw[j]
            for i in range(n):
                m[k, i] += length * dm[i]
            most = max(most, taken + 1)
    return most


@entry_in_order
def softmax_steps(
    count, enough, X, Xt, penalty, y, c, s, w, p, ds, trial,
    theta, gradient, scale, dw, hessian, factor, rows,
):  # fmt: skip
    """The same for the multinomial logistic loss of the scores s = X w', one row per class: Newton steps for
    all classes together, halved until F decreases enough. Return their number."""
    n, d = X.shape
    n_classes = w.shape[0]
    value = math.inf
    for taken in range(count):
        loss, omega, off = softmax_of(s, y, c, p), 0.0, 0.0
        for k in range(n_classes):
            for j in range(d):
                gradient[k * d + j] = penalty[k, j] * w[k, j]
                omega += 0.5 * gradient[k * d + j] * w[k, j]
            for i in range(n):
                slope = c[i] * (p[k, i] - 1.0 if y[i] == k else p[k, i])
                for j in range(d):
                    gradient[k * d + j] += slope * X[i, j]
        for j in range(n_classes * d):
            off += 0.5 * gradient[j] * gradient[j]
        value = omega + loss
        if taken > 0 and off <= enough * value:
            return taken
        for k in range(n_classes):
            for q in range(k, n_classes):
                for j in range(d):
                    for r in range(d):
                        hessian[j, r] = 0.0
                for i in range(n):
                    theta[i] = c[i] * p[k, i] * ((1.0 if k == q else 0.0) - p[q, i])
                add_squares(X, theta, hessian, rows)
                for j in range(d):
                    for r in range(j, d):
                        factor[k * d + j, q * d + r] = hessian[j, r]
                        factor[k * d + r, q * d + j] = hessian[j, r]
        if not factorize(penalty.reshape(n_classes * d), factor, scale):
            return taken
        slope = 0.0
        for j in range(n_classes * d):
            dw[j] = -gradient[j]
        solve(factor, scale, dw)
        for k in range(n_classes):
            for i in range(n):
                ds[k, i] = 0.0
            for j in range(d):
                slope += gradient[k * d + j] * dw[k * d + j]
                for i in range(n):
                    ds[k, i] += dw[k * d + j] * Xt[j, i]
        length, after = 1.0, math.inf
        if not slope < 0.0:
            return taken
        while True:
            for k in range(n_classes):
                for i in range(n):
                    trial[k, i] = s[k, i] + length * ds[k, i]
            after = softmax_of(trial, y, c, p)
            for k in range(n_classes):
                for j in range(d):
                    at = w[k, j] + length * dw[k * d + j]
                    after += 0.5 * penalty[k, j] * at * at
            if after <= value + 1e-4 * length * slope:
                break
            length *= 0.5
            if length < 1e-6:
                return taken
        for k in range(n_classes):
            for j in range(d):
                w[k, j] += length * dw[k * d + j]
            for i in range(n):
                s[k, i] = trial[k, i]
    return count


@inlined_in_order
def softmax_of(s, y, c, p):
    """Fill the probabilities of the classes; return the loss."""
    n_classes, n = s.shape
    loss = 0.0
    for i in range(n):
        top, total = s[0, i], 0.0
        for k in range(1, n_classes):
            top = max(top, s[k, i])
        for k in range(n_classes):
            p[k, i] = math.exp(s[k, i] - top)
            total += p[k, i]
        for k in range(n_classes):
            p[k, i] /= total
        loss += c[i] * (math.log(total) + (top - s[y[i], i]))
    return loss


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
def add_squares(X, theta, out, rows):
    """Add X' diag(theta) X to the diagonal of ``out`` and above; ``rows`` is memory for their numbers."""
    n, d = X.shape
    found = 0
    for i in range(n):
        if theta[i] != 0.0:
            rows[found] = i
            found += 1
    none = simd.fill(0.0)
    for j in range(0, d, 4):  # four rows of ``out`` at a time stay in registers
        j1, j2, j3 = min(j + 1, d - 1), min(j + 2, d - 1), min(j + 3, d - 1)
        for k in range(j - j % simd.LANES, d, simd.LANES):
            some = simd.first(d - k)
            s0 = simd.load(out, j * d + k, some, none)
            s1 = simd.load(out, j1 * d + k, some, none)
            s2 = simd.load(out, j2 * d + k, some, none)
            s3 = simd.load(out, j3 * d + k, some, none)
            for q in range(found):
                i = rows[q]
                x = simd.load(X, i * d + k, some, none)
                s0 = simd.fma(simd.fill(theta[i] * X[i, j]), x, s0)
                s1 = simd.fma(simd.fill(theta[i] * X[i, j1]), x, s1)
                s2 = simd.fma(simd.fill(theta[i] * X[i, j2]), x, s2)
                s3 = simd.fma(simd.fill(theta[i] * X[i, j3]), x, s3)
            simd.store(out, j3 * d + k, some, s3)  # the last row may be written several times
            simd.store(out, j2 * d + k, some, s2)
            simd.store(out, j1 * d + k, some, s1)
            simd.store(out, j * d + k, some, s0)


@inlined_in_order
def factorize(penalty, factor, scale):
    """Replace the matrix A in the diagonal of ``factor`` and above by the factor U of A + P = U' U, scaled to
    a unit diagonal, as :class:`maxmargin.duals.gram.Factor` computes it; return whether there is one.

    The scaled matrix itself stays below the diagonal, for further attempts.
    """
    d = factor.shape[0]
    for j in range(d):
        square = factor[j, j] + penalty[j]
        scale[j] = 1.0 / math.sqrt(square) if square > 0.0 else 1.0
    for j in range(d):
        for k in range(j + 1, d):
            factor[k, j] = factor[j, k] * (scale[j] * scale[k])
            if not math.isfinite(factor[k, j]):
                return False
    ridge, j, none = 0.0, 0, simd.fill(0.0)
    while j < d:
        factor[j, j] = 1.0 + ridge
        for k in range(j + 1, d):
            factor[j, k] = factor[k, j]
        for k in range(j, d, simd.LANES):
            some = simd.first(d - k)
            row = simd.load(factor, j * d + k, some, none)
            for p in range(j):
                own = simd.load(factor, p * d + k, some, none)
                row = simd.fma(simd.fill(-factor[p, j]), own, row)
            simd.store(factor, j * d + k, some, row)
        if factor[j, j] > 0.0:
            root = math.sqrt(factor[j, j])
            factor[j, j] = root
            for k in range(j + 1, d):
                factor[j, k] /= root
            j += 1
        else:  # numerically singular: again, with a larger ridge
            ridge, j = max(1e-15, 10.0 * ridge), 0
            if not ridge < 1e-3:
                return False
    return True


@inlined_in_order
def solve(factor, scale, b):
    """Replace b by the solution of (A + P) x = b."""
    d = b.shape[0]
    for k in range(d):
        b[k] *= scale[k]
    for k in range(d):
        b[k] /= factor[k, k]
        for p in range(k + 1, d):
            b[p] -= factor[k, p] * b[k]
    for k in range(d - 1, -1, -1):
        for p in range(d - 1, k, -1):
            b[k] -= factor[k, p] * b[p]
        b[k] /= factor[k, k]
    for k in range(d):
        b[k] *= scale[k]


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
        dw[k] -= residual[k]
    solve(factor, scale, dw)
    for i in range(n):
        dm[i] = 0.0
    for k in range(d):
        for i in range(n):
            dm[i] += dw[k] * Zt[k, i]
