"""The base of all solvers: the problem to solve, and the state of a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from math import log
from typing import Any

import numpy as np

from maxmargin.checkpoints import CheckpointError
from maxmargin.core.contract.risk import Risk
from maxmargin.core.contract.row_duals import NO_ROWS, RowDuals, RowShape
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import StopReason
from maxmargin.core.stopping import Bounds, StoppingRule
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """min Omega(w) + C R(w), as solvers see it."""

    dim: int
    n_blocks: int
    n_examples: int
    C: float
    base: float
    regularizer: SquaredNorm
    has_cache: bool
    cache_saves: bool
    stopping: StoppingRule
    random_state: int = 0
    #: the size of the problem over rows, and the methods that can solve it
    shape: RowShape = NO_ROWS
    methods: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, risk: Risk, C: float, regularizer: SquaredNorm, stopping: StoppingRule, seed: int
    ) -> Problem:
        """The problem of this risk."""
        rows, caching = risk.offers.row_duals, risk.offers.caching
        return cls(
            dim=risk.dim,
            n_blocks=risk.n_blocks,
            n_examples=risk.n_examples,
            C=float(C),
            base=risk.lower_bound,
            regularizer=regularizer,
            has_cache=caching is not None,
            cache_saves=caching is not None and caching.cache_saves,
            stopping=stopping,
            random_state=seed,
            shape=NO_ROWS if rows is None else rows.shape,
            methods=frozenset() if rows is None else rows.methods(regularizer),
        )


@dataclass(slots=True, eq=False)
class SolverState:
    """Incumbent and bounds. Each update is one assignment of a finished value, so that an interrupt
    between any two instructions leaves a valid state."""

    w: Array
    upper: float = float("inf")
    #: F at the last point that was offered with it, by the values that the oracle attained there
    attained: float = float("inf")
    lower: float = -float("inf")
    dual: FeasibleDual | None = None
    stop: StopReason | None = None
    #: a point not evaluated yet that may be better than ``w``; a confirming pass decides at the end
    candidate: Callable[[], Array] | None = None
    #: the solver's own memory (a bundle, working sets), saved with a checkpoint
    memory: Any = field(default=None, repr=False)
    #: dual points over rows, by method
    duals: dict[str, RowDuals] = field(default_factory=dict, repr=False)
    #: set by a method that expects not to reach the tolerance
    gave_up: bool = False
    #: index of the running method of an automatic choice
    phase: int = 0
    #: returns how far the loop is as plain values, for checkpoints at the end of an iteration
    place: Callable[[], dict[str, Any]] | None = None
    #: how far it was, until the first loop of a resumed fit continues from there
    resumed: dict[str, Any] | None = None

    def track(self, progress: Any, rng: np.random.Generator | None = None) -> bool:
        """Store with checkpoints how far the loop is: a dataclass of numbers and lists of them, and the state
        of the random numbers. In a resumed fit set them to what was stored; whether that was so."""
        kept, self.resumed = self.resumed, None
        if kept is not None:
            names = {"rng"} if rng is not None else set()
            if set(kept) != names | {f.name for f in fields(progress)}:
                raise CheckpointError(
                    "the checkpoint does not fit this problem: it was written by another loop."
                )
            for name, value in kept.items():
                if rng is not None and name == "rng":
                    rng.bit_generator.state = value
                else:
                    setattr(progress, name, value)
        self.place = lambda: {
            **({} if rng is None else {"rng": rng.bit_generator.state}),
            **asdict(progress),
        }
        return kept is not None

    def offer(self, w: Array, upper: float, attained: float = float("inf")) -> None:
        """Accept the point if it is the best so far."""
        self.attained = attained
        if upper < self.upper:
            self.w, self.upper = w, upper

    def raise_lower(self, lower: float, dual: FeasibleDual) -> None:
        """Accept the lower bound if it is the best so far."""
        if lower > self.lower or self.dual is None:
            self.lower, self.dual = lower, dual

    def met(self, problem: Problem) -> bool:
        """Whether the stopping rule is met."""
        return problem.stopping.met(Bounds(self.upper, self.lower, problem.C))

    def left_open(self, allowed: float) -> bool:
        """Whether only the oracle's bounds keep the gap above ``allowed``: without them, it would be much
        smaller."""
        return self.attained - self.lower <= SOLVED * allowed < allowed < self.gap

    @property
    def gap(self) -> float:
        """The absolute gap."""
        return self.upper - self.lower


#: stop if the estimated remaining time exceeds the observed time by this factor
OUT_OF_SIGHT = 30.0
#: share of the allowed gap to which a problem is solved if only the oracle's bounds keep the gap open
SOLVED = 0.03
#: changes of F below this fraction are rounding
ROUNDED = 1e-13
#: window and patience of :class:`StallDetector` where an iteration is a sweep over the examples
SWEEPS = 30, 300


class StallDetector:
    """Detects that there is no progress, or hardly any.

    Either rounding prevents it: over ``window`` iterations the gap decreased by less than the rounding of the
    objective. Or convergence is too slow: at the rate of the last ``patience`` iterations it would take more
    than 30 times as many to reach the allowed gap.
    """

    def __init__(self, window: int = 60, patience: int = 1000) -> None:
        self._window, self._patience = window, patience
        self._best: list[float] = []

    def stalled(self, gap: float, upper: float, allowed: float) -> bool:
        """Record one iteration with this gap and this F; the goal is the gap ``allowed``."""
        best = self._best
        best.append(min(gap, best[-1]) if best else gap)
        del best[: -self._patience - 1]
        if len(best) > self._window and best[-1 - self._window] - best[-1] <= ROUNDED * abs(upper):
            return True
        if len(best) <= self._patience or not np.isfinite(best[0]) or best[-1] <= 0.0:
            return len(best) > self._patience and not np.isfinite(best[-1])
        goal = max(allowed, ROUNDED * abs(upper), 1e-300)
        return bool(np.log(best[-1] / goal) > OUT_OF_SIGHT * np.log(best[0] / best[-1]))


class GapForecast:
    """How much work is left, from the rate at which the gap has fallen.

    ``seen`` is the list that it appends to, work and gap by turns; one that a checkpoint stored continues."""

    def __init__(self, seen: list[float] | None = None) -> None:
        self._seen = [] if seen is None else seen

    def remaining(self, work: float, gap: float, target: float) -> float:
        """Predicted further work until the gap is ``target``; 0 while there is nothing to judge by."""
        seen = self._seen
        seen += [float(work), float(gap)]
        n = len(seen) // 2
        k = 2 * (n // 2 - 1) if n > 1 else 0
        work_then, gap_then = seen[k], seen[k + 1]
        if n < 4 or not np.isfinite(gap_then) or gap <= target:
            return 0.0
        fallen = log(gap_then / gap) if gap < gap_then else 0.0
        if fallen <= 0.0 or target <= 0.0:  # no progress; or the optimum is zero
            return float("inf")
        return log(gap / target) * (work - work_then) / fallen
