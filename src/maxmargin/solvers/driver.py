"""The plain driver: answers a solver's requests from one risk, keeps time, and certifies the end.

Ctrl-C, a time limit, an iteration limit and callbacks all end the same way: the best point seen,
with bounds that were computed anew from that point and from a feasible dual point, by
:func:`certify`, which shares nothing with the loop. After Ctrl-C :func:`minimize` then raises, with the
result attached; :func:`solve` leaves that to a caller that has more to store.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.core import requests as ask
from maxmargin.core.interrupts import interrupt, outermost
from maxmargin.core.protocols import Answers, Risk, SweepStats, WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import (
    IterationRecord,
    SolveResult,
    Start,
    StopReason,
    bounds_in_words,
    relative_gap,
)
from maxmargin.core.stopping import RelativeGap, StoppingRule
from maxmargin.core.vectors import Array, IntArray
from maxmargin.solvers.base import Problem, Solver, SolverState
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.ending import finish
from maxmargin.solvers.finite import check_answer, require_finite, require_numbers
from maxmargin.solvers.keeping import compare, identity, read_history, restore
from maxmargin.solvers.recorder import Recorder, opened, require_same

#: evaluations after a resume at which what was restored is compared with the risk
DOUBTS = 3

Callback = Callable[[IterationRecord], object]
Observer = Callable[[IterationRecord, Array], object]
#: what works on structures where the examples are
_FOR_SETS = "solver=DualCoordinate(mode='dear') or solver=CuttingPlane()"


@dataclass(slots=True, eq=False)
class Driver:
    risk: Any
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
    recorder: Recorder | None = None
    #: the incumbent of a checkpoint and its F, which must be the same here
    expected: tuple[Array, float] | None = None
    #: evaluations at which planes of a checkpoint have still to prove themselves
    doubts: int = 0

    def go_on(self, kept: dict[str, Any]) -> None:
        """Count on from a checkpoint."""
        self.history, self.passes = read_history(kept["history"]), kept["passes"]
        self.started -= kept["elapsed"]
        self.expected, self.doubts = (self.state.w, self.state.upper), DOUBTS
        if self.state.met(self.problem):
            self.state.stop = "gap"
        elif kept["stop"] == "stalled":
            self.state.stop = "stalled"
        else:
            self.state.stop = self._limit(kept["elapsed"])

    def run(self, solver: Solver) -> None:
        if self.state.stop is not None:  # nothing is left to do
            return
        steps = solver.steps(self.problem, self.state)
        answer: Any = None
        try:
            while True:
                before = time.perf_counter()
                request = steps.send(answer)
                answer = None  # it may hold the scores of all rows, and the solver has done with it
                self._spend("qp", before)
                answer = self._answer(request)
        except StopIteration:
            return
        except KeyboardInterrupt:
            self.state.stop = "interrupted"

    def _spend(self, what: str, since: float) -> None:
        self.spent[what] = self.spent.get(what, 0.0) + time.perf_counter() - since

    def _answer(self, request: ask.Request) -> Any:
        before = time.perf_counter()
        risk = self.risk
        match request:
            case ask.Evaluate(w, exact):
                answer = risk.evaluate(w, exact=exact)
                self.passes += exact
                what = "oracle" if exact else "line_search"
            case ask.Toward(a, b, t, value):
                answer, what = a.toward(b, t), "line_search"
                if value:  # evaluations are lazy: what is asked for here is paid for here
                    require_finite(answer.value)
            case ask.Slopes(a, b, ts):
                answer, what = a.slopes(b, ts), "line_search"
            case ask.Breakpoints(a, b, lo, hi, limit):
                answer, what = a.breakpoints(b, lo, hi, limit), "line_search"
            case ask.Weigh(at, trial, examples, afresh):
                answer = at.fresh_terms(trial) if afresh else at.terms(trial, examples)
                what = "plane"
            case ask.Sample(at, draw, whole):
                answer, what = at.sampled_cut(draw, whole), "plane"
            case ask.Extend(size, seed):
                answer, what = risk.extend(size, seed), "oracle"
            case ask.Cuts(at, per_block):
                answer, what = (at.cuts() if per_block else [at.cut()]), "plane"
            case ask.OpenSets(held):
                if not hasattr(risk, "working_sets"):
                    if hasattr(risk, "row_duals"):  # it says why it has none for this problem
                        risk.row_duals("coordinate", self.problem.C, self.problem.regularizer)
                    raise TypeError(
                        f"DualCoordinate cannot train {type(risk).__name__}: it has no working sets of "
                        "single examples. Use solver=CuttingPlane()."
                    )
                if held is None:
                    held = risk.working_sets(self.problem.C, self.problem.regularizer)
                elif held.n_examples != self.problem.n_examples:
                    raise ValueError(
                        f"start holds working sets of {held.n_examples} examples; the risk has "
                        f"{self.problem.n_examples}. Start from a result of the same examples."
                    )
                else:
                    held.rescale(risk.caps(self.problem.C))
                answer, what = held, "oracle"
            case ask.Sweep(sets, kind, order, skip_below):
                if kind == "stream":
                    self._works_here("DualCoordinate(mode='stream') asks the oracle", _FOR_SETS)
                    answer, what = sets.stream(order, skip_below), "oracle"
                else:
                    answer, what = sets.epoch(order), "qp"
                self.passes += answer.oracle_calls / max(1, sets.n_examples)
            case ask.Ask(sets, order, skip_below, at_once):
                answer, what = self._ask(sets, order, skip_below, at_once), "oracle"
                self.passes += answer.oracle_calls / max(1, sets.n_examples)
            case ask.Confirm(sets, w, dear):
                parts = self._ask_all(w) if dear else risk.answers(w)
                answer, what = sets.confirm(parts), "oracle"
                self.passes += sum(part.hi - part.lo for part in parts) / max(1, sets.n_examples)
            case ask.OpenDuals(method, C, streaming):
                self._works_here(f"the {method} method visits the rows", "solver=CuttingPlane()")
                answer = risk.row_duals(method, C, self.problem.regularizer, streaming)
                what = "oracle"
            case ask.Improve(duals, seed):
                # some have places to stop at
                if self.max_seconds is not None and hasattr(duals, "late"):
                    duals.late = self._late
                answer, what = duals.improve(seed), "oracle"
                self.passes += answer.oracle_calls / max(1, duals.n_examples)
            case ask.Check(duals, at):
                duals.check(risk.scores(at))
                answer, what = None, "oracle"
            case ask.Report():
                return self._report(request)
        check_answer(request, answer)
        if isinstance(request, ask.Evaluate) and self.doubts and request.exact:
            self.doubts -= 1
            compare(self.risk, self.problem, self.state, self.expected, request.w, answer.upper)
        self._spend(what, before)
        return answer

    def _ask(
        self, sets: WorkingSets, order: IntArray, skip_below: float, at_once: int
    ) -> SweepStats:
        """The oracle, a few examples at a time; none is asked once the time is over."""
        calls = new = 0
        due = sets.begin(order, skip_below)
        while calls < len(due) and not self._late():
            answers = self.risk.answers_for(sets.w, due[calls : calls + at_once], quick=True)
            stats = sets.absorb(answers)
            calls, new = calls + len(answers), new + stats.new_planes
            self._tell(len(answers))
            if self.recorder is not None:
                self.recorder.poll(self)
        return SweepStats(calls, float(sets.gaps[order].sum()), new)

    def _ask_all(self, w: Array) -> list[Answers]:
        examples = np.flatnonzero(self.risk.caps(1.0) > 0.0)
        parts: list[Answers] = []
        self.asked, n = 0, self.risk.n_blocks
        for k in range(0, len(examples), n):
            parts += self.risk.answers_for(w, examples[k : k + n])
            self._tell(len(parts) - k)
        self.risk.remember(w, parts)
        self.asked = 0
        return parts

    def _tell(self, calls: int) -> None:
        """How far a pass of a dear oracle is, for callbacks that want to know."""
        self.asked += calls
        for callback in self.callbacks:
            if hasattr(callback, "on_oracle"):
                callback.on_oracle(self.asked, self.problem.n_examples)

    def _works_here(self, what: str, instead: str) -> None:
        """Say so, once, if there are workers elsewhere that have nothing to do meanwhile."""
        engine = getattr(getattr(self.risk, "inner", self.risk), "engine", None)
        if not (self.warned or getattr(engine, "durable", True)):
            self.warned = True
            warnings.warn(
                f"{what} in this process and its memory: the workers of {type(engine).__name__} only "
                f"evaluate. To let them do the work use {instead}.",
                UserWarning,
                stacklevel=5,
            )

    def _late(self) -> bool:
        return (
            self.max_seconds is not None and time.perf_counter() - self.started >= self.max_seconds
        )

    def _report(self, report: ask.Report) -> StopReason | None:
        state, spent = self.state, self.spent
        require_numbers(objective=state.upper, lower_bound=state.lower)
        # where cuts are drawn the reduced problem's value is what the loop stops by, but no bound
        lower = -float("inf") if self.risk.oracle == "sampled" else state.lower
        self.asked = 0
        elapsed = time.perf_counter() - self.started
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
        )
        self.history.append(record)
        reason: StopReason | None = None
        # every callback sees every record, also the one on which another callback stops the fit
        for callback in self.callbacks:
            if callback(record) is True:
                reason = "callback"
        if self.observer is not None and self.observer(record, state.w) is True:
            reason = "callback"
        if hasattr(self.risk, "tidy"):  # between two iterations: room for new planes
            self.risk.tidy(state)
        reason = reason or self._limit(elapsed)
        if reason is None and self.recorder is not None:
            self.recorder.report(self)
        return reason

    def _limit(self, elapsed: float) -> StopReason | None:
        """A limit that is reached."""
        if self.max_iter is not None and len(self.history) >= self.max_iter:
            return "max_iter"
        if self.max_seconds is not None and elapsed >= self.max_seconds:
            return "max_seconds"
        return None


def minimize(
    risk: Risk,
    C: float,
    *,
    solver: Solver | None = None,
    regularizer: SquaredNorm | None = None,
    stopping: StoppingRule | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    random_state: int = 0,
    w0: Array | None = None,
    start: SolveResult | Start | None = None,
    checkpoint: Any = None,
    resume_from: Any = None,
    about: dict[str, Any] | None = None,
) -> SolveResult:
    """Minimise Omega(w) + C R(w) for any risk, with a certificate.

    Parameters
    ----------
    risk : Risk
        A convex function that answers an evaluation with a cut; see :class:`maxmargin.core.Risk`.
    C : float
        Weight of the risk.
    solver : CuttingPlane or DualCoordinate, optional
        The method; optimised cutting planes by default.
    regularizer : SquaredNorm, optional
        Half the squared norm of all coordinates by default.
    stopping : stopping rule, optional
        ``RelativeGap(1e-3)`` by default.
    max_iter, max_seconds : optional
        Limits; the best point is returned with its bounds.
    callbacks : sequence of callables
        Each receives every :class:`maxmargin.core.IterationRecord`; returning True stops the fit. One with a
        method ``on_oracle(done, total)`` hears how far a pass of a dear oracle is.
    observer : callable, optional
        Like a callback, but called with the record and the incumbent's weights.
    random_state : int
        Seed of the order in which examples are visited (coordinate solvers).
    w0 : array, optional
        First point of cutting planes; zero by default. Coordinate solvers start from their duals.
    start : SolveResult or Start, optional
        The outcome for the same risk with another C (or a looser tolerance): planes are kept as they are,
        multipliers and weights scaled. Its own state moves on with this call.
    checkpoint : Checkpoint or path, optional
        Where the state is written now and then; see :class:`maxmargin.Checkpoint`.
    resume_from : path, optional
        A checkpoint to go on from: of the same risk, C and solver.
    about : dict, optional
        What the risk is about, as plain values: a hash of its data, say. It is written into checkpoints, and
        one that says something else is refused. (A risk cannot tell its data apart from others; estimators
        do.)

    Returns
    -------
    SolveResult

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, once the best point has its bounds: the result is ``error.result``. A second Ctrl-C
        skips the pass that confirms them (``objective`` is then NaN). Inside
        :func:`maxmargin.return_on_interrupt` the result is returned instead.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, C=1.0)
    >>> round(result.objective, 4), result.certificate
    (0.5, 'exact')
    """
    with outermost() as returns:
        result = solve(
            risk,
            C,
            solver=solver,
            regularizer=regularizer,
            stopping=stopping,
            max_iter=max_iter,
            max_seconds=max_seconds,
            callbacks=callbacks,
            observer=observer,
            random_state=random_state,
            w0=w0,
            start=start,
            checkpoint=checkpoint,
            resume_from=resume_from,
            about=about,
        )
    if result.stop_reason == "interrupted" and not returns:
        known = bounds_in_words(result.objective, result.lower_bound, result.gap)
        raise interrupt(f"minimize: {known}. The result is error.result.", result=result)
    return result


def solve(
    risk: Risk,
    C: float,
    *,
    solver: Solver | None = None,
    regularizer: SquaredNorm | None = None,
    stopping: StoppingRule | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    random_state: int = 0,
    w0: Array | None = None,
    start: SolveResult | Start | None = None,
    checkpoint: Any = None,
    resume_from: Any = None,
    about: dict[str, Any] | None = None,
) -> SolveResult:
    """As :func:`minimize`, but returns after Ctrl-C: for callers that store more before they raise."""
    if not (isinstance(C, Real) and np.isfinite(C) and C > 0):
        raise ValueError(f"C={C!r}: it must be a positive number.")
    regularizer = regularizer or SquaredNorm()
    stopping = stopping or RelativeGap()
    solver = solver or CuttingPlane()
    recorder, kept = opened(checkpoint, resume_from, about)
    if getattr(solver, "space", "features") == "rows":
        from maxmargin.solvers.rows_space import minimize_in_rows  # which builds upon this module

        return minimize_in_rows(
            risk,
            C,
            solver,
            regularizer,
            stopping,
            max_iter,
            max_seconds,
            callbacks,
            observer,
            start,
            recorder,
            kept,
        )
    problem = problem_of(risk, C, regularizer, stopping, random_state)
    if w0 is None:
        w0 = np.zeros(risk.dim) if start is None else start.w
    state = SolverState(
        w=np.array(regularizer.primal(np.asarray(w0, dtype=np.float64))),
        lower=C * risk.lower_bound * risk.n_blocks,
    )
    if start is not None:
        state.memory, state.duals = start.dual, start.duals
    driver = Driver(risk, problem, state, max_iter, max_seconds, callbacks, observer)
    prepare(driver, solver, recorder, kept)
    driver.run(solver)
    result = finish(risk, problem, driver.state, driver)
    if recorder is not None:
        recorder.end(driver)
        if driver.state.stop == "interrupted":  # also while the last file was written
            result = replace(result, stop_reason="interrupted")
    return result


def prepare(
    driver: Driver, solver: Solver, recorder: Recorder | None, kept: dict[str, Any] | None
) -> None:
    """Let a driver go on from a checkpoint, and write its own."""
    own = identity(driver.problem, solver)
    if kept is not None:
        require_same(kept.get("file"), kept.get("identity", {}), own)
        streaming = getattr(solver, "streaming", None)
        driver.state = restore(kept, driver.risk, driver.problem, streaming)
        driver.go_on(kept)
    if recorder is not None:
        recorder.begin(driver, own)
        driver.recorder = recorder


def problem_of(
    risk: Any, C: float, regularizer: SquaredNorm, stopping: StoppingRule, random_state: int
) -> Problem:
    return Problem(
        dim=risk.dim,
        n_blocks=risk.n_blocks,
        n_examples=getattr(risk, "n_examples", 0),
        C=float(C),
        base=risk.lower_bound,
        regularizer=regularizer,
        has_cache=risk.has_cache,
        stopping=stopping,
        random_state=random_state,
        nnz=getattr(risk, "nnz", 0),
        n_columns=getattr(risk, "n_columns", 1),
        smooth=getattr(risk, "smooth", False),
        dear_slopes=getattr(risk, "dear_slopes", False),
        methods=risk.methods(regularizer) if hasattr(risk, "methods") else frozenset(),
    )
