"""Validation of values read from a file, before they are used in computations.

Compiled code does not check bounds. So every entry is read through one of these functions, which check its
type, shape and range and raise a ValueError that names it. Whether a fit could have produced an entry is not
checked: the file's checksum tells that it is what was written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray


def entries(kept: Any, *names: str) -> list[Any]:
    """The values of these names in a stored state."""
    if not isinstance(kept, dict):
        raise ValueError(f"there is no state with {', '.join(names)}")
    missing = [name for name in names if name not in kept]
    if missing:
        raise ValueError(f"the state has no {', '.join(missing)}")
    return [kept[name] for name in names]


def floats(
    given: object, what: str, shape: tuple[int | None, ...], *, finite: bool = True
) -> Array:
    """Check an array of float64 of this shape (None: any length); NaN is never allowed."""
    array: Array = _array(given, what, "f", shape)
    if array.dtype != np.float64 or not (np.isfinite(array) if finite else array == array).all():
        raise ValueError(f"{what} are not {'finite ' if finite else ''}numbers")
    return array


def integers(
    given: object, what: str, shape: tuple[int | None, ...], least: int = 0, below: int = 2**62
) -> IntArray:
    """Check an array of integers in this range; return it as int64."""
    array: IntArray = _array(given, what, "iu", shape)
    if array.size and not (int(array.min()) >= least and int(array.max()) < below):
        raise ValueError(f"{what} are out of range")
    return array.astype(np.int64, copy=False)


def flags(given: object, what: str, shape: tuple[int | None, ...]) -> Any:
    """Check an array of booleans."""
    return _array(given, what, "b", shape)


def _array(given: object, what: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
    if type(given) is not np.ndarray or given.dtype.kind not in kinds or not given.dtype.isnative:
        raise ValueError(f"{what} are not an array of the expected type")
    fits = len(given.shape) == len(shape) and all(
        b is None or a == b for a, b in zip(given.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{what} have shape {given.shape}, not {shape}")
    return given


def number(given: Any, what: str, least: float = -math.inf, *, finite: bool = True) -> float:
    """Check a number that is at least ``least``; NaN is never allowed."""
    if isinstance(given, np.generic):
        given = given.item()
    try:
        if type(given) in (int, float) and given >= least and (math.isfinite(given) or not finite):
            return float(given)
    except OverflowError:  # an int that no float can hold
        pass
    raise ValueError(f"{what} is not a valid number")


def count(given: object, what: str, least: int = 0, most: int = 2**62) -> int:
    """Check an integer in this range."""
    if isinstance(given, np.integer):
        given = int(given)
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"{what} is not an integer between {least} and {most}")
    return given
