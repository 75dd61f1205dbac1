"""Threads of this process: one for BLAS during a fit, and how many for a fit inside a worker of joblib.

With one BLAS thread sums are bit-identical, also if several threads of a program fit at the same time, as in
a search with joblib's threading backend. The number of BLAS threads belongs to the process. So the first fit
stores it, and the last one restores it.
"""

from __future__ import annotations

import multiprocessing
import os
from functools import cache
from threading import Lock
from types import TracebackType

from joblib import cpu_count
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController


def granted_jobs(n_jobs: int | None) -> int | None:
    """``n_jobs``, limited inside a worker of joblib (a search with its own ``n_jobs``).

    There the cores are shared with the other workers. In a process of joblib the limit is what joblib grants
    to OpenMP: cores / workers, or ``inner_max_num_threads``. In a thread of joblib it is 1, because joblib
    does not say how many other threads there are. Results do not depend on the number of workers.
    """
    if n_jobs in (None, 0, 1) or not get_active_backend()[0].nesting_level:
        return n_jobs
    assert n_jobs is not None
    asked = n_jobs if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs)
    return min(asked, _limit())


def _limit() -> int:
    granted = os.environ.get("OMP_NUM_THREADS", "1").partition(",")[0]
    in_process = multiprocessing.parent_process() is not None
    return int(granted) if in_process and granted.isdecimal() and int(granted) > 0 else 1


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
