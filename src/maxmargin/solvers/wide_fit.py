"""Solving with planes that stay at the shards, and the conversion of the result to weights.

The loop is that of any solver; see :mod:`maxmargin.risks.scores.wide` for the mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.contract.risk import WideFit
from maxmargin.core.contract.wide import LostPlanes
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.certificate import finish
from maxmargin.solvers.checkpointing import CheckpointWriter, prepare
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.session import Session

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
    session: Session,
    solver: CuttingPlane,
    start: SolveResult | Start | None,
    recorder: CheckpointWriter | None,
    kept: dict[str, Any] | None,
) -> SolveResult:
    """Solve with combinations of planes as points, then certify the weights they represent."""
    risk, own, observer = session.risk, session.problem, session.observer
    wide = risk.offers.wide
    if wide is None:
        raise TypeError(f"{type(risk).__name__} cannot keep planes with its rows.")
    span = wide.in_span(own.regularizer, solver.max_planes)
    solver = replace(solver, max_planes=span.max_planes)
    try:
        problem = Problem.of(span, own.C, span.regularizer, own.stopping, 0)
        session.risk = session.span = span
        session.problem = replace(problem, shape=span.shape)
        session.state = _at_zero(span, problem)
        if observer is not None:
            session.observer = lambda record, z: observer(record, span.weights(z))
        if start is not None and isinstance(start.dual, _RowsMemory):
            _take(span, session.state, start.dual)
        prepare(session, solver, recorder, kept)
        _run(session, solver, span, recorder)
    finally:
        span.close()
    return finish(risk, replace(session.problem, regularizer=own.regularizer), session)


def _at_zero(span: WideFit, problem: Problem) -> SolverState:
    return SolverState(w=np.zeros(span.dim), lower=problem.C * problem.base * problem.n_blocks)


def _take(span: WideFit, state: SolverState, before: _RowsMemory) -> None:
    """Start from the planes of an earlier fit, if they are as many numbers."""
    if before.point.shape == (span.dim,) and before.columns["scores"].shape[1] == span.n_scores:
        span.restore_columns(before.columns)
        state.memory = Bundle.from_state(span.dim, span.regularizer, before.bundle)
        state.w = before.point


def _run(
    session: Session, solver: CuttingPlane, span: WideFit, recorder: CheckpointWriter | None
) -> None:
    """Run the loop and convert its state to weights. If a worker dies, planes and points are lost, and the
    loop starts again from zero; the limits and the history go on."""
    for restarts in range(MAX_RESTARTS + 1):
        try:
            session.run(solver)
            if recorder is not None:
                recorder.end(session)
            try:
                _leave_rows(span, session.state)
            except KeyboardInterrupt:
                # the first one only requests the best point, which needs these passes
                if session.state.stop == "interrupted":
                    raise
                session.state.stop = "interrupted"
                _leave_rows(span, session.state)
            return
        except LostPlanes as error:
            if session.state.stop == "interrupted":  # there is no point to return
                raise KeyboardInterrupt from error
            if restarts == MAX_RESTARTS:
                error.add_note(TOO_OFTEN)
                raise
            session.state = _at_zero(span, session.problem)
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
