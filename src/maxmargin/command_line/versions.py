"""``maxmargin versions``: what to put into a bug report; and ``maxmargin warmup``."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from maxmargin._version import __version__

REQUIRED = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "safetensors")
OPTIONAL = ("numba", "llvmlite", "matplotlib", "rich", "pyarrow", "zstandard", "ray", "cloudpickle", "fsspec",
            "s3fs")  # fmt: skip


def add_versions(subparsers: Any, arguments: list[str]) -> None:
    """Add the subcommand ``versions``."""
    parser = subparsers.add_parser(
        "versions", help="print the versions of maxmargin and of the packages that it uses"
    )
    parser.set_defaults(run=_versions)


def _versions(chosen: Any) -> int:
    show_versions()
    return 0


def add_warmup(subparsers: Any, arguments: list[str]) -> None:
    """Add the subcommand ``warmup``."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile for this machine, so that first fits do not",
        description="Fit each estimator to tiny data, so that its compiled code is in the cache.",
    )
    names = "LinearSVC, LinearSVR, KernelSVC, SequenceTagger"
    text = f"names of estimators (default: {names})"
    parser.add_argument("estimators", nargs="*", metavar="ESTIMATOR", help=text)
    parser.add_argument("--all", action="store_true", help="warm up all estimators")
    parser.set_defaults(run=_warm_up)


def _warm_up(chosen: Any) -> int:
    """Warm up and print the seconds of each estimator."""
    from maxmargin.command_line.warm_up import warm_up

    for name, value in warm_up("all" if chosen.all else chosen.estimators or None).items():
        print(f"{name:20} {value:6.1f} s")
    print(f"compiled code: {compiled_code()}")
    return 0


def show_versions() -> None:
    """Print the versions of maxmargin, Python and packages, the machine, and which compiled code is used.

    Put the output into a bug report. ``maxmargin versions`` prints the same in a shell.

    Examples
    --------
    >>> import maxmargin
    >>> maxmargin.show_versions()
    maxmargin ...
    Python ...
    numpy ...
    """
    lines = {"maxmargin": __version__, "Python": platform.python_version()}
    lines |= {name: _version(name) or "missing" for name in REQUIRED}
    lines |= {name: found for name in OPTIONAL if (found := _version(name)) is not None}
    lines["platform"] = platform.platform()
    lines["CPU"] = f"{_processor()}, {os.cpu_count()} cores"
    lines["compiled code"] = compiled_code()
    for name, text in lines.items():
        print(f"{name:14} {text}")


def compiled_code() -> str:
    """Which compiled code is used, and why."""
    from maxmargin.compiled.precompiled import precompiled

    found = precompiled()
    if found.functions:
        return found.reason
    if _version("numba") is None:
        return f"{found.reason}, which is missing: pip install 'maxmargin[compile]'"
    from maxmargin.compiled.cache import cache_folder  # imports Numba

    folder = cache_folder() or "not cached: no folder is writable (set NUMBA_CACHE_DIR)"
    return f"{found.reason}; in {folder}"


def _processor() -> str:
    """The processor as Numba calls it; without Numba, the kind of machine."""
    from maxmargin.compiled.precompiled import precompiled

    if precompiled().functions or _version("numba") is None:
        return platform.machine()
    from llvmlite import binding
    from numba.core import config

    return str(getattr(config, "CPU_NAME", None) or binding.get_host_cpu_name())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
