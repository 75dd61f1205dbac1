"""The compiled leaves: functions over flat arrays and row ranges. NumPy and Numba only.

Numba keeps compiled code beside the sources (or in the user's cache folder) and looks only at the
file a function is written in: after a change of a function that it calls, or an upgrade of the
package, it would go on using the old inlined copy. So the sources of this folder carry one stamp;
when it changes, what was cached is forgotten.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

from numba import njit


@njit(cache=True)
def _probe():  # pragma: no cover - never called; it knows where Numba keeps this folder's code
    return 0


def _forget_stale_code() -> None:
    here = Path(__file__).parent
    stamp = 0
    for source in sorted(here.glob("*.py")):
        stamp = zlib.crc32(source.read_bytes(), stamp)
    text = f"{stamp:08x}"
    location = _probe.stats.cache_path
    if location is None:
        return
    folder = Path(location)
    file = folder / "maxmargin-sources.txt"
    # a folder that cannot be read or written is one where Numba keeps nothing either
    with contextlib.suppress(OSError):
        if file.exists() and file.read_text() == text:
            return
        for kept in folder.glob("*.nb[ic]"):
            kept.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


_forget_stale_code()
