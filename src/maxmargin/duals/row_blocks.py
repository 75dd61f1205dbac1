"""Dual coordinate ascent over several blocks of rows at the same time, for losses with one score per row.

    for each round of an epoch
        for all blocks at the same time    visit a part of the active rows, with a private copy of w, on the
                                           dual whose curvature is multiplied by the damping
        sum the changes of w, and measure their damping
        line search on the dual            take all of the sum, or as much of it as is best

See :mod:`maxmargin.compiled.row_blocks` for the mathematics. Blocks and rounds depend on the data only, and
changes are summed in a fixed order, so results do not depend on the number of workers.

:class:`BlockAscent` is the method. Its blocks are either fixed, each with the rows of a shard of an engine
(:mod:`maxmargin.duals.shard_duals`), or, if all rows are in this process, dealt anew in every epoch
(:class:`BlockCoordinates`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from maxmargin.compiled import row_dual
from maxmargin.core.contract.sweeps import Blocks, SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.dual_sums import DualSums
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.rows import Rows, epochs_per_call

#: calls a function with 0 .. count - 1, in any order or at the same time
Run = Callable[[Callable[[int], object], int], None]
#: default number of blocks, and maximum of rounds per epoch
BLOCKS, ROUNDS = 8, 8
#: minimum number of entries that a block visits per round, also in units of the length of w
ENTRIES, ENTRIES_PER_COORDINATE = 20_000.0, 4.0
#: bytes of a cache line
LINE = 64
#: distance of the seeds of two blocks, and of two epochs of a round
SEEDS, EPOCH_SEEDS = 1_000_003, 7_919
#: statistics of a round, besides those of an epoch: rows visited, and after it the active rows and those with
#: nonzero multipliers
VISITED, ACTIVE, SUPPORT, N_STATS = 5, 6, 7, 8
#: epochs of a round end when the gap of the damped dual is below this fraction of what it was
EFFORT = 0.1
#: how much of the measured sums is kept from one round to the next
DECAY = 0.5
#: the whole change is taken if the best step along it is at least this long
WHOLE = 0.75
#: rows that are visited in front of a round: a fraction of those of a block, and their maximum
FIRST_SHARE, MAX_FIRST = 0.125, 1000


class Round(NamedTuple):
    """What the blocks do in a round: part ``part`` of ``n_parts`` of their active rows, by at most ``epochs``
    epochs. ``number`` is one more than that of the round before."""

    number: int
    seed: int
    part: int
    n_parts: int
    epochs: int
    slack: float


class RowBlock:
    """The rows that one block visits in an epoch, and a private copy of w.

    ``first`` tells blocks apart.
    """

    def __init__(self, point: BinaryCoordinates, rows: IntArray, first: int, w: Array) -> None:
        self._point, self._first, self.w = point, first, w
        self._queue, self._kept, self.n_kept = rows.copy(), np.empty_like(rows), 0
        self.visited: IntArray = self._queue[:0]
        self.before: Array = np.empty(0)

    def shuffle(self, seed: int) -> None:
        """Begin an epoch."""
        row_dual.shuffle(self._queue, len(self._queue), (seed + SEEDS * self._first) % 2**63)

    @property
    def kept(self) -> IntArray:
        """The rows visited in this epoch that stay active."""
        return self._kept[: self.n_kept]

    def share(self, part: int, n_parts: int) -> IntArray:
        """The rows of a round."""
        lo, hi = (k * len(self._queue) // n_parts for k in (part, part + 1))
        return self._queue[lo:hi]

    def visit(self, round_: Round, w: Array, damping: Array) -> Array:
        """Visit the rows of a round a few times; statistics. ``self.w`` is then the change of w."""
        rows = self.share(round_.part, round_.n_parts).copy()
        self.visited, self.before = rows.copy(), self._point.multipliers[rows]
        np.copyto(self.w, w)
        total, stats, slack, count = np.zeros(N_STATS), np.zeros(5), round_.slack, len(rows)
        for k in range(round_.epochs):
            if k:
                seed = round_.seed + SEEDS * self._first + EPOCH_SEEDS * k
                row_dual.shuffle(rows, count, seed % 2**63)
            total[VISITED] += count
            count = self._point.visit_rows(rows, count, slack, self.w, stats, damping)
            total[row_dual.GAIN] += stats[row_dual.GAIN]
            total[row_dual.BEND] += stats[row_dual.BEND]
            if k == 0:  # later epochs see the damped problem of the block only
                total[: row_dual.GAIN] = stats[: row_dual.GAIN]
                self._kept[self.n_kept : self.n_kept + count] = rows[:count]
                self.n_kept += count
            slack = float(stats[row_dual.TOTAL] / max(1.0, stats[row_dual.VIOLATED]))
            if count == 0 or stats[row_dual.GAP] <= EFFORT * total[row_dual.GAP]:
                break
        self.w -= w
        self.w /= damping
        return total

    def shorten(self, t: float) -> Array:
        """Take only ``t`` of the changes of the last round; the changes of the two sums that remain."""
        return self._point.shorten(self.visited, self.before, t)

    def undo(self) -> None:
        """Set the multipliers that the rows had before the last round."""
        self._point.multipliers[self.visited] = self.before


class BlockAscent(DualSums):
    """Rounds over blocks of rows; see :class:`maxmargin.core.RowDuals`."""

    n_blocks: int
    slack: float

    def _begin_rounds(self) -> None:
        """Nothing was measured yet: the damping that is always enough."""
        self._damping: Array = np.full(len(self._u), float(self.n_blocks))
        self._together, self._single = np.zeros((2, len(self._u)))

    @abstractmethod
    def _changes(self, round_: Round) -> tuple[Array, Array, Array]:
        """Sums over all blocks after a round: the changes of w, their squares, and statistics."""

    @abstractmethod
    def _shortened(self, round_: Round, t: float) -> Array:
        """Take only ``t`` of the changes of a round; the changes of the two sums that remain."""

    def _round(self, round_: Round) -> Array:
        """One round; its statistics. Nothing changes here before the last call of the blocks returned."""
        change, square, stats = self._changes(round_)
        gain, bend = float(stats[row_dual.GAIN]), float(stats[row_dual.BEND])
        length, rise = float(change @ change), gain - bend - float(change @ self.w)
        t = 1.0 if rise >= WHOLE * length else max(0.0, rise / length)
        if t < 1.0:
            gain, bend = (float(x) for x in self._shortened(round_, t))
        self._measure(change, square)
        self._u += t * change
        self._linear += gain
        self._curved += bend
        return stats

    def _measure(self, change: Array, square: Array) -> None:
        """The damping of the next round; see :mod:`maxmargin.compiled.row_blocks`."""
        size = float(square.sum())
        if size == 0.0:
            return
        # changes become smaller from round to round: without their size the first ones would prevail
        for held, new in ((self._together, change * change), (self._single, square)):
            held *= DECAY
            held += new / size
        seen = self._single > 0.0
        ratio = np.divide(self._together, self._single, out=self._damping.copy(), where=seen)
        np.clip(ratio, 1.0, float(self.n_blocks), out=self._damping)

    def _set_slack(self, stats: Array) -> None:
        self.slack = float(stats[row_dual.TOTAL] / max(1.0, stats[row_dual.VIOLATED]))


def in_order(function: Callable[[int], object], count: int) -> None:
    """Call a function one index after the other."""
    for index in range(count):
        function(index)


def padded(n_rows: int, length: int) -> Array:
    """Zeros whose rows share no cache line."""
    line = LINE // 8
    width = -(-length // line) * line + line
    whole = np.zeros(n_rows * width + line)
    first = -(whole.ctypes.data // 8) % line
    return whole[first : first + n_rows * width].reshape(n_rows, width)[:, :length]


class BlockCoordinates(BlockAscent, BinaryCoordinates):
    """Blocks over the rows of this process; ``run`` calls functions, possibly at the same time.

    Every epoch deals the active rows anew, each K-th row to the same block. Contiguous blocks would fail on
    files that are sorted by class, time or place, because every block would see another problem.

    A few rows are visited in front of each round, one after the other. They balance the directions that all
    rows share, above all the intercept, after a hundred visits. If each block did that by itself, all would
    make the same change, which requires a large damping, and then every step of a row would be short.

    Merging takes as long as visiting K entries per coordinate of w. As rows are shrunk, an epoch has fewer
    rounds and then fewer blocks; a single block visits its rows as the sequential method does.
    """

    def __init__(
        self,
        rows: Rows,
        C: float,
        regularizer: SquaredNorm | None = None,
        *,
        blocks: Blocks | None = None,
        run: Run = in_order,
    ) -> None:
        blocks = blocks or Blocks()
        self.n_blocks, self.n_rounds = blocks.count or BLOCKS, blocks.rounds
        self._run = run
        super().__init__(rows, C, regularizer)
        self.n_blocks = self.layout(len(self._members))[0]  # no more than the rows have work for
        # the changes of K blocks add up, so the problem is certainly easy up to a smaller C only
        self.easy_C /= self.n_blocks
        self._copies, self._dealt = padded(self.n_blocks, rows.dim), list[RowBlock]()
        self._begin_rounds()

    def layout(self, n_rows: int) -> tuple[int, int]:
        """The numbers of blocks and rounds of an epoch over so many rows."""
        entries, dim = self.rows.work(n_rows), self.rows.dim
        grain = max(ENTRIES, ENTRIES_PER_COORDINATE * dim)
        if self.n_rounds is not None:  # as asked for, but no more than rows and no smaller parts
            full = self.rows.work(len(self._members)) / (self.n_blocks * self.n_rounds)
            grain = min(grain, full)
        parts = max(1.0, entries / max(1.0, grain))
        n_blocks = int(min(self.n_blocks, parts, max(1, n_rows)))
        return n_blocks, int(min(self.n_rounds or ROUNDS, max(1.0, parts / n_blocks)))

    # -- an epoch ------------------------------------------------------------------------------------

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """Run one epoch over the active rows, or a few if the call would take longer than the epoch."""
        visited, gap, self._scores = 0, 0.0, None
        for k in range(epochs or epochs_per_call(self.rows.work(self.n_active))):
            n_blocks, n_rounds = self.layout(self.n_active)
            if n_blocks == 1:
                visited += self.n_active
                gap = super().improve(seed + k, 1).gap_estimate
                continue
            try:
                stats = self._epoch_of(seed + k, n_blocks, n_rounds)
            except BaseException:
                # an interrupt between two rounds: w must be that of the multipliers
                self.dual_value(self.C)
                raise
            visited, gap = visited + int(stats[VISITED]), float(stats[row_dual.GAP])
        return SweepStats(visited, gap, 0)

    def _epoch_of(self, seed: int, n_blocks: int, n_rounds: int) -> Array:
        """Visit the active rows once; the statistics of all rounds."""
        active, total = self.active, np.zeros(N_STATS)
        self._dealt = [
            RowBlock(self, active[k::n_blocks], k, self._copies[k]) for k in range(n_blocks)
        ]
        self._run(lambda k: self._dealt[k].shuffle(seed), n_blocks)
        for s in range(n_rounds):
            total[VISITED] += self._visit_first(self._dealt[s % n_blocks].share(s, n_rounds))
            total += self._round(Round(0, seed, s, n_rounds, 1, self.slack))
        kept = np.concatenate([block.kept for block in self._dealt])
        self.n_active = len(kept)
        self._active[: len(kept)] = kept
        self._set_slack(total)
        return total

    def _visit_first(self, rows: IntArray) -> int:
        """Visit the first of these rows without the other blocks; returns their number."""
        rows = rows[: min(MAX_FIRST, int(FIRST_SHARE * len(rows)))].copy()
        self._visit(rows, len(rows), np.inf)
        return len(rows)

    def _changes(self, round_: Round) -> tuple[Array, Array, Array]:
        blocks, stats = self._dealt, padded(len(self._dealt), N_STATS)

        def visit(k: int) -> None:
            stats[k] = blocks[k].visit(round_, self._u, self._damping)

        self._run(visit, len(blocks))
        each = self._copies[: len(blocks)]
        return each.sum(axis=0), np.einsum("kj,kj->j", each, each), stats.sum(axis=0)

    def _shortened(self, round_: Round, t: float) -> Array:
        sums = padded(len(self._dealt), 2)

        def shorten(k: int) -> None:
            sums[k] = self._dealt[k].shorten(t)

        self._run(shorten, len(sums))
        total: Array = sums.sum(axis=0)
        return total

    # -- passes over all rows, in ranges -----------------------------------------------------------

    def _fill_state(self) -> None:
        bounds = self._ranges(len(self._state))
        self._run(lambda k: self._fill(*bounds[k]), len(bounds))

    def _accumulate(self, coef: Array) -> Array:
        """The same as the sum over ranges of rows; those of other problems have the coefficient zero."""
        d, intercept = self.rows.design.shape[1], self.rows.intercept
        bounds = self._ranges(len(coef))

        def add(k: int) -> None:
            (lo, hi), out = bounds[k], self._copies[k]
            out[:] = 0.0
            self.rows.design.accumulate(coef[lo:hi], lo, hi, out[:d])
            if intercept != 0.0:
                out[d] = intercept * coef[lo:hi].sum()

        self._run(add, len(bounds))
        total: Array = self._copies.sum(axis=0)
        return total

    def _ranges(self, n: int) -> list[tuple[int, int]]:
        """Contiguous ranges of equal length, one per block."""
        bounds = [k * n // self.n_blocks for k in range(self.n_blocks + 1)]
        return list(pairwise(bounds))
