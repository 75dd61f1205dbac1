"""Matrices in files of NumPy, ``.npy`` and ``.npz``, read in place as the rows of a data set.

A manifest is made of the header of the file. Sections of the file are read as those of column files are, so
nothing is converted or copied. Other columns are arrays that are held in memory, or maps of other files.
"""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.batches import groups_of, labels_of, squares_of, weights_of
from maxmargin.data.formats.compressed import opened
from maxmargin.data.labels import LabelBook
from maxmargin.data.manifest import Codes, ColumnFile, DatasetError, Manifest, Shard, checksum
from maxmargin.data.storage import Sections, Source, Storage
from maxmargin.data.typed_rows import KINDS, Quantized

#: names of columns in a ``.npz`` file
COLUMNS = ("X", "y", "weight", "group", "scale", "offset")
#: entries that are read at a time to find the longest row
_STEP = 1 << 24


class Header(NamedTuple):
    """An array in a file, and the byte at which it begins."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


def is_array_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of an array, and not of a data set."""
    return os.fspath(path).lower().endswith((".npy", ".npz")) and not os.path.isdir(path)


def split(path: str) -> tuple[str, str]:
    """The folder or prefix of a path, and the name in it."""
    if "://" in path:
        folder, _, name = path.rpartition("/")
        return folder, name
    folder, name = os.path.split(os.path.abspath(path))
    return folder, name


class InPlace(Source):
    """Sections of the array in a file, and of columns in memory."""

    def __init__(self, storage: Storage, name: str, start: int, held: dict[str, AnyArray]) -> None:
        self._storage, self._name, self._start, self.held = storage, name, start, held
        self.depth = storage.depth

    def describe(self, name: str = "") -> str:
        return self._storage.describe(self._name)

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        with self.reader() as files:
            return files.section(name, dtype, start, stop)

    def is_near(self, name: str, offset: int) -> bool:
        with self.reader() as files:
            return files.is_near(name, offset)

    @contextlib.contextmanager
    def reader(self) -> Iterator[Sections]:
        with self._storage.reader() as files:
            yield _Shifted(files, self._name, self._start, self.held)

    def load(self, section: AnyArray) -> None:
        self._storage.load(section)


class _Shifted(Sections):
    """Sections through files that stay open."""

    def __init__(self, files: Sections, name: str, start: int, held: dict[str, AnyArray]) -> None:
        self._files, self._name, self._start, self._held = files, name, start, held

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        if name in self._held:
            return self._held[name][start:stop]
        size = np.dtype(dtype).itemsize
        first = self._start + start * size
        last = max(first, self._start + stop * size)
        flat = self._files.section(self._name, "u1", first, last).view(dtype)
        return flat if flat.flags.aligned else flat.copy()

    def is_near(self, name: str, offset: int) -> bool:
        return name in self._held or self._files.is_near(self._name, self._start + offset)


def header_of(path: str, member: str | None = None) -> Header:
    """The header of a ``.npy`` file, or of a member of an ``.npz`` file that is not compressed."""
    with opened(path) as file:
        start = 0
        if member is not None:
            with zipfile.ZipFile(file) as archive:
                info = archive.getinfo(f"{member}.npy")
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(
                    f"{path}: {member!r} is compressed, so it cannot be read in place. Save it with np.savez "
                    "or np.save, or convert it once: data.write(folder, [(X, y)])."
                )
            file.seek(info.header_offset)
            local = file.read(30)
            start = (
                info.header_offset
                + 30
                + sum(int.from_bytes(local[k : k + 2], "little") for k in (26, 28))
            )
        file.seek(start)
        content = io.BytesIO(file.read(1 << 16))
    try:
        version = np.lib.format.read_magic(content)
        read: Any = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read[min(version[0], 2)](content)
    except (ValueError, KeyError) as error:
        raise DatasetError(f"{path} is not a file of NumPy ({error}).") from error
    if fortran and len(shape) > 1:
        raise ValueError(
            f"{path} holds the columns one after the other (Fortran order): save np.ascontiguousarray(X)."
        )
    return Header(dtype, shape, start + content.tell())


