"""The version is written in one place, and the files of a release agree with it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "check_release.py"


@pytest.fixture(scope="module")
def check_release():
    spec = importlib.util.spec_from_file_location("check_release", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_written_once(check_release):
    assert check_release.version() == maxmargin.__version__
    places = [
        path.relative_to(ROOT).as_posix()
        for path in [
            ROOT / "pyproject.toml",
            *(ROOT / "src").rglob("*.py"),
            *ROOT.glob("docs/*.py"),
        ]
        if re.search(
            r"^(__)?version(__)? *= *[\"']", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert places == ["src/maxmargin/_version.py"]


def test_the_recipe_for_conda_requires_what_the_project_requires(check_release):
    bounds = check_release.lowest(
        ["a>=1.2; python_version < '3.13'", "a>=2; python_version >= '3.13'", "b-c>=3"]
    )
    assert bounds == {"a": "1.2", "b-c": "3"}
    released = re.match(r"\d+\.\d+\.\d+", maxmargin.__version__).group()
    complaints = check_release._recipe(released)
    assert [text for text in complaints if "does not" in text] == []
    assert check_release._recipe("77.0.0") == ["conda/recipe.yaml has another version than 77.0.0"]


def test_a_tag_of_another_version_is_refused():
    run = subprocess.run(
        [sys.executable, SCRIPT, "--tag", "v77.0.0"], capture_output=True, text=True
    )
    assert run.returncode == 1
    assert "the tag is v77.0.0" in run.stderr
    assert "tests/released" not in run.stderr
