"""The quadratic program behind all reference optima, solved by clarabel with a proof of optimality.

With all outputs enumerated, every problem of the library is

    min over w of   1/2 sum_k d_k w_k^2 + sum_i c_i max(0, max_j (l_ij + <p_ij, w>))

with d_k = 1, or 0 for an unpenalized intercept. clarabel solves it with one slack variable per example. The
result is verified: F is evaluated at the returned w, the multipliers are corrected to a feasible point of the
dual

    max over a >= 0, sum_j a_ij <= c_i of   sum a l - 1/2 sum_k (sum a p)_k^2

(with (sum a p)_k = 0 if d_k = 0, and only (sum a p)_k < 0 counted if w_k >= 0 is required), and the two
values must agree.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray

#: relative difference of the primal and dual values that is accepted as optimal
ACCURACY = 1e-9


class AffineMax(NamedTuple):
    """Planes ``p_ij`` (rows), offsets ``l_ij``, the group i of each row, and the groups' caps ``c_i``."""

    planes: sp.csr_matrix
    offsets: Array
    groups: IntArray
    caps: Array
    penalized: npt.NDArray[np.bool_]
    nonnegative: IntArray | None = None
    """Penalized coordinates of w that must be nonnegative."""

    def allowed(self, w: Array) -> Array:
        """``w`` with the nonnegative coordinates clipped at zero."""
        if self.nonnegative is None:
            return w
        w = w.copy()
        w[self.nonnegative] = np.maximum(w[self.nonnegative], 0.0)
        return w


def solve_max_affine(problem: AffineMax) -> tuple[float, Array]:
    """Minimize half the squared norm plus a sum of maxima of affine functions; see the module docstring.

    Parameters
    ----------
    problem : AffineMax
        The problem.

    Returns
    -------
    F_star : float
        F at the returned point, within a relative ``ACCURACY`` of the optimum.
    w : array
        The minimizer.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from maxmargin.testing.max_affine import AffineMax, solve_max_affine
    >>> plane = sp.csr_matrix([[-1.0]])
    >>> F, w = solve_max_affine(
    ...     AffineMax(plane, np.ones(1), np.zeros(1, int), np.array([9.0]), np.array([True]))
    ... )
    >>> round(F, 6)
    0.5
    """
    used = problem.caps[problem.groups] > 0.0
    active = problem._replace(
        planes=problem.planes[used], offsets=problem.offsets[used], groups=problem.groups[used]
    )
    if not used.any():
        return 0.0, np.zeros(problem.planes.shape[1])
    solution = prove_optimum(active)
    return solution.upper, solution.w


def primal_value(problem: AffineMax, w: Array) -> float:
    """F(w), with correctly rounded sums."""
    worst = np.zeros(len(problem.caps))
    np.maximum.at(worst, problem.groups, problem.offsets + problem.planes @ w)
    return 0.5 * math.fsum((w * w)[problem.penalized]) + math.fsum(problem.caps * worst)


def dual_value(problem: AffineMax, alpha: Array, w: Array) -> float:
    """The dual value of feasible multipliers, less a penalty for violated equality constraints."""
    u = problem.allowed(-(problem.planes.T @ alpha))
    penalty = 0.5 * math.fsum((u * u)[problem.penalized])
    free = ~problem.penalized
    charge = math.fsum(np.abs(u[free]) * (1.0 + 2.0 * np.abs(w[free])))
    return math.fsum(alpha * problem.offsets) - penalty - charge


class Solution(NamedTuple):
    """A primal and a dual point, and their values."""

    upper: float
    lower: float
    w: Array
    alpha: Array


