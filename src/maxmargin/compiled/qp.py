"""Active-set solver of the reduced problem, warm-started as planes are added.

    minimize over beta    q(beta) = 1/2 beta' G beta - c' beta
    subject to            beta >= 0,   sum of beta over each block = 1

G is the Gram matrix of the planes (including one zero plane per block), so it is only positive
*semi*definite, and rank-deficient as soon as there are more planes than features. beta = alpha / C; with c =
offsets / C neither G nor the factor below depends on C.

On the free set F the equality-constrained minimizer solves ``M x = c_F + E lambda``, ``E' x = 1`` with M =
G_FF + shift E E' (E indicates the blocks; the shift adds a constant on the feasible set). M is positive
definite if and only if no feasible direction inside F has zero curvature. L with L L' = M and Y = L^-1 [E, c]
are kept between steps and solves: a plane enters by one new row and leaves by Givens rotations, each
O(|F|^2). If a plane would make M singular, the objective is linear along the null direction: a step along it
to the boundary removes another plane.

The outer loop is :class:`maxmargin.core.qp.SimplexQP`. The Frank-Wolfe gap  sum over blocks of
(<grad, beta> - min grad)  bounds q(beta) - q*. It is the stopping rule; any returned beta is feasible, so an
inexact solve never invalidates a certificate.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry

#: relative pivot below which a plane is treated as linearly dependent on the free ones
SINGULAR = 1e-13


@entry
def _column(G, block, shift, F, n_free, j, out):
    for i in range(n_free):
        f = F[i]
        out[i] = G[f, j] + (shift if block[f] == block[j] else 0.0)


@entry
def _forward(L, n_free, x):
    for i in range(n_free):
        s = x[i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]


@entry
def _backward(L, n_free, x):
    """Solve L' y = x in place, by rows of L so that memory is read in order."""
    for i in range(n_free - 1, -1, -1):
        x[i] /= L[i, i]
        xi = x[i]
        for k in range(i):
            x[k] -= L[i, k] * xi


@entry
def _solve_definite(S, p, x):
    """Solve S x = x in place by Cholesky; S is destroyed."""
    for i in range(p):
        for j in range(i + 1):
            s = S[i, j]
            for k in range(j):
                s -= S[i, k] * S[j, k]
            S[i, j] = np.sqrt(s) if i == j else s / S[j, j]
    _forward(S, p, x)
    _backward(S, p, x)


@entry
def _delete(L, Y, F, n_free, k):
    """Remove position k of the free set; returns the new size."""
    for i in range(k, n_free - 1):
        F[i] = F[i + 1]
        for q in range(i + 2):
            L[i, q] = L[i + 1, q]
    for i in range(k, n_free - 1):
        a, b = L[i, i], L[i, i + 1]
        r = np.hypot(a, b)
        c, s = a / r, b / r
        for j in range(i, n_free - 1):
            t1, t2 = L[j, i], L[j, i + 1]
            L[j, i] = c * t1 + s * t2
            L[j, i + 1] = c * t2 - s * t1
        for q in range(Y.shape[1]):
            t1, t2 = Y[i, q], Y[i + 1, q]
            Y[i, q] = c * t1 + s * t2
            Y[i + 1, q] = c * t2 - s * t1
    return n_free - 1


@entry
def enter(G, c, block, shift, beta, F, n_free, L, Y, j, slope):
    """Add plane j to the free set; returns (new size, True if j is in it).

    ``slope`` is the derivative of q along +e_j corrected by the multiplier of its block: its sign gives the
    direction of the step if j is linearly dependent on the free planes.
    """
    p = Y.shape[1] - 1
    work = np.empty(n_free + 1)
    direction = np.empty(n_free + 1)
    while True:
        _column(G, block, shift, F, n_free, j, work)
        _forward(L, n_free, work)
        diagonal = G[j, j] + shift
        pivot = diagonal
        for i in range(n_free):
            pivot -= work[i] * work[i]
        if pivot > SINGULAR * diagonal:
            root = np.sqrt(pivot)
            for i in range(n_free):
                L[n_free, i] = work[i]
            L[n_free, n_free] = root
            for q in range(p + 1):
                s = c[j] if q == p else (1.0 if block[j] == q else 0.0)
                for i in range(n_free):
                    s -= work[i] * Y[i, q]
                Y[n_free, q] = s / root
            F[n_free] = j
            return n_free + 1, True
        # d = e_j - M^-1 M_Fj on F: no curvature, no change of the block sums
        for i in range(n_free):
            direction[i] = work[i]
        _backward(L, n_free, direction)
        sign = 1.0 if slope <= 0.0 else -1.0
        step = np.inf
        hit = -1
        for i in range(n_free):
            d = -sign * direction[i]
            if d < -1e-12:
                t = beta[F[i]] / -d
                if t < step:
                    step, hit = t, i
        if sign < 0.0 and beta[j] <= step:
            step, hit = beta[j], -2
        if hit == -1:
            return n_free, False
        for i in range(n_free):
            beta[F[i]] = max(0.0, beta[F[i]] - sign * step * direction[i])
        beta[j] = max(0.0, beta[j] + sign * step)
        if hit == -2:
            beta[j] = 0.0
            return n_free, False
        beta[F[hit]] = 0.0
        n_free = _delete(L, Y, F, n_free, hit)


