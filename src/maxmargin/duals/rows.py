"""The rows of a score risk, as its shards and its dual points use them, and how they are pickled.

A shard is made of a :class:`RowPart` of the rows. In this process that is the rows themselves and a range. A
pickled part contains its own rows only. What pickles as a path anyway (a data set on disk, its
columns) is left out and sent to a worker once, with the factory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.core.stored_values import floats
from maxmargin.core.vectors import Array, IntArray, writable
from maxmargin.data.columns import LazyColumn, Window
from maxmargin.data.design import CSRDesign, DenseDesign, Design, DivisibleDesign, RangeDesign
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import RowTerms

#: number of entries whose visit takes as long as the overhead of an epoch
CALL = 20_000.0


def epochs_per_call(work: float) -> int:
    """The number of epochs of this much work to run per call."""
    return int(min(5.0, max(1.0, CALL / max(1.0, work))))


def same_shape(given: object, own: Array) -> Array:
    """Check numbers from a file: they must fit these rows."""
    return floats(given, "the numbers of rows", own.shape)


@dataclass(frozen=True, eq=False)
class Rows:
    """All stored rows, and the ranges of them that belong to the problem.

    A fold of a cross-validation is two ranges of rows that were reordered once: no copy, no mask.
    Arrays with one number per row have the length of the feature matrix; entries outside the ranges are
    not used. Labels and weights may be lazy columns, which are read one range at a time.
    ``offset`` is added to the scores: one number per row and column.
    """

    design: Design
    y: Any
    weight: Any
    loss: ScoreLoss
    intercept: float
    ranges: tuple[tuple[int, int], ...]
    offset: Array | None = None
    #: relative error of entries and offsets that were computed from the data
    relative_error: float = 0.0

    @cached_property
    def n(self) -> int:
        """Number of rows in the ranges."""
        return sum(hi - lo for lo, hi in self.ranges)

    @cached_property
    def n_columns(self) -> int:
        """Number of scores per row."""
        return self.loss.n_outputs() or 1

    @cached_property
    def dim(self) -> int:
        """Length of w: the features, plus the constant feature if there is one, times the columns."""
        return (self.design.shape[1] + int(self.intercept != 0.0)) * self.n_columns

    @cached_property
    def first_terms(self) -> RowTerms | None:
        """The dual of the first row, which says what the duals of all rows can do; None without one."""
        return self.loss.dual_terms(self.y[:1])

    def work(self, n_rows: int) -> float:
        """Number of entries in ``n_rows`` rows, times the columns."""
        n = max(1, self.design.shape[0])
        return n_rows * self.n_columns * self.design.nnz / n

    def indices(self) -> IntArray:
        """Indices of the rows with nonzero weight, ascending."""
        weighed = [lo + np.flatnonzero(self.weight[lo:hi] > 0.0) for lo, hi in self.ranges]
        here: IntArray = np.concatenate(weighed)
        return here

    def shared_part(self) -> Rows:
        """The part of the rows that is sent once and shared by all pickled parts."""
        nothing: Any = None
        in_memory = isinstance(self.design, DenseDesign | CSRDesign)
        return Rows(
            nothing if in_memory or isinstance(self.design, DivisibleDesign) else self.design,
            self.y if isinstance(self.y, LazyColumn) else None,
            self.weight if isinstance(self.weight, LazyColumn) else None,
            self.loss,
            self.intercept,
            self.ranges,
            None,
            self.relative_error,
        )

    def accumulate(self, coef: Array) -> Array:
        """The flat ``X' coef`` over the ranges, including the constant feature."""
        d = self.design.shape[1]
        out = np.zeros((self.dim // self.n_columns, *coef.shape[1:]))
        for lo, hi in self.ranges:
            self.design.accumulate(coef[lo:hi], lo, hi, out[:d])
            if self.intercept != 0.0:
                out[d] += self.intercept * coef[lo:hi].sum(axis=0)
        return out.ravel()


@dataclass(frozen=True, slots=True, eq=False)
class RowPart:
    """The rows ``lo .. hi-1``, from which a shard is built."""

    rows: Rows
    lo: int
    hi: int

    def on(self, shared: Rows) -> tuple[Rows, int, int]:
        """The rows, and the range of them to use."""
        return self.rows, self.lo, self.hi

    def __reduce__(self) -> Any:
        rows, lo, hi = self.rows, self.lo, self.hi
        columns = [rows.y, rows.weight, rows.offset]
        cut = [None if c is None or isinstance(c, LazyColumn) else c[lo:hi] for c in columns]
        design = rows.design.part(lo, hi) if isinstance(rows.design, DivisibleDesign) else None
        return PlacedRowPart, (lo, hi, design, *cut)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRowPart:
    """An unpickled part; what it lacks is taken from the rows that all parts share."""

    lo: int
    hi: int
    design: Design | None
    y: Any
    weight: Any
    offset: Array | None

    def on(self, shared: Rows) -> tuple[Rows, int, int]:
        """The rows, and the range of them to use, which is all."""
        lo, hi = self.lo, self.hi
        rows = Rows(
            RangeDesign(shared.design, lo, hi) if self.design is None else self.design,
            _column(self.y, shared.y, lo, hi),
            _column(self.weight, shared.weight, lo, hi),
            shared.loss,
            shared.intercept,
            ((0, hi - lo),),
            None if self.offset is None else writable(self.offset),
            shared.relative_error,
        )
        return rows, 0, hi - lo


def _column(own: Any, shared: LazyColumn | None, lo: int, hi: int) -> Any:
    """The column pickled with the part, or a window of the shared one, or None."""
    if own is not None:
        return writable(own)
    return None if shared is None else Window(shared, lo, hi)
