"""One BLAS thread during a fit, so that sums are bit-identical; also if several threads of a program fit at
the same time, as in a search with joblib's threading backend.

The number of BLAS threads belongs to the process. So the first fit stores it, and the last one restores it.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from types import TracebackType

from threadpoolctl import ThreadpoolController


def limit_blas() -> None:
    """In a worker process: limit BLAS to one thread, as this process does during a fit."""
    _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes as long as a small fit."""
    return ThreadpoolController()


class _Limit:
    """A context manager that may be entered by several threads at the same time."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._before: dict[str, int] = {}

    def __enter__(self) -> None:
        libraries = [own for own in _blas().lib_controllers if own.user_api == "blas"]
        with self._lock:
            self._inside += 1
            for library in libraries:
                n = library.num_threads
                if n != 1:  # also if the program changed it during another fit
                    self._before.setdefault(library.filepath, n)
                    library.set_num_threads(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside or not self._before:
                return
            before, self._before = self._before, {}
            for library in _blas().lib_controllers:
                if library.filepath in before:
                    library.set_num_threads(before[library.filepath])


#: ``with one_blas_thread:``
one_blas_thread = _Limit()
