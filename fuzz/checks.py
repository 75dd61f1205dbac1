"""Checks of what a certificate guarantees, against attained values."""

from __future__ import annotations

import contextlib
import math
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tests.reference_optima.attained import best_point
from tests.reference_optima.program import EPS

from fuzz.framework import Finding

#: a bound above an attained value by more than this fraction is invalid; the second is for small violations
LOOSE, TIGHT = 1e-9, 1e-12
#: bounds of problems that are not tame may be false by this fraction of F, or of C times the sum of weights
EXCUSED = 1e-9
#: below this, double precision loses digits or underflows to zero
TINY = 1e-290


def attributes(fitted: Any) -> dict[str, Any]:
    """The certificate of an estimator or of a result of ``minimize``."""
    names = ("objective", "lower_bound", "gap", "converged", "stop_reason", "certificate")
    tail = "_" if hasattr(fitted, "objective_") else ""
    return {name: getattr(fitted, name + tail) for name in names}


def check_bound(lower: float, attained: Any, error: float = 0.0) -> list[Finding]:
    """Check a lower bound; ``attained`` is F of some point, in extended precision, up to ``error``."""
    if math.isnan(lower):
        return [Finding("bound", "lower_bound is NaN")]
    excess = np.longdouble(lower) - attained - error
    if excess <= TINY:
        return []
    part = float(excess / abs(np.longdouble(lower))) if lower else math.inf
    if part <= TIGHT:
        return []
    name = "bound" if part > LOOSE else "bound 1e-12"
    return [
        Finding(name, f"lower_bound {lower!r} > {float(attained)!r} attained, by {part:.1e} of it")
    ]


def check_objective(
    objective: float, value: Any, error: float, loose: float = LOOSE
) -> list[Finding]:
    """Check the objective; ``value`` is F of the returned weights, up to ``error``. The objective may be
    above it, because of rounding, but not below it."""
    if math.isnan(objective):
        return [Finding("objective", "objective is NaN")]
    if np.longdouble(objective) - value >= -(loose * abs(value) + error + TINY):
        return []
    return [Finding("objective", f"objective {objective!r} < F(w) = {float(value)!r}")]


def excuse(tame: bool, program: Any, attained: Any) -> float:
    """What a bound may be false by: nothing if the problem is tame."""
    return 0.0 if tame else EXCUSED * max(abs(float(attained)), program.total)


def check_arithmetic(c: dict[str, Any], tol: float | None) -> list[Finding]:
    """Check that the gap is that of the bounds, and ``converged`` is True only if it is at most ``tol``."""
    found = []
    upper, lower, gap = c["objective"], c["lower_bound"], c["gap"]
    if math.isfinite(upper) and math.isfinite(lower) and upper != 0.0:
        right = max(0.0, (upper - lower) / abs(upper))
        if not abs(gap - right) <= 1e-12 + 1e-9 * right:
            found.append(Finding("gap", f"gap {gap!r}, but the bounds say {right!r}"))
    elif not (math.isfinite(upper) and math.isfinite(lower)) and math.isfinite(gap):
        found.append(Finding("gap", f"gap {gap!r} of the bounds {lower!r} and {upper!r}"))
    if tol is not None and c["converged"] and not gap <= tol:
        found.append(Finding("converged", f"converged, but the gap is {gap!r} and tol {tol!r}"))
    return found


def check_program(
    certificate: dict[str, Any],
    program: Any,
    z: Any,
    tol: float | None,
    *,
    tame: bool,
    loose: float = LOOSE,
    rescaled: bool = False,
) -> list[Finding]:
    """Run all checks of a fit of ``program`` that returned the weights ``z``. If they were ``rescaled`` in
    the end, the objective is that of the weights before this last rounding."""
    found = check_arithmetic(certificate, tol)
    if not np.isfinite(np.asarray(z, dtype=float)).all():
        return [*found, Finding("objective", "weights that are not finite")]
    if program.violated(z):
        found.append(Finding("signs", "a weight is outside its bounds"))
    value, error = program.value(z)
    if math.isfinite(certificate["objective"]):
        below = error + excuse(tame, program, value)
        below += program.rounding(z, EPS) if rescaled else 0.0
        found += check_objective(certificate["objective"], value, below, loose)
    _, attained, slack = best_point(program, [z])
    slack += excuse(tame, program, attained)
    return found + check_bound(certificate["lower_bound"], attained, slack)


def check_warnings(
    certificate: dict[str, Any], caught: list[warnings.WarningMessage], silent: bool = False
) -> list[Finding]:
    """Not converged: one ConvergenceWarning; converged: none. Numbers never overflow without a warning."""
    found = []
    count = sum(issubclass(w.category, ConvergenceWarning) for w in caught)
    if not certificate["converged"] and count != 1 and not silent:
        gap, why = certificate["gap"], certificate["stop_reason"]
        found.append(Finding("warning", f"{count} warnings at gap {gap:.1e} ({why})"))
    if certificate["converged"] and count:
        found.append(Finding("warning", "a ConvergenceWarning, but converged"))
    for w in caught:
        if issubclass(w.category, RuntimeWarning) and "maxmargin" in str(w.filename):
            found.append(Finding("numpy", f"{w.message} ({w.filename}:{w.lineno})"))
            break
    return found


@contextlib.contextmanager
def watched() -> Iterator[list[warnings.WarningMessage]]:
    """Collect all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def is_refusal(error: Exception) -> bool:
    """Whether the library, or scikit-learn's validation, raised this ValueError or TypeError on purpose."""
    if not isinstance(error, ValueError | TypeError) or isinstance(error, np.linalg.LinAlgError):
        return False
    where = traceback.extract_tb(error.__traceback__)[-1]
    on_purpose = (where.line or "").startswith("raise")
    return on_purpose and ("maxmargin" in where.filename or "sklearn/utils" in where.filename)
