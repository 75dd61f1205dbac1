"""Helpers of all checks: test points, and comparisons with informative error messages."""

from __future__ import annotations

import numbers
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.vectors import Array, SparseVector, Vector
from maxmargin.testing.reference import dense

RTOL = 1e-9


def points(dim: int, n: int, rng: np.random.Generator) -> Iterator[Array]:
    """Test points: 0 first, then normally distributed ones of several sizes, and integer ones to cause ties.

    They are read-only, like the arrays that an engine publishes. So a compiled function that accepts only
    writable arrays fails here and not on a cluster.
    """
    for trial in range(n):
        if trial == 0:
            w = np.zeros(dim)
        elif trial % 4 == 0:
            w = rng.integers(-1, 2, dim).astype(np.float64)
        else:
            w = rng.normal(size=dim) * (0.1, 1.0, 10.0)[trial % 3]
        w.flags.writeable = False
        yield w


def dimension(task: Any, X: Sequence[object], Y: Sequence[object], check: str) -> int:
    """Call ``task.setup(X, Y)`` and return the dimension of the joint features."""
    require(
        len(X) == len(Y) > 0,
        f"{check} requires at least one example, and as many inputs as outputs",
    )
    dim: int = task.setup(X, Y)
    require(
        isinstance(dim, numbers.Integral) and not isinstance(dim, bool) and dim > 0,
        f"setup must return the dimension of joint_feature, a positive int, got {dim!r}",
    )
    return int(dim)


def require(condition: bool, message: str) -> None:
    """Raise an AssertionError with the message if the condition is false, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def require_close(
    found: float, expected: float, what: str, scale: float = 0.0, outputs: tuple[object, ...] = ()
) -> None:
    """Require that two numbers are equal up to rounding; ``scale`` is the size of the summed terms."""
    if not abs(found - expected) <= RTOL * max(1.0, abs(expected), abs(scale)):
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}{_shown(outputs)}")


def require_at_least(
    found: float, bound: float, what: str, scale: float = 0.0, outputs: tuple[object, ...] = ()
) -> None:
    """Require ``found >= bound`` up to rounding. ``outputs``: the returned one, and one that is better."""
    if not found >= bound - RTOL * max(1.0, abs(bound), abs(scale)):
        text = f"{what}: found {found!r}, but it must be at least {bound!r}{_shown(outputs)}"
        raise AssertionError(text)


def _shown(outputs: tuple[object, ...]) -> str:
    """Two outputs, below the sentence that says what is wrong: they may be long."""
    names = ("returned", "better  ")
    return "".join(f"\n  {name}: {y!r}" for name, y in zip(names, outputs, strict=False))


def require_vector(v: Vector, dim: int, what: str) -> None:
    """Require a dense float vector of length ``dim`` or a valid :class:`SparseVector`."""
    if isinstance(v, SparseVector):
        require(v.size == dim, f"{what}: got a SparseVector of size {v.size}, expected {dim}")
        require(
            v.indices.shape == v.values.shape and v.indices.ndim == 1,
            f"{what}: indices have shape {v.indices.shape}, but values have shape {v.values.shape}",
        )
        steps = np.diff(v.indices)
        require(bool((steps > 0).all()), f"{what}: indices must be sorted and unique")
        inside = len(v.indices) == 0 or (v.indices[0] >= 0 and v.indices[-1] < dim)
        require(bool(inside), f"{what}: indices must be in the range 0 .. {dim - 1}")
        values = v.values
    else:
        require(
            isinstance(v, np.ndarray) and v.shape == (dim,),
            f"{what}: expected an array of shape ({dim},) or a SparseVector, "
            f"got {type(v).__name__} of shape {getattr(v, 'shape', None)}",
        )
        values = v
    require(bool(np.isfinite(values).all()), f"{what}: some entries are not finite")


def require_same_vector(found: Vector, expected: Vector, what: str) -> None:
    """Require that two vectors are equal up to rounding."""
    a, b = dense(found), dense(expected)
    require(a.shape == b.shape, f"{what}: the shapes {a.shape} and {b.shape} differ")
    size = max(1.0, float(np.abs(b).max(initial=0.0)))
    off = np.abs(a - b)
    worst = int(off.argmax()) if off.size else 0
    require(
        bool((off <= RTOL * size).all()),
        f"{what}: they differ at coordinate {worst}: found {a[worst] if off.size else None!r}, "
        f"expected {b[worst] if off.size else None!r}",
    )


def require_same_cut(found: Cut, expected: Cut, what: str) -> None:
    """Require that two cuts are equal up to rounding."""
    require_close(found.offset, expected.offset, f"{what}, offset")
    require_same_vector(found.plane, expected.plane, f"{what}, plane")


def size_of(cut: Cut, w: Array) -> float:
    """The size of the terms of a cut at ``w``, which rounding errors are proportional to."""
    return abs(cut.offset) + float(np.abs(dense(cut.plane)) @ np.abs(w))


class Snapshot:
    """A copy of the attributes of an object, to detect later changes."""

    def __init__(self, thing: object) -> None:
        self._thing = thing
        self._before = self._freeze()

    def _freeze(self) -> dict[str, bytes | int]:
        frozen: dict[str, bytes | int] = {}
        for name, value in vars(self._thing).items():
            try:
                frozen[name] = pickle.dumps(value)
            except Exception:  # not picklable (a lambda, a lock): compare identities
                frozen[name] = id(value)
        return frozen

    def require_unchanged(self, what: str) -> None:
        """Require that no attribute was added, removed or changed."""
        after = self._freeze()
        names = sorted(
            name
            for name in self._before.keys() | after.keys()
            if self._before.get(name) != after.get(name)
        )
        require(
            not names, f"{what} wrote to {', '.join(names)}: a task must not change after setup()"
        )
