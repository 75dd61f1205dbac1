"""The entry point: minimize Omega(w) + C R(w).

Ctrl-C, a time limit, an iteration limit and callbacks all end a fit in the same way: the result is the best
point found, with bounds that :func:`certify` recomputes from that point and from a feasible dual point,
independently of the loop. After Ctrl-C :func:`minimize` then raises, with the
result attached; :func:`solve` leaves that to callers that have more to store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any
from weakref import WeakSet

import numpy as np

from maxmargin.core.contract.risk import Risk
from maxmargin.core.interrupts import raising_interrupts
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start, bounds_in_words
from maxmargin.core.stopping import RelativeGap, StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.certificate import finish
from maxmargin.solvers.checkpointing import open_checkpoint, prepare
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.requirements import require
from maxmargin.solvers.session import Callback, FunctionSolver, Observer, Session, Solver
from maxmargin.solvers.wide_fit import minimize_in_rows

#: squares of objectives with a larger C would not be finite
LARGEST_C = 1e100
#: classes of solvers and risks that have all members: Python takes longer to find out than for a Newton step
_SOUND: WeakSet[type] = WeakSet()


def _in_words(result: SolveResult) -> str:
    return bounds_in_words(result.objective, result.lower_bound, result.gap)


@raising_interrupts(_in_words)
def minimize(
    risk: Risk,
    C: float,
    *,
    solver: Solver | Callable[[Session], None] | None = None,
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
    """Minimize Omega(w) + C R(w) for any risk, with a certificate.

    Parameters
    ----------
    risk : Risk
        A convex function whose evaluations return cuts; see :class:`maxmargin.core.Risk`.
    C : float
        Weight of the risk.
    solver : solver object or callable, optional
        The method; optimized cutting planes by default. A function of a
        :class:`~maxmargin.solvers.Session` is a method of your own.
    regularizer : SquaredNorm, optional
        Half the squared norm of all coordinates by default.
    stopping : stopping rule, optional
        ``RelativeGap(1e-3)`` by default.
    max_iter, max_seconds : optional
        Limits; the best point is returned with its bounds.
    callbacks : sequence of callables
        Each receives every :class:`maxmargin.core.IterationRecord`; returning True stops the fit. One with a
        method ``on_oracle(done, total)`` also receives the progress of a pass with an expensive oracle.
    observer : callable, optional
        Like a callback, but called with the record and the incumbent's weights.
    random_state : int
        Seed of the order in which examples are visited (coordinate solvers).
    w0 : array, optional
        First point of cutting planes; zero by default. Coordinate solvers start from their multipliers.
    start : SolveResult or Start, optional
        The result for the same risk with another C (or a looser tolerance), as a warm start: planes are
        reused, multipliers and weights are scaled. This call changes its state.
    checkpoint : Checkpoint or path, optional
        Where and how often the state is written; see :class:`maxmargin.Checkpoint`.
    resume_from : path, optional
        A checkpoint to continue from, of the same risk, C and solver.
    about : dict, optional
        A description of the risk as plain values, such as a hash of its data. It is written to checkpoints,
        and a checkpoint with another description is refused. (A risk cannot recognize its data; estimators
        can.)

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
    number = float(C) if isinstance(C, np.floating) else C  # a float32 has no LARGEST_C
    if not isinstance(C, Real) or isinstance(C, bool) or not 0 < number <= LARGEST_C:
        raise ValueError(f"C={C!r}: it must be a positive number up to {LARGEST_C:g}.")
    regularizer = regularizer or SquaredNorm()
    stopping = stopping or RelativeGap()
    solver = solver or CuttingPlane()
    if isinstance(solver, type):
        raise TypeError(
            f"solver={solver.__name__} is a class: pass an object, {solver.__name__}(...)."
        )
    if type(solver) not in _SOUND and not isinstance(solver, Solver):
        if not callable(solver):
            raise TypeError(
                f"solver={solver!r} is not a solver: use an object of maxmargin.solvers, or a function of "
                "your own that takes a session (maxmargin.solvers.Session)."
            )
        solver = FunctionSolver(solver)
    if type(risk) not in _SOUND and not isinstance(risk, Risk):
        raise TypeError(
            f"{type(risk).__name__} is not a risk: it must have {', '.join(_missing(risk))}. See "
            "maxmargin.core.Risk."
        )
    _SOUND.update((type(solver), type(risk)))
    require(solver, solver.needs, risk, regularizer)
    recorder, kept = open_checkpoint(checkpoint, resume_from, about)
    problem = Problem.of(risk, C, regularizer, stopping, random_state)
    state = SolverState(w=np.zeros(0), lower=C * risk.lower_bound * risk.n_blocks)
    session = Session(risk, problem, state, max_iter, max_seconds, callbacks, observer)
    if isinstance(solver, CuttingPlane) and solver.space == "rows":  # no vector of the length of w
        return minimize_in_rows(session, solver, start, recorder, kept)
    if w0 is None:
        w0 = np.zeros(risk.dim) if start is None else start.w
    state.w = np.array(regularizer.primal(np.asarray(w0, dtype=np.float64)))
    if start is not None:
        state.memory, state.duals = start.dual, start.duals
    prepare(session, solver, recorder, kept)
    session.run(solver)
    result = finish(risk, problem, session)
    if recorder is not None:
        recorder.end(session)
        if session.state.stop == "interrupted":  # possibly while the last file was written
            result = replace(result, stop_reason="interrupted")
    return result


#: the same, but it returns after Ctrl-C
solve = minimize.__wrapped__


def _missing(risk: object) -> list[str]:
    """The members of a risk that this object lacks."""
    members = (
        "dim",
        "n_examples",
        "n_blocks",
        "lower_bound",
        "oracle",
        "offers",
        "evaluate",
    )
    return [name for name in members if name not in dir(risk)]
