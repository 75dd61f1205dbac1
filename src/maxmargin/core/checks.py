"""Checks of arguments: each returns the value, or raises ValueError that says what it is and may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array

Word = TypeVar("Word")

__all__ = ["cost_matrix", "integer", "nonnegative", "number", "one_of", "signs"]


def one_of(name: str, value: Word, words: Iterable[str]) -> Word:
    """Require one of these strings."""
    *most, last = map(repr, words)
    if not isinstance(value, str) or repr(value) not in (*most, last):
        raise ValueError(f"{name}={value!r}: use {', '.join(most)} or {last}.")
    return value


def integer(name: str, value: Any, least: int = 1, *, optional: bool = False) -> Any:
    """Require an integer of at least ``least``, or None if it is ``optional``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (whole and value >= least) and not (optional and value is None):
        raise ValueError(
            f"{name} must be an integer of at least {least}{' or None' * optional}, got {value!r}."
        )
    return None if value is None else int(value)


def number(name: str, value: Any, *, positive: bool = False, signed: bool = False) -> float:
    """Require a finite number: of at least 0, ``positive``, or ``signed``."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    least = -np.inf if signed else np.nextafter(0.0, 1.0) if positive else 0.0
    if not (real and np.isfinite(value) and value >= least):
        kind = "finite" if signed else "positive, finite" if positive else "nonnegative, finite"
        raise ValueError(f"{name} must be a {kind} number, got {value!r}.")
    return float(value)


def nonnegative(
    name: str, values: Any, shape: tuple[int, ...] | None = None, why: str = ""
) -> Array:
    """An array of finite numbers of at least 0 with this shape. ``why`` ends the message."""
    array: Array = np.asarray(values, dtype=np.float64, order="C")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}{why}.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0.0)))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and nonnegative; number {bad[0]} is {array.flat[bad[0]]}{why}."
        )
    return array


def cost_matrix(name: str, values: npt.ArrayLike, n: int | None = None) -> Array:
    """A square matrix, with ``n`` rows, of finite costs of at least 0; those of the diagonal are 0."""
    matrix: Array = np.array(values, dtype=np.float64, order="C")
    size = n or len(np.atleast_1d(matrix))
    if matrix.shape != (size, size):
        raise ValueError(
            f"{name} must be a square matrix{f' of shape {(n, n)}' if n else ''}, got shape {matrix.shape}."
        )
    nonnegative(name, matrix)
    if np.diagonal(matrix).any():
        raise ValueError(f"{name} must be zero on the diagonal.")
    return matrix


def signs(name: str, y: Any) -> None:
    """Require labels that are -1 or +1."""
    if not ((y == 1.0) | (y == -1.0)).all():
        raise ValueError(f"labels of {name} must be -1 or +1.")
