"""Checks of the files of a data set against its manifest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin.core.matrices import AnyArray, is_finite
from maxmargin.data.manifest import (
    NAME,
    DatasetError,
    Manifest,
    Shard,
    checksum,
    content_of,
    decode,
)
from maxmargin.data.storage import Storage

#: bytes read at a time
_STEP = 1 << 24


def read_manifest(storage: Storage) -> Manifest:
    """Read the manifest; raise an error if there is no data set."""
    content = content_of(storage)
    if content is None:
        raise FileNotFoundError(
            f"{storage.describe(NAME)} does not exist: there is no data set, or its writer was interrupted. "
            "Write it with maxmargin.data.write."
        )
    return decode(content, storage.describe(NAME))


def check_sizes(storage: Storage, manifest: Manifest) -> None:
    """Check that every file exists and has the right size. Reads no content."""
    sizes = storage.sizes()
    for shard in manifest.shards:
        for file in shard.files.values():
            size = sizes.get(file.name)
            if size is None:
                raise DatasetError(f"{storage.describe(file.name)}: this file is missing.")
            if size != file.bytes:
                raise DatasetError(
                    f"{storage.describe(file.name)} has {size} bytes; the manifest says {file.bytes}."
                )


def check_content(storage: Storage, manifest: Manifest, shard: Shard) -> None:
    """Check checksums, row and sequence pointers, column indices, and class codes of a shard."""
    for file in shard.files.values():
        digest = checksum()
        for start in range(0, file.bytes, _STEP):
            stop = min(file.bytes, start + _STEP)
            digest.update(storage.section(file.name, "u1", start, stop))
        if digest.hexdigest() != file.checksum:
            raise DatasetError(
                f"{storage.describe(file.name)}: wrong checksum: the file was modified after it was written."
            )
    ends = {"indptr": shard.stored, "sequence": shard.rows}
    limits = {"indices": manifest.n_features}
    if manifest.labels.kind == "text":
        limits["label"] = len(manifest.labels.values or ())
    for column in {*ends, *limits} & set(shard.files):
        file = shard.files[column]
        values = storage.section(file.name, file.dtype, 0, file.shape[0])
        fine = (
            _ascends(values, ends[column])
            if column in ends
            else _lies_within(values, limits[column])
        )
        if not fine:
            raise DatasetError(f"{storage.describe(file.name)}: {column} out of range.")

    _check_numbers(storage, manifest, shard)


def _check_numbers(storage: Storage, manifest: Manifest, shard: Shard) -> None:
    """Check that features and labels are finite, weights finite and nonnegative, and labels known."""
    labels = manifest.labels
    for column in {"features", "data", "weight", "label"} & set(shard.files):
        file = shard.files[column]
        size = math.prod(file.shape)
        for start in range(0, size, _STEP):
            values = storage.section(file.name, file.dtype, start, min(size, start + _STEP))
            fine = np.isfinite(values).all()
            if column == "weight":
                fine = fine and (values >= 0.0).all()
            if column == "label" and labels.kind == "number" and labels.values is not None:
                fine = fine and np.isin(values, labels.array()).all()
            if not fine:
                raise DatasetError(
                    f"{storage.describe(file.name)}: the {column} column holds invalid numbers."
                )


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCheck:
    """Checks values of a column: integers below ``n_codes``, or one of the sorted ``classes``."""

    signed: bool = True
    n_codes: int | None = None
    classes: AnyArray | None = None

    def __call__(self, values: AnyArray) -> str | None:
        """A description of the first problem found; None if there is none."""
        if not is_finite(values):
            return "a number is NaN or infinite"
        if not self.signed and not (values >= 0.0).all():
            return "a weight is negative"
        unknown = "a label is not in the manifest"
        if self.n_codes is not None and not _lies_within(values, self.n_codes):
            return unknown
        if self.classes is not None and len(values):
            places = np.minimum(self.classes.searchsorted(values), len(self.classes) - 1)
            if not len(self.classes) or not np.array_equal(self.classes[places], values):
                return unknown
        return None


def _ascends(pointers: AnyArray, end: int) -> bool:
    return bool(pointers[0] == 0 and pointers[-1] == end and (np.diff(pointers) >= 0).all())


def _lies_within(values: AnyArray, end: int) -> bool:
    return not len(values) or bool(values.min() >= 0 and values.max() < end)
