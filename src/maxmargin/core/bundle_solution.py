"""Solutions of the reduced problem of a bundle, with the dual point that proves their bound.

For multipliers alpha of planes (a_j, b_j) the bound is

    D(alpha) = <b, alpha> - Omega*(u),     u = - sum_j alpha_j a_j,

a lower bound of F(w*) for every feasible alpha; see :mod:`maxmargin.core.bundle`. Where coordinates are free
and u is not quite zero there, the bound pays |u_free| times the largest value they may take. It also pays for
what rounding may have done to the planes (:mod:`maxmargin.core.rounding`). All this needs nothing but the
planes, so whoever has them can check it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Attained, gamma, paid
from maxmargin.core.vectors import Array, Vector, combine, norm


@dataclass(frozen=True, slots=True, eq=False)
class DualPoint:
    """A feasible point of the dual: planes with their multipliers, enough to recompute the bound."""

    planes: tuple[Vector, ...]
    offsets: Array
    alpha: Array
    base: float
    """What the zero planes contribute to <b, alpha>."""
    error: float = 0.0
    """What rounding may have done to the planes, times their multipliers."""

    def value(self, regularizer: SquaredNorm, dim: int, attained: Attained) -> float:
        """The lower bound, computed from the planes alone."""
        u = -combine(self.alpha, self.planes, dim)
        w = regularizer.primal(u)
        bound = self.base + float(self.offsets @ self.alpha) - regularizer.conjugate(u, w)
        if len(regularizer.free):
            bound -= float(np.abs(w[regularizer.free]).sum()) * regularizer.free_bound
        # the sum of the planes, its square and the sum of the offsets are rounded as well
        pairs = zip(self.alpha, self.planes, strict=True)
        sizes = float(sum(a * norm(plane) for a, plane in pairs))
        here = gamma(len(self.alpha)) * (sizes + float(np.abs(self.offsets) @ self.alpha))
        upper = attained.upper
        radius = max(regularizer.radius(upper), float(np.linalg.norm(w)))
        # and so are the multipliers, which add up to C
        lost = gamma(dim) * regularizer.value(w) + gamma(len(self.alpha)) * max(0.0, upper)
        lost += (self.error + here) * (1.0 + radius + here)
        return bound - paid(lost, attained.negligible)


@dataclass(frozen=True, slots=True, eq=False)
class BundleSolution:
    """Solution of the reduced problem."""

    w: Array
    lower_bound: float
    model: float
    """The model's risk at ``w`` (the papers' xi)."""
    n_active: int
    dual: DualPoint
