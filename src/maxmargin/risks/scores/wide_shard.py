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

#: rows of columns that are added up at a time: the sum stays in the cache
CHUNK = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The part of a plane a = X'g that belongs to a shard: g and X a of its rows, and of the cut's offset."""

    offset: float
    coef: Vector
    scores: Array


class WideShard(ScoreShard):
    """Rows ``lo .. hi-1``; points are combinations of columns.

    Columns come about step by step, in one order for all shards; a shard knows how many steps it has taken. A
    step that it took before is not taken again, and one that comes too early means that it was built anew
    (:class:`maxmargin.risks.lines.evaluation.LostScores`).
    """

    def __init__(self, rows: Rows, lo: int, hi: int, first: int) -> None:
        super().__init__(rows, lo, hi)
        self._first = first  # the number of its first row among all
        self._columns: dict[int, Column] = {}
        self._taken = 0
        self._begun: tuple[int, float, Vector] | None = (
            None  # a column: its step, offset and coefficients
        )

    # -- what scores are made of -----------------------------------------------------------------------

    def check(self, told: int) -> None:
        """Whether all steps so far were taken."""
        if self._taken < told:
            raise LostScores(f"{self._taken} of {told} steps were taken here")

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
        """Begin a column with the cut at w: its coefficients are kept; the offset is the answer."""
        if self._taken > step:
            return self._at_slot(slot).offset
        self.check(step)
        offset, gradient = self._loss.cut(self.scores_at(w), *self._labels)
        self._begun = step, offset, sparsify(np.ascontiguousarray(gradient).reshape(-1))
        return float(offset)

    def column_plane(self, step: int, slot: int) -> Cut:
        """``X' g``: a vector of weights, as the plane of a cut since those know how to travel."""
        return Cut(0.0, self.plane_of(self._shaped(self._coef(step, slot))))

    def column_coef(self, step: int, slot: int) -> Array:
        """g itself."""
        return self._coef(step, slot)

    def _coef(self, step: int, slot: int) -> Array:
        coef = self._at_slot(slot).coef if self._taken > step else self._unfinished(step)[1]
        return coef.to_dense() if isinstance(coef, SparseVector) else coef

    def column_finish(self, step: int, slot: int, plane: Array) -> None:
        """Keep the scores of the plane: the column is complete."""
        if self._taken <= step:
            self._finish(step, slot, super().scores_at(plane).reshape(-1))

    def column_finish_scores(self, step: int, slot: int, scores: Array) -> None:
        """The same with scores of all rows that somebody else computed."""
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
        """Some columns stay, combinations take the places of others, the rest is gone; so are all scores."""
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
        """As if built anew."""
        self._columns, self._taken, self._begun = {}, 0, None
        self._scores.clear()

    # -- handing over ----------------------------------------------------------------------------------

    def combine_rows(self, told: int, mix: Mix) -> Array:
        """The weights of a combination, as far as these rows make them up."""
        self.check(told)
        return self.plane_of(self._shaped(self._mixed_coef(mix)))

    def _shaped(self, coef: Array) -> Array:
        columns = self._loss.n_outputs()
        return coef if columns is None else coef.reshape(-1, columns)

    def columns_keep(self, told: int, used: list[int]) -> tuple[int, int, dict[int, Column]]:
        """The columns, for a later shard of the same rows; not one that Ctrl-C left half done."""
        self.check(told)
        return self._first, told, {slot: self._columns[slot] for slot in used}

    def columns_take(self, kept: list[tuple[int, int, dict[int, Column]]]) -> None:
        """Go on with what an earlier shard of the same rows had."""
        for first, taken, columns in kept:
            if first == self._first and all(
                len(c.scores) == self._size() for c in columns.values()
            ):
                self._taken, self._columns = taken, dict(columns)


def make_shard(light: Rows, part: RowPart | PlacedRowPart) -> WideShard:
    """A shard where it runs."""
    return WideShard(*part.on(light), first=part.lo)
