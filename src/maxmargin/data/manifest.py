"""The manifest of a data set on disk: one JSON file, written last.

A data set is a folder of shards. A shard is a contiguous range of rows; each of its columns is one file that
holds little-endian numbers, row by row, and nothing else:

    features           dense: rows x n_features float32 or float64
    data, indices      CSR: the stored entries; columns are int32 (or int64), from 0
    indptr             CSR: rows + 1 int64; row i has the entries indptr[i] .. indptr[i+1]-1 of this shard
    label              labels, one per row; strings as int32 indices into the list of classes
    sequence           sequences only: number of sequences + 1 int64; sequence i has the rows
                       sequence[i] .. sequence[i+1]-1 of this shard
    weight, group      float64 and int64, one per row, or one per sequence

A file named in a manifest is never changed. A writer creates files with new names and then replaces the
manifest atomically, so that a reader sees the data set either before or after the write.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

NAME = "manifest.json"
FORMAT = "maxmargin.data"
#: names of column files: generation, shard, column
OURS = re.compile(r"[0-9]{4,}-[0-9]{5,}\.[a-z]+\.bin")
VERSION = 1


class DatasetError(ValueError):
    """A data set is damaged, incomplete, or of an unsupported version."""


def checksum(data: bytes | memoryview = b"") -> Any:
    """The hash object used for all checksums: BLAKE2b with 16 bytes."""
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
    """A contiguous range of rows. ``checksum`` covers the files and the classes that first occur here."""

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
    """Summary of the labels. ``values`` and ``counts`` are None if there are too many distinct numbers."""

    kind: str  # "number", "text" or "none"
    dtype: str
    values: tuple[Any, ...] | None
    counts: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of a manifest. ``layout`` is "dense" or "csr"; ``stored`` is the number of stored entries."""

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
        """The content of the file."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        body["checksum"] = checksum(_canonical(body)).hexdigest()
        return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


def decode(content: bytes, where: str) -> Manifest:
    """Parse a manifest. Raise DatasetError if it is invalid or of an unsupported version."""
    try:
        body = json.loads(content, object_pairs_hook=_distinct)
        kind, version = body.pop("format"), body.pop("version")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"{where} is not the manifest of a data set ({shown(str(error))})."
        ) from error
    if kind != FORMAT or type(version) is not int:
        raise DatasetError(f"{where} is not the manifest of a data set (format {shown(kind)}).")
    if version > VERSION:
        raise DatasetError(
            f"{where}: the data set has format version {shown(version)}; this version of maxmargin reads up "
            f"to {VERSION}. Upgrade maxmargin."
        )
    claimed = body.pop("checksum", None)
    try:
        content = _canonical({"format": kind, "version": version, **body})
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: the manifest is nested too deeply.") from error
    if claimed != checksum(content).hexdigest():
        raise DatasetError(f"{where}: wrong checksum: the manifest was modified.")
    try:
        manifest = read_body(body)
    except DatasetError as error:
        raise DatasetError(
            f"{where}: the manifest is incomplete or inconsistent ({error})."
        ) from error
    return manifest


# -- checks ----------------------------------------------------------------------------------------

#: maximum length of file content quoted in an error
ECHO = 200
#: maximum bytes of a manifest; parsing takes several times as much memory
LARGEST = 2**30
#: maximum characters of all class names, each padded to the longest
_CLASS_TEXT = 2**28
_FLOATS = ("<f4", "<f8")
#: types of the columns; the types of features and labels are in the manifest
_TYPES = {
    "indices": ("<i4", "<i8"),
    "indptr": ("<i8",),
    "sequence": ("<i8",),
    "weight": ("<f8",),
    "group": ("<i8",),
}


def shown(value: Any) -> str:
    """File content, shortened for an error message."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= ECHO else text[: ECHO - 3] + "..."


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return out


def _require(holds: bool, what: str) -> None:
    """Raise an error unless ``holds``, also under ``python -O``."""
    if not holds:
        raise DatasetError(shown(what))


