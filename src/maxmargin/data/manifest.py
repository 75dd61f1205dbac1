"""The manifest of a data set on disk: one JSON file, written last.

A data set is a folder of shards. A shard is a contiguous range of rows; each of its columns is one file that
holds little-endian numbers, row by row, and nothing else:

    features           dense: rows x n_features numbers of the manifest's type; bfloat16 as its bits, uint16
    data, indices      CSR: the stored entries; columns are int32 (or int64), from 0
    indptr             CSR: rows + 1 int64; row i has the entries indptr[i] .. indptr[i+1]-1 of this shard
    label              labels, one per row; strings as int32 indices into the list of classes
    sequence           sequences only: number of sequences + 1 int64; sequence i has the rows
                       sequence[i] .. sequence[i+1]-1 of this shard
    weight, group      float64 and int64, one per row, or one per sequence

If the rows are tokens with named features, ``feature_names`` is their vocabulary, unless names were hashed.

A file named in a manifest is never changed. A writer creates files with new names and then replaces the
manifest atomically, so that a reader sees the data set either before or after the write.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
import re
import sys
import zlib
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.typed_rows import Quantized, TypedRows
from maxmargin.files.codec import parsed_size

NAME = "manifest.json"
FORMAT = "maxmargin.data"
#: names of column files: generation, shard, column
OURS = re.compile(r"[0-9]{4,}-[0-9]{5,}\.[a-z]+\.bin")
VERSION = 4
#: the version of data sets that have no narrow types
WIDE = 3
#: bytes of a section of a file
SECTION = 1 << 18


class DatasetError(ValueError):
    """A data set is damaged, incomplete, or of an unsupported version."""


def checksum(data: bytes | memoryview = b"") -> Any:
    """The hash object used for all checksums: BLAKE2b with 16 bytes."""
    return hashlib.blake2b(data, digest_size=16)


class SectionSums:
    """CRC-32 of every section of a file, 4 bytes each, of content that arrives in pieces."""

    def __init__(self) -> None:
        self._whole, self._last, self._bytes = bytearray(), 0, 0

    def update(self, content: memoryview | bytes) -> None:
        while len(content):
            piece, content = content[: SECTION - self._bytes], content[SECTION - self._bytes :]
            self._last = zlib.crc32(piece, self._last)
            self._bytes += len(piece)
            if self._bytes == SECTION:
                self._whole += self._last.to_bytes(4)
                self._last = self._bytes = 0

    def digest(self) -> bytes:
        return bytes(self._whole) + (self._last.to_bytes(4) if self._bytes else b"")


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """One column of one shard. ``sections``: the checksum of each section, in hexadecimal; an object store
    returns sections, and the checksum of the file would need all of them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    checksum: str
    sections: str


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

    def array(self) -> AnyArray:
        """The values. NumPy pads strings to the longest; where that would take far more memory than the
        strings do, they are objects."""
        values = self.values or ()
        if self.kind != "text":
            return np.array(values, dtype=self.dtype)
        padded = len(values) * max(map(len, values), default=0)
        return np.array(
            values, dtype=str if padded <= 2**16 + 2 * sum(map(len, values)) else object
        )


@dataclass(frozen=True, slots=True)
class Tokens:
    """How tokens with named features became rows. ``strings``: all of them were plain strings."""

    n_hashed: int | None
    min_count: int
    strings: bool


@dataclass(frozen=True, slots=True)
class Codes:
    """Integers stand for ``scale * code + offset``: each one number, or one per column."""

    scale: tuple[Any, ...]
    offset: tuple[Any, ...]

    @classmethod
    def of(cls, rows: TypedRows) -> Codes | None:
        """Those of a matrix; None if its numbers mean themselves."""
        if rows.scale is None or rows.offset is None:
            return None
        return cls(tuple(rows.scale.ravel().tolist()), tuple(rows.offset.ravel().tolist()))


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of a manifest. ``layout`` is "dense" or "csr"; ``stored`` is the number of stored entries.
    ``codes``: from version 4, which has it if the type of the features is a narrow one."""

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
    tokens: Tokens | None = None
    codes: Codes | None = None

    @property
    def stored_dtype(self) -> str:
        """The type of the numbers in the files of features."""
        return "<u2" if self.dtype == BFLOAT16 else self.dtype

    @property
    def type_name(self) -> str:
        """The type of the features, as a reader names it."""
        return self.dtype if self.dtype == BFLOAT16 else np.dtype(self.dtype).name

    def typed(self, stored: AnyArray) -> TypedRows | None:
        """Rows from a file in a narrow type; None for float32 and float64."""
        if self.dtype in _FLOATS:
            return None
        kind = BFLOAT16 if self.dtype == BFLOAT16 else stored.dtype.name
        if self.codes is None:
            return TypedRows(stored, kind)
        scale, offset = (
            np.array(v[0] if len(v) == 1 else v) for v in (self.codes.scale, self.codes.offset)
        )
        return Quantized(stored, scale, offset)

    def with_rows(self, shard: Shard, largest_square: float) -> Manifest:
        """The same with one shard."""
        return replace(self, shards=(shard,), largest_square=largest_square)

    def encode(self) -> bytes:
        """The content of the file."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        if self.dtype in _FLOATS:
            body["version"] = WIDE
            del body["codes"]
        body["checksum"] = checksum(_canonical(body)).hexdigest()
        return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


