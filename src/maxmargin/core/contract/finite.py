"""Checks that all numbers a solver receives are finite. Comparisons with NaN are false, so a loop would
continue, or stop, as if nothing were wrong."""

from __future__ import annotations

from math import isfinite, isnan
from typing import Any

import numpy as np

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


def require_numbers(**values: Any) -> None:
    """Raise ValueError if one of these, a number or an array, is or has a NaN; they may be infinite."""
    for name, value in values.items():
        if isnan(value) if isinstance(value, float) else np.isnan(value).any():
            raise ValueError(f"the {name.replace('_', ' ')} is not a number: {_ADVICE}")


def require_finite_cut(cut: Cut) -> None:
    """Raise ValueError unless the offset and the entries of a plane are finite."""
    plane = cut.plane.values if isinstance(cut.plane, SparseVector) else cut.plane
    fine = not isinstance(plane, np.ndarray) or is_finite(plane)
    if not (fine and np.isfinite(cut.offset)):
        what = "offset" if fine else "plane"
        raise ValueError(f"the {what} of a cut is not finite: {_ADVICE}")
