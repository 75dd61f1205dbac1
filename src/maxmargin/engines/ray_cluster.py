"""The cluster: objects in its store, actors on its machines. Ray is imported only when an engine is used."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import Counter
from typing import Any, ClassVar, cast

from maxmargin.engines.ray_connection import (
    CLIENT,
    HOW_TO,
    connect,
    import_ray,
    proxy_address,
    resolved,
    token_mode,
)
from maxmargin.engines.ray_worker import MaxMarginWorker

#: bytes below which a spec or an array is sent with the call instead of through the object store, which is
#: four times faster; from 100 kB Ray would store it anyway, once for each worker
SMALL = 90_000
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
        ray = self._ray = import_ray()
        self._users, self._known = 0, dict[str, int]()
        #: CPUs that were free, by machine, when machines were last asked for; and what our actors claim
        self._free: dict[str, float] = {}
        self._claimed: dict[Any, tuple[str, int]] = {}
        self._ours = not ray.is_initialized()
        if self._ours:
            connect(ray, address)
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
        if address is None or ":" not in address:
            return
        proxy, gcs = proxy_address(), self._ray.get_runtime_context().gcs_address
        if address.startswith(CLIENT):
            same = proxy is not None and resolved(address) == resolved(proxy)
        else:
            same = resolved(address) == resolved(gcs)
        if not same:
            raise RuntimeError(
                f"this process is connected to the Ray cluster at {proxy or gcs}, and only one connection is "
                f"possible: call ray.shutdown() before you use the cluster at {address}."
            )

    def _require_token(self) -> None:
        if not token_mode():
            if self._ours:
                self._ray.shutdown()
            raise RuntimeError(f"Ray's token authentication is off in this process. {HOW_TO}")

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

    def put(self, value: object) -> Any:
        """A reference to the value in the object store, which keeps it as long as the reference lives."""
        return self._ray.put(value)

    def place(self, spec: Any) -> Any:
        """A snapshot of a spec to send: its bytes if small, otherwise a reference."""
        pack = self._ray.cloudpickle.dumps
        return pack(spec) if _size(pack, spec) < SMALL else self._ray.put(spec)

    def pack(self, value: object) -> bytes:
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
        if not found:
            raise RuntimeError(
                "no machine of the Ray cluster is alive. Start its nodes again, and fit again; with "
                "resume_from=, if the fit wrote checkpoints."
            )
        self._free = self._free_cpus()
        return self._known

    def _free_cpus(self) -> dict[str, float]:
        """CPUs that no one claims, by machine. Ray's report may be some moments old, so the claims of our own
        actors are counted here."""
        if proxy_address() is None:
            reported = _available()
        else:  # a client cannot ask
            reported = self._ray.get(self._ray.remote(num_cpus=0)(_available).remote())
        ours = Counter[str]()
        for machine, claim in self._claimed.values():
            ours[machine] += claim
        return {
            name: min(reported.get(name, {}).get("CPU", 0.0), cpus - ours[name])
            for name, cpus in self._known.items()
        }

    def start(
        self, number: int, n_workers: int, taken: Counter[str], threads: int | None, most: int
    ) -> tuple[str, Any]:
        """Start an actor for a worker, on the machine of its neighbors if possible.

        Each machine has at most so many of the workers. If the place of this worker is taken, it goes to the
        machine with the fewest workers.
        """
        machines = self._known or self.machines()
        names = list(machines)
        machine = names[number * len(names) // n_workers]
        if taken[machine] >= most:
            machine = min(names, key=lambda name: taken[name])
        if threads is None:
            threads = max(1, machines[machine] // most)
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        # Claim no more than is free: a worker must find a place even after machines failed.
        claim = max(0, min(threads, int(self._free.get(machine, 0))))
        options = {
            "num_cpus": claim,
            "memory": 2**20,  # an actor without any reservation ignores the scheduling strategy
            "scheduling_strategy": affinity(machine, soft=True),
            "runtime_env": {"env_vars": ONE_THREAD},
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        actor = self._remote.options(**options).remote(threads)
        self._free[machine] = self._free.get(machine, 0) - claim
        self._claimed[actor] = machine, claim
        return machine, actor

    def why(self, death: Exception) -> str:
        """A hint at why a worker died."""
        if "never ran" in str(death):
            return (
                "It never ran. This happens if the cluster runs without token authentication, or with "
                f"another token. {HOW_TO}"
            )
        if isinstance(death, TimeoutError):
            return "It may be slow and not hang: then raise timeout."
        return (
            "Possible causes: out of memory (use fewer or smaller shards, or more machines), or a crash in "
            "compiled code. See Ray's log files."
        )

    def kill(self, actor: Any) -> None:
        """End the process of an actor."""
        self._claimed.pop(actor, None)
        with contextlib.suppress(Exception):  # the actor or Ray may be gone
            if self.alive:
                self._ray.kill(actor)


def _size(dumps: Any, value: object) -> int:
    buffers: list[pickle.PickleBuffer] = []
    plain = dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(plain) + sum(buffer.raw().nbytes for buffer in buffers)


def _available() -> dict[str, dict[str, float]]:
    """Resources that are not claimed, by machine."""
    import ray._private.state

    state: Any = ray._private.state
    return cast(dict[str, dict[str, float]], state.available_resources_per_node())
