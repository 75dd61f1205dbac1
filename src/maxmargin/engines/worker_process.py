"""Code that runs in a worker of the process engine.

A message is a recipe of shards, or a pickled call, which is answered. The descriptors of the segments with
its large arrays follow.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import Any, NamedTuple

from maxmargin.core.engine import Handle, share
from maxmargin.engines.host import Host, failure
from maxmargin.engines.shared_memory import Dumps, Packed, SharedSegment, pickler


class Recipe(NamedTuple):
    """Factory and specs of a worker's shards, in one segment."""

    place: tuple[int, int, int]  # worker, workers, shards
    makers: Packed  # prepare and factory
    specs: Packed


def serve(pipe: Connection, by_value: bool = False) -> None:
    """Process messages until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    dumps, host = pickler(by_value), Host()
    try:
        while True:
            message, n_segments = pickle.loads(pipe.recv_bytes())
            views = [SharedSegment(recv_handle(pipe)).view() for _ in range(n_segments)]
            if isinstance(message, Recipe):
                _build(host, message, *views)
            else:
                pipe.send_bytes(_reply(_answer(host, message, views), dumps))
            del message, views
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # stop at once: nobody waits for the result


def _build(host: Host, recipe: Recipe, view: memoryview | None = None) -> None:
    view = view or memoryview(b"")  # no segment: all is small
    worker, n_workers, n_shards = recipe.place
    numbers = share(n_shards, n_workers, worker)
    host.build(
        numbers, n_shards, lambda: recipe.makers.unpack(view), lambda: recipe.specs.unpack(view)
    )


def _answer(host: Host, call: bytes, views: list[memoryview]) -> Any:
    """Call all shards; large published arrays are in ``views``, in the order of the arguments."""
    if not call:
        return host.failed
    try:
        kind, method, sent = pickle.loads(call)
    except Exception as error:
        error.add_note("raised while unpickling the arguments of a call in a worker process")
        return failure(error)
    view = iter(views)
    args = tuple(Handle(a.unpack(next(view))) if isinstance(a, Packed) else a for a in sent)
    return getattr(host, kind)(method, args)


def _reply(answer: object, dumps: Dumps) -> bytes:
    try:
        return dumps(answer)
    except Exception as error:
        return dumps(failure(error))
