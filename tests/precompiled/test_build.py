"""How functions are compiled ahead of time: what it needs of Numba, and that equal builds are equal."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
import pytest

from maxmargin.compiled.precompiled import precompiled, signatures

TOOLS = Path(__file__).resolve().parents[2] / "tools"
NUMBERS = {signature.function: f"_{signature.number}" for signature in signatures()}
#: one extension module with the functions of a few small files; `kernel_pairs` has exceptions, which name it
SMALL = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import build_kernels
import maxmargin.compiled.precompiled as table
FILES = ("distances", "vectors", "kernel_pairs")
chosen = [s for s in table.signatures() if s.function.split(".")[0] in FILES]
table.signatures = lambda: iter(chosen)
build_kernels.build_part(Path(sys.argv[1]), 0, 1)
"""


def test_numba_still_has_pycc():
    """Runs with the newest Numba, too (``tools/core_tests.py``)."""
    if importlib.util.find_spec("numba.pycc") is None:
        pytest.fail(
            f"Numba {metadata.version('numba')} has no numba.pycc: platform wheels need the version that is "
            "pinned in hatch_build.py, or plan B of decision 183 (tools/kernels_without_pycc.py)"
        )
    code = "import warnings; warnings.simplefilter('always'); import numba.pycc"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "NumbaPendingDeprecationWarning" in done.stderr, (
        "its removal has come closer: decision 183"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs gcc or clang")
@pytest.mark.skipif(not precompiled().functions, reason="compares with precompiled code")
def test_plan_b_gives_the_same_bits(tmp_path):
    tool = [sys.executable, TOOLS / "kernels_without_pycc.py", tmp_path, "vectors", "distances"]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("without_pycc*")
    spec = importlib.util.spec_from_file_location("without_pycc", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    indices = rng.permutation(1001).astype(np.int32)
    v, w, A, B = (
        rng.normal(size=1001),
        rng.normal(size=1001),
        rng.random((9, 7)),
        rng.random((8, 7)),
    )
    calls = {
        "vectors.dot": (indices, v, w),
        "vectors.add_scaled": (w, 0.3, indices, v),
        "vectors.add_scaled_dense": (w, -0.3, v),
        "distances.squared_distances": (A, B, np.zeros((9, 8))),
    }
    for name, arguments in calls.items():
        file, function = name.split(".")
        theirs, ours = (
            [x.copy() if isinstance(x, np.ndarray) else x for x in arguments] for _ in range(2)
        )
        expected = getattr(import_module(f"maxmargin.compiled.{file}"), function)(*theirs)
        assert getattr(module, NUMBERS[name])(*ours) == expected
        for x, y in zip(theirs, ours, strict=True):
            np.testing.assert_array_equal(x, y)
    with pytest.raises(TypeError, match="number of arguments"):
        getattr(module, NUMBERS["vectors.dot"])(v)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="the linker stores times")
def test_two_builds_are_equal_byte_for_byte(tmp_path):
    """As `tools/build_kernels.py` runs them: sets in names, addresses, and paths made them differ."""
    sys.path.insert(0, str(TOOLS))
    try:
        import build_kernels
    finally:
        sys.path.remove(str(TOOLS))
    found = set()
    for build in ("first", "second/and/deeper"):  # a copy of the sources, too
        tools, sources = tmp_path / build / "tools", tmp_path / build / "src"
        tools.mkdir(parents=True)
        shutil.copy(TOOLS / "build_kernels.py", tools)
        shutil.copytree(
            TOOLS.parent / "src", sources, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
        environment = {
            **build_kernels.environment(),
            "NUMBA_CACHE_DIR": str(tmp_path / build / "cache"),
            "PYTHONPATH": str(sources),
        }
        arguments = [sys.executable, "-c", SMALL, tmp_path / build, tools, sources]
        subprocess.run(arguments, env=environment, check=True)
        (path,) = (tmp_path / build).glob("_kernels_0*")
        found.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(found) == 1