def array_manifest(
    path: str, storage: Storage, given: dict[str, Any]
) -> tuple[Manifest, int, dict[str, AnyArray]]:
    """The manifest of an array, where it begins, and its other columns. One pass over the rows finds the
    longest one, and refuses numbers that are not finite."""
    name = split(path)[1]
    if name.lower().endswith(".npz"):
        with opened(path) as file, zipfile.ZipFile(file) as archive:
            members = [info.filename.removesuffix(".npy") for info in archive.infolist()]
            found = [column for column in COLUMNS if column in members]
            given = {c: _member(archive, c) for c in found if c != "X"} | given
        if "X" not in members and len(members) != 1:
            raise ValueError(f"{path} holds {members}: the matrix must have the name 'X'.")
        header = header_of(path, "X" if "X" in members else members[0])
    else:
        header = header_of(path)
    kind = "bfloat16" if header.dtype == "V2" else header.dtype.name  # as ml_dtypes saves it
    if (
        len(header.shape) != 2
        or kind not in (*KINDS, "float32", "float64")
        or header.dtype.str[0] == ">"
    ):
        raise ValueError(
            f"{path} holds {header.dtype} of shape {header.shape}: rows are read in place from matrices of "
            f"float64, float32, {', '.join(KINDS)}, in the byte order of this machine. Convert it with "
            "data.write."
        )
    n, d = header.shape
    size = n * d * (2 if kind == "bfloat16" else header.dtype.itemsize)
    stored = storage.sizes().get(name, 0)
    if stored < header.start + size:
        raise DatasetError(f"{path} ends before byte {header.start + size}: it was truncated.")
    codes = None
    if given.get("scale") is not None:
        made = Quantized(np.empty((0, d), header.dtype), given["scale"], given.get("offset", 0))
        codes = Codes.of(made)
    elif given.get("offset") is not None:
        raise ValueError("offset requires scale: codes stand for scale * code + offset.")
    held, labels = _columns(given, n)
    book = LabelBook()
    if labels is not None:
        encoded = book.encode(labels)
        held["label"] = np.empty(0) if encoded is None else encoded
    dtype = kind if kind == "bfloat16" else header.dtype.newbyteorder("<").str
    manifest = Manifest(
        "dense", False, dtype, n, 0, d, n * d, 0.0, None, book.summary(), codes=codes
    )
    files = {c: ColumnFile(c, v.dtype.str, v.shape, v.nbytes, "", "") for c, v in held.items()}
    kept = ColumnFile("features", manifest.stored_dtype, (n, d), size, "", "")
    shard = Shard(n, n * d, 0, (), {"features": kept, **files}, _mark(path, storage))
    source = InPlace(storage, name, header.start, held)
    return manifest.with_rows(shard, _longest(source, manifest, kept)), header.start, held


def _columns(given: dict[str, Any], n: int) -> tuple[dict[str, AnyArray], AnyArray | None]:
    y = given.get("y")
    if isinstance(y, str | os.PathLike):
        y = np.load(y, mmap_mode="r", allow_pickle=False)
    held = dict[str, AnyArray]()
    for name, check in (("weight", weights_of), ("group", groups_of)):
        if given.get(name) is not None:
            held[name] = check(given[name], n)
    return held, None if y is None else labels_of(y, n)


def _member(archive: zipfile.ZipFile, name: str) -> AnyArray:
    with archive.open(f"{name}.npy") as file:
        out: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
    return out


def _mark(path: str, storage: Storage) -> str:
    """A mark that changes with the file."""
    from maxmargin.data.remote import identity

    found: Any = identity(path) if "://" in path else os.stat(path)
    own = (
        found if isinstance(found, tuple) and "://" in path else (found.st_size, found.st_mtime_ns)
    )
    return str(checksum(f"{storage.describe()} {own}".encode()).hexdigest())


def _longest(source: InPlace, manifest: Manifest, file: ColumnFile) -> float:
    """The largest squared norm of a row."""
    n, d = file.shape
    largest, height = 0.0, max(1, _STEP // max(1, d))
    for lo in range(0, n, height):
        hi = min(n, lo + height)
        rows: Any = source.section(file.name, file.dtype, lo * d, hi * d).reshape(hi - lo, d)
        typed = manifest.typed(rows)
        try:
            squares = squares_of(rows if typed is None else typed, lo)
        except ValueError as error:
            raise ValueError(f"{source.describe()}: {error}") from None
        largest = max(largest, float(squares.max(initial=0.0)))
    return largest
