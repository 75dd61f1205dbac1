"""Objects in memory that processes share, instead of a copy in each and one more in the pipe between them.

Pickle hands out the large buffers of what it pickles (protocol 5). They go one after the other into a
segment: memory with a file descriptor and without a name. A process that is sent the descriptor maps it.
Nothing has to be removed afterwards: the memory is free when no process has the segment open or mapped,
however they ended.
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

#: bytes from which a buffer is worth a segment; Windows cannot send descriptors, there all goes through pipes
LARGE = 1 << 15 if sys.platform != "win32" else sys.maxsize
#: what pickles: called as ``dumps(thing, protocol=5, buffer_callback=...)``
Dumps = Callable[..., bytes]
#: buffers begin at multiples of this, a line of the processor's cache
ALIGNMENT = 64


class Packed(NamedTuple):
    """A pickled object: its stream, and where in the segment its large buffers are.

    A large stream is in the segment itself, at the last of the spans.
    """

    stream: bytes | None
    spans: tuple[tuple[int, int], ...]

    def unpack(self, segment: memoryview, take: Callable[[memoryview], Any] = memoryview) -> Any:
        """The object; its buffers are what ``take`` makes of the pieces of the segment."""
        stream = self.stream
        if stream is None:
            return pickle.loads(segment[slice(*self.spans[-1])], buffers=self._views(segment, take))
        return pickle.loads(stream, buffers=self._views(segment, take))

    def _views(self, segment: memoryview, take: Callable[[memoryview], Any]) -> Any:
        return (take(segment[start:stop]) for start, stop in self.spans)


class Packer:
    """Pickles objects that are to share one segment; memory that several of them use is there once.

    Parameters
    ----------
    start : int, default 0
        Where in the segment to begin.
    dumps : callable, default pickle.dumps
        What pickles.
    """

    def __init__(self, start: int = 0, dumps: Dumps = pickle.dumps) -> None:
        self.size, self._dumps = start, dumps
        self._pieces: list[tuple[int, memoryview]] = []
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def add(self, thing: Any) -> Packed:
        """Pickle an object and find a place for its large buffers."""
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
        # pieces are kept, so no two of them have the same address unless they are the same
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
        raise ImportError(
            "by_value=True pickles with cloudpickle, which is not installed: pip install cloudpickle."
        ) from error
    dumps: Dumps = cloudpickle.dumps
    return dumps


class Segment:
    """Memory that other processes can map while its descriptor is open; what is mapped stays.

    Parameters
    ----------
    size : int
        In bytes.
    """

    __slots__ = ("__weakref__", "descriptor", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = _descriptor()
        os.ftruncate(self.descriptor, size)

    @classmethod
    def of(cls, packer: Packer) -> Segment:
        """A segment with what was packed."""
        segment = cls(packer.size)
        try:
            packer.write(segment.descriptor)
        except BaseException:
            segment.close()
            raise
        return segment

    def view(self) -> memoryview:
        """Map it to look at."""
        return mapped(self.descriptor, self.size)

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def mapped(descriptor: int, size: int, access: int = mmap.ACCESS_READ) -> memoryview:
    """Map a segment; the mapping goes with the last array in it.

    With ``mmap.ACCESS_COPY`` the arrays in it are as they were, read-only or not, and what is written to them
    is seen by nobody else.
    """
    return memoryview(mmap.mmap(descriptor, size, access=access))


def _descriptor() -> int:
    if hasattr(os, "memfd_create"):  # not a file in /dev/shm: containers keep that one small
        return os.memfd_create("maxmargin", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
