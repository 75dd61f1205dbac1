"""The tutorial from end to end runs as it stands: search, certificate, service, load, and prior."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "tutorial" / "tutorial.py"


@pytest.mark.slow
def test_the_tutorial_runs() -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    done = subprocess.run(
        [sys.executable, SCRIPT], capture_output=True, text=True, env={**os.environ}, timeout=600
    )
    assert done.returncode == 0, done.stderr
    low, high = re.search(r"([\d.]+) <= optimum <= ([\d.]+), exact", done.stdout).groups()  # type: ignore[union-attr]
    assert 0 < float(low) <= float(high) <= 1.0002 * float(low)
    assert "1000 requests" in done.stdout
    assert re.search(r"updated\s+0\.9\d\d, weights moved", done.stdout)
