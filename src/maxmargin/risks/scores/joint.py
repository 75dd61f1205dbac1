"""Non-decomposable metrics (F1, ROC AUC): losses that need the scores of all samples in one place.

The loss of one sample depends on the scores of all, so the loss is computed in one place. Everything else
stays with the rows:

    scores at w      products at the shards, in parallel; gathered, 8 bytes per row
    value, slopes    functions of the scores: computed here, by the loss itself
    plane X'g        the loss' derivative g is sent out, 8 bytes per row; each shard multiplies its slice, and
                     the planes are summed like any others

So communication is one number per row for each evaluated point, and again for each cut. A line between two
evaluated points needs none: its scores are combinations of the gathered ones. Shards keep no state.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.core.vectors import Array, Vector, writable
from maxmargin.duals.rows import PlacedRowPart, RowPart, Rows
from maxmargin.risks.lines.evaluation import ScoreCache
from maxmargin.risks.lines.shard import LossShard
from maxmargin.risks.scores.shard import ScoreShard

Spec = tuple[int, RowPart | PlacedRowPart]
"""A part of the rows, and the number of rows of the problem before it."""


class _Slice:
    """Some of the rows, without labels: only products with them are needed."""

    def __init__(self, shard: ScoreShard, start: int, stop: int) -> None:
        self._shard, self._here = shard, slice(start, stop)

    def scores_at(self, w: Array) -> Array:
        return self._shard.scores_at(w)

    def plane_of(self, coef: Array) -> Cut:
        """``X' coef``, as the plane of a cut, which has a compact pickled form."""
        return Cut(0.0, self._shard.plane_of(writable(coef)[self._here]))

    def longest(self) -> float | None:
        """The norm of the longest row; None if unknown."""
        known = self._shard.lengths()
        return None if known is None else float(np.max(known, initial=0.0))


def _make_slice(shared: Rows, spec: Spec) -> _Slice:
    start, part = spec
    return _Slice(ScoreShard(*part.on(shared)), start, start + part.hi - part.lo)


class _Gathered(LossShard):
    """The scores of all rows of a problem, and their loss."""

    def __init__(self, engine: Engine, rows: Rows) -> None:
        super().__init__()
        self._engine, self._loss = engine, rows.loss
        self._known: float | None = None  # the norm of the longest row; NaN if unknown
        offset = None if rows.offset is None else _joined(rows, rows.offset)
        self._held = _joined(rows, rows.y), _joined(rows, rows.weight), offset

    def scores_at(self, w: Array) -> Array:
        engine = self._engine
        return np.concatenate(engine.gather(_Slice.scores_at, engine.publish(w)))

    def lengths(self) -> float | None:
        """See :meth:`LossShard.lengths`."""
        if self._known is None:
            parts: list[float | None] = self._engine.gather(_Slice.longest)
            known = [part for part in parts if part is not None]
            self._known = max(known) if len(known) == len(parts) else np.nan
        return None if np.isnan(self._known) else self._known

    @property
    def _labels(self) -> tuple[Any, Any]:
        return self._held[:2]

    @property
    def _offset(self) -> Array | None:
        return self._held[2]

    def plane_of(self, gradient: Array) -> Vector:
        """The sum of the slices' planes."""
        gradient.setflags(write=False)  # publishing a read-only array needs no copy
        cut: Cut = self._engine.reduce(_Slice.plane_of, self._engine.publish(gradient))
        return cut.plane


def _joined(rows: Rows, column: Any) -> Any:
    """A column restricted to the ranges of the problem, in their order."""
    parts = [column[lo:hi] for lo, hi in rows.ranges]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def gathering(engine: Engine, rows: Rows, bounds: list[tuple[int, int]]) -> ScoreCache:
    """Evaluations of a non-decomposable loss: the engine's shards hold the rows; the scores are kept here."""
    bare = replace(rows, y=None, weight=None)
    specs: list[Spec] = []
    start = 0
    for lo, hi in bounds:
        specs.append((start, RowPart(bare, lo, hi)))
        start += hi - lo
    engine.open(partial(_make_slice, bare.shared_part()), specs)
    return ScoreCache(SerialEngine().open(partial(_Gathered, engine), [rows]), 1)
