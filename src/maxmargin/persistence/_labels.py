"""Labels, and checks of plain values from a model file."""

from __future__ import annotations

import math
from typing import Any

from maxmargin.files.codec import FormatError, shown

#: nesting allowed in labels
_DEPTH = 32
_PLAIN = (type(None), bool, int, str)


def is_label(value: Any, depth: int = 0) -> bool:
    """Whether a value is a str, int, float, bool, None or a (nested) tuple of these; NaN is not a label."""
    if type(value) is tuple:
        return depth < _DEPTH and all(is_label(part, depth + 1) for part in value)
    return type(value) in _PLAIN or (type(value) is float and not math.isnan(value))


def check_label(label: Any) -> None:
    """Refuse to save a label that a file cannot hold."""
    if not is_label(label):
        kind = f"{type(label).__module__}.{type(label).__qualname__}".removeprefix("builtins.")
        raise ValueError(
            f"the label {shown(label)} ({kind}) cannot be saved: labels in a file are str, int, float (not "
            "NaN), bool, None, or tuples of these, exactly. Rename the labels before fit, as with str(label)."
        )


def is_number(value: Any) -> bool:
    """Whether a value is a number that NumPy can hold; NaN is not."""
    if isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, float) and not math.isnan(value)


def section(
    stored: Any, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A dict with the required names, and no others than the optional ones."""
    if not isinstance(stored, dict):
        raise FormatError(f"{what} must be a JSON object; the file has {shown(stored)}")
    if missing := [name for name in required if name not in stored]:
        raise FormatError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(map(str, set(stored) - set(required) - set(optional))):
        raise FormatError(f"{what} has entries that do not belong there: {shown(unknown)}")
    return dict(stored)
