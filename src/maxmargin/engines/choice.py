"""Creation of engines from the parameters ``engine`` and ``n_jobs`` of an estimator.

One registry holds the names of all engines, those of the library and those of users.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.engines.processes import ProcessEngine
from maxmargin.engines.ray import RayEngine
from maxmargin.engines.threads import ThreadEngine

_CONTRACT = ("durable", "open", "publish", "reduce", "gather", "close")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The parameters of an engine that is created by name.

    Parameters
    ----------
    n_jobs : int or None
        The parameter ``n_jobs`` of the estimator; never 0.
    engine : str
        The full parameter ``engine``: the name, and anything after a colon.
    prepare : callable or None
        Must be called once in every process, before its shards are built.
    by_value : bool
        Whether classes of the main program must be pickled by value.
    """

    n_jobs: int | None = None
    engine: str = ""
    prepare: Callable[[], object] | None = None
    by_value: bool = False

    @property
    def n_workers(self) -> int:
        """Number of workers on this machine. As in scikit-learn, None means 1 and negative numbers count from
        the number of cores."""
        if self.n_jobs is None:
            return 1
        if self.n_jobs < 0:
            return max(1, (os.cpu_count() or 1) + 1 + self.n_jobs)
        return self.n_jobs


def _threads(options: EngineOptions) -> Engine:
    serial = options.n_jobs is None or options.n_jobs == 1
    return SerialEngine() if serial else ThreadEngine(options.n_workers)


def _processes(options: EngineOptions) -> Engine:
    if options.n_jobs is None or options.n_jobs == 1:
        return SerialEngine()
    return ProcessEngine(options.n_workers, options.prepare, by_value=options.by_value)


def _ray(options: EngineOptions) -> Engine:
    text = options.engine
    address = None if text == "ray" else text if "://" in text else text[len("ray:") :]
    return RayEngine(_ray_workers(options.n_jobs), address, prepare=options.prepare)


_OF_THE_LIBRARY = ("threads", "processes", "ray")
#: engines by name; those that accept an address after a colon are in _ADDRESSED
_ENGINES: dict[str, Callable[[EngineOptions], Engine]] = {
    "threads": _threads,
    "processes": _processes,
    "ray": _ray,
}
_ADDRESSED = {"ray"}


def register_engine(
    name: str, make: Callable[[EngineOptions], Engine], *, addressed: bool = False
) -> None:
    """Register an engine under a name, for use as ``engine=name`` in all estimators of this process.

    Parameters
    ----------
    name : str
        A Python identifier; names of the library's engines are not allowed.
    make : callable
        Called with an :class:`EngineOptions` in every fit. It returns a new engine, which the fit closes.
    addressed : bool, default False
        Whether ``engine="name:more"`` is allowed; ``EngineOptions.engine`` is then the full string.

    Examples
    --------
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.engines import ThreadEngine, register_engine
    >>> register_engine("two_threads", lambda options: ThreadEngine(2))
    >>> LinearSVC(engine="two_threads").fit([[0.0], [1.0]], [0, 1]).converged_
    True
    """
    if not (isinstance(name, str) and name.isidentifier()):
        raise ValueError(f"name must consist of letters, digits and underscores; got {name!r}.")
    if name in _OF_THE_LIBRARY:
        raise ValueError(f"name={name!r} is the name of a built-in engine: use another one.")
    if not callable(make):
        raise TypeError(
            f"make must be a callable that takes an EngineOptions and returns an engine; got {make!r}."
        )
    _ENGINES[name] = make
    (_ADDRESSED.add if addressed else _ADDRESSED.discard)(name)


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
        Kind of the workers: a name of the library or one passed to :func:`register_engine`; threads by
        default. ``"ray"`` connects to the running cluster (found as by ``ray.init(address="auto")``) or
        starts one on this machine. ``"ray://host:port"`` connects through Ray's client; ``"ray:host:port"``
        is the address of a cluster that this machine belongs to. An engine object is returned unchanged.
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
    if all(hasattr(kind, name) for name in _CONTRACT):
        engine: Engine = kind
        return engine
    _check_jobs(n_jobs)
    text = "threads" if kind is None else kind
    name = text.partition(":")[0] if isinstance(text, str) else None
    if name not in _ENGINES or (text != name and name not in _ADDRESSED):
        own = [repr(known) for known in _ENGINES if known not in _OF_THE_LIBRARY]
        raise ValueError(
            f"engine={kind!r}: use 'threads', 'processes', 'ray', 'ray://host:port'"
            f"{''.join(f', {known}' for known in own)} or an engine object (such as "
            "engines.RayEngine(...)). Use engines.register_engine to name your own engine."
        )
    made = _ENGINES[name](EngineOptions(n_jobs, text, prepare, by_value))
    missing = [part for part in _CONTRACT if not hasattr(made, part)]
    if missing:
        raise TypeError(
            f"engine={kind!r} created a {type(made).__name__}, which is not an engine: it has no "
            f"{missing[0]}."
        )
    return made


@contextlib.contextmanager
def opened(
    kind: Any = None,
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
