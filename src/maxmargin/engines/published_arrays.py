"""Published arrays of the process engine, in segments that its workers map.

Arrays are written one after another, each once and to fresh memory. So the caller and the shards can keep
references to them. A segment is closed when it is full and the last handle of its arrays is gone. Many arrays
share a segment because the number of open file descriptors is limited.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.engine import Handle
from maxmargin.engines.shared_memory import Packed, Packer, Segment
from maxmargin.engines.worker_process import Reference, Snapshot

#: bytes of a shared segment; larger arrays get their own. Unwritten pages use no memory.
ROOM = 1 << 26


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Published(Handle):
    """Handle of a large snapshot: its index on a shelf."""

    number: int
    shelf: Shelf


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    segment: int
    array: Packed
    handle: weakref.ref[Published]


class Shelf:
    """Segments that hold published arrays."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._stored: dict[int, _Stored] = {}
        self._segments: dict[int, Segment] = {}
        self._current = -1
        self._used = 0
        self._view = memoryview(b"")

    @property
    def segments(self) -> Mapping[int, Segment]:
        """The segments by index."""
        return self._segments

    def put(self, array: npt.NDArray[Any]) -> Handle:
        """Take a snapshot."""
        self.sweep()
        number = next(self._numbers)
        segment, packed, snapshot = self._write(array)
        handle = Published(snapshot, number, self)
        self._stored[number] = _Stored(segment, packed, weakref.ref(handle))
        return handle

    def packed(self, argument: Any, used: set[int]) -> Any:
        """An argument in the form in which it is sent; its segment is added to ``used``."""
        if not isinstance(argument, Handle):
            return argument
        if not isinstance(argument, Published) or argument.shelf is not self:
            return Snapshot(argument.array)
        stored = self._stored.get(argument.number)
        if stored is None:  # the engine was closed in the meantime
            segment, packed, _ = self._write(argument.array)
            stored = _Stored(segment, packed, weakref.ref(argument))
            self._stored[argument.number] = stored
        used.add(stored.segment)
        return Reference(stored.segment, stored.array)

    def sweep(self) -> None:
        """Close segments without live handles."""
        self._stored = {n: s for n, s in self._stored.items() if s.handle() is not None}
        alive = {stored.segment for stored in self._stored.values()} | {self._current}
        for number in self._segments.keys() - alive:
            self._segments.pop(number).close()

    def clear(self) -> None:
        """Close all segments; existing handles remain usable."""
        self._stored, self._current = {}, -1
        self._view = memoryview(b"")
        for number in list(self._segments):
            self._segments.pop(number).close()

    def _write(self, array: npt.NDArray[Any]) -> tuple[int, Packed, npt.NDArray[Any]]:
        if not array.flags.forc:
            array = np.array(array, order="C")
        if array.nbytes > ROOM:
            number, start = next(self._numbers), 0
            segment = self._segments[number] = Segment(array.nbytes)
            view = segment.view()
        else:
            number, start, segment, view = self._place(array.nbytes)
        packer = Packer(start)
        packed = packer.add(array)
        packer.write(segment.descriptor)
        if number == self._current:
            self._used = packer.size
        return number, packed, packed.unpack(view)

    def _place(self, size: int) -> tuple[int, int, Segment, memoryview]:
        """Where to write in the shared segment: its index, the first free byte, the segment and its view."""
        if self._current < 0 or self._used + size > ROOM:
            segment = Segment(ROOM)
            self._view = segment.view()
            self._current, self._used = next(self._numbers), 0
            self._segments[self._current] = segment
        return self._current, self._used, self._segments[self._current], self._view
