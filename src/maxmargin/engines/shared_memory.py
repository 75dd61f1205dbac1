"""Large arrays in memory shared by processes, instead of a copy in each process and in the pipe.

Pickle protocol 5 separates the large buffers of an object. They are written one after another to a segment:
memory with a file descriptor but no name. A process that receives the descriptor maps it. Nothing has to be
cleaned up: the memory is freed when no process has the segment open or mapped, however the processes ended.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.core.engine import Handle, pickling_in_memory
from maxmargin.engines.host import IMPORTABLE

#: minimum bytes of a buffer to use a segment; Windows cannot send descriptors, so it uses pipes only
LARGE = 1 << 15 if sys.platform != "win32" else sys.maxsize
#: buffers are aligned to the size of a cache line
ALIGNMENT = 64
#: a pickler, called as ``dumps(thing, buffer_callback=...)``
Dumps = Callable[..., bytes]


class Packed(NamedTuple):
    """A pickled object: its stream, and the positions of its large buffers in a segment."""

    stream: bytes
    spans: tuple[tuple[int, int], ...]

    def unpack(self, segment: memoryview) -> Any:
        """The object; its large buffers stay in the mapped segment."""
        return pickle.loads(self.stream, buffers=(segment[lo:hi] for lo, hi in self.spans))


class SharedSegment:
    """Memory that other processes can map. It is closed with the last reference; mappings stay valid.

    Parameters
    ----------
    descriptor : int, optional
        Of a segment of another process; by default the segment is new.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.size = 0
        self.descriptor = _new_descriptor() if descriptor is None else descriptor

    def view(self) -> memoryview:
        """Map the segment, as long as the last array in it lives.

        Pages are private: arrays keep their writeable flags, and so their type in compiled code.
        """
        return memoryview(mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY))

    def pack(self, things: Iterable[object], dumps: Dumps) -> list[Packed]:
        """Pickle objects; memory that several of them use is stored once."""
        # Pieces are kept alive, so equal addresses mean the same memory.
        known: dict[tuple[int, int], tuple[memoryview, tuple[int, int]]] = {}

        def packed(thing: object) -> Packed:
            spans: list[tuple[int, int]] = []

            def stays(buffer: pickle.PickleBuffer) -> bool:
                raw = buffer.raw()
                if raw.nbytes < LARGE:
                    return True
                name = (np.frombuffer(raw, np.uint8).ctypes.data, len(raw))
                if name not in known:
                    known[name] = raw, self._write(raw)
                spans.append(known[name][1])
                return False

            return Packed(dumps(thing, buffer_callback=stays), tuple(spans))

        return [packed(thing) for thing in things]

    def _write(self, raw: memoryview) -> tuple[int, int]:
        start, done = self.size, 0
        while done < len(raw):
            done += os.pwrite(self.descriptor, raw[done:], start + done)
        self.size += -(-len(raw) // ALIGNMENT) * ALIGNMENT
        return start, start + len(raw)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


@dataclass(frozen=True, slots=True, eq=False)
class Published(Handle):
    """Handle of a large snapshot in a segment of its own, to which nothing else is ever written: everyone can
    keep references to the array."""

    packed: Packed
    segment: SharedSegment

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Published:
        """Take a snapshot."""
        # a contiguous plain array: pickle separates the buffer of no other
        whole = np.asarray(array) if array.flags.forc else np.array(array, order="C")
        segment = SharedSegment()
        (packed,) = segment.pack([whole], pickler(by_value=False))
        snapshot = packed.unpack(segment.view())
        snapshot.setflags(write=False)
        return cls(snapshot, packed, segment)


def pickler(by_value: bool) -> Dumps:
    """pickle, or cloudpickle, whose streams contain the code of classes that cannot be imported."""
    dumps: Dumps = importlib.import_module("cloudpickle" if by_value else "pickle").dumps

    def noted(thing: object, **options: Any) -> bytes:
        try:
            with pickling_in_memory():
                return dumps(thing, protocol=5, **options)
        except Exception as error:
            error.add_note(f"raised while pickling for another process. {IMPORTABLE}")
            raise

    return noted


def _new_descriptor() -> int:
    if hasattr(os, "memfd_create"):  # /dev/shm is small in containers
        return os.memfd_create("maxmargin", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
