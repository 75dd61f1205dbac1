"""The rows of a score risk, as its shards and its dual points see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import Design
from maxmargin.losses.base import ScoreLoss

#: entries whose visit takes as long as what surrounds an epoch
CALL = 20_000.0


def epochs_per_call(work: float) -> int:
    """How many epochs of this much work to run at a time."""
    return int(min(5.0, max(1.0, CALL / max(1.0, work))))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """All rows there are, and the ranges of them that belong to the problem.

    A fold of a cross-validation is two ranges of rows that were reordered once: no copy, no mask.
    Arrays of one number per row have the length of the design; what lies outside the ranges is
    never looked at. Labels and weights may be lazy columns, which are read a range at a time.
    ``offset`` is added to the scores: one number per row and column.
    """

    design: Design
    y: Any
    weight: Any
    loss: ScoreLoss
    intercept: float
    ranges: tuple[tuple[int, int], ...]
    offset: Array | None = None

    @property
    def n(self) -> int:
        """Rows in the ranges."""
        return sum(hi - lo for lo, hi in self.ranges)

    @property
    def n_columns(self) -> int:
        """Scores per row."""
        return self.loss.n_outputs() or 1

    @property
    def dim(self) -> int:
        """Length of w: the features, then the constant one if there is any, times the columns."""
        return (self.design.shape[1] + int(self.intercept != 0.0)) * self.n_columns

    def work(self, n_rows: int) -> float:
        """Entries in so many rows, times the columns."""
        n = max(1, self.design.shape[0])
        return n_rows * self.n_columns * self.design.nnz / n

    def indices(self) -> IntArray:
        """Numbers of the rows that have a weight, ascending."""
        weighed = [lo + np.flatnonzero(self.weight[lo:hi] > 0.0) for lo, hi in self.ranges]
        here: IntArray = np.concatenate(weighed)
        return here

    def accumulate(self, coef: Array) -> Array:
        """The flat ``X' coef`` over the ranges, the constant feature included."""
        d = self.design.shape[1]
        out = np.zeros((self.dim // self.n_columns, *coef.shape[1:]))
        for lo, hi in self.ranges:
            self.design.accumulate(coef[lo:hi], lo, hi, out[:d])
            if self.intercept != 0.0:
                out[d] += self.intercept * coef[lo:hi].sum(axis=0)
        return out.ravel()
