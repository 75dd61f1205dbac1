"""Results do not depend on what was compiled first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.nightly
def test_caches_filled_in_two_orders_give_the_same_bits(tmp_path):
    """Both caches are empty at first; ``maxmargin.compiled.jit`` says why the order could matter."""
    processes = [
        subprocess.Popen(
            [sys.executable, ROOT / "tools" / "golden_bits.py", *order],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / f"cache{k}")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k, order in enumerate(([], ["--backward"]))
    ]
    forward, backward = (sorted(process.communicate()[0].splitlines()) for process in processes)
    assert len(forward) > 70
    assert not [line for line in forward if line[40:].split()[-1] == "error"]
    assert forward == backward
