"""A primal-dual interior-point method (Mehrotra) for small dense quadratic programs over a box.

    min over beta     1/2 beta' K beta - <y, beta>,     lo <= beta <= hi,  and sum beta = 0 if it is balanced

K is dense and positive semidefinite. With a = beta - lo, t = hi - beta and their multipliers p, q > 0, each
step solves

    (K + diag(p / a + q / t)) dbeta + e dnu = right-hand side

by a Cholesky factorization: O(n^3) per step, about 30 steps. All multipliers move at once, so strong
dependence between samples does not slow it down. It is used for small problems on which coordinate methods
converge too slowly.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.core.vectors import Array

MAX_STEPS = 100
#: relative duality gap at which the method stops
ENOUGH = 1e-14
#: fraction of the distance to the nearest bound that a step may cover
BACK = 0.995


def solve_box(K: Array, y: Array, lo: Array, hi: Array, balanced: bool) -> Array | None:
    """Return the best multipliers found, or None if the arithmetic breaks down."""
    state = _State(K, y, lo, hi, balanced)
    with np.errstate(all="ignore"):
        for _ in range(MAX_STEPS):
            try:
                if not state.step() or state.gap <= ENOUGH * state.size:
                    break
            except (LinAlgError, ValueError):
                break
    beta = np.clip(state.best, lo, hi)
    return beta if np.isfinite(beta).all() else None


class _State:
    """The current iterate; a, t, p and q stay positive."""

    def __init__(self, K: Array, y: Array, lo: Array, hi: Array, balanced: bool) -> None:
        self._K, self._y, self._balanced = K, y, balanced
        width = hi - lo
        self._beta = 0.5 * (lo + hi)
        if balanced:  # as far from the bounds as the sum allows
            self._beta = lo + width * (-lo.sum() / width.sum())
        self._a, self._t = self._beta - lo, hi - self._beta
        slope = float(np.abs(K @ self._beta - y).max())
        self._p = np.full(len(y), max(slope, 1.0))
        self._q, self._nu = self._p.copy(), 0.0
        self._least, self.best = np.inf, self._beta
        self._note()

    @property
    def gap(self) -> float:
        """Complementarity gap <a, p> + <t, q>, which is zero at the solution."""
        return float(self._a @ self._p + self._t @ self._q)

    @property
    def size(self) -> float:
        """Magnitude of the objective, to which the gap is compared."""
        return float(abs(0.5 * self._beta @ (self._K @ self._beta)) + abs(self._y @ self._beta))

    def _note(self) -> None:
        """Keep the point if its duality gap is the smallest so far."""
        f = self._K @ self._beta
        v = self._y - f - self._nu
        hi, lo = self._beta + self._t, self._beta - self._a
        loss = float(np.maximum(hi * v, lo * v).sum())
        gap = float(self._beta @ f) + loss - float(self._y @ self._beta)
        if gap < self._least:
            self._least, self.best = gap, self._beta.copy()

    def step(self) -> bool:
        """Take one predictor-corrector step; return False if no step is possible."""
        a, t, p, q = self._a, self._t, self._p, self._q
        H = self._K.copy()
        diagonal = np.diagonal(H) + p / a + q / t
        scale = 1.0 / np.sqrt(diagonal)
        H *= scale[:, None] * scale
        H[np.diag_indices(len(H))] = 1.0 + 1e-15
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=True)

        def solved(r: Array) -> Array:
            out: Array = scale * cho_solve(factor, scale * r)
            return out

        wrong = self._K @ self._beta - self._y + self._nu - p + q
        ones = solved(np.ones(len(a))) if self._balanced else None

        def direction(ra: Array, rt: Array) -> tuple[Array, ...]:
            dbeta, dnu = solved(-wrong + ra / a - rt / t), 0.0
            if ones is not None:
                dnu = float(dbeta.sum() + self._beta.sum()) / float(ones.sum())
                dbeta = dbeta - dnu * ones
            return dbeta, np.array(dnu), (ra - p * dbeta) / a, (rt + q * dbeta) / t

        dbeta, _, dp, dq = direction(-a * p, -t * q)
        k = self._longest(dbeta, dp, dq)
        ahead = float((a + k * dbeta) @ (p + k * dp) + (t - k * dbeta) @ (q + k * dq))
        share = min(1.0, max(0.0, ahead / self.gap)) ** 3
        target = share * self.gap / (2 * len(a))
        dbeta, dnu, dp, dq = direction(target - a * p - dbeta * dp, target - t * q + dbeta * dq)
        k = min(1.0, BACK * self._longest(dbeta, dp, dq, 1.0 / BACK))
        if not k > 1e-12:
            return False
        self._beta = self._beta + k * dbeta
        self._a, self._t = a + k * dbeta, t - k * dbeta
        self._p, self._q = p + k * dp, q + k * dq
        self._nu += k * float(dnu)
        self._note()
        return bool(np.isfinite(self._beta).all())

    def _longest(self, dbeta: Array, dp: Array, dq: Array, most: float = 1.0) -> float:
        """The longest step that keeps a, t, p and q nonnegative."""
        for value, change in ((self._a, dbeta), (self._t, -dbeta), (self._p, dp), (self._q, dq)):
            down = change < 0.0
            if down.any():
                most = min(most, float((value[down] / -change[down]).min()))
        return most
