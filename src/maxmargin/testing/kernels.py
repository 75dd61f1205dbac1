"""The optimum of a small kernel SVM, enclosed by two rigorous bounds, from its kernel matrix.

    min over coefficients v, b of   1/2 v'Kv + sum_i c_i max(0, 1 - y_i ((Kv)_i + b))
    max over a of                   sum_i a_i - 1/2 (ya)'K(ya),    0 <= a_i <= c_i,  sum_i y_i a_i = 0

(the equality constraint only with an intercept). An interior-point method (clarabel) proposes multipliers.
Those strictly between their bounds are then improved by solving a linear system. The bounds are computed at
the end, in extended precision: the dual value of feasible multipliers, and the primal value of their function
with the best intercept. Both include a bound of the rounding errors of the kernel values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array
from maxmargin.testing.reference import example_weights

Long = np.longdouble
#: maximum number of active sets tried
ROUNDS = 100


class KernelOptimum(NamedTuple):
    """``lower <= F* <= upper``, and the function whose objective is ``upper``."""

    lower: float
    upper: float
    coef: Array
    intercept: float


def kernel_objective(
    K: Any,
    y_signed: npt.ArrayLike,
    C: float,
    coef: npt.ArrayLike,
    intercept: float,
    weight: npt.ArrayLike | None = None,
) -> float:
    """The objective F of the function ``K @ coef + intercept``, in extended precision.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel values between all samples, if possible in extended precision.
    y_signed : array of shape (n,)
        Labels, -1 or +1.
    C : float
        Weight of the sum of losses.
    coef : array of shape (n,)
        Coefficients of all samples.
    intercept : float
        The intercept.
    weight : array of shape (n,), optional
        Weights of the samples.

    Returns
    -------
    float
        ``1/2 |f|^2 + C sum_i weight_i max(0, 1 - y_i (f(x_i) + b))``.

    Examples
    --------
    >>> from maxmargin.testing import kernel_objective
    >>> kernel_objective([[1.0, 0.0], [0.0, 1.0]], [1, -1], 10.0, [0.5, -0.5], 0.0)
    10.25
    """
    K, v = np.asarray(K, dtype=Long), np.asarray(coef, dtype=Long)
    y = np.asarray(y_signed, dtype=Long)
    caps = Long(C) * example_weights(weight, len(y)).astype(Long)
    f = K @ v
    return float(v @ f / 2 + caps @ np.maximum(0, 1 - y * (f + Long(intercept))))


def solve_kernel_qp(
    K: Any,
    y_signed: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    fit_intercept: bool = True,
) -> KernelOptimum:
    """Bounds of the optimum of the kernel SVM with hinge loss and an unpenalized intercept.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel values between all samples, positive semidefinite; if possible in extended precision.
    y_signed : array of shape (n,)
        Labels, -1 or +1.
    C : float
        Weight of the sum of losses.
    weight : array of shape (n,), optional
        Weights of the samples.
    fit_intercept : bool
        Whether there is an intercept.

    Returns
    -------
    KernelOptimum
        The bounds. They are not necessarily tight: check their difference.

    Examples
    --------
    >>> from maxmargin.testing import solve_kernel_qp
    >>> found = solve_kernel_qp([[1.0, 0.0], [0.0, 1.0]], [1, -1], C=10.0)
    >>> round(found.lower, 9), round(found.upper, 9), found.coef.round(6).tolist()
    (1.0, 1.0, [1.0, -1.0])
    """
    K, y = np.asarray(K, dtype=Long), np.asarray(y_signed, dtype=Long)
    caps = Long(C) * example_weights(weight, len(y)).astype(Long)
    used = caps > 0
    small = _Dual(K[np.ix_(used, used)], y[used], caps[used], fit_intercept)
    lower, upper, alpha, b = small.bounds()
    coef = np.zeros(len(y))
    coef[used] = (small.y * alpha).astype(np.float64)
    return KernelOptimum(float(lower), float(upper), coef, float(b))


class _Dual:
    """The dual problem of the samples with positive weight."""

    def __init__(self, K: Any, y: Any, caps: Any, intercept: bool) -> None:
        self.K, self.y, self.caps, self.intercept = K, y, caps, intercept
        self.Q = y[:, None] * K * y[None, :]

    def bounds(self) -> tuple[Any, Any, Any, Any]:
        """The best bounds of all attempts. (The two bounds hold independently.)"""
        lower, upper = Long(-np.inf), Long(np.inf)
        best, point, b = np.zeros(len(self.y), Long), None, Long(0)
        for scale in (float(self.caps.max()), 1.0):
            alpha = self.feasible(self.propose(scale))
            for attempt in [alpha, *self.polished(alpha)]:
                value = attempt.sum() - attempt @ (self.Q @ attempt) / 2 - self.rounding(attempt)
                if value > lower:
                    lower, best = value, attempt
                cost, shift = self.primal(attempt)
                if cost < upper:
                    upper, point, b = cost, attempt, shift
            if upper - lower <= 1e-13 * abs(upper):
                break
        return lower, upper, best if point is None else point, b

    def propose(self, scale: float) -> Any:
        """The multipliers found by the interior-point method for the problem divided by ``scale``."""
        import clarabel

        n = len(self.y)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = 200
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
        equation = sp.csr_matrix(self.y[None].astype(float)) if self.intercept else None
        A = sp.vstack([equation, sp.diags(np.ones(n)), sp.diags(-np.ones(n))], format="csc")
        caps = (self.caps / scale).astype(float)
        b = np.concatenate([np.zeros(1 if self.intercept else 0), caps, np.zeros(n)])
        cones = [clarabel.ZeroConeT(1)] if self.intercept else []
        cones.append(clarabel.NonnegativeConeT(2 * n))
        P = sp.csc_matrix(np.triu((self.Q * scale).astype(float)))
        solver = clarabel.DefaultSolver(P, -np.ones(n), sp.csc_matrix(A), b, cones, settings)
        found = np.array(solver.solve().x)
        return Long(scale) * np.where(np.isfinite(found), found, 0.0).astype(Long)

    def feasible(self, alpha: Any) -> Any:
        """Feasible multipliers: clip them, then scale down the class with the larger sum."""
        alpha = np.clip(alpha, 0, self.caps)
        if not self.intercept:
            return alpha
        up, down = alpha[self.y > 0].sum(), alpha[self.y < 0].sum()
        if min(up, down) == 0:
            return np.zeros_like(alpha)
        heavy = 1 if up > down else -1
        return np.where(self.y == heavy, alpha * (min(up, down) / max(up, down)), alpha)

    def polished(self, alpha: Any) -> Iterator[Any]:
        """Improve multipliers by an active-set method.

        Guess which are at zero, at their caps, or between; solve for those between; correct the guess.
        """
        tiny = 1e-7 * max(float(alpha.max()), 1e-300)
        free, full = (alpha > tiny) & (alpha < self.caps - 1e-7 * self.caps), alpha > tiny
        full &= ~free
        seen: set[tuple[bytes, bytes]] = set()
        all_at_once = True
        for _ in range(ROUNDS):
            raw, b = self.between(alpha, free, full)
            yield self.feasible(raw)
            seen.add((free.tobytes(), full.tobytes()))
            slope = np.where(free, 0, 1 - self.Q @ raw - self.y * b)
            wanted = raw + slope / np.maximum(self.Q.diagonal(), 1e-12)
            between, above = (wanted > 0) & (wanted < self.caps), wanted >= self.caps
            changed = np.flatnonzero((between != free) | (above != full))
            if len(changed) == 0:
                return
            all_at_once &= (between.tobytes(), above.tobytes()) not in seen
            moved = changed if all_at_once else changed[-1:]  # changing one at a time avoids cycles
            free[moved], full[moved] = between[moved], above[moved]

    def between(self, alpha: Any, free: Any, full: Any) -> tuple[Any, Any]:
        """Solve for the multipliers of the ``free`` samples and the intercept.

        The system is solved in double precision, with iterative refinement in extended precision.
        """
        out = np.where(full, self.caps, np.where(free, alpha, Long(0)))
        k, b = int(free.sum()), Long(0)
        if k == 0:
            return out, self.primal(out)[1]
        system = np.zeros((k + 1, k + 1))
        system[:k, :k] = self.Q[np.ix_(free, free)]
        if self.intercept:
            system[:k, k] = system[k, :k] = self.y[free]
        inverse = np.linalg.pinv(system, rcond=1e-15, hermitian=True).astype(Long)
        for _ in range(4):
            balance = -(self.y @ out) if self.intercept else Long(0)
            step = inverse @ np.append((1 - self.Q @ out - self.y * b)[free], balance)
            out[free] += step[:k]
            b += step[k]
        return out, b

    def primal(self, alpha: Any) -> tuple[Any, Any]:
        """F of the function of the multipliers with its best intercept.

        A best intercept is one at which the margin of some sample is exactly 1.
        """
        f = self.K @ (self.y * alpha)
        shifts = self.y - f if self.intercept else np.zeros(1, Long)
        costs = np.maximum(0, 1 - self.y * (f + shifts[:, None])) @ self.caps
        k = int(np.argmin(costs))
        return alpha @ (self.Q @ alpha) / 2 + costs[k] + self.rounding(alpha), shifts[k]

    def rounding(self, alpha: Any) -> Any:
        """A bound of the effect of rounding errors of the kernel values."""
        n, eps = len(alpha), np.finfo(Long).eps
        return 4 * n * eps * (alpha @ (np.abs(self.K) @ alpha))
