"""With precompiled code, first fits and stored models do not import Numba, even if nothing is writable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from benchmarks.first_fit import FITS

from maxmargin.compiled.precompiled import precompiled

pytestmark = pytest.mark.skipif(
    not precompiled().functions, reason=f"needs precompiled code; it is {precompiled().reason}"
)
CODE = """
import sys, warnings
warnings.simplefilter("ignore")
import maxmargin
from benchmarks.first_fit import FITS
for k, name in enumerate(FITS):
    work, path = FITS[name](), f"{sys.argv[2]}/{k}"
    if sys.argv[1] == "fit":
        work().save(path)
    else:
        maxmargin.load(path).predict(work.X)
    print(name, "numba" in sys.modules)
"""


def test_no_estimator_imports_numba(tmp_path):
    for what in ("fit", "load"):
        done = subprocess.run(
            [sys.executable, "-c", CODE, what, str(tmp_path)],
            env={**os.environ, "HOME": "/proc/nowhere"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [f"{name} False" for name in FITS]
        assert done.stderr == ""
