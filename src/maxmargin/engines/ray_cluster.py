"""The connection to Ray and its actors. The only file that imports Ray, and only when an engine is used."""

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

from maxmargin.core.engine import Handle
from maxmargin.core.summation import Block, join, merge
from maxmargin.engines.host import Failure, Host, failure, one_blas_thread

#: bytes below which a spec or an array travels with the call instead of through the object store: four times
#: faster; from 100 kB on Ray would put it there anyway, once for each worker
SMALL = 90_000
#: bytes from which sums stay with the worker, to be merged there
LARGE = 1_000_000
#: bytes from which vectors are copied from the object store before they are used
HUGE = 8_000_000

#: sums in compiled code have the same bits everywhere only if nobody divides them among threads of its own
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
    "Ray listens on every network interface, and without a token whoever reaches it can run code. Set "
    "RAY_AUTH_MODE=token in the environment before Ray is imported, and on every machine before 'ray start', "
    "with the same token everywhere: in RAY_AUTH_TOKEN, in a file named by RAY_AUTH_TOKEN_PATH, or in "
    "~/.ray/auth_token ('ray get-auth-token --generate' makes one)."
)


class Cluster:
    """This process's connection to Ray. There can be only one: engines share it, and the last one ends it.

    A connection that was there before the engines stays.
    """

    _current: ClassVar[Cluster | None] = None
    _lock: ClassVar[Any] = threading.Lock()

    @classmethod
    def join(cls, address: str | None) -> Cluster:
        """The connection, made if there is none; :meth:`leave` it after use."""
        with cls._lock:
            if cls._current is None or not cls._current.alive:
                cls._current = cls(address)
            cls._current._require_address(address)
            cls._current._users += 1
            return cls._current

    def __init__(self, address: str | None) -> None:
        ray = self._ray = _import_ray()
        self._users = 0
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address)
        self._require_token()
        self._remote = ray.remote(MaxMarginWorker)
        errors = ray.exceptions
        #: errors that mean that a worker, or what it answered, is gone
        self.lost: tuple[type[Exception], ...] = (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.NodeDiedError,
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
        )

    @property
    def alive(self) -> bool:
        """Whether nobody has ended the connection."""
        return bool(self._ray.is_initialized())

    def _require_address(self, address: str | None) -> None:
        if address is None or "://" in address or ":" not in address:
            return
        here = self._ray.get_runtime_context().gcs_address
        if _resolved(address) != _resolved(here):
            raise RuntimeError(
                f"this process is connected to the Ray cluster at {here}, and to one cluster at a time only: "
                f"call ray.shutdown() before you use that at {address}."
            )

    def _require_token(self) -> None:
        if not _token_mode():
            if self._ours:
                self._ray.shutdown()
            raise RuntimeError(f"Ray's token authentication is off in this process. {_HOW_TO}")

    def leave(self) -> None:
        """The last of those who joined ends the connection, and a local cluster that came with it."""
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
        """A snapshot of a spec for messages: its bytes if they are few, else a reference."""
        pack = self._ray.cloudpickle.dumps
        return pack(spec) if _size(pack, spec) < SMALL else self._ray.put(spec)

    def pack(self, value: Any) -> bytes:
        """The value as bytes; classes of a script or notebook travel whole."""
        return cast(bytes, self._ray.cloudpickle.dumps(value))

    def snapshot(self, ref: Any) -> Any:
        """A value of the object store: on this machine its very memory."""
        return self._ray.get(ref)

    def get(self, refs: Any) -> Any:
        """The values of some references; an error in place of one is raised as itself."""
        try:
            return self._ray.get(refs)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, self.lost):
                raise error.cause from None
            error.cause.add_note("raised while questions and answers travelled through Ray")
            raise error.cause from None

    def first(self, refs: list[Any]) -> Any:
        """One of the references that is answered."""
        ready, _ = self._ray.wait(refs, num_returns=1, fetch_local=False)
        return ready[0]

    def done(self, refs: list[Any], seconds: float) -> set[Any]:
        """The references that are answered after so many seconds at the latest."""
        if not refs:
            return set()
        return set(
            self._ray.wait(refs, num_returns=len(refs), timeout=seconds, fetch_local=False)[0]
        )

    # -- actors ------------------------------------------------------------------------------------

    def machines(self) -> dict[str, int]:
        """The machines that can host workers, and their processors; always in the same order."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        found = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in alive}
        able = {name: cpus for name, cpus in sorted(found.items()) if cpus > 0}
        return able or found

    def start(
        self, number: int, n_workers: int, taken: Counter[str], threads: int | None
    ) -> tuple[str, Any]:
        """An actor for a worker, where its neighbours are (or elsewhere, should that be gone by then).

        Each machine has its share of the workers; if this one's place is taken, it goes where the fewest are.
        """
        machines = self.machines()
        names, most = list(machines), math.ceil(n_workers / len(machines))
        machine = names[number * len(names) // n_workers]
        if taken[machine] >= most:
            machine = min(names, key=lambda name: taken[name])
        if threads is None:
            threads = max(1, machines[machine] // most)
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        options = {
            # nothing that may run out is reserved: a worker must find a place also when machines are gone;
            # but an actor that reserves nothing at all is put anywhere, whatever the strategy says
            "num_cpus": 0,
            "memory": 2**20,
            "scheduling_strategy": affinity(machine, soft=True),
            "runtime_env": {"env_vars": ONE_THREAD},
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        return machine, self._remote.options(**options).remote(threads)

    def why(self, death: Exception) -> str:
        """What may have ended a worker."""
        if "never ran" in str(death):
            return (
                "It never ran. So it is with a cluster that runs without token authentication, or with "
                f"another token. {_HOW_TO}"
            )
        return (
            "Was it killed for its memory (give it fewer or smaller shards, or use more machines), or does "
            "compiled code crash? Ray's log files tell more."
        )

    def kill(self, actor: Any) -> None:
        """End an actor's process."""
        with contextlib.suppress(Exception):  # it may be gone, and Ray with it
            if self.alive:
                self._ray.kill(actor)


