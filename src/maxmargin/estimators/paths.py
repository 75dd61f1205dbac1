"""A regularization path: one fit per value of C, ascending, each starting from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxmargin.core.interrupts import outermost
from maxmargin.core.vectors import Array
from maxmargin.estimators.base import ENDING
from maxmargin.estimators.outcome import report_path
from maxmargin.estimators.watching import Watch


def values_of_C(Cs: Any, otherwise: str = "") -> Array:
    """Validate a list of values of C. A single number is refused: an integer would be a number of values."""
    values = np.asarray(Cs, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(
            f"Cs={Cs!r}: give a list of positive numbers, such as [0.1, 1.0]{otherwise}."
        )
    return values


def fit_path(
    name: str,
    Cs: Sequence[float],
    make: Callable[[float], Any],
    fit: Callable[[Any, Any], Any],
) -> list[Any]:
    """The fitted estimators, in the order of ``Cs``; ``name`` is the public function.

    ``make(C)`` makes an estimator. ``fit(estimator, previous)`` fits it and returns what the next fit starts
    from; ``previous`` is None for the first.
    """
    values: list[float] = values_of_C(Cs).tolist()
    fitted: dict[float, Any] = {}
    previous: Any = None
    interrupted = False
    with outermost() as returns:
        for k, C in enumerate(ascending := sorted(set(values)), 1):
            estimator = make(C)
            try:
                with Watch(estimator, f"fit {k} of {len(ascending)}, C={C:g}"):
                    previous = fit(estimator, previous)
            except KeyboardInterrupt:  # before the solver began, or after it
                interrupted = True
                break
            fitted[C] = estimator
            if estimator.stop_reason_ in ENDING:
                break
    path = [fitted[C] for C in values if C in fitted]
    report_path(name, path, interrupted, returns=returns)
    return path
