"""The part of a worker that is independent of the transport: some of the shards, in one process.

Used by engines whose workers are separate processes, on this machine or on others. A worker starts with a
contiguous range of shards, and may take over others from workers that died.
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

from maxmargin.core.engine import Handle
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
        self._factory: Callable[[Any], Any] | None = None
        #: the shards by number, and the numbers of those that are built or called
        self._own: dict[int, Any] = {}
        self._numbers: Sequence[int] = ()
        #: the error that occurred when the shards were built; the answer to all calls
        self.failed: Failure | None = failure(RuntimeError("the worker has no shards"))

    def build(
        self,
        numbers: Sequence[int],
        n_shards: int,
        makers: Callable[[], Any],
        specs: Callable[[], Sequence[object]],
    ) -> None:
        """Build the shards of this worker: those of these numbers, of so many. ``makers`` returns what is
        called first (or None), once in this process, and the factory."""
        self.close()  # release the old shards first
        self._own, self._n_shards, self._numbers = {}, n_shards, numbers
        self.failed = None
        try:
            prepare, self._factory = makers()
            one_blas_thread()
            if prepare is not None and not self._prepared:
                prepare()
            self._prepared = True
        except _RAISED as error:
            self._fail_to_build(error)
        self.adopt(numbers, specs)

    def adopt(self, numbers: Sequence[int], specs: Callable[[], Sequence[object]]) -> None:
        """Build more shards, and keep those that are here."""
        if self.failed is not None:
            return
        self._numbers = numbers
        try:
            assert self._factory is not None
            self.open(self._factory, specs())
        except _RAISED as error:
            self._fail_to_build(error)
            return
        built = dict(zip(numbers, self._shards, strict=True))
        self._own = dict(sorted({**self._own, **built}.items()))

    def _fail_to_build(self, error: BaseException) -> None:
        error.add_note(f"raised in the worker of {self._name(0, 0)}. {IMPORTABLE}")
        self.failed = failure(error)

    def release(self, numbers: Sequence[int]) -> None:
        """Release shards that another worker has built."""
        self._shards = []
        for number in numbers:
            self._own.pop(number, None)

    def movable(self, numbers: Sequence[int]) -> bool:
        """Whether these shards may be rebuilt elsewhere. A shard whose attribute ``movable`` is false stores
        what cannot soon be computed again."""
        return all(getattr(self._own.get(number), "movable", True) for number in numbers)

    def reduced(
        self, method: str, args: tuple[object, ...], numbers: Sequence[int] | None = None
    ) -> list[PartialSum] | Failure:
        """The results of all shards here, or of some, added up as far as the summation tree allows without
        those of other workers."""
        try:
            failed = self._called(numbers)
            return failed or join_end(self._fold(method, _read_only(args)), self._n_shards)
        except _RAISED as error:
            return failure(error)

    def gathered(
        self, method: str, args: tuple[object, ...], numbers: Sequence[int] | None = None
    ) -> list[Any] | Failure:
        """The results, one per shard, in the order of their numbers."""
        try:
            return self._called(numbers) or self._map(method, _read_only(args))
        except _RAISED as error:
            return failure(error)

    def _called(self, numbers: Sequence[int] | None) -> Failure | None:
        """Select the shards to be called."""
        if self.failed is None:
            self._numbers = list(self._own if numbers is None else numbers)
            self._shards = [self._own[number] for number in self._numbers]
        return self.failed

    def _number(self, index: int) -> int:
        return self._numbers[index]

    def _name(self, index: int, n_shards: int) -> str:
        return f"shard {self._number(index)} of {self._n_shards}"


def _read_only(args: tuple[object, ...]) -> tuple[Any, ...]:
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


def raise_first(answers: Sequence[object]) -> None:
    """Raise the error of the first failing shard, if any."""
    for answer in answers:
        if isinstance(answer, Failure):
            raise answer.error


def one_blas_thread() -> None:
    """Limit BLAS to one thread in this process, so that products are bit-identical."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        os.environ[name] = "1"  # for libraries loaded later
    ThreadpoolController().limit(limits=1, user_api="blas")
