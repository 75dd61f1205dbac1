"""Weights that must not be negative, in the reduced problem of a bundle.

With u = - sum_j alpha_j a_j and N the coordinates that must not be negative, the dual is

    D(alpha) = <b, alpha> - 1/2 sum_{k not in N} u_k^2 - 1/2 sum_{k in N} max(u_k, 0)^2,

concave, smooth, and quadratic on every piece where the *clipped* set A = {k in N: u_k < 0} does not change.
On the piece of the current alpha it agrees, in value and gradient, with

    D_A(alpha) = <b, alpha> - 1/2 sum_{k not in A} u_k^2,

an ordinary reduced problem whose Gram matrix leaves out A. (Where the bound is a floor f_k instead of zero,
a clipped coordinate contributes f_k u_k - f_k^2 / 2 to what is subtracted: linear, a change of the offsets.)
Its maximiser is therefore a direction of ascent for D, and one step is: maximise D_A, search the segment
exactly (its kinks are where some u_k changes its sign), take the new A. When the full step changes no sign
the point maximises D. Each step raises D and there are finitely many pieces; a handful of steps is usual, and
none where A stayed as it was.

D of any feasible alpha is a true bound, so stopping early never spoils a certificate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray


class SignedPart:
    """What a bundle keeps for the coordinates that must not be negative.

    Parameters
    ----------
    indices : array of int
        The coordinates.
    floor : array
        What they must not fall below.

    Attributes
    ----------
    clipped : array of bool
        The set A: those that are below their floor at the bundle's present multipliers.
    is_stale : bool
        Whether the planes have moved since.
    """

    def __init__(self, indices: IntArray, floor: Array) -> None:
        self.indices, self.floor = indices, floor
        self.clipped: npt.NDArray[np.bool_] = floor > 0.0  # of all multipliers zero
        self.is_stale = False
        self._parts: Array = np.empty((0, len(indices)))
        # products of the planes over all *other* penalised coordinates: a Gram matrix for another A is built
        # from them, since subtracting what A contributed would drown small entries in rounding
        self._others: Array = np.empty((0, 0))

    def append(self, part: Array, others: Array) -> Array:
        """Take a plane by its entries here and its products elsewhere (itself last); its row of the Gram
        matrix."""
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
        """Forget all planes but these."""
        self._parts = self._parts[kept]
        self._others = self._others[np.ix_(kept, kept)]

    def clip_at(self, beta: Array, unit: float) -> None:
        """Take the set A anew from the multipliers, in units of ``unit``: the planes have moved."""
        self.clipped, self.is_stale = -(beta @ self._parts) < self.floor / unit, False

    def gram(self) -> Array:
        """The Gram matrix of the planes without the clipped coordinates."""
        shown = self._parts[:, ~self.clipped]
        matrix: Array = self._others + shown @ shown.T
        return matrix

    def clipped_values(self) -> Array:
        """What the clipped coordinates, at their floors, add to the planes' offsets."""
        at = self.clipped
        values: Array = self._parts[:, at] @ self.floor[at]
        return values

    def search(
        self, c: Array, before: Array, after: Array, unit: float
    ) -> tuple[float, npt.NDArray[np.bool_], float]:
        """The step t in [0, 1] of largest D between two points, what is clipped there, and D's slope at 0.

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
