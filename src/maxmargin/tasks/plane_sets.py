"""Working sets of any task's planes: the dual state of the coordinate solver.

The mathematics and the arithmetic are in :mod:`maxmargin.compiled.plane_sets`. This module holds the storage,
which grows so that a plane is never rejected, and the outputs that the planes belong to. Compiled calls are
atomic, and the code between them keeps the sets valid at any interrupt.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from maxmargin.checkpoints import UNKNOWN
from maxmargin.compiled import plane_sets as compiled
from maxmargin.compiled.plane_sets import PlaneSets
from maxmargin.core.checks import nonnegative
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.multiplier_sets import MultiplierSets
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.ragged import offsets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import (
    DENSE_ABOVE,
    Array,
    IntArray,
    SparseVector,
    Vector,
    add_scaled,
)
from maxmargin.tasks.base import Task
from maxmargin.tasks.stored_planes import check_planes, planes_state, some_outputs

#: initial capacity of planes per example, including that of the true output
FIRST_CAPACITY = 4
#: examples whose oracle calls see the same w: an engine answers them in parallel, for few more calls
#: (decision 129); at most this many, and fewer if a pass would have fewer than BATCHES batches, but two once
#: there are enough examples for two shards
BATCH, BATCHES, TWO_FROM = 16, 20, 16
#: number of planes compared with the task's when sets are restored
CHECKED = 20
_NO_INDICES = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Labeling:
    """An output with its plane and the plane's offset: its loss, plus the contribution of the prior mean."""

    y: Any
    loss: float
    plane: Vector


class PythonOracle(Protocol):
    """The part of examples with a Python oracle that working sets need."""

    @property
    def task(self) -> Task:
        """The task."""

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    def __len__(self) -> int:
        """Number of examples."""

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """Loss-augmented inference for the examples ``lo .. hi-1``."""

    def labeling(self, i: int, found: Any) -> tuple[Labeling, float]:
        """An output of example i with its plane, and its loss."""

    def truth(self, i: int) -> Any:
        """The true output of example i."""

    def eager(self) -> PythonOracle:
        """The same examples with a faster oracle that may return less than the maximum."""


