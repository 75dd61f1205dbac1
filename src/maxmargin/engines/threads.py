"""Shards in this process, worked on by a team of threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from maxmargin.core.engine import Handle, SerialEngine


class ThreadEngine(SerialEngine):
    """Shards in this process, worked on by a team of threads.

    The compiled kernels release the interpreter's lock; Python code in a shard does not gain.

    Parameters
    ----------
    n_workers : int
        Number of threads, the calling one included.

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
        plain = tuple(a.array if isinstance(a, Handle) else a for a in args)
        round_ = _Round(len(self._shards))
        helpers: list[Future[None]] = []
        try:
            for _ in range(min(self.n_workers, len(self._shards)) - 1):
                helpers.append(self._team().submit(self._work, round_, method, plain))
            self._work(round_, method, plain)
        finally:
            # an error or Ctrl-C: nothing of this call may still run when the next one starts
            round_.over = True
            _drain(helpers)
        yield from round_.answers()

    def _work(self, round_: _Round, method: str, args: tuple[Any, ...]) -> None:
        """Take one shard after the other: whoever is free takes the next, so nobody waits long."""
        for index in round_.numbers:
            if round_.over:
                return
            try:
                round_.done[index] = self._call(index, method, args)
            except Exception as error:
                round_.errors[index] = error
                round_.over = True

    def _team(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_workers - 1, thread_name_prefix="maxmargin")
        return self._pool

    def close(self) -> None:
        """Forget the shards and end the threads."""
        super().close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class _Round:
    """One call on all shards: which number is next, and what came back."""

    def __init__(self, n_shards: int) -> None:
        self.numbers = _Counter(n_shards)
        self.done: list[Any] = [None] * n_shards
        self.errors: dict[int, Exception] = {}
        self.over = False

    def answers(self) -> Iterator[Any]:
        """In shard order; the earliest error, if there was one."""
        if self.errors:
            raise self.errors[min(self.errors)]
        for index in range(len(self.done)):
            answer, self.done[index] = self.done[index], None  # keep the sum, not the parts
            yield answer


class _Counter:
    """0, 1, .. n-1, each to one of the threads that iterate over it."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._count = itertools.count()  # next() of it is atomic

    def __iter__(self) -> _Counter:
        return self

    def __next__(self) -> int:
        index = next(self._count)
        if index >= self._n:
            raise StopIteration
        return index


def _drain(futures: list[Future[Any]]) -> None:
    """Cancel what has not begun and wait for the rest, also through a further Ctrl-C."""
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
