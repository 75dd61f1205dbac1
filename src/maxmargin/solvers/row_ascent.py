"""Dual ascent over rows by coordinate epochs, Newton steps, or passes over a stream.

    improve   one epoch or step. The dual value D is the lower bound. The gaps of the visited rows add up to
              an estimate of the duality gap that costs nothing
    check     when the estimate is near the tolerance, and every few epochs: one exact product X w. It gives
              F(w), the rows to visit next, and a point on whose line with the incumbent F is minimized
              exactly: the upper bound

The estimate can be too small or too large, so it only triggers checks. Bounds come from D and F alone.

Duals that run many epochs in one step (Crammer-Singer) begin at C itself. If they make too little progress,
the stages below follow.

Continuation in C: from a cold start, the number of epochs of coordinate ascent grows with C. From the
solution at C / 8, with multipliers and weights multiplied by 8, it hardly does. So a large C is reached in
stages, each solved to the final tolerance (loose stages do not help). Bounds at C itself are known all along:
F of a stage's point costs nothing more, and multiples of its multipliers are feasible. They are kept as one
plane when the stage ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import Literal, TypeAlias

import numpy as np

from maxmargin.core.contract.evaluation import Evaluation
from maxmargin.core.contract.row_duals import AT_SHARDS, RowDuals, SeveralEpochs
from maxmargin.core.contract.sweeps import Blocks, Streaming
from maxmargin.core.cut import Cut
from maxmargin.core.line_search import FAR
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound, correction, gamma
from maxmargin.core.vectors import Array, SparseVector, frozen
from maxmargin.solvers.base import SWEEPS, GapForecast, Problem, StallDetector
from maxmargin.solvers.session import Session

#: limits for the ratio of the true gap to its estimate, and its initial value
RATIO = (0.5, 2.0, 0.67)
#: moves along lines after which the incumbent's scores are computed anew
REFRESH_AFTER = 25
#: overhead of a compiled epoch, in visits of entries; cost of a check, in visits of all rows
CALL, CHECK = 50_000.0, 1.0
#: number of entries up to which a check takes longer than a Newton step
CHECK_RARELY = 20_000
#: C of the first stage in units of 1 / mean |x|^2; factor between stages; their tolerance
FIRST_STAGE, STAGE, STAGE_TOL = 2.0, 8.0, 1e-3
#: visits of all rows after which a fit without stages is judged by the share of rows that are still active,
#: and the visits after which it is given up anyway
JUDGED_AFTER, MANY_ACTIVE, MOST_VISITS = 4.0, 0.8, 2000.0


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Epochs of coordinate ascent, checked at least every ``check_every``; over one block of rows, or over
    several at the same time."""

    check_every: int = 10
    check_from: int = 0
    name: Literal["coordinate", "block coordinate", "shard coordinate"] = "coordinate"
    streaming: None = None
    blocks: Blocks | None = None

    def first(self, duals: RowDuals) -> float:
        """The C to begin with."""
        return FIRST_STAGE * duals.easy_C

    def stages(self, C: float, first: float) -> list[float]:
        """Ascending values of C, the last one C itself."""
        exact = log(C / first) / log(STAGE) if first < C else 0.0
        # blocks begin so low that a stage just below C would not be worth it
        n = ceil(exact) if self.blocks is None else round(exact)
        return [first * (C / first) ** (k / n) for k in range(n)] + [C]


@dataclass(frozen=True, slots=True)
class SecondOrder:
    """Newton steps. The gap of a Newton step is F(w) - D, not an estimate, so a
    check only adds a line search, which may save a step; see :meth:`of`."""

    check_every: int = 1
    check_from: int = 0
    name: Literal["newton", "quasi-newton"] = "newton"
    streaming: None = None
    blocks: None = None

    def first(self, duals: RowDuals) -> float:
        """Any."""
        return duals.C

    def stages(self, C: float, first: float) -> list[float]:
        """C itself: Newton's method needs no continuation."""
        return [C]

    @classmethod
    def of(cls, problem: Problem) -> SecondOrder:
        """Check each step, unless the calls of a check take longer than a step: then the last one, and
        every tenth."""
        few = problem.shape.nnz * problem.shape.n_columns <= CHECK_RARELY
        return cls(check_every=10 if few else 1)


