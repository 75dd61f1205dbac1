"""Arrays in temporary files, for numbers that grow with the rows or sentences of data on disk.

Scores and multipliers of a billion rows take 8 GB each. In a file that is mapped into memory, they can leave
it whenever the system needs memory for something else. The files have no name, so nothing is left behind when
the process ends, however it ends. They are made in the folder for temporary files (``TMPDIR``).

Space is reserved before it is used, because a disk that becomes full later would end the process. Arrays of
medium size are cut from larger files: each file takes a file descriptor.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

#: bytes below which an array is in memory, and from which it has a file of its own
SMALL, LARGE = 2**20, 2**24
#: largest size of a file that several arrays are cut from
SLAB = 2**26
#: rows of a shard on disk from which its scores are in temporary files
FROM_ROWS = SMALL // 8
#: arrays begin at multiples of this many bytes
ALIGNED = 4096

_lock = threading.Lock()
#: the file that arrays are cut from, and the bytes that are taken
_current: tuple[mmap.mmap, int] | None = None


def scratch_zeros(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64
) -> npt.NDArray[Any]:
    """Zeros in a temporary file; in memory if there are few, or if space cannot be reserved."""
    shape, kind = (shape,) if isinstance(shape, int) else shape, np.dtype(dtype)
    count = math.prod(shape)
    size = -(-kind.itemsize * count // ALIGNED) * ALIGNED
    if size < SMALL or not hasattr(os, "posix_fallocate"):
        return np.zeros(shape, kind)
    try:
        file, start = (_reserved(size), 0) if size >= LARGE else _cut(size)
    except OSError as error:
        warnings.warn(
            f"there is no space for {size / 2**20:.0f} MB in {tempfile.gettempdir()} ({error.strerror}), so "
            "numbers per sample are kept in memory. Set TMPDIR to a folder with more space.",
            RuntimeWarning,
            stacklevel=2,
        )
        return np.zeros(shape, kind)
    return np.frombuffer(file, kind, count, start).reshape(shape)


def _cut(size: int) -> tuple[mmap.mmap, int]:
    global _current
    with _lock:
        file, start = _current or (None, 0)
        if file is None or start + size > len(file):
            file, start = _reserved(SLAB // size * size), 0  # shards have arrays of one size
        _current = file, start + size
    return file, start


def _reserved(size: int) -> mmap.mmap:
    with tempfile.TemporaryFile() as file:
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


class ScratchPool:
    """Arrays of one shape in temporary files, used again after they are released."""

    def __init__(self) -> None:
        self._free: list[npt.NDArray[np.float64]] = []

    def empty_like(self, like: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """An array of this shape with any content."""
        if self._free and self._free[-1].shape == like.shape:
            return self._free.pop()
        return scratch_zeros(like.shape)

    def release(self, array: npt.NDArray[np.float64]) -> None:
        """Use this array again. Nothing else may refer to it."""
        self._free.append(array)


def _forget() -> None:
    global _current
    _current = None  # a forked process must not write into the file of its parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
