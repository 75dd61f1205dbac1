"""What a worker does, whatever brings it its orders: a range of neighbouring shards in one process.

For the engines whose workers are processes of their own, on this machine or on others.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from threadpoolctl import ThreadpoolController

from maxmargin.core.engine import share
from maxmargin.core.summation import Block
from maxmargin.engines.threads import ThreadEngine

IMPORTABLE = (
    "What a shard is made of must be importable where it runs: define classes in a module, not in a notebook "
    "or an interactive session. Where cloudpickle is installed, engine='processes' sends them by value."
)

#: what a shard raises; one that calls sys.exit() is no worker that died
_RAISED = (Exception, SystemExit)


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An error in a worker's earliest failing shard, on its way to the caller."""

    error: BaseException


class Host(ThreadEngine):
    """The shards of one worker, with the numbers that they have among all shards.

    Parameters
    ----------
    worker, n_workers, n_shards : int
        Which shards: those that :func:`maxmargin.core.engine.share` gives this worker.
    n_threads : int
        Threads that work on them.
    """

    def __init__(self, worker: int, n_workers: int, n_shards: int, n_threads: int = 1) -> None:
        super().__init__(n_threads)
        self._first = share(n_shards, n_workers, worker).start
        self._n_shards = n_shards

    def build(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Failure | None:
        """Build the worker's own shards from their specs."""
        try:
            self.open(factory, specs)
        except _RAISED as error:
            error.add_note(IMPORTABLE)
            return failure(error)
        return None

    def reduced(self, method: str, args: tuple[Any, ...]) -> list[Block] | Failure:
        """The answers, added up as far as the tree allows without the other workers' shards."""
        try:
            return self._fold(method, args)
        except _RAISED as error:
            return failure(error)

    def gathered(self, method: str, args: tuple[Any, ...]) -> list[Any] | Failure:
        """The answers, one by one."""
        try:
            return list(self._map(method, args))
        except _RAISED as error:
            return failure(error)

    @property
    def first(self) -> str:
        """The name of its first shard."""
        return self._name(0, self._n_shards)

    def _name(self, index: int, n_shards: int) -> str:
        return f"shard {self._first + index} of {self._n_shards}"


def failure(error: BaseException) -> Failure:
    """The error, or one with its text where it cannot travel; and where in the worker it was raised."""
    where = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            plain.add_note(note)
        error = plain
    error.add_note(f"in the worker at\n{where}")
    return Failure(error)


def raise_first(answers: Sequence[Any]) -> None:
    """Raise the first error among all workers' answers, in order: that of the earliest failing shard."""
    for answer in answers:
        if isinstance(answer, Failure):
            raise answer.error


def one_blas_thread() -> None:
    """For good, in a process of its own: products have the bits that one thread gives them."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        os.environ[name] = "1"  # for libraries that are loaded later
    ThreadpoolController().limit(limits=1, user_api="blas")
