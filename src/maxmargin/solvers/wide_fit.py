"""Solving with planes that stay at the shards, and the conversion of the result to weights.

The loop is that of any solver; see :mod:`maxmargin.risks.scores.wide` for the mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.contract.risk import Risk, WideFit
from maxmargin.core.contract.wide import LostPlanes
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.stopping import StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.certificate import finish
from maxmargin.solvers.checkpointing import CheckpointWriter
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.driver import Callback, Driver, Observer, prepare, problem_of

#: how many times a fit starts again because a worker died
MAX_RESTARTS = 10
TOO_OFTEN = (
    f"the fit started again {MAX_RESTARTS} times because a worker died with its planes: workers fail faster "
    "than planes are computed. Do they run out of memory? Use fewer or smaller shards per worker."
)


@dataclass(frozen=True, slots=True, eq=False)
class _RowsMemory:
    """Warm-start state of a solver over combinations of planes; a solver over features cannot use it."""

    point: Array
    bundle: dict[str, Any]
    columns: dict[str, Any]


def minimize_in_rows(
    risk: Risk,
    C: float,
    solver: CuttingPlane,
    regularizer: SquaredNorm,
    stopping: StoppingRule,
    max_iter: int | None,
    max_seconds: float | None,
    callbacks: Sequence[Callback],
    observer: Observer | None,
    start: SolveResult | Start | None,
    recorder: CheckpointWriter | None = None,
    kept: dict[str, Any] | None = None,
) -> SolveResult:
    """Solve with combinations of planes as points, then certify the weights they represent."""
    wide = risk.offers.wide
    if wide is None:
        raise TypeError(f"{type(risk).__name__} cannot keep planes with its rows.")
    span = wide.in_span(regularizer, solver.max_planes)
    solver = replace(solver, max_planes=span.max_planes)
    try:
        problem = problem_of(span, C, span.regularizer, stopping, 0)
        problem = replace(problem, shape=span.shape)
        state = _at_zero(span, problem)
        if start is not None and isinstance(start.dual, _RowsMemory):
            _take(span, state, start.dual)
        watch = None if observer is None else lambda r, z: observer(r, span.weights(z))
        driver = Driver(span, problem, state, max_iter, max_seconds, callbacks, watch, span=span)
        prepare(driver, solver, recorder, kept)
        _run(driver, solver, span, recorder)
    finally:
        span.close()
    return finish(risk, replace(problem, regularizer=regularizer), driver.state, driver)


def _at_zero(span: WideFit, problem: Problem) -> SolverState:
    return SolverState(w=np.zeros(span.dim), lower=problem.C * problem.base * problem.n_blocks)


def _take(span: WideFit, state: SolverState, before: _RowsMemory) -> None:
    """Start from the planes of an earlier fit, if they are as many numbers."""
    if before.point.shape == (span.dim,) and before.columns["scores"].shape[1] == span.n_scores:
        span.restore_columns(before.columns)
        state.memory = Bundle.from_state(span.dim, span.regularizer, before.bundle)
        state.w = before.point


def _run(
    driver: Driver, solver: CuttingPlane, span: WideFit, recorder: CheckpointWriter | None
) -> None:
    """Run the loop and convert its state to weights. If a worker dies, planes and points are lost, and the
    loop starts again from zero; the limits and the history go on."""
    for restarts in range(MAX_RESTARTS + 1):
        try:
            driver.run(solver)
            if recorder is not None:
                recorder.end(driver)
            try:
                _leave_rows(span, driver.state)
            except KeyboardInterrupt:
                # the first one only requests the best point, which needs these passes
                if driver.state.stop == "interrupted":
                    raise
                driver.state.stop = "interrupted"
                _leave_rows(span, driver.state)
            return
        except LostPlanes as error:
            if driver.state.stop == "interrupted":  # there is no point to return
                raise KeyboardInterrupt from error
            if restarts == MAX_RESTARTS:
                error.add_note(TOO_OFTEN)
                raise
            driver.state = _at_zero(span, driver.problem)
            span.forget()


def _leave_rows(span: WideFit, state: SolverState) -> None:
    """Convert the state to feature space, in one assignment each."""
    w = span.weights(state.w)
    dual = None if state.dual is None else span.dual(state.dual)
    memory = None
    # planes are kept for another fit if the shards are in this process
    if span.engine.durable and isinstance(state.memory, Bundle):
        memory = _RowsMemory(state.w, state.memory.state(), span.columns_state())
    state.w, state.dual, state.memory = w, dual, memory
