"""Fill the cache of compiled code by tiny fits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

from maxmargin.command_line.common_estimators import COMMON
from maxmargin.command_line.tiny_fits import TINY_FITS


def warm_up(estimators: str | Sequence[object] | None = None) -> dict[str, float]:
    """Compile for this machine now, so that first fits do not.

    Wheels for a platform have compiled code, and need no warm-up. With the pure wheel, the first fit on a
    machine compiles for about 20 seconds; later fits, also in other processes, load the compiled code from a
    cache on disk. This function fills the cache: it fits each estimator to tiny data of the usual types
    (dense and sparse, binary and multiclass). Call it when you build an image or before you start many
    processes. ``maxmargin warmup`` does the same on the command line.

    What depends on unusual parameters is still compiled when it is first used.

    Parameters
    ----------
    estimators : "all" or list of names or classes, optional
        What to compile. By default the most common ones: ``LinearSVC``, ``LinearSVR``, ``KernelSVC``, and
        ``SequenceTagger``.

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
    return {name: _seconds(TINY_FITS[name]) for name in _names(estimators)}


def _names(estimators: str | Sequence[object] | None) -> list[str]:
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


def _seconds(fit: Callable[[], object]) -> float:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
    return time.perf_counter() - start