@dataclass(frozen=True, slots=True)
class Stream:
    """Passes over rows that are not in memory. A check is a pass, too, so it is made when the last pass was
    near the tolerance, and every few passes."""

    streaming: Streaming
    check_every: int = 4
    check_from: int = 1
    name: Literal["stream"] = "stream"
    blocks: None = None

    def first(self, duals: RowDuals) -> float:
        """Any."""
        return duals.C

    def stages(self, C: float, first: float) -> list[float]:
        """C itself: most of the work at a large C is done on cached rows."""
        return [C]


RowMethod: TypeAlias = Coordinates | SecondOrder | Stream


@dataclass(frozen=True, slots=True, eq=False)
class RowsDual:
    """The multipliers as a feasible dual point for this C."""

    duals: RowDuals
    C: float

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """The dual value, recomputed from the multipliers, minus a bound on rounding errors."""
        return self.duals.proved_value(self.C, attained)

    def point(self) -> Array:
        """The primal point of the multipliers."""
        return frozen(self.duals.w)


@dataclass(slots=True, eq=False)
class ShardsDual:
    """The multipliers of blocks that live in the shards of an engine, as a feasible dual point for this C.

    If a worker dies, or is ended by Ctrl-C, its multipliers are lost. So every exact check keeps a plane of
    them here, which proves almost as much."""

    duals: RowDuals
    C: float
    plane: PlaneDual | None = None
    proved: float = -np.inf

    def keep(self, problem: Problem, upper: float) -> None:
        """Keep a plane of the present multipliers."""
        self.duals.dual_value(self.duals.C)
        plane = PlaneDual(self.duals.aggregate(), self.C)
        at = UpperBound.by(upper, problem.n_examples)
        value = plane.value(problem.regularizer, problem.dim, at)
        if value > self.proved:
            self.plane, self.proved = plane, value

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """The better one of the multipliers and the plane, minus bounds on rounding errors."""
        value = self.duals.proved_value(self.C, attained)
        if self.plane is None:
            return value
        return max(value, self.plane.value(regularizer, dim, attained))

    def point(self) -> Array:
        """The primal point of the multipliers."""
        return frozen(self.duals.w)


def call_cost(problem: Problem) -> float:
    """Overhead of a compiled call, in visits of all rows."""
    return CALL / max(1, problem.shape.nnz)


@dataclass(frozen=True, slots=True, eq=False)
class PlaneDual:
    """A cut of the risk as a dual point: the best of its multiples up to C. It does not change later."""

    cut: Cut
    C: float

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """The dual value, minus a bound on the rounding errors of the plane."""
        plane = self.cut.plane
        if isinstance(plane, SparseVector):  # planes of a checkpoint may be
            plane = plane.to_dense()
        if regularizer.floor is not None:  # no closed form: all of it, or nothing
            t = self.C
            u = -t * plane
            w = regularizer.primal(u)
            conjugate = regularizer.conjugate(u, w)
        else:
            square = 2.0 * regularizer.value(regularizer.primal(-plane))
            t = min(self.C, self.cut.offset / square) if square > 0.0 else self.C
            conjugate = 0.5 * t * t * square
        radius = regularizer.radius(attained.upper)
        lost = t * self.cut.error * (1.0 + radius) + gamma(dim) * abs(conjugate)
        return max(0.0, t * self.cut.offset - conjugate - correction(lost, attained.negligible))


