"""The problem of one example in the working-set dual: a quadratic program over a simplex.

Planes p_0 .. p_{m-1} (p_0 = 0 is the true output) have offsets l_j and dual variables alpha_j >= 0 of fixed
sum c. With w = w_rest - sum_j alpha_j p_j and g_j = l_j + <w, p_j> the dual objective has the gradient g in
alpha, and

    c max_j g_j - sum_j alpha_j g_j  =  sum_k alpha_k (max_j g_j - g_k)  >=  0

is the gap of this example. A step moves a from plane k to plane j (Ramanan's pair step; his single step is a
pair step with the true output):

    gain(a)  =  a (g_j - g_k) - a^2 D2_jk / 2,        D2_jk = |p_j - p_k|^2
    a        =  min((g_j - g_k) / D2_jk, alpha_k)      (alpha_k if D2_jk = 0)
    g_l     +=  a <p_k - p_j, p_l - p_0>  =  a (D2_k0 + D2_jl - D2_kl - D2_j0) / 2

so squared distances suffice: neither w nor the planes are accessed until the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, leaf

FloatArray = npt.NDArray[np.float64]


@entry
def simplex_gap(alpha: FloatArray, g: FloatArray) -> Any:
    """``sum(alpha) * max(g) - alpha @ g`` without cancellation: every term is nonnegative."""
    top = g[0]
    for k in range(1, g.size):
        top = max(top, g[k])
    gap = 0.0
    for k in range(alpha.size):
        gap += alpha[k] * (top - g[k])
    return gap


@leaf
def solve_simplex_at(
    alpha: FloatArray,
    g: FloatArray,
    distances: FloatArray,
    base: int,
    stride: int,
    tol: float,
    max_steps: int,
) -> Any:
    """:func:`solve_simplex` with D2_jk at ``distances[base + j * stride + k]``."""
    m = alpha.size
    for step in range(max_steps):
        j = 0
        for k in range(1, m):
            if g[k] > g[j]:
                j = k
        top = g[j]
        row_j = base + j * stride

        # Take the mass from the plane of largest gain; ties: the first.
        gap = 0.0
        source = -1
        amount = 0.0
        best = 0.0
        for k in range(m):
            slope = top - g[k]
            if alpha[k] > 0.0 and slope > 0.0:
                gap += alpha[k] * slope
                d2 = distances[row_j + k]
                a = alpha[k]
                if a * d2 > slope:
                    a = slope / d2
                gain = a * (slope - 0.5 * a * d2)
                if gain > best:
                    best = gain
                    source = k
                    amount = a
        if gap <= tol or source < 0:
            return step

        row_k = base + source * stride
        if amount >= alpha[source]:
            amount = alpha[source]
            alpha[source] = 0.0
        else:
            alpha[source] -= amount
        alpha[j] += amount
        half = 0.5 * amount
        shift = half * (distances[row_k] - distances[row_j])
        for k in range(m):
            g[k] += shift + half * (distances[row_j + k] - distances[row_k + k])
    return max_steps


@entry
def solve_simplex(
    alpha: FloatArray, g: FloatArray, D2: FloatArray, tol: float, max_steps: int
) -> Any:
    """Maximize the dual over the dual variables of one example, with their sum fixed.

    Parameters
    ----------
    alpha : (m,) float64
        Nonnegative dual variables; plane 0 is the true output. Updated in place; the sum is kept.
    g : (m,) float64
        Gradients l_j + <w, p_j> at ``alpha``. Updated in place.
    D2 : (m, m) float64
        Squared distances of the planes.
    tol : float
        Stop when ``sum(alpha) * max(g) - alpha @ g`` is at most this.
    max_steps : int
        Maximum number of pair steps.

    Returns
    -------
    int
        Number of pair steps.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.compiled.simplex import solve_simplex
    >>> alpha, g = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    >>> solve_simplex(alpha, g, np.array([[0.0, 4.0], [4.0, 0.0]]), 1e-12, 100)
    1
    >>> alpha, g
    (array([0.75, 0.25]), array([0., 0.]))
    """
    flat = np.ascontiguousarray(D2).reshape(-1)
    return solve_simplex_at(alpha, g, flat, 0, D2.shape[1], tol, max_steps)
