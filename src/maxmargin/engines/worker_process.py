"""Code that runs in a worker of the process engine, and the messages it receives."""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

import numpy.typing as npt

from maxmargin.engines.host import IMPORTABLE, Failure, Host, failure, one_blas_thread
from maxmargin.engines.shared_memory import Dumps, Packed, Packer, Segment, dumps_of, mapped


class Recipe(NamedTuple):
    """Factory and specs of a worker's shards, in a segment (or inline if small: ``size`` 0)."""

    place: tuple[int, int, int]  # worker, workers, shards
    makers: Packed  # prepare and factory
    specs: Packed
    size: int


class Order(NamedTuple):
    """A message to a worker, followed by descriptors: of the recipe's segment, then of new segments."""

    recipe: Recipe | None
    new: tuple[tuple[int, int], ...]  # segments with published arrays: index and size
    forget: tuple[int, ...]
    call: bytes  # pickled (name of a method of Host, method, arguments), or empty


class Reference(NamedTuple):
    """Placeholder in a call for a published array in one of the worker's segments."""

    segment: int
    array: Packed


class Snapshot(NamedTuple):
    """A small published array, sent with a call."""

    array: npt.NDArray[Any]


class Reply(NamedTuple):
    """A result; its large buffers are in the worker's segment of ``room`` bytes.

    The descriptor of a new segment follows.
    """

    answer: Packed
    room: int
    new: bool


def serve(pipe: Connection, by_value: bool = False) -> None:
    """Process orders until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = _Worker(pipe, dumps_of(by_value))
    try:
        while True:
            worker.reply(worker.obey(pickle.loads(pipe.recv_bytes())))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # stop at once: nobody waits for the result


class _Worker:
    """A worker's shards, its mapped segments, and its own segment for large results."""

    def __init__(self, pipe: Connection, dumps: Dumps) -> None:
        self._pipe, self._dumps = pipe, dumps
        self._host: Host | None = None
        self._failure: Failure | None = None
        self._segments: dict[int, memoryview] = {}
        self._outbox: Segment | None = None

    def obey(self, order: Order) -> Any:
        """Receive the segments of an order and execute it."""
        for number in order.forget:
            del self._segments[number]
        if order.recipe is not None:
            self._host = None  # release the old shards first
            size = order.recipe.size
            # Private pages: arrays keep their writeable flags, and so their type in compiled code.
            view = self._receive(size, mmap.ACCESS_COPY) if size else memoryview(b"")
            self._failure = self._build(order.recipe, view)
        for number, size in order.new:
            self._segments[number] = self._receive(size, mmap.ACCESS_READ)
        if self._failure is not None or not order.call:
            return self._failure
        return self._answer(order.call)

    def reply(self, answer: Any) -> None:
        """Send a result."""
        packer = Packer(dumps=self._dumps)
        try:
            packed = packer.add(answer)
        except Exception as error:
            error.add_note("raised while pickling a result, to send it to the parent process")
            packed = packer.add(failure(error))
        new = packer.size > 0 and (self._outbox is None or self._outbox.size < packer.size)
        if new:
            if self._outbox is not None:
                self._outbox.close()
            self._outbox = Segment(packer.size)
        room = 0
        if self._outbox is not None:
            room = self._outbox.size
            packer.write(self._outbox.descriptor)
        self._pipe.send_bytes(pickled(Reply(packed, room, new)))
        if new and self._outbox is not None:
            send_handle(self._pipe, self._outbox.descriptor, os.getppid())

    def _receive(self, size: int, access: int) -> memoryview:
        descriptor = recv_handle(self._pipe)
        try:
            return mapped(descriptor, size, access)
        finally:
            os.close(descriptor)

    def _build(self, recipe: Recipe, view: memoryview) -> Failure | None:
        host = Host(*recipe.place)
        try:
            prepare, factory = recipe.makers.unpack(view)
            one_blas_thread()
            if prepare is not None:
                prepare()
            specs = recipe.specs.unpack(view)
        except Exception as error:
            error.add_note(f"raised before {host.first} could be built, in a worker process")
            error.add_note(IMPORTABLE)
            return failure(error)
        self._host = host
        return host.build(factory, specs)

    def _answer(self, call: bytes) -> Any:
        assert self._host is not None
        try:
            kind, method, packed = pickle.loads(call)
        except Exception as error:
            error.add_note("raised while unpickling the arguments of a call in a worker process")
            return failure(error)
        args = tuple(self._argument(a) for a in packed)
        return getattr(self._host, kind)(method, args)

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, Reference):
            return argument.array.unpack(self._segments[argument.segment])
        if isinstance(argument, Snapshot):
            argument.array.setflags(write=False)
            return argument.array
        return argument


def pickled(message: Any) -> bytes:
    """Pickle a message for processes of the same program."""
    return pickle.dumps(message, protocol=5)
