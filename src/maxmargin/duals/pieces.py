"""Pieces of a stream, read from an object store before they are needed.

A piece consists of many short runs of rows, and each request takes long. So several pieces are loaded
together, which joins neighboring runs, and the next ones are on their way while these are in use. Pieces on a
local disk are read when they are needed. Either way the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from maxmargin.core.vectors import IntArray
from maxmargin.data.design import Design, FarDesign
from maxmargin.data.reading_ahead import read_ahead
from maxmargin.duals.loaded_rows import LoadedRows, blocks_of
from maxmargin.duals.rows import Rows

#: bytes that are loaded at a time from an object store
GROUP_BYTES = 2**26


class Pieces:
    """Reads pieces: arrays of positions in ``runs``. A piece has about ``size`` bytes."""

    def __init__(
        self, rows: Rows, runs: Sequence[tuple[int, int]], n_pieces: int, size: float
    ) -> None:
        self._rows, self._runs, self._n_pieces = rows, runs, n_pieces
        self._at_a_time = max(1, int(GROUP_BYTES / size))
        far = isinstance(rows.design, FarDesign) and rows.design.far
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="maxmargin-read") if far else None
        #: what is loaded or on its way: the load, and the position in it
        self._coming: dict[bytes, tuple[Future[list[LoadedRows]], int]] = {}

    def read(self, piece: IntArray, following: Sequence[IntArray]) -> LoadedRows:
        """The rows of a piece, in order. ``following`` are the pieces that will be read after it."""
        if self._pool is None:
            return LoadedRows.read_all(self._rows, [self._runs[k] for k in piece])
        if piece.tobytes() not in self._coming:
            self._coming.clear()  # another pass than expected
            self._order([piece, *following][: self._at_a_time])
        load, position = self._coming.pop(piece.tobytes())
        if len(self._coming) < self._at_a_time:
            self._order(following[len(self._coming) :][: self._at_a_time])
        return load.result()[position]

    def in_order(self) -> Iterator[tuple[int, int, Design, int]]:
        """The bounds of every run, a design that has its rows, and where they begin in it."""
        if self._pool is None:
            yield from ((lo, hi, self._rows.design, lo) for lo, hi in self._runs)
            return
        step = self._at_a_time * max(1, -(-len(self._runs) // self._n_pieces))
        groups = [self._runs[k : k + step] for k in range(0, len(self._runs), step)]
        load = partial(blocks_of, self._rows.design)
        for group, blocks in zip(groups, read_ahead(load, groups, 1), strict=True):
            for (lo, hi), block in zip(group, blocks, strict=True):
                yield lo, hi, block, 0

    def _order(self, pieces: Sequence[IntArray]) -> None:
        if pieces and self._pool is not None:
            load = self._pool.submit(self._load, pieces)
            for position, piece in enumerate(pieces):
                self._coming[piece.tobytes()] = load, position

    def _load(self, pieces: Sequence[IntArray]) -> list[LoadedRows]:
        spans = [[self._runs[k] for k in piece] for piece in pieces]
        blocks = iter(blocks_of(self._rows.design, [run for own in spans for run in own]))
        return [
            LoadedRows.join([LoadedRows.read(self._rows, lo, hi, next(blocks)) for lo, hi in own])
            for own in spans
        ]
