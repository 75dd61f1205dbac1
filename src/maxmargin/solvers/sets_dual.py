"""Working sets as a feasible dual point, and how far the loop over them is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound, level
from maxmargin.core.vectors import Array, frozen


@dataclass(frozen=True, slots=True, eq=False)
class SetsDual:
    """The working sets as a feasible dual point."""

    sets: WorkingSets

    def lower(self) -> float:
        """The dual value, recomputed from the multipliers, minus the rounding errors of its sums."""
        value = self.sets.dual_value()
        w = self.sets.w
        return value - level(self.sets.n_examples) * (abs(value) + float(w @ w))

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """The same, as the certificate asks for it."""
        return self.lower()

    def point(self) -> Array:
        """The primal point of the multipliers, recomputed."""
        self.sets.dual_value()
        return frozen(self.sets.w)


@dataclass(slots=True)
class SetsProgress:
    """How far the loop over working sets is."""

    unconfirmed: int = 0
    """Passes since F was last computed."""
    upper_guess: float = np.inf
    passes: int = 0
    seen: list[float] = field(default_factory=list)
    """What :class:`GapForecast` has seen."""
