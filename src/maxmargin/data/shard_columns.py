"""Columns of a data set that are read when asked: labels, weights, groups."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.data.columns import LazyColumn
from maxmargin.data.manifest import ColumnFile, Shard
from maxmargin.data.storage import Storage

AnyArray = npt.NDArray[Any]


def pieces(starts: list[int], lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
    """``(shard, first, last)`` for the rows ``lo .. hi-1``; rows counted from the shard's start."""
    k = bisect.bisect_right(starts, lo) - 1
    while lo < hi:
        end = min(hi, starts[k + 1])
        if end > lo:
            yield k, lo - starts[k], end - starts[k]
        lo, k = end, k + 1


_NOTHING = ColumnFile("", "", (), 0, "")


class ShardColumn(LazyColumn):
    """One number or text per row, on disk. Slices are arrays in memory; ``np.asarray`` loads all of it."""

    def __init__(
        self,
        storage: Storage,
        shards: tuple[Shard, ...],
        starts: list[int],
        name: str,
        decode: Callable[[AnyArray], AnyArray] | None = None,
    ) -> None:
        super().__init__(starts[-1], self._rows)
        self._storage, self._starts, self._decode = storage, starts, decode
        # a shard of empty sequences has no labels, and no rows that anyone could ask for
        self._files = [shard.files.get(name, _NOTHING) for shard in shards]
        self._stored = next(file.dtype for file in self._files if file is not _NOTHING)
        self.dtype = self._rows(0, 0).dtype

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return super().__getitem__(key)
        if not isinstance(key, int | np.integer):
            raise TypeError(
                "columns on disk take integers and slices; np.asarray(column) loads it."
            )
        row = int(key) + (len(self) if key < 0 else 0)
        if not 0 <= row < len(self):
            raise IndexError(f"row {key} of {len(self)}.")
        return self._rows(row, row + 1)[0]

    def __repr__(self) -> str:
        return f"<column of {len(self)} rows, {self.dtype}>"

    def _rows(self, lo: int, hi: int) -> AnyArray:
        parts = [
            self._storage.section(self._files[k].name, self._files[k].dtype, first, last)
            for k, first, last in pieces(self._starts, lo, hi)
        ]
        if len(parts) == 1:
            values = parts[0].copy()  # small; and read-only arrays would be compiled for anew
        elif parts:
            values = np.concatenate(parts)
        else:
            values = np.empty(0, dtype=self._stored)
        return values if self._decode is None else self._decode(values)
