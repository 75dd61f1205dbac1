"""The process of a worker of the Ray engine: an actor that holds shards and merges sums."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from maxmargin.core.summation import PartialSum, in_order, join, merge
from maxmargin.engines.host import Failure, Host
from maxmargin.engines.ray_connection import HOW_TO, token_mode

#: bytes from which a vector is sent to many machines in waves
LARGE = 1_000_000
#: bytes from which vectors are copied from the object store before use
HUGE = 8_000_000


class MaxMarginWorker:
    """The actor of a worker: it holds shards and merges sums.

    Parameters
    ----------
    threads : int
        Number of threads.
    """

    def __init__(self, threads: int) -> None:
        self._host = Host(threads)

    def build(self, recipe: bytes, specs: list[Any], numbers: list[int], n_shards: int) -> None:
        """Build the shards of these numbers; an error is returned by all later calls."""
        self._host.build(numbers, n_shards, lambda: _unpacked(recipe), lambda: _Specs(specs))

    def adopt(self, specs: list[Any], numbers: list[int]) -> None:
        """Build shards of a worker that died, too."""
        self._host.adopt(numbers, lambda: _Specs(specs))

    def release(self, numbers: list[int]) -> None:
        """Release shards that another worker has built."""
        self._host.release(numbers)

    def movable(self, numbers: list[int]) -> bool:
        """Whether these shards may be rebuilt elsewhere."""
        return self._host.movable(numbers)

    # the next three call the shards of these numbers, or all

    def built(self, numbers: list[int] | None) -> Failure | None:
        """The error that occurred while the shards were built, or None."""
        return self._host.failed

    def answers(self, numbers: list[int] | None, method: str, *args: object) -> list[Any] | Failure:
        """The results, one per shard."""
        return self._host.gathered(method, tuple(map(_near, args)), numbers)

    def sums(
        self, numbers: list[int] | None, method: str, *args: object
    ) -> list[PartialSum] | Failure:
        """The results, added up as far as the summation tree allows without other workers."""
        return self._host.reduced(method, tuple(map(_near, args)), numbers)

    def held(
        self, numbers: list[int] | None, least: int, method: str, *args: object
    ) -> tuple[Any, Any]:
        """The sums; from so many bytes on, None and the sums as a second result that stays in place."""
        sums = _Pickled(self.sums(numbers, method, *args))
        return (None, sums) if sums.nbytes >= least else (sums, None)

    def fetch(self, value: object) -> None:
        """Nothing: Ray copies the value to this machine before the call."""

    def merge(self, *sums: list[PartialSum]) -> list[PartialSum]:
        """Merge the sums of some workers."""
        return merge(in_order(chain.from_iterable(sums)))

    def total(self, *sums: list[PartialSum]) -> Any:
        """The total of the sums of all workers, in order."""
        return join(in_order(chain.from_iterable(sums)))


class _Pickled:
    """A pickled value, sent as it is, and received as the value itself."""

    def __init__(self, value: object) -> None:
        self._buffers: list[pickle.PickleBuffer] = []
        self._plain = pickle.dumps(value, protocol=5, buffer_callback=self._buffers.append)
        self.nbytes = len(self._plain) + sum(buffer.raw().nbytes for buffer in self._buffers)

    def __reduce__(self) -> Any:
        return _unpickled, (self._plain, self._buffers)


def _unpickled(plain: bytes, buffers: list[Any]) -> Any:
    return pickle.loads(plain, buffers=buffers)


def size_of(value: object) -> int:
    """Bytes of a value when it is sent; arrays are not copied to find out."""
    return _Pickled(value).nbytes


def _near(argument: Any) -> Any:
    """Copy a large vector to this process's memory, which has large pages: products access it randomly. With
    10M features and 7.5M entries, a product takes 124 ms in the object store and 81 ms here; the copy 21
    ms."""
    if type(argument) is not np.ndarray or argument.nbytes < HUGE:
        return argument
    near = np.array(argument)
    near.setflags(write=False)
    return near


def _unpacked(recipe: bytes) -> Any:
    """Unpickle the recipe of the shards, on a cluster that requires a token."""
    if not token_mode():
        raise RuntimeError(f"the cluster runs without Ray's token authentication. {HOW_TO}")
    return pickle.loads(recipe)


class _Specs(Sequence[Any]):
    """Placed specs, fetched one by one."""

    def __init__(self, specs: list[Any]) -> None:
        self._specs = specs

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, index: Any) -> Any:
        import ray

        spec = self._specs[index]
        return pickle.loads(spec) if isinstance(spec, bytes) else ray.get(spec)
