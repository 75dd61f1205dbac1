"""The session of one fit: all that a solver's loop may ask for. It keeps time, checks that numbers are
finite, runs callbacks, writes checkpoints, and says when to stop."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from maxmargin.checkpoints import CheckpointError
from maxmargin.core.bundle import Bundle
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.block_duals import BlockDuals
from maxmargin.core.contract.evaluation import Evaluation, LineEvaluation, moves_along_lines
from maxmargin.core.contract.finite import require_finite, require_finite_cut, require_numbers
from maxmargin.core.contract.risk import Risk, WideFit
from maxmargin.core.contract.row_duals import AT_SHARDS, RowDualRisk, RowDuals, RowSample
from maxmargin.core.contract.sampled import SampledEvaluation
from maxmargin.core.contract.sweeps import Blocks, Streaming, SweepStats
from maxmargin.core.contract.working_sets import WorkingSetRisk, WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine, SerialEngine, Traffic
from maxmargin.core.line_search import minimize_on_line
from maxmargin.core.result import IterationRecord, StopReason, relative_gap
from maxmargin.core.sampling import Draw
from maxmargin.core.stopping import stops
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import Array, IntArray
from maxmargin.solvers.base import GapForecast, Problem, SolverState, StallDetector
from maxmargin.solvers.history_columns import counted
from maxmargin.solvers.requirements import Needs

Callback = Callable[[IterationRecord], object]
T = TypeVar("T")
Observer = Callable[[IterationRecord, Array], object]
#: solvers for structured problems that use the workers of the engine
_FOR_SETS = "solver=DualCoordinate(batch_size=...), oracle='expensive' or solver=CuttingPlane()"


@runtime_checkable
class Solver(Protocol):
    """A method: configuration only; everything that changes is in the session's state."""

    @property
    def needs(self) -> Needs:
        """The capabilities a risk must have; ``Needs()`` for evaluations only."""

    def run(self, session: Session) -> None:
        """The loop. It ends when :meth:`Session.report` says so, or by setting ``session.state.stop``."""


@dataclass(frozen=True, slots=True, repr=False)
class FunctionSolver:
    """A function of a session as a solver that needs evaluations only."""

    function: Callable[[Session], None]
    needs: ClassVar[Needs] = Needs()

    def __repr__(self) -> str:  # as checkpoints name it: without an address
        return repr(self.function).partition(" at 0x")[0]

    def run(self, session: Session) -> None:
        """Call the function."""
        self.function(session)


@runtime_checkable
class OracleCallback(Protocol):
    """A callback that also receives the progress of a pass with an expensive oracle."""

    def on_oracle(self, done: int, total: int) -> object:
        """Report that ``done`` of ``total`` examples have been processed."""


class Recorder(Protocol):
    """What writes checkpoints."""

    def report(self, session: Session) -> None:
        """Process the end of an iteration."""

    def poll(self, session: Session) -> None:
        """Write if it is time."""