class PlainWorkingSets(MultiplierSets):
    """See :class:`maxmargin.core.WorkingSets`."""

    _stored: PlaneSets

    def __init__(
        self, examples: PythonOracle, caps: Array, regularizer: SquaredNorm | None = None
    ) -> None:
        n = len(examples)
        caps = nonnegative("caps", caps, (n,), ", one per example").copy()
        self._examples = examples
        self._regularizer = regularizer or SquaredNorm()
        self._u: Array = np.zeros(examples.dim)
        self._w, self._floor = self._u, np.empty(0)
        if len(self._regularizer.nonnegative):
            self._w, self._floor = self._regularizer.primal(self._u), np.full(examples.dim, -np.inf)
            self._floor[self._regularizer.nonnegative] = self._regularizer.floors
        self._scratch: Array = np.zeros(examples.dim)
        self._outputs: dict[int, Any] = {}
        self._keys = itertools.count(1)
        self._stored = self._storage(caps, np.full(n, FIRST_CAPACITY), 0, 0)
        self._stored.gaps[:] = np.where(caps > 0.0, np.inf, 0.0)
        self._stored.counts[:] = 1
        self._stored.alpha[self._stored.first] = caps

    @property
    def _truths(self) -> IntArray:
        return self._stored.first

    @property
    def _sizes(self) -> IntArray:
        return self._stored.room

    @property
    def n_planes(self) -> int:
        """Number of planes, without those of the true outputs."""
        return int(self._stored.counts.sum()) - self.n_examples

    @property
    def batch_size(self) -> int:
        """See :class:`maxmargin.core.WorkingSets`."""
        n = self.n_examples
        return max(2 if n >= TWO_FROM else 1, min(BATCH, n // BATCHES))

    def attach(self, w: Array, other: Self | None = None) -> None:
        """See :class:`MultiplierSets`. Not for weights that must not be negative."""
        self._u = self._w = w
        if other is not None:
            self._scratch = other._scratch

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._tick += 1
        calls = new = 0
        total = 0.0
        for i in map(int, order):
            gap = float(self._stored.gaps[i])
            if self._stored.caps[i] > 0.0 and gap >= skip_below:
                answer = self._examples.oracle(self._w, i, i + 1)
                calls += 1
                new += self._take(i, answer.labelings[0])
                gap = compiled.visit(
                    self._stored, self._u, self._w, self._floor, i, answer.values[0], self._tick
                )
            total += gap
        return SweepStats(calls, total, new)

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        new = 0
        total = 0.0
        for answer in answers:
            i = answer.lo
            new += self._take(i, answer.labelings[0])
            total += compiled.visit(self._stored, self._u, self._w, self._floor, i, 0.0, self._tick)
        return SweepStats(len(answers), total, new)

    def epoch(self, order: IntArray) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        gap = compiled.epoch_sweep(self._stored, self._u, self._w, self._floor, order)
        return SweepStats(0, gap, 0)

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._tick += 1
        value: list[float] = []
        upper: list[float] = []
        for part in answers:
            caps = self._stored.caps[part.lo : part.hi]
            self._take_all(part)
            compiled.confirm_range(self._stored, self._w, part.lo, part.hi, part.values, self._tick)
            value.extend(caps * part.values)
            upper.extend(caps * part.uppers)
        return math.fsum(value), math.fsum(upper)

    def drop_idle(self, age: int) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        dropped = np.empty(self.n_planes, dtype=np.int64)
        count = compiled.drop_planes(self._stored, self._tick - age + 1, dropped)
        for key in dropped[:count]:
            del self._outputs[int(key)]
        if count:
            live = _live(self._stored.size, self._stored)
            if live < 0.5 * self._stored.fill[0]:
                self._repack(self._stored.room, live, _live(self._sparse_sizes(), self._stored))

    def _restart(self) -> float:
        offset = float(compiled.restart(self._stored, self._u))
        if len(self._floor):
            self._w[:] = self._regularizer.primal(self._u)
        return offset - self._regularizer.conjugate(self._u, self._w)

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.WorkingSets`."""
        return planes_state(self._stored, self._outputs, self._tick)

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        check_planes(state, self._stored.caps, self._examples.dim)
        # convert to fixed types: other types would be compiled again
        counts, sizes = (state[name].astype(np.int64) for name in ("counts", "sizes"))
        dense = state["is_dense"]
        values, indices = state["values"], state["indices"].astype(self._stored.indices.dtype)
        self._tick = int(state["tick"])
        self._outputs.clear()
        self._stored = self._storage(self._stored.caps, counts + 2, len(values), len(indices))
        self._stored.counts[:] = 1
        outputs = iter(state["outputs"])
        begin, place = offsets(sizes), offsets(np.where(dense, 0, sizes))
        slot = 0
        for i, count in enumerate(counts.tolist()):
            for j in range(count):
                if j:
                    numbers = values[begin[slot] : begin[slot] + sizes[slot]]
                    at = indices[place[slot] : place[slot] + (0 if dense[slot] else sizes[slot])]
                    loss = float(state["loss"][slot])
                    self._put(i, at, numbers, bool(dense[slot]), loss, next(outputs))
                where = self._stored.first[i] + j
                self._stored.alpha[where] = state["alpha"][slot]
                self._stored.used[where] = state["used"][slot]
                slot += 1
        self._stored.gaps[:] = state["gaps"]
        self._check_some(state)
        self.dual_value()

    def _check_some(self, state: dict[str, Any]) -> None:
        """Recompute the features of a few outputs and compare them with the stored numbers. A task whose
        ``setup`` numbers features in a different order in every process would make the bounds invalid."""
        for i, j, output in some_outputs(state, CHECKED):
            plane, held = self._scratch.copy(), self._scratch.copy()
            try:
                labeling = self._examples.labeling(i, output)[0]
            except Exception as error:  # the task's own exception for an impossible output
                raise ValueError(
                    f"an output of example {i} does not belong to this task."
                ) from error
            add_scaled(plane, 1.0, labeling.plane)
            add_scaled(held, 1.0, self._plane(int(self._stored.first[i]) + j))
            if not np.allclose(held, plane, 1e-9, 1e-12 * (1.0 + float(np.abs(plane).max()))):
                raise ValueError(
                    f"the features of an output of example {i} differ from the stored ones: setup of "
                    f"{type(self._examples.task).__name__} must number features in the same order every "
                    "time (the order of a set differs from process to process)."
                )

    def _plane(self, slot: int) -> Vector:
        """The plane in a slot."""
        sets = self._stored
        begin, size, place = int(sets.begin[slot]), int(sets.size[slot]), int(sets.place[slot])
        values = sets.values[begin : begin + size]
        if place < 0:
            return values
        return SparseVector(sets.indices[place : place + size], values, self._examples.dim)

    def moved_to(
        self, examples: PythonOracle, changed: IntArray, wrong_only: bool
    ) -> PlainWorkingSets:
        """Continue with examples of which those in ``changed`` have a new true output; see
        :mod:`maxmargin.risks.structured.latent`.

        Outputs keep their multipliers. The old true output becomes an ordinary output, unless ``wrong_only``
        excludes it.
        """
        before, self._examples = self._examples, examples.eager()
        for i in map(int, changed):
            sets = self._stored
            base, m = int(sets.first[i]), int(sets.counts[i])
            alpha = sets.alpha[base : base + m].copy()
            outputs = [self._outputs.pop(int(key)) for key in sets.key[base + 1 : base + m]]
            sets.alpha[base : base + m] = 0.0
            sets.counts[i] = 1
            if wrong_only:
                sets.alpha[base] = alpha[0]
            else:
                outputs, alpha = [*outputs, before.truth(i)], np.append(alpha, alpha[0])
            for y, multiplier in zip(outputs, alpha[1:], strict=True):
                place = self._add(i, examples.labeling(i, y)[0])
                self._stored.alpha[self._stored.first[i] + place] += multiplier
        return self

    # -- new planes -------------------------------------------------------------------------------

    def _take_all(self, part: Answers) -> None:
        """Add the answers for a range of examples."""
        for i in range(part.lo, part.hi):
            if self._stored.caps[i] > 0.0:
                self._take(i, part.labelings[i - part.lo])

    def _key(self, output: Any) -> int:
        """A positive number for an output that is new."""
        return next(self._keys)

    def _take(self, i: int, answer: Labeling) -> bool:
        """Add an answer unless it is in the set; return True if it was new."""
        sets, same = self._stored, self._examples.task.same
        base, m = int(sets.first[i]), int(sets.counts[i])
        for slot in range(base + 1, base + m):
            if sets.loss[slot] != answer.loss:
                continue
            known = self._outputs[int(sets.key[slot])]
            if self._is_restored(slot, answer) if known is UNKNOWN else same(known, answer.y):
                sets.used[slot] = self._tick
                return False
        return self._add(i, answer) > 0

    def _is_restored(self, slot: int, answer: Labeling) -> bool:
        """Whether a constraint of a checkpoint, without its output, is this one: it has the same loss and
        plane."""
        indices, values, _ = self._numbers(answer.plane)
        held = self._plane(slot)
        if isinstance(held, SparseVector):
            same = np.array_equal(held.indices, indices) and np.array_equal(held.values, values)
        else:
            same = np.array_equal(held, values)
        if same:
            self._outputs[int(self._stored.key[slot])] = answer.y
        return same

    def _add(self, i: int, answer: Labeling) -> int:
        """Add a new plane; return its position among those of the example, 0 for the true output's plane."""
        indices, values, is_dense = self._numbers(answer.plane)
        sets = self._stored
        if (
            sets.counts[i] == sets.room[i]
            or sets.fill[0] + values.size > len(sets.values)
            or sets.fill[1] + indices.size > len(sets.indices)
        ):
            self._make_room(values.size, indices.size)
        return self._put(i, indices, values, is_dense, answer.loss, answer.y)

    def _put(
        self, i: int, indices: Any, values: Array, is_dense: bool, loss: float, output: Any
    ) -> int:
        """Store a plane where there is capacity for it; returns the same as :meth:`_add`."""
        key = self._key(output)
        # first the output, then the plane: an interrupt in between leaves an unused key
        self._outputs[key] = output
        place = compiled.insert(
            self._stored, i, indices, values, is_dense, loss, key, self._tick, self._scratch
        )
        if place == 0:  # the true output
            del self._outputs[key]
        return int(place)

    def _numbers(self, plane: Vector) -> tuple[Any, Array, bool]:
        """A plane as (indices, values, whether it is dense), in the smaller form."""
        kind, dim = self._stored.indices.dtype, self._examples.dim
        if isinstance(plane, SparseVector):
            indices = np.ascontiguousarray(plane.indices, dtype=kind)
            values = np.ascontiguousarray(plane.values, dtype=np.float64)
            if plane.size != dim or (
                len(indices) and not (indices.min() >= 0 and indices.max() < dim)
            ):
                raise ValueError(
                    f"a joint feature of size {plane.size} has indices outside 0 .. {dim - 1}: setup "
                    f"returned the dimension {dim}."
                )
            return indices, values, False
        values = np.ascontiguousarray(plane, dtype=np.float64)
        if values.shape != (dim,):
            raise ValueError(
                f"a joint feature has shape {values.shape}, but setup returned the dimension {dim}."
            )
        support = np.flatnonzero(values)
        if len(support) < DENSE_ABOVE * dim:
            return support.astype(kind), values[support], False
        return _NO_INDICES.astype(kind), values, True

    # -- storage ----------------------------------------------------------------------------------

    def _storage(self, caps: Array, room: IntArray, n_values: int, n_indices: int) -> PlaneSets:
        n_slots, kind = int(room.sum()), np.int32 if self._examples.dim < 2**31 else np.int64
        integers = np.zeros((5, n_slots), dtype=np.int64)
        return PlaneSets(
            caps=caps,
            gaps=np.zeros(len(caps)),
            counts=np.zeros(len(caps), dtype=np.int64),
            room=np.array(room),
            first=offsets(room),
            first_distance=offsets(room * room),
            alpha=np.zeros(n_slots),
            loss=np.zeros(n_slots),
            used=integers[0],
            key=integers[1],
            begin=integers[2],
            size=integers[3],
            place=integers[4],
            distances=np.zeros(int((room * room).sum())),
            values=np.empty(n_values),
            indices=np.empty(n_indices, dtype=kind),
            fill=np.zeros(2, dtype=np.int64),
        )

    def _make_room(self, n_values: int, n_indices: int) -> None:
        """Grow all full sets at once, with a reserve: the copy costs the same."""
        sets = self._stored
        n_values += int(sets.fill[0])
        n_indices += int(sets.fill[1])
        room = np.where(sets.counts == sets.room, sets.room + 2 + sets.room // 4, sets.room)
        self._repack(room, n_values + n_values // 2, n_indices + n_indices // 2)

    def _repack(self, room: IntArray, n_values: int, n_indices: int) -> None:
        old = self._stored
        new = self._storage(old.caps, room, n_values, n_indices)
        new.gaps[:] = old.gaps
        compiled.repack(old, new)
        self._stored = new

    def _sparse_sizes(self) -> IntArray:
        return np.where(self._stored.place >= 0, self._stored.size, 0)


def _live(sizes: IntArray, sets: PlaneSets) -> int:
    """Sum over the slots in use."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return int((starts[sets.first + sets.counts] - starts[sets.first]).sum())
