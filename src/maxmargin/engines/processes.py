"""Shards in processes of their own, for shards whose work is Python code: an argmax of the user's.

Shard k lives in worker k mod n_workers for good, built there from the pickled factory and its spec. A worker
is a fresh interpreter ("spawn") at the end of a pipe that answers one call at a time. One that dies is
started anew, its shards rebuilt and the call repeated, a few times; one that is busy when a call is broken
off (Ctrl-C, a lost worker) is ended and started anew with the next call, for nobody knows how long its
answer takes.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import pickle
import signal
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.engine import Handle, SerialEngine

#: deaths of one worker during one call after which the call is given up
MAX_DEATHS = 3
#: published arrays a worker remembers
MAX_ARRAYS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Published(Handle):
    """A snapshot with a number: sent to each worker once."""

    number: int


@dataclass(frozen=True, slots=True)
class _Reference:
    """A published array in a message: the worker has it, or finds it here."""

    number: int
    array: npt.NDArray[Any] | None


class ProcessEngine(SerialEngine):
    """Shards in processes of their own, which run Python code at the same time.

    Factory, specs and answers are pickled: classes must be importable (not defined in a notebook), and a
    script must start its work under ``if __name__ == "__main__":``.

    Parameters
    ----------
    n_workers : int
        Number of processes.
    prepare : callable, optional
        Called once in every worker, before the shards are built.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import ProcessEngine
    >>> engine = ProcessEngine(2).open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce("sum"))
    6.0
    >>> engine.close()
    """

    durable = False

    def __init__(self, n_workers: int, prepare: Callable[[], object] | None = None) -> None:
        super().__init__()
        if n_workers < 1:
            raise ValueError(f"n_workers={n_workers}: at least one worker is needed.")
        self.n_workers = n_workers
        self._prepare = prepare
        self._workers: list[_Worker] = []
        self._numbers = itertools.count()

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build the shards in the workers, which are started if they do not run."""
        n = min(self.n_workers, len(specs))
        for worker in self._workers[n:]:
            worker.end()
        self._workers = self._workers[:n]
        self._workers += [_Worker(k, n) for k in range(len(self._workers), n)]
        self._shards = list(specs)  # here a shard is known by its spec only
        try:
            for k, worker in enumerate(self._workers):
                worker.load(_pickled((self._prepare, factory, list(enumerate(specs))[k::n])))
            self._run([(worker, None) for worker in self._workers])
        except BaseException:
            self.close()
            raise
        return self

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """A read-only copy with a number."""
        return _Published(super().publish(array).array, next(self._numbers))

    def _map(self, method: str, args: tuple[Any, ...]) -> Iterator[Any]:
        answers = self._run([(worker, (method, args)) for worker in self._workers])
        for index in range(len(self._shards)):
            yield answers[index]

    def _run(self, calls: list[tuple[_Worker, Any]]) -> dict[int, Any]:
        """Put all questions, collect the answers by shard; the first failing shard's error is raised."""
        try:
            for worker, call in calls:
                worker.ask(call)
            busy: dict[Any, _Worker] = {worker.pipe: worker for worker, _ in calls}
            answers: dict[int, Any] = {}
            errors: dict[int, Exception] = {}
            while busy:
                for pipe in wait(list(busy)):
                    worker = busy.pop(pipe)
                    found = worker.answer()
                    if found is None:  # it died, and was asked anew
                        busy[worker.pipe] = worker
                        continue
                    answers.update(found[0])
                    errors.update(found[1])
        finally:
            for worker in self._workers:
                worker.end_if_busy()
        if errors:
            raise errors[min(errors)]
        return answers

    def close(self) -> None:
        """Forget the shards and end the processes."""
        super().close()
        for worker in self._workers:
            worker.end()
        self._workers = []


