"""Fits whose process is killed by SIGKILL, 20 times in a row, go on from their checkpoints."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.nightly import first

from maxmargin.checkpoints import read_file, remove_leftovers, write_file

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "tests.interrupts.killed_fit"


@posix
@pytest.mark.parametrize("kind", first(1, ["tagger", "planes", "coordinate", "plain"]))
def test_twenty_kills_in_a_row(kind, tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", SCRIPT, kind, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    kills = report["kills"]
    assert len(kills) == 20
    assert {kill["signal"] for kill in kills} == {signal.SIGKILL}
    done, lower, upper = 0, -np.inf, np.inf
    for kill in kills:
        # every iteration but the one at work was in the file, and nothing that was in it before is lost
        assert kill["n_iter"] >= kill["reported"] - 1
        assert kill["n_iter"] > done
        assert kill["lower"] >= lower - 1e-12 * abs(lower)
        assert kill["upper"] <= upper
        done, lower, upper = kill["n_iter"], kill["lower"], kill["upper"]
    low, high = report["bounds"]
    assert report["stop"] == "gap"
    assert report["gap"] <= report["tol"]
    assert report["numbered"]
    assert report["old records"]
    assert report["n_iter"] >= done
    assert high == pytest.approx(report["recomputed"], rel=1e-9)
    assert high <= upper * (1 + 1e-12)
    assert low >= lower - 1e-12 * abs(lower)
    # both intervals hold the optimum
    fresh_low, fresh_high = report["fresh"]
    assert low <= fresh_high * (1 + 1e-12)
    assert fresh_low <= high * (1 + 1e-12)
    if kind in ("tagger", "plain"):  # working sets go on bit by bit
        assert report["straight"]
    leftovers = [name for name in report["files"] if name != "fit.checkpoint"]
    assert leftovers == []  # of killed writers: the next fit removes them


def _write_for_ever(path, write_end):
    k = 0
    while True:
        k += 1
        write_file(path, {"k": k}, {"k": k, "numbers": np.full(100_000, float(k))})
        os.write(write_end, b".")


@posix
def test_kills_in_the_middle_of_writing(tmp_path):
    path, rng, before = tmp_path / "c", np.random.default_rng(0), 0
    torn = 0
    for _ in range(20):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _write_for_ever(path, write_end)
            finally:
                os._exit(1)
        os.close(write_end)
        os.read(read_end, 1)
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        before = os.read(read_end, 10_000).count(b".") + 1
        os.close(read_end)
        about, tree = read_file(path)  # valid, whenever it happened
        assert about["k"] == tree["k"] >= before
        assert (tree["numbers"] == tree["k"]).all()
        torn += len(os.listdir(tmp_path)) - 1
        remove_leftovers(path)
        assert os.listdir(tmp_path) == ["c"]
    assert torn  # some writers were killed at work


_MEASURED = """
import resource, sys
import numpy as np
from pathlib import Path
from maxmargin.checkpoints import write_file

numbers = {str(k): np.ones(2_500_000) for k in range(10)}
write_file(Path(sys.argv[1]), {}, {"a few": np.ones(3)})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_file(Path(sys.argv[1]), {}, numbers)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is that of Linux")
def test_writing_copies_no_arrays(tmp_path):
    path = tmp_path / "c"
    command = [sys.executable, "-c", _MEASURED, path]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert path.stat().st_size > 200_000_000
    assert int(found.stdout) < 10_000  # kB
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask  # others read what one may let them read
