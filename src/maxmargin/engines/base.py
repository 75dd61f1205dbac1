"""Where shards live. An engine knows nothing of SVMs.

A shard is any object, built where it runs by ``factory(spec)`` from a small picklable spec; rebuilding it is the recovery
from losing it. An engine calls a method on all shards and adds the answers up by one fixed rule
(:func:`maxmargin.core.summation.tree_sum`), so the number of workers never changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.summation import tree_sum


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """An immutable snapshot of an array, sent to the workers once."""

    array: npt.NDArray[Any]


class Engine(Protocol):
    """The contract; ``maxmargin.testing.check_engine`` enforces it."""

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build one shard per spec, replacing those of an earlier call."""

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """An immutable snapshot that can be passed to shard methods."""

    def reduce(self, method: str, *args: Any) -> Any:
        """Call the method on every shard and sum the answers by the one rule."""

    def gather(self, method: str, *args: Any) -> list[Any]:
        """Call the method on every shard; the (small) answers in shard order."""

    def close(self) -> None:
        """Let go of shards and workers."""


class SerialEngine:
    """All shards in the calling thread, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import SerialEngine
    >>> engine = SerialEngine().open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce("sum"))
    6.0
    """

    def __init__(self) -> None:
        self._shards: list[Any] = []

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build the shards."""
        self._shards = []
        for index, spec in enumerate(specs):
            try:
                self._shards.append(factory(spec))
            except Exception as error:
                error.add_note(f"raised while building shard {index} of {len(specs)}")
                raise
        return self

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """A read-only copy."""
        copy = np.array(array)
        copy.setflags(write=False)
        return Handle(copy)

    def reduce(self, method: str, *args: Any) -> Any:
        """Sum of the shards' answers."""
        self._require_shards()
        return tree_sum(self._map(method, args))

    def gather(self, method: str, *args: Any) -> list[Any]:
        """List of the shards' answers."""
        self._require_shards()
        return list(self._map(method, args))

    def _require_shards(self) -> None:
        if not self._shards:
            raise RuntimeError("the engine holds no shards: call open() first (close() lets go of them).")

    def close(self) -> None:
        """Forget the shards."""
        self._shards = []

    def _map(self, method: str, args: tuple[Any, ...]) -> Iterator[Any]:
        plain = tuple(a.array if isinstance(a, Handle) else a for a in args)
        for index in range(len(self._shards)):
            yield self._call(index, method, plain)

    def _call(self, index: int, method: str, args: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._shards[index], method)(*args)
        except Exception as error:
            error.add_note(f"raised by {method!r} in shard {index} of {len(self._shards)}")
            raise


class ThreadEngine(SerialEngine):
    """Shards in this process, worked on by a pool of threads.

    The compiled kernels release the interpreter's lock; Python code in a shard does not gain.

    Parameters
    ----------
    n_workers : int
        Number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import ThreadEngine
    >>> engine = ThreadEngine(2).open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce("sum"))
    6.0
    >>> engine.close()
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__()
        if n_workers < 1:
            raise ValueError(f"n_workers={n_workers}: at least one worker is needed.")
        self.n_workers = n_workers
        self._pool: ThreadPoolExecutor | None = None

    def _map(self, method: str, args: tuple[Any, ...]) -> Iterator[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_workers, thread_name_prefix="maxmargin")
        plain = tuple(a.array if isinstance(a, Handle) else a for a in args)
        futures: list[Future[Any]] = [
            self._pool.submit(self._call, index, method, plain)
            for index in range(len(self._shards))
        ]
        try:
            for k, future in enumerate(futures):
                yield future.result()
                futures[k] = Future()  # the answer may be large: keep the sum, not the parts
        finally:
            # an error or Ctrl-C: nothing of this call may still run when the next one starts
            for future in futures:
                if not future.cancel() and not future.done():
                    future.exception()

    def close(self) -> None:
        """Forget the shards and end the threads."""
        super().close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def make_engine(n_jobs: int | None) -> Engine:
    """The engine for scikit-learn's ``n_jobs``: None or 1 is serial, -1 is all cores."""
    if n_jobs is None or n_jobs == 1:
        return SerialEngine()
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use None or 1 for one thread, -1 for all cores.")
    if n_jobs < 0:
        import os

        n_jobs = max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return ThreadEngine(n_jobs)
