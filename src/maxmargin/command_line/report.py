"""What a command prints: certificates, tables, colors of a terminal, errors, and exit codes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, TextIO

_SCALE = ", or scale the features to similar ranges"
_ILL_SCALED = "scale the features to similar ranges, lower --C, or raise --tol"
#: reasons to stop: what happened, and what to do
_STOPPED = {
    "max_iter": ("stopped by --max-iter", f"raise --max-iter or --tol{_SCALE}"),
    "max_seconds": ("stopped by --seconds", f"raise --seconds or --tol{_SCALE}"),
    "interrupted": ("stopped by Ctrl-C", ""),
    "stalled": ("stalled: no further progress", _ILL_SCALED),
    "rounding": ("rounding errors may be larger than the tolerance", _ILL_SCALED),
}


class ExitCode(IntEnum):
    """What the exit code of the command says, for scripts."""

    DONE = 0
    #: an unexpected error: a bug
    BUG = 1
    #: wrong arguments or wrong input
    USAGE = 2
    #: the fit ended without reaching its tolerance; its model is written
    NOT_CERTIFIED = 3
    #: Ctrl-C; what was found is written
    INTERRUPTED = 130
    #: the program that reads our output has ended
    PIPE = 141


class CommandError(ValueError):
    """A message for the user, in one line, and the exit code."""

    def __init__(self, text: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(text)
        self.code = code


# -- the terminal ----------------------------------------------------------------------------------


def in_color(text: str, stream: TextIO, status: str = r"(not )?certified") -> str:
    """The text; on a terminal, what ``status`` matches is green if it is "certified", else yellow."""
    if not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text

    def colored(found: re.Match[str]) -> str:
        return f"\x1b[{32 if found[0] == 'certified' else 33}m{found[0]}\x1b[0m"

    return re.sub(status, colored, text)


def say(text: str, status: str = r"^maxmargin[^:]*:( warning:)?") -> None:
    """Write a line to standard error, if it has a reader: the exit code still says what happened."""
    with contextlib.suppress(BrokenPipeError):
        print(in_color(" ".join(text.split()), sys.stderr, status), file=sys.stderr)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines; the first column is aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [c.rjust(width) for c, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def print_json(found: dict[str, Any]) -> None:
    """Print one JSON object on one line."""
    print(json.dumps(found, allow_nan=False, default=_plain))


def finite(value: object) -> Any:
    """The value, or None for numbers that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> Any:
    """NumPy numbers and arrays as numbers and lists, and other objects as they are shown."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


# -- fits ------------------------------------------------------------------------------------------


def certificate(estimator: Any) -> dict[str, Any]:
    """The certificate of a fit, for JSON: numbers that are not finite are null."""
    tol = estimator.tol
    out = {
        "certified": bool(estimator.converged_),
        **{
            name: getattr(estimator, f"{name}_")
            for name in ("certificate", "objective", "lower_bound", "gap")
        },
        "tol": tol if isinstance(tol, int | float) else repr(tol),
        "stop_reason": estimator.stop_reason_,
        "n_iter": int(estimator.n_iter_),
    }
    for name in ("restricted_gap", "restricted_lower_bound"):
        if hasattr(estimator, f"{name}_"):
            out[name] = float(getattr(estimator, f"{name}_"))
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
    reason, advice = _STOPPED.get(estimator.stop_reason_, (estimator.stop_reason_, ""))
    text = f"not certified: {bounds} (tol {estimator.tol:g}); {reason}"
    if hasattr(estimator, "restricted_gap_"):
        gap = estimator.restricted_gap_
        text = f"not certified ({estimator.certificate_}): {bounds}; gap of the restricted problem {gap:.2g}"
    if getattr(estimator, "vectorizer_", None) is not None:  # names have no ranges
        advice = advice.replace(_SCALE, "")
    return f"{text} ({advice})" if advice else text


def exit_code(estimator: Any) -> ExitCode:
    """0 if the fit is certified, 3 if not, 130 after Ctrl-C."""
    if estimator.stop_reason_ == "interrupted":
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if estimator.converged_ else ExitCode.NOT_CERTIFIED


def _digits(lower: float, upper: float) -> int:
    """So many digits that the bounds differ, between 6 and 17."""
    for digits in range(6, 17):
        if f"{lower:.{digits}g}" != f"{upper:.{digits}g}":
            return digits
    return 17


def in_words(found: Iterable[tuple[str, int]]) -> str:
    """For example ``7,770 samples, 8,315 features, 2 classes``."""
    singular = {"queries": "query", "classes": "class"}
    return ", ".join(
        f"{n:,} {plural if n != 1 else singular.get(plural, plural[:-1])}" for plural, n in found
    )