@dataclass(slots=True, eq=False)
class Session:
    """One fit, as a solver sees it.

    A solver is a function of a session, or an object with a method ``run(session)`` and ``needs``
    (:class:`maxmargin.solvers.Needs`). It evaluates the risk through the session, offers points and lower
    bounds, and calls :meth:`report` at the end of each iteration, which says whether to stop. The session
    keeps time, checks that numbers are finite, runs callbacks, and writes checkpoints. After the loop the
    bounds are computed again from the best point and the dual point, so no solver can return a wrong one.

    Attributes
    ----------
    problem : Problem
        The problem: ``problem.C``, ``problem.dim``, ``problem.regularizer``, ``problem.stopping``, and so on.
    state : SolverState
        The best point ``state.w``, its objective ``state.upper``, and the bound ``state.lower``, which
        ``state.raise_lower(lower, dual)`` raises.

    Examples
    --------
    The plain cutting-plane algorithm with one slack:

    >>> from maxmargin import minimize
    >>> from maxmargin.core import Bundle
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> def cutting_planes(session):
    ...     problem, w = session.problem, session.state.w
    ...     model = Bundle(problem.dim, regularizer=problem.regularizer)
    ...     while True:
    ...         at = session.evaluate(w)
    ...         session.offer(at)                                   # F(w) is an upper bound
    ...         model.add([session.cut(at)])
    ...         solution = model.solve(problem.C)                   # the reduced problem
    ...         session.state.raise_lower(solution.lower_bound, solution.dual)
    ...         if session.report(len(model), solution.n_active):
    ...             return
    ...         w = solution.w
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, C=1.0, solver=cutting_planes)
    >>> result.converged, round(result.objective, 4)
    (True, 0.5)
    """

    risk: Risk
    problem: Problem
    state: SolverState
    max_iter: int | None = None
    max_seconds: float | None = None
    callbacks: Sequence[Callback] = ()
    observer: Observer | None = None
    history: list[IterationRecord] = field(default_factory=list)
    passes: float = 0.0
    asked: int = 0
    warned: bool = False
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    started: float = field(default_factory=time.perf_counter)
    #: until when time is accounted for
    mark: float = field(default_factory=time.perf_counter)
    recorder: Recorder | None = None
    #: the incumbent of a checkpoint and its F, which this risk must reproduce
    expected: tuple[Array, float] | None = None
    #: the risk, if its points are over planes that a checkpoint must store
    span: WideFit | None = None
    #: what had been sent when the last iteration ended
    traffic: Traffic = field(default_factory=Traffic)

    def run(self, solver: Solver) -> None:
        """Run the loop, unless nothing is left to do. Ctrl-C ends it like a limit."""
        if self.state.stop is not None:
            return
        self._sent()  # by earlier fits
        self.mark = time.perf_counter()
        try:
            solver.run(self)
        except KeyboardInterrupt:
            self.state.stop = "interrupted"

    # -- F and its bounds ------------------------------------------------------------------------------

    def objective(self, at: Evaluation, C: float | None = None) -> float:
        """F at an evaluated point, by the value that the oracle attained there; for another C if given."""
        problem = self.problem
        return problem.regularizer.value(at.w) + (problem.C if C is None else C) * at.value

    def offer(self, at: Evaluation) -> None:
        """Accept an evaluated point if it is the best so far: F there is the upper bound."""
        problem, upper = self.problem, at.upper
        norm = problem.regularizer.value(at.w)
        self.state.offer(at.w, norm + problem.C * upper, norm + problem.C * at.value)

    @property
    def allowed_gap(self) -> float:
        """The gap at which the fit ends."""
        return self.problem.stopping.allowed_gap(self.state.upper, self.problem.C)

    def stalled(self, stall: StallDetector, gap: float) -> bool:
        """Whether there is no progress any more: record an iteration that ended with this gap."""
        state, allowed = self.state, self.allowed_gap
        if stall.stalled(gap, state.upper, allowed) or state.left_open(allowed):
            state.stop = "stalled"
        return state.stop is not None

    def gives_up(
        self, forecast: GapForecast, work: float, budget: float, *, at_least: float
    ) -> bool:
        """Whether more work seems to be left than ``budget``, once ``at_least`` is done: then another method
        goes on."""
        if np.isfinite(budget):
            left = forecast.remaining(work, self.state.gap, self.allowed_gap)
            self.state.gave_up = work >= at_least and left > budget
        return self.state.gave_up

    # -- points, lines and cuts ------------------------------------------------------------------------

    def evaluate(
        self, w: Array, *, exact: bool = True, cache_size: int | None = None
    ) -> Evaluation:
        """The risk at ``w``. ``exact=False``: on the cached constraints, of which ``cache_size`` are kept per
        example from now on."""
        self._spend("qp")
        if cache_size is not None:
            self._offered(self.risk.offers.caching, "a cache").resize_cache(cache_size)
        at = self.risk.evaluate(w, exact=exact)
        require_finite(at.value)
        self.passes += exact
        if exact and self.expected is not None and w is self.expected[0]:
            self._compare(self.expected[1], w, at.upper)
        self._spend("oracle" if exact else "line_search")
        return at

    def toward(
        self, a: Evaluation, b: Evaluation, t: float, *, value: bool = True
    ) -> LineEvaluation:
        """The evaluation at ``a.w + t (b.w - a.w)``, without a pass over the data. ``value=False``: only its
        cut will be asked for, so the value need not be summed."""
        self._spend("qp")
        at = _line(a).toward(_line(b), t)
        if value:  # evaluations are lazy: compute the value here, so that its time is counted here
            require_finite(at.value)
        self._spend("line_search")
        return at

    def best_step(self, a: Evaluation, b: Evaluation, C: float, guess: float) -> float:
        """The step from ``a`` toward ``b`` at which Omega + C R is smallest."""
        self._spend("qp")
        omega, direction = self.problem.regularizer, b.w - a.w
        step = minimize_on_line(
            _line(a),
            _line(b),
            omega.inner(direction, direction),
            omega.inner(a.w, direction),
            C,
            guess,
            expensive=self.problem.shape.expensive_slopes,
        )
        self._spend("line_search")
        # both ends are allowed, and so is all between them; beyond the trial a sign may change
        return min(step, omega.step_limit(a.w, direction))

    def cut(self, at: Evaluation) -> Cut:
        """The cut at an evaluated point."""
        self._spend("qp")
        cut = at.cut()
        require_finite_cut(cut)
        self._spend("plane")
        return cut

    def sampled_cut(self, at: Evaluation, draw: Draw, *, whole: bool = True) -> Cut:
        """One cut made of these examples, as a new plane; its offset, and the plane in free coordinates, are
        those of all examples if ``whole``."""
        self._spend("qp")
        cut = cast(SampledEvaluation, at).sampled_cut(draw, whole)
        require_finite_cut(cut)
        self._spend("plane")
        return cut

    def extend(self, size: int, seed: int, held: int) -> IntArray:
        """Sample ``size`` of all examples; the risk is that of the examples of the last ``held`` samples,
        each of which stands for as many. The indices, among those, of the ones sampled now. Points must be
        evaluated again."""
        self._spend("qp")
        growing = self._offered(self.risk.offers.growing, "a growing set of examples")
        drawn = growing.extend(size, seed, held)
        self._spend("oracle")
        return drawn

    # -- dual variables of rows ------------------------------------------------------------------------

    def row_duals(
        self, method: str, streaming: Streaming | None = None, blocks: Blocks | None = None
    ) -> RowDuals:
        """New multipliers of rows, improved by this method."""
        self._spend("qp")
        rows = self._rows()
        if method != AT_SHARDS:
            what = f"the {method} method visits the rows"
            self._works_here(rows.engine, what, "solver=CuttingPlane()")
        problem = self.problem
        duals = rows.row_duals(method, problem.C, problem.regularizer, streaming, blocks)
        self._spend("oracle")
        return duals

    def row_sample(self) -> RowSample:
        """A sample of the rows, for steps by its Hessian."""
        self._spend("qp")
        sample = self._rows().row_sample(self.problem.C, self.problem.regularizer)
        self._spend("oracle")
        return sample

    def block_duals(self) -> BlockDuals:
        """New multipliers of a kernel machine."""
        self._spend("qp")
        blocks = self._offered(self.risk.offers.blocks, "blocks of rows")
        duals = blocks.block_duals(self.problem.C)
        self._spend("oracle")
        return duals

    def improve(self, duals: RowDuals | BlockDuals, seed: int) -> SweepStats:
        """One epoch, Newton step or block."""
        self._spend("qp")
        if self.max_seconds is not None and isinstance(duals, BlockDuals):
            duals.late = self._late
        return self._visited(duals.improve(seed), duals.n_examples, "oracle")

    def check(self, duals: RowDuals, at: Evaluation) -> None:
        """Show the duals the scores of ``at``, which was evaluated at their present point."""
        self._spend("qp")
        self._rows().check(duals, _line(at))
        self._spend("oracle")

    # -- working sets of examples ----------------------------------------------------------------------

    def working_sets(self, held: WorkingSets | None = None) -> WorkingSets:
        """New working sets, or those of another C rescaled."""
        self._spend("qp")
        examples, C, n = self._examples(), self.problem.C, self.problem.n_examples
        if held is None:
            held = examples.working_sets(C, self.problem.regularizer)
        elif held.n_examples != n:
            raise ValueError(
                f"start holds working sets of {held.n_examples} examples; the risk has {n}. Start from a "
                "result of the same examples."
            )
        else:
            held.rescale(examples.caps(C))
        self._spend("oracle")
        return held

    def epoch(self, sets: WorkingSets, order: IntArray) -> SweepStats:
        """One sweep over the planes in memory, in this order of examples."""
        return self._visited(sets.epoch(order), self.problem.n_examples, "qp")

    def stream(self, sets: WorkingSets, order: IntArray, skip_below: float) -> SweepStats:
        """One sweep: the oracle is called for each example that has a duality gap of ``skip_below`` or more,
        and its block step follows."""
        self._spend("qp")
        what = "DualCoordinate with batch_size=1 calls the oracle"
        self._works_here(self._examples().engine, what, _FOR_SETS)
        return self._visited(sets.stream(order, skip_below), self.problem.n_examples, "oracle")

    def batches(
        self, sets: WorkingSets, order: IntArray, skip_below: float, size: int
    ) -> SweepStats:
        """The same with ``size`` calls at one w, which an engine can answer in parallel, until the time
        limit."""
        self._spend("qp")
        calls = new = 0
        examples = self._examples()
        due = examples.in_turn(sets.begin(order, skip_below))
        while calls < len(due) and not self._late():
            answers = examples.answers_for(sets.w, due[calls : calls + size], quick=True)
            stats = sets.absorb(answers)
            calls, new = calls + len(answers), new + stats.new_planes
            self._report_oracle_calls(len(answers))
            if self.recorder is not None:
                self.recorder.poll(self)
        stats = SweepStats(calls, float(sets.gaps[order].sum()), new)
        return self._visited(stats, self.problem.n_examples, "oracle")

    def confirm(
        self, sets: WorkingSets, w: Array, *, expensive: bool = False
    ) -> tuple[float, float]:
        """The oracle on all examples at ``w``, the sets' present point or the first point of the fit, if the
        sets are new: (value, upper) of C R(w). ``expensive``: ask for few examples at a time, and tell how
        many have been answered."""
        self._spend("qp")
        parts = self._ask_all(w) if expensive else self._examples().answers(w)
        self.passes += sum(part.hi - part.lo for part in parts) / max(1, self.problem.n_examples)
        value, upper = sets.confirm(parts)
        require_finite(value)
        require_numbers(upper_bound=upper)
        self._spend("oracle")
        return value, upper

    def _ask_all(self, w: Array) -> list[Answers]:
        examples = self._examples()
        due = np.flatnonzero(examples.caps(1.0) > 0.0)
        parts: list[Answers] = []
        self.asked, n = 0, self.risk.n_blocks
        for k in range(0, len(due), n):
            parts += examples.answers_for(w, due[k : k + n])
            self._report_oracle_calls(len(parts) - k)
        examples.remember(w, parts)
        self.asked = 0
        return parts

    def _report_oracle_calls(self, calls: int) -> None:
        """Report the progress of a pass with an expensive oracle to callbacks that support it."""
        self.asked += calls
        for callback in self.callbacks:
            if isinstance(callback, OracleCallback):
                callback.on_oracle(self.asked, self.problem.n_examples)

    # -- the end of an iteration -----------------------------------------------------------------------

    def report(
        self,
        n_cuts: int = 0,
        n_active: int = 0,
        step: float | None = None,
        method: str = "",
        C: float | None = None,
        *,
        final: bool = True,
    ) -> bool:
        """End an iteration; whether to stop, for which ``state.stop`` then has the reason. ``C`` is the one
        the iteration worked at, where that is not yet the problem's own. ``final=False``: bounds that meet
        the stopping rule are estimates, and no reason to stop."""
        self._spend("qp")
        state, spent = self.state, self.spent
        require_numbers(objective=state.upper, lower_bound=state.lower)
        # with sampled cuts the loop stops by the reduced problem's value, which is not a bound
        lower = -float("inf") if self.risk.oracle == "sampled" else state.lower
        self.asked = 0
        elapsed, sent = time.perf_counter() - self.started, self._sent()
        record = IterationRecord(
            iteration=len(self.history) + 1,
            objective=state.upper,
            lower_bound=lower,
            gap=relative_gap(state.upper, lower),
            n_cuts=n_cuts,
            n_active=n_active,
            step=step,
            oracle_calls=self.passes,
            seconds_oracle=spent["oracle"],
            seconds_plane=spent["plane"],
            seconds_line_search=spent["line_search"],
            seconds_qp=spent["qp"],
            elapsed=elapsed,
            method=method,
            C=self.problem.C if C is None else C,
            rounds=sent.rounds,
            seconds_rounds=sent.seconds,
            bytes_sent=sent.sent,
            bytes_received=sent.received,
        )
        spent.clear()
        self.history.append(record)
        reason: StopReason | None = None
        # every callback gets every record, even if another callback stops the fit there; the observer is
        # first, so that callbacks can report what it found
        if self.observer is not None and stops(self.observer(record, state.w)):
            reason = "callback"
        for callback in self.callbacks:
            if stops(callback(record)):
                reason = "callback"
        planes = self.risk.offers.numbered_planes
        if planes is not None:  # free slots for new planes
            planes.tidy(state)
        reason = reason or self._limit(elapsed)
        if reason is None and self.recorder is not None:
            self.recorder.report(self)
        if final and state.met(self.problem):
            reason = "gap"
        self.mark = time.perf_counter()  # callbacks take their own time
        if reason is not None:
            state.stop = reason
        return reason is not None

    # -- the rest --------------------------------------------------------------------------------------

    def continue_from(self, kept: dict[str, Any]) -> None:
        """Continue the counts of a checkpoint."""
        history, passes, elapsed, stop = counted(kept)
        self.history, self.passes = history, passes
        self.started -= elapsed
        self.expected = self.state.w, self.state.upper
        if self.state.met(self.problem):
            self.state.stop = "gap"
        elif stop == "stalled":
            self.state.stop = "stalled"
        else:
            self.state.stop = self._limit(elapsed)

    def _spend(self, what: str) -> None:
        """Account for the time since the last call: of the loop itself (the reduced problem), or of this."""
        now = time.perf_counter()
        self.spent[what] += now - self.mark
        self.mark = now

    def _visited(self, stats: SweepStats, n: int, what: str) -> SweepStats:
        require_numbers(estimated_gap=stats.gap_estimate)
        self.passes += stats.oracle_calls / max(1, n)
        self._spend(what)
        return stats

    def _offered(self, capability: T | None, what: str) -> T:
        """A capability that the solver declared in its needs (:mod:`maxmargin.solvers.requirements`)."""
        if capability is None:
            raise TypeError(
                f"the solver requested {what}, which {type(self.risk).__name__} does not offer: the solver "
                "must declare what it needs."
            )
        return capability

    def _rows(self) -> RowDualRisk:
        return self._offered(self.risk.offers.row_duals, "rows")

    def _examples(self) -> WorkingSetRisk:
        return self._offered(self.risk.offers.working_sets, "working sets")

    def _works_here(self, engine: Engine, what: str, instead: str) -> None:
        """Warn once if workers of the engine are idle meanwhile."""
        if not (self.warned or engine.durable):
            self.warned = True
            warn_user(
                f"{what} in this process and its memory: the workers of {type(engine).__name__} only "
                f"evaluate the risk. To use them for all the work, pass {instead}.",
            )

    def _late(self) -> bool:
        return (
            self.max_seconds is not None and time.perf_counter() - self.started >= self.max_seconds
        )

    def _limit(self, elapsed: float) -> StopReason | None:
        """The limit that is reached, or None."""
        if self.max_iter is not None and len(self.history) >= self.max_iter:
            return "max_iter"
        if self.max_seconds is not None and elapsed >= self.max_seconds:
            return "max_seconds"
        return None

    def _sent(self) -> Traffic:
        """What was sent since the last call."""
        engine = self.risk.offers.engine
        if not isinstance(engine, SerialEngine) or engine.traffic is None:
            return Traffic()
        before, self.traffic = self.traffic, replace(engine.traffic)
        return self.traffic.since(before)

    def _compare(self, before: float, w: Array, upper: float) -> None:
        """The restored incumbent, at which the risk is at most ``upper``, must have the objective ``before``.
        It has not if features or losses are not what they were."""
        C, proved, memory = self.problem.C, self.risk.offers.proved, self.state.memory
        now = self.problem.regularizer.value(w) + C * upper
        noise = 0.0 if proved is None else 2.0 * C * proved.rounding(w, upper)
        if isinstance(memory, Bundle):  # of losses that say nothing of rounding
            noise += C * memory.value_error(w)
        if np.isfinite(before) and abs(now - before) > 1e-6 * max(abs(now), abs(before)) + noise:
            raise CheckpointError(
                f"the checkpoint is not true here: its weights had the objective {before:.9g} and have "
                f"{now:.9g}. Features or losses are not what they were; does setup number features in the "
                "same order every time?"
            )


def _line(evaluation: Evaluation) -> LineEvaluation:
    if not moves_along_lines(evaluation):
        raise TypeError(
            f"a line is searched, and the risk answers with a {type(evaluation).__name__}, which does "
            "not move along lines: it must do so at all points or at none."
        )
    return evaluation
