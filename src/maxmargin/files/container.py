"""One file: the layout of safetensors, which other programs can read, and a checksum.

    8 bytes    length of the header
    header     JSON: checksum, format, versions of what wrote it, what the file is about, and all arrays
    data       the arrays, one after the other; ``tree`` is the JSON of all other values

The checksum is the BLAKE2b hash of the whole file with zeros in place of the checksum. Arrays are written
and read without a copy of all of them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from maxmargin._version import __version__
from maxmargin.files.codec import (
    CONTRADICTIONS,
    TENSORS,
    TREE,
    AnyArray,
    FormatError,
    dumps,
    loads,
    shown,
    view,
)

#: number of this layout
FORMAT = 2
_START = b'{"__metadata__":{"checksum":"'
_PLACE, _LENGTH = 8 + len(_START), 64
_BLOCK = 1 << 24
_DTYPES = {name: np.dtype(code) for code, name in TENSORS.items()}
#: the limit of safetensors
_MAX_HEADER = 100_000_000


# -- writing ---------------------------------------------------------------------------------------


def write(
    path: Path,
    kind: str,
    about: Any,
    tree: Any,
    arrays: Mapping[str, AnyArray],
    notes: Mapping[str, str] | None = None,
) -> int:
    """Write encoded values to a file, which appears complete or not at all; returns its size.

    ``about`` is for the header; ``tree`` holds everything else. ``notes`` are strings in the header that the
    caller understands and :func:`read` ignores.
    """
    arrays = {**arrays, TREE: np.frombuffer(dumps(tree), dtype=np.uint8)}
    header = _header(kind, about, arrays, notes)
    with _replacing(path) as file:
        digest = hashlib.blake2b(digest_size=_LENGTH // 2)
        raw = (array.reshape(-1).view(np.uint8) for array in arrays.values())
        parts: list[Any] = [len(header).to_bytes(8, "little"), header, *raw]
        for whole in [memoryview(part) for part in parts]:
            # in blocks that fit into the processor's cache, or nearly so
            for lo in range(0, len(whole), _BLOCK):
                digest.update(whole[lo : lo + _BLOCK])
                file.write(whole[lo : lo + _BLOCK])
        size = file.tell()
        file.seek(_PLACE)
        file.write(digest.hexdigest().encode("ascii"))
    return size


def _header(
    kind: str, about: Any, arrays: Mapping[str, AnyArray], notes: Mapping[str, str] | None
) -> bytes:
    entries: dict[str, Any] = {
        "__metadata__": {
            "checksum": "0" * _LENGTH,
            "format": f"maxmargin {kind} {FORMAT}",
            **_versions(),
            "about": dumps(about).decode("utf-8"),
        }
    }
    if notes:
        entries["__metadata__"]["notes"] = dumps(dict(notes)).decode("utf-8")
    at = 0
    for name, array in arrays.items():
        end = at + array.nbytes
        entries[name] = {
            "dtype": TENSORS[array.dtype.str], "shape": list(array.shape), "data_offsets": [at, end],
        }  # fmt: skip
        at = end
    text = dumps(entries)
    if len(text) > _MAX_HEADER - 8:
        raise ValueError("the header of a file must not take more than 100 MB.")
    return text + b" " * (-len(text) % 8)


@cache
def _versions() -> dict[str, str]:
    """Versions of what writes the file; no date and no machine, so that equal models make equal files."""
    return {
        "library": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),  # not imported for that
    }


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file under another name, which replaces the one at ``path`` when it is complete."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """The new name must survive a crash of the machine, too. Not all systems can open folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EACCES, errno.EBADF):
            raise
    finally:
        os.close(handle)


def remove_leftovers(path: Path) -> None:
    """Remove partial files of writers that were killed; only one process at a time writes to a path."""
    for partial in path.parent.glob(f".{escape(path.name)}.*.partial"):
        partial.unlink(missing_ok=True)


