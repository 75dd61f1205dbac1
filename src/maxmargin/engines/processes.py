"""Engine with shards in worker processes, for shards that run Python code, such as a user's argmax.

A worker holds a contiguous range of shards, which it builds from the pickled factory and specs. It is a fresh
interpreter ("spawn") connected by a pipe and answers one call at a time. If a worker dies, it is restarted,
its shards are rebuilt and the call is repeated, a few times. If a call is aborted (by Ctrl-C or a lost
worker), busy workers are ended and restarted with the next call, because their answers may take arbitrarily
long.

Large data is in memory once, in segments that the workers map (:mod:`maxmargin.engines.shared_memory`):
arrays of the factory and the specs, published arrays, and the results of a worker until they are added up.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Self

import numpy.typing as npt

from maxmargin.core.engine import Handle, R, SerialEngine, shard_method, share
from maxmargin.core.summation import Block, join
from maxmargin.engines.host import raise_first
from maxmargin.engines.ownership import Owner
from maxmargin.engines.published_arrays import Shelf
from maxmargin.engines.shared_memory import LARGE, Packed, Packer, Segment, dumps_of, mapped
from maxmargin.engines.worker_process import Order, Recipe, Reply, pickled, serve

#: deaths of one worker during one call after which the call fails
MAX_DEATHS = 3


class ProcessEngine(SerialEngine):
    """Shards in worker processes, which run Python code in parallel.

    Factory, specs and results are pickled: classes must be importable, unless ``by_value`` is set, and a
    script must start its work under ``if __name__ == "__main__":``. Large arrays are in shared memory: one
    copy besides the caller's, for any number of workers. Each worker uses one BLAS thread.

    Parameters
    ----------
    n_workers : int
        Number of processes.
    prepare : callable, optional
        Called once in every worker, before the shards are built.
    by_value : bool, default False
        Pickle with cloudpickle, which sends classes and functions of a notebook or interactive session by
        value. Estimators set it when necessary if cloudpickle is installed.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import ProcessEngine
    >>> engine = ProcessEngine(2).open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce(np.ndarray.sum))
    6.0
    >>> engine.close()
    """

    durable = False

    def __init__(
        self,
        n_workers: int,
        prepare: Callable[[], object] | None = None,
        *,
        by_value: bool = False,
    ) -> None:
        super().__init__()
        if n_workers < 1:
            raise ValueError(f"n_workers must be at least 1; got {n_workers}.")
        self.n_workers, self._owner = n_workers, Owner()
        self._prepare, self._by_value = prepare, by_value
        self._dumps = dumps_of(by_value)
        self._workers: list[_Worker] = []
        self._segment: Segment | None = None
        self._shelf = Shelf()

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(type(self), by_value=True) if self._by_value else type(self)
        return make, (self.n_workers, self._prepare)

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build the shards in the workers; start the workers if they are not running."""
        self._owner.require_here("ProcessEngine")
        n, n_shards = min(self.n_workers, len(specs)), len(specs)
        try:
            packer, ranges = Packer(dumps=self._dumps), [share(n_shards, n, k) for k in range(n)]
            makers = _packed(packer, (self._prepare, factory))
            own = [_packed(packer, [specs[i] for i in numbers]) for numbers in ranges]
            self._let_go(n)
            self._segment = Segment.of(packer)
            for k, worker in enumerate(self._workers):
                recipe = Recipe((k, n, n_shards), makers, own[k], packer.size)
                worker.load(recipe, self._segment)
            answers = [reply.unpack() for reply in self._run(b"", set())]
        except BaseException:
            self.close()
            raise
        raise_first(answers)
        self._shards = list(range(n_shards))  # shards are identified by index only
        return self

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """Take a snapshot. Large arrays are stored in a segment; small ones are sent with each call."""
        if array.nbytes < LARGE or array.dtype.hasobject:
            return super().publish(array)
        return self._shelf.put(array)

    def reduce(self, method: Callable[..., R], *args: Any) -> R:
        """Sum of the results of all shards, partly added up by the workers."""
        replies = self._call_all("reduced", shard_method(method), args)
        views = [reply.view() for reply in replies]
        total: R = _sum(replies, views)
        if all(_is_free(view) for view in views):
            return total
        # A part of the sum still references a segment: copy it before the segment is reused.
        again: R = _sum(replies, [None] * len(replies))
        return again

    def gather(self, method: Callable[..., R], *args: Any) -> list[R]:
        """Results of all shards."""
        answers = [
            reply.unpack() for reply in self._call_all("gathered", shard_method(method), args)
        ]
        raise_first(answers)
        return [part for own in answers for part in own]

    def close(self) -> None:
        """Release the shards and end the processes."""
        super().close()
        if self._owner.here:  # in a forked process the workers belong to the parent
            self._let_go(0)
            self._shelf.clear()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # partly initialized, or the interpreter is exiting
            self.close()

    def _let_go(self, n: int) -> None:
        """Release the shards, keep n workers."""
        self._shards = []
        for worker in self._workers[n:]:
            worker.end()
        self._workers = self._workers[:n]
        self._workers += [_Worker(self._by_value) for _ in range(len(self._workers), n)]
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _call_all(self, kind: str, method: str, args: tuple[Any, ...]) -> list[_Received]:
        self._owner.require_here("ProcessEngine")
        self._require_shards()
        self._shelf.sweep()
        used: set[int] = set()
        packed = tuple(self._shelf.packed(a, used) for a in args)
        return self._run(self._dumps((kind, method, packed), protocol=5), used)

    def _run(self, call: bytes, used: set[int]) -> list[_Received]:
        """Send an order to all workers, with an optional call; return their replies in order."""
        received: dict[_Worker, _Received] = {}
        try:
            for worker in self._workers:
                worker.ask(call, {n: self._shelf.segments[n] for n in used}, self._shelf.segments)
            busy: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
            while busy:
                for pipe in wait(list(busy)):
                    worker = busy.pop(pipe)
                    found = worker.answer()
                    if found is None:  # it died, and the call was repeated
                        busy[worker.pipe] = worker
                    else:
                        received[worker] = found
        finally:
            for worker in self._workers:
                worker.end_if_busy()
        return [received[worker] for worker in self._workers]