class MaxMarginWorker:
    """A worker: it hosts shards, and merges sums.

    Parameters
    ----------
    threads : int
        Size of its team.
    """

    def __init__(self, threads: int) -> None:
        one_blas_thread()
        self._threads = threads
        self._prepared = False
        self._host = Host(0, 1, 0)
        self._failure: Failure | None = failure(RuntimeError("the worker was given no shards"))

    def build(
        self, recipe: bytes, specs: list[Any], worker: int, n_workers: int, n_shards: int
    ) -> None:
        """Build its shards; an error answers all later calls."""
        self._host.close()  # first let go of the old ones
        self._host = Host(worker, n_workers, n_shards, self._threads)
        try:
            prepare, factory = _unpacked(recipe)
            if prepare is not None and not self._prepared:
                prepare()
            self._prepared = True
        except Exception as error:
            self._failure = failure(error)
        else:
            self._failure = self._host.build(factory, _Specs(specs))

    def built(self) -> Failure | None:
        """Why the shards could not be built, if they could not."""
        return self._failure

    def answers(self, method: str, *args: Any) -> list[Any] | Failure:
        """What the shards answer, one by one."""
        return self._failure or self._host.gathered(method, _read_only(args))

    def sums(self, method: str, *args: Any) -> list[Block] | Failure:
        """What the shards answer, added up as far as the tree allows without the other workers."""
        return self._failure or self._host.reduced(method, _read_only(args))

    def held(self, method: str, *args: Any) -> tuple[Any, Any]:
        """The sums; if they are large None, and the sums as a second answer that waits where it is."""
        sums = self.sums(method, *args)
        if isinstance(sums, Failure) or _size(pickle.dumps, sums) < LARGE:
            return sums, None
        return None, sums

    def merge(self, *sums: list[Block]) -> list[Block]:
        """Sums of neighbouring workers as one."""
        return merge(chain.from_iterable(sums))

    def total(self, *sums: list[Block]) -> Any:
        """The whole sum, from those of all workers in order."""
        return join(chain.from_iterable(sums))


def _read_only(args: tuple[Any, ...]) -> tuple[Any, ...]:
    for argument in args:
        if isinstance(argument, Handle):
            argument.array.setflags(write=False)  # pickling forgets it
    return tuple(map(_near, args))


def _near(argument: Any) -> Any:
    """A large vector in this process's own memory, whose pages are large too: products jump about in it. With
    10M features and 7.5M entries one takes 124 ms in the object store, 81 ms here, and the copy 21 ms."""
    if type(argument) is not np.ndarray or argument.nbytes < HUGE:
        return argument
    near = np.array(argument)
    near.setflags(write=False)
    return near


def _unpacked(recipe: bytes) -> Any:
    """What the shards are made of, on a cluster that asks for a token."""
    if not _token_mode():
        raise RuntimeError(f"the cluster runs without Ray's token authentication. {_HOW_TO}")
    return pickle.loads(recipe)


class _Specs(Sequence[Any]):
    """Specs as they were placed, fetched one by one."""

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
    """Ray, with authentication switched on: it looks at the environment when it is imported."""
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        raise RuntimeError(f"RAY_AUTH_MODE={mode} switches token authentication off. {_HOW_TO}")
    if "ray" not in sys.modules:
        os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        error.add_note('the Ray engine needs Ray: pip install "maxmargin[ray]"')
        raise
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start a local one, which makes a token if there is none."""
    if address is not None and not _token_mode():
        # an address never switches it on; without one Ray does if it starts a cluster or finds a token
        raise RuntimeError(f"Ray was imported without token authentication. {_HOW_TO}")
    if address is not None and "://" in address:
        ray.init(address)
        return
    token = Path.home() / ".ray" / "auth_token"
    known = token.exists()
    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="warning")
    if not known and token.exists():
        token.chmod(0o600)  # Ray made it, for everybody to read


def _resolved(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port


def _token_mode() -> bool:
    """Whether Ray asks for the token in this process."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return bool(is_token_auth_enabled())
