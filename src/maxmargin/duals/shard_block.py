"""One of several blocks of rows that are visited at the same time, in the shard that has its rows.

The block keeps its rows, their multipliers, and the list of active rows. A round receives w and the damping
(:mod:`maxmargin.compiled.row_blocks`), maximizes the damped dual over the rows of the block by a few epochs,
and returns the change of w. The rows, the multipliers, and the scores are never sent.

Calls may be repeated and shards may be rebuilt (:mod:`maxmargin.core.engine`). So rounds have numbers, a
block can undo its last round, and a rebuilt block, whose multipliers are lost, raises
:class:`LostMultipliers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.compiled import row_blocks, row_dual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale
from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.loaded_rows import Runs
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.proofs import scale_of
from maxmargin.duals.rows import Rows

#: distance of the seeds of two blocks, and of two epochs of a round
SEEDS, EPOCH_SEEDS = 1_000_003, 7_919
#: statistics of a round, besides those of an epoch: rows visited, and after it the active rows and those with
#: nonzero multipliers
VISITED, ACTIVE, SUPPORT, N_STATS = 5, 6, 7, 8
#: epochs of a round end when the gap of the damped dual is below this fraction of what it was
EFFORT = 0.1


class LostMultipliers(Exception):
    """A shard was rebuilt and lacks the multipliers of its rows."""


class Round(NamedTuple):
    """What the blocks do in a round: part ``part`` of ``n_parts`` of their active rows, by at most ``epochs``
    epochs. ``number`` is one more than that of the round before."""

    number: int
    seed: int
    part: int
    n_parts: int
    epochs: int
    slack: float


@dataclass(frozen=True, slots=True, eq=False)
class _Before:
    """The state of a block before its last round, and the rows visited in it."""

    alpha: Array
    active: IntArray
    queue: IntArray
    kept: int
    visited: IntArray


class ShardBlock(BinaryCoordinates):
    """The rows of one block, in memory.

    ``first`` tells blocks apart; ``number`` is that of the last round."""

    def __init__(
        self, rows: Rows, C: float, regularizer: SquaredNorm, first: int, number: int
    ) -> None:
        super().__init__(rows, C, regularizer)
        self.first, self.number = first, number
        self._damping: Array = np.ones(rows.dim)
        self._queue: IntArray = self.active.copy()
        self._kept = 0
        self._before: _Before | None = None
        self._shortened: Array | None = None

    @property
    def squares(self) -> Array:
        """The sum of the squared norms of the rows with nonzero weight, and their number."""
        own = self._state[self._members, row_dual.SQUARE]
        return np.array([float(own.sum()), float(len(own))])

    def visit(self, round_: Round, w: Array, damping: Array) -> tuple[Array, Array, Array]:
        """The change of w, its squares, and statistics."""
        if self.number == round_.number:  # called again
            self.undo()
        if self.number != round_.number - 1:
            raise LostMultipliers(f"round {round_.number} follows round {self.number}")
        rows = self._share(round_)
        np.copyto(self._u, w)
        np.copyto(self._damping, damping)
        stats = self._epochs(rows, round_)
        change = (self._u - w) / self._damping
        return change, change * change, stats

    def _share(self, round_: Round) -> IntArray:
        """The rows to visit; what is needed to undo the round is stored."""
        queue, kept = self._queue, self._kept
        if round_.part == 0:
            queue, kept = self.active.copy(), 0
            row_dual.shuffle(queue, len(queue), (round_.seed + SEEDS * self.first) % 2**63)
        lo, hi = (k * len(queue) // round_.n_parts for k in (round_.part, round_.part + 1))
        rows = queue[lo:hi]
        self._before = _Before(
            self.multipliers.copy(), self.active.copy(), self._queue, self._kept, rows.copy()
        )
        self._shortened, self._scores = None, None
        self._queue, self._kept, self.number = queue, kept, round_.number
        return rows.copy()

    def _epochs(self, rows: IntArray, round_: Round) -> Array:
        """Visit the rows a few times, at the private w."""
        total = np.zeros(N_STATS)
        stats, slack, count = np.zeros(5), round_.slack, len(rows)
        scratch, before = np.empty_like(rows), np.empty(len(rows))
        for k in range(round_.epochs):
            if k:
                seed = round_.seed + SEEDS * self.first + EPOCH_SEEDS * k
                row_dual.shuffle(rows, count, seed % 2**63)
            total[VISITED] += count
            count = self._epoch(
                *self._data, self.rows.intercept, self._kind, self._curvature, self._common,
                self._margins, slack, rows, count, self._state, self._u, self._floor, stats,
                self._damping, scratch, before,
            )  # fmt: skip
            total[row_dual.GAIN] += stats[row_dual.GAIN]
            total[row_dual.BEND] += stats[row_dual.BEND]
            if k == 0:  # later epochs see the damped problem of the block only
                total[: row_dual.GAIN] = stats[: row_dual.GAIN]
                self._keep(rows[:count], last=round_.part == round_.n_parts - 1)
            slack = float(stats[row_dual.TOTAL] / max(1.0, stats[row_dual.VIOLATED]))
            if count == 0 or stats[row_dual.GAP] <= EFFORT * total[row_dual.GAP]:
                break
        total[ACTIVE], total[SUPPORT] = self.n_active, self.n_support
        return total

    def _keep(self, rows: IntArray, *, last: bool) -> None:
        """Rows that stay active; after the last part of an epoch these are all."""
        self._active[self._kept : self._kept + len(rows)] = rows
        self._kept += len(rows)
        if last:
            self.n_active = self._kept

    def undo(self) -> None:
        """Return to the state before the last round."""
        before = self._before
        if before is None:
            raise LostMultipliers(f"round {self.number} cannot be undone")
        self.multipliers[:] = before.alpha
        self.n_active = len(before.active)
        self._active[: self.n_active] = before.active
        self._queue, self._kept = before.queue, before.kept
        self._before, self.number = None, self.number - 1

    def shorten(self, number: int, t: float) -> Array:
        """Take only ``t`` of the changes of round ``number``; the changes of the two sums that remain."""
        before = self._before
        if self.number != number or before is None:
            raise LostMultipliers(f"round {number} is not the last one")
        if self._shortened is None:
            self._shortened = np.zeros(2)
            row_blocks.shorten(
                before.visited, before.alpha[before.visited], len(before.visited), t, self._state,
                self._kind, self._curvature, self._common, self._margins, self._shortened,
            )  # fmt: skip
        return self._shortened

    def settle(self) -> None:
        """The last round can no longer be undone."""
        self._before = None

    def sums(self) -> tuple[Array, Array]:
        """X'coef, and the two sums of the multipliers."""
        self.dual_value(self.C)
        return self._u.copy(), np.array([self._linear, self._curved])

    def choose(self, scores: Array, slack: float) -> int:
        """Select the active rows by their exact scores; returns their number."""
        self.slack = slack
        self.settle()
        self.check(scores)
        return self.n_active

    def sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""
        lengths = np.sqrt(self._state[:, row_dual.SQUARE])
        alpha = self.multipliers
        return scale_of(self.rows, alpha, alpha, self._curved, lengths)