class _Worker:
    """The near end of a process."""

    def __init__(self, number: int, n_workers: int) -> None:
        self._number, self._n_workers = number, n_workers
        self._recipe, self._loaded = b"", False
        self._process: Any = None
        self._call: Any = None
        self._busy, self._deaths = False, 0
        self._sent: OrderedDict[int, None] = OrderedDict()
        self.pipe: Any = None

    def load(self, recipe: bytes) -> None:
        """What its shards are made of, from the next question on."""
        self._recipe, self._loaded = recipe, False

    def ask(self, call: Any) -> None:
        """Put a question (None: only build the shards)."""
        self._call, self._deaths = call, 0
        self._put()

    def _put(self) -> None:
        if self._process is None or not self._process.is_alive():
            self._start()
        self._busy = True
        message = _pickled((None if self._loaded else self._recipe, self._packed_call()))
        self._loaded = True
        # if it has died the end of the pipe says so to whoever waits for the answer
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(message)

    def _start(self) -> None:
        self.end()
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self._sent.clear()
        self._loaded = False
        self._process = context.Process(target=_serve, args=(far,), daemon=True)
        self._process.start()
        far.close()

    def _packed_call(self) -> Any:
        if self._call is None:
            return None
        method, args = self._call
        return method, tuple(self._packed(a) for a in args)

    def _packed(self, argument: Any) -> Any:
        if not isinstance(argument, Handle):
            return argument
        number = argument.number if isinstance(argument, _Published) else -1
        known = number in self._sent
        if number >= 0 and not known:
            self._sent[number] = None
            if len(self._sent) > MAX_ARRAYS:
                self._sent.popitem(last=False)
        return _Reference(number, None if known else argument.array)

    def answer(self) -> tuple[dict[int, Any], dict[int, Exception]] | None:
        """What came back, by shard: answers and errors. None if the process died and was asked anew."""
        try:
            found: tuple[dict[int, Any], dict[int, Exception]] = pickle.loads(
                self.pipe.recv_bytes()
            )
        except (EOFError, ConnectionResetError):
            self._deaths += 1
            self.end()
            if self._deaths >= MAX_DEATHS:
                raise RuntimeError(
                    f"worker {self._number} of {self._n_workers} ended {self._deaths} times without "
                    "an answer (killed, out of memory, or a crash in compiled code); its shards were "
                    "rebuilt each time. If it ends at once: a script must start its work under "
                    "if __name__ == '__main__'."
                ) from None
            self._put()
            return None
        self._busy = False
        return found

    def end_if_busy(self) -> None:
        if self._busy:
            self.end()

    def end(self) -> None:
        """End the process, whatever it does."""
        process, self._process, self._busy = self._process, None, False
        if process is not None:
            self.pipe.close()
            process.kill()
            process.join()
            process.close()


# -- what runs in a worker -------------------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear
    arrays: OrderedDict[int, Any] = OrderedDict()
    shards: dict[int, Any] = {}
    failed: dict[int, Exception] = {}
    try:
        while True:
            recipe, message = pickle.loads(pipe.recv_bytes())
            if recipe is not None:
                shards, failed = {}, {}  # first let go of the old ones
                shards, failed = _build(recipe)
            answers: dict[int, Any] = {}
            errors = dict(failed)
            if message is not None and not failed:
                method, packed = message
                args = tuple(_unpacked(a, arrays) for a in packed)
                for index, shard in shards.items():
                    try:
                        answers[index] = getattr(shard, method)(*args)
                    except Exception as error:
                        error.add_note(f"raised by {method!r} in shard {index}")
                        errors[index] = _sendable(error)
                        break
            pipe.send_bytes(_reply(answers, errors))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def _build(recipe: bytes) -> tuple[dict[int, Any], dict[int, Exception]]:
    """The shards, or the error of the first that could not be built."""
    shards: dict[int, Any] = {}
    index = 0
    try:
        prepare, factory, specs = pickle.loads(recipe)
        if prepare is not None:
            prepare()
        for index, spec in specs:
            shards[index] = factory(spec)
    except Exception as error:
        error.add_note(
            f"raised while building shard {index} in a process of its own. (What a shard is made of must be "
            "importable there: define classes in a module, not in a notebook or an interactive session.)"
        )
        return {}, {index: _sendable(error)}
    return shards, {}


def _unpacked(argument: Any, arrays: OrderedDict[int, Any]) -> Any:
    if not isinstance(argument, _Reference):
        return argument
    array = argument.array
    if array is None:
        return arrays[argument.number]
    array = np.asarray(array)
    array.setflags(write=False)
    if argument.number >= 0:
        arrays[argument.number] = array
        if len(arrays) > MAX_ARRAYS:
            arrays.popitem(last=False)
    return array


def _reply(answers: dict[int, Any], errors: dict[int, Exception]) -> bytes:
    try:
        return _pickled((answers, errors))
    except Exception as error:
        error.add_note(
            f"an answer of shards {sorted(answers)} cannot be sent to the parent process"
        )
        return _pickled(({}, {min(answers): _sendable(error)}))


def _sendable(error: Exception) -> Exception:
    """The error, or its text where it cannot travel."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            plain.add_note(note)
        return plain
    return error


def _pickled(message: Any) -> bytes:
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
