"""Points of the dual that prove a lower bound."""

from __future__ import annotations

from typing import Protocol

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Attained


class FeasibleDual(Protocol):
    """A feasible dual point that can compute its own value from scratch."""

    def value(self, regularizer: SquaredNorm, dim: int, attained: Attained) -> float:
        """A lower bound of F(w*) that has paid for what rounding may have done, unless that is negligible."""
