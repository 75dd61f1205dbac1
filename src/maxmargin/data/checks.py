"""Whether the files of a data set are what its manifest says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.matrices import is_finite
from maxmargin.data.manifest import NAME, DatasetError, Manifest, Shard, checksum, decode
from maxmargin.data.storage import Storage

AnyArray = npt.NDArray[Any]

#: bytes that are read at a time
_STEP = 1 << 24


def read_manifest(storage: Storage) -> Manifest:
    """The manifest of a data set that is there."""
    try:
        content = storage.content(NAME)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{storage.describe(NAME)} does not exist: there is no data set, or its writer was stopped "
            "before the end. Write it with maxmargin.data.write."
        ) from None
    return decode(content, storage.describe(NAME))


def check_sizes(storage: Storage, manifest: Manifest) -> None:
    """Every file is there and has its size. Reads nothing."""
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
    """Checksums; rows and sequences point into the shard, columns into the features, texts into the
    classes."""
    for file in shard.files.values():
        digest = checksum()
        for start in range(0, file.bytes, _STEP):
            stop = min(file.bytes, start + _STEP)
            digest.update(storage.section(file.name, "u1", start, stop))
        if digest.hexdigest() != file.checksum:
            raise DatasetError(
                f"{storage.describe(file.name)}: the checksum is wrong: the file was altered after it was "
                "written."
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
            raise DatasetError(f"{storage.describe(file.name)}: the {column} are out of range.")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCheck:
    """What values of a column may be: whole numbers below ``n_codes``, or one of the sorted ``classes``."""

    signed: bool = True
    n_codes: int | None = None
    classes: AnyArray | None = None

    def __call__(self, values: AnyArray) -> str | None:
        """What is wrong with some of them, in words; None if nothing is."""
        if not is_finite(values):
            return "a number is NaN or infinite"
        if not self.signed and not (values >= 0.0).all():
            return "a weight is negative"
        unknown = "a label is none of those in the manifest"
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
