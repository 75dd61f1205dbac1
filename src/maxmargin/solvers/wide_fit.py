"""Solving with planes that stay at the shards, and the conversion of the result to weights.

The loop is that of any solver; see :mod:`maxmargin.risks.scores.wide` for the mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.contract.risk import Risk, WideFit
from maxmargin.core.contract.wide import PlaneColumns
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.stopping import StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import SolverState
from maxmargin.solvers.certificate import finish
from maxmargin.solvers.checkpointing import CheckpointWriter
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.driver import Callback, Driver, Observer, prepare, problem_of


@dataclass(frozen=True, slots=True, eq=False)
class _RowsMemory:
    """Warm-start state of a solver over combinations of planes; a solver over features cannot use it."""

    point: Array
    bundle: Any
    #: the record of how the shards' columns were made
    columns: PlaneColumns
    #: how many times slots had been reassigned when the point was stored
    n_mixes: int
    #: the columns themselves, if the shards are in this process
    kept: Any


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
    try:
        before = None if start is None else start.dual
        if not isinstance(before, _RowsMemory) or before.columns.size != span.columns.size:
            before = None
        else:
            span.take(before.columns, before.kept)
        problem = problem_of(span, C, span.regularizer, stopping, 0)
        state = SolverState(w=np.zeros(span.dim), lower=C * risk.lower_bound * risk.n_blocks)
        if before is not None:
            state.memory = before.bundle
            if before.n_mixes == span.columns.n_mixes:
                state.w = before.point
        watch = None if observer is None else lambda r, z: observer(r, span.weights(z))
        driver = Driver(span, problem, state, max_iter, max_seconds, callbacks, watch)
        prepare(driver, solver, recorder, kept)
        state = driver.state
        driver.run(replace(solver, max_planes=span.columns.max_planes))
        if recorder is not None:
            recorder.end(driver)
        try:
            _leave_rows(span, state)
        except (
            KeyboardInterrupt
        ):  # the first one only requests the best point, which needs these passes
            if state.stop == "interrupted":
                raise
            state.stop = "interrupted"
            _leave_rows(span, state)
    finally:
        span.close()
    return finish(risk, replace(problem, regularizer=regularizer), state, driver)


def _leave_rows(span: WideFit, state: SolverState) -> None:
    """Convert the state to feature space, in one assignment each."""
    w = span.weights(state.w)
    dual = None if state.dual is None else span.dual(state.dual)
    columns = span.columns
    memory = _RowsMemory(state.w, state.memory, columns, columns.n_mixes, span.keep())
    state.w, state.dual, state.memory = w, dual, memory