@dataclass(slots=True)
class RowProgress:
    """Stages left; the budget; work done in all earlier stages, in the one before, and in this one; and the
    last step and ratio of estimates."""

    stages: list[float]
    budget: float
    spent: float = 0.0
    before: float = 0.0
    visited: float = 0.0
    direct: int = 0  # a checkpoint holds numbers
    guess: float = 1.0
    ratio: float = RATIO[2]

    def next_stage(self) -> None:
        """The next stage begins, with nothing known about it."""
        self.stages, self.spent = self.stages[1:], self.spent + self.visited
        self.before, self.visited, self.guess, self.ratio = self.visited, 0.0, 1.0, RATIO[2]

    def in_stages(self, stages: list[float]) -> None:
        """Begin again, in these stages."""
        self.stages, self.direct, self.guess, self.ratio = stages, 0, 1.0, RATIO[2]
        self.spent = self.before = self.visited = 0.0

    def left(self, predicted: float) -> float:
        """Work that is left, if this stage is predicted to take so much more."""
        if predicted > 0.0:
            # each later stage takes longer than this one, as this one takes longer than the last
            whole = self.visited + predicted
            growth = min(max(whole / (self.before or whole), 1.0), STAGE)
            predicted += (len(self.stages) - 1) * growth * whole
        return max(predicted, self.spent + self.visited)


def ascend(
    session: Session, method: RowMethod, budget: float = np.inf, warm_budget: float = np.inf
) -> None:
    """Improve a dual point over rows until the stopping rule is met or progress ends.

    ``budget`` is the predicted work of another method, in visits of all rows, and ``warm_budget`` its work
    from the solution at another C. Returns without a stop reason when the work done so far, or what is
    predicted to be left, exceeds it: then that method takes over.
    """
    problem, state = session.problem, session.state
    rng = np.random.default_rng(problem.random_state)
    duals = state.duals.get(method.name)
    if duals is None:
        duals = session.row_duals(method.name, method.streaming, method.blocks)
        state.duals[method.name] = duals
        if np.isfinite(state.gap):
            duals.start_at(state.w, state.gap / abs(state.upper))
        stages = method.stages(problem.C, method.first(duals))
    else:  # duals of another C: that was the first stage
        stages = [C for C in method.stages(problem.C, duals.C) if C > duals.C] or [problem.C]
        budget = min(budget, warm_budget)
    if problem.dim >= problem.shape.n_columns * problem.n_examples:
        # separable, or nearly so: most multipliers stay free and stages gain nothing
        stages = [problem.C]
    at_shards = method.name == AT_SHARDS
    dual = ShardsDual(duals, problem.C) if at_shards else RowsDual(duals, problem.C)
    state.candidate = dual.point
    if state.dual is None:
        state.dual = dual  # a valid bound even if the first stage is interrupted
    progress = RowProgress(stages, budget)
    if isinstance(duals, SeveralEpochs) and stages[1:]:
        progress = RowProgress([problem.C], budget, direct=1)
    resumed = state.track(progress, rng)
    while progress.stages:
        C = progress.stages[0]
        if duals.C != C:
            duals.rescale(C, problem.regularizer)
        _Stage(session, method, C, dual, progress).solve(rng, resumed=resumed)
        given_up = progress.direct and state.stop is None and not state.met(problem)
        if C != problem.C or given_up:
            _keep_as_plane(session, dual)
        if state.met(problem):
            state.stop = state.stop or "gap"
        if state.stop is not None or state.gave_up:
            return
        resumed = False
        if progress.direct:
            progress.in_stages(stages)
            multipliers = duals.multipliers.copy()
            duals.rescale(stages[0], problem.regularizer)
            duals.load(multipliers)  # reduced to the smaller caps
        else:
            progress.next_stage()


def _keep_as_plane(session: Session, dual: RowsDual | ShardsDual) -> None:
    """Keep the bound of the multipliers at the end of a stage as a plane: the first epochs of the next stage
    may have a smaller dual value."""
    problem, state, duals = session.problem, session.state, dual.duals
    duals.dual_value(duals.C)
    plane = PlaneDual(duals.aggregate(), problem.C)
    at = UpperBound.by(state.upper, problem.n_examples)
    value = plane.value(problem.regularizer, problem.dim, at)
    if state.dual is dual:
        state.lower, state.dual = max(value, state.lower), plane
    state.raise_lower(value, plane)


