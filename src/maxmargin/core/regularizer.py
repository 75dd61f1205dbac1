"""Omega(w) = 1/2 sum of w_k^2 over the penalised coordinates.

Coordinates in ``free`` (an intercept that is not penalised) cost nothing. The dual then needs
``sum_j alpha_j a_j[free] = 0``; a residual r makes the dual value minus infinity unless the
optimum's free coordinates are known to be bounded. ``free_bound`` is such a bound, |v*_k| <=
free_bound, and ``|r|_1 * free_bound`` is what a lower bound must give away for a residual.

Coordinates in ``nonnegative`` must not be negative. With u = - sum_j alpha_j a_j the dual point's w is
``primal(u)``, u with those coordinates clipped at zero, and D(alpha) = <b, alpha> - 1/2 |primal(u)|^2.
(u itself must be kept: clipping it in place would forget how far it was below zero.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.core.vectors import Array, IntArray, Vector, entries


def _no_indices() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SquaredNorm:
    """Half the squared norm of all coordinates but the ``free`` ones; some must not be negative."""

    free: IntArray = field(default_factory=_no_indices)
    free_bound: float = 0.0
    nonnegative: IntArray = field(default_factory=_no_indices)

    def __post_init__(self) -> None:
        both = np.intersect1d(self.free, self.nonnegative)
        if len(both):
            raise ValueError(
                f"coordinate {both[0]} is both free and nonnegative: one that is not penalised cannot be "
                "kept from becoming negative."
            )

    def primal(self, u: Array) -> Array:
        """The w that minimises Omega(w) - <u, w> over what is allowed: u, clipped where it must be."""
        if len(self.nonnegative):
            u = u.copy()
            u[self.nonnegative] = np.maximum(u[self.nonnegative], 0.0)
        return u

    def inner(self, u: Array, v: Array) -> float:
        """The inner product on penalised coordinates."""
        return float(self.penalised(u) @ v)

    def penalised(self, u: Array) -> Array:
        """``u`` with its free coordinates set to zero.

        (Subtracting their share from a product instead would drown small weights in rounding.)
        """
        if len(self.free):
            u = u.copy()
            u[self.free] = 0.0
        return u

    def value(self, w: Array) -> float:
        """Omega(w)."""
        return 0.5 * self.inner(w, w)

    def free_part(self, plane: Vector) -> Array:
        """The plane's entries in the free coordinates."""
        return entries(plane, self.free)

    def step_limit(self, w: Array, direction: Array) -> float:
        """The longest step from ``w`` that leaves no nonnegative coordinate below zero."""
        at, change = w[self.nonnegative], direction[self.nonnegative]
        falls = change < 0.0
        if not falls.any():
            return float("inf")
        limit = float((at[falls] / -change[falls]).min())
        # a little short of the wall, so that rounding does not carry the point through it
        return limit * (1.0 - min(0.5, 1e-12 * max(1.0, limit)))
