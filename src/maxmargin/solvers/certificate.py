"""The end of every fit: bounds recomputed from the best point and a feasible dual point alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.core.contract.finite import require_numbers
from maxmargin.core.contract.risk import Risk
from maxmargin.core.contract.row_duals import AT_SHARDS
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import CERTIFICATE_OF, SolveResult, relative_gap
from maxmargin.core.rounding import UpperBound, level
from maxmargin.core.stopping import Bounds, StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.session import Session

#: relative differences of a lower bound above the objective that are due to rounding
EQUAL, ROUNDED = 1e-9, 1e-7
#: relative difference between an objective summed anew and that of the loop
SUMMED_ANEW = 1e-12


def certify(
    risk: Risk, regularizer: SquaredNorm, C: float, w: Array, dual: FeasibleDual | None
) -> tuple[float, float]:
    """(upper, lower) bounds of the optimum, computed from a point and a feasible dual point alone.

    Independent of the solvers' loops: the risk is evaluated and the dual value summed again.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core import SquaredNorm
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> from maxmargin.solvers import certify
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> certify(risk, SquaredNorm(), C=1.0, w=np.array([1.0]), dual=None)
    (0.5, 0.0)
    """
    upper = _attained(risk, regularizer, C, w)
    require_numbers(objective=upper)
    if risk.oracle == "sampled":  # sampled planes do not prove a bound
        return upper, -float("inf")
    lower = C * risk.lower_bound * risk.n_blocks
    if dual is not None:
        at, flat = UpperBound(upper), 0.0
        if risk.offers.proved is not None:
            at, flat = UpperBound.by(upper, risk.n_examples), level(risk.n_examples) * abs(upper)
        proved = dual.value(regularizer, risk.dim, at) - flat
        require_numbers(dual_value=proved)
        lower = max(lower, proved)
    if lower > upper and risk.oracle == "undergenerating":
        upper = lower  # the oracle missed something: F(w) >= F* >= lower holds all the same
    if lower > upper:
        # If by rounding, they are equal. If by more of it (at a large C), the difference shows how large the
        # errors are, and both bounds pay for it. If by much more, the risk is not convex or an oracle is
        # wrong, and there is no lower bound.
        excess = lower - upper
        if excess <= EQUAL * abs(upper) + 1e-300:
            lower = upper
        elif excess <= ROUNDED * abs(upper):
            lower, upper = upper, lower + excess
        else:
            lower = -float("inf")
    return upper, lower


def _attained(risk: Risk, regularizer: SquaredNorm, C: float, w: Array) -> float:
    """F(w), or slightly more if its rounding error may be too large."""
    omega, value, proved = regularizer.value(w), _value(risk, w), risk.offers.proved
    if proved is not None:
        value = proved.raised(w, value, omega / C)
    return omega + C * value


def _value(risk: Risk, w: Array) -> float:
    """R(w), or an upper bound of it."""
    proved = risk.offers.proved
    return float(risk.evaluate(w).upper) if proved is None else proved.value(w)


def _met(stopping: StoppingRule, upper: float, lower: float, C: float) -> bool:
    """Whether the rule that ended the loop holds for bounds computed anew, up to rounding."""
    return stopping.met(Bounds(upper - SUMMED_ANEW * abs(upper), lower, C))


def at_point(
    result: SolveResult,
    risk: Risk,
    regularizer: SquaredNorm | None,
    C: float,
    stopping: StoppingRule,
    w: Array,
) -> SolveResult:
    """The result with another point, which is evaluated; the lower bound stays. An unknown objective (after a
    second Ctrl-C) stays unknown."""
    if np.isnan(result.objective):
        return replace(result, w=w)
    upper, lower = _attained(risk, regularizer or SquaredNorm(), C, w), result.lower_bound
    require_numbers(objective=upper)
    met = _met(stopping, upper, lower, C)
    return replace(
        result,
        w=w,
        objective=upper,
        lower_bound=min(lower, upper),
        gap=relative_gap(upper, lower),
        converged=result.converged and met,
        stop_reason="rounding" if result.stop_reason == "gap" and not met else result.stop_reason,
    )


def finish(risk: Risk, problem: Problem, session: Session) -> SolveResult:
    state = session.state
    try:
        upper, lower = _confirmed(risk, problem, session)
    except KeyboardInterrupt:
        try:
            if state.stop == "interrupted":  # the second Ctrl-C: no time for a confirming pass
                raise
            # the fit was over, but the caller (a path, a grid search) must be notified of the first one
            state.stop = "interrupted"
            upper, lower = _confirmed(risk, problem, session)
        except KeyboardInterrupt:
            upper, lower = float("nan"), state.lower
            if risk.oracle == "sampled":
                lower = -float("inf")
    kind = CERTIFICATE_OF[risk.oracle]
    gap = float("inf") if kind == "lower_only" else relative_gap(upper, lower)
    proved = _met(problem.stopping, upper, lower, problem.C)
    if state.stop in ("gap", "stalled") and not proved:
        rounding = _rounding_prevents(risk, problem, state, upper, lower)
        state.stop = "rounding" if rounding else "stalled"
    elif state.stop == "stalled" and proved:
        state.stop = "gap"  # the loop missed the rule only because of rounding
    if state.w.base is None:
        # read-only while solvers and shards shared it; now it belongs to the caller
        state.w.setflags(write=True)
    return SolveResult(
        w=state.w,
        objective=float(upper),
        lower_bound=float(lower),
        gap=gap,
        converged=bool(proved and np.isfinite(upper) and kind in ("exact", "relaxed")),
        stop_reason=state.stop or "stalled",
        certificate=kind,
        n_iter=len(session.history),
        history=session.history,
        oracle_calls=session.passes,
        dual=state.memory,
        duals={name: own for name, own in state.duals.items() if name != AT_SHARDS},
        proof=state.dual,
    )


def _confirmed(risk: Risk, problem: Problem, session: Session) -> tuple[float, float]:
    """Certify the best point, after evaluating a candidate that the solver had not evaluated yet."""
    state = session.state
    if state.candidate is not None and state.stop != "gap":
        candidate = state.candidate()
        at = problem.regularizer.value(candidate) + problem.C * _value(risk, candidate)
        session.passes += 1
        state.offer(candidate, at)
    return certify(risk, problem.regularizer, problem.C, state.w, state.dual)


def _rounding_prevents(
    risk: Risk, problem: Problem, state: SolverState, upper: float, lower: float
) -> bool:
    """Whether bounds miss the stopping rule because of what rounding may have changed: without that they
    meet it, or that alone is more than the rule allows."""
    omega, C = problem.regularizer, problem.C
    if risk.offers.proved is None or state.dual is None or not np.isfinite(upper - lower):
        return False
    plain = omega.value(state.w) + C * _value(risk, state.w)
    trusted = state.dual.value(omega, risk.dim, UpperBound(upper, np.inf))
    lost = max(0.0, upper - plain) + max(0.0, trusted - lower)
    met = _met(problem.stopping, plain, trusted, C)
    return met or lost > problem.stopping.allowed_gap(upper, C)