def _packed(packer: Packer, thing: Any) -> Packed:
    try:
        return packer.add(thing)
    except Exception as error:
        error.add_note(
            "raised while pickling shards for worker processes: define classes and functions in a module, or "
            "pickle them by value with ProcessEngine(..., by_value=True), which requires cloudpickle"
        )
        raise


class _Worker:
    """The parent's side of a worker process."""

    def __init__(self, by_value: bool) -> None:
        self._by_value = by_value
        self._recipe: Recipe | None = None
        self._segment: Segment | None = None
        self._loaded = False
        self._call = b""
        self._used: Mapping[int, Segment] = {}  # segments referenced by the call
        self._process: Any = None
        self._busy, self._deaths = False, 0
        self._known: set[int] = set()  # segments that the worker has
        self._outbox = -1  # the worker's segment for large results
        self.pipe: Any = None

    def load(self, recipe: Recipe, segment: Segment) -> None:
        """Set the shards to be built with the next order."""
        self._recipe, self._segment, self._loaded = recipe, segment, False

    def ask(self, call: bytes, used: Mapping[int, Segment], alive: Mapping[int, Segment]) -> None:
        """Send a call (if empty, only build the shards), and drop segments that are closed."""
        self.end_if_busy()  # a second Ctrl-C may have left an outdated answer
        self._call, self._used, self._deaths = call, used, 0
        self._put(tuple(self._known - alive.keys()))

    def _put(self, forget: tuple[int, ...] = ()) -> None:
        if self._process is None or not self._process.is_alive():
            self._start()
            forget = ()
        recipe, descriptors = None, []
        if not self._loaded and self._recipe is not None and self._segment is not None:
            recipe = self._recipe
            descriptors += [self._segment.descriptor] if recipe.size else []
        new = {n: segment for n, segment in self._used.items() if n not in self._known}
        descriptors += [segment.descriptor for segment in new.values()]
        sizes = tuple((n, segment.size) for n, segment in new.items())
        self._busy, self._loaded = True, True
        self._known = (self._known | new.keys()) - set(forget)
        # If the worker has died, reading its answer reports the end of the pipe.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(pickled(Order(recipe, sizes, forget, self._call)))
            for descriptor in descriptors:
                send_handle(self.pipe, descriptor, self._process.pid)

    def _start(self) -> None:
        self.end()
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self._known, self._loaded = set(), False
        self._process = context.Process(target=serve, args=(far, self._by_value), daemon=True)
        self._process.start()
        far.close()

    def answer(self) -> _Received | None:
        """The worker's reply. None if the process died and the call was repeated."""
        try:
            reply: Reply = pickle.loads(self.pipe.recv_bytes())
            if reply.new:
                self._forget_outbox()
                self._outbox = recv_handle(self.pipe)
        except (EOFError, OSError):
            self._deaths += 1
            self.end()
            if self._deaths >= MAX_DEATHS:
                raise self._given_up() from None
            self._put()
            return None
        self._busy = False
        return _Received(reply.answer, self._outbox, reply.room)

    def _given_up(self) -> RuntimeError:
        assert self._recipe is not None
        worker, n_workers, n_shards = self._recipe.place
        own = share(n_shards, n_workers, worker)
        return RuntimeError(
            f"worker {worker} of {n_workers} (shards {own.start} to {own.stop - 1}) ended {self._deaths} "
            "times without a result (killed, out of memory, or a crash in compiled code); its shards were "
            "rebuilt each time. If it ends immediately: a script must start its work under "
            "if __name__ == '__main__'."
        )

    def end_if_busy(self) -> None:
        if self._busy:
            self.end()

    def end(self) -> None:
        """End the process, even if it is busy."""
        process, self._process, self._busy = self._process, None, False
        self._forget_outbox()
        if process is not None:
            self.pipe.close()
            if process.pid is not None:  # it was started
                process.kill()
                process.join()
            process.close()

    def _forget_outbox(self) -> None:
        descriptor, self._outbox = self._outbox, -1
        if descriptor >= 0:
            os.close(descriptor)


# -- answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Received:
    """A worker's result; its large buffers are in the worker's segment until the next call."""

    answer: Packed
    outbox: int
    room: int

    def view(self) -> memoryview | None:
        """The segment, if it holds a part of the result."""
        return mapped(self.outbox, self.room) if self.answer.spans else None

    def unpack(self, view: memoryview | None = None) -> Any:
        """The result; its large arrays are in ``view``, or copied if it is None."""
        if view is not None:
            return self.answer.unpack(view)
        return self.answer.unpack(self.view() or memoryview(b""), bytearray)


def _sum(replies: list[_Received], views: Sequence[memoryview | None]) -> Any:
    answers = [reply.unpack(view) for reply, view in zip(replies, views, strict=True)]
    raise_first(answers)
    blocks: list[Block] = [block for own in answers for block in own]
    return join(blocks)


def _is_free(view: memoryview | None) -> bool:
    """Whether no object references the segment of the view."""
    if view is not None:
        mapping: Any = view.obj
        view.release()
        try:
            mapping.close()
        except BufferError:
            return False
    return True
