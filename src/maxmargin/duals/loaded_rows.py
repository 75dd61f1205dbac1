"""Rows loaded into memory, with their original indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray, writable
from maxmargin.data.columns import LazyColumn
from maxmargin.data.design import BlockDesign, CSRDesign, DenseDesign, FarDesign
from maxmargin.duals.rows import Rows

InMemory = DenseDesign | CSRDesign
#: ranges (lo, hi) of rows
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedRows:
    """Some rows in memory, with their original indices."""

    index: IntArray
    rows: Rows

    def __len__(self) -> int:
        return len(self.index)

    @property
    def design(self) -> InMemory:
        """The feature matrix of these rows."""
        design = self.rows.design
        assert isinstance(design, DenseDesign | CSRDesign)
        return design

    def take(self, which: IntArray) -> LoadedRows:
        """A subset of the rows."""
        rows = self.rows
        offset = None if rows.offset is None else rows.offset[which]
        return LoadedRows(
            self.index[which],
            part(rows, self.design.take(which), rows.y[which], rows.weight[which], offset),
        )

    def like(self, other: LoadedRows) -> LoadedRows:
        """The same rows, converted to dense or sparse like those of ``other``."""
        if type(self.design) is type(other.design):
            return self
        return LoadedRows(self.index, replace(self.rows, design=_converted(self.design)))

    @classmethod
    def read(cls, rows: Rows, lo: int, hi: int, block: InMemory | None = None) -> LoadedRows:
        """Load the rows ``lo .. hi-1``; ``block`` holds their features if they are loaded already."""
        some = slice_of(rows, lo, hi)
        if block is None:
            design: BlockDesign = rows.design  # type: ignore[assignment]
            block = design.block(lo, hi)
        return cls(np.arange(lo, hi), part(rows, block, some.y, some.weight, some.offset))

    @classmethod
    def read_all(cls, rows: Rows, runs: Sequence[tuple[int, int]]) -> LoadedRows:
        """Load the rows of several ranges, one after the other."""
        blocks = blocks_of(rows.design, runs)
        return cls.join(
            [cls.read(rows, lo, hi, b) for (lo, hi), b in zip(runs, blocks, strict=True)]
        )

    @classmethod
    def join(cls, parts: Sequence[LoadedRows]) -> LoadedRows:
        """Concatenate the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        every = [held.rows for held in parts]
        offset = None
        if every[0].offset is not None:
            offset = np.concatenate([rows.offset for rows in every])
        y, weight = (np.concatenate([getattr(r, name) for r in every]) for name in ("y", "weight"))
        design = stacked([held.design for held in parts])
        index = np.concatenate([held.index for held in parts])
        return cls(index, part(every[0], design, y, weight, offset))


def part(rows: Rows, design: Any, y: Any, weight: Array, offset: Array | None) -> Rows:
    """Other rows of the same problem."""
    return replace(
        rows, design=design, y=y, weight=weight, offset=offset, ranges=((0, len(weight)),)
    )


def slice_of(rows: Rows, lo: int, hi: int) -> Rows:
    """Labels, weights and offsets of a range. The design is that of all rows and must not be used."""
    offset = None if rows.offset is None else rows.offset[lo:hi]
    y, weight = np.asarray(rows.y[lo:hi]), np.asarray(rows.weight[lo:hi])
    return part(rows, rows.design, y, weight, offset)


def blocks_of(design: Any, runs: Sequence[tuple[int, int]]) -> list[InMemory]:
    """The rows of several ranges; those that are far away are loaded together."""
    if isinstance(design, FarDesign) and design.far:
        return design.blocks(runs)
    return [design.block(lo, hi) for lo, hi in runs]


def stacked(parts: Sequence[InMemory]) -> InMemory:
    """Stack feature matrices."""
    dense = [part.X for part in parts if isinstance(part, DenseDesign)]
    if len(dense) == len(parts):
        return DenseDesign(np.concatenate(dense))
    sparse = [part for part in parts if isinstance(part, CSRDesign)]
    if len(sparse) < len(parts):
        raise TypeError("some blocks of the feature matrix are dense and others are sparse.")
    counts = np.concatenate([np.diff(part.indptr) for part in sparse])
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
    indices = np.concatenate([part.indices for part in sparse])
    data = np.concatenate([part.data for part in sparse])
    return CSRDesign.of(indptr, indices, data, (len(counts), sparse[0].shape[1]))


def _converted(design: InMemory) -> InMemory:
    if isinstance(design, DenseDesign):
        return CSRDesign(sp.csr_matrix(design.X))
    parts = (design.data, design.indices, design.indptr)
    return DenseDesign(sp.csr_matrix(parts, shape=design.shape, copy=False).toarray())


# -- runs of rows, as the shards of blocks have them -----------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RunsPart:
    """Some runs of neighboring rows, from which a shard is built that has them in memory.

    Pickled, it contains its own rows if all are in memory; otherwise the shard reads them."""

    rows: Rows
    runs: Runs

    def loaded(self, shared: Rows) -> Rows:
        """The rows of the runs, one after the other."""
        return LoadedRows.read_all(self.rows, self.runs).rows

    def __reduce__(self) -> Any:
        rows = self.rows
        if isinstance(rows.design, DenseDesign | CSRDesign):
            own = self.loaded(rows)
            return PlacedRuns, (self.runs, own.design, own.y, own.weight, own.offset)
        columns = [rows.y, rows.weight, rows.offset]
        cut = [None if c is None or isinstance(c, LazyColumn) else self._cut(c) for c in columns]
        return PlacedRuns, (self.runs, None, *cut)

    def _cut(self, column: Any) -> Any:
        return np.concatenate([column[lo:hi] for lo, hi in self.runs])


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRuns:
    """An unpickled part; what it lacks is read, or taken from the rows that all parts share."""

    runs: Runs
    design: InMemory | None
    y: Any
    weight: Any
    offset: Array | None

    def loaded(self, shared: Rows) -> Rows:
        """The rows of the runs, one after the other."""
        design = self.design
        if design is None:
            design = stacked(blocks_of(shared.design, self.runs))
        y, weight = self._column(self.y, shared.y), self._column(self.weight, shared.weight)
        offset = None if self.offset is None else writable(self.offset)
        return part(shared, design, y, weight, offset)

    def _column(self, own: Any, shared: Any) -> Any:
        if own is not None:
            return writable(own)
        return np.concatenate([np.asarray(shared[lo:hi]) for lo, hi in self.runs])
