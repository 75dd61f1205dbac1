"""Weights that are not learned.

With w = v + f, where f holds the fixed weights and v is zero there, a plane (l, p) of the risk becomes a
plane of v:

    l + <p, w> = (l + <p_fixed, f>) + <p_learned, v>

so a fixed weight only moves offsets, which may then be negative. The truth keeps its value 0, so R >= 0
still holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector, entries


@dataclass(frozen=True, slots=True, eq=False)
class FixedWeights:
    """Indices, ascending, and the values they keep."""

    indices: IntArray
    values: Array

    def whole(self, w: Array) -> Array:
        """The learned weights with the fixed ones in their places."""
        w = np.array(w, dtype=np.float64)
        w[self.indices] = self.values
        return w

    def learned(self, w: Array) -> Array:
        """The same weights with zeros in the fixed places."""
        w = np.array(w, dtype=np.float64)
        w[self.indices] = 0.0
        return w

    def split(self, plane: Vector) -> tuple[float, Vector]:
        """What the fixed weights add to a plane's offset, and the plane without its fixed entries."""
        share = float(entries(plane, self.indices) @ self.values)
        if isinstance(plane, SparseVector):
            keep = ~np.isin(plane.indices, self.indices)
            return share, SparseVector(plane.indices[keep], plane.values[keep], plane.size)
        return share, self.learned(plane)


def fix_weights(
    fixed: Mapping[Any, float] | None, dim: int, names: Sequence[Hashable] | None
) -> FixedWeights | None:
    """The user's ``{index or name: value}``, checked."""
    if not fixed:
        return None
    if not isinstance(fixed, Mapping):
        raise TypeError(
            f"fixed={fixed!r}: give a dict from index (or name) of a weight to its value."
        )
    indices = find_weights(fixed, dim, names, "fixed")
    values = np.array([float(value) for value in fixed.values()])
    if not np.isfinite(values).all():
        raise ValueError("fixed: the values must be finite numbers.")
    order = np.argsort(indices)
    return FixedWeights(indices[order], values[order])


def find_weights(
    keys: Iterable[Any], dim: int, names: Sequence[Hashable] | None, what: str
) -> IntArray:
    """Indices of weights given by index or by name; ``what`` is the parameter that names them."""
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise ValueError(f"{what}={keys!r}: give a list of weights, by index or by name.")
    place = {} if names is None else {name: k for k, name in enumerate(names)}
    found: list[int] = []
    for key in keys:
        if key in place:
            found.append(place[key])
        elif isinstance(key, Integral) and not isinstance(key, bool) and -dim <= int(key) < dim:
            found.append(int(key) % dim)
        else:
            known = f"an index below {dim}" + (f" or one of {list(place)}" if place else "")
            raise ValueError(f"{what} names a weight {key!r}: give {known}.")
    if len(set(found)) < len(found):
        raise ValueError(f"{what} names a weight twice.")
    return np.array(found, dtype=np.int64)
