"""A cut (cutting plane): an affine lower bound of the risk.

    R(v) >= offset + <plane, v>    for all v

up to rounding: in double precision it may be wrong by ``error * (1 + |v|)``; see
:mod:`maxmargin.core.rounding`. The cuts of the parts of a risk sum to a cut of the whole. This is why
shards can run in threads, on disk or on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.rounding import gamma
from maxmargin.core.summation import AddsInPlace, add_into, tree_sum
from maxmargin.core.vectors import (
    Array,
    SparseVector,
    Vector,
    add,
    add_scaled,
    dot,
    for_pickling,
    norm,
    sparsify,
)


@dataclass(frozen=True, slots=True, eq=False)
class Cut(AddsInPlace):
    """The affine lower bound ``offset + <plane, v>`` of a risk, with a bound on its rounding error.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core import Cut
    >>> Cut(1.0, np.array([-2.0, 0.0])).at(np.array([0.25, 3.0]))
    0.5
    """

    offset: float
    plane: Vector
    error: float = 0.0

    def at(self, w: Array) -> float:
        """Value of the lower bound at ``w``."""
        return self.offset + dot(self.plane, w)

    def __reduce__(self) -> Any:
        # a compact form is pickled; sums are bit-identical either way
        return Cut, (self.offset, for_pickling(self.plane), self.error)

    def __add__(self, other: Cut) -> Cut:
        error = self.error + other.error
        return Cut(self.offset + other.offset, add(self.plane, other.plane), error)

    def add_in_place(self, other: Cut) -> Cut:
        """The same sum, computed in this cut's memory. This cut must not be used afterwards."""
        error = self.error + other.error
        return Cut(self.offset + other.offset, add_into(self.plane, other.plane), error)


def average(cuts: Sequence[Cut], share: Array, dim: int) -> Cut:
    """The average of cuts of one risk, again a cut of it; the weights ``share`` sum to 1."""
    plane: Array = np.zeros(dim)
    for weight, cut in zip(share, cuts, strict=True):
        add_scaled(plane, float(weight), cut.plane)
    offset = float(share @ np.array([cut.offset for cut in cuts]))
    sizes = np.array([cut.error + gamma(len(cuts)) * norm(cut.plane) for cut in cuts])
    error = float(share @ sizes) + gamma(len(cuts)) * abs(offset)
    sparse = isinstance(cuts[0].plane, SparseVector)
    return Cut(offset, sparsify(plane) if sparse else plane, error)


def add_cuts(cuts: Iterable[Cut]) -> Cut:
    """The cut of a sum of risks, added up in the order of :mod:`maxmargin.core.summation`."""
    total: Cut = tree_sum(cuts)
    return total
