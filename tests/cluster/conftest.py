"""Clusters of several raylets on the loopback interface, and a look at their processes.

Ray listens on every network interface, so these tests run only where there is none but the loopback::

    tools/in_namespace python -m pytest tests/cluster
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _only_loopback() -> bool:
    """Whether no interface but the loopback is up."""
    with socket.socket() as s:
        for _, name in socket.if_nameindex():
            found = fcntl.ioctl(s, 0x8913, struct.pack("16sh14x", name.encode(), 0))
            if name != "lo" and struct.unpack("16sh14x", found)[1] & 1:
                return False
    return True


def pytest_collection_modifyitems(items):
    here = [item for item in items if Path(__file__).parent in Path(item.fspath).parents]
    if not here:
        return
    if not sys.platform.startswith("linux") or not _only_loopback():
        reason = "Ray listens on every interface: tools/in_namespace python -m pytest tests/cluster"
    elif importlib.util.find_spec("ray") is None:
        reason = 'Ray is not installed: pip install "maxmargin[ray]"'
    else:
        return
    for item in here:
        item.add_marker(pytest.mark.skip(reason=reason))


def processes(text: str, where: str = "cmdline") -> dict[int, str]:
    """Command lines, by pid, of the processes that have not ended and that have a text in a file of /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and text.encode() in (folder / where).read_bytes():
                found[int(folder.name)] = line.strip()
        except OSError:
            continue
    return found


def worker_pids() -> list[int]:
    """The processes of engines' workers, the oldest first."""
    return sorted(processes("ray::MaxMarginWorker"))


def kill_worker(which: int = 0) -> int:
    """SIGKILL one of the engines' workers; its pid."""
    pid = worker_pids()[which]
    os.kill(pid, signal.SIGKILL)
    return pid


def wait_until(what, seconds: float = 60.0) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not after {seconds} s"
        time.sleep(0.05)


class Machines:
    """A cluster whose machines are raylets here: a head without processors, and some with two each."""

    def __init__(self, n: int, **head: object) -> None:
        from ray.cluster_utils import Cluster

        # machines that are gone are noticed in seconds, not in half a minute
        quick = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_timeout_ms": 2000,
            "health_check_failure_threshold": 4,
        }
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick, **head}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self.nodes = [self.add() for _ in range(n)]

    def add(self):
        """One more machine."""
        return self._cluster.add_node(num_cpus=2, object_store_memory=200 * 2**20)

    def kill(self, node) -> None:
        """SIGKILL all processes of a machine."""
        self._cluster.remove_node(node, allow_graceful=False)
        if node in self.nodes:
            self.nodes.remove(node)

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="session")
def ray_environment():
    """What Ray reads when it is imported: a token of our own, and folders that are ours alone."""
    before = dict(os.environ)
    # Unix sockets have short paths
    folder = tempfile.mkdtemp(prefix="mm", dir="/tmp")
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ.update(
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(16),
        RAY_TMPDIR=folder,
        RAY_USAGE_STATS_ENABLED="0",
        PYTHONPATH=os.pathsep.join(paths),
    )
    os.environ.pop("RAY_ADDRESS", None)
    yield folder
    os.environ.clear()
    os.environ.update(before)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def machines(ray_environment):
    """A cluster with two machines to work on, to which this process is connected."""
    cluster = Machines(2)
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="warning")
    yield cluster
    ray.shutdown()
    cluster.close()
    wait_until(lambda: not processes("raylet"))


@pytest.fixture(scope="session")
def _engines(machines):
    kept = {}
    yield kept
    for engine in kept.values():
        engine.close()
    wait_until(lambda: not worker_pids())


@pytest.fixture
def make_engine(_engines):
    """Engines on the cluster. They are kept for the tests that come: a process takes seconds to start."""
    from maxmargin.engines import RayEngine

    def make(n_workers: int | None = None, threads: int | None = 1) -> RayEngine:
        key = n_workers, threads
        if key not in _engines:
            _engines[key] = RayEngine(n_workers, threads=threads)
        return _engines[key]

    return make
