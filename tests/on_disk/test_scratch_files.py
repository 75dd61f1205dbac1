"""Numbers per row of data on disk are in temporary files: same bits, little memory, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxmargin import LinearSVC, data
from maxmargin.files import scratch
from maxmargin.files.scratch import ScratchPool, scratch_zeros
from maxmargin.solvers import CuttingPlane, DualCoordinate


def test_arrays_are_zero_apart_and_without_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "SMALL", 1)
    monkeypatch.setattr(scratch, "LARGE", 2**15)
    monkeypatch.setattr(scratch, "SLAB", 2**16)
    monkeypatch.setattr(scratch, "_current", None)
    arrays = [scratch_zeros((n, 2)) for n in (1, 1000, 3000, 5)]
    arrays.append(scratch_zeros((7,), np.int8))
    for k, array in enumerate(arrays):
        assert not array.any()
        array[...] = k + 1
    for k, array in enumerate(arrays):
        assert (array == k + 1).all()
    assert list(tmp_path.iterdir()) == []
    assert scratch_zeros((0, 3)).shape == (0, 3)


def test_released_arrays_are_used_again():
    pool = ScratchPool()
    first = pool.empty_like(np.zeros(10))
    assert pool.empty_like(np.zeros(10)) is not first
    pool.release(first)
    assert pool.empty_like(np.zeros(11)).shape == (11,)
    assert pool.empty_like(np.zeros(10)) is first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_its_own_file():
    n = 2**18
    mine = scratch_zeros(n)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        scratch_zeros(n)[:] = 1.0
        os.write(write, b"x")
        os._exit(0)
    os.read(read, 1)
    os.waitpid(pid, 0)
    later = scratch_zeros(n)
    assert not mine.any()
    assert not later.any()


@pytest.mark.parametrize("solver", [CuttingPlane(), DualCoordinate(max_cached=500)])
@pytest.mark.parametrize("classes", [2, 3])
def test_bits_do_not_depend_on_where_scores_are(tmp_path, monkeypatch, solver, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = (X[:, :classes] + rng.normal(size=(20_000, classes))).argmax(axis=1)
    data.write(tmp_path / "rows", [(X, y)])
    fits = []
    for smallest in (2**40, 1):
        monkeypatch.setattr("maxmargin.risks.scores.shard.FROM_ROWS", smallest)
        monkeypatch.setattr(scratch, "SMALL", smallest)
        svc = LinearSVC(C=1e-3, solver=solver, tol=1e-4, loss="hinge")
        fits.append(svc.fit(data.open(tmp_path / "rows")))
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].objective_ == fits[1].objective_
    assert fits[0].lower_bound_ == fits[1].lower_bound_


def run(code: str, *args: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PEAK = """
import sys, threading, time
from maxmargin import LinearSVC, data
from maxmargin.solvers import CuttingPlane

def anonymous():
    status = open("/proc/self/status").read()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024

rows = data.open(sys.argv[1])
LinearSVC(C=1e-3, solver=CuttingPlane()).fit([[1.0, 2.0], [0.0, 1.0]], [1, -1])
before, peak = anonymous(), [0.0]
def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
svc = LinearSVC(C=1e-6, solver=CuttingPlane()).fit(rows)
print(svc.n_iter_, peak[0] - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_does_not_hold_the_scores(tmp_path):
    """Two scores per row would take 96 MB."""
    rng = np.random.default_rng(0)

    def batches() -> Any:
        for _ in range(12):
            X = rng.normal(size=(500_000, 2)).astype(np.float32)
            yield X, np.where(X[:, 0] + rng.normal(size=len(X)) > 0, 1, -1)

    data.write(tmp_path / "rows", batches())
    done = run(PEAK, tmp_path / "rows")
    assert done.returncode == 0, done.stderr
    iterations, megabytes = map(float, done.stdout.split())
    assert iterations >= 2
    assert megabytes < 60


FULL = """
import resource
from maxmargin.files.scratch import scratch_zeros
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
array = scratch_zeros(2**20)
array[:] = 1.0
print(array.base)
"""


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be reserved")
def test_without_space_arrays_are_in_memory_and_a_warning_names_the_folder():
    done = run(FULL)
    assert done.returncode == 0
    assert done.stdout.strip() == "None"
    assert "RuntimeWarning: there is no space for 8 MB" in done.stderr
    assert "Set TMPDIR to a folder with more space" in done.stderr