def _entries(body: Any, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    _require(isinstance(body, dict), f"{what} is not an object")
    for name in names:
        _require(name in body, f"{what} has no {name!r}")
    for name in body:
        _require(name in names, f"{what} has an unknown entry {name!r}")
    entries: dict[str, Any] = body
    return entries


def _count(value: Any, what: str) -> int:
    _require(type(value) is int and 0 <= value < 2**62, f"{what} is {shown(value)}")
    count: int = value
    return count


def _texts(values: Any, what: str) -> tuple[str, ...]:
    _require(
        isinstance(values, list) and all(type(value) is str for value in values),
        f"{what} are not a list of strings",
    )
    return tuple(values)


def read_body(body: Any) -> Manifest:
    """The manifest of a JSON document. All entries are checked, so that reads stay within the files."""
    names = tuple(f.name for f in fields(Manifest))
    body = _entries(body, "the manifest", names)
    _require(body["layout"] in ("dense", "csr"), f"layout {shown(body['layout'])}")
    _require(type(body["ragged"]) is bool, f"ragged is {shown(body['ragged'])}")
    _require(body["dtype"] in _FLOATS, f"dtype {shown(body['dtype'])}")
    largest = body["largest_square"]
    _require(
        type(largest) in (int, float) and 0 <= largest <= sys.float_info.max,
        f"largest_square is {shown(largest)}",
    )
    counts = {
        name: _count(body[name], name)
        for name in ("rows", "sequences", "n_features", "stored", "generation")
    }
    features = body["feature_names"]
    if features is not None:
        features = _texts(features, "feature_names")
        _require(len(features) == counts["n_features"], f"{len(features)} feature_names")
    shards = body["shards"]
    _require(isinstance(shards, list) and len(shards) > 0, "no shards")
    manifest = Manifest(
        layout=body["layout"],
        ragged=body["ragged"],
        dtype=body["dtype"],
        largest_square=float(largest),
        feature_names=features,
        labels=_labels(body["labels"]),
        shards=tuple(_shard(shard, f"shard {k}") for k, shard in enumerate(shards)),
        **counts,
    )
    _check(manifest)
    return manifest


def _labels(body: Any) -> Labels:
    body = _entries(body, "labels", ("kind", "dtype", "values", "counts"))
    kind, dtype, values, counts = (body[name] for name in ("kind", "dtype", "values", "counts"))
    _require(kind in ("number", "text", "none"), f"kind {shown(kind)} of labels")
    if kind == "none":
        _require((dtype, values, counts) == ("", None, None), "label data for kind 'none'")
        return Labels(kind, dtype, None, None)
    wanted = ("<i4",) if kind == "text" else _numeric()
    _require(type(dtype) is str and dtype in wanted, f"labels of dtype {shown(dtype)}")
    if values is None and counts is None and kind == "number":
        return Labels(kind, dtype, None, None)
    _require(
        isinstance(values, list) and isinstance(counts, list) and len(values) == len(counts),
        "labels: values and counts are not lists of equal length",
    )
    numbers = tuple(_count(count, "a count of labels") for count in counts)
    if kind == "text":
        texts = _texts(values, "the values of labels")
        _require(len(set(texts)) == len(texts), "a label occurs twice")
        size = len(texts) * max((len(text) for text in texts), default=0)
        _require(size <= _CLASS_TEXT, f"{len(texts)} labels of up to {size} characters in all")
        return Labels(kind, dtype, texts, numbers)
    _require(_fit(values, dtype), f"values that are not distinct labels of dtype {dtype}")
    return Labels(kind, dtype, tuple(values), numbers)


def _numeric() -> set[str]:
    return {np.dtype(code).newbyteorder("<").str for code in "?bhilqBHILQefd"}


def _fit(values: list[Any], dtype: str) -> bool:
    """Whether these are ascending numbers that the type represents exactly."""
    if not all(type(value) in (bool, int, float) for value in values):
        return False
    try:
        array = np.array(values, dtype=dtype)
    except (OverflowError, ValueError):
        return False
    same = array.tolist() == values and bool(np.isfinite(array).all())
    return same and bool((array[1:] > array[:-1]).all())


def _shard(body: Any, what: str) -> Shard:
    names = tuple(f.name for f in fields(Shard))
    body = _entries(body, what, names)
    _require(isinstance(body["files"], dict), f"files of {what}")
    _require(type(body["checksum"]) is str, f"checksum of {what}")
    return Shard(
        rows=_count(body["rows"], f"rows of {what}"),
        stored=_count(body["stored"], f"stored of {what}"),
        sequences=_count(body["sequences"], f"sequences of {what}"),
        new_classes=_texts(body["new_classes"], f"new_classes of {what}"),
        files={
            column: _file(file, f"column {shown(column)} of {what}")
            for column, file in body["files"].items()
        },
        checksum=body["checksum"],
    )


def _file(body: Any, what: str) -> ColumnFile:
    body = _entries(body, what, ("name", "dtype", "shape", "bytes", "checksum"))
    for name in ("name", "dtype", "checksum"):
        _require(type(body[name]) is str, f"{name} of {what}")
    # A valid name has no folder in it.
    _require(OURS.fullmatch(body["name"]) is not None, f"name {body['name']!r} of {what}")
    shape = body["shape"]
    _require(isinstance(shape, list) and 1 <= len(shape) <= 2, f"shape of {what}")
    lengths = tuple(_count(length, f"shape of {what}") for length in shape)
    size = _count(body["bytes"], f"bytes of {what}")
    return ColumnFile(body["name"], body["dtype"], lengths, size, body["checksum"])


def _check(manifest: Manifest) -> None:
    """Check that sizes and shapes are consistent, so that reads stay within the files."""
    shards, labels = manifest.shards, manifest.labels
    for name in ("rows", "sequences", "stored"):
        found = sum(getattr(shard, name) for shard in shards)
        _require(getattr(manifest, name) == found, f"{name}: the shards have {found}")
    _require(manifest.ragged or manifest.sequences == 0, "sequences in a data set without them")
    if labels.counts is not None:
        _require(sum(labels.counts) == manifest.rows, "label counts do not add up to the rows")
    files = [file.name for shard in shards for file in shard.files.values()]
    _require(len(set(files)) == len(files), "a file occurs twice")
    for k, shard in enumerate(shards):
        _check_shard(manifest, shard, f"shard {k}")
    for column in ("label", "weight", "group"):
        units = [
            s.rows if column == "label" or not manifest.ragged else s.sequences for s in shards
        ]
        there = {column in s.files for s, n in zip(shards, units, strict=True) if n}
        _require(len(there) < 2, f"only some shards have the column {column}")
    if manifest.layout == "csr":  # the indices of the last shard must hold all columns
        wide = manifest.n_features >= 2**31
        last = shards[-1].files["indices"].dtype
        _require(last == ("<i8" if wide else "<i4"), "columns that exceed the index type")
    labeled = any("label" in shard.files for shard in shards)
    _require(labeled or labels.kind == "none" or not manifest.rows, "labels without a column")


def _check_shard(manifest: Manifest, shard: Shard, what: str) -> None:
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
    others = {"weight", "group"} | ({"label"} if manifest.labels.kind != "none" else set())
    _require(needed <= set(shard.files) <= needed | others, f"columns of {what}")
    own = {
        "label": (manifest.labels.dtype,),
        "features": (manifest.dtype,),
        "data": (manifest.dtype,),
    }
    for column, file in shard.files.items():
        _require(file.shape == shapes[column], f"shape of {file.name}")
        _require(file.dtype in (own | _TYPES)[column], f"dtype {file.dtype!r} of {file.name}")
        size = np.dtype(file.dtype).itemsize * math.prod(file.shape)
        _require(file.bytes == size, f"bytes of {file.name}")
    if manifest.layout == "dense" and manifest.n_features == 0 and "label" not in shard.files:
        _require(shard.rows == 0, f"rows of {what} without a file")
    _require(shard.with_checksum().checksum == shard.checksum, f"checksum of {what}")


def _canonical(content: Any) -> bytes:
    """Canonical JSON: equal content always has equal bytes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
