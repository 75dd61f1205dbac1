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

from collections.abc import Generator
from dataclasses import asdict, dataclass, fields
from math import ceil, log
from typing import Any, Literal, TypeAlias

import numpy as np

from maxmargin.core.contract.evaluation import LineEvaluation
from maxmargin.core.contract.requests import (
    Check,
    Evaluate,
    Improve,
    Open,
    Report,
    Request,
    Toward,
)
from maxmargin.core.contract.row_duals import AT_SHARDS, RowDuals, SeveralEpochs
from maxmargin.core.contract.sweeps import Blocks, Streaming, SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.line_search import FAR, minimize_on_line
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Attained, correction, gamma
from maxmargin.core.vectors import Array, SparseVector, frozen
from maxmargin.solvers.base import SWEEPS, Outlook, Problem, SolverState, StallDetector

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
    method: Literal["coordinate", "block coordinate", "shard coordinate"] = "coordinate"
    streaming: None = None
    blocks: Blocks | None = None

    def first(self, duals: RowDuals) -> float:
        """The C to begin with."""
        return FIRST_STAGE * duals.scale

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
    method: Literal["newton", "quasi-newton"] = "newton"
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
    method: Literal["stream"] = "stream"
    blocks: None = None

    def first(self, duals: RowDuals) -> float:
        """Any."""
        return duals.C

    def stages(self, C: float, first: float) -> list[float]:
        """C itself: most of the work at a large C is done on cached rows."""
        return [C]


Way: TypeAlias = Coordinates | SecondOrder | Stream


@dataclass(frozen=True, slots=True, eq=False)
class RowsDual:
    """The multipliers as a feasible dual point for this C."""

    duals: RowDuals
    C: float

    def value(self, regularizer: SquaredNorm, dim: int, attained: Attained) -> float:
        """The dual value, recomputed from the multipliers, minus a bound on rounding errors."""
        return self.duals.proved_value(self.C, attained.negligible)

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
        at = Attained.by(upper, problem.n_examples)
        value = plane.value(problem.regularizer, problem.dim, at)
        if value > self.proved:
            self.plane, self.proved = plane, value

    def value(self, regularizer: SquaredNorm, dim: int, attained: Attained) -> float:
        """The better one of the multipliers and the plane, minus bounds on rounding errors."""
        value = self.duals.proved_value(self.C, attained.negligible)
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

    def value(self, regularizer: SquaredNorm, dim: int, attained: Attained) -> float:
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


def ascend(
    problem: Problem,
    state: SolverState,
    way: Way,
    budget: float = float("inf"),
    warm_budget: float = float("inf"),
) -> Generator[Request, Any, None]:
    """Improve a dual point over rows until the stopping rule is met or progress ends.

    ``budget`` is the predicted work of another method, in visits of all rows, and ``warm_budget`` its work
    from the solution at another C. Returns without a stop reason when the work done so far, or what is
    predicted to be left, exceeds it: then that method takes over.
    """
    rng = np.random.default_rng(problem.random_state)
    names = (f.name for f in fields(RowProgress))
    duals, place = state.duals.get(way.method), state.take_position("rng", *names)
    if duals is None:
        request = Open(way.method, problem.C, streaming=way.streaming, blocks=way.blocks)
        duals = state.duals[way.method] = yield request
        if np.isfinite(state.gap):
            duals.start_at(state.w, state.gap / abs(state.upper))
        stages = way.stages(problem.C, way.first(duals))
    else:  # duals of another C: that was the first stage
        stages = [C for C in way.stages(problem.C, duals.C) if C > duals.C] or [problem.C]
        budget = min(budget, warm_budget)
    if problem.dim >= problem.shape.n_columns * problem.n_examples:
        # separable, or nearly so: most multipliers stay free and stages gain nothing
        stages = [problem.C]
    at_shards = way.method == AT_SHARDS
    dual = ShardsDual(duals, problem.C) if at_shards else RowsDual(duals, problem.C)
    state.candidate = dual.point
    if state.dual is None:
        state.dual = dual  # a valid bound even if the first stage is interrupted
    progress = RowProgress(stages, budget)
    if isinstance(duals, SeveralEpochs) and stages[1:]:
        progress = RowProgress([problem.C], budget, direct=1)
    if place is not None:
        rng.bit_generator.state = place["rng"]
        progress = RowProgress(**{name: value for name, value in place.items() if name != "rng"})
    state.place = lambda: {"rng": rng.bit_generator.state, **asdict(progress)}
    while progress.stages:
        C = progress.stages[0]
        if duals.C != C:
            duals.rescale(C, problem.regularizer)
        stage = _Stage(problem, state, way, C, dual, progress)
        yield from stage.solve(rng, resumed=place is not None)
        del stage  # and the scores that it holds
        given_up = progress.direct and state.stop is None and not state.met(problem)
        if C != problem.C or given_up:
            # kept as a plane: the first epochs of the next stage may have a smaller dual value
            duals.dual_value(C)
            plane = PlaneDual(duals.aggregate(), problem.C)
            at = Attained.by(state.upper, problem.n_examples)
            value = plane.value(problem.regularizer, problem.dim, at)
            if state.dual is dual:
                state.lower, state.dual = max(value, state.lower), plane
            state.raise_lower(value, plane)
        if state.met(problem):
            state.stop = state.stop or "gap"
        if state.stop is not None or state.gave_up:
            return
        visited = progress.visited
        if progress.direct:
            multipliers = duals.multipliers.copy()
            duals.rescale(stages[0], problem.regularizer)
            duals.load(multipliers)  # reduced to the smaller caps
            progress, place = RowProgress(stages, budget), None
            continue
        left, spent = progress.stages[1:], progress.spent + visited
        progress, place = RowProgress(left, progress.budget, spent, visited), None


