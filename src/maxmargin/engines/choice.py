"""From scikit-learn's ``n_jobs`` to an engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.engines.processes import ProcessEngine
from maxmargin.engines.threads import ThreadEngine


def make_engine(
    n_jobs: int | None, kind: Any = None, prepare: Callable[[], object] | None = None
) -> Engine:
    """The engine for scikit-learn's ``n_jobs``: None or 1 is serial, -1 is all cores.

    Parameters
    ----------
    n_jobs : int, optional
        Number of workers.
    kind : {"threads", "processes"}, optional
        What the workers are; threads by default.
    prepare : callable, optional
        Called once in every process, before its shards are built.

    Returns
    -------
    Engine
        To be closed after use.
    """
    if kind not in (None, "threads", "processes"):
        raise ValueError(f"engine={kind!r}: use 'threads', 'processes' or an engine object.")
    if n_jobs is None or n_jobs == 1:
        return SerialEngine()
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use None or 1 for one worker, -1 for all cores.")
    if n_jobs < 0:
        n_jobs = max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return ProcessEngine(n_jobs, prepare) if kind == "processes" else ThreadEngine(n_jobs)
