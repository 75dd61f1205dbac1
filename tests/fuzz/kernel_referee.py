"""Small kernel machines, solved independently: kernel values and F in long double; clarabel for the dual.

F(a, b) = 1/2 a' K a + sum_i c_i max(0, 1 - y_i (K a + b)_i)                          (two classes)
F(A, b) = 1/2 sum_k a_k' K a_k + sum_i c_i max_k (1[k != y_i] + f_k(x_i) - f_{y_i}(x_i))  (joint classes)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from tests.fuzz.structured_referee import EPS_LD, LD, solve


def values(kernel: str, X: Any, gamma: float, degree: int, coef0: float) -> Any:
    """The kernel matrix."""
    X = np.asarray(X, dtype=LD)
    if kernel == "rbf":
        squares = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-LD(gamma) * squares)
    products = X @ X.T
    if kernel == "linear":
        return products
    inner = LD(gamma) * products + LD(coef0)
    return np.tanh(inner) if kernel == "sigmoid" else inner**degree


def binary(K: Any, y: Any, caps: Any, a: Any, b: Any) -> Any:
    """F for two classes."""
    scores = K @ a
    return LD(0.5) * (a @ scores) + (caps * np.maximum(0, 1 - y * (scores + b))).sum()


def binary_size(K: Any, caps: Any, a: Any, b: Any) -> float:
    """The sum of the absolute values of all terms."""
    scores = np.abs(K) @ np.abs(a)
    return float(LD(0.5) * (np.abs(a) @ scores) + (caps * (1 + scores + abs(b))).sum())


def joint(K: Any, y: Any, caps: Any, A: Any, b: Any) -> Any:
    """F of the Crammer-Singer loss; A is (classes, samples)."""
    scores = A @ K
    value = LD(0.5) * (A * scores).sum()
    scores = (scores + b[:, None]).T
    n = len(y)
    own = scores[np.arange(n), y]
    lost = scores - own[:, None] + 1
    lost[np.arange(n), y] = 0
    return value + (caps * lost.max(axis=1)).sum()


def intercept(K: Any, y: Any, caps: Any, a: Any) -> Any:
    """The best b for these coefficients: F is piecewise linear in it."""
    scores = K @ a
    places = (y - scores)[caps > 0]
    best = [((caps * np.maximum(0, 1 - y * (scores + b))).sum(), b) for b in places]
    return min(best, key=lambda pair: pair[0])[1] if best else LD(0)


def referee(K: Any, y: Any, caps: Any, free: bool) -> Any:
    """The smallest F found for two classes; it is attained."""
    y, caps = np.asarray(y, dtype=LD), np.asarray(caps, dtype=LD)
    zero = np.zeros(len(y), dtype=LD)
    best = binary(K, y, caps, zero, intercept(K, y, caps, zero) if free else LD(0))
    for a in _points(K, y, caps, free):
        if np.isfinite(a.astype(np.float64)).all():
            for scale in (LD(1), 1 - LD(1e-9), 1 + LD(1e-9)):
                b = intercept(K, y, caps, scale * a) if free else LD(0)
                F = binary(K, y, caps, scale * a, b)
                # coefficients too large for long double to compute their F prove nothing
                if 512.0 * EPS_LD * len(y) * binary_size(K, caps, scale * a, b) <= 1e-13 * F:
                    best = min(best, F)
    return best


def _points(K: Any, y: Any, caps: Any, free: bool) -> Iterator[Any]:
    """Coefficients from the dual QP, and from the equations of its support."""
    top = np.diagonal(K).max()
    if not (top > 0 and np.isfinite(float(top))):
        return
    n = len(y)
    Q = (K / top * np.outer(y, y)).astype(np.float64)
    box = (caps * top).astype(np.float64)
    if not (np.isfinite(Q).all() and np.isfinite(box).all()):
        return
    for unit in {1.0, float(max(box.max(), 1e-300))}:
        # alpha = unit * z / top: sum(z) - unit / 2 z'Qz in units of unit / top
        P = sp.csc_matrix(sp.triu(sp.csc_matrix(Q * unit + 1e-15 * np.eye(n))))
        upper = np.minimum(box / unit, 1e15)
        rows = [sp.eye(n), -sp.eye(n)]
        right = [upper, np.zeros(n)]
        cones = [clarabel.NonnegativeConeT(2 * n)]
        if free:
            rows.insert(0, sp.csr_matrix(y.astype(np.float64)))
            right.insert(0, np.zeros(1))
            cones.insert(0, clarabel.ZeroConeT(1))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
        settings.max_iter = 100
        try:
            found = clarabel.DefaultSolver(
                P,
                -np.ones(n),
                sp.csc_matrix(sp.vstack(rows)),
                np.concatenate(right),
                cones,
                settings,
            ).solve()
        except BaseException as error:  # a panic of the solver does not concern the library
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        z = np.array(found.x)
        if not np.isfinite(z).all():
            continue
        z = np.clip(z, 0, upper).astype(LD)
        alpha = z * unit / top
        yield alpha * y
        for share in (1e-9, 1e-6, 1e-4):
            polished = _polished(K, y, caps, alpha, free, LD(share))
            if polished is not None:
                yield polished


def _polished(K: Any, y: Any, caps: Any, alpha: Any, free: bool, share: Any) -> Any:
    """Samples between their bounds are on their margins: a linear system in long double."""
    reach = np.minimum(caps, alpha.max())
    inside = np.flatnonzero((alpha > share * reach) & (alpha < (1 - share) * caps))
    at_top = alpha >= (1 - share) * caps
    if not len(inside) > 0:
        return None
    m = len(inside)
    a = np.where(at_top, caps * y, LD(0))
    fixed = K[inside] @ a
    size = m + int(free)
    system, right = np.zeros((size, size), dtype=LD), np.zeros(size, dtype=LD)
    system[:m, :m] = K[np.ix_(inside, inside)]
    right[:m] = y[inside] - fixed
    if free:
        system[:m, m] = 1
        system[m, :m] = 1
        right[m] = -a.sum()
    solved = solve(system, right)
    if solved is None:
        return None
    a[inside] = solved[:m]
    return a
