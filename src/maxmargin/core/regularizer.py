"""Omega(w) = 1/2 sum of w_k^2 over the penalised coordinates.

Coordinates in ``free`` (an intercept that is not penalised) cost nothing. The dual then needs
``sum_j alpha_j a_j[free] = 0``; a residual r makes the dual value minus infinity unless the
optimum's free coordinates are known to be bounded. ``free_bound`` is such a bound, |v*_k| <=
free_bound, and ``|r|_1 * free_bound`` is what a lower bound must give away for a residual.

Coordinates in ``nonnegative`` must not be negative, or not below their ``floor``. With u = - sum_j alpha_j
a_j the dual point's w is ``primal(u)``, u with those coordinates clipped, and D(alpha) = <b, alpha> -
conjugate(u), where

    conjugate(u) = max over allowed w of <u, w> - Omega(w) = <u, primal(u)> - Omega(primal(u)),

which is 1/2 |primal(u)|^2 where all floors are zero. (u itself must be kept: clipping it in place would
forget how far it was below its floor.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.core.vectors import Array, IntArray, Vector, entries


def _no_indices() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SquaredNorm:
    """Half the squared norm of all coordinates but the ``free`` ones; some must not be negative, or not
    below a ``floor``: one number each, zero by default."""

    free: IntArray = field(default_factory=_no_indices)
    free_bound: float = 0.0
    nonnegative: IntArray = field(default_factory=_no_indices)
    floor: Array | None = None

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
            u[self.nonnegative] = np.maximum(u[self.nonnegative], self.floors)
        return u

    @property
    def floors(self) -> Array:
        """What the nonnegative coordinates must not fall below."""
        return np.zeros(len(self.nonnegative)) if self.floor is None else self.floor

    def conjugate(self, u: Array, w: Array) -> float:
        """max of <u, w> - Omega(w) over what is allowed, given its maximiser ``w = primal(u)``."""
        if self.floor is None:
            return self.value(w)
        # |w|^2 / 2 + <u - w, w>: the second part is not zero where w was clipped to a floor that is not
        here = self.nonnegative
        return self.value(w) + float((u[here] - w[here]) @ w[here])

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

    def radius(self, upper: float) -> float:
        """A bound of the norm of an optimal w, given a value that F attains."""
        return float(np.sqrt(2.0 * max(0.0, upper))) + self.free_bound * len(self.free)

    def free_part(self, plane: Vector) -> Array:
        """The plane's entries in the free coordinates."""
        return entries(plane, self.free)

    def step_limit(self, w: Array, direction: Array) -> float:
        """The longest step from ``w`` that leaves no nonnegative coordinate below its floor."""
        at, change = w[self.nonnegative] - self.floors, direction[self.nonnegative]
        falls = change < 0.0
        if not falls.any():
            return float("inf")
        limit = float((at[falls] / -change[falls]).min())
        # a little short of the wall, so that rounding does not carry the point through it
        return limit * (1.0 - min(0.5, 1e-12 * max(1.0, limit)))
