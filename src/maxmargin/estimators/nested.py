"""How many workers an estimator may use inside a worker of joblib."""

from __future__ import annotations

import multiprocessing
import os

from joblib import cpu_count
from joblib.parallel import get_active_backend


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