@dataclass(slots=True, eq=False)
class _Stage:
    """The problem at one C. Bounds for the final C are updated on the way."""

    session: Session
    method: RowMethod
    C: float
    dual: RowsDual | ShardsDual
    progress: RowProgress
    best: Evaluation | None = None
    upper: float = np.inf
    lower: float = -np.inf
    moves: int = 0
    #: improvements since the last check, and the support at that time
    unchecked: int = 0
    n_support: int = 0

    @property
    def final(self) -> bool:
        """Whether this is the last stage, at the problem's own C."""
        return self.C == self.session.problem.C

    def solve(self, rng: np.random.Generator, *, resumed: bool) -> None:
        """Improve and check until the tolerance is reached or the budget is spent."""
        session, method, progress = self.session, self.method, self.progress
        duals, state = self.dual.duals, session.state
        if resumed and self.final:  # otherwise the incumbent is that of another C
            self.best = session.evaluate(state.w)
        # an intermediate stage is only a warm start: not worth much patience
        window, patience = SWEEPS
        stall, forecast = StallDetector(window, patience if self.final else window), GapForecast()
        overhead = call_cost(session.problem)
        several = duals if isinstance(duals, SeveralEpochs) else None  # slow to ask at each step
        while True:
            state.candidate = self.dual.point
            if several is not None:
                upper = min(self.upper, self.C * session.problem.n_examples)
                several.goal = self._allowed(upper) / self._ratio
            stats = session.improve(duals, int(rng.integers(2**63)))
            progress.visited += stats.oracle_calls / duals.n_examples + overhead
            self.unchecked += 1
            self.lower = duals.dual_estimate(self.C)
            if self.final:
                self._raise_lower()
            over = self._once and self.unchecked >= duals.n_steps
            step = self._measure(stats.gap_estimate, over)
            if session.report(duals.n_active, self.n_support, step, method.name, self.C):
                return
            if over:
                state.stop = "max_iter"  # one pass was all that was asked for
                return
            if progress.direct and _hopeless(progress.visited, duals):
                return
            if not self.unchecked and self._ends(
                stall, forecast, stuck=not np.isfinite(stats.gap_estimate)
            ):
                return

    def _measure(self, estimate: float, over: bool) -> float | None:
        """F at the point of the multipliers, if the estimated gap is near the tolerance, every few epochs,
        and at the end; the step along the line to the incumbent."""
        state, method, duals = self.session.state, self.method, self.dual.duals
        passes, stuck = self.unchecked / duals.n_steps, not np.isfinite(estimate)
        known = self.final and method.name == "newton"  # F(w) = lower + gap
        expected = self._ratio * estimate
        if known:
            expected = min(estimate, state.upper - self.lower)
        allowed = self._allowed(min(self.upper, self.lower + estimate))
        near = expected <= allowed and passes >= method.check_from
        if method.name == "quasi-newton":
            self.unchecked = 0
            self._take_known(estimate, near=near or stuck)
        elif near or passes >= method.check_every or stuck or over:
            self.unchecked, self.n_support = 0, duals.n_support
            step = self._check(estimate, allowed)
            self.progress.visited += CHECK
            return step
        elif known:  # the end of the fit evaluates F(w) again
            state.offer(frozen(duals.w), self.lower + estimate)
        return None

    def _ends(self, stall: StallDetector, forecast: GapForecast, *, stuck: bool) -> bool:
        """Whether the stage is over: solved, stalled, or given up."""
        state, progress = self.session.state, self.progress
        gap, allowed = self.upper - self.lower, self._allowed(self.upper)
        if not self.final and gap <= allowed:
            return True
        if stuck or stall.stalled(gap, self.upper, allowed):
            state.stop = "stalled" if self.final and not progress.direct else None
            return True
        if not progress.direct:
            left = progress.left(forecast.remaining(progress.visited, gap, allowed))
            state.gave_up = left > progress.budget
        return state.gave_up

    @property
    def _once(self) -> bool:
        streaming = self.method.streaming
        return streaming is not None and streaming.schedule == "one_pass"

    @property
    def _ratio(self) -> float:
        """The true gap over its estimate."""
        return 1.0 if self.method.name == "quasi-newton" else self.progress.ratio

    def _allowed(self, upper: float) -> float:
        """The gap at which the stage ends."""
        allowed = self.session.problem.stopping.allowed_gap(upper, self.C)
        return allowed if self.final else min(allowed, STAGE_TOL * abs(upper))

    def _take_known(self, gap: float, *, near: bool) -> None:
        """Offer the point with the F that is known, in the type of the rows; the lower bound is computed in
        double precision if the end is near."""
        duals, state = self.dual.duals, self.session.state
        self.upper = min(self.upper, self.lower + gap)
        state.offer(frozen(duals.w), self.upper)
        state.candidate = None
        if near:
            self.lower = state.lower = duals.dual_value(self.C)

    def _raise_lower(self) -> None:
        """Take the dual value as the lower bound, also if it fell, because multipliers were lost."""
        state, dual = self.session.state, self.dual
        if isinstance(dual, ShardsDual) and state.dual is dual:
            state.lower = max(self.lower, dual.proved)
        state.raise_lower(self.lower, dual)

    def _check(self, estimate: float, allowed: float) -> float | None:
        """Evaluate F at the multipliers' weights and improve the incumbent; the step along the line."""
        session, progress, duals = self.session, self.progress, self.dual.duals
        problem, state = session.problem, session.state
        step: float | None = None
        at = session.evaluate(frozen(duals.w))
        session.check(duals, at)
        here = self._objective(at)
        if self.best is None:
            self.best, self.upper = at, here
        elif here - self.lower > allowed:
            best, step = _closer(session, self.C, self.best, at, progress.guess)
            progress.guess, self.moves = step or 1.0, self.moves + 1
            if self.moves >= REFRESH_AFTER:  # scores moved along lines drift by rounding
                best, self.moves = session.evaluate(best.w), 0
            self.best, self.upper = best, self._objective(best)
        else:
            self.upper = self._objective(self.best)
            if here < self.upper:
                self.best, self.upper = at, here
        best = self.best
        if estimate > 0.0:
            progress.ratio = min(
                RATIO[1], max(RATIO[0], float((self.upper - self.lower) / estimate))
            )
        upper = self.upper  # F at the final C, if this is not an earlier stage
        if self.C != problem.C:
            upper = problem.regularizer.value(best.w) + problem.C * best.upper
        state.offer(best.w, upper)
        if isinstance(self.dual, ShardsDual):
            self.dual.keep(problem, state.upper)
        state.candidate = None  # evaluated, as long as the multipliers do not move
        return step

    def _objective(self, at: Evaluation) -> float:
        return self.session.problem.regularizer.value(at.w) + self.C * at.upper


def _hopeless(visited: float, duals: RowDuals) -> bool:
    """Whether a fit without stages takes too long: most multipliers are between their bounds, or it did."""
    judged = visited >= JUDGED_AFTER and duals.n_active > MANY_ACTIVE * duals.n_examples
    return judged or visited >= MOST_VISITS


def _closer(
    session: Session, C: float, best: Evaluation, at: Evaluation, guess: float
) -> tuple[Evaluation, float]:
    """The best point on the line from the better of two points toward the other, and the step."""
    omega = session.problem.regularizer
    at_best, other = (omega.value(end.w) + C * end.upper for end in (best, at))
    if other < at_best:
        best, at, at_best = at, best, other
    step = session.best_step(best, at, C, guess)
    if step > 0.0:
        if step > FAR:
            moved = session.evaluate(frozen(best.w + step * (at.w - best.w)))
        else:
            moved = session.toward(best, at, step)
        if omega.value(moved.w) + C * moved.upper < at_best:
            return moved, step
    return best, 0.0