@dataclass(slots=True, eq=False)
class _Stage:
    """The problem at one C. Bounds for the final C are updated on the way."""

    problem: Problem
    state: SolverState
    way: Way
    C: float
    dual: RowsDual | ShardsDual
    progress: RowProgress
    best: LineEvaluation | None = None
    upper: float = np.inf
    moves: int = 0

    def solve(self, rng: np.random.Generator, *, resumed: bool) -> Generator[Request, Any, None]:
        """Improve and check until the tolerance is reached or the budget is spent."""
        problem, state, way, progress = self.problem, self.state, self.way, self.progress
        duals, C, final = self.dual.duals, self.C, self.C == self.problem.C
        if resumed and final:  # otherwise the incumbent is that of another C
            self.best = yield Evaluate(state.w)
        since, n_support, overhead = 0, 0, call_cost(problem)
        # an intermediate stage is only a warm start: not worth much patience
        window, patience = SWEEPS
        stall, outlook = StallDetector(window, patience if final else window), Outlook()
        once = way.streaming is not None and way.streaming.schedule == "one_pass"
        several = duals if isinstance(duals, SeveralEpochs) else None  # slow to ask at each step
        while True:
            state.candidate = self.dual.point
            if several is not None:
                upper = min(self.upper, C * problem.n_examples)
                several.goal = _allowed(problem, C, upper) / progress.ratio
            stats: SweepStats = yield Improve(duals, int(rng.integers(2**63)))
            since += 1
            passes = since / duals.n_steps
            progress.visited += stats.oracle_calls / duals.n_examples + overhead
            lower = duals.dual_estimate(C)
            if final:
                self._raise_lower(lower)
            allowed = _allowed(problem, C, min(self.upper, lower + stats.gap))
            step: float | None = None
            stuck, over = not np.isfinite(stats.gap), once and passes >= 1.0
            known = final and way.method == "newton"  # F(w) = lower + gap
            expected = stats.gap if way.method == "quasi-newton" else progress.ratio * stats.gap
            if known:
                expected = min(stats.gap, state.upper - lower)
            near = expected <= allowed and passes >= way.check_from
            if way.method == "quasi-newton":
                since, lower = 0, self._proved(stats.gap, lower, near=near or stuck)
            elif near or passes >= way.check_every or stuck or over:
                since, n_support = 0, duals.n_support
                step = yield from self._check(stats.gap, lower, allowed)
                progress.visited += CHECK
            elif known:  # the end of the fit evaluates F(w) again
                state.offer(frozen(duals.w), lower + stats.gap)
            asked = yield Report(duals.n_active, n_support, step, way.method, C)
            if state.met(problem):
                state.stop = "gap"
                return
            if asked is not None:
                state.stop = asked
                return
            if over:
                state.stop = "max_iter"  # one pass was all that was asked for
                return
            if progress.direct and _hopeless(progress.visited, duals):
                return
            if since:
                continue
            gap, allowed = self.upper - lower, _allowed(problem, C, self.upper)
            if not final and gap <= allowed:
                return
            if stuck or stall.stalled(gap, self.upper, allowed):
                state.stop = "stalled" if final and not progress.direct else None
                return
            if progress.direct:
                continue
            left = outlook.remaining(progress.visited, gap, allowed)
            if left > 0.0:
                # each later stage takes longer than this one, as this one takes longer than the last
                whole = progress.visited + left
                growth = min(max(whole / (progress.before or whole), 1.0), STAGE)
                left += (len(progress.stages) - 1) * growth * whole
            if max(left, progress.spent + progress.visited) > progress.budget:
                state.gave_up = True
                return

    def _proved(self, gap: float, lower: float, *, near: bool) -> float:
        """Offer the point with the F that is known, in the type of the rows; return the lower bound, which is
        computed in double precision if the end is near."""
        duals, state = self.dual.duals, self.state
        self.upper = min(self.upper, lower + gap)
        state.offer(frozen(duals.w), self.upper)
        state.candidate = None
        if near:
            lower = state.lower = duals.dual_value(self.C)
        return lower

    def _raise_lower(self, lower: float) -> None:
        """Take the dual value as the lower bound, also if it fell, because multipliers were lost."""
        state, dual = self.state, self.dual
        if isinstance(dual, ShardsDual) and state.dual is dual:
            state.lower = max(lower, dual.proved)
        state.raise_lower(lower, dual)

    def _check(
        self, estimate: float, lower: float, allowed: float
    ) -> Generator[Request, Any, float | None]:
        """Evaluate F at the multipliers' weights and improve the incumbent; the step along the line."""
        problem, progress, duals = self.problem, self.progress, self.dual.duals
        step: float | None = None
        at: LineEvaluation = yield Evaluate(frozen(duals.w))
        yield Check(duals, at)
        here = self._objective(at)
        if self.best is None:
            self.best, self.upper = at, here
        elif here - lower > allowed:
            best, step = yield from _closer(problem, self.C, self.best, at, progress.guess)
            progress.guess, self.moves = step or 1.0, self.moves + 1
            if self.moves >= REFRESH_AFTER:  # scores moved along lines drift by rounding
                best, self.moves = (yield Evaluate(best.w)), 0
            self.best, self.upper = best, self._objective(best)
        else:
            self.upper = self._objective(self.best)
            if here < self.upper:
                self.best, self.upper = at, here
        best = self.best
        if estimate > 0.0:
            progress.ratio = min(RATIO[1], max(RATIO[0], float((self.upper - lower) / estimate)))
        upper = self.upper  # F at the final C, if this is not an earlier stage
        if self.C != problem.C:
            upper = problem.regularizer.value(best.w) + problem.C * best.upper
        self.state.offer(best.w, upper)
        if isinstance(self.dual, ShardsDual):
            self.dual.keep(problem, self.state.upper)
        self.state.candidate = None  # evaluated, as long as the multipliers do not move
        return step

    def _objective(self, at: LineEvaluation) -> float:
        return self.problem.regularizer.value(at.w) + self.C * at.upper


