"""The notice that a first fit compiles: one line on standard error, once per process.

Numba reports every compilation as an event, and none for code that it loads from its cache. So this module
costs nothing once the cache is filled.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

from numba.core import event

#: seconds of compilation after which the notice is written
PATIENCE = 2.0
NOTICE = (
    "maxmargin: compiling for this machine, about 20 s, once; later fits load the code from a cache "
    "(MAXMARGIN_QUIET=1 hides this line).\n"
)


class CompileNotice(event.Listener):
    """Adds up how long functions of this package compile, and writes the notice after ``PATIENCE`` seconds.

    Numba compiles and sends its events under one lock, so the counters need none of their own.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.functions = 0
        self.written = False
        self._depth = 0  # a function compiles the functions that it calls
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        if not _is_ours(event):
            return
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        self.functions += 1
        self._write_if_long(self.seconds + time.perf_counter() - self._began)

    def on_end(self, event: Any) -> None:
        if not _is_ours(event):
            return
        self._depth -= 1
        elapsed = time.perf_counter() - self._began
        if self._depth == 0:
            self.seconds += elapsed
        self._write_if_long(self.seconds + (elapsed if self._depth else 0.0))

    def _write_if_long(self, seconds: float) -> None:
        if self.written or seconds <= PATIENCE:
            return
        self.written = True
        if sys.stderr is not None and not is_quiet():
            sys.stderr.write(NOTICE)
            sys.stderr.flush()


def is_quiet() -> bool:
    """Whether the environment or the level of the logger "maxmargin" hides the notice."""
    if os.environ.get("MAXMARGIN_QUIET", "0") not in ("", "0"):
        return True
    return not logging.getLogger("maxmargin").isEnabledFor(logging.WARNING)


def _is_ours(event: Any) -> bool:
    module = getattr(event.data["dispatcher"], "__module__", None) or ""
    return module.startswith("maxmargin.")


#: listens from the first import of a compiled function on
notice = CompileNotice()
event.register("numba:compile", notice)
