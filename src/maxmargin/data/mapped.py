"""The rows of a data set as memory-mapped arrays that compiled code reads without a copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.core.matrices import AnyArray, is_canonical
from maxmargin.core.vectors import IntArray, writable
from maxmargin.data.dataset import Dataset
from maxmargin.data.design import CSRDesign, as_matrix
from maxmargin.data.manifest import ColumnFile
from maxmargin.data.storage import LocalStorage


@dataclass(frozen=True, eq=False)
class MappedRows:
    """The rows ``lo .. hi-1`` of a sparse data set in one local shard, as the arrays of a CSR matrix.

    It is pickled as names of files, so that another process maps its own range.
    """

    folder: str
    files: tuple[ColumnFile, ColumnFile, ColumnFile]
    n_features: int
    lo: int
    hi: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, features)."""
        return self.hi - self.lo, self.n_features

    @property
    def fingerprint(self) -> list[Any]:
        """The checksums of the files, and the range."""
        return [*(file.checksum for file in self.files), self.lo, self.hi]

    def part(self, lo: int, hi: int) -> MappedRows:
        """Some of the rows."""
        return replace(self, lo=self.lo + lo, hi=self.lo + hi)

    @property
    def indptr(self) -> IntArray:
        """Where each row begins in ``indices`` and ``data``; a copy unless the first row is included."""
        return self._arrays[0]

    @property
    def indices(self) -> AnyArray:
        """The columns of all entries."""
        return self._arrays[1]

    @property
    def data(self) -> AnyArray:
        """The values of all entries."""
        return self._arrays[2]

    @cached_property
    def _arrays(self) -> tuple[IntArray, AnyArray, AnyArray]:
        pointers, indices, data = self.files
        with LocalStorage(self.folder).reader() as files:
            indptr = files.section(pointers.name, pointers.dtype, self.lo, self.hi + 1)
            begin, end = int(indptr[0]), int(indptr[-1])
            return (
                writable(indptr) if begin == 0 else indptr - begin,
                writable(files.section(indices.name, indices.dtype, begin, end)),
                writable(files.section(data.name, data.dtype, begin, end)),
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_arrays"}


def mapped_rows(data: Dataset) -> MappedRows | None:
    """All rows of a data set, checked. None if they cannot be mapped as they are: they are in several shards,
    dense, in an object store, of another byte order, or not sorted by column."""
    manifest = data._manifest
    if manifest.layout != "csr" or len(manifest.shards) != 1:
        return None
    columns = manifest.shards[0].files
    files = columns["indptr"], columns["indices"], columns["data"]
    local = isinstance(data._storage, LocalStorage)
    if not local or not all(np.dtype(file.dtype).isnative for file in files):
        return None
    for _, _, chunk in data.design.chunks(0, manifest.rows):  # this also checks their content
        if not isinstance(chunk, CSRDesign) or not is_canonical(as_matrix(chunk)):
            return None
    return MappedRows(data.path, files, manifest.n_features, 0, manifest.rows)
