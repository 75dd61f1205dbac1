"""Dual coordinate ascent over blocks of rows that stay with the shards of an engine: the method of
:mod:`maxmargin.duals.row_blocks`, with the blocks in :mod:`maxmargin.duals.shard_block`.

w and the damping are sent to the blocks, the sums of their changes and of the squared changes are sent back:
four vectors of the length of w per worker and round, whatever the number of rows. The blocks are the shards,
which depend on the data and the number of blocks only, and their changes are summed in the fixed order of the
engine. So results are bit-identical for all engines and numbers of workers.

A block consists of short runs of neighboring rows from all over the data. Files are often sorted, and with
contiguous blocks, each block would see another problem: on IMDB, where all positive reviews come first, 8
contiguous blocks need 800 rounds instead of 6.

If a worker dies, the multipliers of its blocks are lost. They start again from zero: w is summed up again
from what is left, the dual value falls, and the ascent goes on. Every bound is still that of feasible
multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from maxmargin.compiled import row_dual
from maxmargin.core.contract.sweeps import Blocks, SweepStats
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale, UpperBound, correction, gamma
from maxmargin.core.vectors import Array
from maxmargin.duals.loaded_rows import Runs, slice_of
from maxmargin.duals.one_score import compiled_terms
from maxmargin.duals.proofs import radius
from maxmargin.duals.row_blocks import (
    ACTIVE,
    BLOCKS,
    ENTRIES,
    N_STATS,
    SUPPORT,
    VISITED,
    BlockAscent,
    Round,
)
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.duals.shard_block import BlockShard, LostMultipliers
from maxmargin.duals.terms import score_terms

#: number of runs of neighboring rows in a block
RUNS = 64
#: losses of multipliers that one call survives
MAX_LOSSES = 10


def count_blocks(rows: Rows, blocks: Blocks) -> int:
    """The number of blocks: as asked for, or by the size of the data."""
    if blocks.count is not None:
        return max(1, min(blocks.count, rows.n))
    return int(max(1, min(BLOCKS, rows.work(rows.n) / ENTRIES, rows.n)))


class ShardCoordinates(BlockAscent):
    """See :class:`maxmargin.core.RowDuals`; the shards of the engine are :class:`BlockShard` objects."""

    n_steps = 1

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        parts: Sequence[Runs],
        C: float,
        regularizer: SquaredNorm,
        blocks: Blocks,
    ) -> None:
        self.rows, self.C, self._norm, self._engine = rows, C, regularizer, engine
        self.n_examples, self.n_blocks, self.n_rounds = rows.n, len(parts), blocks.rounds or 1
        self._parts = parts
        self._epochs = blocks.epochs
        self._curvature = compiled_terms(score_terms(slice_of(rows, *_first_row(rows))))[2]
        self._u = np.zeros(rows.dim)
        self._linear = self._curved = 0.0
        self._begin_rounds()
        #: number of the last round that was merged
        self._number = 0
        self.slack, self._chosen = np.inf, False
        total, count = engine.reduce(BlockShard.block_open, C, regularizer, self._number)
        self.n_active, self.n_support = int(count), 0
        # the changes of K blocks add up, so the problem is certainly easy up to a smaller C only
        self.easy_C = 1.0 / max(float(total) / max(1.0, float(count)), 1e-300) / self.n_blocks

    # -- rounds ------------------------------------------------------------------------------------

    def improve(self, seed: int) -> SweepStats:
        """One epoch: as many rounds as the blocks have parts."""
        total = np.zeros(N_STATS)
        try:
            for part in range(self.n_rounds):
                stats = self._surviving(partial(self._next_round, seed, part))
                total += stats
        except BaseException:
            # an interrupt between two calls: w must be that of the multipliers
            self._reset()
            raise
        self.n_active, self.n_support, self._chosen = int(stats[ACTIVE]), int(stats[SUPPORT]), False
        self._set_slack(total)
        return SweepStats(int(total[VISITED]), float(total[row_dual.GAP]), 0)

    def _next_round(self, seed: int, part: int) -> Array:
        round_ = Round(self._number + 1, seed, part, self.n_rounds, self._epochs, self.slack)
        stats = self._round(round_)
        self._number = round_.number
        return stats

    def _changes(self, round_: Round) -> tuple[Array, Array, Array]:
        w, damping = self._engine.publish(self._u), self._engine.publish(self._damping)
        change, square, stats = self._engine.reduce(BlockShard.block_visit, round_, w, damping)
        return change, square, stats

    def _shortened(self, round_: Round, t: float) -> Array:
        return self._engine.reduce(BlockShard.block_shorten, round_.number, t)

    def _surviving(self, call: Callable[[], Any]) -> Any:
        """The result of a call. If multipliers were lost, begin again without them."""
        for _ in range(MAX_LOSSES):
            try:
                return call()
            except LostMultipliers:
                self._reset()
        raise RuntimeError(
            f"multipliers were lost {MAX_LOSSES} times in one round: workers fail faster than they can work. "
            "Do they run out of memory? Use more workers, so that each holds fewer samples."
        )

    def _reset(self) -> None:
        """Sum up w and the parts of the dual value again, from the blocks as they were after the last merged
        round; lost ones are zero."""
        found = self._engine.reduce(BlockShard.block_reset, self._number + 1, self.C, self._norm)
        self._take(found[0], found[1])
        self.n_active = int(found[1][2])

    def _take(self, u: Array, sums: Array) -> None:
        self._u[:] = u
        self._linear, self._curved = float(sums[0]), float(sums[1])

    def _reduce(self, method: Callable[..., Any], *args: object) -> Any:
        return self._surviving(lambda: self._engine.reduce(method, *args))

    # -- the dual point ----------------------------------------------------------------------------

    def check(self, scores: Array) -> None:
        """Reselect the active rows, given exact scores of all rows."""
        at = self._engine.publish(np.ascontiguousarray(scores))
        self.choose(lambda slack: self._engine.reduce(BlockShard.block_choose, at, slack))

    def choose(self, select: Callable[[float], int]) -> None:
        """Reselect the active rows by a call of all shards, given the slack; it returns their number."""
        self.n_active = int(self._surviving(lambda: select(self.slack)))
        self._chosen = True

    def dual_value(self, C: float) -> float:
        """The dual value, recomputed from the multipliers: one product with all rows."""
        self._take(*self._reduce(BlockShard.block_sums))
        return self.dual_estimate(C)

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        value, sizes = self.dual_value(C), self.sizes()
        t = C / self.C
        lost = sizes.error(
            radius(self._norm, self._u), gamma(sizes.terms) + self.rows.relative_error
        )
        return value - correction(lost * max(t, t * t), attained.negligible)

    def sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""
        sizes: Scale = self._reduce(BlockShard.block_sizes)
        return sizes

    @property
    def multipliers(self) -> Array:
        """One per row: a copy, collected from all blocks."""
        out, start = np.zeros(self.rows.design.shape[0]), 0
        parts = self._surviving(lambda: self._engine.gather(BlockShard.block_multipliers))
        all_parts = np.concatenate(parts)
        for lo, hi in chain.from_iterable(self._parts):
            out[lo:hi] = all_parts[start : start + hi - lo]
            start += hi - lo
        return out

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers."""
        at = self._engine.publish(np.ascontiguousarray(multipliers))
        self._take(*self._reduce(BlockShard.block_load, at))
        self.slack, self._chosen, self.n_active = np.inf, False, self.rows.n
        self.n_support = int(np.count_nonzero(multipliers))

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        return {"multipliers": self.multipliers}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`; the active rows are selected again."""
        self.load(same_shape(state["multipliers"], np.empty(self.rows.design.shape[0])))

    def save_shards(self, url: str, name: str) -> None:
        """See :class:`maxmargin.core.contract.row_duals.DualsInShards`."""
        self._reduce(BlockShard.block_save, url, name)

    def restore_shards(self, url: str, name: str) -> None:
        """See :class:`maxmargin.core.contract.row_duals.DualsInShards`."""
        u, sums = self._reduce(BlockShard.block_restore, url, name)
        self._take(u, sums)
        self.slack, self._chosen, self.n_active = np.inf, False, self.rows.n
        self.n_support = int(sums[2])

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C."""
        factor = C / self.C
        self.n_active = int(self._reduce(BlockShard.block_rescale, C, regularizer))
        # all sums are homogeneous in (alpha, C)
        self.C = C
        self._u *= factor
        self._linear *= factor
        self._curved *= factor
        kept = self._chosen and self._norm.floor is None
        self.slack = self.slack * factor if kept else np.inf


def _first_row(rows: Rows) -> tuple[int, int]:
    lo = rows.ranges[0][0]
    return lo, lo + 1
