"""The engine protocol (where shards run) and the serial engine. An engine does not depend on SVMs.

A shard is any object, built where it runs by ``factory(spec)`` from a picklable spec: a path and a
range of rows, or a block of data that the engine places once where workers can read it. An engine
calls a method on all shards and sums the results in a fixed order
(:func:`maxmargin.core.summation.tree_sum`), so results are bit-identical for any number of workers.

Requirements besides the signatures below:

- Workers host contiguous ranges of shards (:func:`share`), so that each one sums its own results before
  they are sent.
- Specs and the factory are used as they are when ``open`` is called. An engine that is not ``durable`` keeps
  a snapshot, because a rebuilt shard must equal the original. A durable engine may pass them on without a
  copy; then the caller must not change their arrays while the shards exist.
- A shard stays the same object from call to call, until ``open`` or ``close`` is called or its worker fails.
- Published arrays are immutable. They are passed as top-level arguments, and shards receive a read-only
  array.
- Methods of shards are idempotent: a call may be repeated.
- Everything a shard stores between calls is a cache. If the engine is not ``durable``, a worker may fail.
  Then its shards are rebuilt from their specs, with empty caches, and the call is repeated a limited number
  of times. A shard that misses a cached value raises an exception of its own type, and the caller sends the
  value again (see :mod:`maxmargin.risks.lines.evaluation`).
- An engine may also move a shard to another worker between two calls, with the same effect, unless the shard
  has an attribute ``movable`` that is false.
- An exception in a shard is raised once, unchanged, with the shard's index in a note, and never retried.
- Passwords and keys are pickled only inside of :func:`pickling_in_memory`, which an engine uses if what it
  pickles cannot reach a disk. Object stores of clusters write to disk when memory is short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from maxmargin.core.summation import PartialSum, count_sums, fold, join

R = TypeVar("R")

_in_memory: ContextVar[bool] = ContextVar("_in_memory", default=False)


@contextmanager
def pickling_in_memory() -> Iterator[None]:
    """Declare that what is pickled here never reaches a disk: it goes to another process through a pipe."""
    token = _in_memory.set(True)
    try:
        yield
    finally:
        _in_memory.reset(token)


def pickles_stay_in_memory() -> bool:
    """Whether passwords and keys may be pickled now; see :func:`pickling_in_memory`."""
    return _in_memory.get()


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """An immutable snapshot of an array, sent to the workers once."""

    array: npt.NDArray[Any]


class Engine(Protocol):
    """The engine protocol; ``tests/contracts/engine.py`` tests it."""

    @property
    def durable(self) -> bool:
        """Whether shards exist as long as the engine, so that nothing they store is lost."""

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build one shard per spec, replacing any earlier shards."""

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """Return an immutable snapshot that can be passed to shard methods."""

    def reduce(self, method: Callable[..., R], *args: Any) -> R:
        """Call the method on every shard and sum the results in the fixed order."""

    def gather(self, method: Callable[..., R], *args: Any) -> list[R]:
        """Call the method on every shard; return the (small) results in shard order."""

    def close(self) -> None:
        """Release shards and workers."""


@runtime_checkable
class TaskEngine(Protocol):
    """An engine that can also call functions in this process, on arrays that they share."""

    def run(self, function: Callable[[int], object], count: int) -> None:
        """Call ``function(0)`` .. ``function(count - 1)``, in any order and possibly at the same time. Return
        when all calls have ended."""


