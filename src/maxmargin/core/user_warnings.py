"""Warnings that point to the user's line, however deep in the library they are raised."""

from __future__ import annotations

import sys
import warnings

#: packages whose frames are skipped: the caller of a search or of a pipeline is meant, not scikit-learn
_NOT_THE_USER = ("maxmargin", "sklearn", "joblib", "contextlib", "functools", "threading")


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line that is neither of this library nor of scikit-learn."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_internal(str(frame.f_globals.get("__name__", ""))):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def _is_internal(module: str) -> bool:
    return module.partition(".")[0] in _NOT_THE_USER


def called_by(package: str) -> bool:
    """Whether a function of this package is among the callers."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if str(frame.f_globals.get("__name__", "")).startswith(package):
            return True
    return False
