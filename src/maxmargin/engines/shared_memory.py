"""Objects in memory shared by processes, instead of a copy in each process and in the pipe.

Pickle protocol 5 separates the large buffers of an object. They are written one after another to a segment:
memory with a file descriptor but no name. A process that receives the descriptor maps it. Nothing has to be
cleaned up: the memory is freed when no process has the segment open or mapped, however the processes ended.
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

#: minimum bytes of a buffer to use a segment; Windows cannot send descriptors, so it uses pipes only
LARGE = 1 << 15 if sys.platform != "win32" else sys.maxsize
#: a pickler, called as ``dumps(thing, protocol=5, buffer_callback=...)``
Dumps = Callable[..., bytes]
#: buffers are aligned to the size of a cache line
ALIGNMENT = 64


class Packed(NamedTuple):
    """A pickled object: its stream, and the positions of its large buffers in the segment.

    A large stream is stored in the segment too, at the last of the spans.
    """

    stream: bytes | None
    spans: tuple[tuple[int, int], ...]

    def unpack(self, segment: memoryview, take: Callable[[memoryview], Any] = memoryview) -> Any:
        """The object; ``take`` converts each piece of the segment to a buffer."""
        stream = self.stream
        if stream is None:
            return pickle.loads(segment[slice(*self.spans[-1])], buffers=self._views(segment, take))
        return pickle.loads(stream, buffers=self._views(segment, take))

    def _views(self, segment: memoryview, take: Callable[[memoryview], Any]) -> Any:
        return (take(segment[start:stop]) for start, stop in self.spans)


class Packer:
    """Pickles objects that share a segment; memory used by several of them is stored once.

    Parameters
    ----------
    start : int, default 0
        First position in the segment.
    dumps : callable, default pickle.dumps
        The pickler.
    """

    def __init__(self, start: int = 0, dumps: Dumps = pickle.dumps) -> None:
        self.size, self._dumps = start, dumps
        self._pieces: list[tuple[int, memoryview]] = []
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def add(self, thing: Any) -> Packed:
        """Pickle an object and assign positions to its large buffers."""
        large: list[memoryview] = []

        def stays(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= LARGE:
                large.append(raw)
            return raw.nbytes < LARGE

        stream = self._dumps(thing, protocol=5, buffer_callback=stays)
        spans = [self._place(raw) for raw in large]
        if len(stream) < LARGE:
            return Packed(stream, tuple(spans))
        return Packed(None, (*spans, self._place(memoryview(stream))))

    def write(self, descriptor: int) -> None:
        """Write all buffers to a segment."""
        for start, piece in self._pieces:
            done = 0
            while done < len(piece):
                done += os.pwrite(descriptor, piece[done:], start + done)

    def _place(self, raw: memoryview) -> tuple[int, int]:
        # Pieces are kept alive, so equal addresses mean the same memory.
        name = (np.frombuffer(raw, np.uint8).ctypes.data, len(raw))
        if name not in self._known:
            self._known[name] = (self.size, self.size + len(raw))
            self._pieces.append((self.size, raw))
            self.size += -(-len(raw) // ALIGNMENT) * ALIGNMENT
        return self._known[name]


def dumps_of(by_value: bool) -> Dumps:
    """pickle, or cloudpickle, whose streams contain the code of classes that cannot be imported."""
    if not by_value:
        return pickle.dumps
    try:
        import cloudpickle
    except ImportError as error:
        raise ImportError("by_value=True requires cloudpickle: pip install cloudpickle.") from error
    dumps: Dumps = cloudpickle.dumps
    return dumps


class Segment:
    """Memory that other processes can map while its descriptor is open; existing mappings stay valid.

    Parameters
    ----------
    size : int
        Size in bytes.
    """

    __slots__ = ("__weakref__", "descriptor", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = _descriptor()
        os.ftruncate(self.descriptor, size)

    @classmethod
    def of(cls, packer: Packer) -> Segment:
        """A segment with the packed objects."""
        segment = cls(packer.size)
        try:
            packer.write(segment.descriptor)
        except BaseException:
            segment.close()
            raise
        return segment

    def view(self) -> memoryview:
        """Map the segment read-only."""
        return mapped(self.descriptor, self.size)

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def mapped(descriptor: int, size: int, access: int = mmap.ACCESS_READ) -> memoryview:
    """Map a segment; the mapping lives as long as the last array in it.

    With ``mmap.ACCESS_COPY`` arrays keep their writeable flags, and writes are private to this process.
    """
    return memoryview(mmap.mmap(descriptor, size, access=access))


def _descriptor() -> int:
    if hasattr(os, "memfd_create"):  # /dev/shm is small in containers
        return os.memfd_create("maxmargin", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
