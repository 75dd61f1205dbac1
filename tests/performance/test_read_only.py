"""The library works where no folder is writable, as in a container with a read-only file system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin
from maxmargin.compiled.precompiled import precompiled

#: a read-only bind of the sources, in a mount namespace that ends with the process
BIND = 'mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME" && exec "$@"'
USE = """
import numpy as np
from maxmargin import LinearSVC
from maxmargin.compiled.vectors import dot
print(dot(np.arange(3, dtype=np.int32), np.ones(3), np.ones(3)))
"""


def use_read_only(**more):
    """Use the library where nothing is writable."""
    home = str(Path(maxmargin.__file__).parents[1])
    names = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "IPYTHONDIR")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"HOME": home, "PYTHONPATH": home, "PYTHONDONTWRITEBYTECODE": "1", **more}
    namespace = ["unshare", "--map-root-user", "--mount", "bash", "-c", BIND, "bash"]
    if subprocess.run([*namespace, "true"], env=environment, capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    done = subprocess.run(
        [*namespace, sys.executable, "-c", USE], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "3.0"
    return done.stderr


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare of util-linux")
def test_read_only_sources_and_an_unwritable_home_give_one_warning():
    warned = use_read_only(MAXMARGIN_JIT="1")
    assert warned.count("UserWarning: compiled code cannot be cached") == 1


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare of util-linux")
def test_precompiled_code_needs_no_cache():
    if not precompiled().functions:
        pytest.skip(f"needs precompiled code; it is {precompiled().reason}")
    assert use_read_only() == ""
