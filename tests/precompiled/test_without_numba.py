"""Where Numba is not installed, precompiled code is all there is, and errors say when more is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maxmargin.compiled.precompiled import precompiled

pytestmark = pytest.mark.skipif(
    not precompiled().functions, reason=f"needs precompiled code; it is {precompiled().reason}"
)
#: as if neither of them were installed
WITHOUT = """
import importlib.metadata, sys
sys.modules |= {"numba": None, "llvmlite": None}
found = importlib.metadata.version
def version(name):
    if name in ("numba", "llvmlite"):
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
import numpy as np
"""
FIT = """
import maxmargin
X, y = np.eye(4), [0, 1, 0, 1]
model = maxmargin.LinearSVC(loss="hinge", checkpoint=f"{sys.argv[1]}/half").fit(X, y)
model.save(f"{sys.argv[1]}/model")
assert (maxmargin.load(f"{sys.argv[1]}/model").predict(X) == y).all()
"""
CALL = """
from maxmargin.compiled import vectors
vectors.dot(np.arange(3, dtype=np.int32), np.arange(3), np.ones(3))
"""
OTHER = "import maxmargin.compiled.precompiled as p\np.stamp = lambda: 1\n"
COMMAND = "from maxmargin.command_line import main\nmain(['versions'])\n"
MISSING = "Numba is not installed: pip install 'maxmargin[compile]'"


def run(*code, arguments=()):
    """The exit code, the output, and the last line of errors of another process."""
    command = [sys.executable, "-c", "".join((WITHOUT, *code)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, (done.stderr.splitlines() or [""])[-1]


def test_fits_checkpoints_and_models_need_no_numba(tmp_path):
    assert run(FIT, arguments=[tmp_path]) == (0, "", "")


def test_other_types_say_that_they_need_it():
    code, _, said = run(CALL)
    assert code == 1
    assert said == (
        "ModuleNotFoundError: maxmargin.compiled.vectors.dot is called with the types "
        "int32[1C],int64[1C],float64[1C], for which this wheel of maxmargin has no compiled code. "
        + MISSING
    )


def test_code_that_cannot_be_used_says_that_it_needs_it():
    code, _, said = run(OTHER, "import maxmargin\nmaxmargin.LinearSVC")
    assert code == 1
    assert said == (
        "ModuleNotFoundError: the functions of maxmargin are compiled by Numba, because the "
        "precompiled code is of other sources. " + MISSING
    )


@pytest.mark.parametrize("before", ["", OTHER])
def test_versions_are_printed_in_any_case(before):
    code, out, said = run(before, COMMAND)
    assert (code, said) == (0, "")
    compiled = out.splitlines()[-1]
    assert compiled.endswith("pip install 'maxmargin[compile]'" if before else precompiled().reason)
    assert "llvmlite" not in out
