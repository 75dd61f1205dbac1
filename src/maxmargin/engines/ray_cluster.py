"""The connection to Ray and its actors. Only this file imports Ray, and only when an engine is used."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import socket
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from maxmargin.core.summation import PartialSum, join, merge
from maxmargin.engines.host import Failure, Host

#: bytes below which a spec or an array is sent with the call instead of through the object store, which is
#: four times faster; from 100 kB Ray would store it anyway, once for each worker
SMALL = 90_000
#: bytes from which sums stay with the worker, to be merged there
LARGE = 1_000_000
#: bytes from which vectors are copied from the object store before use
HUGE = 8_000_000

#: compiled libraries must use one thread: otherwise the order of summation, and so the bits, could differ
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)

_HOW_TO = (
    "Ray listens on every network interface, and without a token anyone who can connect can run code. Set "
    "RAY_AUTH_MODE=token in the environment before Ray is imported, and on every machine before 'ray start', "
    "with the same token everywhere: in RAY_AUTH_TOKEN, in a file named by RAY_AUTH_TOKEN_PATH, or in "
    "~/.ray/auth_token (create one with 'ray get-auth-token --generate')."
)


class Cluster:
    """This process's connection to Ray. There is only one: engines share it, and the last one closes it.

    A connection that existed before the engines stays open.
    """

    _current: ClassVar[Cluster | None] = None
    _lock: ClassVar[Any] = threading.Lock()

    @classmethod
    def join(cls, address: str | None) -> Cluster:
        """The connection, opened if there is none; call :meth:`leave` after use."""
        with cls._lock:
            if cls._current is None or not cls._current.alive:
                cls._current = cls(address)
            cls._current._require_address(address)
            cls._current._users += 1
            return cls._current

    def __init__(self, address: str | None) -> None:
        ray = self._ray = _import_ray()
        self._users, self._known = 0, dict[str, int]()
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address)
        self._require_token()
        self._remote = ray.remote(MaxMarginWorker)
        errors = ray.exceptions
        #: errors that mean that a worker, or its result, is lost
        self.lost: tuple[type[Exception], ...] = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
        )

    @property
    def alive(self) -> bool:
        """Whether the connection is still open."""
        return bool(self._ray.is_initialized())

    def _require_address(self, address: str | None) -> None:
        if address is None or "://" in address or ":" not in address:
            return
        here = self._ray.get_runtime_context().gcs_address
        if _resolved(address) != _resolved(here):
            raise RuntimeError(
                f"this process is connected to the Ray cluster at {here}, and only one connection is "
                f"possible: call ray.shutdown() before you use the cluster at {address}."
            )

    def _require_token(self) -> None:
        if not _token_mode():
            if self._ours:
                self._ray.shutdown()
            raise RuntimeError(f"Ray's token authentication is off in this process. {_HOW_TO}")

    def leave(self) -> None:
        """Release the connection; the last release closes it, and shuts down a local cluster that it
        started."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and type(self)._current is self:
                type(self)._current = None
                if self._ours and self.alive:
                    self._ray.shutdown()

    # -- objects -----------------------------------------------------------------------------------

    def put(self, value: Any) -> Any:
        """A reference to the value in the object store, which keeps it as long as the reference lives."""
        return self._ray.put(value)

    def place(self, spec: Any) -> Any:
        """A snapshot of a spec to send: its bytes if small, otherwise a reference."""
        pack = self._ray.cloudpickle.dumps
        return pack(spec) if _size(pack, spec) < SMALL else self._ray.put(spec)

    def pack(self, value: Any) -> bytes:
        """The pickled value; classes of a script or notebook are pickled by value."""
        return cast(bytes, self._ray.cloudpickle.dumps(value))

    def snapshot(self, ref: Any) -> Any:
        """A value of the object store; on this machine its memory is not copied."""
        return self._ray.get(ref)

    def get(self, refs: Any) -> Any:
        """The values of references; errors are raised with their own type."""
        try:
            return self._ray.get(refs)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, self.lost):
                raise error.cause from None
            error.cause.add_note("raised while calls and results were sent through Ray")
            raise error.cause from None

    def first(self, refs: list[Any], seconds: float | None) -> Any:
        """One of the references that is ready; None if none is after this many seconds."""
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=seconds, fetch_local=False)
        return ready[0] if ready else None

    def done(self, refs: list[Any], seconds: float) -> set[Any]:
        """The references that are ready after at most this many seconds."""
        if not refs:
            return set()
        return set(
            self._ray.wait(refs, num_returns=len(refs), timeout=seconds, fetch_local=False)[0]
        )

    # -- actors ------------------------------------------------------------------------------------

    def machines(self) -> dict[str, int]:
        """Machines that can host workers, and their CPUs; always in the same order. They are remembered for
        the workers that are started next: with a thousand of them, to ask for each would take long."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        found = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in alive}
        able = {name: cpus for name, cpus in sorted(found.items()) if cpus > 0}
        self._known = able or found
        return self._known

    def start(
        self, number: int, n_workers: int, taken: Counter[str], threads: int | None
    ) -> tuple[str, Any]:
        """Start an actor for a worker, on the machine of its neighbors if possible.

        Each machine has its share of the workers. If the place of this worker is taken, it goes to the
        machine with the fewest workers.
        """
        machines = self._known or self.machines()
        names, most = list(machines), math.ceil(n_workers / len(machines))
        machine = names[number * len(names) // n_workers]
        if taken[machine] >= most:
            machine = min(names, key=lambda name: taken[name])
        if threads is None:
            threads = max(1, machines[machine] // most)
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        options = {
            # Reserve nothing that may run out: a worker must find a place even after machines failed.
            # But an actor without any reservation ignores the scheduling strategy.
            "num_cpus": 0,
            "memory": 2**20,
            "scheduling_strategy": affinity(machine, soft=True),
            "runtime_env": {"env_vars": ONE_THREAD},
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        return machine, self._remote.options(**options).remote(threads)

    def why(self, death: Exception) -> str:
        """A hint at why a worker died."""
        if "never ran" in str(death):
            return (
                "It never ran. This happens if the cluster runs without token authentication, or with "
                f"another token. {_HOW_TO}"
            )
        if isinstance(death, TimeoutError):
            return "It may be slow and not hang: then raise timeout."
        return (
            "Possible causes: out of memory (use fewer or smaller shards, or more machines), or a crash in "
            "compiled code. See Ray's log files."
        )

    def kill(self, actor: Any) -> None:
        """End the process of an actor."""
        with contextlib.suppress(Exception):  # the actor or Ray may be gone
            if self.alive:
                self._ray.kill(actor)


class MaxMarginWorker:
    """The actor of a worker: it holds shards and merges sums.

    Parameters
    ----------
    threads : int
        Number of threads.
    """

    def __init__(self, threads: int) -> None:
        self._host = Host(threads)

    def build(self, recipe: bytes, specs: list[Any], place: tuple[int, int, int]) -> None:
        """Build the shards; an error is returned by all later calls."""
        self._host.build(place, lambda: _unpacked(recipe), lambda: _Specs(specs))

    def built(self) -> Failure | None:
        """The error that occurred while the shards were built, or None."""
        return self._host.failed

    def answers(self, method: str, *args: Any) -> list[Any] | Failure:
        """The results, one per shard."""
        return self._host.gathered(method, tuple(map(_near, args)))

    def sums(self, method: str, *args: Any) -> list[PartialSum] | Failure:
        """The results, added up as far as the summation tree allows without other workers."""
        return self._host.reduced(method, tuple(map(_near, args)))

    def held(self, method: str, *args: Any) -> tuple[Any, Any]:
        """The sums; if they are large, None and the sums as a second result that stays in place."""
        sums = self.sums(method, *args)
        if isinstance(sums, Failure) or _size(pickle.dumps, sums) < LARGE:
            return sums, None
        return None, sums

    def merge(self, *sums: list[PartialSum]) -> list[PartialSum]:
        """Merge the sums of neighboring workers."""
        return merge(chain.from_iterable(sums))

    def total(self, *sums: list[PartialSum]) -> Any:
        """The total of the sums of all workers, in order."""
        return join(chain.from_iterable(sums))


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
    if not _token_mode():
        raise RuntimeError(f"the cluster runs without Ray's token authentication. {_HOW_TO}")
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


def _size(dumps: Any, value: Any) -> int:
    buffers: list[pickle.PickleBuffer] = []
    plain = dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(plain) + sum(buffer.raw().nbytes for buffer in buffers)


def _import_ray() -> Any:
    """Import Ray with authentication enabled: Ray reads the environment when it is imported."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        raise RuntimeError(f"RAY_AUTH_MODE={mode} disables token authentication. {_HOW_TO}")
    if "ray" not in sys.modules:
        os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        error.add_note('the Ray engine requires Ray: pip install "maxmargin[ray]"')
        raise
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start a local one, which creates a token if there is none."""
    if address is not None and not _token_mode():
        # With an address Ray never enables it; without one it does if it starts a cluster or finds a token.
        raise RuntimeError(f"Ray was imported without token authentication. {_HOW_TO}")
    if address is not None and "://" in address:
        ray.init(address)
        return
    if address in (None, "local") and not any(os.environ.get(name) for name in _ELSEWHERE):
        _create_token(Path.home() / ".ray" / "auth_token")
    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="warning")


#: variables that name a cluster, or its token
_ELSEWHERE = ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def _create_token(path: Path) -> None:
    """Create a token that only this user can read, if there is none: everyone could read Ray's at first."""
    from ray._private.authentication import authentication_token_generator

    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        created = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(created, "w") as file:
            file.write(authentication_token_generator.generate_new_authentication_token())


def _resolved(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


def _token_mode() -> bool:
    """Whether Ray requires the token in this process."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return bool(is_token_auth_enabled())
