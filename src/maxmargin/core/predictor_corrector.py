"""A primal-dual interior-point method (Mehrotra) for small dense quadratic programs.

    min over x     f(x)     subject to     s = G x + h >= 0,     and <e, x> = 0 if it is balanced

The multipliers z of s >= 0 are kept positive, too. With theta = z / s each step solves

    (H + G' diag(theta) G) dx + e dnu = right-hand side,     H = f''

All multipliers move at once, so strong dependence between samples does not slow it down. The programs are
:mod:`maxmargin.core.dense_qp` (planes) and :mod:`maxmargin.core.box_qp` (a small kernel machine).

References:

- S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on Optimization
  2 (1992), 575-601, https://doi.org/10.1137/0802028
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from maxmargin.core.vectors import Array

MAX_STEPS = 100
#: complementarity, relative to the objective, at which the method stops
ENOUGH = 1e-15
#: steps that may pass without a smaller duality gap: beyond that only rounding is left
PATIENCE = 8
#: fraction of the distance to the nearest bound that a step may cover
BACK = 0.995

#: solves the linear system of a step
Solve = Callable[[Array], Array]


class PredictorCorrector(ABC):
    """The current iterate x; s and z stay positive."""

    #: the vector e of the equation <e, x> = 0
    _equation: Array | None = None
    _h: Array

    def __init__(self, x: Array, s: Array, z: Array) -> None:
        self._x, self._s, self._z, self._nu = x, s, z, 0.0
        self._least, self._in_vain = np.inf, 0
        self._note()

    @abstractmethod
    def _product(self, x: Array) -> Array:
        """G x."""

    @abstractmethod
    def _back(self, z: Array) -> Array:
        """G' z."""

    @abstractmethod
    def _gradient(self) -> Array:
        """The gradient of f."""

    @abstractmethod
    def _factor(self, theta: Array) -> Solve | None:
        """Factorize H + G' diag(theta) G; None if that is not possible."""

    @abstractmethod
    def _point(self) -> tuple[float, float, Array, Array]:
        """The duality gap, the magnitude of the objective, and a primal and a dual point with that gap."""

    @property
    def _mu(self) -> float:
        """Mean complementarity, which is zero at the solution."""
        return float(self._s @ self._z) / len(self._s)

    def _note(self) -> None:
        """Keep the point if its duality gap is the smallest so far."""
        gap, self._size, *point = self._point()
        # with a complementarity far below the gap, rounding is the limit
        self._in_vain += 100.0 * self._mu * len(self._s) < self._least
        if gap < self._least or self._least == np.inf:
            self._least, self._best, self._in_vain = gap, point, 0

    def solved(self) -> tuple[Array, Array]:
        """The best primal and dual point."""
        for _ in range(MAX_STEPS):
            before = self._mu
            if not self._step() or self._in_vain >= PATIENCE:
                break
            if self._mu <= ENOUGH * max(self._size, 1e-300) or self._mu > 1e3 * before:
                break
        primal, dual = self._best
        return primal, dual

    def _step(self) -> bool:
        """Take one predictor-corrector step; return False if no step is possible."""
        s, z, e = self._s, self._z, self._equation
        theta = z / s
        solve = self._factor(theta)
        if solve is None:
            return False
        infeasible = self._product(self._x) + self._h - s
        wrong = self._gradient() - self._back(z)
        if e is not None:
            wrong = wrong + self._nu * e
        along = None if e is None else solve(e)

        def direction(target: Array) -> tuple[Array, float, Array, Array]:
            dx, dnu = solve(self._back(target / s - theta * infeasible) - wrong), 0.0
            if e is not None and along is not None:
                dnu = float(e @ (dx + self._x)) / float(e @ along)
                dx = dx - dnu * along
            ds = infeasible + self._product(dx)
            return dx, dnu, ds, (target - z * ds) / s

        _, _, ds, dz = direction(-s * z)
        t = self._longest(ds, dz, 1.0)
        ahead = float((s + t * ds) @ (z + t * dz)) / len(s)
        target = self._mu * min(1.0, max(0.0, ahead / self._mu)) ** 3
        dx, dnu, ds, dz = direction(target - s * z - ds * dz)
        t = min(1.0, BACK * self._longest(ds, dz, 1.0 / BACK))
        if not t > 1e-12:
            return False
        self._x, self._nu = self._x + t * dx, self._nu + t * dnu
        self._s, self._z = s + t * ds, z + t * dz
        self._note()
        return bool(np.isfinite(self._x).all())

    def _longest(self, ds: Array, dz: Array, most: float) -> float:
        """The longest step that keeps s and z nonnegative."""
        for value, change in ((self._s, ds), (self._z, dz)):
            down = change < 0.0
            if down.any():
                most = min(most, float((value[down] / -change[down]).min()))
        return most
