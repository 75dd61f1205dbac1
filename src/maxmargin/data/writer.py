"""Writer of data sets: one pass over the batches, with memory for one batch.

A shard ends with the first row (or sequence) that fills it, so the files depend on the rows alone, not on
how they are split into batches. Files of a new generation get new names; the manifest is replaced last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.data.batches import CheckedBatch, about, uniform
from maxmargin.data.labels import LabelBook
from maxmargin.data.manifest import NAME, OURS, ColumnFile, Manifest, Shard, checksum
from maxmargin.data.storage import Storage

AnyArray = npt.NDArray[Any]

#: bytes of features after which a shard ends
SHARD_BYTES = 128 << 20


def next_generation(names: Iterable[str]) -> int:
    """The generation of a new writer: larger than that of any existing file."""
    return 1 + max((int(name.split("-")[0]) for name in names if OURS.fullmatch(name)), default=0)


@dataclass(slots=True)
class ColumnWriter:
    """A column file being written."""

    name: str
    dtype: np.dtype[Any]
    tail: tuple[int, ...]
    file: IO[bytes]
    bytes: int = 0
    rows: int = 0
    digest: Any = field(default_factory=checksum)

    def add(self, values: AnyArray) -> None:
        if values.size:
            content = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).view(np.uint8).data
            self.file.write(content)
            self.digest.update(content)
            self.bytes += content.nbytes
        self.rows += len(values)

    def entry(self) -> ColumnFile:
        shape = (self.rows, *self.tail)
        return ColumnFile(self.name, self.dtype.str, shape, self.bytes, self.digest.hexdigest())


class OpenShard:
    """The shard being filled."""

    def __init__(
        self, storage: Storage, prefix: str, known_classes: int, index: np.dtype[Any]
    ) -> None:
        self._storage, self._prefix = storage, prefix
        self.columns: dict[str, ColumnWriter] = {}
        self.known_classes, self.index = known_classes, index
        self.rows = self.stored = self.sequences = self.bytes = 0

    def add(self, column: str, values: AnyArray, dtype: Any, start: int | None = None) -> None:
        """Append to a column; a new column of pointers begins with ``start``."""
        if column not in self.columns:
            name, kind = f"{self._prefix}.{column}.bin", np.dtype(dtype).newbyteorder("<")
            file = self._storage.create(name)
            self.columns[column] = ColumnWriter(name, kind, values.shape[1:], file)
            if start is not None:
                self.columns[column].add(np.array([start]))
        self.columns[column].add(values)

    def close(self, book: LabelBook) -> Shard:
        for column in self.columns.values():
            self._storage.finish(column.file)
        files = {name: column.entry() for name, column in self.columns.items()}
        new = book.new_classes(self.known_classes)
        return Shard(self.rows, self.stored, self.sequences, new, files).with_checksum()

    def discard(self) -> None:
        for column in self.columns.values():
            column.file.close()
            self._storage.remove(column.name)


class Writer:
    """Adds shards to an existing data set (``base``) or starts a new one."""

    def __init__(
        self, storage: Storage, base: Manifest | None, generation: int, shard_bytes: int
    ) -> None:
        self._storage, self._base, self._generation = storage, base, generation
        self._shard_bytes = shard_bytes
        self._book = LabelBook(base.labels if base else None)
        self._shards: list[Shard] = []
        self._open: OpenShard | None = None
        self._layout = base.layout if base else ""
        self._dtype = np.dtype(base.dtype) if base else np.dtype(np.float64)
        self._width = base.n_features if base else 0
        self._names = base.feature_names if base else None
        self._largest = base.largest_square if base else 0.0
        self._ragged = base.ragged if base else False
        self._parts: tuple[bool, bool] | None = None
        if base and base.shards:
            self._parts = ("weight" in base.shards[0].files, "group" in base.shards[0].files)

    def run(
        self,
        batches: Iterable[Any],
        dtype: Any,
        finish: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    ) -> Manifest:
        """Write all batches, then the manifest, which ``finish`` may complete. On an error, remove the files
        written so far."""
        try:
            for batch in uniform(batches, dtype):
                if batch.X.shape[0] or batch.lengths is not None:
                    self._add(batch)
            self._close()
            if not self._layout:
                raise ValueError("batches must not be empty.")
            manifest = finish(self._manifest())
            self._storage.replace(NAME, manifest.encode())
        except BaseException:
            self._discard()
            raise
        self._clean(manifest)
        return manifest

    def _add(self, batch: CheckedBatch) -> None:
        try:
            self._check(batch)
            X, lengths = batch.X, batch.lengths
            rows = np.arange(X.shape[0] + 1) if lengths is None else np.append(0, lengths.cumsum())
            index = np.dtype("<i4" if self._width < 2**31 else "<i8")
            ends = self._ends(X, rows, index)
            if self._open and self._open.index != index:
                self._close()
            unit, n_units = 0, len(rows) - 1
            while unit < n_units:
                room = self._shard_bytes - (self._open.bytes if self._open else 0)
                last = int(np.searchsorted(ends, ends[unit] + room)) if room > 0 else unit + 1
                last = min(max(last, unit + 1), n_units)
                self._add_piece(batch, unit, last, rows, index)
                assert self._open is not None
                self._open.bytes += int(ends[last] - ends[unit])
                if self._open.bytes >= self._shard_bytes:
                    self._close()
                unit = last
        except (ValueError, TypeError) as error:
            raise about(batch.number, error) from error

    def _check(self, batch: CheckedBatch) -> None:
        """Check that the batch is consistent with earlier ones; record what may grow."""
        X, layout = batch.X, "csr" if sp.issparse(batch.X) else "dense"
        ragged, parts = (
            batch.lengths is not None,
            (batch.weight is not None, batch.group is not None),
        )
        if not self._layout:
            self._layout, self._dtype, self._width = layout, X.dtype, X.shape[1]
            self._names, self._ragged, self._parts = batch.names, ragged, parts
        if layout != self._layout:
            raise ValueError(f"X is {layout}, but previous batches are {self._layout}.")
        if ragged != self._ragged:
            raise ValueError("a data set cannot mix sequences and independent samples.")
        if parts != self._parts:
            raise ValueError("weight and group must be given with every batch or with none.")
        if X.dtype != self._dtype:
            raise ValueError(
                f"X has type {X.dtype}, but previous batches have {self._dtype}: cast it, or pass "
                "dtype= to write."
            )
        if layout == "dense" and X.shape[1] != self._width:
            raise ValueError(
                f"X has {X.shape[1]} features, but previous batches have {self._width}."
            )
        if batch.names != self._names:
            raise ValueError("the feature names differ from those of previous batches.")
        self._width = max(self._width, X.shape[1])
        if len(batch.squares):
            self._largest = max(self._largest, float(batch.squares.max()))

    def _ends(self, X: Any, rows: AnyArray, index: np.dtype[Any]) -> AnyArray:
        """Bytes of features before each unit (row or sequence), and after the last."""
        if self._layout == "dense":
            return rows * max(1, X.shape[1] * X.dtype.itemsize)
        entries = X.indptr.astype(np.int64)[rows]
        return entries * (X.dtype.itemsize + index.itemsize) + rows * 8

    def _add_piece(
        self, batch: CheckedBatch, first: int, last: int, rows: AnyArray, index: np.dtype[Any]
    ) -> None:
        """Add the units ``first .. last-1`` to the open shard."""
        if self._open is None:
            prefix = f"{self._generation:04d}-{len(self._shards):05d}"
            self._open = OpenShard(self._storage, prefix, len(self._book), index)
        shard, lo, hi = self._open, int(rows[first]), int(rows[last])
        if self._layout == "dense":
            shard.add("features", batch.X[lo:hi], self._dtype)
            shard.stored += (hi - lo) * self._width
        else:
            X, begin, end = batch.X, int(batch.X.indptr[lo]), int(batch.X.indptr[hi])
            shard.add("data", X.data[begin:end], self._dtype)
            shard.add("indices", X.indices[begin:end], index)
            pointers = X.indptr[lo + 1 : hi + 1].astype(np.int64) + (shard.stored - begin)
            shard.add("indptr", pointers, np.int64, start=0)
            shard.stored += end - begin
        labels = self._book.encode(None if batch.y is None else batch.y[lo:hi])
        if labels is not None:
            shard.add("label", labels, labels.dtype)
        if self._ragged:
            shard.add("sequence", rows[first + 1 : last + 1] - lo + shard.rows, np.int64, start=0)
            shard.sequences += last - first
        if batch.weight is not None:
            shard.add("weight", batch.weight[first:last], np.float64)
        if batch.group is not None:
            shard.add("group", batch.group[first:last], np.int64)
        shard.rows += hi - lo

    def _close(self) -> None:
        if self._open is not None:
            self._shards.append(self._open.close(self._book))
            self._open = None

    def _manifest(self) -> Manifest:
        shards = (self._base.shards if self._base else ()) + tuple(self._shards)
        return Manifest(
            layout=self._layout,
            ragged=self._ragged,
            dtype=self._dtype.newbyteorder("<").str,
            rows=sum(shard.rows for shard in shards),
            sequences=sum(shard.sequences for shard in shards),
            n_features=self._width,
            stored=sum(shard.stored for shard in shards),
            largest_square=self._largest,
            feature_names=self._names,
            labels=self._book.summary(),
            generation=self._generation,
            shards=shards,
        )

    def _discard(self) -> None:
        if self._open is not None:
            self._open.discard()
        for shard in self._shards:
            for file in shard.files.values():
                self._storage.remove(file.name)

    def _clean(self, manifest: Manifest) -> None:
        """Remove the files of an overwritten data set and of writers that were killed."""
        ours = {file.name for shard in manifest.shards for file in shard.files.values()}
        for name in self._storage.sizes():
            if OURS.fullmatch(name) and name not in ours:
                self._storage.remove(name)
