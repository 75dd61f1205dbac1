"""A cut: an affine minorant of the risk.

    R(v) >= offset + <plane, v>    for all v

up to rounding: computed in double precision it may be wrong by ``error * (1 + |v|)``; see
:mod:`maxmargin.core.rounding`. Cuts of parts add up to a cut of the sum. That is all a thread
pool, a disk or a cluster has to know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from maxmargin.core.summation import add_into, tree_sum
from maxmargin.core.vectors import Array, Vector, add, dot, travelling


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The affine minorant ``offset + <plane, v>`` of a risk, and what rounding may have done to it.

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
        """Value of the minorant at ``w``."""
        return self.offset + dot(self.plane, w)

    def __reduce__(self) -> Any:
        # pickled is what travels; sums have the same bits either way
        return Cut, (self.offset, travelling(self.plane), self.error)

    def __add__(self, other: Cut) -> Cut:
        error = self.error + other.error
        return Cut(self.offset + other.offset, add(self.plane, other.plane), error)

    def add_in_place(self, other: Cut) -> Cut:
        """The same sum in this cut's memory, after which this one must not be used any more."""
        error = self.error + other.error
        return Cut(self.offset + other.offset, add_into(self.plane, other.plane), error)


def add_cuts(cuts: Iterable[Cut]) -> Cut:
    """The cut of a sum of risks, summed by the one rule of :mod:`maxmargin.core.summation`."""
    total: Cut = tree_sum(cuts)
    return total