def decode(content: bytes, where: str) -> Manifest:
    """Parse a manifest. Raise DatasetError if it is invalid or of an unsupported version."""
    try:
        body = json.loads(content, object_pairs_hook=_Objects(content))
        kind, version = body.pop("format"), body.pop("version")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"{where} is not the manifest of a data set ({shown(str(error))})."
        ) from error
    if kind != FORMAT or type(version) is not int:
        raise DatasetError(f"{where} is not the manifest of a data set (format {shown(kind)}).")
    if version not in (WIDE, VERSION):
        raise DatasetError(
            f"{where}: the data set has format version {shown(version)}; this version of maxmargin reads "
            f"versions {WIDE} and {VERSION}. Write the data set again, or use the version of maxmargin that "
            "wrote it."
        )
    claimed = body.pop("checksum", None)
    try:
        content = _canonical({"format": kind, "version": version, **body})
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: the manifest is nested too deeply.") from error
    if claimed != checksum(content).hexdigest():
        raise DatasetError(f"{where}: wrong checksum: the manifest was modified.")
    try:
        if version == WIDE:
            _require("codes" not in body, "codes in version 3")
            body["codes"] = None
        manifest: Manifest = read(Manifest, body, "the manifest")
        _check(manifest)
    except DatasetError as error:
        raise DatasetError(
            f"{where}: the manifest is incomplete or inconsistent ({error})."
        ) from error
    return manifest


def content_of(storage: Any, name: str = NAME) -> bytes | None:
    """The content of the manifest or another small file; None if there is none."""
    try:
        return bytes(storage.content(name))
    except FileNotFoundError:
        return None


def require_unchanged(storage: Any, before: bytes | None) -> None:
    """Raise an error if the manifest is not that of ``before``."""
    if content_of(storage) != before:
        raise DatasetError(
            f"{storage.describe()}: another writer has changed the data set in the meantime. Open it again, "
            "then append."
        )


# -- checks ----------------------------------------------------------------------------------------

#: maximum length of file content quoted in an error
ECHO = 200
#: maximum bytes of a manifest; parsing takes several times as much memory
LARGEST = 2**30
#: bytes that a manifest's content may take for each byte of it, and in any case; with its checksum and the
#: values made from it, a manifest takes at most 20 times its size
TIMES, FREE = 10, 2**20
_FLOATS = ("<f4", "<f8")
#: NumPy has no name of its own for it
BFLOAT16 = "bfloat16"
#: narrow types, for dense rows that are no sequences
_NARROW = ("<f2", BFLOAT16, "|i1", "|u1")
#: types of the columns; the types of features and labels are in the manifest
_TYPES = {
    "indices": ("<i4", "<i8"),
    "indptr": ("<i8",),
    "sequence": ("<i8",),
    "weight": ("<f8",),
    "group": ("<i8",),
}


def shown(value: object) -> str:
    """File content, shortened for an error message."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= ECHO else text[: ECHO - 3] + "..."


class _Objects:
    """Makes the objects of a manifest, which takes a bounded number of bytes for each of its own."""

    def __init__(self, content: bytes) -> None:
        self._room = FREE + TIMES * len(content)
        self._spend(parsed_size(content, self._room))

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise ValueError("a name occurs twice in an object")
        self._spend(sys.getsizeof(out))
        return out

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise ValueError(f"it asks for more than {TIMES} times the memory that it takes itself")


def _require(holds: bool, what: str) -> None:
    """Raise an error unless ``holds``, also under ``python -O``."""
    if not holds:
        raise DatasetError(shown(what))


def read(kind: object, body: Any, what: str) -> Any:
    """A value of this type, from JSON. Types are those of the fields above: counts, finite numbers of at
    least 0, strings, flags, labels (Any), tuples, dicts, and objects with all of their fields."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:  # X | None
        return None if body is None else read(inner[0], body, what)
    if origin is tuple:
        _require(isinstance(body, list), f"{what} is not a list")
        return tuple(read(inner[0], value, f"an entry of {what}") for value in body)
    if origin is dict:
        _require(isinstance(body, dict), f"{what} is not an object")
        return {name: read(inner[1], value, f"{name!r} of {what}") for name, value in body.items()}
    if is_dataclass(kind):
        make: Any = kind
        hints = _hints(make)
        _require(isinstance(body, dict), f"{what} is not an object")
        _require(set(body) == set(hints), f"{what} has the entries {sorted(body)}")
        return make(**{name: read(hints[name], body[name], f"{name} of {what}") for name in hints})
    if kind is int:
        fine = type(body) is int and 0 <= body < 2**62
    elif kind is float:
        fine = type(body) in (int, float) and 0 <= body <= sys.float_info.max
    else:
        fine = type(body) in ((bool, int, float, str) if kind is Any else (kind,))
    _require(fine, f"{what} is {shown(body)}")
    return float(body) if kind is float else body