class BlockShard:
    """The methods of a shard that has a block. All may be called again."""

    #: the rows of the block, in memory, and their indices among all rows
    _rows: Rows
    _runs: Runs
    _block: ShardBlock | None = None

    def scores_of(self, key: int) -> Array:
        """The stored scores of a point."""
        raise NotImplementedError

    def block_open(self, C: float, regularizer: SquaredNorm, number: int) -> Array:
        """Make the block; multipliers are zero."""
        self._block = ShardBlock(self._rows, C, regularizer, self._runs[0][0], number)
        return self._block.squares

    def block_visit(self, round_: Round, w: Array, damping: Array) -> tuple[Array, Array, Array]:
        """One round."""
        return self._own().visit(round_, w, damping)

    def block_shorten(self, number: int, t: float) -> Array:
        """Take a part of the changes of the last round."""
        return self._own().shorten(number, t)

    def block_reset(self, number: int, C: float, regularizer: SquaredNorm) -> tuple[Array, Array]:
        """Return to the state before round ``number``, or to zero if it is lost; the sums, number of active
        rows, and whether it was lost."""
        block = self._block
        if block is not None and block.number == number:
            block.undo()
        lost = block is None or block.number != number - 1
        if lost:
            self.block_open(C, regularizer, number - 1)
        self.block_rescale(C, regularizer)
        u, sums = self._own().sums()
        return u, np.array([*sums, float(self._own().n_active), float(lost)])

    def block_sums(self) -> tuple[Array, Array]:
        """X'coef, and the two sums of the multipliers."""
        return self._own().sums()

    def block_choose(self, where: int | Array, slack: float) -> int:
        """Select active rows, by the scores of all rows or the key of a point whose scores are stored."""
        block = self._own()
        if isinstance(where, int):
            return block.choose(self.scores_of(where), slack)
        return block.choose(self._mine(where), slack)

    def block_rescale(self, C: float, regularizer: SquaredNorm) -> int:
        """Convert to another C; the number of active rows."""
        block = self._own()
        if block.C != C:
            block.rescale(C, regularizer)
            block.settle()
        return block.n_active

    def block_sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""
        return self._own().sizes()

    def block_multipliers(self) -> Array:
        """The multipliers of the rows."""
        return np.array(self._own().multipliers)

    def block_load(self, multipliers: Array) -> tuple[Array, Array]:
        """Start from these multipliers of all rows; the sums."""
        block = self._own()
        block.load(self._mine(multipliers))
        return block.sums()

    def _mine(self, column: Array) -> Array:
        return np.concatenate([column[lo:hi] for lo, hi in self._runs])

    def _own(self) -> ShardBlock:
        if self._block is None:
            raise LostMultipliers("this shard was rebuilt")
        return self._block
