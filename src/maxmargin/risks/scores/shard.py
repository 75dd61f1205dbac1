"""A shard of a score risk: products with some rows, and the loss of their scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.data.columns import LazyColumn
from maxmargin.data.design import BLOCK, row_lengths
from maxmargin.duals.loaded_rows import PlacedRuns, Runs, RunsPart
from maxmargin.duals.proofs import steepest
from maxmargin.duals.rows import PlacedRowPart, RowPart, Rows
from maxmargin.duals.shard_block import BlockShard
from maxmargin.files.scratch import FROM_ROWS, ScratchPool
from maxmargin.risks.lines.shard import LossShard

#: scores that are in memory at a time if only their loss is asked for
MOST_SCORES = 2**17


class ScoreShard(LossShard, BlockShard):
    """Rows ``lo .. hi-1``. ``runs`` are their indices among all rows, if they are a block."""

    def __init__(self, rows: Rows, lo: int, hi: int, runs: Runs = ()) -> None:
        super().__init__()
        self._runs = runs
        self._design, self._loss, self._intercept = rows.design, rows.loss, rows.intercept
        self._rows, self._lo, self._hi = rows, lo, hi
        self._lengths: Array | float | None = None
        if isinstance(rows.y, LazyColumn) and hi - lo >= FROM_ROWS:  # not in memory, and many
            self._scratch = ScratchPool()

    @property
    def _labels(self) -> tuple[Any, Any]:
        """Labels and weights: views, or read from disk."""
        lo, hi = self._lo, self._hi
        return self._rows.y[lo:hi], self._rows.weight[lo:hi]

    @property
    def _offset(self) -> Array | None:
        offset = self._rows.offset
        return None if offset is None else offset[self._lo : self._hi]

    def value_at(self, w: Array) -> float:
        """The risk at w. No scores are kept, and few are in memory at a time."""
        lo, hi, total = self._lo, self._hi, 0.0
        height = max(BLOCK, MOST_SCORES // self._rows.n_columns // BLOCK * BLOCK)
        for first in range(lo, hi, height):
            part = ScoreShard(self._rows, first, min(hi, first + height))
            total += part.line_evaluate(0, w, frozenset())
        return total

    def scores_at(self, w: Array) -> Array:
        d, columns = self._design.shape[1], self._loss.n_outputs()
        if columns is not None:
            w = w.reshape(-1, columns)
        scores = self._design.dot(w[:d], self._lo, self._hi)
        if self._intercept != 0.0:
            scores += self._intercept * w[d]
        if self._offset is not None:
            scores += self._offset
        return scores

    def scores_of(self, key: int) -> Array:
        return self._at(key)

    def plane_of(self, coef: Array) -> Array:
        """The flat ``X[lo:hi]' coef``, including the constant feature."""
        d, extra = self._design.shape[1], int(self._intercept != 0.0)
        plane = np.zeros((d + extra, *coef.shape[1:]))
        self._design.accumulate(coef, self._lo, self._hi, plane[:d])
        if extra:
            # BLAS: NumPy's own sum over the rows of a narrow matrix is four times slower
            plane[d] = self._intercept * (np.ones(len(coef)) @ coef)
        return plane.ravel()

    def lengths(self) -> Array | float | None:
        """See :meth:`LossShard.lengths`."""
        if self._lengths is None:
            known = row_lengths(self._design, self._lo, self._hi)
            if known is not None:
                self._lengths = np.hypot(known, self._intercept)
        return self._lengths

    def totals(self) -> Array:
        """Weighted sums over the rows of |x|, |x|^2, and of offsets |o|, |o|^2; NaN if unknown."""
        y, weight = self._labels
        limits = steepest(self._loss, np.asarray(y), np.asarray(weight))
        return totals(limits, self.lengths(), self._offset)


def totals(limits: Array, lengths: Array | float | None, offset: Array | None) -> Array:
    """Sums over the rows of |x|, |x|^2, and of offsets |o|, |o|^2, each times its limit; NaN if unknown."""
    if lengths is None:
        return np.full(4, np.nan)
    sizes = limits * lengths
    out = [float(sizes.sum()), float(np.sum(sizes * lengths)), 0.0, 0.0]
    if offset is not None:
        shift = np.abs(offset)
        shift = shift if shift.ndim == 1 else shift.max(axis=1)
        out[2:] = [float(limits @ shift), float(limits @ shift**2)]
    return np.array(out)


def make_shard(shared: Rows, part: RowPart | PlacedRowPart) -> ScoreShard:
    """The shard of a part, which may have been sent from another process."""
    return ScoreShard(*part.on(shared))


def make_block(shared: Rows, part: RunsPart | PlacedRuns) -> ScoreShard:
    """The same for a block of rows: they are in memory."""
    rows = part.loaded(shared)
    return ScoreShard(rows, 0, rows.n, part.runs)