@functools.cache
def _hints(kind: object) -> dict[str, Any]:
    return get_type_hints(kind)


def _check_labels(labels: Labels) -> None:
    kind, values = labels.kind, labels.values
    if kind == "none":
        _require((labels.dtype, values, labels.counts) == ("", None, None), "labels of kind 'none'")
        return
    _require(kind in ("number", "text"), f"kind {shown(kind)} of labels")
    wanted = ("<i4",) if kind == "text" else _numeric()
    _require(labels.dtype in wanted, f"labels of dtype {shown(labels.dtype)}")
    if values is None or labels.counts is None:
        _require(values is labels.counts and kind == "number", "labels without values or counts")
        return
    _require(len(values) == len(labels.counts), "values and counts of labels")
    if kind == "number":
        fits = _fit(list(values), labels.dtype)
        _require(fits, f"values that are not distinct labels of dtype {labels.dtype}")
        return
    _require(all(type(value) is str for value in values), "labels that are not strings")
    _require(len(set(values)) == len(values), "a label occurs twice")


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
    each = map(array.item, range(len(values)))  # a list of them would take far more memory
    same = all(map(operator.eq, each, values)) and bool(np.isfinite(array).all())
    return same and bool((array[1:] > array[:-1]).all())


def _check(manifest: Manifest) -> None:
    """Check that sizes and shapes are consistent, so that reads stay within the files."""
    shards, labels = manifest.shards, manifest.labels
    _require(manifest.layout in ("dense", "csr"), f"layout {shown(manifest.layout)}")
    narrow = manifest.dtype in _NARROW and manifest.layout == "dense" and not manifest.ragged
    _require(manifest.dtype in _FLOATS or narrow, f"dtype {shown(manifest.dtype)}")
    if manifest.codes is not None:
        _check_codes(manifest, manifest.codes)
    names = manifest.feature_names
    _require(names is None or len(names) == manifest.n_features, "the number of feature_names")
    _require(len(shards) > 0, "no shards")
    if manifest.tokens is not None:
        _check_tokens(manifest, manifest.tokens)
    _check_labels(labels)
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


def _check_codes(manifest: Manifest, codes: Codes) -> None:
    _require(manifest.dtype in _NARROW[2:], f"codes of dtype {shown(manifest.dtype)}")
    for values in (codes.scale, codes.offset):
        fits = all(type(value) is float and abs(value) < 1e36 for value in values)
        _require(fits and len(values) in (1, manifest.n_features), "the scale or offset of codes")


def _check_tokens(manifest: Manifest, tokens: Tokens) -> None:
    _require(manifest.ragged and manifest.layout == "csr", "tokens that are no sparse sequences")
    _require(tokens.min_count > 0, "min_count of tokens")
    names, n_hashed = manifest.feature_names, tokens.n_hashed
    if n_hashed is None:
        _require(names is not None, "tokens without names of features")
        _require(names is None or len(set(names)) == len(names), "a name of a feature occurs twice")
    else:
        fits = names is None and 0 < n_hashed < 2**31 and n_hashed == manifest.n_features
        _require(fits, f"n_hashed={n_hashed} of {manifest.n_features} features")


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
        "features": (manifest.stored_dtype,),
        "data": (manifest.dtype,),
    }
    for column, file in shard.files.items():
        # a valid name has no folder in it
        _require(OURS.fullmatch(file.name) is not None, f"name {file.name!r} in {what}")
        _require(file.shape == shapes[column], f"shape of {file.name}")
        _require(file.dtype in (own | _TYPES)[column], f"dtype {file.dtype!r} of {file.name}")
        size = np.dtype(file.dtype).itemsize * math.prod(file.shape)
        _require(file.bytes == size, f"bytes of {file.name}")
        fits = len(file.sections) == 8 * -(-file.bytes // SECTION)
        fits = fits and re.fullmatch("[0-9a-f]*", file.sections) is not None
        _require(fits, f"sections of {file.name}")
    if manifest.layout == "dense" and manifest.n_features == 0 and "label" not in shard.files:
        _require(shard.rows == 0, f"rows of {what} without a file")
    _require(shard.with_checksum().checksum == shard.checksum, f"checksum of {what}")


def _canonical(content: object) -> bytes:
    """Canonical JSON: equal content always has equal bytes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
