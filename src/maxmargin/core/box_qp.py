"""Multipliers of a small kernel machine on which coordinate methods converge too slowly.

    min over beta     1/2 beta' K beta - <y, beta>,     lo <= beta <= hi,  and sum beta = 0 if it is balanced

by :mod:`maxmargin.core.predictor_corrector` with Cholesky factorizations of K + diagonal: O(n^3) per step.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.core.predictor_corrector import PredictorCorrector, Solve
from maxmargin.core.vectors import Array


def solve_box(K: Array, y: Array, lo: Array, hi: Array, balanced: bool) -> Array | None:
    """Return the best multipliers found, or None if the arithmetic breaks down."""
    with np.errstate(all="ignore"):
        found = _BoxProgram(K, y, lo, hi, balanced).solved()[0]
    beta = np.clip(found, lo, hi)
    return beta if np.isfinite(beta).all() else None


class _BoxProgram(PredictorCorrector):
    """x is beta, s holds its distances from both bounds."""

    def __init__(self, K: Array, y: Array, lo: Array, hi: Array, balanced: bool) -> None:
        self._K, self._y, self._lo, self._hi = K, y, lo, hi
        beta, width = 0.5 * (lo + hi), hi - lo
        if balanced:  # as far from the bounds as the sum allows
            beta = lo + width * (-lo.sum() / width.sum())
            self._equation = np.ones(len(y))
        slope = float(np.abs(K @ beta - y).max())
        self._h = np.concatenate([-lo, hi])
        s = self._product(beta) + self._h
        super().__init__(beta, s, np.full(2 * len(y), max(slope, 1.0)))

    def _product(self, x: Array) -> Array:
        return np.concatenate([x, -x])

    def _back(self, z: Array) -> Array:
        out: Array = z[: len(self._y)] - z[len(self._y) :]
        return out

    def _gradient(self) -> Array:
        out: Array = self._K @ self._x - self._y
        return out

    def _factor(self, theta: Array) -> Solve | None:
        H = self._K.copy()
        scale = 1.0 / np.sqrt(np.diagonal(H) + theta[: len(H)] + theta[len(H) :])
        H *= scale[:, None] * scale
        H[np.diag_indices(len(H))] = 1.0 + 1e-15
        try:
            factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=True)
        except (LinAlgError, ValueError):
            return None

        def solve(r: Array) -> Array:
            out: Array = scale * cho_solve(factor, scale * r)
            return out

        return solve

    def _point(self) -> tuple[float, float, Array, Array]:
        beta, f = self._x, self._K @ self._x
        v = self._y - f - self._nu
        loss = float(np.maximum(self._hi * v, self._lo * v).sum())
        linear, square = float(self._y @ beta), float(beta @ f)
        return square + loss - linear, 0.5 * abs(square) + abs(linear), beta.copy(), self._z
