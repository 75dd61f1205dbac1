"""Creation of engines from the parameters ``engine`` and ``n_jobs`` of an estimator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.engines.processes import ProcessEngine
from maxmargin.engines.ray import RayEngine
from maxmargin.engines.threads import ThreadEngine

CONTRACT = ("durable", "open", "publish", "reduce", "gather", "close")


def worker_count(n_jobs: int | None) -> int:
    """Number of workers on this machine. As in scikit-learn, None means 1 and negative numbers count from the
    number of cores."""
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def make_engine(
    n_jobs: int | None,
    kind: Any = None,
    prepare: Callable[[], object] | None = None,
    *,
    by_value: bool = False,
) -> Engine:
    """Create the engine for the parameters ``engine`` and ``n_jobs`` of an estimator.

    Parameters
    ----------
    n_jobs : int, optional
        Number of workers. For threads and processes, None and 1 mean serial and -1 means all cores. For Ray,
        None and -1 mean one worker per machine, with several threads.
    kind : {"threads", "processes", "ray"}, str or engine, optional
        Kind of the workers; threads by default. ``"ray"`` connects to the running cluster (found as by
        ``ray.init(address="auto")``) or starts one on this machine. ``"ray://host:port"`` connects through
        Ray's client; ``"ray:host:port"`` is the address of a cluster that this machine belongs to. An engine
        object is returned unchanged.
    prepare : callable, optional
        Called once in every process, before its shards are built.
    by_value : bool, default False
        For processes: pickle classes of the main program by value; see :class:`ProcessEngine`.

    Returns
    -------
    Engine
        The caller must close it, unless it is the object passed as ``kind``, which belongs to the user.
        :func:`opened` does this.
    """
    if isinstance(kind, type):
        raise TypeError(
            f"engine={kind.__name__} is a class, not an object: use {kind.__name__}(...), with parentheses."
        )
    if all(hasattr(kind, name) for name in CONTRACT):
        engine: Engine = kind
        return engine
    _check_jobs(n_jobs)
    serial = n_jobs is None or n_jobs == 1
    if kind is None or kind == "threads":
        return SerialEngine() if serial else ThreadEngine(worker_count(n_jobs))
    if kind == "processes":
        if serial:
            return SerialEngine()
        return ProcessEngine(worker_count(n_jobs), prepare, by_value=by_value)
    if kind == "ray" or (isinstance(kind, str) and kind.startswith("ray:")):
        address = None if kind == "ray" else kind if "://" in kind else kind[len("ray:") :]
        return RayEngine(_ray_workers(n_jobs), address, prepare=prepare)
    raise ValueError(
        f"engine={kind!r}: use 'threads', 'processes', 'ray', 'ray://host:port' or an engine object (such as "
        "engines.RayEngine(...))."
    )


@contextlib.contextmanager
def opened(
    kind: object = None,
    n_jobs: int | None = None,
    prepare: Callable[[], object] | None = None,
    *,
    by_value: bool = False,
) -> Iterator[Engine]:
    """Context manager for the engine of :func:`make_engine`.

    On exit it closes an engine that it created. An engine object passed by the user stays open.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import SerialEngine, opened
    >>> with opened("threads", n_jobs=2) as engine:
    ...     float(engine.open(np.asarray, [[1.0, 2.0], [3.0]]).reduce(np.ndarray.sum))
    6.0
    >>> mine = SerialEngine()
    >>> with opened(mine) as engine:
    ...     engine is mine
    True
    """
    engine = make_engine(n_jobs, kind, prepare, by_value=by_value)
    try:
        yield engine
    finally:
        if engine is not kind:
            engine.close()


def _check_jobs(n_jobs: int | None) -> None:
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use None or 1 for one worker, -1 for all cores.")


def _ray_workers(n_jobs: int | None) -> int | None:
    if n_jobs is None or n_jobs == -1:
        return None
    if n_jobs < 0:
        raise ValueError(
            f"n_jobs={n_jobs} is not supported for a cluster: use None for one worker per machine, or a "
            "positive number of workers."
        )
    return n_jobs
