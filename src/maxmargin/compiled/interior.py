"""Row-wise parts of an interior-point step for the hinge loss; see :mod:`maxmargin.duals.interior_point`.

Each row has the dual variable ``a``, its slack ``t = c - a``, the multipliers ``u`` and ``xi`` of their
bounds, and ``m``, the margin minus the required margin. A direction is stored as the change ``dm`` of the
margins, from which the rest follows:

    da = -theta (dm + m + r - s),    du = -u - r - (u / a) da,    dxi = -xi - s + (xi / t) da

The target of the products a u and t xi of a row is proportional to its weight c, so that a row of weight 2
behaves like two rows.
"""

from __future__ import annotations

from maxmargin.compiled.jit import entry


@entry
def weigh(a, t, u, xi, m, theta, coef):
    """theta = 1 / (u / a + xi / t) and the coefficients of the predictor."""
    for i in range(a.shape[0]):
        theta[i] = 1.0 / (u[i] / a[i] + xi[i] / t[i])
        coef[i] = theta[i] * (m[i])


@entry
def correct(a, t, u, xi, m, theta, dm, slack, total, c, r, s, coef):
    """The target of a u and t xi, from the slack that the predictor (r = s = 0) would leave, and its
    second-order terms, as r, s and coefficients; returns the target."""
    worst, linear, square = 1.0, 0.0, 0.0
    for i in range(a.shape[0]):
        da = -theta[i] * (dm[i] + m[i])
        du = -u[i] - u[i] / a[i] * da
        dxi = -xi[i] + xi[i] / t[i] * da
        worst = max(worst, -da / a[i], da / t[i], -du / u[i], -dxi / xi[i])
        linear += a[i] * du + u[i] * da + t[i] * dxi - xi[i] * da
        square += da * (du - dxi)
        r[i], s[i] = da * du, -da * dxi
    k = 1.0 / worst
    left = max(0.0, 1.0 + (k * linear + k * k * square) / slack)
    target = left * left * left * slack / (2.0 * total)
    for i in range(a.shape[0]):
        r[i] = (r[i] - target * c[i]) / a[i]
        s[i] = (s[i] - target * c[i]) / t[i]
        coef[i] = theta[i] * (m[i] + r[i] - s[i])
    return target


@entry
def longest(a, t, u, xi, m, theta, dm, r, s):
    """The longest step, at most one, that keeps all four positive."""
    worst = 1.0
    for i in range(a.shape[0]):
        da = -theta[i] * (dm[i] + m[i] + r[i] - s[i])
        du = -u[i] - r[i] - u[i] / a[i] * da
        dxi = -xi[i] - s[i] + xi[i] / t[i] * da
        worst = max(worst, -da / a[i], da / t[i], -du / u[i], -dxi / xi[i])
    return 1.0 / worst


@entry
def move(step, a, t, u, xi, m, c, theta, dm, r, s):
    """Take the step; rounding never leads out of the box."""
    for i in range(a.shape[0]):
        da = -theta[i] * (dm[i] + m[i] + r[i] - s[i])
        du = -u[i] - r[i] - u[i] / a[i] * da
        dxi = -xi[i] - s[i] + xi[i] / t[i] * da
        a[i] = min(a[i] + step * da, c[i])
        t[i] -= step * da
        u[i] += step * du
        xi[i] += step * dxi
        m[i] += step * dm[i]


@entry
def summary(a, t, u, xi, m, c):
    """(a u + t xi, sum of c max(0, -m), number of rows whose dual variable does not tend to 0)."""
    slack, loss, support = 0.0, 0.0, 0
    for i in range(a.shape[0]):
        slack += a[i] * u[i] + t[i] * xi[i]
        loss += c[i] * max(0.0, -m[i])
        support += a[i] > c[i] * u[i]
    return slack, loss, support


@entry
def recenter(step, target, c, a, t, u, xi, m, theta, dm, r, s, coef):
    """Gondzio's corrector: r, s and coefficients that also move outliers toward the target.

    At the trial step all products a u and t xi should be within a factor of ten of the target. The direction
    corrects their deviations, limited for large products.
    """
    for i in range(a.shape[0]):
        low, high = 0.1 * target * c[i], 10.0 * target * c[i]
        da = -theta[i] * (dm[i] + m[i] + r[i] - s[i])
        du = -u[i] - r[i] - u[i] / a[i] * da
        dxi = -xi[i] - s[i] + xi[i] / t[i] * da
        v = (a[i] + step * da) * (u[i] + step * du)
        r[i] -= max(-high, min(max(v, low), high) - v) / a[i]
        v = (t[i] - step * da) * (xi[i] + step * dxi)
        s[i] -= max(-high, min(max(v, low), high) - v) / t[i]
        coef[i] = theta[i] * (m[i] + r[i] - s[i])
