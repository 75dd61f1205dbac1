"""Columns of a data set that are read on demand: labels, weights, groups."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.columns import LazyColumn
from maxmargin.data.manifest import ColumnFile, DatasetError, Shard
from maxmargin.data.storage import Source


def pieces(starts: list[int], lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
    """``(shard, first, last)`` for the rows ``lo .. hi-1``; row indices relative to the shard."""
    k = bisect.bisect_right(starts, lo) - 1
    while lo < hi:
        end = min(hi, starts[k + 1])
        if end > lo:
            yield k, lo - starts[k], end - starts[k]
        lo, k = end, k + 1


_NOTHING = ColumnFile("", "", (), 0, "", "")


class ShardColumn(LazyColumn):
    """One number or string per row, on disk. Slices are arrays in memory; ``np.asarray`` loads the column."""

    def __init__(
        self,
        storage: Source,
        shards: tuple[Shard, ...],
        starts: list[int],
        name: str,
        decode: Callable[[AnyArray], AnyArray] | None = None,
        check: Callable[[AnyArray], str | None] | None = None,
    ) -> None:
        super().__init__(starts[-1], self._rows)
        # Values are checked once, on first read: the file may have been modified.
        self._check, self._known = check, Known()
        self._storage, self._starts, self._decode = storage, starts, decode
        # A shard of empty sequences has no labels and no rows.
        self._files = [shard.files.get(name, _NOTHING) for shard in shards]
        self._stored = next(file.dtype for file in self._files if file is not _NOTHING)
        self.dtype = self._rows(0, 0).dtype

    def __getitem__(self, key: object) -> Any:
        if isinstance(key, slice):
            return super().__getitem__(key)
        if not isinstance(key, int | np.integer):
            raise TypeError(
                "columns on disk support integers and slices; np.asarray(column) loads the column."
            )
        row = int(key) + (len(self) if key < 0 else 0)
        if not 0 <= row < len(self):
            raise IndexError(f"row {key} is out of range: the column has {len(self)} rows.")
        return self._rows(row, row + 1)[0]

    def __repr__(self) -> str:
        return f"<column of {len(self)} rows, {self.dtype}>"

    def _rows(self, lo: int, hi: int) -> AnyArray:
        parts = [self._read(*piece) for piece in pieces(self._starts, lo, hi)]
        if len(parts) == 1:
            values = parts[0].copy()  # numba would compile read-only arrays as another type
        elif parts:
            values = np.concatenate(parts)
        else:
            values = np.empty(0, dtype=self._stored)
        return values if self._decode is None else self._decode(values)

    def _read(self, k: int, first: int, last: int) -> AnyArray:
        file = self._files[k]
        values = self._storage.section(file.name, file.dtype, first, last)
        if self._check is not None and not self._known.covers(k, first, last):
            fault = self._check(values)
            if fault is not None:
                raise DatasetError(
                    f"{self._storage.describe(file.name)} (shard {k}): {fault}, in rows "
                    f"{self._starts[k] + first} to {self._starts[k] + last - 1}. The file was modified after "
                    "it was written."
                )
            self._known.add(k, first, last)
        return values


class Known:
    """Ranges of rows per shard that were checked. Thread-safe: at worst a range is lost and checked again."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[tuple[int, int], ...]] = {}

    def covers(self, k: int, first: int, last: int) -> bool:
        """Whether all these rows were added."""
        return any(a <= first and last <= b for a, b in self._ranges.get(k, ()))

    def add(self, k: int, first: int, last: int) -> None:
        """Add rows; adjacent ranges are merged."""
        apart = []
        for a, b in self._ranges.get(k, ()):
            if b < first or last < a:
                apart.append((a, b))
            else:
                first, last = min(a, first), max(b, last)
        self._ranges[k] = (*apart, (first, last))
