"""Processes: the contract of engines, one error, dead workers replaced, nothing left."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from itertools import pairwise
from pathlib import Path

import pytest
from tests.contracts.engine import check_engine
from tests.slow_tasks import Deadly, Failing, Sleepy, examples
from tests.tiny_tasks import TinyMulticlass

from maxmargin import StructuredSVM
from maxmargin.engines import ProcessEngine, SerialEngine, make_engine, processes


@pytest.fixture(scope="module")
def engine():
    with_two = ProcessEngine(2)
    yield with_two
    with_two.close()
    assert not multiprocessing.active_children()


def test_the_contract():
    check_engine(lambda: ProcessEngine(2))
    assert not multiprocessing.active_children()


@pytest.mark.nightly
def test_two_workers_call_the_oracle_at_the_same_time_by_default():
    """Sleeping takes no processor, so this holds on a busy machine, too."""
    X, y = examples(80)
    took = []
    for n_jobs in (1, 2):
        svm = StructuredSVM(Sleepy(0.02), 0.1, tol=0.05, engine="processes", n_jobs=n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            svm.fit(X, y)
        took.append(svm.history_[-1]["elapsed"])
    assert took[1] < 0.75 * took[0]


def test_an_error_is_raised_once_with_its_example(engine):
    X, y = examples(seven=13)
    with pytest.raises(LookupError, match="no answer for seven") as caught:
        StructuredSVM(Failing(), oracle="expensive", engine=engine).fit(X, y)
    notes = " ".join(caught.value.__notes__)
    assert "example 13" in notes
    assert "shard" in notes
    X, y = examples()
    assert StructuredSVM(TinyMulticlass(), oracle="expensive", engine=engine).fit(X, y).converged_


def test_a_killed_worker_is_replaced(engine, tmp_path):
    X, y = examples(seven=13)
    counter = tmp_path / "deaths"
    counter.touch()
    svm = StructuredSVM(Deadly(str(counter)), oracle="expensive", engine=engine).fit(X, y)
    assert counter.stat().st_size == 1
    calm = StructuredSVM(TinyMulticlass(), oracle="expensive").fit(X, y)
    assert svm.coef_.tobytes() == calm.coef_.tobytes()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state is read from /proc")
def test_a_stopped_worker_is_replaced(engine, tmp_path, monkeypatch, caplog):
    """The process waits for a signal that does not come, and never answers."""
    monkeypatch.setattr(processes, "LOOK", 0.1)
    monkeypatch.setattr(processes, "LOOKS", 3)
    X, y = examples(seven=13)
    counter = tmp_path / "stops"
    counter.touch()
    task = Deadly(str(counter), by=signal.SIGSTOP)
    svm = StructuredSVM(task, oracle="expensive", engine=engine).fit(X, y)
    assert counter.stat().st_size == 1
    assert "was stopped by a signal during a call (1 of at most 3 times)" in caplog.text
    calm = StructuredSVM(TinyMulticlass(), oracle="expensive").fit(X, y)
    assert svm.coef_.tobytes() == calm.coef_.tobytes()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state is read from /proc")
def test_a_worker_that_goes_on_is_kept(engine, tmp_path, monkeypatch, caplog):
    """As after Ctrl-Z, which stops all processes of a terminal, and ``fg``."""
    monkeypatch.setattr(processes, "LOOK", 0.1)
    X, y = examples(seven=13)
    counter = tmp_path / "stops"
    counter.touch()

    def go_on():
        while not counter.stat().st_size:
            time.sleep(0.01)
        time.sleep(0.3)
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGCONT)

    other = threading.Thread(target=go_on, daemon=True)
    other.start()
    task = Deadly(str(counter), by=signal.SIGSTOP)
    assert StructuredSVM(task, oracle="expensive", engine=engine).fit(X, y).converged_
    other.join()
    assert "stopped" not in caplog.text


def test_a_worker_that_always_dies_is_given_up(engine, tmp_path):
    X, y = examples(seven=13)
    counter = tmp_path / "deaths"
    counter.touch()
    with pytest.raises(RuntimeError, match="ended 3 times"):
        StructuredSVM(Deadly(str(counter), 100), oracle="expensive", engine=engine).fit(X, y)
    assert counter.stat().st_size == 3


def test_what_cannot_be_imported_is_explained(engine):
    class Local(TinyMulticlass):
        pass

    X, y = examples()
    with pytest.raises(Exception, match=r"Local|pickle"):
        StructuredSVM(Local(), engine=engine).fit(X, y)


def test_oracles_run_at_the_same_time(engine, tmp_path):
    X, y = examples(16)
    log = tmp_path / "log"
    StructuredSVM(Sleepy(0.05, str(log)), oracle="expensive", engine=engine, max_iter=1).fit(X, y)
    calls = [line.split() for line in log.read_text().splitlines()]
    assert len({worker for worker, _, _ in calls}) == 2
    spans = sorted((float(begin), float(end)) for _, begin, end in calls)
    overlaps = sum(later[0] < earlier[1] for earlier, later in pairwise(spans))
    assert overlaps >= len(calls) // 4


def test_choice():
    assert isinstance(make_engine(2, "processes"), ProcessEngine)
    assert isinstance(make_engine(None, "processes"), SerialEngine)
    with pytest.raises(ValueError, match="'threads', 'processes'"):
        make_engine(2, "machines")
    with pytest.raises(ValueError, match="at least 1"):
        ProcessEngine(0)


def _living(group):
    """Processes of a group that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, own = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(own) == group and state not in "ZX":
            found.append((folder.name, (folder / "cmdline").read_bytes()))
    return found


SCRIPT = """
import sys, threading, signal, time, multiprocessing
signal.signal(signal.SIGINT, signal.default_int_handler)
from maxmargin import StructuredSVM
from tests.slow_tasks import Sleepy, examples
if __name__ == "__main__":
    X, y = examples(12)
    def callback(record):
        pass
    callback.on_oracle = lambda done, total: (print("asked", done, total, flush=True))
    try:
        StructuredSVM(Sleepy(0.3), 10.0, tol=1e-9, oracle="expensive", engine="processes", n_jobs=2,
                      callbacks=[callback]).fit(X, y)
    except KeyboardInterrupt as error:
        svm = error.estimator
    print("stop", svm.stop_reason_, svm.lower_bound_ <= svm.objective_, flush=True)
    print("left", len(multiprocessing.active_children()), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
def test_ctrl_c_leaves_no_process_behind(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(textwrap.dedent(SCRIPT))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )
    lines = [process.stdout.readline() for _ in range(2)]
    assert all(line.startswith("asked") for line in lines)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
    rest, _ = process.communicate(timeout=120)
    assert "stop interrupted True" in rest
    assert "left 0" in rest
    # the standard library's own tracker of resources ends a moment after its parent
    deadline = time.monotonic() + 20.0
    while _living(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _living(process.pid)
