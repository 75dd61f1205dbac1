"""The part of a worker that is independent of the transport: a contiguous range of shards in one process.

Used by engines whose workers are separate processes, on this machine or on others.
"""

from __future__ import annotations

import logging
import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from threadpoolctl import ThreadpoolController

from maxmargin.core.engine import Handle, share
from maxmargin.core.summation import PartialSum, join_end
from maxmargin.engines.threads import ThreadEngine

#: deaths of workers, and what was done about them
LOG = logging.getLogger("maxmargin.engines")

IMPORTABLE = (
    "Shards must be importable in the process that runs them: define classes in a module, not in a notebook "
    "or an interactive session. If cloudpickle is installed, engine='processes' pickles them by value."
)

#: exceptions of a shard; one that calls sys.exit() must not end the worker
_RAISED = (Exception, SystemExit)


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An error in the first failing shard of a worker, to be sent to the caller."""

    error: BaseException


class Host(ThreadEngine):
    """The shards of one worker, with their global indices.

    Parameters
    ----------
    n_threads : int
        Number of threads.
    """

    def __init__(self, n_threads: int = 1) -> None:
        super().__init__(n_threads)
        self._n_shards, self._prepared = 0, False
        #: the error that occurred when the shards were built; the answer to all calls
        self.failed: Failure | None = failure(RuntimeError("the worker has no shards"))

    def build(
        self,
        place: tuple[int, int, int],
        makers: Callable[[], Any],
        specs: Callable[[], Sequence[Any]],
    ) -> None:
        """Build the shards of this worker, which has a place (worker, workers, shards), by
        :func:`maxmargin.core.engine.share`. ``makers`` returns what is called first (or None), once in this
        process, and the factory."""
        self.close()  # release the old shards first
        worker, n_workers, self._n_shards = place
        self._first = share(self._n_shards, n_workers, worker).start
        try:
            prepare, factory = makers()
            one_blas_thread()
            if prepare is not None and not self._prepared:
                prepare()
            self._prepared = True
            self.open(factory, specs())
            self.failed = None
        except _RAISED as error:
            error.add_note(f"raised in the worker of {self._name(0, 0)}. {IMPORTABLE}")
            self.failed = failure(error)

    def reduced(self, method: str, args: tuple[Any, ...]) -> list[PartialSum] | Failure:
        """The results, added up as far as the summation tree allows without the shards of other workers."""
        try:
            return self.failed or join_end(self._fold(method, _read_only(args)), self._n_shards)
        except _RAISED as error:
            return failure(error)

    def gathered(self, method: str, args: tuple[Any, ...]) -> list[Any] | Failure:
        """The results, one per shard."""
        try:
            return self.failed or list(self._map(method, _read_only(args)))
        except _RAISED as error:
            return failure(error)

    def _name(self, index: int, n_shards: int) -> str:
        return f"shard {self._first + index} of {self._n_shards}"


def _read_only(args: tuple[Any, ...]) -> tuple[Any, ...]:
    for argument in args:
        if isinstance(argument, Handle):
            argument.array.setflags(write=False)  # pickling may lose this flag
    return args


def failure(error: BaseException) -> Failure:
    """The error, or a RuntimeError with its text if it cannot be pickled; with the worker's traceback as a
    note."""
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
    """Raise the error of the first failing shard, if any."""
    for answer in answers:
        if isinstance(answer, Failure):
            raise answer.error


def one_blas_thread() -> None:
    """Limit BLAS to one thread in this process, so that products are bit-identical."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        os.environ[name] = "1"  # for libraries loaded later
    ThreadpoolController().limit(limits=1, user_api="blas")
