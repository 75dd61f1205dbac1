"""Nonnegative weights in the reduced problem of a bundle.

With u = - sum_j alpha_j a_j and N the coordinates constrained to be nonnegative, the dual is

    D(alpha) = <b, alpha> - 1/2 sum_{k not in N} u_k^2 - 1/2 sum_{k in N} max(u_k, 0)^2

This is concave, smooth, and quadratic on every piece where the *clipped* set A = {k in N: u_k < 0} is
constant. On the piece of the current alpha it agrees, in value and gradient, with

    D_A(alpha) = <b, alpha> - 1/2 sum_{k not in A} u_k^2,

an ordinary reduced problem whose Gram matrix omits A. (With a floor f_k instead of zero, a clipped coordinate
subtracts f_k u_k - f_k^2 / 2, which is linear: a change of the offsets.) Its maximizer is therefore an ascent
direction for D. Each step maximizes D_A, searches the segment exactly (its kinks are where some u_k changes
its sign), and updates A. If the full step changes no sign, the point maximizes D. Each step increases D and
there are finitely many pieces. A few steps are typical, and one is enough if A did not change.

D(alpha) is a valid bound for every feasible alpha, so early stopping never invalidates a certificate.

References:

- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: section 5,
  equations (30) to (32), for cutting planes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray


class SignedPart:
    """A bundle's data for the nonnegative coordinates.

    Parameters
    ----------
    indices : array of int
        The nonnegative coordinates.
    floor : array
        Their lower bounds.

    Attributes
    ----------
    clipped : array of bool
        The set A: coordinates below their floor at the bundle's current multipliers.
    is_stale : bool
        Whether the planes have moved since ``clipped`` was computed.
    """

    def __init__(self, indices: IntArray, floor: Array) -> None:
        self.indices, self.floor = indices, floor
        self.clipped: npt.NDArray[np.bool_] = floor > 0.0  # at zero multipliers
        self.is_stale = False
        self._parts: Array = np.empty((0, len(indices)))
        # Products of the planes over all *other* penalized coordinates. The Gram matrix for another A is
        # built from them: subtracting the contribution of A would lose small entries to rounding.
        self._others: Array = np.empty((0, 0))

    def append(self, part: Array, others: Array) -> Array:
        """Add a plane, given its entries here and its products elsewhere (with itself last). Return its row
        of the Gram matrix."""
        m = len(self._parts)
        grown = np.empty((m + 1, m + 1))
        grown[:m, :m] = self._others
        grown[m] = grown[:, m] = others
        self._others = grown
        self._parts = np.concatenate([self._parts, part[None]])
        shown = ~self.clipped
        row: Array = others + self._parts[:, shown] @ part[shown]
        return row

    def keep(self, kept: IntArray) -> None:
        """Drop all planes except these."""
        self._parts = self._parts[kept]
        self._others = self._others[np.ix_(kept, kept)]

    def clip_at(self, beta: Array, unit: float) -> None:
        """Recompute the set A from the multipliers, in units of ``unit``, after the planes have moved."""
        self.clipped, self.is_stale = -(beta @ self._parts) < self.floor / unit, False

    def gram(self) -> Array:
        """The Gram matrix of the planes without the clipped coordinates."""
        shown = self._parts[:, ~self.clipped]
        matrix: Array = self._others + shown @ shown.T
        return matrix

    def clipped_values(self) -> Array:
        """The clipped coordinates' contribution, at their floors, to the planes' offsets."""
        at = self.clipped
        values: Array = self._parts[:, at] @ self.floor[at]
        return values

    def search(
        self, c: Array, before: Array, after: Array, unit: float
    ) -> tuple[float, npt.NDArray[np.bool_], float]:
        """The step t in [0, 1] that maximizes D between two points, the clipped set there, and the slope of D
        at 0.

        ``c`` are the offsets, ``before`` and ``after`` the multipliers of the planes, all in units of
        ``unit``.
        """
        move = after - before
        u, du = -(before @ self._parts), -(move @ self._parts)
        curved = self._others @ move
        level, bend = float(c @ move - before @ curved), float(move @ curved)
        floor = self.floor / unit

        def slope(t: float) -> float:
            return level - t * bend - float(np.maximum(u + t * du, floor) @ du)

        t, outlook = 1.0, slope(0.0)
        if slope(1.0) < 0.0:
            crossing = (u - floor) * du < 0.0
            kinks = (floor - u)[crossing] / du[crossing]
            ends = np.concatenate([[0.0], np.sort(kinks[kinks < 1.0]), [1.0]])
            lo, hi = 0, len(ends) - 1
            while hi - lo > 1:
                middle = (lo + hi) // 2
                lo, hi = (middle, hi) if slope(float(ends[middle])) >= 0.0 else (lo, middle)
            left, right = slope(float(ends[lo])), slope(float(ends[hi]))
            share = left / (left - right) if left > 0.0 else 0.0
            t = float(ends[lo] + share * (ends[hi] - ends[lo]))
        return t, u + t * du < floor, outlook