@dataclass(slots=True)
class Traffic:
    """What an engine and its workers have sent each other so far: rounds of calls, the seconds spent waiting
    for them, and bytes."""

    rounds: int = 0
    seconds: float = 0.0
    sent: int = 0
    received: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What was sent since then."""
        return Traffic(
            self.rounds - before.rounds,
            self.seconds - before.seconds,
            self.sent - before.sent,
            self.received - before.received,
        )


def shard_method(method: Callable[..., Any]) -> str:
    """The name of a shard method that was passed as ``Shard.method``.

    If a shard's class overrides the method, or is another class with a method of that name, its own method is
    called. Only the name is sent to workers.

    Parameters
    ----------
    method : callable
        A method of the shards' class.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import shard_method
    >>> shard_method(np.ndarray.sum)
    'sum'
    """
    if isinstance(method, str) or not callable(method):
        raise TypeError(
            f"method={method!r}: pass a method of the shards' class, as in Shard.method."
        )
    return str(method.__name__)


def share(n_shards: int, n_workers: int, worker: int) -> range:
    """The contiguous shards of a worker.

    Ranges begin and end at nodes of the summation tree that are as large as possible, so that a worker has
    few sums to send. The size of the nodes minimizes (8 + sums of a worker) * its shards, where one sum
    counts as two: a sum less may cost about a tenth more shards. If the number of shards is a power of two, a
    worker has one or two sums with 2, 3, 4, 6, 8, 12, 16, or 100 workers.
    """
    return range(*_cuts(n_shards, n_workers)[worker : worker + 2])


@lru_cache(maxsize=16)
def _cuts(n_shards: int, n_workers: int) -> list[int]:
    """Where the ranges of the workers begin and end."""
    found: list[tuple[int, list[int]]] = []
    for power in range(n_shards.bit_length()):
        size = 1 << power
        units = -(-n_shards // size)
        if units < n_workers and power > 0:
            break
        each, more = divmod(units, n_workers)
        # the workers with one more come first, or are spread so that the last one, with the rest, is not one
        for cuts in (
            [min(n_shards, size * (k * each + min(k, more))) for k in range(n_workers + 1)],
            [min(n_shards, size * (k * units // n_workers)) for k in range(n_workers + 1)],
        ):
            most = max(b - a for a, b in pairwise(cuts))
            sums = max(count_sums(a, b, n_shards) for a, b in pairwise(cuts))
            found.append((most * (8 + max(2, sums)), cuts))
    return min(reversed(found), key=lambda pair: pair[0])[1]


class SerialEngine:
    """Run all shards in the calling thread, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import SerialEngine
    >>> engine = SerialEngine().open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce(np.ndarray.sum))
    6.0
    """

    durable = True
    #: what an engine with workers in other processes has sent them and received, since it was made
    traffic: Traffic | None = None

    def __init__(self) -> None:
        self._shards: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # copies (for example by scikit-learn's clone) are engines of the same kind without shards
        return type(self), ()

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build the shards."""
        self._shards = []
        for index, spec in enumerate(specs):
            try:
                self._shards.append(factory(spec))
            except Exception as error:
                error.add_note(f"raised while building {self._name(index, len(specs))}")
                raise
        return self

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """Return a read-only copy, or the array itself if it owns its memory and is read-only."""
        if array.flags.writeable or array.base is not None:
            array = np.array(array)
            array.setflags(write=False)
        return Handle(array)

    def reduce(self, method: Callable[..., R], *args: Any) -> R:
        """Sum the results of all shards."""
        if len(self._shards) == 1:
            return self._alone(method, args)
        if not self._shards:
            self._require_shards()
        total: R = join(self._fold(shard_method(method), args))
        return total

    def gather(self, method: Callable[..., R], *args: Any) -> list[R]:
        """Return the results of all shards as a list."""
        if len(self._shards) == 1:
            return [self._alone(method, args)]
        if not self._shards:
            self._require_shards()
        return self._map(shard_method(method), args)

    def run(self, function: Callable[[int], object], count: int) -> None:
        """Call a function with 0 .. count - 1; see :class:`maxmargin.core.engine.TaskEngine`."""
        for index in range(count):
            function(index)

    def _require_shards(self) -> None:
        if not self._shards:
            raise RuntimeError(
                "the engine has no shards: call open() first (close() releases them)."
            )

    def close(self) -> None:
        """Release the shards."""
        self._shards = []

    def _alone(self, method: Callable[..., R], args: tuple[Any, ...]) -> R:
        """The result of the only shard: no sum, and no thread to wait for. Small fits have one shard."""
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        answer: R = self._call(0, shard_method(method), plain)
        return answer

    def _fold(self, method: str, args: tuple[Any, ...]) -> list[PartialSum]:
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        return fold(self._call(index, method, plain) for index in range(len(self._shards)))

    def _map(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        plain, answers = list(args), []
        for place, value in enumerate(plain):
            if isinstance(value, Handle):
                plain[place] = value.array
        for index in range(len(self._shards)):
            answers.append(self._call(index, method, plain))
        return answers

    def _call(self, index: int, method: str, args: Sequence[Any]) -> Any:
        try:
            return getattr(self._shards[index], method)(*args)
        except (Exception, SystemExit) as error:
            error.add_note(f"raised by {method!r} in {self._name(index, len(self._shards))}")
            raise

    def _name(self, index: int, n_shards: int) -> str:
        return f"shard {index} of {n_shards}"
