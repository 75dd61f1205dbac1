"""Planes that stay with the rows, for problems with too many features for dense weight vectors.

A point is then a short vector of coefficients over numbered planes, which the shards store as two numbers per
row (see :mod:`maxmargin.risks.scores.wide`). Numbers of unused planes are reused. Therefore the solver's
state must be rewritten from time to time, and a checkpoint must store the planes themselves.
"""

from __future__ import annotations

from typing import Any, Protocol

from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.vectors import Array


class LostPlanes(Exception):
    """A worker died with its part of the planes: no point that they make up can be restored."""


class Incumbent(Protocol):
    """The parts of a solver's state that are expressed in numbered planes."""

    w: Array
    dual: FeasibleDual | None
    memory: Any


class NumberedPlanes(Protocol):
    """A risk whose points are combinations of numbered planes."""

    def tidy(self, state: Incumbent) -> None:
        """Call between two iterations. If no number is free, drop unused planes and rewrite the state over
        the remaining ones."""
