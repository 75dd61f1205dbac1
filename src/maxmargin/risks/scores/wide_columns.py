"""The record of how the columns of :mod:`maxmargin.risks.scores.wide` were made, and their inner products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.stored_values import count, entries, floats, integers
from maxmargin.core.vectors import Array, SparseVector, Vector, frozen

Mix = tuple[Any, Any]
"""A combination of columns: their slots, ascending, and the coefficients."""

#: maximum bytes for the columns of all shards together, unless the number of planes is set
MEMORY = 2**31
#: minimum and maximum number of planes of a bundle; in between, as many as fit
MIN_PLANES, MAX_PLANES = 8, 1000


@dataclass(frozen=True, slots=True)
class CutStep:
    """A new column: the cut at a point."""

    slot: int
    at: Mix
    offset: float


@dataclass(frozen=True, slots=True)
class MixStep:
    """Columns were dropped and others combined."""

    kept: list[int]
    mixed: dict[int, Mix]


class WideColumns:
    """The driver's record of the columns: how they were made, and their inner products.

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
        # steps, used slots and the Gram matrix change in one assignment, since Ctrl-C may come at any time
        self._now: tuple[list[CutStep | MixStep], list[int], Array] = ([], [], np.zeros((0, 0)))

    @property
    def steps(self) -> list[CutStep | MixStep]:
        """The steps that made the columns."""
        return self._now[0]

    @property
    def used(self) -> list[int]:
        """Slots that hold a column, ascending."""
        return self._now[1]

    @property
    def n_mixes(self) -> int:
        """How many times slots were reassigned."""
        return sum(isinstance(step, MixStep) for step in self.steps)

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

    def add(self, step: CutStep, products: Array) -> None:
        """Add a column, given its products with those in the first slots."""
        steps, used, gram = self._now
        m = len(products)
        if m > len(gram):
            larger = np.zeros((min(self.capacity, 2 * m),) * 2)
            larger[: len(gram), : len(gram)] = gram
            gram = larger
        gram[step.slot, :m] = products
        gram[:m, step.slot] = products
        self._now = [*steps, step], sorted([*used, step.slot]), gram

    def mix(self, step: MixStep) -> None:
        """Keep some columns and replace others by combinations."""
        steps, _, gram = self._now
        change = np.zeros_like(gram)
        change[step.kept, step.kept] = 1.0
        for slot, (slots, factors) in step.mixed.items():
            change[slots, slot] = factors
        used = sorted([*step.kept, *step.mixed])
        self._now = [*steps, step], used, change.T @ gram @ change

    def state(self) -> dict[str, Any]:
        """The state from which :meth:`from_state` continues, as plain arrays.

        A row is a cut (0), the columns that a mixing step kept (1), or a column that it made (2).
        """
        rows: list[tuple[int, int, float, Mix]] = []
        for step in self.steps:
            if isinstance(step, CutStep):
                rows.append((0, step.slot, step.offset, step.at))
            else:
                rows.append((1, 0, 0.0, (step.kept, np.ones(len(step.kept)))))
                rows += [(2, slot, 0.0, mix) for slot, mix in step.mixed.items()]
        sizes = [len(row[3][0]) for row in rows]
        parts = [np.zeros(0), *(np.asarray(row[3][k], np.float64) for k in (0, 1) for row in rows)]
        return {
            "size": self.size,
            "max_planes": self.max_planes,
            "kinds": np.array([row[0] for row in rows], dtype=np.int64),
            "slots": np.array([row[1] for row in rows], dtype=np.int64),
            "offsets": np.array([row[2] for row in rows]),
            "sizes": np.array(sizes, dtype=np.int64),
            "mixes": np.concatenate(parts),
            "gram": self._now[2],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> WideColumns:
        """Rebuild the record from :meth:`state`."""
        size, max_planes = entries(state, "size", "max_planes")
        columns = cls(count(size, "the scores"), count(max_planes, "the planes", 2, 2**20))
        kinds, slots, offsets, sizes, mixes, gram = _stored(state, columns.capacity)
        columns._now = [], [], gram
        ends = np.cumsum(sizes, dtype=np.int64)
        members, factors = mixes[: len(mixes) // 2].astype(np.int64), mixes[len(mixes) // 2 :]
        earlier: set[int] = set()  # slots in use before the last mixing step
        for k, (kind, slot) in enumerate(zip(kinds, slots, strict=True)):
            here = slice(int(ends[k] - sizes[k]), int(ends[k]))
            mix = members[here], factors[here]
            steps, used, _ = columns._now
            if kind == 1:
                earlier = set(used)
            # a step can only combine columns made before it
            before = earlier if kind == 2 else set(used)
            if not set(mix[0].tolist()) <= before or (kind == 0 and int(slot) in used):
                raise ValueError("columns are made of others that do not exist.")
            if kind == 0:
                step: CutStep | MixStep = CutStep(int(slot), mix, float(offsets[k]))
                steps, used = [*steps, step], sorted([*used, int(slot)])
            elif kind == 1:
                kept = [int(s) for s in mix[0]]
                steps, used = [*steps, MixStep(kept, {})], kept
            else:
                last = steps[-1] if steps else None
                if not isinstance(last, MixStep) or int(slot) in used:
                    raise ValueError("a combination of columns does not belong to a step.")
                last.mixed[int(slot)] = mix
                used = sorted([*used, int(slot)])
            columns._now = steps, used, gram
        if columns.used and columns.used[-1] >= len(gram):
            raise ValueError("some columns have no products.")
        return columns


def _stored(state: dict[str, Any], capacity: int) -> tuple[Any, ...]:
    """The arrays of a state, checked."""
    names = ("kinds", "slots", "offsets", "sizes", "mixes", "gram")
    kinds, slots, offsets, sizes, mixes, gram = entries(state, *names)
    kinds = integers(kinds, "the kinds of steps", (None,), below=3)
    slots = integers(slots, "the slots of steps", kinds.shape, below=capacity)
    offsets = floats(offsets, "the offsets of steps", kinds.shape)
    sizes = integers(sizes, "the sizes of steps", kinds.shape, below=capacity + 1)
    mixes = floats(mixes, "the combinations", (2 * int(sizes.sum()),))
    members = mixes[: len(mixes) // 2]
    if ((members < 0) | (members >= capacity) | (members != np.floor(members))).any():
        raise ValueError("combinations refer to columns that do not exist.")
    gram = floats(gram, "the products of columns", (None, None))
    if gram.shape[0] != gram.shape[1] or len(gram) > capacity:
        raise ValueError("the products of columns do not form a matrix of the right size.")
    return kinds, slots, offsets, sizes, mixes, gram.copy()


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
