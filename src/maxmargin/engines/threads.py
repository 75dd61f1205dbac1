"""Shards in this process, worked on by a pool of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from maxmargin.core.engine import Engine, Handle, SerialEngine


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
            _drain(futures)

    def close(self) -> None:
        """Forget the shards and end the threads."""
        super().close()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


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


def make_engine(n_jobs: int | None) -> Engine:
    """The engine for scikit-learn's ``n_jobs``: None or 1 is serial, -1 is all cores."""
    if n_jobs is None or n_jobs == 1:
        return SerialEngine()
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use None or 1 for one thread, -1 for all cores.")
    if n_jobs < 0:
        n_jobs = max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return ThreadEngine(n_jobs)
