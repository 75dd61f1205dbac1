"""Engine with shards in this process and several threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from maxmargin.core.engine import Handle, R, SerialEngine
from maxmargin.core.summation import PartialSum, Tree
from maxmargin.engines.ownership import Owner


class ThreadEngine(SerialEngine):
    """Shards in this process, processed by several threads.

    Compiled code releases the GIL; Python code in a shard does not run in parallel.

    Parameters
    ----------
    n_workers : int
        Number of threads, including the calling one.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import ThreadEngine
    >>> engine = ThreadEngine(2).open(np.asarray, [[1.0, 2.0], [3.0]])
    >>> float(engine.reduce(np.ndarray.sum))
    6.0
    >>> engine.close()
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__()
        if n_workers < 1:
            raise ValueError(f"n_workers must be at least 1; got {n_workers}.")
        self.n_workers = n_workers
        self._pool: ThreadPoolExecutor | None = None
        self._helpers: list[Future[None]] = []
        self._owner = Owner()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.n_workers,)

    def _map(self, method: str, args: tuple[object, ...]) -> list[Any]:
        answers: list[Any] = [None] * len(self._shards)
        self._run_calls(self._round(answers.__setitem__, method, args))
        return answers

    def _fold(self, method: str, args: tuple[object, ...]) -> list[PartialSum]:
        tree = Tree()  # frees parts once they are added

        def keep(index: int, part: Any) -> None:
            tree.put(PartialSum(self._number(index), 1, part))

        self._run_calls(self._round(keep, method, args))
        return tree.sums()

    def _number(self, index: int) -> int:
        """The number of a shard: its index, but not in a worker that has some of the shards."""
        return index

    def run(self, function: Callable[[int], object], count: int) -> None:
        """Call a function with 0 .. count - 1; see :class:`maxmargin.core.engine.TaskEngine`."""
        if self.n_workers == 1 or count == 1:
            super().run(function, count)
        else:
            self._run_calls(_Calls(count, function))

    def _alone(self, method: Callable[..., R], args: tuple[object, ...]) -> R:
        self._wait_for_threads()
        return super()._alone(method, args)

    def _round(
        self, keep: Callable[[int, Any], None], method: str, args: tuple[object, ...]
    ) -> _Calls:
        """A call on all shards, and what receives each result."""
        plain = tuple(a.array if isinstance(a, Handle) else a for a in args)
        return _Calls(
            len(self._shards), lambda index: keep(index, self._call(index, method, plain))
        )

    def _run_calls(self, calls: _Calls) -> None:
        self._wait_for_threads()
        helpers = self._helpers = []
        try:
            for _ in range(min(self.n_workers, calls.count) - 1):
                helpers.append(self._threads().submit(self._work, calls))
            self._work(calls)
        finally:
            # After an error or Ctrl-C, nothing of this call may still run when the next one starts.
            calls.over = True
            _drain(helpers)
        if calls.errors:
            raise calls.errors[min(calls.errors)]

    def _work(self, calls: _Calls) -> None:
        """Make calls until none are left; dynamic assignment balances the load."""
        for index in calls.numbers:
            if calls.over:
                return
            try:
                calls.call(index)
            except BaseException as error:  # including SystemExit: the sum would be incomplete
                calls.errors[index] = error
                calls.over = True

    def _wait_for_threads(self) -> None:
        """Wait for threads of a call that a second Ctrl-C aborted. A forked process has none of them."""
        if not self._owner.here:
            self._pool, self._helpers, self._owner = None, [], Owner()
        _drain(self._helpers)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_workers - 1, thread_name_prefix="maxmargin")
        return self._pool

    def close(self) -> None:
        """Release the shards and end the threads."""
        super().close()
        self._wait_for_threads()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class _Calls:
    """Calls of one function: the next index, and the errors."""

    def __init__(self, count: int, call: Callable[[int], object]) -> None:
        self.count, self.numbers = count, _Counter(count)
        self.call = call
        self.errors: dict[int, BaseException] = {}
        self.over = False


class _Counter:
    """0, 1, .. n-1, each value to exactly one of the iterating threads."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._count = itertools.count()  # next() is atomic

    def __iter__(self) -> _Counter:
        return self

    def __next__(self) -> int:
        index = next(self._count)
        if index >= self._n:
            raise StopIteration
        return index


def _drain(futures: list[Future[Any]]) -> None:
    """Cancel pending futures and wait for the others, even after another Ctrl-C."""
    pending = [future for future in futures if not future.cancel() and not future.done()]
    interrupted = False
    while pending:
        try:
            wait(pending)
            pending = []
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt
