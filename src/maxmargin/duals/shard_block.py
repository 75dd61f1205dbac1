"""One of several blocks of rows that are visited at the same time, in the shard that has its rows.

The block keeps its rows, their multipliers, and the list of active rows. A round
(:mod:`maxmargin.duals.row_blocks`) receives w and the damping, and returns the change of w. The rows, the
multipliers, and the scores are never sent.

Calls may be repeated and shards may be rebuilt (:mod:`maxmargin.core.engine`). So rounds have numbers, a
block can undo its last round, and a rebuilt block, whose multipliers are lost, raises
:class:`LostMultipliers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.checkpoints import CheckpointError, CheckpointFolder
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale
from maxmargin.core.stored_values import floats
from maxmargin.core.vectors import Array, IntArray, writable
from maxmargin.duals.loaded_rows import Runs
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.row_blocks import ACTIVE, SUPPORT, Round, RowBlock
from maxmargin.duals.rows import Rows


class LostMultipliers(Exception):
    """A shard was rebuilt and lacks the multipliers of its rows."""


@dataclass(slots=True, eq=False)
class _LastRound:
    """What is needed to undo a round, and its answer if it was shortened."""

    active: IntArray
    block: RowBlock
    n_kept: int
    shortened: Array | None = None


class ShardBlock(BinaryCoordinates):
    """The rows of one block, in memory.

    ``first`` tells blocks apart; ``number`` is that of the last round."""

    def __init__(
        self, rows: Rows, C: float, regularizer: SquaredNorm, first: int, number: int
    ) -> None:
        super().__init__(rows, C, regularizer)
        self.first, self.number = first, number
        self._block = self._dealt()
        #: None if the last round can no longer be undone
        self.last: _LastRound | None = None

    def _dealt(self) -> RowBlock:
        return RowBlock(self, self.active, self.first, np.empty(len(self._u)))

    def visit(self, round_: Round, w: Array, damping: Array) -> tuple[Array, Array, Array]:
        """The change of w, its squares, and statistics."""
        if self.number == round_.number:  # called again
            self.undo()
        if self.number != round_.number - 1:
            raise LostMultipliers(f"round {round_.number} follows round {self.number}")
        last = _LastRound(self.active.copy(), self._block, self._block.n_kept)
        if round_.part == 0:
            self._block = self._dealt()
            self._block.shuffle(round_.seed)
        self.last, self._scores, self.number = last, None, round_.number
        stats = self._block.visit(round_, w, writable(damping))
        if round_.part == round_.n_parts - 1:  # these are all that stay active
            self.n_active = self._block.n_kept
            self._active[: self.n_active] = self._block.kept
        stats[ACTIVE], stats[SUPPORT] = self.n_active, self.n_support
        change = self._block.w
        return change.copy(), change * change, stats

    def undo(self) -> None:
        """Return to the state before the last round."""
        last = self.last
        if last is None:
            raise LostMultipliers(f"round {self.number} cannot be undone")
        self._block.undo()
        self.n_active = len(last.active)
        self._active[: self.n_active] = last.active
        self._block, self._block.n_kept = last.block, last.n_kept
        self.last, self.number = None, self.number - 1

    def shorten_round(self, number: int, t: float) -> Array:
        """Take only ``t`` of the changes of round ``number``; the changes of the two sums that remain."""
        last = self.last
        if self.number != number or last is None:
            raise LostMultipliers(f"round {number} is not the last one")
        if last.shortened is None:
            last.shortened = self._block.shorten(t)
        return last.shortened

    def sums(self) -> tuple[Array, Array]:
        """X'coef, and the two sums of the multipliers."""
        self.dual_value(self.C)
        return self._u.copy(), np.array([self._linear, self._curved])


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
        """Make the block; multipliers are zero. Sum of the squared norms of its rows, and their number."""
        block = self._block = ShardBlock(self._rows, C, regularizer, self._runs[0][0], number)
        return np.array([block.n_active / block.easy_C, float(block.n_active)])

    def block_visit(self, round_: Round, w: Array, damping: Array) -> tuple[Array, Array, Array]:
        """One round."""
        return self._own().visit(round_, w, damping)

    def block_shorten(self, number: int, t: float) -> Array:
        """Take a part of the changes of the last round."""
        return self._own().shorten_round(number, t)

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
        block.slack, block.last = slack, None
        block.check(self.scores_of(where) if isinstance(where, int) else self._own_part(where))
        return block.n_active

    def block_rescale(self, C: float, regularizer: SquaredNorm) -> int:
        """Convert to another C; the number of active rows."""
        block = self._own()
        if block.C != C:
            block.rescale(C, regularizer)
            block.last = None
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
        block.load(self._own_part(multipliers))
        return block.sums()

    def block_save(self, url: str, name: str) -> float:
        """Write the multipliers and the indices of their rows to a file in an object store."""
        tree = {"runs": np.array(self._runs), "multipliers": np.array(self._own().multipliers)}
        CheckpointFolder(url).write({}, tree, self._file(name))
        return 0.0

    def block_restore(self, url: str, name: str) -> tuple[Array, Array]:
        """Start from the multipliers in a file; the sums, and how many are not zero."""
        block = self._own()
        try:
            _, tree = CheckpointFolder(url).read(self._file(name))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{url}: {self._file(name)} is missing, or of other blocks."
            ) from error
        if not np.array_equal(tree["runs"], self._runs):
            raise CheckpointError(f"{url}: {self._file(name)} has the multipliers of other rows.")
        multipliers = floats(tree["multipliers"], "its multipliers", (self._rows.n,))
        block.load(multipliers)
        u, sums = block.sums()
        return u, np.array([*sums, float(np.count_nonzero(multipliers))])

    def _file(self, name: str) -> str:
        return f"{name}-{self._runs[0][0]}"

    @property
    def movable(self) -> bool:
        """Whether the shard may be rebuilt elsewhere: multipliers would be lost."""
        return self._block is None

    def _own_part(self, column: Array) -> Array:
        return np.concatenate([column[lo:hi] for lo, hi in self._runs])

    def _own(self) -> ShardBlock:
        if self._block is None:
            raise LostMultipliers("this shard was rebuilt")
        return self._block
