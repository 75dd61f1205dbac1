"""Engine with shards in worker processes, for shards that run Python code, such as a user's argmax.

A worker holds a contiguous range of shards, which it builds from the pickled factory and specs. It is a fresh
interpreter ("spawn") connected by a pipe and answers one call at a time, with pickled results. If a worker
dies, or is stopped for some seconds (SIGSTOP), it is restarted, its shards are rebuilt and the call is
repeated, a few times. If a call is aborted (by Ctrl-C or a lost worker), busy workers are ended and restarted
with the next call, because their answers may take arbitrarily long.

Large arrays of the factory, the specs and the calls are in memory once, in segments that the workers map
(:mod:`maxmargin.engines.shared_memory`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from multiprocessing.reduction import send_handle
from typing import Any, Self

import numpy.typing as npt

from maxmargin.core.engine import Handle, R, SerialEngine, Traffic, shard_method, share
from maxmargin.core.summation import join
from maxmargin.engines.host import LOG, raise_first
from maxmargin.engines.ownership import Owner
from maxmargin.engines.shared_memory import LARGE, Published, SharedSegment, pickler
from maxmargin.engines.worker_process import Recipe, serve
from maxmargin.files.writers import state

#: deaths of one worker during one call after which the call fails
MAX_DEATHS = 3
#: seconds between looks at a worker that has not answered, and how many of them in a row may find it stopped:
#: Ctrl-Z stops all processes of a terminal, which go on together
LOOK, LOOKS = 1.0, 10
_GIVEN_UP = (
    "ended {} times without a result (killed, out of memory, or a crash in compiled code); its shards were "
    "rebuilt each time. If it ends immediately: a script must start its work under if __name__ == '__main__'."
)


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
        self._dumps = pickler(by_value)
        self._workers: list[_WorkerProcess] = []
        #: see :class:`maxmargin.core.engine.SerialEngine`; what workers map is not sent
        self.traffic: Traffic = Traffic()

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(type(self), by_value=True) if self._by_value else type(self)
        return make, (self.n_workers, self._prepare)

    def open(self, factory: Callable[[Any], Any], specs: Sequence[object]) -> Self:
        """Build the shards in the workers; start the workers if they are not running."""
        self._owner.require_here("ProcessEngine")
        n, n_shards = min(self.n_workers, len(specs)), len(specs)
        try:
            segment = SharedSegment()
            own = ([specs[i] for i in share(n_shards, n, k)] for k in range(n))
            makers, *packed = segment.pack([(self._prepare, factory), *own], self._dumps)
            self._keep_workers(n)
            for k, worker in enumerate(self._workers):
                worker.load(Recipe((k, n, n_shards), makers, packed[k]), segment)
            self._run(b"", ())
        except BaseException:
            self.close()
            raise
        self._shards = list(range(n_shards))  # shards are identified by index only
        return self

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """Take a snapshot. Large arrays are in shared memory; small ones are sent with each call."""
        if array.nbytes < LARGE or array.dtype.hasobject:
            return super().publish(array)
        return Published.of(array)

    def reduce(self, method: Callable[..., R], *args: object) -> R:
        """Sum of the results of all shards, partly added up by the workers."""
        total: R = join(self._call_all("reduced", shard_method(method), args))
        return total

    def gather(self, method: Callable[..., R], *args: object) -> list[R]:
        """Results of all shards."""
        return list(self._call_all("gathered", shard_method(method), args))

    def close(self) -> None:
        """Release the shards and end the processes."""
        super().close()
        if self._owner.here:  # in a forked process the workers belong to the parent
            self._keep_workers(0)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # partly initialized, or the interpreter is exiting
            self.close()

    def _keep_workers(self, n: int) -> None:
        """Release the shards, and have n workers."""
        self._shards = []
        for worker in self._workers[n:]:
            worker.end()
        self._workers = self._workers[:n]
        self._workers += [_WorkerProcess(self._by_value) for _ in range(len(self._workers), n)]

    def _call_all(self, kind: str, method: str, args: tuple[object, ...]) -> Iterable[Any]:
        self._owner.require_here("ProcessEngine")
        self._require_shards()
        segments = [a.segment for a in args if isinstance(a, Published)]
        sent = tuple(a.packed if isinstance(a, Published) else a for a in args)
        call = self._dumps((kind, method, sent))
        return chain.from_iterable(self._run(call, segments))

    def _run(self, call: bytes, segments: Sequence[SharedSegment]) -> list[Any]:
        """Call all workers; return their results in order, or raise the error of the first failing shard."""
        began, traffic = time.perf_counter(), self.traffic
        try:
            for worker in self._workers:
                worker.ask(call, segments)
            streams = [worker.answer() for worker in self._workers]
        finally:
            for worker in self._workers:
                worker.end_if_busy()
        answers = [pickle.loads(stream) for stream in streams]
        traffic.rounds += 1
        traffic.seconds += time.perf_counter() - began
        traffic.sent += len(call) * len(streams)
        traffic.received += sum(map(len, streams))
        raise_first(answers)
        return answers


class _WorkerProcess:
    """The parent's side of a worker."""

    def __init__(self, by_value: bool) -> None:
        self._by_value = by_value
        self._recipe: tuple[Any, Sequence[SharedSegment]] = None, ()
        self._call: tuple[bytes, Sequence[SharedSegment]] = b"", ()
        self._process: Any = None
        self._busy, self._deaths = False, 0
        self.pipe: Any = None

    def load(self, recipe: Recipe, segment: SharedSegment) -> None:
        """Build shards."""
        self.end_if_busy()  # a second Ctrl-C may have left an outdated answer
        self._recipe = recipe, [segment] if segment.size else []
        if self._process is not None:
            self._send(*self._recipe)
            self._busy = False

    def ask(self, call: bytes, segments: Sequence[SharedSegment]) -> None:
        """Send a call; an empty one asks whether the shards were built."""
        self.end_if_busy()
        self._call, self._deaths = (call, segments), 0
        self._put()

    def _put(self) -> None:
        if self._process is None or not self._process.is_alive():
            self._start()
        self._send(*self._call)

    def _send(self, message: Recipe | bytes, segments: Sequence[SharedSegment]) -> None:
        self._busy = True
        # If the worker has died, reading its answer reports the end of the pipe.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(pickle.dumps((message, len(segments)), protocol=5))
            for segment in segments:
                send_handle(self.pipe, segment.descriptor, self._process.pid)

    def _start(self) -> None:
        self.end()
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self._process = context.Process(target=serve, args=(far, self._by_value), daemon=True)
        self._process.start()
        far.close()
        self._send(*self._recipe)

    def answer(self) -> bytes:
        """The worker's pickled result. If the process dies or is stopped, it is restarted and the call is
        repeated."""
        while True:
            how = "ended"
            try:
                if self._stays_stopped():
                    how = "was stopped by a signal"
                    raise EOFError
                stream: bytes = self.pipe.recv_bytes()
            except (EOFError, OSError):
                self._deaths += 1
                worker, n_workers, _ = self._recipe[0].place
                LOG.warning(
                    "worker %d of %d (process %d) %s during a call (%d of at most %d times): its shards "
                    "are rebuilt, and the call is repeated",
                    worker, n_workers, self._process.pid, how, self._deaths, MAX_DEATHS,
                )  # fmt: skip
                self.end()
                if self._deaths >= MAX_DEATHS:
                    raise RuntimeError(
                        f"worker {worker} of {n_workers} {_GIVEN_UP.format(self._deaths)}"
                    ) from None
                self._put()
            else:
                self._busy, self._call = False, (b"", ())
                return stream

    def _stays_stopped(self) -> bool:
        """Wait for an answer or the end of the process. True if the process is stopped and does not go on."""
        looks = 0
        while not self.pipe.poll(LOOK):
            looks = looks + 1 if state(self._process.pid) == "T" else 0
            if looks >= LOOKS:
                return True
        return False

    def end_if_busy(self) -> None:
        if self._busy:
            self.end()

    def end(self) -> None:
        """End the process, even if it is busy."""
        process, self._process, self._busy = self._process, None, False
        if process is not None:
            self.pipe.close()
            if process.pid is not None:  # it was started
                process.kill()
                process.join()
            process.close()
