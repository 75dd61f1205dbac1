"""One safetensors file: named arrays, and what the file is about.

    8 bytes    length of the header
    header     JSON: checksum, format, versions of what wrote it, what the file is about, and all arrays
    data       the arrays, one after the other; ``tree`` is the JSON of all other values

The package ``safetensors`` reads files: its compiled code checks the header and the places of all arrays. We
write them ourselves, because its writer copies all arrays first (before version 0.8), or leaves files behind
when it is killed and makes files that only their owner can read (since 0.8).

The checksum is a BLAKE2b hash of the header's strings and of the arrays with their names, types and shapes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from maxmargin._version import __version__
from maxmargin.compiled.precompiled import precompiled
from maxmargin.files.codec import (
    CONTRADICTIONS,
    FREE,
    TENSORS,
    TIMES,
    TREE,
    AnyArray,
    FormatError,
    dumps,
    shown,
)
from maxmargin.files.writers import DAY, remove_partial

#: number of this layout
FORMAT = 3


def write(path: Path, kind: str, about: bytes, tree: bytes, arrays: Mapping[str, AnyArray]) -> int:
    """Write encoded values to a file, which appears complete or not at all; returns its size.

    ``about`` is JSON for the header; ``tree`` is that of everything else. No array is copied.
    """
    arrays = {**arrays, TREE: np.frombuffer(tree, dtype=np.uint8)}
    arrays = {name: array if array.dtype.str in TENSORS else array.view(np.uint8)
              for name, array in arrays.items()}  # fmt: skip
    # in this order every array is aligned
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    metadata = {
        "format": f"maxmargin {kind} {FORMAT}", **_versions(), "about": about.decode("ascii"),
    }  # fmt: skip
    header = _header({"checksum": _checksum(metadata, arrays), **metadata}, arrays)
    with _replacing(path) as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for array in arrays.values():
            file.write(_bytes(array))
    return 8 + len(header) + sum(array.nbytes for array in arrays.values())


def _header(metadata: dict[str, str], arrays: Mapping[str, AnyArray]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for name, array in arrays.items():
        end = at + array.nbytes
        entries[name] = {
            "dtype": TENSORS[array.dtype.str], "shape": list(array.shape), "data_offsets": [at, end],
        }  # fmt: skip
        at = end
    text = dumps(entries)
    if len(text) > 100_000_000:
        raise ValueError("the header of a safetensors file must not take more than 100 MB.")
    return text + b" " * (-len(text) % 8)


def _bytes(array: AnyArray) -> Any:
    return array.reshape(-1).view(np.uint8).data


def _checksum(metadata: Mapping[str, str], arrays: Mapping[str, AnyArray]) -> str:
    digest = hashlib.blake2b(dumps(sorted(metadata.items())), digest_size=32)
    for name, array in sorted(arrays.items()):
        digest.update(dumps([name, array.dtype.str, list(array.shape)]))
        digest.update(_bytes(array))
    return digest.hexdigest()


@cache
def _versions() -> dict[str, str]:
    """Versions of what writes the file; no date and no machine, so that equal models make equal files."""
    try:  # the one that compiled; it is not imported for that
        numba = precompiled().numba or version("numba")
    except PackageNotFoundError:
        numba = "not installed"
    return {
        "library": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba,
    }


def target(path: str | os.PathLike[str]) -> Path:
    """The file to write: links are followed, but not to what is there and no file, such as a pipe."""
    special = os.path.exists(path) and not os.path.isfile(path)
    return Path(path if special else os.path.realpath(path))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file under another name, which replaces the one at ``path`` when it is complete. A pipe or a
    device is not replaced but written to."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
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
    remove_leftovers(path, DAY)


def _sync_folder(folder: Path) -> None:
    """The new name must survive a crash of the machine, too. Not all systems can do this for folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_leftovers(path: Path, age: float = 0.0) -> None:
    """Remove partial files of writers that were killed. Where other processes may write to the same path,
    remove only those that are old."""
    remove_partial(path.parent, f".{escape(path.name)}.*.partial", age)


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


def read(path: str | os.PathLike[str], kind: str) -> tuple[bytes, bytes, dict[str, AnyArray]]:
    """The JSON of what the file is about, that of its tree, and its arrays."""
    _require_file(path, kind)
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata()
            _require_format(metadata, kind)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FormatError(f"the {kind} is damaged: {shown(error)}") from error
    if metadata.pop("checksum", None) != _checksum(metadata, arrays):
        raise FormatError(
            f"the {kind} is damaged: its checksum does not match its contents (was it copied in part, or "
            "changed?)"
        )
    return metadata["about"].encode(), arrays.pop(TREE).tobytes(), arrays


def _require_file(path: str | os.PathLike[str], kind: str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise FormatError("this is not a file")  # reading a pipe or a device might never end
    with open(path, "rb") as file:
        length, size = int.from_bytes(file.read(8), "little"), os.fstat(file.fileno()).st_size
        header = file.read(length) if 2 <= length <= size - 8 else b""
    if not header:
        raise FormatError(f"this is not a {kind} of maxmargin, or it was cut off within its header")
    if 80 * header.count(b'"') + 40 * header.count(b",") > FREE + TIMES * size:  # in safetensors
        raise FormatError("the header names too many arrays for a file of this size")


def _require_format(metadata: dict[str, str] | None, kind: str) -> None:
    own, found = f"maxmargin {kind} {FORMAT}", (metadata or {}).get("format", "")
    if not metadata or not found.startswith("maxmargin "):
        raise FormatError(f"this is not a {kind} of maxmargin")
    if found != own:
        found, library = (shown(metadata.get(name)).strip("'") for name in ("format", "library"))
        raise FormatError(
            f"this is a {found}, written by maxmargin {library}, and not a {own}. If the file is newer, "
            "upgrade maxmargin"
        )
