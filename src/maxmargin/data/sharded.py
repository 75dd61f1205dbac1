"""Products with rows on disk, bit-identical to products with the whole matrix in memory.

Rows are processed in chunks. A chunk is a :class:`~maxmargin.data.design.DenseDesign` or
:class:`~maxmargin.data.design.CSRDesign` over memory-mapped files, and the same compiled code computes its
products. A second thread loads the next chunk in the meantime. Two products of dense matrices work in blocks
of rows. ``dot`` with several columns counts its blocks from the first requested row: chunks are split between
blocks, and a block across the end of a file is joined from two parts. ``accumulate`` with several columns
counts rows with a nonzero coefficient: an incomplete block is carried over to the next chunk.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate as running
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import AnyArray, check_columns, check_dense, check_entries
from maxmargin.core.vectors import Array, IntArray, writable
from maxmargin.data.design import BLOCK, CSRDesign, DenseDesign, has_repeats
from maxmargin.data.manifest import DatasetError, Manifest, Shard
from maxmargin.data.reading_ahead import read_ahead
from maxmargin.data.shard_columns import Known, pieces
from maxmargin.data.storage import Sections, Source
from maxmargin.data.typed_design import TypedDesign, block_rows
from maxmargin.data.typed_rows import check_finite

#: rows in memory, in their type
InMemory: TypeAlias = DenseDesign | CSRDesign | TypedDesign
#: bytes of features in use at a time; the same amount is prefetched
CHUNK_BYTES = 32 << 20
#: when many ranges are loaded from an object store: bytes of one request, and number of requests at a time
BLOCK_BYTES, REQUESTS = 8 << 20, 8


#: pointers to read at a time
POINTERS = 4096


class ShardedDesign:
    """The rows of a data set as a design. Thread-safe."""

    def __init__(self, storage: Source, manifest: Manifest) -> None:
        self._storage, self._shards = storage, manifest.shards
        self._starts = list(running((shard.rows for shard in manifest.shards), initial=0))
        self._entries = list(running((shard.stored for shard in manifest.shards), initial=0))
        self._dense = manifest.layout == "dense"
        self._kind, self._typed = manifest.stored_dtype, manifest.typed
        narrow = manifest.typed(np.empty((0, manifest.n_features), self._kind))
        #: what codes mean, and the rows that are multiplied at a time, as in memory
        self._block = BLOCK if narrow is None else block_rows(manifest.n_features)
        self._narrow = narrow is not None
        #: rows already checked, so that only the first pass over a shard pays for the check
        self._known = Known()
        self.shape: tuple[int, int] = (manifest.rows, manifest.n_features)
        self.nnz, self.largest_square = manifest.stored, manifest.largest_square

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`~maxmargin.data.design.Design`."""
        if W.shape[0] != self.shape[1]:
            raise ValueError(f"W has {W.shape[0]} rows for {self.shape[1]} features.")
        out = np.empty((hi - lo, *W.shape[1:]))
        for first, last, chunk in self._walk(self._plan(lo, hi)):
            chunk.dot(W, 0, last - first, out[first - lo : last - lo])
        return out

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`~maxmargin.data.design.Design`. Chunks without a coefficient are not read."""
        if out.shape[0] != self.shape[1] or len(coef) != hi - lo:
            raise ValueError(
                f"out has {out.shape[0]} rows for {self.shape[1]} features, coef {len(coef)} for {hi - lo}."
            )
        spans = [(a, b) for a, b in self._plan(lo, hi) if coef[a - lo : b - lo].any()]
        if self._dense and coef.ndim == 2 and not self._narrow:
            self._accumulate_blocks(coef, lo, spans, out)
            return
        for first, last, chunk in self._walk(spans):
            chunk.accumulate(coef[first - lo : last - lo], 0, last - first, out)

    def block(self, lo: int, hi: int) -> DenseDesign | CSRDesign:
        """A copy of the rows ``lo .. hi-1`` in memory; those in a narrow type are converted."""
        rows = self.stored(lo, hi)
        return rows.block(0, hi - lo) if isinstance(rows, TypedDesign) else rows

    def stored(self, lo: int, hi: int) -> InMemory:
        """A copy of the rows ``lo .. hi-1`` in memory, in their type."""
        with self._storage.reader() as files:
            parts = [self._read(files, piece) for piece in pieces(self._starts, lo, hi)]
            return self._joined(parts, copy=True)

    @property
    def far(self) -> bool:
        """See :class:`~maxmargin.data.design.FarDesign`."""
        return self._storage.depth > 1

    def blocks(self, ranges: Sequence[tuple[int, int]]) -> list[DenseDesign | CSRDesign]:
        """See :class:`~maxmargin.data.design.FarDesign`. Neighboring ranges are loaded by one request."""
        most = BLOCK_BYTES * max(1, self.shape[0]) // max(1, self._bytes)
        spans: list[tuple[int, int]] = []
        for lo, hi in sorted(ranges):
            if spans and spans[-1][1] == lo and hi - spans[-1][0] <= most:
                spans[-1] = spans[-1][0], hi
            else:
                spans.append((lo, hi))
        loaded = list(read_ahead(lambda span: self.block(*span), spans, REQUESTS))
        starts = [lo for lo, _ in spans]

        def cut(lo: int, hi: int) -> DenseDesign | CSRDesign:
            k = bisect.bisect_right(starts, lo) - 1
            return loaded[k].block(lo - starts[k], hi - starts[k])

        return [cut(lo, hi) for lo, hi in ranges]

    def take(self, rows: IntArray) -> InMemory:
        """See :class:`~maxmargin.data.design.TakingDesign`. Of every shard the rows are read in order."""
        order = np.argsort(rows, kind="stable")
        ascending = np.asarray(rows, dtype=np.int64)[order]
        bounds = np.searchsorted(ascending, self._starts)
        parts: list[InMemory] = []
        for k, (a, b) in enumerate(pairwise(bounds.tolist())):
            if a < b:
                first, last = int(ascending[a]), int(ascending[b - 1]) + 1
                here = (k, first - self._starts[k], last - self._starts[k])
                whole = self._joined([self._read(self._storage, here, content=False)], copy=False)
                part = self._joined([_taken(whole, ascending[a:b] - first)], copy=False)
                if not self._known.covers(*here):  # check these rows only; others are not read
                    self._check_content(k, _arrays(part), ascending[a:b] - self._starts[k])
                parts.append(part)
        if len(ascending) != sum(part.shape[0] for part in parts):
            raise IndexError(f"row indices must be in 0 .. {self.shape[0] - 1}.")
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return self._joined([_arrays(part) for part in parts], copy=True).take(back)

    def rows_at(self, entries: Sequence[int]) -> list[int]:
        """See :class:`~maxmargin.data.design.CountedDesign`; for sparse rows. Few pointers are read."""
        with self._storage.reader() as files:
            return [self._row_at(files, entry) for entry in entries]

    def _row_at(self, files: Sections, entry: int) -> int:
        k = max(0, bisect.bisect_left(self._entries, entry) - 1)
        shard, wanted = self._shards[k], entry - self._entries[k]
        file, (first, last), (least, most) = (
            shard.files["indptr"],
            (0, shard.rows),
            (0, shard.stored),
        )
        while first < last:  # the rows first .. last may be the one; interpolate
            guess = first + (last - first) * (wanted - least) // max(1, most - least)
            begin = max(first, min(guess, last - 1) - POINTERS // 2)
            pointers = files.section(file.name, file.dtype, begin, min(last, begin + POINTERS))
            at = int(np.searchsorted(pointers, wanted))
            if 0 < at < len(pointers):
                return self._starts[k] + begin + at
            if at == 0:
                last, most = begin, int(pointers[0])
            else:
                first, least = begin + at, int(pointers[-1])
        return self._starts[k] + first

    def chunks(self, lo: int, hi: int) -> Iterator[tuple[int, int, InMemory]]:
        """Iterate over ``(first, last, rows)``; each chunk is prefetched while the previous one is in use.
        The rows are read-only views of the files, valid as long as they are referenced."""
        return self._walk(self._plan(lo, hi))

    def _accumulate_blocks(
        self, coef: Array, lo: int, spans: list[tuple[int, int]], out: Array
    ) -> None:
        """Blocks of ``BLOCK`` rows with a nonzero coefficient, as in :class:`DenseDesign`, across chunks."""
        rows = np.empty((BLOCK, self.shape[1]))
        which = np.empty(BLOCK, dtype=np.int64)
        filled = 0
        for first, last, chunk in self._walk(spans):
            assert isinstance(chunk, DenseDesign)
            active = np.flatnonzero(coef[first - lo : last - lo].any(axis=1))
            while len(active):
                now, active = active[: BLOCK - filled], active[BLOCK - filled :]
                rows[filled : filled + len(now)] = chunk.X[now]
                which[filled : filled + len(now)] = now + (first - lo)
                filled += len(now)
                if filled == BLOCK:
                    out += rows.T @ coef[which]
                    filled = 0
        if filled:
            out += rows[:filled].T @ coef[which[:filled]]

    def _plan(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Chunks of the rows ``lo .. hi-1``: each begins a multiple of ``_block`` after ``lo`` and lies in
        one shard, or is a single block."""
        if not 0 <= lo <= hi <= self.shape[0]:
            raise ValueError(f"rows {lo} .. {hi} are out of range: there are {self.shape[0]}.")
        spans: list[tuple[int, int]] = []
        for k, first, last in pieces(self._starts, lo, hi):
            a, end = self._starts[k] + first, self._starts[k] + last
            a = max(a, spans[-1][1] if spans else lo)
            while a < end:
                b = min(end, a + self._chunk_rows(k))
                if b == end < hi and (b - lo) % self._block:
                    whole = a + (b - a) // self._block * self._block
                    b = whole if whole > a else min(hi, a + self._block)
                spans.append((a, b))
                a = b
        return spans

    @property
    def _bytes(self) -> int:
        return sum(_feature_bytes(shard) for shard in self._shards)

    def _chunk_rows(self, k: int) -> int:
        shard = self._shards[k]
        rows = int(CHUNK_BYTES * shard.rows / max(1, _feature_bytes(shard)))
        return max(self._block, rows // self._block * self._block)

    def _walk(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, InMemory]]:
        with self._storage.reader() as files:
            if all(self._is_near(files, span) for span in spans):
                yield from (self._chunk(files, span) for span in spans)
            else:
                load = partial(self._chunk, files, wait=True)
                yield from read_ahead(load, spans, self._storage.depth)

    def _is_near(self, files: Sections, span: tuple[int, int]) -> bool:
        """Whether the ends of a chunk are in the page cache; it then needs no prefetch."""
        for k, first, last in pieces(self._starts, *span):
            shard = self._shards[k]
            file = shard.files["features" if self._dense else "data"]
            at = [file.bytes * row // shard.rows for row in (first, last)]
            if not all(files.is_near(file.name, min(b, file.bytes - 1)) for b in at if file.bytes):
                return False
        return True

    def _chunk(
        self, files: Sections, span: tuple[int, int], wait: bool = False
    ) -> tuple[int, int, InMemory]:
        """The rows of a span; with ``wait`` after they are in memory."""
        parts = [self._read(files, piece) for piece in pieces(self._starts, *span)]
        for section in chain.from_iterable(parts) if wait else ():
            self._storage.load(section)
        return *span, self._joined(parts, copy=False)

    def _read(
        self, source: Sections, piece: tuple[int, int, int], content: bool = True
    ) -> tuple[AnyArray, ...]:
        """Sections of one shard, checked: (features,) or (indptr from 0, indices, data). Without ``content``
        only the pointers are checked."""
        arrays = self._sections(source, piece)
        if content and not self._known.covers(*piece):
            k, first, last = piece
            self._check_content(k, arrays, range(first, last))
            self._known.add(*piece)
        return arrays

    def _check_content(self, k: int, arrays: tuple[AnyArray, ...], rows: Any) -> None:
        """Raise DatasetError if rows of a shard are invalid: the file may have been modified, and compiled
        code does not check bounds."""
        files = self._shards[k].files

        def name(column: str) -> str:
            return f"{self._storage.describe(files[column].name)} (shard {k})"

        def row(i: int) -> str:
            return f"row {self._starts[k] + int(rows[i])}"

        try:
            typed = self._typed(arrays[0]) if self._narrow else None
            if typed is not None:
                check_finite(
                    typed, self._starts[k] + int(rows[0]) if len(rows) else 0, name("features")
                )
                return
            if self._dense:
                check_dense(arrays[0], name("features"), row)
                return
            indptr, indices, data = arrays
            check_columns(indptr, indices, self.shape[1], name("indices"), row)
            check_entries(indptr, indices, data, name("data"), row)
            shape, places = (len(indptr) - 1, self.shape[1]), writable(indices)
            if has_repeats(sp.csr_matrix((data, places, indptr), shape=shape, copy=False)):
                raise ValueError(f"{name('indices')}: a row has two entries in one column.")
        except ValueError as error:
            raise DatasetError(f"{error} The file was modified after it was written.") from None

    def _sections(self, source: Sections, piece: tuple[int, int, int]) -> tuple[AnyArray, ...]:
        k, first, last = piece
        files = self._shards[k].files
        if self._dense:
            width, file = self.shape[1], files["features"]
            flat = source.section(file.name, file.dtype, first * width, last * width)
            return (flat.reshape(last - first, width),)

        def section(column: str, start: int, stop: int) -> AnyArray:
            return source.section(files[column].name, files[column].dtype, start, stop)

        indptr = section("indptr", first, last + 1)
        begin, end = int(indptr[0]), int(indptr[-1])
        if not self._known.covers(*piece) and not ascends(indptr, first, self._shards[k].stored):
            raise DatasetError(
                f"{self._storage.describe(files['indptr'].name)} (shard {k}): the pointers of rows "
                f"{self._starts[k] + first} to {self._starts[k] + last - 1} are out of range. The file was "
                "modified after it was written."
            )
        small = np.int32 if end - begin < 2**31 else np.int64
        pointers = np.empty(len(indptr), dtype=small)
        np.subtract(indptr, begin, out=pointers, casting="unsafe")  # the differences fit
        return (
            pointers,
            section("indices", begin, end),
            section("data", begin, end),
        )

    def _joined(self, parts: list[tuple[AnyArray, ...]], copy: bool) -> InMemory:
        if self._dense:
            matrices = [part[0] for part in parts] or [np.empty((0, self.shape[1]), self._kind)]
            whole = len(matrices) == 1 and not copy
            rows = writable(matrices[0]) if whole else np.concatenate(matrices)
            typed = self._typed(rows) if self._narrow else None
            return DenseDesign(rows) if typed is None else TypedDesign(typed)
        if not parts:
            return CSRDesign(sp.csr_matrix((0, self.shape[1]), dtype=self._kind))
        if len(parts) == 1 and not copy:
            indptr, indices, data = parts[0]
            shape = (len(indptr) - 1, self.shape[1])
            return CSRDesign.of(indptr, writable(indices), writable(data), shape)
        offsets = running((int(part[0][-1]) for part in parts), initial=0)
        total = sum(int(part[0][-1]) for part in parts)
        small = np.int32 if total < 2**31 else np.int64
        pointers = [
            part[0][bool(k) :].astype(np.int64) + offset
            for k, (part, offset) in enumerate(zip(parts, offsets, strict=False))
        ]
        return CSRDesign.of(
            np.concatenate(pointers).astype(small),
            np.concatenate([part[1] for part in parts]),
            np.concatenate([part[2] for part in parts]),
            (sum(len(part[0]) - 1 for part in parts), self.shape[1]),
        )


_FEATURES = ("features", "data", "indices", "indptr")


def _feature_bytes(shard: Shard) -> int:
    return sum(f.bytes for name, f in shard.files.items() if name in _FEATURES)


def ascends(pointers: AnyArray, first: int, stored: int) -> bool:
    """Whether these are valid row pointers, starting at ``first``, into ``stored`` entries."""
    if pointers[0] < 0 or pointers[-1] > stored or (first == 0 and pointers[0] != 0):
        return False
    return bool((pointers[1:] >= pointers[:-1]).all())


def _taken(design: InMemory, rows: IntArray) -> tuple[AnyArray, ...]:
    """The arrays of some rows, which are copied."""
    if isinstance(design, TypedDesign):
        return (design.rows.codes[rows],)
    return _arrays(design.take(rows))


def _arrays(design: InMemory) -> tuple[AnyArray, ...]:
    if isinstance(design, TypedDesign):
        return (design.rows.codes,)
    if isinstance(design, DenseDesign):
        return (design.X,)
    return design.indptr, design.indices, design.data
