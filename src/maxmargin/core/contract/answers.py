"""What the oracle of a structured problem answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxmargin.core.vectors import Array, all_writable


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What the oracle said for the examples ``lo .. hi-1`` at one ``w``.

    ``labelings`` is the task's own container (a list for plain Python, a flat array with pointers
    for compiled tasks); ``losses`` are Delta(y_i, y^_i); ``values`` the attained
    Delta + <w, Psi(x_i, y^_i) - Psi(x_i, y_i)> (margin) or Delta (1 + ...) (slack); ``uppers`` a
    bound of the maximum, equal to ``values`` unless a solver was truncated.
    """

    lo: int
    hi: int
    labelings: Any
    losses: Array
    values: Array
    uppers: Array

    def __reduce__(self) -> Any:
        fields = (self.lo, self.hi, self.labelings, self.losses, self.values, self.uppers)
        return _arrived, fields


def _arrived(*fields: Any) -> Answers:
    """Answers that have travelled: their arrays may have come read-only."""
    return Answers(*all_writable(fields))
