"""Functions that were compiled when the wheel was built, and why they are used or not.

A platform wheel has the modules ``_kernels_0``, ``_kernels_1``, and so on, which ``numba.pycc`` makes of the
functions of this folder for the types of ``signatures.txt``. The pure wheel has none. Numba then compiles
each function when it is first called, and both give the same results for the same type of processor.

A line of ``signatures.txt`` has the name of a function and the types of its arguments: ``float64[2C]`` is an
array with two dimensions in C order (``F``: Fortran order, ``A``: any strides), and ``r`` marks an array that
the function does not write, so that it may be read-only. The number of the line is the name of the function
in its module.
"""

from __future__ import annotations

import os
import platform
import zlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
#: the processors that the code is compiled for, in LLVM's words
TARGETS = {"x86_64": "x86-64-v3", "amd64": "x86-64-v3", "aarch64": "generic", "arm64": "generic"}
_NOT_COMPILED = ("__init__.py", "cache.py", "function.py", "notice.py", "precompiled.py")
_SCALARS = {bool: "bool", int: "int64", float: "float64", type(None): "none"}


class Signature(NamedTuple):
    """A line of the table."""

    number: int
    function: str
    #: the types of the arguments, without the marks of arrays that are not written
    types: str
    #: by array, in the order of the arguments: whether it may be read-only
    may_be_read_only: tuple[bool, ...]


def signatures() -> Iterator[Signature]:
    """The lines of the table."""
    for number, line in enumerate((HERE / "signatures.txt").read_text().splitlines()):
        function, types = line.split(" ")
        marks = tuple(part.endswith("r") for part in types.split("]")[:-1])
        yield Signature(number, function, types.replace("r]", "]"), marks)


def stamp() -> int:
    """A checksum of the sources that are compiled and of the table."""
    found = 0
    for source in sorted([*HERE.glob("*.py"), HERE / "signatures.txt"]):
        if source.name not in _NOT_COMPILED:
            found = zlib.crc32(source.read_bytes(), found)
    return found


def target() -> str:
    """The processors that the code of this machine's wheel is compiled for."""
    return TARGETS.get(platform.machine().lower(), "generic")


class Precompiled(NamedTuple):
    """What the wheel has for this machine."""

    #: what to tell a user
    reason: str
    #: the base class of functions, in C
    dispatcher: type | None = None
    #: by function and types: the function, and which arrays may be read-only; empty if Numba compiles
    functions: dict[str, dict[str, tuple[Any, tuple[bool, ...]]]] = {}  # noqa: RUF012 - never changed
    #: the version of Numba that compiled the functions
    numba: str = ""


def _without() -> bool:
    return os.environ.get("MAXMARGIN_JIT", "0") not in ("", "0")


@cache
def compiled_names() -> Any:
    """The class ``Names`` of the module in C, or None."""
    try:
        module = None if _without() else import_module("maxmargin.compiled._names")
    except ImportError:
        return None
    return module.Names if module is not None and is_current(module) else None


def is_current(module: ModuleType) -> bool:
    """Whether a module in C is of the source next to it; a wheel has none."""
    source = HERE / f"{module.__name__.rpartition('.')[2]}.c"
    return not source.exists() or getattr(module, "BUILT_FROM", None) == source_stamp(source)


def source_stamp(source: Path) -> str:
    """A checksum of the source of a module in C."""
    return f"{zlib.crc32(source.read_bytes()):08x}"


@cache
def precompiled() -> Precompiled:
    """Load the modules if they fit the sources and the processor."""
    if _without():
        return Precompiled("compiled by Numba, because MAXMARGIN_JIT is set")
    parts = len({path.name.split(".")[0] for path in HERE.glob("_kernels_*.*")})
    if not parts:
        return Precompiled("compiled by Numba, because this installation has no precompiled code")
    dispatch = import_module("maxmargin.compiled._dispatch")
    if not dispatch.IS_SUPPORTED:
        return Precompiled(f"compiled by Numba, because this processor is not {target()}")
    modules = [import_module(f"maxmargin.compiled._kernels_{k}") for k in range(parts)]
    if {module.stamp() for module in modules} != {stamp()}:
        return Precompiled("compiled by Numba, because the precompiled code is of other sources")
    functions: dict[str, dict[str, tuple[Any, tuple[bool, ...]]]] = {}
    for number, function, types, marks in signatures():
        compiled = next(
            found for m in modules if (found := getattr(m, f"_{number}", None)) is not None
        )
        functions.setdefault(function, {})[types] = compiled, marks
    reason = f"precompiled for {target()} with {dispatch.BUILT_WITH}"
    return Precompiled(reason, dispatch.Dispatcher, functions, dispatch.BUILT_WITH.split()[-1])


def spell(value: Any) -> str:
    """The type of an argument as the table spells it."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        unaligned = "" if flags.aligned and value.dtype.isnative else "?"  # none in the table
        return f"{value.dtype.name}[{value.ndim}{layout}{unaligned}]"
    if isinstance(value, tuple):
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{name}({','.join(map(spell, value))})"
    if isinstance(value, np.generic):
        return value.dtype.name
    return _SCALARS.get(type(value), "?")


def arrays(args: tuple[Any, ...]) -> Iterator[np.ndarray]:
    """The arrays among the arguments, in order."""
    for value in args:
        if isinstance(value, tuple):
            yield from arrays(value)
        elif isinstance(value, np.ndarray):
            yield value