@entry
def _normalize(beta, block, m, p):
    """Remove accumulated rounding: beta >= 0, and every block sums to one up to rounding."""
    sums = np.zeros(p)
    for j in range(m):
        if beta[j] < 0.0:
            beta[j] = 0.0
        sums[block[j]] += beta[j]
    for a in range(p):
        if not sums[a] > 0.0:  # all lost to rounding: the zero plane is always feasible
            beta[a] = sums[a] = 1.0
    for j in range(m):
        beta[j] /= sums[block[j]]


@entry
def _gradient(G, c, beta, m, grad):
    for j in range(m):
        grad[j] = -c[j]
    for k in range(m):
        bk = beta[k]
        if bk != 0.0:
            for j in range(m):
                grad[j] += G[k, j] * bk


@entry
def refresh_offsets(c, p, F, n_free, L, Y):
    """Recompute the column L^-1 c_F after the offsets changed (another C or another center)."""
    work = np.empty(n_free)
    for i in range(n_free):
        work[i] = c[F[i]]
    _forward(L, n_free, work)
    for i in range(n_free):
        Y[i, p] = work[i]


@entry
def descend(G, c, block, p, m, beta, F, n_free, L, Y):
    """Minimize on the free set, stepping to the boundary and dropping planes until the minimizer is feasible.

    Returns (|F|, steps, gap, entering plane or -1, its violation, spread): the Frank-Wolfe gap at the new
    beta, the plane of largest violation outside F, and the spread of the gradients inside F (which is
    rounding: in exact arithmetic they are equal).
    """
    work = np.empty(n_free + 1)
    grad = np.empty(m)
    mean = np.zeros(p)
    low = np.full(p, np.inf)
    S = np.empty((p, p))
    multiplier = np.empty(p)
    members = np.zeros(p, dtype=np.int64)
    for i in range(n_free):
        members[block[F[i]]] += 1
    steps = 0
    while True:
        steps += 1
        for a in range(p):
            multiplier[a] = 1.0
            for b in range(p):
                S[a, b] = 0.0
        for i in range(n_free):
            for a in range(p):
                ya = Y[i, a]
                if ya != 0.0:
                    multiplier[a] -= ya * Y[i, p]
                    for b in range(p):
                        S[a, b] += ya * Y[i, b]
        _solve_definite(S, p, multiplier)
        for i in range(n_free):
            s = Y[i, p]
            for a in range(p):
                s += Y[i, a] * multiplier[a]
            work[i] = s
        _backward(L, n_free, work)
        t, hit = 1.0, -1
        for i in range(n_free):
            if members[block[F[i]]] == 1:
                work[i] = 1.0  # alone in its block: exactly one despite rounding
            elif work[i] <= 0.0:
                b = beta[F[i]]
                ratio = b / (b - work[i]) if b > work[i] else 0.0
                if ratio < t:
                    t, hit = ratio, i
        if hit < 0:
            for i in range(n_free):
                beta[F[i]] = work[i]
            break
        for i in range(n_free):
            beta[F[i]] = max(0.0, beta[F[i]] + t * (work[i] - beta[F[i]]))
        beta[F[hit]] = 0.0
        members[block[F[hit]]] -= 1
        n_free = _delete(L, Y, F, n_free, hit)
    _normalize(beta, block, m, p)
    _gradient(G, c, beta, m, grad)
    for j in range(m):
        mean[block[j]] += beta[j] * grad[j]
        low[block[j]] = min(low[block[j]], grad[j])
    gap = 0.0
    for a in range(p):
        gap += mean[a] - low[a]
    entering, worst, spread = -1, 0.0, 0.0
    for j in range(m):
        violation = grad[j] - mean[block[j]]
        if violation < worst:
            entering, worst = j, violation
    for i in range(n_free):
        spread = max(spread, abs(grad[F[i]] - mean[block[F[i]]]))
        if F[i] == entering:
            entering = -1
    return n_free, steps, gap, entering, worst, spread
