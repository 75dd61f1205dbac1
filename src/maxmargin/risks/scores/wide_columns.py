"""The columns of :mod:`maxmargin.risks.scores.wide` at the driver: used slots and inner products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector, frozen

Mix = tuple[Any, Any]
"""A combination of columns: their slots, ascending, and the coefficients."""

#: maximum bytes for the columns of all shards together, unless the number of planes is set
MEMORY = 2**31
#: minimum and maximum number of planes of a bundle; in between, as many as fit
MIN_PLANES, MAX_PLANES = 8, 1000


@dataclass(frozen=True, slots=True)
class MixStep:
    """Columns were dropped and others combined."""

    kept: list[int]
    mixed: dict[int, Mix]


class WideColumns:
    """The driver's record of the columns: the slots that are used, and the inner products of their planes.

    Parameters
    ----------
    size : int
        Number of scores of all rows.
    max_planes : int
        Maximum number of planes in a bundle.
    """

    def __init__(self, size: int, max_planes: int) -> None:
        self.size, self.max_planes = size, max_planes
        #: number of slots: for a bundle, the incumbent, the dual point and a reserve
        self.capacity = max_planes + max_planes // 4 + 16
        # how often slots were reassigned, used slots and the Gram matrix change in one assignment, since
        # Ctrl-C may come at any time
        self._now: tuple[int, list[int], Array] = (0, [], np.zeros((0, 0)))

    @property
    def n_mixes(self) -> int:
        """How many times slots were reassigned."""
        return self._now[0]

    @property
    def used(self) -> list[int]:
        """Slots that hold a column, ascending."""
        return self._now[1]

    def free(self) -> list[int]:
        """Slots that hold no column, ascending."""
        return sorted(set(range(self.capacity)).difference(self.used))

    def times_gram(self, u: Array) -> Array:
        """``G u``."""
        gram = self._now[2]
        m = min(len(gram), len(u))
        out = np.zeros(len(u))
        out[:m] = gram[:m, :m] @ u[:m]
        return out

    def add(self, slot: int, products: Array) -> None:
        """Add a column, given its products with those in the first slots."""
        n_mixes, used, gram = self._now
        m = len(products)
        if m > len(gram):
            larger = np.zeros((min(self.capacity, 2 * m),) * 2)
            larger[: len(gram), : len(gram)] = gram
            gram = larger
        gram[slot, :m] = products
        gram[:m, slot] = products
        self._now = n_mixes, sorted([*used, slot]), gram

    def mix(self, step: MixStep) -> None:
        """Keep some columns and replace others by combinations."""
        n_mixes, _, gram = self._now
        change = np.zeros_like(gram)
        change[step.kept, step.kept] = 1.0
        for slot, (slots, factors) in step.mixed.items():
            change[slots, slot] = factors
        self._now = n_mixes + 1, sorted([*step.kept, *step.mixed]), change.T @ gram @ change

    def emptied(self) -> WideColumns:
        """A record without columns, in which slots count as reassigned."""
        out = WideColumns(self.size, self.max_planes)
        out._now = self.n_mixes + 1, [], out._now[2]
        return out

    def restore(self, used: IntArray, coef: Array, scores: Array) -> None:
        """Replace the columns by these, one row of coefficients and one of scores each."""
        gram = np.zeros((self.capacity, self.capacity))
        products = coef @ scores.T
        gram[np.ix_(used, used)] = 0.5 * (products + products.T)
        self._now = self.n_mixes, used.tolist(), gram


@dataclass(frozen=True, slots=True, eq=False)
class GramNorm(SquaredNorm):
    """1/2 |w|^2 for points that are combinations of planes."""

    times_gram: Callable[[Array], Array] = field(default=lambda u: u)

    def penalized(self, u: Array) -> Array:
        """The vector whose ordinary inner product with another combination is <w, w'>."""
        return self.times_gram(u)


def planes_that_fit(size: int) -> int:
    """The number of planes whose columns, for this many scores, fit in MEMORY."""
    return int(np.clip(MEMORY // (20 * max(1, size)), MIN_PLANES, MAX_PLANES))


def mix_of(v: Vector) -> Mix:
    """A vector over slots as a combination."""
    if isinstance(v, SparseVector):
        return v.indices, v.values
    slots = np.flatnonzero(v)
    return slots, v[slots]


def unit(slot: int, size: int) -> SparseVector:
    """The plane in a slot."""
    return SparseVector(np.array([slot]), np.ones(1), size)


def tidied(vectors: Sequence[Vector], size: int) -> tuple[MixStep, list[Vector]]:
    """A step after which each of the vectors is a column (or zero), and the vectors after it."""
    mixes = [mix_of(v) for v in vectors]
    alone = [len(slots) == 1 and float(factors[0]) == 1.0 for slots, factors in mixes]
    kept = sorted({int(mix[0][0]) for mix, is_alone in zip(mixes, alone, strict=True) if is_alone})
    free = iter(sorted(set(range(size)).difference(kept)))
    mixed: dict[int, Mix] = {}
    places: dict[int, int] = {}  # by identity: a vector may occur more than once
    after: list[Vector] = []
    for v, mix, is_alone in zip(vectors, mixes, alone, strict=True):
        if is_alone or not len(mix[0]):
            after.append(v)
            continue
        if id(v) not in places:
            places[id(v)] = next(free)
            mixed[places[id(v)]] = mix
        plane = unit(places[id(v)], size)
        after.append(plane if isinstance(v, SparseVector) else frozen(plane.to_dense()))
    return MixStep(kept, mixed), after
