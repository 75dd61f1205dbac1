"""A fit on three times as much data as the process may hold, in a process that is really limited."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxmargin.data

ROWS, FEATURES, ALLOWED = 10_000_000, 40, 500_000_000

FIT = """
import json, re, resource, sys, threading
path, allowed = sys.argv[1], int(sys.argv[2])
if allowed:
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))  # private memory; mapped files do not count
import maxmargin.data
from maxmargin import LinearSVC

def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

peak = 0
def look(record):
    global peak
    peak = max(peak, anonymous())

data = maxmargin.data.open(path)
svc = LinearSVC(C=1.0 / data.shape[0], callbacks=[look]).fit(data)
few = min(100000, data.shape[0])
accuracy = svc.score(data.block(0, few).X, data.y[0:few])
print(json.dumps({"gap": svc.gap_, "peak": peak, "objective": svc.objective_,
                  "lower": svc.lower_bound_, "accuracy": float(accuracy)}))
"""


def batches(n: int, rows: int = 250_000) -> Iterator[tuple[Any, Any]]:
    """Rows that differ, made quickly."""
    rng = np.random.default_rng(0)
    block = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    noise = rng.standard_normal(rows).astype(np.float32)
    w = rng.standard_normal(FEATURES).astype(np.float32)
    for k in range(n // rows):
        X = np.roll(block, k, axis=1) * np.float32(1.0 + 0.02 * k)
        yield X, (X @ w + 3.0 * np.roll(noise, k) > 0.0).astype(np.int8)


def fit(path: Path, allowed: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(path), str(allowed)],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="limits of private memory are Linux's")
def test_ten_million_rows_in_half_a_gigabyte(tmp_path: Path) -> None:
    # compiling takes more memory than the fit: what is compiled here is loaded there
    fit(Path(maxmargin.data.write(tmp_path / "few", batches(100_000, 25_000)).path), 0)
    data = maxmargin.data.write(tmp_path / "many", batches(ROWS))
    assert 4 * FEATURES * data.shape[0] >= 3 * ALLOWED
    found = fit(tmp_path / "many", ALLOWED)
    assert found["gap"] <= 1e-3
    assert 0.0 < found["lower"] <= found["objective"]
    assert found["accuracy"] > 0.75
    assert found["peak"] <= 300e6 + 24 * ROWS
    assert found["peak"] < ALLOWED
