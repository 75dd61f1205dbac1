"""Values that come back from a file, checked before anything is computed with them.

A checkpoint's checksum says that it is as someone wrote it, not that it is true. Every entry is taken by one
of these functions: the right type and shape, or a ValueError that names it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray


def entries(kept: Any, *names: str) -> list[Any]:
    """The values of these names."""
    if not isinstance(kept, dict):
        raise ValueError(f"there is no state with {', '.join(names)}")
    missing = [name for name in names if name not in kept]
    if missing:
        raise ValueError(f"the state lacks {', '.join(missing)}")
    return [kept[name] for name in names]


def floats(given: Any, what: str, shape: tuple[int | None, ...], *, finite: bool = True) -> Array:
    """An array of float64 with this shape (None: any length); NaN is never allowed."""
    array: Array = _array(given, what, "f", shape)
    if array.dtype != np.float64 or not (np.isfinite(array) if finite else array == array).all():
        raise ValueError(f"{what} are not {'finite ' if finite else ''}numbers")
    return array


def integers(
    given: Any, what: str, shape: tuple[int | None, ...], least: int = 0, below: int = 2**62
) -> IntArray:
    """An array of integers in this range, as int64."""
    array: IntArray = _array(given, what, "iu", shape)
    if array.size and not (int(array.min()) >= least and int(array.max()) < below):
        raise ValueError(f"{what} are out of range")
    return array.astype(np.int64, copy=False)


def flags(given: Any, what: str, shape: tuple[int | None, ...]) -> Any:
    """An array of booleans."""
    return _array(given, what, "b", shape)


def _array(given: Any, what: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
    if type(given) is not np.ndarray or given.dtype.kind not in kinds or not given.dtype.isnative:
        raise ValueError(f"{what} are not an array of numbers of their kind")
    fits = len(given.shape) == len(shape) and all(
        b is None or a == b for a, b in zip(given.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{what} have the shape {given.shape}, not {shape}")
    return given


def number(given: Any, what: str, least: float = -math.inf, *, finite: bool = True) -> float:
    """A number, not below ``least``; NaN is never allowed."""
    if isinstance(given, np.generic):
        given = given.item()
    if type(given) not in (int, float) or (abs(given) > 1.8e308 and finite) or not given >= least:
        raise ValueError(f"{what} is not a number that can be there")
    try:
        return float(given)
    except OverflowError:
        raise ValueError(f"{what} is not a number that can be there") from None


def count(given: Any, what: str, least: int = 0, most: int = 2**62) -> int:
    """A whole number in this range."""
    if isinstance(given, np.integer):
        given = int(given)
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"{what} is not a whole number between {least} and {most}")
    return given
