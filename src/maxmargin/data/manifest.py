"""The manifest: what a data set on disk consists of. One JSON file, written last.

A data set is a folder of shards. A shard is a run of rows; each of its columns is one file of
little-endian numbers, row after row and nothing else:

    features           dense: rows x n_features float32 or float64
    data, indices      CSR: the stored entries, int32 (or int64) columns from 0 on
    indptr             CSR: rows + 1 int64; row i has the entries indptr[i] .. indptr[i+1]-1 of this shard
    label              labels, one per row; texts as int32 positions in the list of classes
    sequence           sequences only: number of sequences + 1 int64; sequence i has the rows
                       sequence[i] .. sequence[i+1]-1 of this shard
    weight, group      float64 and int64, one per row; of sequences one per sequence

A file that is named in a manifest is never changed. Whoever writes makes new files under new names and then
replaces the manifest in one step, so a reader sees the data set before or after, nothing between.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

NAME = "manifest.json"
FORMAT = "maxmargin.data"
#: names of column files: generation, shard, column
OURS = re.compile(r"\d{4,}-\d{5,}\.[a-z]+\.bin")
VERSION = 1


class DatasetError(ValueError):
    """A data set that is damaged, incomplete, or of another version."""


def checksum(data: bytes | memoryview = b"") -> Any:
    """The running checksum of all files: BLAKE2b with 16 bytes."""
    return hashlib.blake2b(data, digest_size=16)


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """One column of one shard."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Shard:
    """A run of rows. ``checksum`` covers the files and the classes first seen here."""

    rows: int
    stored: int
    sequences: int
    new_classes: tuple[str, ...]
    files: dict[str, ColumnFile]
    checksum: str = ""

    def with_checksum(self) -> Shard:
        files = {column: [f.dtype, f.shape, f.checksum] for column, f in self.files.items()}
        content = [self.rows, self.sequences, self.new_classes, files]
        return replace(self, checksum=checksum(_canonical(content)).hexdigest())


@dataclass(frozen=True, slots=True)
class Labels:
    """What is known of the labels. ``values`` and ``counts`` are None where there are too many."""

    kind: str  # "number", "text" or "none"
    dtype: str
    values: tuple[Any, ...] | None
    counts: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of it. ``layout`` is "dense" or "csr"; ``stored`` counts the stored entries."""

    layout: str
    ragged: bool
    dtype: str
    rows: int
    sequences: int
    n_features: int
    stored: int
    largest_square: float
    feature_names: tuple[str, ...] | None
    labels: Labels
    generation: int = 1
    shards: tuple[Shard, ...] = field(default=())

    def encode(self) -> bytes:
        """The file's content."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        body["checksum"] = checksum(_canonical(body)).hexdigest()
        return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


def decode(content: bytes, where: str) -> Manifest:
    """The manifest in a file; what is no manifest, or none that this version reads, is refused."""
    try:
        body = json.loads(content)
        kind, version = body.pop("format"), body.pop("version")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DatasetError(f"{where}: this is not the manifest of a data set ({error}).") from error
    if kind != FORMAT or not isinstance(version, int):
        raise DatasetError(f"{where}: this is not the manifest of a data set (format {kind!r}).")
    if version > VERSION:
        raise DatasetError(
            f"{where}: the data set has format version {version}; this version of maxmargin reads up to "
            f"{VERSION}. Upgrade maxmargin."
        )
    claimed = body.pop("checksum", None)
    if claimed != checksum(_canonical({"format": kind, "version": version, **body})).hexdigest():
        raise DatasetError(f"{where}: the manifest's checksum is wrong: the file was altered.")
    try:
        manifest = _manifest(body)
        _check(manifest)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise DatasetError(
            f"{where}: the manifest is incomplete or contradicts itself ({error})."
        ) from error
    return manifest


def _manifest(body: dict[str, Any]) -> Manifest:
    labels = body.pop("labels")
    names = body.pop("feature_names")
    return Manifest(
        feature_names=None if names is None else tuple(names),
        labels=Labels(
            labels["kind"], labels["dtype"], _tuple(labels["values"]), _tuple(labels["counts"])
        ),
        shards=tuple(_shard(shard) for shard in body.pop("shards")),
        **body,
    )


def _check(manifest: Manifest) -> None:
    """Sizes and shapes agree: what is read by them lies inside the files."""
    shards = manifest.shards
    assert shards, "no shards"
    assert manifest.layout in ("dense", "csr"), "layout"
    assert manifest.rows == sum(shard.rows for shard in shards), "rows"
    assert manifest.sequences == sum(shard.sequences for shard in shards), "sequences"
    for k, shard in enumerate(shards):
        units = shard.sequences if manifest.ragged else shard.rows
        shapes = {
            "features": (shard.rows, manifest.n_features),
            "data": (shard.stored,),
            "indices": (shard.stored,),
            "indptr": (shard.rows + 1,),
            "label": (shard.rows,),
            "sequence": (shard.sequences + 1,),
            "weight": (units,),
            "group": (units,),
        }
        needed = {"features"} if manifest.layout == "dense" else {"data", "indices", "indptr"}
        needed |= {"sequence"} if manifest.ragged else set()
        assert needed <= set(shard.files) <= set(shapes), f"columns of shard {k}"
        for column, file in shard.files.items():
            assert file.shape == shapes[column], f"shape of {file.name}"
            assert file.bytes == np.dtype(file.dtype).itemsize * math.prod(file.shape), file.name
            assert OURS.fullmatch(file.name), file.name
        assert shard.with_checksum().checksum == shard.checksum, f"checksum of shard {k}"


def _shard(body: dict[str, Any]) -> Shard:
    files = {
        column: ColumnFile(f["name"], f["dtype"], tuple(f["shape"]), f["bytes"], f["checksum"])
        for column, f in body.pop("files").items()
    }
    return Shard(files=files, new_classes=tuple(body.pop("new_classes")), **body)


def _tuple(values: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _canonical(content: Any) -> bytes:
    """JSON without choices: the same content always has the same bytes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
