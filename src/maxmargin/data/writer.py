"""Writer of data sets: one pass over the batches, with memory for one batch.

A shard ends with the first row (or sequence) that fills it, so the files depend on the rows alone, not on
how they are split into batches. Names of files are unique, so that writers do not disturb each other: after
the generation, they have 15 random digits and the number of the shard. The manifest is replaced last.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import AnyArray
from maxmargin.data.batches import CheckedBatch, about, uniform
from maxmargin.data.labels import LabelBook
from maxmargin.data.manifest import (
    BFLOAT16,
    NAME,
    OURS,
    Codes,
    ColumnFile,
    Manifest,
    SectionSums,
    Shard,
    checksum,
    content_of,
    decode,
)
from maxmargin.data.storage import Storage
from maxmargin.data.typed_rows import TypedRows

#: bytes of features after which a shard ends
SHARD_BYTES = 128 << 20
#: generation of the files of parts, which are written before their data set exists (``parts``)
PARTS = 0
#: the file that is written when a part is complete
RECORD = re.compile(r"part-([A-Za-z0-9_.-]{1,150})\.json")


def token() -> str:
    """Random digits that make the names of files unique."""
    return f"{random.SystemRandom().randrange(10**15):015d}"


class Target:
    """A data set that is about to be replaced or extended: its manifest, and the files that are there."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self._before = storage, content_of(storage)
        self._names = storage.sizes()

    def new(self, overwrite: bool) -> Target:
        """Require that there is no data set yet, unless it shall be overwritten."""
        if self._before is not None and not overwrite:
            raise FileExistsError(
                f"{self.storage.describe()} already holds a data set. Pass overwrite=True to replace it, "
                "or append to it with maxmargin.data.open(path).append(batches)."
            )
        return self

    def base(self) -> Manifest:
        """The data set that is extended."""
        if self._before is None:
            raise FileNotFoundError(
                f"{self.storage.describe(NAME)} does not exist: nothing to append to."
            )
        return decode(self._before, self.storage.describe(NAME))

    def generation(self, base: Manifest | None = None) -> int:
        """Larger than that of any existing file."""
        known = [int(name.split("-")[0]) for name in self._names if OURS.fullmatch(name)]
        return 1 + max(known + [base.generation if base else 0])

    def commit(self, manifest: Manifest, *, keep_parts: bool) -> None:
        """Make this the manifest, unless another writer was faster. Then remove the files of an overwritten
        data set and of writers that were killed, but not what others have written since the beginning."""
        self.storage.commit(manifest.encode(), self._before)
        ours = {file.name for shard in manifest.shards for file in shard.files.values()}
        for name in self._names:
            is_ours, is_record = OURS.fullmatch(name), RECORD.fullmatch(name)
            kept = keep_parts and (is_record or name.startswith(f"{PARTS:04d}-"))
            if (is_ours or is_record) and name not in ours and not kept:
                self.storage.remove(name)


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
    sections: SectionSums = field(default_factory=SectionSums)

    def add(self, values: AnyArray) -> None:
        if values.size:
            content = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).view(np.uint8).data
            self.file.write(content)
            self.digest.update(content)
            self.sections.update(content)
            self.bytes += content.nbytes
        self.rows += len(values)

    def entry(self) -> ColumnFile:
        shape = (self.rows, *self.tail)
        sums = self.digest.hexdigest(), self.sections.digest().hex()
        return ColumnFile(self.name, self.dtype.str, shape, self.bytes, *sums)


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
        self._shard_bytes, self._token = shard_bytes, token()
        self._book = LabelBook(base.labels if base else None)
        self._shards: list[Shard] = []
        self._open: OpenShard | None = None
        self._layout = base.layout if base else ""
        #: the type of the features in the manifest, that of the numbers in files, and what codes stand for
        self._kind = base.dtype if base else ""
        self._dtype = np.dtype(base.stored_dtype) if base else np.dtype(np.float64)
        self._codes = base.codes if base else None
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
        commit: Callable[[Manifest], None] = lambda manifest: None,
        finish: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    ) -> Manifest:
        """Write all batches, then ``commit`` the manifest, which ``finish`` may complete. On an error, remove
        the files written so far."""
        with self._discarding():
            manifest = self._written(batches, dtype)
            if manifest is None:
                raise ValueError("batches must not be empty.")
            manifest = finish(manifest)
            commit(manifest)
        return manifest

    def run_part(self, batches: Iterable[Any], dtype: Any, record: str) -> None:
        """Write all batches, then their manifest to ``record``; null if there are no rows."""
        with self._discarding():
            manifest = self._written(batches, dtype)
            self._storage.replace(record, b"null" if manifest is None else manifest.encode())

    def _written(self, batches: Iterable[Any], dtype: Any) -> Manifest | None:
        for batch in uniform(batches, dtype):
            if batch.X.shape[0] or batch.lengths is not None:
                self._add(batch)
        self._close()
        return self._manifest() if self._layout else None

    @contextlib.contextmanager
    def _discarding(self) -> Iterator[None]:
        """On an error, remove the files written so far."""
        try:
            yield
        except BaseException:
            if self._open is not None:
                self._open.discard()
            for shard in self._shards:
                for file in shard.files.values():
                    self._storage.remove(file.name)
            raise

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
        kind, codes = X.dtype.newbyteorder("<").str, None
        if isinstance(X, TypedRows):
            kind = X.kind if X.kind == BFLOAT16 else kind
            codes = Codes.of(X)
        if not self._layout:
            self._layout, self._dtype, self._width = layout, X.dtype, X.shape[1]
            self._kind, self._codes = kind, codes
            self._names, self._ragged, self._parts = batch.names, ragged, parts
        if layout != self._layout:
            raise ValueError(f"X is {layout}, but previous batches are {self._layout}.")
        if ragged != self._ragged:
            raise ValueError("a data set cannot mix sequences and independent samples.")
        if parts != self._parts:
            raise ValueError("weight and group must be given with every batch or with none.")
        if kind != self._kind:
            own, theirs = (
                name if name == BFLOAT16 else np.dtype(name) for name in (kind, self._kind)
            )
            raise ValueError(
                f"X has type {own}, but previous batches have {theirs}: cast it, or pass dtype= to write."
            )
        if codes != self._codes:
            raise ValueError(
                "the scale or offset of X differs from that of previous batches: codes of one data set have "
                "the same meaning in all rows."
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
            prefix = f"{self._generation:04d}-{self._token}{len(self._shards):05d}"
            self._open = OpenShard(self._storage, prefix, len(self._book), index)
        shard, lo, hi = self._open, int(rows[first]), int(rows[last])
        if self._layout == "dense":
            part = batch.X[lo:hi]
            shard.add("features", getattr(part, "codes", part), self._dtype)
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
            dtype=self._kind,
            rows=sum(shard.rows for shard in shards),
            sequences=sum(shard.sequences for shard in shards),
            n_features=self._width,
            stored=sum(shard.stored for shard in shards),
            largest_square=self._largest,
            feature_names=self._names,
            labels=self._book.summary(),
            generation=self._generation,
            shards=shards,
            codes=self._codes,
        )
