"""Feasible dual points, which prove a lower bound."""

from __future__ import annotations

from typing import Protocol

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound


class FeasibleDual(Protocol):
    """A feasible dual point that can recompute its own value."""

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """A lower bound of F(w*), reduced by a bound on the rounding error unless that is negligible."""
