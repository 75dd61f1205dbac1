"""The concave-convex procedure (CCCP): latent-variable problems as a sequence of convex problems.

    F(w) = Omega(w) + C R(w),     R(w) = min over completions h of R_h(w),     every R_h convex

Repeat: complete, h = argmin R_h(w); then minimize F_h(w) = Omega(w) + C R_h(w), warm-started. Since F <= F_h
everywhere and F = F_h at the point of completion, F never increases if the result of a step is accepted only
if it is better.

How accurately must a convex step be solved? With U_0 = F(w) at its start and bounds L <= F_h* <= U,
the step can gain at most U_0 - L and has already gained U_0 - U. It ends when

    U - L  <=  SHARE (U_0 - L)        most of the possible gain has been made: complete again, or
    U_0 - L  <=  tol U_0              nothing is left to gain: w is a fixed point of the procedure, up to tol.

So steps are loose while F decreases fast, and the final step is a proof: no convex step from the completions
of w can decrease F by more than tol. This proves a *local* optimum of this procedure and says nothing about
the global one.

References:

- A. L. Yuille and A. Rangarajan, "The concave-convex procedure", Neural Computation 15 (2003), 915-936,
  https://doi.org/10.1162/08997660360581958
- C.-N. J. Yu and T. Joachims, "Learning structural SVMs with latent variables", ICML 2009.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.contract.latent import LatentRisk
from maxmargin.core.interrupts import raising_interrupts
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import IterationRecord, SolveResult, Start, StopReason, relative_gap
from maxmargin.core.stopping import Bounds, RelativeGap, StoppingRule, stops
from maxmargin.core.vectors import Array
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.latent_result import LatentResult, StepRecord
from maxmargin.solvers.minimization import solve
from maxmargin.solvers.session import Callback, Observer, OracleCallback, Solver

#: a convex step ends when this fraction of its possible gain is left
SHARE = 0.3
#: relative gap of the first step, for which there is no earlier objective
FIRST = 0.1
#: maximum number of consecutive steps that change completions without a gain
TIES = 20
#: a convex step that stopped for one of these reasons ends the procedure
ENDING = ("interrupted", "callback", "max_seconds")


@dataclass(frozen=True, slots=True)
class ConvexStepRule:
    """The stopping rule of a convex step that started at the objective ``before``.

    Examples
    --------
    >>> from maxmargin.core.stopping import Bounds
    >>> from maxmargin.solvers.cccp import ConvexStepRule
    >>> rule = ConvexStepRule(before=10.0, tol=1e-2)
    >>> rule.met(Bounds(upper=6.0, lower=5.0, C=1.0)), rule.met(Bounds(upper=9.0, lower=5.0, C=1.0))
    (True, False)
    """

    before: float
    tol: float

    def met(self, bounds: Bounds) -> bool:
        """True when most of the possible gain has been made, or nothing is left to gain."""
        room = self.before - bounds.lower
        return bounds.upper - bounds.lower <= SHARE * room or room <= self.tol * abs(self.before)

    def allowed_gap(self, upper: float, C: float) -> float:
        """The gap at which the rule is met for this upper bound."""
        gained = self.before - upper
        return max(self.tol * abs(self.before), SHARE / (1.0 - SHARE) * gained)


@dataclass(slots=True, eq=False)
class _Procedure:
    """The state between two steps. The incumbent is replaced in one assignment of finished values."""

    risk: LatentRisk
    C: float
    regularizer: SquaredNorm
    #: w, F(w), the completions there, (objective, lower bound) of the last convex problem at w
    best: tuple[Array, float, list[Any], tuple[float, float]]
    #: the same for w = 0, once it was left for a point that may be worse
    zero: tuple[Array, float, list[Any], tuple[float, float]] | None = None
    memory: Any = None
    history: list[StepRecord] = field(default_factory=list)
    passes: float = 0.0
    completions: int = 0
    iterations: int = 0
    #: number of consecutive steps that changed completions without a gain
    ties: int = 0
    started: float = field(default_factory=time.perf_counter)
    stop: StopReason | None = None

    def begin_at(self, w: Array) -> None:
        """Complete and evaluate a given point."""
        completion = self.risk.complete(w)
        self.risk, _ = self.risk.completed(completion.latent)
        value = self.regularizer.value(w) + self.C * self.risk.evaluate(w).upper
        self.passes, self.completions = self.passes + completion.passes + 1, self.completions + 1
        self.best = w, value, completion.latent, (value, -float("inf"))

    def take(self, result: SolveResult, tol: float) -> None:
        """Process the result of a convex step: keep the better point and complete it."""
        before, lower, n_changed = self.best[1], result.lower_bound, 0
        self.passes += result.oracle_calls + 1  # plus the pass of its certificate
        if result.objective < before or not np.isfinite(before):
            n_changed = self._complete(result.w, result.objective, lower)
            if not (result.w.any() or n_changed or np.isfinite(before)):
                n_changed = self._leave_zero(result)
        else:  # at the best completions, the convex objective is F itself
            self.best = (*self.best[:3], (before, lower))
        self._record(result, n_changed)
        self.memory = result.dual
        done = np.isfinite(before) and before - lower <= tol * abs(before)
        if n_changed == 0:  # the next convex problem would be the same
            done = done or self.best[1] - lower <= tol * abs(self.best[1])
        # the proof holds for the completions of this step: others may leave more to gain
        self.ties = self.ties + 1 if done and n_changed else 0
        if result.stop_reason in ENDING:
            self.stop = result.stop_reason
        elif self.ties > TIES:
            self.stop = "stalled"
        elif done and not n_changed:
            self.stop = "cccp"
        elif result.stop_reason != "gap" and not self.best[1] < before - tol * abs(before):
            # only rounding, or limits of the oracle, are left
            self.stop = result.stop_reason
        elif n_changed:
            self.risk, self.memory = self.risk.completed(self.best[2], self.memory)

    def _complete(self, w: Array, objective: float, lower: float) -> int:
        """Accept a point with its convex objective and complete it; return how many completions changed."""
        convex = objective, lower
        # already a valid upper bound: an interrupt may come during the completion
        self.best = w, objective, self.risk.latent, convex
        if not np.isfinite(objective):  # after a second Ctrl-C there is no time
            return 0
        completion = self.risk.complete(w)
        self.best = w, objective - self.C * completion.decrease, completion.latent, convex
        self.completions, self.passes = self.completions + 1, self.passes + completion.passes
        return int(completion.n_changed)

    def _leave_zero(self, result: SolveResult) -> int:
        """Leave w = 0, which is a fixed point because all completions tie there.

        Arbitrary initial completions may put the optimum of the first convex problem there. The dual
        point has a direction, and completions depend on the direction only.
        """
        memory = result.dual
        if memory is None or result.stop_reason in ENDING:
            return 0
        w = memory.solve(self.C).w if isinstance(memory, Bundle) else np.array(memory.w)
        if not w.any():
            return 0
        objective = self.regularizer.value(w) + self.C * self.risk.evaluate(w).upper
        self.passes += 1
        self.zero = self.best
        return self._complete(w, objective, result.lower_bound)

    def answer(self) -> tuple[Array, float, list[Any], tuple[float, float]]:
        """The best point found."""
        return self.zero if self.zero is not None and self.zero[1] < self.best[1] else self.best

    def _record(self, result: SolveResult, n_changed: int) -> None:
        last = result.history[-1] if result.history else None
        objective, lower = self.best[3]
        self.iterations += result.n_iter
        self.history.append(
            StepRecord(
                iteration=len(self.history) + 1,
                objective=self.best[1],
                lower_bound=-float("inf"),
                gap=float("inf"),
                n_cuts=last.n_cuts if last else 0,
                n_active=last.n_active if last else 0,
                step=None,
                oracle_calls=self.passes,
                elapsed=time.perf_counter() - self.started,
                method="cccp",
                C=self.C,
                n_changed=n_changed,
                convex_objective=objective,
                convex_lower_bound=lower,
                convex_gap=relative_gap(objective, lower),
                convex_iterations=result.n_iter,
                seconds_oracle=sum(r.seconds_oracle for r in result.history),
                seconds_plane=sum(r.seconds_plane for r in result.history),
                seconds_line_search=sum(r.seconds_line_search for r in result.history),
                seconds_qp=sum(r.seconds_qp for r in result.history),
            )
        )

    def translated(self, callback: Callback) -> Callback:
        """Wrap a callback: it gets every iteration of every step, with the bounds of the latent problem."""

        def call(record: IterationRecord) -> object:
            return callback(
                replace(
                    record,
                    iteration=self.iterations + record.iteration,
                    objective=min(record.objective, self.best[1]),
                    lower_bound=-float("inf"),
                    gap=float("inf"),
                    oracle_calls=self.passes + record.oracle_calls,
                    elapsed=time.perf_counter() - self.started,
                )
            )

        if isinstance(callback, OracleCallback):
            return _WithOracle(call, callback.on_oracle)
        return call


@dataclass(frozen=True, slots=True)
class _WithOracle:
    """A callback that also receives the progress of a pass with an expensive oracle."""

    call: Callback
    on_oracle: Callable[[int, int], object]

    def __call__(self, record: IterationRecord) -> object:
        return self.call(record)


def _in_words(result: LatentResult) -> str:
    return f"objective {result.objective:.6g} after {result.n_iter} convex steps"


@raising_interrupts(_in_words)
def minimize_latent(
    risk: LatentRisk,
    C: float,
    *,
    solver: Solver | None = None,
    regularizer: SquaredNorm | None = None,
    tol: float = 1e-2,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    observer: Observer | None = None,
    random_state: int = 0,
    w0: Array | None = None,
    warm: bool = True,
) -> LatentResult:
    """Minimize a latent objective by the concave-convex procedure.

    Parameters
    ----------
    risk : LatentRisk
        The risk with the initial completions; see :class:`maxmargin.risks.CompletedRisk`.
    C : float
        Weight of the risk.
    solver : solver object, optional
        The method of the convex steps; :class:`maxmargin.solvers.DualCoordinate` by default.
    regularizer : SquaredNorm, optional
        Half the squared norm of all coordinates by default.
    tol : float
        Stop when no convex step can decrease the objective by more than this fraction of it.
    max_iter : int, optional
        Maximum number of convex steps.
    max_seconds : float, optional
        Time limit for all of them.
    callbacks : sequence of callables
        Each receives a record of every iteration of every convex step; returning True stops the fit.
    observer : callable, optional
        Called with the record of a convex step and the weights after it; returning True stops the fit.
    random_state : int
        Seed of the order in which examples are visited.
    w0 : array, optional
        A point to complete first, used as the first incumbent. Without it the completions of ``risk`` are
        used.
    warm : bool
        Warm-start each convex step with the planes and multipliers of the last. False is for benchmarks.

    Returns
    -------
    LatentResult

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; the result is ``error.result``, as for :func:`maxmargin.minimize`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.risks import CompletedRisk
    >>> from maxmargin.solvers import minimize_latent
    >>> from maxmargin.tasks import LatentBinary
    >>> class BestRow(LatentBinary):
    ...     def n_features(self, X):
    ...         return X[0].shape[1]
    ...     def features(self, x, h):
    ...         return x[h]
    ...     def best(self, x, w):
    ...         return int(np.argmax(x @ w))
    >>> X, y = [np.array([[2.0], [0.5]]), np.array([[-1.0]])], [1, -1]
    >>> task = BestRow()
    >>> risk = CompletedRisk(task, X, y, latent=[1, None], dim=task.setup(X, y))
    >>> risk.complete(np.array([1.0])).latent
    [0, None]
    >>> result = minimize_latent(risk, C=1.0)
    >>> result.stop_reason, result.latent
    ('cccp', [0, None])
    """
    if not tol > 0.0:
        raise ValueError(f"tol={tol!r}: a tolerance must be a positive number.")
    regularizer = regularizer or SquaredNorm()
    start = (
        np.zeros(risk.dim) if w0 is None else regularizer.primal(np.asarray(w0, dtype=np.float64))
    )
    nothing = (float("inf"), -float("inf"))
    procedure = _Procedure(
        risk, float(C), regularizer, best=(start, float("inf"), risk.latent, nothing)
    )
    try:
        if w0 is not None:
            procedure.begin_at(start)
        _run(
            procedure,
            tol,
            max_iter,
            max_seconds,
            observer,
            warm,
            {
                "solver": solver or DualCoordinate(),
                "regularizer": regularizer,
                "callbacks": [procedure.translated(callback) for callback in callbacks],
                "random_state": random_state,
            },
        )
    except KeyboardInterrupt:
        procedure.stop = "interrupted"
    w, value, latent, (objective, lower) = procedure.answer()
    return LatentResult(
        w=w,
        objective=float(value) if np.isfinite(value) else float("nan"),
        latent=latent,
        convex_objective=float(objective),
        convex_lower_bound=float(lower),
        convex_gap=relative_gap(objective, lower),
        stop_reason=procedure.stop or "stalled",
        n_iter=len(procedure.history),
        history=procedure.history,
        oracle_calls=procedure.passes,
        completions=procedure.completions,
    )


#: the same, but it returns after Ctrl-C
solve_latent = minimize_latent.__wrapped__


def _run(
    procedure: _Procedure,
    tol: float,
    max_iter: int | None,
    max_seconds: float | None,
    observer: Callable[[StepRecord, Array], object] | None,
    warm: bool,
    options: dict[str, Any],
) -> None:
    while procedure.stop is None:
        before = procedure.best[1]
        rule: StoppingRule = RelativeGap(max(FIRST, tol))
        if np.isfinite(before):
            rule = ConvexStepRule(before, tol)
        left = max_seconds
        if max_seconds is not None:
            left = max(0.0, max_seconds - (time.perf_counter() - procedure.started))
        result = solve(
            procedure.risk,
            procedure.C,
            stopping=rule,
            max_seconds=left,
            start=Start(procedure.best[0], procedure.memory if warm else None),
            **options,
        )
        procedure.take(result, tol)
        record = procedure.history[-1]
        if observer is not None and stops(observer(record, procedure.best[0])):
            procedure.stop = procedure.stop or "callback"
        if max_iter is not None and len(procedure.history) >= max_iter:
            procedure.stop = procedure.stop or "max_iter"
