"""Where shards live: the contract, and the plainest engine. An engine knows nothing of SVMs.

A shard is any object, built where it runs by ``factory(spec)`` from a picklable spec: a path and a
range of rows, or a block of data that the engine places once where workers can get at it. An engine
calls a method on all shards and adds the answers up by one fixed rule
(:func:`maxmargin.core.summation.tree_sum`), so the number of workers never changes a bit of the result.

What must hold, besides the signatures below:

- Workers host ranges of neighbouring shards (:func:`share`), so that each adds up what it has before
  anything travels.
- Specs and the factory count as they are when ``open`` is called. An engine that is not ``durable`` keeps a
  snapshot: a shard that is built anew must be the one it was. A durable one may hand them over as they are,
  without a copy; then whoever opened it leaves their arrays alone while the shards live.
- A shard stays the same object from call to call, until ``open``, ``close`` or its worker's death.
- Published arrays are immutable. They are passed at the top level of the arguments, and shards see a
  read-only array.
- Methods of shards are idempotent: a call may reach a shard again.
- What a shard remembers is a cache. If the engine is not ``durable`` a worker may die: its shards are built
  anew from their specs, without what they remembered, and the call is repeated, a bounded number of times.
  A shard that misses something it was told before raises an error of its own, and whoever asked knows how
  to tell it again (see :mod:`maxmargin.risks.lines.evaluation`).
- An error in a shard is raised once, as itself, with the shard's index in a note, and never retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from maxmargin.core.summation import Block, fold, join

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """An immutable snapshot of an array, sent to the workers once."""

    array: npt.NDArray[Any]


class Engine(Protocol):
    """The contract; ``maxmargin.testing.check_engine`` enforces it."""

    @property
    def durable(self) -> bool:
        """Whether shards live as long as the engine: nothing that they remember can get lost."""

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build one shard per spec, replacing those of an earlier call."""

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """An immutable snapshot that can be passed to shard methods."""

    def reduce(self, method: Callable[..., R], *args: Any) -> R:
        """Call the method on every shard and sum the answers by the one rule."""

    def gather(self, method: Callable[..., R], *args: Any) -> list[R]:
        """Call the method on every shard; the (small) answers in shard order."""

    def close(self) -> None:
        """Let go of shards and workers."""


def shard_method(method: Callable[..., Any]) -> str:
    """The name under which a shard has a method that was passed as ``Shard.method``.

    A shard of a subclass that overrides the method, or of another class with a method of that name, uses its
    own. Only the name is sent to workers.

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
    """The shards that a worker hosts: neighbours, as many as the others have or one more."""
    return range(worker * n_shards // n_workers, (worker + 1) * n_shards // n_workers)


class SerialEngine:
    """All shards in the calling thread, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import SerialEngine
    >>> engine = SerialEngine().open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce(np.ndarray.sum))
    6.0
    """

    durable = True
    #: the first shard's number; a worker of another engine that hosts some shards begins elsewhere
    _first = 0

    def __init__(self) -> None:
        self._shards: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # copies (as scikit-learn's clone makes them) are engines of the same kind, without shards
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
        """A read-only copy; an array that owns its memory and is read-only already is one."""
        if array.flags.writeable or array.base is not None:
            array = np.array(array)
            array.setflags(write=False)
        return Handle(array)

    def reduce(self, method: Callable[..., R], *args: Any) -> R:
        """Sum of the shards' answers."""
        self._require_shards()
        total: R = join(self._fold(shard_method(method), args))
        return total

    def gather(self, method: Callable[..., R], *args: Any) -> list[R]:
        """List of the shards' answers."""
        self._require_shards()
        return list(self._map(shard_method(method), args))

    def _require_shards(self) -> None:
        if not self._shards:
            raise RuntimeError(
                "the engine holds no shards: call open() first (close() lets go of them)."
            )

    def close(self) -> None:
        """Forget the shards."""
        self._shards = []

    def _fold(self, method: str, args: tuple[Any, ...]) -> list[Block]:
        return fold(self._map(method, args), self._first)

    def _map(self, method: str, args: tuple[Any, ...]) -> Iterator[Any]:
        plain = tuple(a.array if isinstance(a, Handle) else a for a in args)
        for index in range(len(self._shards)):
            yield self._call(index, method, plain)

    def _call(self, index: int, method: str, args: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._shards[index], method)(*args)
        except (Exception, SystemExit) as error:
            error.add_note(f"raised by {method!r} in {self._name(index, len(self._shards))}")
            raise

    def _name(self, index: int, n_shards: int) -> str:
        return f"shard {index} of {n_shards}"
