"""Compiled functions over flat arrays and row ranges. They depend on NumPy and Numba only.

Numba caches compiled code next to the sources (or in the user's cache folder) and checks only the file that
defines a function. After a change to an inlined callee, or an upgrade of the package, it would use stale
code. So one stamp covers all sources of this folder; when it changes, the cache is cleared.
"""

from __future__ import annotations

import contextlib
import warnings
import zlib
from pathlib import Path

from maxmargin.compiled.jit import entry


@entry
def _probe():  # pragma: no cover - never called; its cache path is that of this folder
    return 0


def _forget_stale_code() -> None:
    here = Path(__file__).parent
    stamp = 0
    for source in sorted(here.glob("*.py")):
        stamp = zlib.crc32(source.read_bytes(), stamp)
    text = f"{stamp:08x}"
    location = _probe.stats.cache_path
    if location is None:
        warnings.warn(
            "compiled code cannot be cached, because no folder is writable: every process compiles again, "
            "for seconds. Set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
        return
    folder = Path(location)
    file = folder / "maxmargin-sources.txt"
    # If a folder cannot be read or written, Numba caches nothing there either.
    with contextlib.suppress(OSError):
        if file.exists() and file.read_text() == text:
            return
        for kept in folder.glob("*.nb[ic]"):
            kept.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


_forget_stale_code()
