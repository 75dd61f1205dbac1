"""What a command prints about a fit: in words, or as one JSON object."""

from __future__ import annotations

import json
import math
from typing import Any

from maxmargin.command_line.errors import ExitCode
from maxmargin.command_line.readers.examples import Examples, OnDisk, Sequences

_SCALE = ", or scale the features to similar ranges"
_ONE = {
    "n_samples": "sample",
    "n_sequences": "sequence",
    "n_tokens": "token",
    "n_features": "feature",
    "n_queries": "query",
    "n_classes": "class",
}
_STOPPED = {
    "max_iter": "stopped by --max-iter",
    "max_seconds": "stopped by --seconds",
    "interrupted": "stopped by Ctrl-C",
    "stalled": "stalled: no further progress",
    "rounding": "rounding errors may be larger than the tolerance",
}
_ADVICE = {
    "max_iter": f"raise --max-iter or --tol{_SCALE}",
    "max_seconds": f"raise --seconds or --tol{_SCALE}",
    "stalled": "scale the features to similar ranges, lower --C, or raise --tol",
    "rounding": "scale the features to similar ranges, lower --C, or raise --tol",
}


def sizes(estimator: Any, examples: Examples) -> dict[str, int]:
    """The sizes of a training problem."""
    out = {"n_samples": len(examples)}
    if isinstance(examples, OnDisk) and examples.data.ragged:
        out = {"n_sequences": len(examples), "n_tokens": examples.data.shape[0]}
    elif isinstance(examples, Sequences):
        out = {"n_sequences": len(examples), "n_tokens": examples.n_tokens}
    out["n_features"] = int(estimator.n_features_in_)
    if hasattr(estimator, "n_queries_"):
        out["n_queries"] = int(estimator.n_queries_)
    if hasattr(estimator, "classes_"):
        out["n_classes"] = len(estimator.classes_)
    return out


def sizes_in_words(found: dict[str, int]) -> str:
    """For example ``7,770 samples, 8,315 features, 2 classes``."""
    return ", ".join(f"{n:,} {_ONE[name] if n == 1 else name[2:]}" for name, n in found.items())


def certificate(estimator: Any) -> dict[str, Any]:
    """The certificate of a fit, for JSON: numbers that are not finite are null."""
    tol = estimator.tol
    out = {
        "certified": bool(estimator.converged_),
        "certificate": estimator.certificate_,
        "objective": estimator.objective_,
        "lower_bound": estimator.lower_bound_,
        "gap": estimator.gap_,
        "tol": tol if isinstance(tol, int | float) else repr(tol),
        "stop_reason": estimator.stop_reason_,
        "n_iter": int(estimator.n_iter_),
    }
    for name in ("restricted_gap_", "restricted_lower_bound_"):
        if hasattr(estimator, name):
            out[name.rstrip("_")] = float(getattr(estimator, name))
    return {name: finite(value) for name, value in out.items()}


def certificate_in_words(estimator: Any) -> str:
    """One line: the bounds, the gap, and whether it was reached."""
    upper, lower, gap = estimator.objective_, estimator.lower_bound_, estimator.gap_
    bounds = "the optimum is not known"
    if math.isfinite(lower) and math.isfinite(upper):
        digits = _digits(lower, upper)
        bounds = f"{lower:.{digits}g} <= optimum <= {upper:.{digits}g}, gap {gap:.2g}"
    elif math.isfinite(upper):
        bounds = f"optimum <= {upper:.6g}, no lower bound"
    if estimator.converged_:
        kind = "" if estimator.certificate_ == "exact" else f", {estimator.certificate_}"
        return f"certified: {bounds} (tol {estimator.tol:g}{kind})"
    reason = estimator.stop_reason_
    text = f"not certified: {bounds} (tol {estimator.tol:g}); {_STOPPED.get(reason, reason)}"
    if hasattr(estimator, "restricted_gap_"):
        text = (
            f"not certified ({estimator.certificate_}): {bounds}; gap of the restricted problem "
            + (f"{estimator.restricted_gap_:.2g}")
        )
    if reason in _ADVICE:
        text += f" ({_ADVICE[reason]})"
    if getattr(estimator, "vectorizer_", None) is not None:  # names have no ranges
        text = text.replace(_SCALE, "")
    return text


def figure(value: float) -> str:
    """A number in a table, with four digits behind the point where that shows enough of it."""
    return f"{value:.4f}" if value == 0.0 or 1e-2 <= abs(value) < 1e4 else f"{value:.4g}"


def exit_code(estimator: Any) -> ExitCode:
    """0 if the fit is certified, 3 if not, 130 after Ctrl-C."""
    if estimator.stop_reason_ == "interrupted":
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if estimator.converged_ else ExitCode.NOT_CERTIFIED


def print_json(found: dict[str, Any]) -> None:
    """Print one JSON object on one line."""
    print(json.dumps(found, allow_nan=False, default=_plain))


def finite(value: object) -> Any:
    """The value, or None for numbers that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _digits(lower: float, upper: float) -> int:
    """So many digits that the bounds differ, between 6 and 17."""
    for digits in range(6, 17):
        if f"{lower:.{digits}g}" != f"{upper:.{digits}g}":
            return digits
    return 17


def _plain(value: object) -> Any:
    """NumPy numbers and arrays as numbers and lists, and other objects as they are shown."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return repr(value)
