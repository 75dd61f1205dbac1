"""Shards for the checks of engines. They are at module level so that any worker can import them."""

from __future__ import annotations

import hashlib
import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.core.cut import Cut
from maxmargin.core.vectors import Array, SparseVector

#: number of entries of a large array (1 MB)
LARGE = 1 << 17
#: dimension of a sparse plane
WIDE = 5_000
#: kills after which a shard answers after all, so that an engine that never gives up does not loop forever
MAX_KILLS = 6


class Spec(NamedTuple):
    """The specification of a shard."""

    number: int
    n: int
    #: process id of the caller
    caller: int = 0
    block: npt.NDArray[Any] | None = None
    #: folder of the files that count kills
    folder: str = ""


class Unpicklable(Exception):
    """An error that cannot be pickled."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"deliberate error {index}: {reason}")
        self.unpicklable = lambda: index


class Shard:
    """A shard with methods that return all kinds of answers."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.index, self.n = spec, spec.number, spec.n
        self.calls = 0
        self.token = uuid.uuid4().hex
        self.memory: Any = None
        rng = np.random.default_rng(self.index)
        # of very different sizes, so that sums in another order differ in their last bits
        self.numbers: Array = rng.normal(size=5) * 10.0 ** rng.integers(-6, 7, 5)

    def number(self) -> float:
        """A number."""
        self.calls += 1
        return float(self.numbers[0])

    def vector(self, w: npt.NDArray[Any]) -> Array:
        """An array that depends on an argument."""
        self.calls += 1
        return np.asarray(self.numbers * w, dtype=np.float64)

    def pair(self, w: npt.NDArray[Any], factor: float) -> tuple[float, tuple[Array, int]]:
        """A nested tuple, which is summed element by element."""
        self.calls += 1
        return factor * float(self.numbers @ w), (self.numbers + w, self.index)

    def cut(self) -> Cut:
        """A cut."""
        self.calls += 1
        return Cut(float(self.numbers[0]), self.numbers)

    def sparse_cut(self) -> Cut:
        """A cut with a sparse plane."""
        self.calls += 1
        rng = np.random.default_rng(self.index)
        where = np.sort(rng.choice(WIDE, 60, replace=False))
        plane = SparseVector(where, rng.normal(size=60) * 10.0 ** rng.integers(-6, 7, 60), WIDE)
        return Cut(float(self.numbers[1]), plane)

    def large(self, w: npt.NDArray[Any]) -> tuple[Array, float]:
        """A large array and a number."""
        self.calls += 1
        return np.resize(self.numbers * w, LARGE), float(self.numbers[2])

    def nothing(self) -> None:
        """None."""
        self.calls += 1

    def slow_index(self) -> int:
        """The index of the shard; the first shards answer last."""
        self.calls += 1
        time.sleep(0.002 * (self.n - self.index))
        return self.index

    def fail(self, first: int, pickles: bool = True) -> int:
        """Raise an error in all shards from ``first`` on."""
        self.calls += 1
        if self.index >= first:
            if pickles:
                raise KeyError(f"deliberate error {self.index}")
            raise Unpicklable(self.index, "it holds a lambda function")
        return 0

    def try_to_write(self, w: npt.NDArray[Any]) -> bool:
        """Whether the argument could be written to."""
        try:
            w[0] = 1e9
        except ValueError:
            return False
        return True

    def called(self) -> int:
        """Number of counted calls so far."""
        return self.calls

    def who(self) -> str:
        """A unique name of this object."""
        return self.token

    def seen(self, *args: Any) -> list[str]:
        """Fingerprints of the arguments."""
        return [fingerprint(a) for a in args]

    def block(self) -> str:
        """The fingerprint of the array in the spec."""
        return fingerprint(self.spec.block)

    def remember(self, what: Any) -> None:
        """Store a value."""
        self.memory = what

    def recall(self) -> Any:
        """The stored value."""
        return self.memory


class Unbuildable:
    """A shard that cannot be built from some specs."""

    def __init__(self, spec: Spec) -> None:
        if spec.number >= spec.n // 2:
            raise KeyError(f"deliberate error {spec.number}")


class KilledInCall(Shard):
    """A shard whose process is killed during a call."""

    def killed_before_answer(
        self, w: npt.NDArray[Any], who: int, name: str, times: int
    ) -> tuple[float, Array]:
        """A tuple; the process of shard ``who`` is killed ``times`` times before it answers."""
        if self.index == who:
            kill_worker(self.spec, name, times)
        return float(self.numbers @ w), self.numbers * w


class KilledInBuild(Shard):
    """The process of the last shard is killed when it is built for the first time."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        if spec.number == spec.n - 1:
            kill_worker(spec, "birth", 1)


def kill_worker(spec: Spec, name: str, times: int) -> None:
    """Kill this process, unless processes were already killed ``times`` times under this name."""
    if deaths(spec.folder, name) >= times:
        return
    with open(Path(spec.folder) / name, "a") as file:
        file.write("x")
    if os.getpid() == spec.caller:
        raise AssertionError(
            "not a worker: the shards of an engine that is not durable are in the process of the caller"
        )
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def deaths(folder: str, name: str) -> int:
    """Number of kills under this name."""
    path = Path(folder) / name
    return path.stat().st_size if path.exists() else 0


def fingerprint(thing: Any) -> str:
    """A string that is equal for bit-identical objects."""
    if isinstance(thing, np.ndarray):
        bits = hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
        return f"array {thing.dtype.str} {thing.shape} {bits}"
    return repr(thing)


def bits(part: Any) -> Any:
    """Convert an answer to an object that compares equal only for bit-identical answers."""
    if isinstance(part, tuple | list):
        return tuple(bits(p) for p in part)
    if isinstance(part, Cut):
        return bits((part.offset, part.plane))
    if isinstance(part, SparseVector):
        return bits((part.indices, part.values, part.size))
    if isinstance(part, np.ndarray):
        return (part.dtype.str, part.shape, part.tobytes())
    return np.float64(part).tobytes()
