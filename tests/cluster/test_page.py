"""The example of the page "From laptop to cluster", as a reader runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.conftest import processes, wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_the_example_runs_on_a_cluster_of_its_own(ray_environment, tmp_path):
    script = [sys.executable, str(ROOT / "examples" / "scale" / "laptop_to_cluster.py"), "--ray"]
    done = subprocess.run(
        [*script, "--data", str(tmp_path / "rows")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines if line.endswith("bit-identical")] == [
        "one thread",
        "threads",
        "processes",
        "rows on disk",
        "Ray, rows in memory",
        "Ray, rows on disk",
    ]
    assert "DIFFERENT" not in done.stdout
    # nothing is left of it but what other tests started
    wait_until(lambda: not processes(str(script[1])))


def test_the_page_shows_the_parts_of_the_script_that_are_run():
    page = (ROOT / "docs" / "cluster.rst").read_text()
    script = (ROOT / "examples" / "scale" / "laptop_to_cluster.py").read_text()
    for mark in ("one machine", "cluster"):
        assert f"# begin: {mark}" in page
        assert f"# begin: {mark}" in script
        assert f"# end: {mark}" in script
