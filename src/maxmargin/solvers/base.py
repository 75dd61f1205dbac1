"""What every solver has in common: the problem it is given, and the state it keeps between two questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, Protocol, runtime_checkable

import numpy as np

from maxmargin.checkpoints import CheckpointError
from maxmargin.core.contract.requests import Steps
from maxmargin.core.contract.row_duals import NO_ROWS, RowDuals, RowShape
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import StopReason
from maxmargin.core.stopping import Bounds, StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.solvers.requirements import Needs


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
    #: the rows, and how they can be improved: what a choice of method looks at
    shape: RowShape = NO_ROWS
    methods: frozenset[str] = frozenset()
    #: a slope on a line costs as much as a cut
    expensive_slopes: bool = False


@dataclass(slots=True, eq=False)
class SolverState:
    """Incumbent and bounds. Each update is one assignment of a finished value, so that an interrupt
    between any two instructions leaves a state that is true."""

    w: Array
    upper: float = float("inf")
    lower: float = -float("inf")
    dual: FeasibleDual | None = None
    stop: StopReason | None = None
    #: a point not evaluated yet that may be better than ``w``; a confirming pass decides at the end
    candidate: Callable[[], Array] | None = None
    #: what the solver itself keeps (a bundle, working sets); saved with a checkpoint
    memory: Any = field(default=None, repr=False)
    #: dual points over rows, by method
    duals: dict[str, RowDuals] = field(default_factory=dict, repr=False)
    #: set by a method that judged its own end out of reach
    gave_up: bool = False
    #: which method of a portfolio is at work
    phase: int = 0
    #: where the loop is, as plain values: asked for when a checkpoint is written, at the end of an iteration
    place: Callable[[], dict[str, Any]] | None = None
    #: the place from which the first loop shall go on, in a fit that was resumed
    resumed: dict[str, Any] | None = None

    def go_on(self, *names: str) -> dict[str, Any] | None:
        """The place to go on from, once, with entries of these names; None if this loop begins."""
        place, self.resumed = self.resumed, None
        if place is not None and set(place) != set(names):
            raise CheckpointError(
                "the checkpoint does not fit this problem: it is of another loop."
            )
        return place

    def offer(self, w: Array, upper: float) -> None:
        """Take the point if it is the best so far."""
        if upper < self.upper:
            self.w, self.upper = w, upper

    def raise_lower(self, lower: float, dual: FeasibleDual) -> None:
        """Take the lower bound if it is the best so far."""
        if lower > self.lower or self.dual is None:
            self.lower, self.dual = lower, dual

    def met(self, problem: Problem) -> bool:
        """Ask the stopping rule."""
        return problem.stopping.met(Bounds(self.upper, self.lower, problem.C))

    @property
    def gap(self) -> float:
        """The absolute gap."""
        return self.upper - self.lower


@runtime_checkable
class Solver(Protocol):
    """A method: configuration only; everything that changes lives in the state."""

    @property
    def needs(self) -> Needs:
        """What a risk must offer; ``Needs()`` for evaluations only."""

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop, as a generator of requests. Ends by setting ``state.stop``."""


#: a fit is given up when it would take so many times as long again as it was watched
OUT_OF_SIGHT = 30.0


class StallDetector:
    """Notices that there is no progress left, or hardly any.

    Either rounding has ended it: over ``window`` iterations the gap shrank by less than rounding of the
    objective. Or the end is out of sight: at the rate of the last ``patience`` iterations it would take more
    than 30 times as many to reach what is allowed.
    """

    def __init__(self, window: int = 60, patience: int = 1000) -> None:
        self._window, self._patience = window, patience
        self._best: list[float] = []

    def stalled(self, gap: float, upper: float, allowed: float) -> bool:
        """Count one iteration with this gap and this F; the goal is the gap ``allowed``."""
        best = self._best
        best.append(min(gap, best[-1]) if best else gap)
        del best[: -self._patience - 1]
        if len(best) > self._window and best[-1 - self._window] - best[-1] <= 1e-13 * abs(upper):
            return True
        if len(best) <= self._patience or not np.isfinite(best[0]) or best[-1] <= 0.0:
            return len(best) > self._patience and not np.isfinite(best[-1])
        goal = max(allowed, 1e-13 * abs(upper), 1e-300)
        return bool(np.log(best[-1] / goal) > OUT_OF_SIGHT * np.log(best[0] / best[-1]))


class Outlook:
    """How much work is left, from the rate at which the gap has fallen."""

    def __init__(self, seen: Sequence[float] = ()) -> None:
        self._seen: list[tuple[float, float]] = list(zip(seen[::2], seen[1::2], strict=True))

    def seen(self) -> list[float]:
        """Work and gap by turns, from which to go on."""
        return [float(number) for pair in self._seen for number in pair]

    def remaining(self, work: float, gap: float, target: float) -> float:
        """Predicted further work until the gap is ``target``; 0 while there is nothing to judge by."""
        self._seen.append((work, gap))
        half = self._seen[len(self._seen) // 2 - 1 if len(self._seen) > 1 else 0]
        if len(self._seen) < 4 or not np.isfinite(half[1]) or gap <= target:
            return 0.0
        fallen = log(half[1] / gap) if gap < half[1] else 0.0
        if fallen <= 0.0 or target <= 0.0:  # no progress; or the optimum is zero
            return float("inf")
        return log(gap / target) * (work - half[0]) / fallen
