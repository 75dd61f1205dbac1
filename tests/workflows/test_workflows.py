"""What CI may pass, and what a release has to pass before it is published."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: the functions of .ci/run, without what it does
FUNCTIONS = 'eval "$(sed -n \'/^[a-z_]*() {/,/^}/p\' "$ROOT/.ci/run")"\nset -euo pipefail\n'
SUITES = {
    "the cluster": "run_cluster_tests 'not nightly'",
    "other versions": "core_tests 'newest Python' ''; cat \"$tmp/newest Python.log\"",
}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("ci", ["true", None])
def test_a_suite_that_did_not_run_fails_in_ci_only(tmp_path, suite, ci):
    (tmp_path / "tools").mkdir()
    denied = tmp_path / "tools" / "in_namespace"
    denied.write_text("#!/bin/sh\nexit 77\n")
    denied.chmod(0o755)
    environment = {**os.environ, "ROOT": str(ROOT), "tmp": str(tmp_path)}
    environment.pop("CI", None)
    if ci is not None:
        environment["CI"] = ci
    done = subprocess.run(
        ["bash", "-c", FUNCTIONS + SUITES[suite]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    log = tmp_path / "newest Python.log"
    assert "NOT RUN" in done.stdout + (log.read_text() if log.exists() else "")
    assert done.returncode == (0 if ci is None else 1), done


def workflow(name):
    return (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()


def test_nothing_is_published_before_the_checks():
    release = workflow("release")
    assert re.search(r"\n  checks:\n(    .*\n)*    uses: \./\.github/workflows/ci\.yml ", release)
    assert "\n  workflow_call:" in workflow("ci")
    publish = release[release.index("\n  publish:") :]
    assert "checks" in re.search(r"needs: \[(.*)\]", publish)[1].split(", ")


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_named_by_commit(path):
    """A tag can be moved to other code; the comment is for the reader and for the bot that updates both."""
    found = re.findall(r"uses: (.*)", path.read_text())
    assert found
    for name in found:
        assert name.startswith("./") or re.fullmatch(
            r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name
        ), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_only_publishing_may_do_more_than_read(path):
    text = path.read_text()
    assert "\npermissions: {}" in text
    granted = re.findall(r"\n    permissions:\n((?:      .*\n)+)", text)
    jobs = text[text.index("\njobs:") :]
    assert len(granted) == len(re.findall(r"\n  [\w-]+:(?: #.*)?\n", jobs))
    more = [grant.strip() for grant in granted if grant.strip() != "contents: read"]
    assert [grant.split(" #")[0] for grant in more] == ["id-token: write"] * (
        path.stem == "release"
    )


def test_ci_installs_locked_versions_of_what_developers_need():
    locked = (ROOT / ".ci" / "requirements.txt").read_text()
    names = set(re.findall(r"^([\w.-]+)==", locked, re.MULTILINE))
    assert {"numba", "numpy", "scikit-learn", "pytest", "mypy", "ruff", "zizmor", "sphinx"} <= names
    assert locked.count("--hash=sha256:") > len(names)
    assert "://" not in locked
