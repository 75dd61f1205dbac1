"""From the parameters ``engine`` and ``n_jobs`` of an estimator to an engine, and who closes it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.engines.processes import ProcessEngine
from maxmargin.engines.ray import RayEngine
from maxmargin.engines.threads import ThreadEngine

_CONTRACT = ("durable", "open", "publish", "reduce", "gather", "close")


def make_engine(
    n_jobs: int | None,
    kind: Any = None,
    prepare: Callable[[], object] | None = None,
    *,
    by_value: bool = False,
) -> Engine:
    """The engine that an estimator's ``engine`` and ``n_jobs`` stand for.

    Parameters
    ----------
    n_jobs : int, optional
        Number of workers. For threads and processes None or 1 is serial and -1 is all cores; for Ray None or
        -1 is one worker, with a team of threads, on each machine.
    kind : {"threads", "processes", "ray"}, str or engine, optional
        What the workers are; threads by default. ``"ray"`` joins the cluster that is running (Ray looks for
        it as ``ray.init(address="auto")`` does) or starts one on this machine; ``"ray://host:port"`` is a
        cluster reached through Ray's client; ``"ray:host:port"`` the address of a cluster this machine
        belongs to. An engine object is returned as it is.
    prepare : callable, optional
        Called once in every process, before its shards are built.
    by_value : bool, default False
        For processes: send classes of the main program by value; see :class:`ProcessEngine`.

    Returns
    -------
    Engine
        Whoever called closes it, unless it is the very object that was given as ``kind``: that one belongs
        to the user. :func:`opened` keeps this rule.
    """
    if isinstance(kind, type):
        raise TypeError(
            f"engine={kind.__name__} is a class, not an object: use {kind.__name__}(...), with parentheses."
        )
    if all(hasattr(kind, name) for name in _CONTRACT):
        engine: Engine = kind
        return engine
    _check_jobs(n_jobs)
    if kind == "ray" or (isinstance(kind, str) and kind.startswith("ray:")):
        address = None if kind == "ray" else kind if "://" in kind else kind[len("ray:") :]
        return RayEngine(_ray_workers(n_jobs), address, prepare=prepare)
    if kind not in (None, "threads", "processes"):
        raise ValueError(
            f"engine={kind!r}: use 'threads', 'processes', 'ray', 'ray://host:port' or an engine "
            "object (such as engines.RayEngine(...))."
        )
    if n_jobs is None or n_jobs == 1:
        return SerialEngine()
    if n_jobs < 0:
        n_jobs = max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    if kind == "processes":
        return ProcessEngine(n_jobs, prepare, by_value=by_value)
    return ThreadEngine(n_jobs)


@contextlib.contextmanager
def opened(
    kind: Any = None,
    n_jobs: int | None = None,
    prepare: Callable[[], object] | None = None,
    *,
    by_value: bool = False,
) -> Iterator[Engine]:
    """The engine of :func:`make_engine` for the length of a ``with`` block.

    At its end an engine that was made here is closed; an engine object of the user's stays as it is, for its
    next use.

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
        raise ValueError("n_jobs=0 has no meaning; use None or 1 for one worker, -1 for all cores.")


def _ray_workers(n_jobs: int | None) -> int | None:
    if n_jobs is None or n_jobs == -1:
        return None
    if n_jobs < 0:
        raise ValueError(
            f"n_jobs={n_jobs} has no meaning for a cluster; use None for one worker on each machine, or a "
            "number of workers."
        )
    return n_jobs
