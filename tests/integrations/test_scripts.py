"""The scripts of examples/integrations can be read by the command that runs them, and are documented.

The scripts themselves need other packages: ``CI_STEPS=integrations .ci/run`` runs them.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.integrations import SCRIPTS, described, environment, mokapot_rows, run
from tests.conftest import ROOT

NAMES = sorted(script.stem for script in SCRIPTS.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_says_what_it_needs_and_is_documented(name: str) -> None:
    title, packages = described(SCRIPTS / f"{name}.py")
    assert packages[0].startswith("maxmargin")
    assert len(packages) > 1
    assert title
    assert f"integrations/{name}.py" in (ROOT / "docs" / "integrations.rst").read_text()
    assert f"{name}.py" in (ROOT / "benchmarks" / "results" / "integrations.md").read_text()


def test_a_script_without_its_package_ends_with_77() -> None:
    if find_spec("eli5") is not None:
        pytest.skip("eli5 is installed")
    done = subprocess.run(
        [sys.executable, SCRIPTS / "eli5_weights.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 77, done.stderr
    assert "pip install eli5" in done.stdout


def test_a_failing_script_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the environment of the tests in place of a new one."""
    monkeypatch.setattr("benchmarks.integrations.environment", lambda folder, packages: None)
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    python = tmp_path / "environment" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = tmp_path / "failing.py"
    for code, result, shown in [
        ("print('two'); print('it works')", "works", "it works"),
        ("assert 1 == 2, 'not equal'", "fails", "AssertionError: not equal"),
        ("import sys; print('needs x'); sys.exit(77)", "not installable here", "needs x"),
    ]:
        script.write_text(f'"""A title\n\n``pip install maxmargin x``\n"""\n{code}\n')
        cell = run(script, tmp_path / "environment", [])
        assert (cell["result"], cell["shown"]) == (result, shown)


def test_an_environment_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    problem = environment(tmp_path / "file" / "below", ["maxmargin", "--no-such-option"])
    assert problem


def test_the_table_of_mokapot_is_read() -> None:
    output = (
        "100 PSMs, 20 of them correct\n"
        "model                                  accepted  wrong  CPU s\n"
        "GridSearchCV                              18556  0.66%   15.9\n"
        "LinearSVCCV, search in every iteration    18535  1.00%    4.5\n"
        "one search per fold; 0.76 of the CPU time\n"
    )
    assert mokapot_rows(output) == [
        {"search": "GridSearchCV", "accepted PSMs": 18556, "wrong": "0.66%", "CPU s": 15.9},
        {
            "search": "LinearSVCCV, search in every iteration",
            "accepted PSMs": 18535,
            "wrong": "1.00%",
            "CPU s": 4.5,
        },
    ]
