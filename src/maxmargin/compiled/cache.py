"""Functions that Numba compiles when they are called, and the cache of what it compiled.

Numba stores compiled code next to the sources (or in the user's cache folder) and checks only the file that
defines a function. After a change to an inlined callee, or an upgrade of the package, it would use stale
code. So one stamp covers all sources of this folder; when it changes, the cache is cleared.
"""

from __future__ import annotations

import contextlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from maxmargin.compiled.precompiled import precompiled, stamp


def compile_when_called(function: Any, options: dict[str, Any], types: str = "") -> Any:
    """The function as Numba has it: it compiles for the types of each call, or loads from the cache.

    ``types`` are those of a call for which there is no precompiled code.
    """
    try:
        from numba import njit
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        raise ModuleNotFoundError(_without_numba(function, types), name=error.name) from error
    prepare_cache()
    decorator: Any = njit  # its annotations lack two of the options
    dispatcher = decorator(**options)(function)
    with contextlib.suppress(
        RuntimeError
    ):  # no folder is writable, of which `prepare_cache` has warned
        dispatcher.enable_caching()
    return dispatcher


def _without_numba(function: Any, types: str) -> str:
    name = f"{function.__module__}.{function.__name__}"
    if not precompiled().functions:
        need = f"the functions of maxmargin are {precompiled().reason}"
    else:
        called = f"is called with the types {types}" if types else "is part of code to compile"
        need = f"{name} {called}, for which this wheel of maxmargin has no compiled code"
    return f"{need}. Numba is not installed: pip install 'maxmargin[compile]'"


@cache
def prepare_cache() -> None:
    """Clear the cache if its code is of other sources, and listen to what is compiled from now on."""
    import maxmargin.compiled.notice
    import maxmargin.compiled.simd_operations  # noqa: F401 - Numba must know them before it compiles

    folder = cache_folder()
    if folder is None:
        warnings.warn(
            "compiled code cannot be cached, because no folder is writable: every process compiles again, "
            "for seconds. Set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
        return
    file = folder / "maxmargin-sources.txt"
    text = f"{stamp():08x}"
    # If a folder cannot be read or written, Numba caches nothing there either.
    with contextlib.suppress(OSError):
        if file.exists() and file.read_text() == text:
            return
        for kept in folder.glob("*.nb[ic]"):
            kept.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def cache_folder() -> Path | None:
    """The folder with the code that Numba compiled for this package; None if no folder is writable."""
    from numba import njit

    try:
        location = njit(cache=True)(_in_this_folder).stats.cache_path
    except RuntimeError:
        location = None
    return None if location is None else Path(location)


def _in_this_folder() -> None:
    """Never called: Numba finds the folder of the cache by the file of a function."""
