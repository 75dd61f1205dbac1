"""Bundles that learn from each other: planes kept in parts that every weighting of them shares.

Problems that differ only in how they weigh K parts of one risk (the classes, in a grid of class
weights) and in C,

    min  Omega(w) + C sum_k s_k R_k(w),

have cuts in common. A cut of each part at any point, R_k(v) >= b_k + <a_k, v>, gives for *every*
weighting s a cut of its own:

    offset  sum_k s_k b_k,      plane  sum_k s_k a_k,

so a plane that one problem paid a pass for serves all the others for nothing. A pool holds the
parts. To hand every plane to every problem would make all reduced problems large; so after solving
its own, a bundle looks up which planes of the pool lie above its model at the solution, takes the
highest of them and solves again: an oracle that costs a product with the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import BundleSolution
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Attained
from maxmargin.core.vectors import Array

#: planes taken from the pool at a time, and how often in one solve
TAKE, ROUNDS = 3, 3
#: a plane of the pool is worth taking if it lifts the model by this many tolerances of the solve
WORTH = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class PartedCut(Cut):
    """A cut, and the parts of which it is the weighted sum: ``offset = scale @ offsets``."""

    offsets: Array = field(kw_only=True)
    """One per part."""
    planes: Array = field(kw_only=True)
    """One row per part."""


class PlanePool:
    """Cuts in parts, the newest ``room`` of them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core.shared_bundle import PlanePool
    >>> pool = PlanePool(dim=1, n_parts=2)
    >>> pool.add(np.array([1.0, 2.0]), np.array([[-1.0], [3.0]]))
    >>> pool.values(np.array([1.0, 10.0]), np.array([0.5]))
    array([35.5])
    """

    def __init__(self, dim: int, n_parts: int, room: int = 4096) -> None:
        self.dim, self.n_parts, self.room = dim, n_parts, room
        self.count = 0
        self._offsets: Array = np.empty((16, n_parts))
        self._planes: Array = np.empty((16, n_parts, dim))

    def __len__(self) -> int:
        return min(self.count, self.room)

    def add(self, offsets: Array, planes: Array) -> None:
        """Take a cut; when the pool is full the oldest leaves."""
        place = self.count % self.room
        if place == len(self._offsets):
            size = min(2 * place, self.room)
            self._offsets = np.concatenate([self._offsets, np.empty((size - place, self.n_parts))])
            more = np.empty((size - place, self.n_parts, self.dim))
            self._planes = np.concatenate([self._planes, more])
        self._offsets[place], self._planes[place] = offsets, planes
        self.count += 1

    def values(self, scale: Array, w: Array) -> Array:
        """The value at ``w`` of every cut, weighted by ``scale``."""
        m = len(self)
        values: Array = (self._offsets[:m] + self._planes[:m] @ w) @ scale
        return values

    def cut(self, j: int, scale: Array) -> Cut:
        """One cut, weighted."""
        return Cut(float(self._offsets[j] @ scale), scale @ self._planes[j])


class PooledBundle(Bundle):
    """The bundle of one weighting, which gives to the pool and takes from it."""

    def __init__(
        self,
        pool: PlanePool,
        scale: Array,
        *,
        base: float = 0.0,
        regularizer: SquaredNorm | None = None,
        max_planes: int | None = None,
        idle: int = 50,
    ) -> None:
        super().__init__(
            pool.dim, base=base, regularizer=regularizer, max_planes=max_planes, idle=idle
        )
        self.pool, self.scale = pool, scale

    def add(self, cuts: Sequence[Cut]) -> None:
        """Add a cut here, and its parts to the pool."""
        super().add(cuts)
        for cut in cuts:
            if isinstance(cut, PartedCut):
                self.pool.add(cut.offsets, cut.planes)

    def solve(
        self,
        C: float,
        tol: float = 0.0,
        attained: Attained | None = None,
        *,
        precise: bool = False,
    ) -> BundleSolution:
        """Solve the reduced problem, with what the pool can add to it."""
        solution = super().solve(C, tol, attained, precise=precise)
        for _ in range(ROUNDS):
            above = self.pool.values(self.scale, solution.w) - solution.model
            least = max(WORTH * tol / C, 1e-9 * abs(solution.model))
            best = np.argsort(-above, kind="stable")[:TAKE]
            best = best[above[best] > least]
            if not len(best):
                break
            for j in best:
                super().add([self.pool.cut(int(j), self.scale)])
            solution = super().solve(C, tol, attained, precise=precise)
        return solution
