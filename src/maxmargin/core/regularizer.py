"""The regularizer Omega(w) = 1/2 sum of w_k^2 over the penalized coordinates.

Coordinates in ``free`` (an unpenalized intercept) cost nothing. The dual then requires
``sum_j alpha_j a_j[free] = 0``. A residual r makes the dual value minus infinity, unless the free coordinates
of the optimum are known to be bounded. ``free_bound`` is such a bound of all |v*_k|, and
``|r|_1 * free_bound`` is subtracted from the lower bound for a residual. Such bounds grow with the norm of
the other coordinates, which is at most sqrt(2 F): an attained F gives a smaller one than F at the first point
(:meth:`SquaredNorm.free_limit`).

Coordinates in ``nonnegative`` must not be negative, or not below their ``floor``. The dual point's w is
``primal(u)``, which is u with those coordinates clipped:

    u = - sum_j alpha_j a_j,     D(alpha) = <b, alpha> - conjugate(u)
    conjugate(u) = max over feasible w of <u, w> - Omega(w) = <u, primal(u)> - Omega(primal(u))

This is 1/2 |primal(u)|^2 if all floors are zero. (u itself must be kept: clipping it in place would lose how
far it was below its floor.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from maxmargin.core.vectors import Array, IntArray, Vector, entries


def _no_indices() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SquaredNorm:
    """Half the squared norm of all coordinates except the ``free`` ones. Those in ``nonnegative`` must not be
    below their ``floor``, which is zero by default."""

    free: IntArray = field(default_factory=_no_indices)
    free_bound: float = 0.0
    nonnegative: IntArray = field(default_factory=_no_indices)
    floor: Array | None = None
    #: the same bound at an optimum of norm r is at most ``free_near + free_growth * r``
    free_near: float = float("inf")
    free_growth: float = 0.0

    def __post_init__(self) -> None:
        if not (len(self.free) and len(self.nonnegative)):
            return
        both = np.intersect1d(self.free, self.nonnegative)
        if len(both):
            raise ValueError(
                f"coordinate {both[0]} is both free and nonnegative: an unpenalized coordinate cannot be "
                "constrained to be nonnegative."
            )

    def primal(self, u: Array) -> Array:
        """The w that minimizes Omega(w) - <u, w> over the feasible set: u, clipped at the floors."""
        if len(self.nonnegative):
            u = u.copy()
            u[self.nonnegative] = np.maximum(u[self.nonnegative], self.floors)
        return u

    @property
    def floors(self) -> Array:
        """The lower bounds of the nonnegative coordinates."""
        return np.zeros(len(self.nonnegative)) if self.floor is None else self.floor

    def conjugate(self, u: Array, w: Array) -> float:
        """max of <u, w> - Omega(w) over the feasible set, given its maximizer ``w = primal(u)``."""
        if self.floor is None:
            return self.value(w)
        # |w|^2 / 2 + <u - w, w>: the second term is nonzero where w was clipped to a nonzero floor
        here = self.nonnegative
        return self.value(w) + float((u[here] - w[here]) @ w[here])

    def inner(self, u: Array, v: Array) -> float:
        """The inner product over the penalized coordinates."""
        return float(self.penalized(u) @ v)

    def penalized(self, u: Array) -> Array:
        """``u`` with its free coordinates set to zero.

        (Subtracting their contribution from a product instead would lose small weights to rounding.)
        """
        if len(self.free):
            u = u.copy()
            u[self.free] = 0.0
        return u

    def value(self, w: Array) -> float:
        """Omega(w)."""
        return 0.5 * float(self.penalized(w) @ w)

    def with_free(self, free: IntArray, near: float, growth: float, first: float) -> SquaredNorm:
        """The same with these free coordinates, which at an optimum of norm r are at most
        ``near + growth * r``, where ``first`` is an attained value of F."""
        bound = near + growth * float(np.sqrt(2.0 * first))
        near, growth = float(near), float(growth)
        return replace(self, free=free, free_bound=bound, free_near=near, free_growth=growth)

    def free_limit(self, upper: float) -> float:
        """A bound on the free coordinates of an optimal w, given an attained value of F."""
        norm = float(np.sqrt(2.0 * max(0.0, upper)))
        if not self.free_growth > 0.0:  # infinity times zero
            return min(self.free_bound, self.free_near)
        return min(self.free_bound, self.free_near + self.free_growth * norm)

    def near(self, upper: float) -> SquaredNorm:
        """The same with the bound on the free coordinates that an attained value of F implies."""
        return replace(self, free_bound=self.free_limit(upper)) if len(self.free) else self

    def radius(self, upper: float) -> float:
        """A bound on the norm of an optimal w, given an attained value of F."""
        norm = float(np.sqrt(2.0 * max(0.0, upper)))
        return norm + (self.free_limit(upper) * len(self.free) if len(self.free) else 0.0)

    def free_part(self, plane: Vector) -> Array:
        """The plane's entries in the free coordinates."""
        return entries(plane, self.free)

    def step_limit(self, w: Array, direction: Array) -> float:
        """The longest step from ``w`` that keeps all nonnegative coordinates at or above their floors."""
        if not len(self.nonnegative):
            return float("inf")
        at, change = w[self.nonnegative] - self.floors, direction[self.nonnegative]
        falls = change < 0.0
        if not falls.any():
            return float("inf")
        limit = float((at[falls] / -change[falls]).min())
        # slightly shorter, so that rounding does not push the point below a floor
        return limit * (1.0 - min(0.5, 1e-12 * max(1.0, limit)))