# -- reading ---------------------------------------------------------------------------------------


@contextmanager
def refusing(path: str | os.PathLike[str], error: type[ValueError]) -> Iterator[None]:
    """Raise everything that is wrong with a file as this error, with the file's path."""
    where = os.fspath(path)
    try:
        yield
    except FormatError as wrong:
        raise error(f"{where!s}: {wrong}.") from wrong.__cause__
    except CONTRADICTIONS as wrong:
        raise error(f"{where!s}: the file contradicts itself: {shown(wrong)}.") from wrong


def read(path: str | os.PathLike[str], kind: str) -> tuple[Any, Any, dict[str, AnyArray]]:
    """What the file is about, its tree, and its arrays. A file with a single wrong byte is refused."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        start, length = _start(file, size, kind)
        _check_sum(file, start, kind)
        file.seek(8)
        header = loads(file.read(length), "the header")
        metadata = header.pop("__metadata__")
        own = f"maxmargin {kind} {FORMAT}"
        if metadata.get("format") != own:
            found, library = (
                shown(metadata.get(name)).strip("'") for name in ("format", "library")
            )
            raise FormatError(
                f"this is a {found}, written by maxmargin {library}, and not a {own}. If the file is newer, "
                "upgrade maxmargin"
            )
        arrays = _arrays(file, header, size - 8 - length)
        tree = loads(arrays.pop(TREE).tobytes(), "the tree")
        return loads(metadata["about"], "the header"), tree, arrays


def read_notes(path: str | os.PathLike[str], kind: str) -> dict[str, str]:
    """The notes of a file that :func:`read` accepts."""
    with _opened(path) as file:
        _, length = _start(file, os.fstat(file.fileno()).st_size, kind)
        file.seek(8)
        header = loads(file.read(length), "the header")
    notes = header["__metadata__"].get("notes")
    if notes is None:
        return {}
    notes = loads(notes, "the notes")
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise FormatError("the notes are not strings")
    return notes


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    if os.path.exists(path) and not os.path.isfile(path):
        raise FormatError("this is not a file")  # reading a pipe or a device might never end
    return open(path, "rb")


def _start(file: BinaryIO, size: int, kind: str) -> tuple[bytes, int]:
    """The first bytes of a file, and the length of its header."""
    start = file.read(_PLACE)
    if start[8:] != _START:
        raise FormatError(f"this is not a {kind} of maxmargin")
    length = int.from_bytes(start[:8], "little")
    if length > min(size - 8, _MAX_HEADER):
        raise FormatError(f"the {kind} is damaged: it ends within its header")
    return start, length


def _check_sum(file: BinaryIO, start: bytes, kind: str) -> None:
    found = file.read(_LENGTH)
    digest = hashlib.blake2b(start + b"0" * _LENGTH, digest_size=_LENGTH // 2)
    while block := file.read(_BLOCK):
        digest.update(block)
    if found != digest.hexdigest().encode("ascii"):
        raise FormatError(
            f"the {kind} is damaged: its checksum does not match its contents (was it copied in part, or "
            "changed?)"
        )


def _arrays(file: BinaryIO, header: dict[str, Any], room: int) -> dict[str, AnyArray]:
    """All arrays, each checked to follow the one before it."""
    out: dict[str, AnyArray] = {}
    at = 0
    for name, spec in header.items():
        lo, hi = spec["data_offsets"]
        shape, dtype = spec["shape"], _DTYPES[spec["dtype"]]
        if type(lo) is not int or type(hi) is not int or lo != at or not lo <= hi <= room:
            raise FormatError(f"array {shown(name)} is not where it should be")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise FormatError(f"array {shown(name)} has no valid shape")
        raw = np.fromfile(file, dtype=np.uint8, count=hi - lo)
        out[name] = view(raw, dtype, tuple(shape))
        at = hi
    if at != room:
        raise FormatError("the file holds more bytes than its header describes")
    return out
