"""Tools for cluster benchmarks: a private network, a local Ray cluster, processes and their costs."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.engine import Handle

#: entries of a generated row
NONZEROS = 75
TICKS = os.sysconf("SC_CLK_TCK")


def require_private_network() -> None:
    """Require that only the loopback interface is up, because Ray listens on every interface."""
    # not /sys, which shows the namespace in which it was mounted
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    others = [name for line in lines if (name := line.split(":")[0].strip()) != "lo"]
    if others:
        raise SystemExit(
            f"Ray listens on every network interface, and {', '.join(others)} is one: run "
            "'tools/in_namespace python -m benchmarks....'"
        )


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Environment that Ray reads on import: a private token and folder."""
    require_private_network()
    folder = tempfile.mkdtemp(prefix="mm", dir="/tmp")  # Unix sockets have short paths
    os.environ.update(
        RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(16), RAY_TMPDIR=folder,
        RAY_USAGE_STATS_ENABLED="0",
        RAY_worker_niceness=str(os.getpriority(os.PRIO_PROCESS, 0)),  # as this process
    )  # fmt: skip
    os.environ.pop("RAY_ADDRESS", None)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def local_ray(object_store: int, cpus: int = 4) -> Iterator[Any]:
    """A Ray cluster of this process, shut down on exit."""
    with _own_environment():
        import ray

        ray.init(
            "local", num_cpus=cpus, object_store_memory=object_store, include_dashboard=False,
            log_to_driver=False, logging_level="warning",
        )  # fmt: skip
        try:
            yield ray
        finally:
            ray.shutdown()


def family(root: int | None = None) -> list[int]:
    """This process and all its descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int(_stat(int(path.name))[1])
    found = [root or os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def family_cpu() -> float:
    """CPU seconds of this process and all its descendants so far."""
    total = 0
    for pid in family():
        with contextlib.suppress(OSError):
            total += sum(int(ticks) for ticks in _stat(pid)[11:13])
    return total / TICKS


def _stat(pid: int) -> list[str]:
    """The fields of /proc/pid/stat after the name: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def memory(pid: int | str = "self") -> dict[str, float]:
    """GB of memory: peak resident, current resident, and of that anonymous, files, and shared (object
    store)."""
    names = {
        "VmHWM": "peak",
        "VmRSS": "now",
        "RssAnon": "own",
        "RssFile": "files",
        "RssShmem": "shared",
    }
    text = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {names[k]: int(text[k].split()[0]) * 1024 / 1e9 for k in names if k in text}


def name_of(pid: int) -> str:
    """The command line of a process, which for a Ray worker describes its task."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def pids_of_workers(name: str = "ray::") -> list[int]:
    """The engine's worker processes."""
    return [
        pid for pid in family() if name_of(pid).startswith((f"{name}Actor", f"{name}MaxMargin"))
    ]


@contextlib.contextmanager
def machines_ray(
    n: int, object_store: int = 300_000_000, config: dict[str, Any] | None = None
) -> Iterator[Any]:
    """A cluster whose machines are raylets on this machine: a head without CPUs, and n with two each."""
    with _own_environment():
        import ray
        from ray.cluster_utils import Cluster

        head: dict[str, Any] = {
            "num_cpus": 0, "include_dashboard": False, "object_store_memory": object_store,
        }  # fmt: skip
        if config is not None:
            head["_system_config"] = config
        cluster = Cluster(initialize_head=True, head_node_args=head)
        nodes = [cluster.add_node(num_cpus=2, object_store_memory=object_store) for _ in range(n)]
        ray.init(cluster.address, log_to_driver=False, logging_level="warning")
        ray.benchmark_cluster = cluster, nodes
        try:
            yield ray
        finally:
            ray.shutdown()
            cluster.shutdown()


class Killer:
    """Kills a worker, or its machine, in the middle of the third product of a fit."""

    def __init__(self, ray: Any, what: str, after: float) -> None:
        self._ray, self._what, self._after, self._products = ray, what, after, 0
        self.done = False

    def __call__(self, method: str) -> None:
        if method == "line_evaluate":
            self._products += 1
            if self._products == 3:
                threading.Timer(self._after, self._kill).start()

    def _kill(self) -> None:
        victim = pids_of_workers()[0]
        if self._what == "worker":
            os.kill(victim, signal.SIGKILL)
        else:
            cluster, nodes = self._ray.benchmark_cluster
            node = next(n for n in nodes if victim in family(_raylet(n)))
            nodes.remove(node)
            cluster.remove_node(node, allow_graceful=False)
        self.done = True


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


@dataclass
class Recorder:
    """An engine that forwards all calls and records them, their sizes and their wall seconds."""

    engine: Any
    keep: bool = True
    sizes: bool = False
    #: called with the name of each call, before the call
    hook: Callable[[str], None] | None = None
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)
    #: (to a worker, from a worker) for each call
    bytes: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def durable(self) -> bool:
        return bool(self.engine.durable)

    def clear(self) -> None:
        self.calls, self.times, self.bytes = [], {}, {}

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds by kind of call."""
        return {what: sum(times) for what, times in self.times.items()}

    def open(self, factory: Any, specs: Any) -> Recorder:
        self.engine.open(factory, specs)
        return self

    def publish(self, array: Any) -> Any:
        began = time.perf_counter()
        handle = self.engine.publish(array)
        self._note("publish", began)
        return handle

    def reduce(self, method: str, *args: Any) -> Any:
        return self._call(self.engine.reduce, method, args)

    def gather(self, method: str, *args: Any) -> Any:
        return self._call(self.engine.gather, method, args)

    def close(self) -> None:
        self.engine.close()

    def _call(self, call: Any, method: str, args: tuple[Any, ...]) -> Any:
        if self.hook is not None:
            self.hook(method)
        began = time.perf_counter()
        answer = call(method, *args)
        self._note(method, began)
        if self.keep:  # copied, so that the object store can free them
            kept = [Handle(np.array(a.array)) if isinstance(a, Handle) else a for a in args]
            self.calls.append((method, tuple(kept)))
        if self.sizes:
            # in a sum every worker sends its own partial sum; in a gather, its share
            share = self.engine.n_workers if call == self.engine.gather else 1
            sent = sum(_size(a.array if isinstance(a, Handle) else a) for a in args)
            self.bytes.setdefault(method, []).append((sent, _size(answer) / share))
        return answer

    def _note(self, what: str, began: float) -> None:
        self.times.setdefault(what, []).append(time.perf_counter() - began)


def _size(value: Any) -> int:
    buffers: list[pickle.PickleBuffer] = []
    plain = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(plain) + sum(buffer.raw().nbytes for buffer in buffers)


def sparse_rows(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """CSR rows with uniformly distributed entries, and labels from a noisy linear rule."""
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, d, n * NONZEROS, dtype=np.int32)
    data = rng.standard_normal(n * NONZEROS, dtype=np.float32)
    X = sp.csr_matrix((data, indices, np.arange(0, n * NONZEROS + 1, NONZEROS)), shape=(n, d))
    X.sum_duplicates()
    w = rng.standard_normal(d)
    return X, np.where(X @ w + 2.0 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
