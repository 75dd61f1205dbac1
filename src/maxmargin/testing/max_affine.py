"""The one quadratic program behind every reference optimum, solved by clarabel and proved.

Every problem of the library is, once its outputs are listed,

    min over w of   1/2 sum_k d_k w_k^2 + sum_i c_i max(0, max_j (l_ij + <p_ij, w>))

with d_k = 1, or 0 for an unpenalized intercept. clarabel solves it with one slack per example. What
comes back is checked: F is evaluated at the w returned, the multipliers are repaired to a feasible
point of the dual

    max over a >= 0, sum_j a_ij <= c_i of   sum a l - 1/2 sum_k (sum a p)_k^2

(with (sum a p)_k = 0 where d_k = 0, and only (sum a p)_k < 0 counted where w_k >= 0 is asked for), and the
two must meet. So the referee's number carries its own proof.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray

#: relative difference of primal and dual value that is accepted as "the optimum"
ACCURACY = 1e-9


class AffineMax(NamedTuple):
    """Planes ``p_ij`` (rows), offsets ``l_ij``, the group i of each row, and the groups' caps ``c_i``."""

    planes: sp.csr_matrix
    offsets: Array
    groups: IntArray
    caps: Array
    penalized: npt.NDArray[np.bool_]
    nonnegative: IntArray | None = None
    """Penalized coordinates of w that must not be negative."""

    def allowed(self, w: Array) -> Array:
        """``w`` with what must not be negative clipped at zero."""
        if self.nonnegative is None:
            return w
        w = w.copy()
        w[self.nonnegative] = np.maximum(w[self.nonnegative], 0.0)
        return w


def solve_max_affine(problem: AffineMax) -> tuple[float, Array]:
    """Minimize a sum of maxima of affine functions plus half the squared norm; see the module's text.

    Parameters
    ----------
    problem : AffineMax
        The planes.

    Returns
    -------
    F_star : float
        F at the point returned, proved within ``ACCURACY`` of the optimum.
    w : array
        The point.

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
    """F(w) of the problem, summed exactly."""
    worst = np.zeros(len(problem.caps))
    np.maximum.at(worst, problem.groups, problem.offsets + problem.planes @ w)
    return 0.5 * math.fsum((w * w)[problem.penalized]) + math.fsum(problem.caps * worst)


def dual_value(problem: AffineMax, alpha: Array, w: Array) -> float:
    """The dual value of feasible multipliers; what an unpenalized coordinate leaves is charged."""
    u = problem.allowed(-(problem.planes.T @ alpha))
    penalty = 0.5 * math.fsum((u * u)[problem.penalized])
    free = ~problem.penalized
    charge = math.fsum(np.abs(u[free]) * (1.0 + 2.0 * np.abs(w[free])))
    return math.fsum(alpha * problem.offsets) - penalty - charge


class Solution(NamedTuple):
    """A primal and a dual point with their values."""

    upper: float
    lower: float
    w: Array
    alpha: Array


def prove_optimum(problem: AffineMax) -> Solution:
    """Primal and dual point whose values meet, or an error."""
    best = Solution(math.inf, -math.inf, np.empty(0), np.empty(0))
    # Divided by the largest cap all multipliers lie in [0, 1]: best where many are at their caps.
    # Undivided is better for separable data, whose multipliers do not grow with C.
    largest = float(problem.caps.max())
    posed, alpha = problem, np.empty(0)
    scales = [(scale, False) for scale in (largest, 1.0, math.sqrt(largest), 1.0)]
    if problem.nonnegative is not None and len(problem.nonnegative):
        scales += [(scale, True) for scale, _ in scales]
    for scale, guess_signs in scales:
        w, multipliers = _clarabel(_without_zeros(posed, alpha) if guess_signs else posed, scale)
        alpha = _feasible(problem, multipliers)
        # caps far above every multiplier do not matter, but cost digits: lower them for later attempts
        if alpha.any():
            posed = problem._replace(caps=np.minimum(problem.caps, 10.0 * alpha.max()))
        # the interior point's w, and the one its multipliers imply (where they imply one)
        w = problem.allowed(w)
        implied = problem.allowed(np.where(problem.penalized, -(problem.planes.T @ alpha), w))
        # Separable data and a large C: a rounding error beyond the margin costs C, and a step of the
        # same size away from it costs nothing.
        for point in [(1.0 + t) * v for v in (w, implied) for t in (0.0, 1e-13, 1e-12, 1e-11)]:
            upper = primal_value(problem, point)
            if upper < best.upper:
                best = best._replace(upper=upper, w=point)
        # the two bounds hold independently, so the best of each attempt may be combined
        lower = dual_value(problem, alpha, w)
        if lower > best.lower:
            best = best._replace(lower=lower, alpha=alpha)
        if best.upper - best.lower <= 1e-2 * ACCURACY * abs(best.upper):
            break
    if not best.upper - best.lower <= ACCURACY * max(abs(best.upper), 1e-12):
        raise ArithmeticError(
            f"the reference optimum is not proved: {best.lower!r} <= F* <= {best.upper!r} is all "
            "that is known. The problem may be too badly scaled for the interior-point method."
        )
    return best


def _without_zeros(problem: AffineMax, alpha: Array) -> AffineMax:
    """Without the signs, and without the coordinates that they seem to hold at zero: more digits, if so."""
    u = -(problem.planes.T @ alpha)
    keep = np.ones(len(u))
    assert problem.nonnegative is not None
    keep[problem.nonnegative] = u[problem.nonnegative] > 0.0
    shown = sp.csr_matrix(problem.planes @ sp.diags_array(keep))
    return problem._replace(planes=shown, nonnegative=None)


def _clarabel(problem: AffineMax, scale: float) -> tuple[Array, Array]:
    """(w, multipliers) of the objective divided by ``scale``, as the interior-point method left them."""
    try:
        import clarabel
    except ImportError as error:  # pragma: no cover - the test extra installs it
        raise ImportError(
            "maxmargin.testing's exact optima need the package clarabel: pip install clarabel "
            "(it is part of maxmargin's test extra)"
        ) from error
    m, dim = problem.planes.shape
    n = len(problem.caps)
    pick = sp.csr_matrix((np.ones(m), (np.arange(m), problem.groups)), (m, n))
    # variables (w, xi);  <p, w> - xi + s = -l,  -xi + s = 0,  s >= 0
    # and -w_k + s = 0 where w_k must not be negative
    signed = np.empty(0, np.int64) if problem.nonnegative is None else problem.nonnegative
    signs = sp.csr_matrix(
        (-np.ones(len(signed)), (np.arange(len(signed)), signed)), (len(signed), dim)
    )
    A = sp.bmat(
        [
            [problem.planes, -pick],
            [None, -sp.eye_array(n)],
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
    # tighter than it can always reach; it then says so, and prove_optimum decides whether that is enough
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-14
    cones = [clarabel.NonnegativeConeT(m + n + len(signed))]
    P = sp.csc_matrix(sp.diags_array(diagonal))
    answer = clarabel.DefaultSolver(P, q, sp.csc_matrix(A), b, cones, settings).solve()
    return np.array(answer.x[:dim]), scale * np.array(answer.z[:m])


def _feasible(problem: AffineMax, multipliers: Array) -> Array:
    """The nearest multipliers that obey the signs and caps exactly."""
    alpha = np.maximum(multipliers, 0.0)
    total = np.bincount(problem.groups, alpha, minlength=len(problem.caps))
    shrink = np.where(total > problem.caps, problem.caps / np.maximum(total, 1e-300), 1.0)
    return np.asarray(alpha * shrink[problem.groups], dtype=np.float64)
