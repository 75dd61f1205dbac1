"""Results of the oracle (loss-augmented inference) of a structured problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxmargin.core.vectors import Array, all_writable


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The oracle's results for the examples ``lo .. hi-1`` at one ``w``.

    ``labelings`` is the task's own container: a list for plain Python, a flat array with pointers
    for compiled tasks. ``losses`` are Delta(y_i, y^_i). ``values`` are the attained
    Delta + <w, Psi(x_i, y^_i) - Psi(x_i, y_i)> (margin rescaling) or Delta (1 + ...) (slack rescaling).
    ``uppers`` are upper bounds of the maximum, equal to ``values`` unless inference was truncated.
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
    """Unpickle answers; arrays sent from another process may be read-only; clear that flag."""
    return Answers(*all_writable(fields))
