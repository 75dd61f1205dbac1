"""What every solver has in common: the problem it is given, and the state it keeps between two questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.requests import Steps
from maxmargin.core.result import FeasibleDual, StopReason
from maxmargin.core.stopping import Bounds, StoppingRule
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """min Omega(w) + C R(w), as far as a solver needs to know it."""

    dim: int
    n_blocks: int
    n_examples: int
    C: float
    base: float
    regularizer: SquaredNorm
    has_cache: bool
    stopping: StoppingRule
    random_state: int = 0


@dataclass(slots=True, eq=False)
class SolverState:
    """Incumbent and bounds. Each update is one assignment of a finished value, so that an interrupt
    between any two instructions leaves a state that is true."""

    w: Array
    upper: float = float("inf")
    lower: float = -float("inf")
    dual: FeasibleDual | None = None
    stop: StopReason | None = None
    violation: float = float("inf")
    #: a point not evaluated yet that may be better than ``w``; a confirming pass decides at the end
    candidate: Callable[[], Array] | None = None
    #: what the solver itself keeps (a bundle, working sets); saved with a checkpoint
    memory: Any = field(default=None, repr=False)

    def offer(self, w: Array, upper: float) -> None:
        """Take the point if it is the best so far."""
        if upper < self.upper:
            self.w, self.upper = w, upper

    def raise_lower(self, lower: float, dual: FeasibleDual) -> None:
        """Take the lower bound if it is the best so far."""
        if lower > self.lower or self.dual is None:
            self.lower, self.dual = lower, dual

    def met(self, problem: Problem, violation: float = float("inf")) -> bool:
        """Ask the stopping rule."""
        self.violation = violation
        return problem.stopping.met(Bounds(self.upper, self.lower, problem.C, violation))

    @property
    def gap(self) -> float:
        """The absolute gap."""
        return self.upper - self.lower


class Solver(Protocol):
    """A method: configuration only; everything that changes lives in the state."""

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop, as a generator of requests. Ends by setting ``state.stop``."""


class StallDetector:
    """Notices that rounding has ended all progress: over a window the gap did not shrink."""

    def __init__(self, window: int = 60, factor: float = 1.0 - 1e-6) -> None:
        self._window, self._factor = window, factor
        self._count, self._reference = 0, np.inf

    def stalled(self, gap: float) -> bool:
        """Count one iteration with this gap."""
        if gap < self._factor * self._reference or not np.isfinite(gap):
            self._count, self._reference = 0, gap
            return False
        self._count += 1
        return self._count >= self._window
