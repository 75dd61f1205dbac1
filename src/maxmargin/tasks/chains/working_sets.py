"""The dual variables of chains: for each example, a few labelings and their multipliers.

See :mod:`maxmargin.compiled.chain_dual` for the mathematics. This module holds the storage, which grows
between sweeps as needed, and computes the sums that become bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from maxmargin.compiled.chain import Chains
from maxmargin.compiled.chain_dual import (
    Scratch,
    block_squares,
    confirm_range,
    epoch_sweep,
    restart,
    stream_sweep,
)
from maxmargin.compiled.chain_insert import restore_planes
from maxmargin.compiled.chain_planes import Planes, drop_planes, first_planes, repack
from maxmargin.core.checks import nonnegative
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.multiplier_sets import MultiplierSets
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.ragged import MOST_PLANES, flat_ranges, offsets
from maxmargin.core.stored_values import count, entries, floats, integers
from maxmargin.core.vectors import Array, IntArray
from maxmargin.files.scratch import scratch_zeros

#: initial capacity of an example's working set, including the true labeling
FIRST_CAPACITY = 4


class ChainWorkingSets(MultiplierSets):
    """Working sets of all examples of a :class:`ChainExamples` (``core.WorkingSets``).

    Parameters
    ----------
    chains : Chains
        The packed examples.
    caps : (n,) array
        Upper bounds c_i = C s_i of the sum of multipliers of each example. Examples with cap 0 are never
        visited.
    on_disk : bool, default False
        Whether labelings and multipliers are in temporary files.
    """

    _stored: Planes

    def __init__(self, chains: Chains, caps: Array, on_disk: bool = False) -> None:
        self._zeros: Any = scratch_zeros if on_disk else np.zeros
        n = len(chains.starts) - 1
        caps = np.array(caps, dtype=np.float64)
        nonnegative("caps", caps, (n,), ", one per example")
        self._chains = chains
        self._lengths = np.diff(chains.starts)
        K = chains.cost.shape[0]
        self._w = np.zeros(chains.n_features * K + len(chains.penalty))
        self._stored = self._storage(caps, np.full(n, FIRST_CAPACITY))
        self._stored.gaps[:] = np.where(caps > 0.0, np.inf, 0.0)
        first_planes(chains.starts, chains.truth, self._stored)
        T = int(self._lengths.max(initial=0))
        self._scratch = Scratch(
            scores=np.zeros((T, K)),
            nodes=np.empty((T, K)),
            net=np.zeros((T, K)),
            mark=np.zeros((T, K), dtype=np.int64),
            stamp=np.zeros(1, dtype=np.int64),
            pairs=np.empty(T * K, dtype=np.int64),
            path=np.empty(T, dtype=chains.truth.dtype),
            place=np.full(chains.n_features, -1, dtype=np.int32),
            rows=np.zeros((_most_entries(chains), K)),
            tail=np.zeros(len(chains.penalty)),
        )

    # -- used by solvers --------------------------------------------------------------------------

    @property
    def _truths(self) -> IntArray:
        return self._stored.first_plane

    @property
    def _sizes(self) -> IntArray:
        return self._stored.room

    @property
    def n_planes(self) -> int:
        return int(self._stored.counts.sum()) - self.n_examples

    def attach(self, w: Array, other: Self | None = None) -> None:
        """See :class:`MultiplierSets`. A longer array has new features, which these sequences do not have."""
        self._w = w
        n_features = (w.size - len(self._chains.penalty)) // self._chains.cost.shape[0]
        self._chains = self._chains._replace(n_features=n_features)
        place = self._scratch.place if other is None else other._scratch.place
        if len(place) != n_features:
            place = np.full(n_features, -1, dtype=np.int32)
        self._scratch = self._scratch._replace(place=place)

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        self._tick += 1
        position, calls, added, gap = 0, 0, 0, 0.0
        while True:
            self._make_room(order[position:])
            position, more_calls, more, seen = stream_sweep(
                self._chains,
                self._stored,
                self._scratch,
                self._w,
                order,
                position,
                skip_below,
                self._tick,
            )
            calls, added, gap = calls + more_calls, added + more, gap + seen
            if position == len(order):
                return SweepStats(oracle_calls=calls, gap_estimate=gap, new_planes=added)

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        before, total = self.n_planes, 0.0
        self._make_room(np.array([part.lo for part in answers], dtype=np.int64))
        for part in answers:
            self._enter(part)
            gap = self.epoch(np.array([part.lo])).gap_estimate
            self._stored.gaps[part.lo] = gap
            total += gap
        return SweepStats(len(answers), total, self.n_planes - before)

    def epoch(self, order: IntArray) -> SweepStats:
        gap = epoch_sweep(self._chains, self._stored, self._scratch, self._w, order, self._tick)
        return SweepStats(oracle_calls=0, gap_estimate=gap, new_planes=0)

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        self._tick += 1
        self._make_room(np.arange(self.n_examples))
        caps = self._stored.caps
        values: list[float] = []
        uppers: list[float] = []
        covered = 0
        for part in answers:
            if caps[covered : part.lo].any():
                raise ValueError(
                    f"the answers skip from example {covered} to example {part.lo}: pass answers for all"
                )
            covered = part.hi
            self._enter(part)
            values.extend(caps[part.lo : part.hi] * part.values)
            uppers.extend(caps[part.lo : part.hi] * part.uppers)
        if caps[covered:].any():
            raise ValueError(
                f"there are answers for {covered} of {self.n_examples} examples only: pass answers for all"
            )
        return math.fsum(values), math.fsum(uppers)

    def _enter(self, part: Answers) -> None:
        """Add the answers to the working sets, which must have room for them, and update the gaps."""
        confirm_range(
            self._chains,
            self._stored,
            self._scratch,
            self._w,
            part.lo,
            part.hi,
            part.labelings,
            part.losses,
            part.values,
            self._tick,
        )

    def drop_idle(self, age: int) -> None:
        drop_planes(self._chains.starts, self._stored, self._tick - age + 1)

    def _restart(self) -> float:
        restart(self._chains, self._stored, self._scratch, self._w)
        gain = math.fsum(self._stored.alpha * self._stored.loss)
        squares = np.empty(-(-self._w.size // 4096))
        block_squares(self._w, squares)
        return gain - 0.5 * math.fsum(squares)

    # -- saving and restoring ---------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Labelings and multipliers in contiguous arrays, including the true labelings."""
        planes = self._stored
        plane = flat_ranges(planes.first_plane, planes.counts)
        label = flat_ranges(planes.first_label, planes.counts * self._lengths)
        return {
            "caps": planes.caps.copy(),
            "gaps": planes.gaps.copy(),
            "counts": planes.counts.copy(),
            "alpha": planes.alpha[plane],
            "loss": planes.loss[plane],
            "used": planes.used[plane],
            "labels": planes.labels[label],
            "tick": self._tick,
        }

    @classmethod
    def from_state(cls, chains: Chains, state: dict[str, Any]) -> Self:
        """Restore from :meth:`state`; distances and ``w`` are recomputed."""
        sets = cls(chains, state["caps"])
        sets.restore(state)
        return sets

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        names = ("counts", "alpha", "labels", "loss", "used", "gaps", "tick")
        counts, alpha, labels, loss, used, gaps, tick = entries(state, *names)
        caps, K = self._stored.caps, self._chains.cost.shape[0]
        counts = integers(counts, "the numbers of planes", caps.shape, 1, MOST_PLANES)
        alpha = floats(alpha, "the multipliers", (int(counts.sum()),))
        labels = integers(labels, "the labels", (int(counts @ self._lengths),), below=K)
        loss = floats(loss, "the losses", alpha.shape)
        used = integers(used, "the ages of planes", alpha.shape, -1, 2**31).astype(np.int32)
        gaps = floats(gaps, "the gaps", caps.shape, finite=False)
        self._tick = count(tick, "the number of sweeps", most=2**30)
        self._stored = self._storage(caps, np.maximum(counts + 1, FIRST_CAPACITY))
        first_planes(self._chains.starts, self._chains.truth, self._stored)
        restore_planes(
            self._chains,
            self._stored,
            self._scratch.place,
            self._scratch.rows,
            self._scratch.tail,
            counts,
            labels.astype(self._chains.truth.dtype, copy=False),
            alpha,
            loss,
            used,
        )
        self._stored.gaps[:] = gaps
        self.dual_value()

    # -- storage ----------------------------------------------------------------------------------

    def _storage(self, caps: Array, room: IntArray) -> Planes:
        n_planes = int(room.sum())
        return Planes(
            caps=caps,
            gaps=np.zeros(len(caps)),
            counts=np.zeros(len(caps), dtype=np.int64),
            room=room,
            first_plane=offsets(room),
            first_label=offsets(room * self._lengths),
            first_distance=offsets(room * room),
            alpha=self._zeros(n_planes),
            loss=self._zeros(n_planes),
            code=self._zeros(n_planes, dtype=np.uint64),
            used=self._zeros(n_planes, dtype=np.int32),
            labels=self._zeros(int((room * self._lengths).sum()), dtype=self._chains.truth.dtype),
            distances=self._zeros(int((room * room).sum())),
        )

    def _make_room(self, visited: IntArray) -> None:
        """Make room for one more plane in every example that may be visited."""
        planes = self._stored
        full = (planes.counts == planes.room) & (planes.caps > 0.0)
        if full[visited].any():
            # grow all full examples at once: the copy costs the same, and the next sweep needs none
            self._grow(np.where(full, planes.room + 2 + planes.room // 4, planes.room))

    def _grow(self, room: IntArray) -> None:
        old = self._stored
        new = self._storage(old.caps, np.maximum(room, old.room))
        new.gaps[:] = old.gaps
        new.counts[:] = old.counts
        repack(self._chains.starts, old, new)
        self._stored = new


def _most_entries(chains: Chains) -> int:
    """The largest number of stored features in one sequence."""
    return int(np.diff(chains.indptr[chains.starts]).max(initial=0))
