"""A shard's part of the planes of :mod:`maxmargin.risks.scores.wide`: coefficients and scores of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.matrices import is_finite
from maxmargin.core.vectors import Array, SparseVector, Vector, add_scaled, sparsify
from maxmargin.duals.rows import PlacedRowPart, RowPart, Rows
from maxmargin.risks.lines.shard import NOT_FINITE, LostScores
from maxmargin.risks.scores.shard import ScoreShard
from maxmargin.risks.scores.wide_columns import Mix

#: number of rows summed at a time, so that the sum stays in the cache
CHUNK = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A shard's part of a plane a = X'g: its part of the cut's offset, and g and X a of its rows."""

    offset: float
    coef: Vector
    scores: Array


class WideShard(ScoreShard):
    """Rows ``lo .. hi-1``; points are combinations of columns.

    Columns are made step by step, in the same order at all shards, and a shard counts its steps. A
    step that was already taken is skipped. A step that comes too early means that the shard was rebuilt
    (:class:`maxmargin.risks.lines.evaluation.LostScores`).
    """

    def __init__(self, rows: Rows, lo: int, hi: int, first: int) -> None:
        super().__init__(rows, lo, hi)
        self._first = first  # the index of its first row among all rows
        self._columns: dict[int, Column] = {}
        self._taken = 0
        self._begun: tuple[int, float, Vector] | None = (
            None  # an unfinished column: its step, offset and coefficients
        )

    # -- scores ----------------------------------------------------------------------------------------

    def check(self, told: int) -> None:
        """Raise LostScores unless all steps so far were taken."""
        if self._taken < told:
            raise LostScores(f"only {self._taken} of {told} steps were taken here")

    def scores_at(self, w: Array) -> Array:
        """The scores of a combination: no pass over the rows."""
        scores = self._mixed_scores((np.flatnonzero(w), w[w != 0.0]))
        columns = self._loss.n_outputs()
        return scores if columns is None else scores.reshape(-1, columns)

    def _size(self) -> int:
        return (self._hi - self._lo) * (self._loss.n_outputs() or 1)

    def _at_slot(self, slot: int) -> Column:
        try:
            return self._columns[slot]
        except KeyError:
            raise LostScores(f"column {slot} is not here") from None

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

    # -- steps -----------------------------------------------------------------------------------------

    def steps_taken(self) -> int:
        return self._taken

    def column_gradient(self, step: int, slot: int, w: Array) -> float:
        """Begin a column with the cut at w: store its coefficients and return the offset."""
        if self._taken > step:
            return self._at_slot(slot).offset
        self.check(step)
        offset, gradient = self._loss.cut(self.scores_at(w), *self._labels)
        self._begun = step, offset, sparsify(np.ascontiguousarray(gradient).reshape(-1))
        return float(offset)

    def column_plane(self, step: int, slot: int) -> Cut:
        """``X' g``, as the plane of a cut, which has a compact pickled form."""
        return Cut(0.0, self.plane_of(self._shaped(self._coef(step, slot))))

    def column_coef(self, step: int, slot: int) -> Array:
        """The coefficients g."""
        return self._coef(step, slot)

    def _coef(self, step: int, slot: int) -> Array:
        coef = self._at_slot(slot).coef if self._taken > step else self._unfinished(step)[1]
        return coef.to_dense() if isinstance(coef, SparseVector) else coef

    def column_finish(self, step: int, slot: int, plane: Array) -> None:
        """Store the scores of the plane, which completes the column."""
        if self._taken <= step:
            self._finish(step, slot, super().scores_at(plane).reshape(-1))

    def column_finish_scores(self, step: int, slot: int, scores: Array) -> None:
        """The same with precomputed scores of all rows."""
        if self._taken <= step:
            per_row = self._loss.n_outputs() or 1
            start = self._first * per_row
            self._finish(step, slot, scores[start : start + self._size()].copy())

    def _finish(self, step: int, slot: int, scores: Array) -> None:
        if not is_finite(scores):
            raise ValueError(NOT_FINITE)
        self._columns[slot] = Column(*self._unfinished(step), scores)
        self._taken, self._begun = step + 1, None

    def _unfinished(self, step: int) -> tuple[float, Vector]:
        if self._begun is None or self._begun[0] != step:
            raise LostScores(f"column {step} was not begun here")
        return self._begun[1:]

    def column_products(self, slot: int, n_slots: int) -> Array:
        """The inner products of a plane with those of the first slots: <a_i, a> = <g_i, X a>."""
        scores = self._at_slot(slot).scores
        out = np.zeros(n_slots)
        for other, column in self._columns.items():
            coef = column.coef
            if isinstance(coef, SparseVector):
                out[other] = np.einsum("i,i->", coef.values, scores[coef.indices])
            else:
                out[other] = np.einsum("i,i->", coef, scores)
        return out

    def columns_mix(self, step: int, kept: list[int], mixed: dict[int, Mix]) -> None:
        """Keep some columns, replace others by combinations, and drop the rest and all scores."""
        if self._taken > step:
            return
        self.check(step)
        columns = {slot: self._at_slot(slot) for slot in kept}
        for slot, mix in mixed.items():
            coef = sparsify(self._mixed_coef(mix))
            columns[slot] = Column(0.0, coef, self._mixed_scores(mix))
        self._columns, self._taken = columns, step + 1
        self._scores.clear()

    def columns_forget(self) -> None:
        """Drop all columns and scores."""
        self._columns, self._taken, self._begun = {}, 0, None
        self._scores.clear()

    # -- results and warm starts -----------------------------------------------------------------------

    def combine_rows(self, told: int, mix: Mix) -> Array:
        """These rows' contribution to the weights of a combination."""
        self.check(told)
        return self.plane_of(self._shaped(self._mixed_coef(mix)))

    def _shaped(self, coef: Array) -> Array:
        columns = self._loss.n_outputs()
        return coef if columns is None else coef.reshape(-1, columns)

    def columns_keep(self, told: int, used: list[int]) -> tuple[int, int, dict[int, Column]]:
        """The columns for a later shard of the same rows, without one that Ctrl-C left unfinished."""
        self.check(told)
        return self._first, told, {slot: self._columns[slot] for slot in used}

    def columns_take(self, kept: list[tuple[int, int, dict[int, Column]]]) -> None:
        """Continue with the columns of an earlier shard of the same rows."""
        for first, taken, columns in kept:
            if first == self._first and all(
                len(c.scores) == self._size() for c in columns.values()
            ):
                self._taken, self._columns = taken, dict(columns)


def make_shard(light: Rows, part: RowPart | PlacedRowPart) -> WideShard:
    """Build a shard where it runs."""
    return WideShard(*part.on(light), first=part.lo)
