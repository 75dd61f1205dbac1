"""Checks that all numbers a solver receives are finite. Comparisons with NaN are false, so a loop would
continue, or stop, as if nothing were wrong."""

from __future__ import annotations

from math import isfinite, isnan
from typing import Any

import numpy as np

from maxmargin.core.contract import requests as ask
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.matrices import is_finite
from maxmargin.core.vectors import SparseVector

_ADVICE = (
    "the data contain NaN or infinite values, or numbers so large that scores overflow. Check and scale the "
    "features."
)


def require_finite(value: float) -> None:
    """Raise ValueError unless a value of the risk is finite."""
    if not isfinite(value):
        raise ValueError(f"the risk is {value} at a point of the solver: {_ADVICE}")


def require_numbers(**values: float) -> None:
    """Raise ValueError if one of these is NaN; they may be infinite."""
    for name, value in values.items():
        if isnan(value):
            raise ValueError(f"the {name.replace('_', ' ')} is not a number: {_ADVICE}")


def check_answer(request: ask.Request, answer: Any) -> None:
    """Raise ValueError if an answer holds NaN, or if a value or a cut is infinite."""
    if isinstance(answer, SweepStats):
        if isnan(answer.gap):
            require_numbers(estimated_gap=answer.gap)
        return
    match request:
        case ask.Evaluate():
            require_finite(answer.value)
        case ask.Toward(
            value=True
        ):  # evaluations are lazy: compute the value here, so that its time is counted here
            require_finite(answer.value)
        case ask.Confirm():
            require_finite(answer[0])
            require_numbers(upper_bound=answer[1])
        case ask.TakeCut():
            _check_cut(answer)
        case ask.Slopes():
            require_numbers(slope=_any_nan(answer))
        case ask.Breakpoints():
            for part in answer or ():
                require_numbers(place_or_size_of_a_kink=_any_nan(part))


def _any_nan(values: Any) -> float:
    return float("nan") if np.isnan(values).any() else 0.0


def _check_cut(cut: Cut) -> None:
    plane = cut.plane.values if isinstance(cut.plane, SparseVector) else cut.plane
    fine = not isinstance(plane, np.ndarray) or is_finite(plane)
    if not (fine and np.isfinite(cut.offset)):
        what = "offset" if fine else "plane"
        raise ValueError(f"the {what} of a cut is not finite: {_ADVICE}")
