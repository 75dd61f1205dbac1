"""Arrays in temporary files, for numbers that grow with the rows of data on disk.

Scores and multipliers of a billion rows take 8 GB each. In a file that is mapped into memory, they can leave
it whenever the system needs memory for something else. The files have no name, so nothing is left behind when
the process ends, however it ends. They are made in the folder for temporary files (``TMPDIR``).

Space is reserved before it is used: a disk that becomes full is an error here, not a crash later. Arrays are
cut from large files, because each file takes a file descriptor.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

#: bytes of a file
SLAB = 2**28
#: rows of a shard on disk from which scratch files are worth it
FROM_ROWS = 2**17
#: arrays begin at multiples of this many bytes
ALIGNED = 4096

_lock = threading.Lock()
#: the file that arrays are cut from, and the bytes that are taken
_current: tuple[mmap.mmap, int] | None = None


def scratch_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Zeros in a temporary file, or in memory where the system cannot reserve space on a disk."""
    count, kind = math.prod(shape), np.dtype(dtype)
    if not count or not hasattr(os, "posix_fallocate"):
        return np.zeros(shape, kind)
    global _current
    size = -(-kind.itemsize * count // ALIGNED) * ALIGNED
    with _lock:
        file, taken = _current or (None, 0)
        if file is None or taken + size > len(file):
            file, taken = _reserved(max(size, SLAB)), 0
        _current = file, taken + size
    return np.frombuffer(file, kind, count, taken).reshape(shape)


def _reserved(size: int) -> mmap.mmap:
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            error.add_note(
                f"{size / 2**20:.0f} MB in {tempfile.gettempdir()} are needed for numbers per row of data on "
                "disk. Free some space, or set TMPDIR to a folder that has it."
            )
            raise
        return mmap.mmap(file.fileno(), size)


class ScratchPool:
    """Arrays of one shape in scratch files, used again after they are released."""

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
