"""The file of a checkpoint: the layout of safetensors, which other programs can read, and a checksum.

    8 bytes    length of the header
    header     JSON. Its first entry is the checksum: BLAKE2b of the whole file, with zeros in its own place
    data       the arrays, one after the other, and as one of them (``tree``) the JSON of all other values

Arrays are written and read without a copy of the whole.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import secrets
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from maxmargin.checkpoints._plain import AnyArray, Bytes, Packer, Unpacker, dumps, loads, shown
from maxmargin.checkpoints._settings import CheckpointError

FORMAT = 1
_START = b'{"__metadata__":{"checksum":"'
_PLACE, _LENGTH = 8 + len(_START), 64
_BLOCK = 1 << 24
_SAFETENSORS = {"f8": "F64", "f4": "F32", "f2": "F16", "b1": "BOOL"} | {
    f"{sign}{8 // size}": f"{sign.upper()}{64 // size}" for sign in "iu" for size in (1, 2, 4, 8)
}
_SIZES = {name: int(code[1]) for code, name in _SAFETENSORS.items()}
#: what safetensors allows
_MAX_HEADER = 100_000_000


def write_file(path: Path, about: dict[str, Any], tree: Any) -> int:
    """Write a checkpoint; returns its size. ``about`` says what it belongs to, ``tree`` is the state."""
    packer = Packer()
    text = dumps(packer.pack(tree))
    arrays: dict[str, AnyArray] = {
        **packer.large,
        "small": packer.small,
        "tree": np.frombuffer(text, dtype=np.uint8),
    }
    header = _header(about, _library(), arrays)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            _write(file, header, list(arrays.values()))
            size = file.seek(0, os.SEEK_END)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return size


@cache
def _library() -> str:
    try:
        return version("maxmargin")
    except PackageNotFoundError:  # used from its source, without having been installed
        return "of unknown version"


def _header(about: dict[str, Any], library: str, arrays: dict[str, AnyArray]) -> bytes:
    entries: dict[str, Any] = {
        "__metadata__": {
            "checksum": "0" * _LENGTH,
            "format": f"maxmargin checkpoint {FORMAT}",
            "library": library,
            "about": dumps(about).decode("ascii"),
        }
    }
    at = 0
    for name, array in arrays.items():
        kind = _SAFETENSORS.get(array.dtype.str[1:]) if array.dtype.isnative else None
        shape = list(array.shape) if kind else [array.nbytes]
        end = at + array.nbytes
        entries[name] = {"dtype": kind or "U8", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = dumps(entries)
    return text + b" " * (-len(text) % 8)


def _write(file: BinaryIO, header: bytes, arrays: list[AnyArray]) -> None:
    digest = hashlib.blake2b(digest_size=_LENGTH // 2)
    raw = [array.reshape(-1).view(np.uint8) for array in arrays]
    parts: list[Any] = [len(header).to_bytes(8, "little"), header, *raw]
    for part in parts:
        for block in _blocks(memoryview(part)):
            digest.update(block)
            file.write(block)
    file.seek(_PLACE)
    file.write(digest.hexdigest().encode("ascii"))


def _blocks(view: memoryview) -> Iterator[memoryview]:
    """A piece is hashed and written while it is in the processor's cache, or nearly so."""
    for lo in range(0, len(view), _BLOCK):
        yield view[lo : lo + _BLOCK]


def _sync_folder(folder: Path) -> None:
    """The new name must survive a crash of the machine as well; not all systems open folders."""
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
    """Remove what writers that were killed have left; one fit at a time writes to a path."""
    for partial in path.parent.glob(f".{_escaped(path.name)}.*.partial"):
        partial.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


# -- reading ---------------------------------------------------------------------------------------


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Any]:
    """(about, tree) of a checkpoint. A file with a single wrong byte is refused."""
    where = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        # a pipe would be waited for, a device read for ever
        raise CheckpointError(f"{where!s} is not a file.")
    with open(path, "rb") as file:
        try:
            return _read(file)
        except CheckpointError as error:
            raise CheckpointError(f"{where!s}: {error}.") from error.__cause__
        except _CONTRADICTIONS as error:
            raise CheckpointError(
                f"{where!s}: the file contradicts itself ({shown(error)})."
            ) from error


#: what Python and NumPy say to values that are of another kind than they should be
_CONTRADICTIONS = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


def _read(file: BinaryIO) -> tuple[dict[str, Any], Any]:
    size = os.fstat(file.fileno()).st_size
    start = file.read(_PLACE)
    if start[8:] != _START:
        raise CheckpointError("this is not a checkpoint of maxmargin")
    length = int.from_bytes(start[:8], "little")
    if length > min(size - 8, _MAX_HEADER):
        raise CheckpointError("the checkpoint is damaged: it ends within its header")
    _check_sum(file, start)
    file.seek(8)
    header = loads(file.read(length))
    metadata = header.pop("__metadata__")
    if metadata.get("format") != f"maxmargin checkpoint {FORMAT}":
        raise CheckpointError(
            f"the file is a {_word(metadata.get('format'))}, written by maxmargin "
            f"{_word(metadata.get('library'))}; this version reads format {FORMAT}"
        )
    arrays = _arrays(file, header, size - 8 - length)
    tree = loads(arrays.pop("tree").tobytes())
    small = arrays.pop("small")
    about = loads(metadata["about"])
    if not isinstance(about, dict):
        raise CheckpointError("the file does not say what it is about")
    return about, Unpacker(arrays, small).unpack(tree)


def _word(value: Any) -> str:
    return shown(value).strip("'")


def _check_sum(file: BinaryIO, start: bytes) -> None:
    found = file.read(_LENGTH)
    digest = hashlib.blake2b(start + b"0" * _LENGTH, digest_size=_LENGTH // 2)
    while block := file.read(_BLOCK):
        digest.update(block)
    if found != digest.hexdigest().encode("ascii"):
        raise CheckpointError(
            "the checkpoint is damaged: its checksum is not that of its contents. Was it copied in part, or "
            "changed?"
        )


def _arrays(file: BinaryIO, header: dict[str, Any], room: int) -> dict[str, Bytes]:
    """All arrays as bytes, each checked to follow the one before it."""
    out: dict[str, Bytes] = {}
    at = 0
    for name, spec in header.items():
        lo, hi = spec["data_offsets"]
        shape, kind = spec["shape"], spec["dtype"]
        if type(lo) is not int or type(hi) is not int or lo != at or not lo <= hi <= room:
            raise CheckpointError(f"array {shown(name)} is not where it should be")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise CheckpointError(f"array {shown(name)} has no shape")
        if math.prod(shape) * _SIZES[kind] != hi - lo:
            raise CheckpointError(f"array {shown(name)} has not the size of its shape")
        out[name] = np.fromfile(file, dtype=np.uint8, count=hi - lo)
        at = hi
    if at != room:
        raise CheckpointError("there is more in the file than its header says")
    return out
