"""Shards to try the engine with: they wait, die and fail when they are told to."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np


def count(path: str) -> int:
    """How many calls were noted in a file."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def note(path: str) -> int:
    """Note a call in a file; how many there were before."""
    with open(path, "ab", buffering=0) as file:
        before = file.tell()
        file.write(b"x")
    return before


class Part:
    """A number, and vectors made of it.

    Parameters
    ----------
    spec : int or ndarray
        The number; or an array, whose sum it is then.
    """

    def __init__(self, spec) -> None:
        self.data = np.asarray(spec)
        self.seed = int(self.data.sum()) % 2**31

    #: whether it may be rebuilt elsewhere, and a number that it stores
    movable, stored = True, None

    def pin(self) -> float:
        self.movable = False
        return 0.0

    def unpin(self) -> float:
        self.movable = True
        return 0.0

    def remember(self, number: float) -> float:
        self.stored = number
        return number

    def recall(self) -> float | None:
        return self.stored

    def value(self) -> float:
        return float(np.random.default_rng(self.seed).normal() * 10.0 ** (self.seed % 7))

    def vector(self, size: int) -> np.ndarray:
        """Of very different sizes: sums in another order differ in their last bits."""
        return np.random.default_rng(self.seed).normal(size=size) * 10.0 ** (self.seed % 7)

    def times(self, w: np.ndarray) -> np.ndarray:
        return self.value() * w

    def dot(self, w: np.ndarray) -> float:
        return float(w @ w)

    def pid(self) -> int:
        return os.getpid()

    def machine(self) -> str:
        import ray

        return ray.get_runtime_context().get_node_id()

    def environment(self) -> tuple[str, ...]:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        return tuple(os.environ.get(name, "") for name in names)

    def wait(self, seconds: float, path: str = os.devnull) -> float:
        note(path)
        time.sleep(seconds)
        return self.value()

    def hang(self, which: int, path: str) -> float:
        """The value; this shard takes an hour when it is called for the first time."""
        if self.seed == which and note(path) == 0:
            time.sleep(3600)
        return self.value()

    def die(self, times: int, path: str, of: int) -> float:
        """The shard of a number kills its process, the first times that it is called."""
        if self.seed == of and note(path) < times:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.value()

    def fail(self, first: int, path: str) -> float:
        if self.seed >= first:
            note(path)
            raise LookupError(f"no answer from {self.seed}")
        return self.value()

    def fail_unpicklable(self) -> float:
        raise Unpicklable(Path)

    def unpicklable(self):
        return threading.Lock()

    def summary(self) -> tuple[int, float]:
        return self.data.size, float(self.data.sum())

    def is_alias(self) -> bool:
        return not self.data.flags.owndata and not self.data.flags.writeable


class Unpicklable(Exception):
    def __init__(self, what) -> None:
        super().__init__("cannot travel")
        self.what = lambda: what


class Unbuildable:
    """A shard that cannot be built."""

    def __init__(self, spec: int) -> None:
        if spec >= 2:
            raise OSError(f"no file {spec}")