def prove_optimum(problem: AffineMax) -> Solution:
    """Find primal and dual points whose values agree, or raise an ArithmeticError."""
    best = Solution(math.inf, -math.inf, np.empty(0), np.empty(0))
    # Divided by the largest cap, all multipliers are in [0, 1]: best if many are at their caps.
    # Without division is better for separable data, whose multipliers do not grow with C.
    largest = float(problem.caps.max())
    posed, alpha = problem, np.empty(0)
    scales = [(scale, False) for scale in (largest, 1.0, math.sqrt(largest), 1.0)]
    if problem.nonnegative is not None and len(problem.nonnegative):
        scales += [(scale, True) for scale, _ in scales]
    for scale, guess_signs in scales:
        w, multipliers = _clarabel(_without_zeros(posed, alpha) if guess_signs else posed, scale)
        alpha = _feasible(problem, multipliers)
        # caps far above all multipliers have no effect but cost accuracy: lower them for later attempts
        if alpha.any():
            posed = problem._replace(caps=np.minimum(problem.caps, 10.0 * alpha.max()))
        # w of the interior-point method, and w from its multipliers (for penalized coordinates)
        w = problem.allowed(w)
        implied = problem.allowed(np.where(problem.penalized, -(problem.planes.T @ alpha), w))
        # With separable data and a large C, a rounding error in the margin costs C times as much, and a
        # slightly larger w costs almost nothing.
        for point in [(1.0 + t) * v for v in (w, implied) for t in (0.0, 1e-13, 1e-12, 1e-11)]:
            upper = primal_value(problem, point)
            if upper < best.upper:
                best = best._replace(upper=upper, w=point)
        # the two bounds hold independently, so keep the best of each
        lower = dual_value(problem, alpha, w)
        if lower > best.lower:
            best = best._replace(lower=lower, alpha=alpha)
        if best.upper - best.lower <= 1e-2 * ACCURACY * abs(best.upper):
            break
    if not best.upper - best.lower <= ACCURACY * max(abs(best.upper), 1e-12):
        raise ArithmeticError(
            f"the reference optimum is not accurate enough: {best.lower!r} <= F* <= {best.upper!r}. The "
            "problem may be too badly scaled for the interior-point method; rescale the features."
        )
    return best


def _without_zeros(problem: AffineMax, alpha: Array) -> AffineMax:
    """The problem without sign constraints and without the coordinates that seem to be zero."""
    u = -(problem.planes.T @ alpha)
    keep = np.ones(len(u))
    assert problem.nonnegative is not None
    keep[problem.nonnegative] = u[problem.nonnegative] > 0.0
    shown = sp.csr_matrix(problem.planes @ sp.diags(keep))
    return problem._replace(planes=shown, nonnegative=None)


def _clarabel(problem: AffineMax, scale: float) -> tuple[Array, Array]:
    """(w, multipliers) by the interior-point method, for the objective divided by ``scale``."""
    try:
        import clarabel
    except ImportError as error:  # pragma: no cover - the test extra installs it
        raise ImportError(
            "the functions solve_*_qp of maxmargin.testing require the package clarabel (part of the test "
            "extra): pip install clarabel"
        ) from error
    m, dim = problem.planes.shape
    n = len(problem.caps)
    pick = sp.csr_matrix((np.ones(m), (np.arange(m), problem.groups)), (m, n))
    # variables (w, xi);  <p, w> - xi + s = -l,  -xi + s = 0,  s >= 0
    # and -w_k + s = 0 if w_k must be nonnegative
    signed = np.empty(0, np.int64) if problem.nonnegative is None else problem.nonnegative
    signs = sp.csr_matrix(
        (-np.ones(len(signed)), (np.arange(len(signed)), signed)), (len(signed), dim)
    )
    A = sp.bmat(
        [
            [problem.planes, -pick],
            [None, sp.diags(-np.ones(n))],
            [signs, sp.csr_matrix((len(signed), n))],
        ],
        format="csc",
    )
    b = np.concatenate([-problem.offsets, np.zeros(n + len(signed))])
    diagonal = np.concatenate([problem.penalized.astype(float), np.zeros(n)]) / scale
    q = np.concatenate([np.zeros(dim), problem.caps / scale])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 500
    # tighter than it can always reach; prove_optimum checks whether the result is accurate enough
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-14
    cones = [clarabel.NonnegativeConeT(m + n + len(signed))]
    P = sp.csc_matrix(sp.diags(diagonal))
    answer = clarabel.DefaultSolver(P, q, sp.csc_matrix(A), b, cones, settings).solve()
    return np.array(answer.x[:dim]), scale * np.array(answer.z[:m])


def _feasible(problem: AffineMax, multipliers: Array) -> Array:
    """Feasible multipliers: clip them at zero, and scale those of a group whose sum exceeds its cap."""
    alpha = np.maximum(multipliers, 0.0)
    total = np.bincount(problem.groups, alpha, minlength=len(problem.caps))
    shrink = np.where(total > problem.caps, problem.caps / np.maximum(total, 1e-300), 1.0)
    return np.asarray(alpha * shrink[problem.groups], dtype=np.float64)
