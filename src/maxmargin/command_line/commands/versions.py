"""``maxmargin versions``: what to put into a bug report."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from maxmargin._version import __version__

REQUIRED = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn", "joblib", "threadpoolctl")
OPTIONAL = ("matplotlib", "rich", "pyarrow", "zstandard", "ray", "cloudpickle", "fsspec", "s3fs")


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = subparsers.add_parser(
        "versions", help="print the versions of maxmargin and of the packages that it uses"
    )
    parser.set_defaults(run=run)


def run(arguments: Any) -> int:
    """Print the versions."""
    show_versions()
    return 0


def show_versions() -> None:
    """Print the versions of maxmargin, Python and packages, the machine, and where compiled code is kept.

    Put the output into a bug report. ``maxmargin versions`` prints the same in a shell.

    Examples
    --------
    >>> import maxmargin
    >>> maxmargin.show_versions()
    maxmargin ...
    Python ...
    numpy ...
    """
    from llvmlite import binding  # not before it is needed: the help of the command is fast
    from numba.core import config

    lines = {"maxmargin": __version__, "Python": platform.python_version()}
    lines |= {name: _version(name) or "missing" for name in REQUIRED}
    lines |= {name: found for name in OPTIONAL if (found := _version(name)) is not None}
    lines["platform"] = platform.platform()
    cpu = getattr(config, "CPU_NAME", None) or binding.get_host_cpu_name()
    lines["CPU"] = f"{cpu}, {os.cpu_count()} cores"
    lines["compiled code"] = compile_cache()
    for name, text in lines.items():
        print(f"{name:14} {text}")


def compile_cache() -> str:
    """The folder with the compiled code."""
    from maxmargin.compiled import _probe

    return _probe.stats.cache_path or "not cached: no folder is writable (set NUMBA_CACHE_DIR)"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
