"""Solutions of a bundle's reduced problem, with the dual point that proves the lower bound.

For multipliers alpha of planes (a_j, b_j) the bound is

    D(alpha) = <b, alpha> - Omega*(u),     u = - sum_j alpha_j a_j

This is a lower bound of F(w*) for every feasible alpha; see :mod:`maxmargin.core.bundle`. If u is not exactly
zero in the free coordinates, the bound is reduced by |u_free| times the largest value they may take. It is
also reduced by the rounding errors of the planes (:mod:`maxmargin.core.rounding`). Only the planes are needed
to recompute it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound, correction, gamma
from maxmargin.core.vectors import Array, Vector, combine, norm


@dataclass(frozen=True, slots=True, eq=False)
class DualPoint:
    """A feasible dual point: the planes and multipliers needed to recompute the lower bound."""

    planes: tuple[Vector, ...]
    offsets: Array
    alpha: Array
    base: float
    """Contribution of the zero planes to <b, alpha>."""
    error: float = 0.0
    """Bound on the planes' rounding errors, weighted by the multipliers."""

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """Compute the lower bound from the planes alone."""
        u = -combine(self.alpha, self.planes, dim)
        w = regularizer.primal(u)
        bound = self.base + float(self.offsets @ self.alpha) - regularizer.conjugate(u, w)
        if len(regularizer.free):
            bound -= float(np.abs(w[regularizer.free]).sum()) * regularizer.free_limit(
                attained.upper
            )
        # the combination of planes, its square and the sum of the offsets are rounded, too
        pairs = zip(self.alpha, self.planes, strict=True)
        sizes = float(sum(a * norm(plane) for a, plane in pairs))
        here = gamma(len(self.alpha)) * (sizes + float(np.abs(self.offsets) @ self.alpha))
        upper = attained.upper
        radius = max(regularizer.radius(upper), float(np.linalg.norm(w)))
        # the multipliers, which sum to C, are rounded, too
        lost = gamma(dim) * regularizer.value(w) + gamma(len(self.alpha)) * max(0.0, upper)
        lost += (self.error + here) * (1.0 + radius + here)
        return bound - correction(lost, attained.negligible)


@dataclass(frozen=True, slots=True, eq=False)
class BundleSolution:
    """Solution of the reduced problem."""

    w: Array
    lower_bound: float
    model: float
    """The model's risk at ``w`` (xi in the papers)."""
    n_active: int
    dual: DualPoint
