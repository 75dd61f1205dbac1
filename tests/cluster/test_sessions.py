"""Beginnings and ends: refusals without a token, nothing left behind, a small object store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from tests.cluster.conftest import processes, wait_until, worker_pids

from maxmargin.engines import ray_connection


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mm", dir="/tmp", ignore_cleanup_errors=True)


@pytest.fixture
def folder(ray_environment):
    """A place for a session's files; processes of the session have it in their environment."""
    with _folder() as path:
        yield path


def _start(script: str, folder: str, **environment: str) -> subprocess.Popen[str]:
    path = Path(folder) / "script.py"
    path.write_text(textwrap.dedent(script))
    with open(Path(folder) / "stderr", "wb") as errors:
        return subprocess.Popen(
            [sys.executable, str(path)],
            env={**os.environ, "RAY_TMPDIR": folder, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def _send_order(process: subprocess.Popen[str], order: str) -> None:
    process.stdin.write(order + "\n")
    process.stdin.flush()


def _opened(process: subprocess.Popen[str], folder: str) -> None:
    """Wait until the script says that its engine is open."""
    line = process.stdout.readline()
    if not line.startswith("open"):
        process.kill()
        pytest.fail(line + (Path(folder) / "stderr").read_text())


def _finished(process: subprocess.Popen[str], folder: str) -> str:
    try:
        text, _ = process.communicate(timeout=150.0)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, text + (Path(folder) / "stderr").read_text()
    return text


LOCAL = """
import signal
import sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it

from maxmargin.engines import make_engine
from tests.cluster.shards import Part

assert "ray" not in sys.modules
engine = make_engine(1, "ray").open(Part, [1, 2, 3])
assert engine.gather(Part.value) == [Part(k).value() for k in (1, 2, 3)]
print("open", flush=True)
for order in sys.stdin:
    if order == "work\\n":
        try:
            engine.reduce(Part.wait, 300.0)
        except KeyboardInterrupt:
            found = engine.gather(Part.value)
            print("interrupted", found == [Part(k).value() for k in (1, 2, 3)], flush=True)
    else:
        engine.close()
        engine.close()
        print("closed", flush=True)
"""


def _start_local(folder: str) -> subprocess.Popen[str]:
    """A script with a local cluster and a home without a token."""
    home = Path(folder) / "home"
    home.mkdir()
    process = _start(LOCAL, folder, HOME=str(home), RAY_AUTH_TOKEN="")
    _opened(process, folder)
    return process


def _work(process: subprocess.Popen[str], folder: str) -> None:
    """Let a worker of this script, and of no other, begin to work."""
    _send_order(process, "work")
    wait_until(
        lambda: any(
            "ray::MaxMarginWorker.sums" in line for line in processes(folder, "environ").values()
        )
    )


@pytest.fixture(scope="module")
def dead_driver(ray_environment):
    """The folder of a script that was killed while its workers worked."""
    with _folder() as path:
        process = _start_local(path)
        assert len(processes(path, "environ")) > 4
        _work(process, path)
        process.kill()
        process.wait()
        yield path


def test_a_local_cluster_ends_with_its_driver(dead_driver):
    # all but two agents, which try for a minute to tell that the rest is gone
    wait_until(lambda: all("Agent" in line for line in processes(dead_driver, "environ").values()))


def test_a_new_token_is_for_nobody_else_to_read(tmp_path):
    path = tmp_path / ".ray" / "auth_token"
    before = os.umask(0)
    try:
        ray_connection.create_token(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    token = path.read_text()
    assert len(token) >= 32
    ray_connection.create_token(path)
    assert path.read_text() == token


@pytest.mark.nightly
def test_a_local_cluster_survives_ctrl_c_and_ends_with_the_engine(folder):
    process = _start_local(folder)
    # a token was made, for nobody else to read
    token = Path(folder) / "home" / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o777 == 0o600
    _work(process, folder)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
    assert process.stdout.readline() == "interrupted True\n"
    _send_order(process, "close")
    assert process.stdout.readline() == "closed\n"
    # all has ended but the script, which waits for orders. Ray gives the raylet one second to end the workers
    # and agents; if that was too short it is killed, and they end when they notice
    wait_until(lambda: set(processes(folder, "environ")) == {process.pid}, 90.0)
    assert process.poll() is None
    _finished(process, folder)


@pytest.mark.nightly
def test_workers_of_a_dead_driver_end_and_the_cluster_lives(machines, folder):
    script = """
    import sys
    from maxmargin.engines import make_engine
    from tests.cluster.shards import Part

    engine = make_engine(1, "ray:" + sys.stdin.readline().strip()).open(Part, [1, 2, 3])
    print("open", flush=True)
    engine.reduce(Part.wait, 600.0)
    """
    before = set(worker_pids())
    process = _start(script, folder)
    _send_order(process, machines.address)
    _opened(process, folder)
    assert len(set(worker_pids()) - before) == 1
    process.kill()
    process.wait()
    wait_until(lambda: set(worker_pids()) <= before)


def test_without_a_token_nothing_is_started(folder):
    script = """
    import os, sys
    from maxmargin.engines import RayEngine

    def refused(address=None):
        try:
            RayEngine(2, address).open(list, [1, 2])
        except RuntimeError as error:
            return "RAY_AUTH_MODE=token in the environment before Ray is imported" in str(error)

    print(refused(), refused("127.0.0.1:6379"), "ray" in sys.modules)
    del os.environ["RAY_AUTH_MODE"]
    import ray
    print(refused("127.0.0.1:6379"), ray.is_initialized())
    """
    text = _finished(_start(script, folder, RAY_AUTH_MODE="disabled"), folder)
    assert text.split() == ["True", "True", "False", "True", "False"], text


@pytest.mark.nightly
def test_a_cluster_without_a_token_is_refused(folder):
    script = """
    import os
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import subprocess, sys
    import ray
    from maxmargin.engines import RayEngine

    ray.init(num_cpus=1, object_store_memory=100 * 2**20, include_dashboard=False)
    os.environ["RAY_AUTH_MODE"] = "token"  # too late
    engine = RayEngine(1)
    try:
        engine.open(list, [1, 2])
    except RuntimeError as error:
        print("here: off" if "is off in this process" in str(error) else error)
    driver = '''
    import sys
    from maxmargin.engines import RayEngine
    try:
        RayEngine(1, sys.argv[1]).open(list, [1, 2])
    except RuntimeError as error:
        print("there: off" if "without token authentication" in str(error) else error, flush=True)
    '''
    import textwrap
    address = ray.get_runtime_context().gcs_address
    subprocess.run([sys.executable, "-c", textwrap.dedent(driver), address])
    """
    text = _finished(_start(script, folder), folder)
    assert "here: off" in text
    assert "there: off" in text


@pytest.mark.nightly
def test_blocks_that_do_not_fit_into_the_object_store_and_a_shutdown(folder):
    script = """
    import numpy as np
    import ray
    from maxmargin.core.summation import tree_sum
    from maxmargin.engines import RayEngine
    from tests.cluster.shards import Part

    ray.init(
        num_cpus=2,
        object_store_memory=80 * 10**6,
        include_dashboard=False,
        log_to_driver=False,
        # what finds no room goes to the disk at once: by default each block waits two seconds for room
        _system_config={"oom_grace_period_s": 0},
    )
    engine = RayEngine(2)
    engine.open(Part, [np.full(1_250_000, float(k)) for k in range(12)])  # 120 MB
    assert engine.gather(Part.summary) == [(1_250_000, k * 1.25e6) for k in range(12)]
    parts = [Part(np.full(1_250_000, float(k))) for k in range(12)]
    w = np.random.default_rng(0).normal(size=1_500_000)
    for step in range(3):  # 12 MB out and 24 MB and more back, each time
        handle = engine.publish(w + step)
        expected = tree_sum([part.times(w + step) for part in parts])
        assert engine.reduce(Part.times, handle).tobytes() == expected.tobytes()
    from maxmargin import LinearSVC
    from maxmargin.engines import SerialEngine
    from maxmargin.solvers import CuttingPlane

    X = np.random.default_rng(1).normal(size=(30_000, 500))  # another 120 MB
    y = X[:, 0] + X[:, 1] > 0.5
    fits = [
        LinearSVC(C=1e-3, solver=CuttingPlane(), engine=where).fit(X, y) for where in (engine, SerialEngine())
    ]
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()
    assert fits[0].history_[-1]["gap"] == fits[1].history_[-1]["gap"]
    print("same bits")
    try:
        RayEngine(1, "127.0.0.1:1").open(Part, [1])
    except RuntimeError as error:
        assert "only one connection is possible" in str(error)
        print("elsewhere")
    ray.shutdown()
    try:
        engine.reduce(Part.value)
    except RuntimeError as error:
        assert "call open() first" in str(error)
        print("told")
    assert not ray.is_initialized()
    """
    text = _finished(_start(script, folder), folder)
    assert text.split("\n")[:3] == ["same bits", "elsewhere", "told"]
    wait_until(lambda: not processes(folder, "environ"), 90.0)


@pytest.mark.nightly
def test_at_last_nothing_is_left_of_a_dead_driver(dead_driver):
    wait_until(lambda: not processes(dead_driver, "environ"), 90.0)
