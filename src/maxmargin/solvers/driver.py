"""The driver: answers a solver's requests from one risk, keeps time, and runs callbacks and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from maxmargin.core.contract import requests as ask
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.block_duals import BlockDuals
from maxmargin.core.contract.risk import Risk, WideFit
from maxmargin.core.contract.row_duals import AT_SHARDS, NO_ROWS, RowDualRisk, RowDuals, RowSample
from maxmargin.core.contract.sampled import SampledEvaluation
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.contract.working_sets import WorkingSetRisk, WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine, SerialEngine, Traffic
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import (
    IterationRecord,
    StopReason,
    relative_gap,
)
from maxmargin.core.stopping import StoppingRule, stops
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import Array, IntArray
from maxmargin.solvers.base import Problem, Solver, SolverState
from maxmargin.solvers.checkpointing import CheckpointWriter, require_same
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.finite_answers import check_answer, require_numbers
from maxmargin.solvers.history_columns import counted
from maxmargin.solvers.solver_state import compare, identity, restore

Callback = Callable[[IterationRecord], object]
T = TypeVar("T")
Observer = Callable[[IterationRecord, Array], object]
#: solvers for structured problems that use the workers of the engine
_FOR_SETS = "solver=DualCoordinate(batch_size=...), oracle='expensive' or solver=CuttingPlane()"


@runtime_checkable
class OracleCallback(Protocol):
    """A callback that also receives the progress of a pass with an expensive oracle."""

    def on_oracle(self, done: int, total: int) -> object:
        """Report that ``done`` of ``total`` examples have been processed."""


def _offered(capability: T | None, risk: Risk, what: str) -> T:
    """A capability that the solver declared in its needs (:mod:`maxmargin.solvers.requirements`)."""
    if capability is None:
        raise TypeError(
            f"the solver requested {what}, which {type(risk).__name__} does not offer: the solver must "
            "declare what it needs."
        )
    return capability


def _cut(request: ask.TakeCut) -> Cut:
    if request.draw is not None:
        return cast(SampledEvaluation, request.at).sampled_cut(request.draw, request.whole)
    return request.at.cut()


@dataclass(slots=True, eq=False)
class Driver:
    risk: Risk
    problem: Problem
    state: SolverState
    max_iter: int | None
    max_seconds: float | None
    callbacks: Sequence[Callback]
    observer: Observer | None = None
    history: list[IterationRecord] = field(default_factory=list)
    passes: float = 0.0
    asked: int = 0
    warned: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    recorder: CheckpointWriter | None = None
    #: the incumbent of a checkpoint and its F, which this risk must reproduce
    expected: tuple[Array, float] | None = None
    #: the risk, if its points are over planes that a checkpoint must store
    span: WideFit | None = None
    #: what had been sent when the last iteration ended
    traffic: Traffic = field(default_factory=Traffic)

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

    def run(self, solver: Solver) -> None:
        if self.state.stop is not None:  # nothing is left to do
            return
        self._sent()  # by earlier fits
        steps = solver.steps(self.problem, self.state)
        answer: Any = None
        spent, clock = self.spent, time.perf_counter
        try:
            while True:
                before = clock()
                try:
                    request = steps.send(answer)
                except StopIteration:  # the loop has ended; one of a callback or a task is an error
                    return
                answer = None  # release it: it may hold the scores of all rows
                spent["qp"] = spent.get("qp", 0.0) + clock() - before
                answer = self._answer(request)
        except KeyboardInterrupt:
            self.state.stop = "interrupted"

    def _answer(self, request: ask.Request) -> Any:
        if isinstance(request, ask.Report):
            return self._report(request)
        before = time.perf_counter()
        match request:
            case ask.Evaluate(w, exact, cache_size):
                if cache_size is not None:
                    caching = _offered(self.risk.offers.caching, self.risk, "a cache")
                    caching.resize_cache(cache_size)
                answer: Any = self.risk.evaluate(w, exact=exact)
                self.passes += exact
                what = "oracle" if exact else "line_search"
            case ask.Open():
                answer, what = self._open(request), "oracle"
            case ask.Improve() | ask.Check():
                answer, what = self._over_rows(request), "oracle"
            case ask.Toward(a, b, t):
                answer, what = a.toward(b, t), "line_search"
            case ask.Slopes(a, b, ts):
                answer, what = a.slopes(b, ts), "line_search"
            case ask.Breakpoints(a, b, lo, hi, limit):
                answer, what = a.breakpoints(b, lo, hi, limit), "line_search"
            case ask.TakeCut():
                answer, what = _cut(request), "plane"
            case ask.Extend(size, seed, held):
                growing = _offered(self.risk.offers.growing, self.risk, "a growing set of examples")
                answer, what = growing.extend(size, seed, held), "oracle"
            case ask.Sweep() | ask.Confirm():
                answer, what = self._over_sets(request)
        check_answer(request, answer)
        if self.expected is not None and isinstance(request, ask.Evaluate) and request.exact:
            w, before = self.expected
            if request.w is w:
                compare(self.risk, self.problem, self.state.memory, before, w, answer.upper)
        self.spent[what] = self.spent.get(what, 0.0) + time.perf_counter() - before
        return answer

    def _open(self, request: ask.Open) -> WorkingSets | BlockDuals | RowDuals | RowSample:
        """New dual variables, or working sets of another C rescaled."""
        method, C, norm = request.method, request.C, self.problem.regularizer
        match method:
            case "working sets":
                if request.held is not None:
                    return self._rescaled(request.held, C)
                return self._examples().working_sets(C, norm)
            case "kernel blocks":
                return _offered(self.risk.offers.blocks, self.risk, "blocks of rows").block_duals(C)
        rows = self._rows()
        if method == "sample":
            return rows.row_sample(C, norm)
        if method != AT_SHARDS:
            what = f"the {method} method visits the rows"
            self._works_here(rows.engine, what, "solver=CuttingPlane()")
        return rows.row_duals(method, C, norm, request.streaming, request.blocks)

    def _rescaled(self, held: WorkingSets, C: float) -> WorkingSets:
        if held.n_examples != self.problem.n_examples:
            raise ValueError(
                f"start holds working sets of {held.n_examples} examples; the risk has "
                f"{self.problem.n_examples}. Start from a result of the same examples."
            )
        held.rescale(self._examples().caps(C))
        return held

    def _over_sets(self, request: ask.Sweep | ask.Confirm) -> tuple[Any, str]:
        """Handle requests of dual coordinate ascent over outputs of single examples."""
        what = "oracle"
        match request:
            case ask.Confirm(sets, w, expensive):
                parts = self._ask_all(w) if expensive else self._examples().answers(w)
                self.passes += sum(part.hi - part.lo for part in parts) / max(
                    1, self.problem.n_examples
                )
                return sets.confirm(parts), what
            case ask.Sweep(sets, "epoch", order):
                stats, what = sets.epoch(order), "qp"
            case ask.Sweep(sets, "batches", order, skip_below, batch_size):
                stats = self._ask(sets, order, skip_below, batch_size)
            case ask.Sweep(sets, _, order, skip_below):
                engine = self._examples().engine
                self._works_here(
                    engine, "DualCoordinate with batch_size=1 calls the oracle", _FOR_SETS
                )
                stats = sets.stream(order, skip_below)
        self.passes += stats.oracle_calls / max(1, self.problem.n_examples)
        return stats, what

    def _over_rows(self, request: ask.Improve | ask.Check) -> Any:
        """Handle requests of dual methods over rows."""
        match request:
            case ask.Improve(duals, seed):
                if self.max_seconds is not None and isinstance(duals, BlockDuals):
                    duals.late = self._late
                stats = duals.improve(seed)
                self.passes += stats.oracle_calls / max(1, duals.n_examples)
                return stats
            case ask.Check(duals, at):
                self._rows().check(duals, at)
                return None

    def _rows(self) -> RowDualRisk:
        return _offered(self.risk.offers.row_duals, self.risk, "rows")

    def _examples(self) -> WorkingSetRisk:
        return _offered(self.risk.offers.working_sets, self.risk, "working sets")

    def _ask(
        self, sets: WorkingSets, order: IntArray, skip_below: float, batch_size: int
    ) -> SweepStats:
        """Call the oracle for a few examples at a time, until the time limit."""
        calls = new = 0
        examples = self._examples()
        due = examples.in_turn(sets.begin(order, skip_below))
        while calls < len(due) and not self._late():
            answers = examples.answers_for(sets.w, due[calls : calls + batch_size], quick=True)
            stats = sets.absorb(answers)
            calls, new = calls + len(answers), new + stats.new_planes
            self._report_oracle_calls(len(answers))
            if self.recorder is not None:
                self.recorder.poll(self)
        return SweepStats(calls, float(sets.gaps[order].sum()), new)

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

    def _report(self, report: ask.Report) -> StopReason | None:
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
            n_cuts=report.n_cuts,
            n_active=report.n_active,
            step=report.step,
            oracle_calls=self.passes,
            seconds_oracle=spent.pop("oracle", 0.0),
            seconds_plane=spent.pop("plane", 0.0),
            seconds_line_search=spent.pop("line_search", 0.0),
            seconds_qp=spent.pop("qp", 0.0),
            elapsed=elapsed,
            method=report.method,
            C=self.problem.C if report.C is None else report.C,
            rounds=sent.rounds,
            seconds_rounds=sent.seconds,
            bytes_sent=sent.sent,
            bytes_received=sent.received,
        )
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
        return reason

    def _sent(self) -> Traffic:
        """What was sent since the last call."""
        engine = self.risk.offers.engine
        if not isinstance(engine, SerialEngine) or engine.traffic is None:
            return Traffic()
        before, self.traffic = self.traffic, replace(engine.traffic)
        return self.traffic.since(before)

    def _limit(self, elapsed: float) -> StopReason | None:
        """The limit that is reached, or None."""
        if self.max_iter is not None and len(self.history) >= self.max_iter:
            return "max_iter"
        if self.max_seconds is not None and elapsed >= self.max_seconds:
            return "max_seconds"
        return None


def prepare(
    driver: Driver, solver: Solver, recorder: CheckpointWriter | None, kept: dict[str, Any] | None
) -> None:
    """Resume a driver from a checkpoint, and set up the writing of its own."""
    own = identity(driver.problem, solver)
    if kept is not None:
        require_same(kept.get("file"), kept.get("identity", {}), own)
        by_rows = solver if isinstance(solver, DualCoordinate) else None
        driver.state = restore(kept, driver.risk, driver.problem, by_rows, driver.span)
        driver.continue_from(kept)
    if recorder is not None:
        recorder.begin(driver, own)
        driver.recorder = recorder


def problem_of(
    risk: Risk, C: float, regularizer: SquaredNorm, stopping: StoppingRule, random_state: int
) -> Problem:
    rows, caching = risk.offers.row_duals, risk.offers.caching
    return Problem(
        dim=risk.dim,
        n_blocks=risk.n_blocks,
        n_examples=risk.n_examples,
        C=float(C),
        base=risk.lower_bound,
        regularizer=regularizer,
        has_cache=caching is not None,
        cache_saves=caching is not None and caching.cache_saves,
        stopping=stopping,
        random_state=random_state,
        shape=NO_ROWS if rows is None else rows.shape,
        methods=frozenset() if rows is None else rows.methods(regularizer),
    )
