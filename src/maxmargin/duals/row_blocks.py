"""Dual points of losses with one score per row, optimized by coordinate ascent over several blocks of rows at
the same time.

    for each round of an epoch
        one after the other                visit a few rows
        for all blocks at the same time    visit a part of the active rows, with a private copy of w
        for all columns at the same time   sum the changes of w and measure their damping
        line search on the dual            take all of the sum, or as much of it as is best

See :mod:`maxmargin.compiled.row_blocks` for the mathematics. Blocks and rounds depend on the data only, and
changes are summed in the order of the blocks, so results do not depend on the number of threads.

The few rows in front of a round balance the directions that all rows share, above all the intercept. They are
balanced after a hundred visits, but if each block did that by itself, all would make the same change, which
requires a large damping, and then every step of a row would be short.

Every epoch deals the active rows anew, each K-th row to the same block. Contiguous blocks would fail on files
that are sorted by class, time or place, because every block would see another problem.

Merging takes as long as visiting K entries per coordinate of w. As rows are shrunk, an epoch has fewer rounds
and then fewer blocks; a single block visits its rows as the sequential method does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from maxmargin.compiled import row_blocks, row_dual
from maxmargin.core.contract.sweeps import Blocks, SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.rows import Rows, epochs_per_call

#: calls a function with 0 .. count - 1, in any order or at the same time
Run = Callable[[Callable[[int], object], int], None]
#: default number of blocks, and maximum of rounds per epoch
BLOCKS, ROUNDS = 8, 8
#: minimum number of entries that a block visits per round, also in units of the length of w
ENTRIES, ENTRIES_PER_COORDINATE = 20_000.0, 4.0
#: bytes of a cache line; distance of the seeds of two blocks
LINE, SEEDS = 64, 1_000_003
#: rows that are visited in front of a round: a fraction of those of a block, and their maximum
LEAD, MAX_LEAD = 0.125, 1000
#: columns that are merged at a time
COLUMNS = 4096
#: the whole change is taken if the best step along it is at least this long
WHOLE = 0.75


def in_order(function: Callable[[int], object], count: int) -> None:
    """Call a function one index after the other."""
    for index in range(count):
        function(index)


def step_along(rise: float, length: float) -> float:
    """The step along the sum of all changes, by the slope of D there and the squared norm of the sum."""
    return 1.0 if rise >= WHOLE * length else max(0.0, float(rise / length))


def padded(n_rows: int, length: int) -> Array:
    """Zeros whose rows share no cache line."""
    line = LINE // 8
    width = -(-length // line) * line + line
    whole = np.zeros(n_rows * width + line)
    first = -(whole.ctypes.data // 8) % line
    return whole[first : first + n_rows * width].reshape(n_rows, width)[:, :length]


@dataclass(slots=True, eq=False)
class _Part:
    """The rows that one block visits in an epoch, and what it reports."""

    rows: IntArray
    w: Array
    stats: Array
    moved: IntArray
    before: Array
    kept: int = 0
    gap: float = 0.0
    total: float = 0.0
    violated: int = 0

    def share(self, s: int, n_rounds: int) -> IntArray:
        """The rows of a round."""
        lo, hi = (r * len(self.rows) // n_rounds for r in (s, s + 1))
        return self.rows[lo:hi]


class BlockCoordinates(BinaryCoordinates):
    """See :class:`maxmargin.core.RowDuals`; ``run`` calls functions, possibly at the same time."""

    def __init__(
        self,
        rows: Rows,
        C: float,
        regularizer: SquaredNorm | None = None,
        *,
        blocks: Blocks | None = None,
        run: Run = in_order,
    ) -> None:
        blocks, dim = blocks or Blocks(), rows.dim
        self.n_blocks, self.n_rounds = blocks.count or BLOCKS, blocks.rounds
        self._run = run
        super().__init__(rows, C, regularizer)
        self.n_blocks = self.layout(len(self._members))[0]  # no more than the rows have work for
        # the changes of K blocks add up, so the problem is certainly easy up to a smaller C only
        self.scale /= self.n_blocks
        self._copies = padded(self.n_blocks, dim)
        self._stats = padded(self.n_blocks, 5)
        self._damping: Array = np.full(dim, float(self.n_blocks))
        self._together, self._single, self._change, self._square = np.zeros((4, dim))
        self._columns = range(0, dim, COLUMNS)
        self._sums = padded(max(self.n_blocks, len(self._columns)), 2)

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
        total = self._copies[0].copy()
        for part in self._copies[1:]:
            total += part
        return total

    def _choose(self, scores: Array) -> None:
        self._scores = scores
        bounds = self._ranges(len(self._members))
        counts = [0] * len(bounds)

        def choose(k: int) -> None:
            counts[k] = self._choose_among(*bounds[k], scores)

        self._run(choose, len(bounds))
        found = [self._active[lo : lo + n] for (lo, _), n in zip(bounds, counts, strict=True)]
        self._collect(found)

    def _ranges(self, n: int) -> list[tuple[int, int]]:
        """Contiguous ranges of equal length, one per block."""
        bounds = [k * n // self.n_blocks for k in range(self.n_blocks + 1)]
        return list(pairwise(bounds))

    def _collect(self, active: list[IntArray]) -> None:
        """Make these rows the active ones."""
        count = 0
        for rows in active:
            self._active[count : count + len(rows)] = rows
            count += len(rows)
        self.n_active = count

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """Run one epoch over the active rows, or a few if the call would take longer than the epoch."""
        visited, gap, self._scores = 0, 0.0, None
        for k in range(epochs or epochs_per_call(self.rows.work(self.n_active))):
            count = self.n_active
            n_blocks, n_rounds = self.layout(count)
            visited += count
            if n_blocks == 1:
                gap = super().improve(seed + k, 1).gap
                continue
            try:
                gap, more = self._epoch_of(seed + k, n_blocks, n_rounds)
            except BaseException:
                # an interrupt between two rounds: w must be that of the multipliers
                self.dual_value(self.C)
                raise
            visited += more
        return SweepStats(visited, gap, 0)

    def _epoch_of(self, seed: int, n_blocks: int, n_rounds: int) -> tuple[float, int]:
        """Visit the active rows once; the estimated gap, and the number of rows visited twice."""
        active, count = self._active, self.n_active
        parts: list[_Part | None] = [None] * n_blocks
        longest = -(-count // n_blocks) // n_rounds + 1

        def deal(k: int) -> None:
            rows = active[k:count:n_blocks].copy()
            row_dual.shuffle(rows, len(rows), (seed + SEEDS * k) % 2**63)
            moved, before = np.empty(longest, dtype=rows.dtype), np.empty(longest)
            parts[k] = _Part(rows, self._copies[k], self._stats[k], moved, before)

        self._run(deal, n_blocks)
        dealt = [part for part in parts if part is not None]
        more = 0
        for s in range(n_rounds):
            more += self._lead(dealt[s % n_blocks], s, n_rounds)
            self._round(dealt, s, n_rounds)
        self._collect([part.rows[: part.kept] for part in dealt])
        violated = sum(part.violated for part in dealt)
        self.slack = sum(part.total for part in dealt) / max(1, violated)
        return sum(part.gap for part in dealt), more

    def _lead(self, part: _Part, s: int, n_rounds: int) -> int:
        """Visit the first rows of a block's part without the other blocks; returns their number."""
        rows = part.share(s, n_rounds)
        rows = rows[: min(MAX_LEAD, int(LEAD * len(rows)))].copy()
        stats = np.zeros(5)
        self._epoch(
            *self._data, self.rows.intercept, self._kind, self._curvature, self._common,
            self._margins, np.inf, rows, len(rows), self._state, self._u, self._floor,
            stats, None, None, None,
        )  # fmt: skip
        self._linear += float(stats[row_dual.GAIN])
        self._curved += float(stats[row_dual.BEND])
        return len(rows)

    def _round(self, parts: list[_Part], s: int, n_rounds: int) -> None:
        """Visit a part of the rows of each block and merge the changes."""

        def visit(k: int) -> None:
            self._visit(parts[k], parts[k].share(s, n_rounds))

        self._run(visit, len(parts))
        copies, starts = self._copies[: len(parts)], self._columns

        def merge(k: int) -> None:
            hi = min(starts[k] + COLUMNS, len(self._u))
            row_blocks.merge_changes(
                self._u, self._floor, copies, starts[k], hi, self._damping, self._together,
                self._single, self._change, self._square, self._sums[k],
            )  # fmt: skip

        if len(starts) == 1:  # no thread to wait for
            merge(0)
        else:
            self._run(merge, len(starts))
        length, inner = self._sums[: len(starts)].sum(axis=0)
        changes = [(float(p.stats[row_dual.GAIN]), float(p.stats[row_dual.BEND])) for p in parts]
        rise = sum(gain - bend for gain, bend in changes) - inner
        t = step_along(rise, length)
        self._u += t * self._change
        if t < 1.0:
            changes = self._shortened(parts, t)
        self._linear += sum(gain for gain, _ in changes)
        self._curved += sum(bend for _, bend in changes)

    def _visit(self, part: _Part, rows: IntArray) -> None:
        np.copyto(part.w, self._u)
        kept = self._epoch(
            *self._data, self.rows.intercept, self._kind, self._curvature, self._common,
            self._margins, self.slack, rows, len(rows), self._state, part.w, self._floor,
            part.stats, self._damping, part.moved, part.before,
        )  # fmt: skip
        part.rows[part.kept : part.kept + kept] = rows[:kept]
        part.kept += kept
        part.gap += float(part.stats[row_dual.GAP])
        part.total += float(part.stats[row_dual.TOTAL])
        part.violated += int(part.stats[row_dual.VIOLATED])

    def _shortened(self, parts: list[_Part], t: float) -> list[tuple[float, float]]:
        """Take only ``t`` of the changes of the multipliers; the changes of the dual that remain."""

        def shorten(k: int) -> None:
            part = parts[k]
            row_blocks.shorten(
                part.moved, part.before, int(part.stats[row_dual.VIOLATED]), t, self._state,
                self._kind, self._curvature, self._common, self._margins, self._sums[k],
            )  # fmt: skip

        self._run(shorten, len(parts))
        return [(float(gain), float(bend)) for gain, bend in self._sums[: len(parts)]]
