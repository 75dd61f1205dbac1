"""A shard's part of the planes of :mod:`maxmargin.risks.scores.wide`: coefficients and scores of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.contract.wide import LostPlanes
from maxmargin.core.cut import Cut
from maxmargin.core.matrices import is_finite
from maxmargin.core.vectors import Array, SparseVector, Vector, add_scaled, sparsify
from maxmargin.duals.rows import PlacedRowPart, RowPart, Rows
from maxmargin.risks.lines.shard import NOT_FINITE
from maxmargin.risks.scores.shard import ScoreShard
from maxmargin.risks.scores.wide_columns import Mix

#: number of rows summed at a time, so that the sum stays in the cache
CHUNK = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A shard's part of a plane a = X'g: g and X a of its rows."""

    coef: Vector
    scores: Array


class WideShard(ScoreShard):
    """Rows ``lo .. hi-1``; points are combinations of columns.

    All shards have the same columns. One that lacks a column was rebuilt, and raises
    :class:`maxmargin.core.contract.wide.LostPlanes`.
    """

    def __init__(self, rows: Rows, lo: int, hi: int, first: int) -> None:
        super().__init__(rows, lo, hi)
        self._first = first  # the index of its first row among all rows
        self._columns: dict[int, Column] = {}
        self._n_mixes = 0
        #: an unfinished column: its slot and coefficients
        self._begun: tuple[int, Vector] | None = None

    # -- scores ----------------------------------------------------------------------------------------

    def scores_at(self, w: Array) -> Array:
        """The scores of a combination: no pass over the rows."""
        scores = self._mixed_scores((np.flatnonzero(w), w[w != 0.0]))
        columns = self._loss.n_outputs()
        return scores if columns is None else scores.reshape(-1, columns)

    @property
    def movable(self) -> bool:
        """Whether the shard may be rebuilt elsewhere: its columns would be lost."""
        return not self._columns

    def _size(self) -> int:
        return (self._hi - self._lo) * (self._loss.n_outputs() or 1)

    def _at_slot(self, slot: int) -> Column:
        try:
            return self._columns[slot]
        except KeyError:
            raise LostPlanes(f"column {slot} is not here") from None

    def _mixed_scores(self, mix: Mix) -> Array:
        used = [
            (self._at_slot(int(slot)).scores, factor) for slot, factor in zip(*mix, strict=True)
        ]
        total = np.zeros(self._size())
        term = np.empty(min(CHUNK, len(total)))
        for lo in range(0, len(total), CHUNK):
            part = total[lo : lo + CHUNK]
            room = term[: len(part)]
            for scores, factor in used:
                np.multiply(scores[lo : lo + CHUNK], factor, out=room)
                part += room
        return total

    def _mixed_coef(self, mix: Mix) -> Array:
        total = np.zeros(self._size())
        for slot, factor in zip(*mix, strict=True):
            add_scaled(total, float(factor), self._at_slot(int(slot)).coef)
        return total

    # -- columns: calls may be repeated ----------------------------------------------------------------

    def column_gradient(self, slot: int, w: Array) -> float:
        """Begin a column with the cut at w: store its coefficients and return the offset."""
        offset, gradient = self._loss.cut(self.scores_at(w), *self._labels)
        self._begun = slot, sparsify(np.ascontiguousarray(gradient).reshape(-1))
        return float(offset)

    def column_plane(self, slot: int) -> Cut:
        """``X' g``, as the plane of a cut, which has a compact pickled form."""
        return Cut(0.0, self.plane_of(self._shaped(self.column_coef(slot))))

    def column_coef(self, slot: int) -> Array:
        """The coefficients g of the column that was begun."""
        if self._begun is None or self._begun[0] != slot:
            raise LostPlanes(f"column {slot} was not begun here")
        coef = self._begun[1]
        return coef.to_dense() if isinstance(coef, SparseVector) else coef

    def column_finish(self, slot: int, plane: Array) -> None:
        """Store the scores of the plane, which completes the column."""
        if self._begun is not None:
            self._finish(slot, super().scores_at(plane).reshape(-1))

    def column_finish_scores(self, slot: int, scores: Array) -> None:
        """The same with precomputed scores of all rows."""
        if self._begun is not None:
            self._finish(slot, scores[self._own_scores()].copy())

    def _own_scores(self) -> slice:
        """The places of this shard's scores among all."""
        start = self._first * (self._loss.n_outputs() or 1)
        return slice(start, start + self._size())

    def _finish(self, slot: int, scores: Array) -> None:
        if not is_finite(scores):
            raise ValueError(NOT_FINITE)
        self._columns[slot] = Column(sparsify(self.column_coef(slot)), scores)
        self._begun = None

    def column_products(self, slot: int, used: list[int]) -> Array:
        """The inner products of a plane with those of the slots up to the last one used:
        <a_i, a> = <g_i, X a>."""
        scores = self._at_slot(slot).scores
        out = np.zeros(max([slot, *used]) + 1)
        for other in {slot, *used}:
            coef = self._at_slot(other).coef
            if isinstance(coef, SparseVector):
                out[other] = np.einsum("i,i->", coef.values, scores[coef.indices])
            else:
                out[other] = np.einsum("i,i->", coef, scores)
        return out

    def columns_mix(self, number: int, kept: list[int], mixed: dict[int, Mix]) -> None:
        """Keep some columns, replace others by combinations, and drop the rest and all scores. ``number`` is
        one more than that of the last time."""
        if self._n_mixes == number:  # called again
            return
        columns = {slot: self._at_slot(slot) for slot in kept}
        for slot, mix in mixed.items():
            columns[slot] = Column(sparsify(self._mixed_coef(mix)), self._mixed_scores(mix))
        self._columns, self._n_mixes = columns, number
        self._scores.clear()

    def columns_forget(self) -> None:
        """Drop all columns and scores."""
        self._columns, self._begun = {}, None
        self._scores.clear()

    # -- results, warm starts and checkpoints ----------------------------------------------------------

    def combine_rows(self, mix: Mix) -> Array:
        """These rows' contribution to the weights of a combination."""
        return self.plane_of(self._shaped(self._mixed_coef(mix)))

    def _shaped(self, coef: Array) -> Array:
        columns = self._loss.n_outputs()
        return coef if columns is None else coef.reshape(-1, columns)

    def column_read(self, slot: int) -> Array:
        """Coefficients and scores of a column, in two rows."""
        mix = np.array([slot]), np.ones(1)
        return np.array([self._mixed_coef(mix), self._mixed_scores(mix)])

    def column_write(self, slot: int, column: Array) -> None:
        """Store a column, given those of all rows."""
        coef, scores = column[:, self._own_scores()].copy()
        self._columns[slot] = Column(sparsify(coef), scores)

    def column_errors(self, mix: Mix, w: Array) -> Array:
        """The sums of squares of the scores of a combination, whose weights are w, and of their errors."""
        scores = super().scores_at(w).reshape(-1)
        wrong = scores - self._mixed_scores(mix)
        return np.array([float(scores @ scores), float(wrong @ wrong)])


def make_shard(shared: Rows, part: RowPart | PlacedRowPart) -> WideShard:
    """Build a shard where it runs."""
    return WideShard(*part.on(shared), first=part.lo)