def _hopeless(visited: float, duals: RowDuals) -> bool:
    """Whether a fit without stages takes too long: most multipliers are between their bounds, or it did."""
    judged = visited >= JUDGED_AFTER and duals.n_active > MANY_ACTIVE * duals.n_examples
    return judged or visited >= MOST_VISITS


def _allowed(problem: Problem, C: float, upper: float) -> float:
    """The gap at which a stage ends."""
    allowed = problem.stopping.allowed_gap(upper, C)
    return allowed if C == problem.C else min(allowed, STAGE_TOL * abs(upper))


def _closer(
    problem: Problem, C: float, best: LineEvaluation, at: LineEvaluation, guess: float
) -> Generator[Request, Any, tuple[LineEvaluation, float]]:
    """The best point on the line from the better of two points toward the other, and the step."""
    omega = problem.regularizer
    at_best, other = (omega.value(end.w) + C * end.upper for end in (best, at))
    if other < at_best:
        best, at, at_best = at, best, other
    direction = at.w - best.w
    step: float = yield from minimize_on_line(
        best, at, omega.inner(direction, direction), omega.inner(best.w, direction), C, guess
    )
    step = min(step, omega.step_limit(best.w, direction))
    if step > 0.0:
        moved: LineEvaluation
        if step > FAR:
            moved = yield Evaluate(frozen(best.w + step * direction))
        else:
            moved = yield Toward(best, at, step)
        if omega.value(moved.w) + C * moved.upper < at_best:
            return moved, step
    return best, 0.0
