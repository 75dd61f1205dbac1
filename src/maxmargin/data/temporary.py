"""Large arrays in temporary files: the system can write their pages to disk when memory is short."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

#: smaller arrays are in memory, in bytes
SMALLEST = 16 << 20


def temporary_array(shape: tuple[int, ...] | int, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """An array of zeros in a file without a name, which is gone with the last reference to the array.

    The file is in the folder for temporary files (``TMPDIR``). If there is no space, the array is in memory.
    """
    kind, shape = np.dtype(dtype), (shape,) if isinstance(shape, int) else shape
    size = math.prod(shape) * kind.itemsize
    if size < SMALLEST or not hasattr(os, "posix_fallocate"):
        return np.zeros(shape, dtype=kind)
    try:
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(
                file.fileno(), 0, size
            )  # a write without space would end the process
            mapping = mmap.mmap(file.fileno(), size)
    except OSError:
        return np.zeros(shape, dtype=kind)
    return np.frombuffer(mapping, dtype=kind).reshape(shape)
