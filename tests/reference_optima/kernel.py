"""Small kernel machines: kernel values and F in extended precision, and an optimum between two bounds.

    min over v, b of   F(v, b) = 1/2 v'Kv + sum_i c_i max(0, 1 - y_i ((Kv)_i + b))
    max over a of      sum_i a_i - 1/2 (ya)'K(ya),    0 <= a_i <= c_i,  sum_i y_i a_i = 0

(the equation only with an intercept). clarabel proposes multipliers; those strictly between their bounds are
then improved by solving a linear system. The bounds are the dual value of feasible multipliers, and F of
their function with the best intercept, both with a bound of the rounding errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from tests.reference_optima.attained import run_clarabel
from tests.reference_optima.program import LONG, LONG_EPS, Array

#: maximum number of active sets tried
ROUNDS = 40


class KernelOptimum(NamedTuple):
    """``lower <= F* <= upper``, and the function whose objective is ``upper``."""

    lower: float
    upper: float
    coef: Array
    intercept: float


def values(kernel: str, X: Any, gamma: float, degree: int = 3, coef0: float = 0.0) -> Any:
    """The kernel matrix in extended precision."""
    X = np.asarray(X, dtype=LONG)
    if kernel == "rbf":
        return np.exp(-LONG(gamma) * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    products = X @ X.T
    if kernel == "linear":
        return products
    inner = LONG(gamma) * products + LONG(coef0)
    return np.tanh(inner) if kernel == "sigmoid" else inner**degree


def binary(K: Any, y: Any, caps: Any, a: Any, b: Any) -> Any:
    """F for two classes."""
    scores = K @ a
    return LONG(0.5) * (a @ scores) + (caps * np.maximum(0, 1 - y * (scores + b))).sum()


def binary_size(K: Any, caps: Any, a: Any, b: Any) -> float:
    """The sum of the absolute values of all terms of F."""
    scores = np.abs(K) @ np.abs(a)
    return float(LONG(0.5) * (np.abs(a) @ scores) + (caps * (1 + scores + abs(b))).sum())


def joint(K: Any, y: Any, caps: Any, A: Any, b: Any) -> Any:
    """F of the Crammer-Singer loss; A is (classes, samples)."""
    scores = A @ K
    value = LONG(0.5) * (A * scores).sum()
    scores = (scores + b[:, None]).T
    n = len(y)
    lost = scores - scores[np.arange(n), y][:, None] + 1
    lost[np.arange(n), y] = 0
    return value + (caps * lost.max(axis=1)).sum()


def solve_kernel_qp(
    K: Any, y_signed: Any, C: Any, weight: Any = None, fit_intercept: bool = True
) -> KernelOptimum:
    """Bounds of the optimum with hinge loss and an unpenalized intercept.

    They are not necessarily tight: check their difference.
    """
    K, y = np.asarray(K, dtype=LONG), np.asarray(y_signed, dtype=LONG)
    caps = LONG(C) * (np.ones(len(y)) if weight is None else np.asarray(weight)).astype(LONG)
    coef, used = np.zeros(len(y)), caps > 0
    if not used.any():
        return KernelOptimum(0.0, 0.0, coef, 0.0)
    small = _Dual(K[np.ix_(used, used)], y[used], caps[used], fit_intercept)
    lower, upper, alpha, b = small.bounds()
    coef[used] = (small.y * alpha).astype(np.float64)
    return KernelOptimum(lower, upper, coef, float(b))


class _Dual:
    """The dual problem of the samples with positive weight."""

    def __init__(self, K: Any, y: Any, caps: Any, intercept: bool) -> None:
        self.K, self.y, self.caps, self.intercept = K, y, caps, intercept
        self.Q = y[:, None] * K * y[None, :]

    def bounds(self) -> tuple[Any, Any, Any, Any]:
        """The best bounds of all attempts. (The two bounds hold independently.)"""
        lower, best = LONG(0), np.zeros(len(self.y), LONG)
        upper, b = self.primal(best)
        top = self.K.diagonal().max()
        box = self.caps * top
        if not (top > 0 and np.isfinite(np.append(self.Q, box).astype(float)).all()):
            return lower, upper, best, b
        for unit in (float(box.max()), 1.0):
            first = self.propose(unit, top)
            for raw in [first, *self.polished(self.feasible(first))]:
                alpha = self.feasible(raw)
                value = alpha.sum() - alpha @ (self.Q @ alpha) / 2 - self.rounding(alpha, 0)
                lower = max(lower, value)
                for attempt in (alpha, raw):
                    cost, shift = self.primal(attempt)
                    if cost < upper:
                        upper, best, b = cost, attempt, shift
            if upper - lower <= 1e-13 * abs(upper):
                break
        return lower, upper, best, b

    def propose(self, unit: float, top: Any) -> Any:
        """The multipliers found by the interior-point method, in units of ``unit / top``."""
        n = len(self.y)
        P = sp.csc_matrix(np.triu((self.Q / top * unit).astype(float)))
        equation = [sp.csr_matrix(self.y[None].astype(float))] if self.intercept else []
        M = sp.vstack([*equation, sp.identity(n), -sp.identity(n)], format="csc")
        caps = np.minimum((self.caps * top / unit).astype(float), 1e15)
        right = np.concatenate([np.zeros(len(equation)), caps, np.zeros(n)])
        found = run_clarabel(P, -np.ones(n), M, right, len(equation))
        return np.zeros(n, LONG) if found is None else found[0].astype(LONG) * (LONG(unit) / top)

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
            if not np.isfinite(raw).all():
                return
            yield raw
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
        out = np.where(full, self.caps, np.where(free, alpha, LONG(0)))
        k, b = int(free.sum()), LONG(0)
        if k == 0:
            return out, self.primal(out)[1]
        system = np.zeros((k + 1, k + 1))
        system[:k, :k] = self.Q[np.ix_(free, free)]
        if self.intercept:
            system[:k, k] = system[k, :k] = self.y[free]
        inverse = np.linalg.pinv(system, rcond=1e-15, hermitian=True).astype(LONG)
        for _ in range(4):
            balance = -(self.y @ out) if self.intercept else LONG(0)
            step = inverse @ np.append((1 - self.Q @ out - self.y * b)[free], balance)
            out[free] += step[:k]
            b += step[k]
        return out, b

    def primal(self, alpha: Any) -> tuple[Any, Any]:
        """An upper bound of F of the function of the multipliers, with its best intercept.

        A best intercept is one at which the margin of some sample is exactly 1.
        """
        f = self.K @ (self.y * alpha) if alpha.any() else np.zeros_like(alpha)
        shifts = self.y - f if self.intercept else np.zeros(1, LONG)
        costs = np.maximum(0, 1 - self.y * (f + shifts[:, None])) @ self.caps
        k = int(np.argmin(costs))
        return alpha @ (self.Q @ alpha) / 2 + costs[k] + self.rounding(alpha, shifts[k]), shifts[k]

    def rounding(self, alpha: Any, b: Any) -> Any:
        """A bound of the effect of rounding errors, including those of the kernel values."""
        if not alpha.any():
            return LONG(0)  # margins are 0 or 2
        sizes = np.abs(self.K) @ np.abs(alpha)
        charged = np.where(
            self.y * (self.K @ (self.y * alpha) + b) < 1 + 1e-9 * (1 + sizes), self.caps, 0
        )
        return 4 * len(alpha) * LONG_EPS * (np.abs(alpha) @ sizes + charged @ (sizes + abs(b)))
