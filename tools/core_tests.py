"""Install the library with the oldest or the newest versions of its dependencies, and run the core tests.

    python tools/core_tests.py --resolution lowest-direct
    python tools/core_tests.py --resolution highest --python python3.13
    python tools/core_tests.py --resolution highest --package dist/maxmargin-0.1.0.tar.gz
    python tools/core_tests.py --resolution highest --package PLATFORM_WHEEL --without numba --readme

The environment is new and has nothing but the package, what it depends on, and pytest. The core tests fit
every estimator, read the model files of all releases, and compare fits with reference solvers. It runs
on Linux, macOS, and Windows, and needs uv (``pip install uv``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: every estimator, the files of all releases, SciPy's HiGHS, reference solvers, scikit-learn's own checks,
#: and what of scikit-learn and Numba may be gone in their next releases
CORE = (
    "tests/typed/test_program.py",
    "tests/released",
    "tests/oracles/test_integer_program.py::test_quick_answers_save_solves_and_no_bound_comes_from_them",
    "tests/reference_optima/test_problems.py",
    "tests/estimators/test_linear_svc.py::test_scikit_learn_law",
    "tests/estimators/test_private_names.py",
    "tests/precompiled/test_build.py::test_numba_still_has_pycc",
)
#: exit code if nothing could be installed
NOT_RUN = 77
#: what these tests import
TOOLS = (
    "pytest>=8",
    "hypothesis>=6.100",
    "clarabel>=0.7",
    "pandas>=2.2",
    "polars>=1",
    "setuptools>=77",
)


def uv(*arguments: str) -> str:
    """Run uv, from the environment of this script or from PATH, and return what it printed."""
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    command = beside or shutil.which("uv")
    if command is None:
        raise SystemExit("uv is missing: pip install uv")
    return subprocess.run(
        [command, *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def run(
    folder: Path,
    python: str,
    resolution: str,
    package: str,
    readme: bool,
    also: list[str],
    without: list[str],
    selection: list[str],
) -> int:
    """Make the environment in this folder, and return the exit code of the tests."""
    uv("venv", "--quiet", "--python", python, str(folder / "env"))
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    interpreter = str(scripts / ("python.exe" if os.name == "nt" else "python"))
    into = ("pip", "install", "--quiet", "--python", interpreter, "--link-mode", "copy")
    try:
        uv(*into, "--dry-run", "numpy")
    except subprocess.CalledProcessError:
        print("uv reaches no package index", file=sys.stderr)
        return NOT_RUN
    uv(*into, "--resolution", resolution, package, *also)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.setdefault("NUMBA_CACHE_DIR", str(folder / "numba"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compile packages once, not in every process
    environment |= {"MAXMARGIN_QUIET": "1", "PYTHONPYCACHEPREFIX": str(folder / "pycache")}
    subprocess.run([interpreter, "-m", "maxmargin", "versions"], check=True, env=environment)
    if (
        readme
    ):  # before the tools of the tests are there; what it compiles is in the cache for the tests
        (folder / "empty").mkdir()
        script = [interpreter, str(ROOT / "tools" / "run_readme.py"), str(ROOT / "README.md")]
        subprocess.run(script, check=True, cwd=folder / "empty", env=environment)
    # the tools of the tests must not change what was installed, and need not be old themselves
    frozen = folder / "installed.txt"
    installed = uv("pip", "freeze", "--quiet", "--python", interpreter).splitlines()
    if found := [line for line in installed if line.partition("==")[0] in without]:
        raise SystemExit(f"installed, but should not be: {', '.join(found)}")
    frozen.write_text("\n".join(line for line in installed if not line.startswith("maxmargin")))
    uv(*into, "--constraint", str(frozen), *TOOLS)
    options = ("-q", "-p", "no:cacheprovider", "--durations=5")
    tests = [interpreter, "-m", "pytest", *options, *selection]
    return subprocess.run(tests, cwd=ROOT, env=environment).returncode


def main(arguments: list[str]) -> int:
    """Read the arguments and run the tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--resolution", choices=("lowest-direct", "highest"), required=True)
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter (default: this one)"
    )
    parser.add_argument(
        "--package", default=str(ROOT), help="an sdist or a wheel (default: the source)"
    )
    parser.add_argument(
        "--readme", action="store_true", help="first run README.md, with nothing else installed"
    )
    parser.add_argument("tests", nargs="*", default=list(CORE), help="default: the core tests")
    parser.add_argument(
        "--with",
        nargs="+",
        default=[],
        dest="also",
        help="other requirements, such as scikit-learn>=1.10.dev0",
    )
    parser.add_argument(
        "--without", nargs="+", default=[], help="packages that must not be installed with it"
    )
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        where, how = Path(folder), (chosen.python, chosen.resolution, chosen.package)
        return run(where, *how, chosen.readme, chosen.also, chosen.without, chosen.tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
