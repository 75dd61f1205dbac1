"""A regularization path: one fit per value of C, ascending, each starting from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxmargin.core.interrupts import outermost
from maxmargin.estimators.base import ENDING
from maxmargin.estimators.constraints import LIST_OF_C
from maxmargin.estimators.outcome import report_path
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.watching import Watch


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
    LIST_OF_C.check("Cs", Cs, name)
    values = [float(C) for C in np.ravel(Cs)]
    fitted: dict[float, Any] = {}
    previous: Any = None
    interrupted = False
    with outermost() as returns:
        for k, C in enumerate(ascending := sorted(set(values)), 1):
            estimator = make(C)
            check_parameters(estimator)
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
