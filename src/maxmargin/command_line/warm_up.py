"""Fill the cache of compiled code by tiny fits in parallel processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import maxmargin
from maxmargin.command_line.common_estimators import COMMON
from maxmargin.command_line.tiny_fits import TINY_FITS
from maxmargin.compiled.precompiled import precompiled
from maxmargin.engines.choice import EngineOptions


def warm_up(
    estimators: str | Sequence[Any] | None = None, n_jobs: int | None = None
) -> dict[str, float]:
    """Compile for this machine now, so that first fits do not.

    Wheels for a platform have compiled code, and need no warm-up. With the pure wheel, the first fit on a
    machine compiles for about 20 seconds; later fits, also in other processes, load the compiled code from a
    cache on disk. This function fills the cache: it fits each estimator to tiny data of the usual types
    (dense and sparse, binary and multiclass) in processes of its own. Call it when you build an image or
    before you start many processes. ``maxmargin warmup`` does the same on the command line.

    What depends on unusual parameters is still compiled when it is first used.

    Parameters
    ----------
    estimators : "all" or list of names or classes, optional
        What to compile. By default the most common ones: ``LinearSVC``, ``LinearSVR``, ``KernelSVC``, and
        ``SequenceTagger``.
    n_jobs : int, optional
        Number of processes. None means 1, and -1 means one per core.

    Returns
    -------
    dict
        The seconds that the fits of each estimator took. Functions that several estimators use count for the
        first one.

    Examples
    --------
    >>> import maxmargin
    >>> seconds = maxmargin.warm_up(["LinearSVC"])
    >>> list(seconds)
    ['LinearSVC']
    """
    names = _names(estimators)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use None or 1 for one process, -1 for all cores.")
    if not precompiled().functions:
        from maxmargin.compiled.cache import prepare_cache

        prepare_cache()  # clears code of older sources before the processes start
    workers = EngineOptions(n_jobs=n_jobs).n_workers
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        seconds = list(pool.map(lambda name: _fit_elsewhere(name, folder), names))
    return dict(zip(names, seconds, strict=True))


def _names(estimators: str | Sequence[Any] | None) -> list[str]:
    if estimators is None:
        return list(COMMON)
    if isinstance(estimators, str):
        if estimators == "all":
            return list(TINY_FITS)
        raise ValueError(f"estimators must be 'all' or a list of estimators, got {estimators!r}.")
    names = [e if isinstance(e, str) else getattr(e, "__name__", repr(e)) for e in estimators]
    unknown = [name for name in names if name not in TINY_FITS]
    if unknown:
        raise ValueError(
            f"unknown estimators: {', '.join(unknown)}. Known are {', '.join(TINY_FITS)}."
        )
    return list(dict.fromkeys(names))


def _fit_elsewhere(name: str, folder: str) -> float:
    """Seconds of the tiny fits of an estimator in another process."""
    here = str(Path(maxmargin.__file__).parents[1])
    path = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH")) if p)
    done = subprocess.run(
        [sys.executable, "-m", "maxmargin.command_line.tiny_fits", name, folder],
        env={**os.environ, "PYTHONPATH": path, "MAXMARGIN_QUIET": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the tiny fits of {name} failed:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))
