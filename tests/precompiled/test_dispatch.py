"""Functions find the precompiled code for the types of their arguments, and compile for other types."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from maxmargin.compiled import interior, vectors
from maxmargin.compiled.precompiled import is_current, precompiled, spell

needs_precompiled = pytest.mark.skipif(
    not precompiled().functions, reason=f"needs precompiled code; it is {precompiled().reason}"
)
INDICES, VALUES, W = (
    np.arange(3, dtype=np.int32),
    np.array([1.0, 2.0, 3.0]),
    np.array([1.0, 10.0, 100.0]),
)


@pytest.fixture
def compiled(caplog):
    """The messages about what was compiled."""
    caplog.set_level(logging.INFO, "maxmargin.compiled.function")
    return lambda: [r.getMessage() for r in caplog.records if "compiling" in r.getMessage()]


@needs_precompiled
def test_a_known_type_is_found_and_remembered(compiled):
    assert vectors.dot(INDICES, VALUES, W) == 321.0
    found = len(vectors.dot.known)
    assert vectors.dot(INDICES, VALUES, W) == 321.0
    assert len(vectors.dot.known) == found > 0
    assert compiled() == []


@needs_precompiled
def test_arguments_may_be_named():
    assert vectors.dot(INDICES, w=W, values=VALUES) == 321.0
    with pytest.raises(TypeError, match="missing a required argument: 'w'"):
        vectors.dot(INDICES, VALUES)
    with pytest.raises(TypeError, match="too many"):
        vectors.dot(INDICES, VALUES, W, W)


@needs_precompiled
def test_an_array_that_is_not_written_may_be_read_only(compiled):
    arrays = [x.copy() for x in (INDICES, VALUES, W)]
    for x in arrays:
        x.flags.writeable = False
    assert vectors.dot(*arrays) == 321.0
    assert compiled() == []


@needs_precompiled
def test_an_array_that_is_written_may_not(compiled):
    out = np.zeros(3)
    out.flags.writeable = False
    with pytest.raises(Exception, match=r"(?s)Cannot modify readonly array"):
        vectors.add_scaled(out, 1.0, INDICES, VALUES)
    assert (out == 0.0).all()
    assert len(compiled()) == 1


@needs_precompiled
def test_views_of_files_are_found_by_their_types(tmp_path, compiled):
    """A class of arrays other than NumPy's own says nothing about the type of the numbers."""
    for dtype in (np.float64, np.int16):
        np.save(tmp_path / "x.npy", np.arange(3, dtype=dtype))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        assert isinstance(mapped, np.memmap)
        assert vectors.dot(INDICES, mapped, W) == 210.0
    assert len(compiled()) == 1


@needs_precompiled
def test_other_types_are_compiled(compiled):
    assert vectors.dot(INDICES, VALUES.astype(np.int32), W) == 321.0
    assert compiled() == ["compiling vectors.dot for int32[1C],int32[1C],float64[1C]"]


NESTED = """
from maxmargin.compiled._dispatch import Dispatcher


class Recorder(Dispatcher):
    def missing(self, key, args, named):
        return key


nested = ()
sizes = []
for depth in range(300):
    key = Recorder()(nested)
    sizes.append(0 if key is None else len(key))
    nested = (nested,)
for arguments in range(300):
    key = Recorder()(*[1.0] * arguments, nested)
    assert key is None
assert max(sizes) <= 1024, max(sizes)
print(sum(size > 0 for size in sizes))
"""


@needs_precompiled
def test_deep_tuples_have_no_key():
    """The end of each tuple was written past the buffer of 1,024 bytes."""
    if not is_current(import_module("maxmargin.compiled._dispatch")):
        pytest.skip("_dispatch is of another source: run tools/build_kernels.py")
    done = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 50 < int(done.stdout) < 100


def test_types_are_spelled_as_in_the_table():
    assert spell(np.zeros((2, 3), np.float32)) == "float32[2C]"
    assert spell(np.zeros((2, 3), order="F")) == "float64[2F]"
    assert spell(np.zeros((4, 6))[::2, ::2]) == "float64[2A]"
    assert spell(np.zeros(3, ">f8")) != spell(np.zeros(3, "<f8"))
    assert [spell(x) for x in (1, 1.0, True, None, np.int32(1))] == [
        "int64",
        "float64",
        "bool",
        "none",
        "int32",
    ]
    assert spell((1, np.zeros(2))) == "(int64,float64[1C])"


def test_functions_are_pickled_by_name():
    again = pickle.loads(pickle.dumps(interior.summary))
    assert again(*[np.ones(2)] * 6) == interior.summary(*[np.ones(2)] * 6)


REASON = "from maxmargin.compiled.precompiled import precompiled; print(precompiled().reason)"


def reason(before: str = "", **environment: str) -> str:
    """What another process says about its compiled code."""
    code = f"{before}\n{REASON}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@needs_precompiled
def test_the_environment_chooses_numba():
    assert reason(MAXMARGIN_JIT="1") == "compiled by Numba, because MAXMARGIN_JIT is set"
    assert reason(MAXMARGIN_JIT="0").startswith("precompiled for ")


@needs_precompiled
def test_code_of_other_sources_is_refused():
    other = "import maxmargin.compiled.precompiled as p; p.stamp = lambda: 1"
    assert reason(other) == "compiled by Numba, because the precompiled code is of other sources"


@needs_precompiled
def test_an_old_processor_is_refused_before_the_code_is_loaded():
    old = """
import sys
import maxmargin.compiled._dispatch as dispatch
dispatch.IS_SUPPORTED = False
from maxmargin.compiled.precompiled import precompiled
assert not precompiled().functions
assert "maxmargin.compiled._kernels_0" not in sys.modules
"""
    assert reason(old).startswith("compiled by Numba, because this processor is not ")


def test_the_table_names_functions_and_as_many_types_as_they_have_arguments():
    from maxmargin.compiled.precompiled import signatures

    for signature in signatures():
        file, name = signature.function.split(".")
        function = getattr(import_module(f"maxmargin.compiled.{file}"), name).py_func
        inner = 0
        types = 1
        for letter in signature.types:
            inner += (letter == "(") - (letter == ")")
            types += letter == "," and inner == 0
        assert types == function.__code__.co_argcount, signature


@needs_precompiled
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-x86_64 of qemu-user")
@pytest.mark.parametrize(("processor", "said"), [("Nehalem", "compiled"), ("Haswell", "precomp")])
def test_an_emulated_processor(processor, said):
    """A real one without AVX2 would end with an illegal instruction."""
    done = subprocess.run(
        ["qemu-x86_64", "-cpu", processor, os.path.realpath(sys.executable), "-c", REASON],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(said), done.stderr
