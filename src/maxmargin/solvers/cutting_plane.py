"""Cutting planes: plain (CPA) and optimized (OCA), with one slack, in one loop.

    minimize  F(w) = Omega(w) + C R(w)

Algorithms 3 and 4 of Joachims, Finley and Yu (1-slack) and the optimized cutting planes of Franc
and Sonnenburg (OCAS, OCAM) differ in two places only. Per iteration:

    w_t   solves the reduced problem over the cuts so far; its dual value is the lower bound
    w_b   CPA: the best point seen.   OCA: the minimizer of F on the ray from w_b through w_t (exact)
    w_c   CPA: w_t.                   OCA: (1 - mu) w_b + mu w_t;   the next cut is taken at w_c

If scores are linear in w, the values along the line and at w_c need no pass over the data. An iteration then
costs one product with X and one transposed product over the margin violators.

If the risk offers ``caching``, the loop can run on the *cached model*: the risk over the constraints found so
far, which is a lower bound on R with linear scores. The real oracle is called only when the model is solved
to ``model_effort`` of the gap, at the model's incumbent. Its answer gives the next cut, new constraints and a
true upper bound. It takes more iterations, so it pays where the oracle is expensive, or for the line search.

References:

- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 3, algorithms 3 and 4 for the problems OP4 and OP5.
- V. Franc and S. Sonnenburg, "Optimized cutting plane algorithm for large-scale risk minimization", Journal
  of Machine Learning Research 10 (2009), 2157-2192: section 3, algorithm 2.
- T. Joachims, "Training linear SVMs in linear time", KDD 2006: one slack, for linear
  classifiers, https://doi.org/10.1145/1150402.1150429
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.contract.evaluation import Evaluation, LineEvaluation, moves_along_lines
from maxmargin.core.contract.requests import (
    Evaluate,
    Report,
    Request,
    Steps,
    TakeCut,
    Toward,
)
from maxmargin.core.cut import Cut
from maxmargin.core.line_search import FAR, minimize_on_line
from maxmargin.core.rounding import Attained
from maxmargin.core.vectors import n_bytes
from maxmargin.solvers.base import Outlook, Problem, SolverState, StallDetector
from maxmargin.solvers.requirements import Needs

#: memory for planes, or for the ends of lines, in bytes
MEMORY = 2**31
#: moves along lines after which the incumbent's scores are computed anew (they drift by rounding)
REFRESH_AFTER, REFRESH_AFTER_FEW = 25, 4
#: minimum number of planes kept
FEW_PLANES = 8
#: the default mu: the geometric mean of this and the last step, within these bounds
MU, MU_BOUNDS = 0.1, (0.01, 0.3)
#: how much tighter than the current gap the reduced problem is solved
QP_EFFORT = 0.01
#: after this many iterations in a row that raise the bound by at most this share of the gap, the reduced
#: problem is solved more precisely
IN_VAIN, HARDLY = 5, 1e-4
#: the oracle is called at the latest when the cached model is solved to this fraction of the tolerance
MODEL_TOL = 0.3
#: number of examples from which the line search on cached constraints saves time although the oracle is cheap
CACHED_LINES = 500
#: iterations before a budget takes effect
JUDGED_FROM = 30


@dataclass(frozen=True, slots=True)
class CuttingPlane:
    """Cutting-plane solver for any risk.

    Parameters
    ----------
    mu : float, optional
        Where the next cut is taken, between the best point (0) and the solution of the reduced problem (1).
        By default the geometric mean of 0.1 and the last step of the line search: if steps are short, a cut
        far away says little about the neighborhood of the best point.
    line_search : bool, default True
        Exact line search (OCA); False is the plain cutting-plane algorithm.
    max_planes : int, optional
        Maximum number of planes. Surplus planes are merged into an aggregate, so the lower bound
        never decreases. The default keeps what fits into 2 GB (all planes for most problems), and at least 8.
    idle : int, default 50
        Planes inactive in this many consecutive reduced problems are dropped.
    space : {"features", "rows"}, default "features"
        Where planes are stored. ``"features"``: by the caller, one number per feature. ``"rows"``: by the
        shards, two numbers per row, and the caller sees only their inner products. Use it for four or more
        features per row, and on a cluster whose driver cannot hold many vectors of the length of w. An
        iteration costs the same two products, and the certificate is the same. It requires a penalized
        intercept or none, and starts at zero or from a result of its own.
    use_cache : bool, optional
        Run on cached constraints between calls of the oracle, if the risk keeps them. By default where that
        saves time: if the oracle takes longer than the values of the cached constraints, as it does for all
        tasks except compiled ones (chains, listed candidates); there for the line search, which needs the
        cache, from 500 examples on.
    cache_size : int, optional
        Number of constraints that are cached per example (f in the paper of Joachims, Finley and Yu). The
        least recently used are dropped. By default what the risk does: 10 for structured outputs. A smaller
        cache uses less memory and calls the oracle more often; 1 requires ``line_search=False``.
    model_effort : float, default 0.3
        The oracle is called when the cached model is solved to this fraction of the gap.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.solvers import CuttingPlane
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> LinearSVC(solver=CuttingPlane(mu=0.01)).fit(X, y).converged_
    True
    """

    mu: float | None = None
    line_search: bool = True
    max_planes: int | None = None
    idle: int = 50
    space: Literal["features", "rows"] = "features"
    use_cache: bool | None = None
    cache_size: int | None = None
    model_effort: float = 0.3

    def __post_init__(self) -> None:
        if self.mu is not None and not 0.0 < self.mu <= 1.0:
            raise ValueError(f"mu={self.mu!r}: it must be in (0, 1].")
        if self.space not in ("features", "rows"):
            raise ValueError(f"space={self.space!r}: use 'features' or 'rows'.")
        size = self.cache_size
        if size is not None and (not isinstance(size, Integral) or size < 1):
            raise ValueError(
                f"cache_size={size!r}: it must be a whole number, 1 or more. For no cache, pass "
                "use_cache=False."
            )
        if size == 1 and self.line_search:
            raise ValueError(
                "cache_size=1 requires line_search=False: over one constraint per example, the minimum of F "
                "is far from the true one. Or pass cache_size=2 or more."
            )

    @property
    def needs(self) -> Needs:
        """Evaluations; for ``space="rows"`` also shards that store planes."""
        return Needs(wide=self.space == "rows")

    def _caches(self, problem: Problem) -> bool:
        """Whether to run on the cached model."""
        if self.use_cache is not None or not problem.has_cache:
            return problem.has_cache and bool(self.use_cache)
        for_lines = self.line_search and problem.n_examples >= CACHED_LINES
        return for_lines or self.cache_size is not None or problem.cache_saves

    def _planes_that_fit(self, first: Cut) -> int:
        """Planes that fit into memory, estimated from the first one."""
        if self.max_planes is not None:
            return self.max_planes
        return max(FEW_PLANES, MEMORY // max(1, n_bytes(first.plane)))

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop."""
        return self.within(problem, state, float("inf"))

    def within(self, problem: Problem, state: SolverState, budget: float) -> Steps:
        """The loop. It returns without a stop reason when more than ``budget`` iterations seem to be left."""
        C, omega = problem.C, problem.regularizer
        cached = self._caches(problem)
        place = state.take_position("guess", "iterations", "seen")
        real: Evaluation = yield Evaluate(state.w)
        state.offer(real.w, omega.value(real.w) + C * real.upper)
        first: Cut = yield TakeCut(real)
        bundle = self.open_bundle(problem, state, first, resumed=place is not None)
        best: Evaluation = real
        if cached:  # then the incumbent is that of the cached model
            size = None if self.cache_size is None else int(self.cache_size)
            best = yield Evaluate(real.w, exact=False, cache_size=size)
        del real  # an evaluation keeps the scores of all rows as long as someone holds it
        incumbent, stall, outlook, iterations = _BestPoint(best), StallDetector(), Outlook(), 0
        del best
        if place is not None:
            incumbent.guess, iterations = place["guess"], place["iterations"]
            outlook = Outlook(place["seen"])
        state.place = lambda: {
            "guess": incumbent.guess,
            "iterations": iterations,
            "seen": outlook.seen(),
        }
        in_vain = 0  # iterations in a row that hardly raised the bound
        own = -np.inf  # the bundle's bound: one that was handed over may be ahead of it for long
        while True:
            if np.isfinite(
                budget
            ):  # judged here, so that a resumed fit gives up where this one would
                allowed = problem.stopping.allowed_gap(state.upper, C)
                left = outlook.remaining(iterations, state.gap, allowed)
                if iterations >= JUDGED_FROM and left > budget:
                    state.gave_up = True
                    return
            iterations += 1
            previous_lower = own
            effort = QP_EFFORT * state.gap if np.isfinite(state.gap) else 0.0
            attained = Attained.by(state.upper, problem.n_examples)
            exactly = in_vain >= IN_VAIN
            solution = bundle.solve(C, effort, attained, precise=exactly)
            if exactly and solution.lower_bound < own:  # with more planes, the optimum is not below
                other = bundle.solve(C, effort, attained)
                solution = other if other.lower_bound > solution.lower_bound else solution
            state.raise_lower(solution.lower_bound, solution.dual)
            own = max(own, solution.lower_bound)
            trial: Evaluation = yield Evaluate(solution.w, exact=not cached)
            if not cached:
                F = _objective(problem, trial)
                state.offer(trial.w, omega.value(trial.w) + C * trial.upper, F)
            hardly = own - previous_lower <= HARDLY * (state.upper - own)
            in_vain = in_vain + 1 if hardly or exactly else 0
            # when a cut between w_b and w_t taught the model nothing, the one at w_t will
            barren = own <= previous_lower
            at, step = yield from self._next_point(problem, state, incumbent, trial, barren)
            if cached and _objective(problem, incumbent.best) - state.lower <= max(
                self.model_effort * state.gap,
                MODEL_TOL * problem.stopping.allowed_gap(state.upper, C),
            ):
                at = yield Evaluate(incumbent.best.w)
                state.offer(at.w, omega.value(at.w) + C * at.upper, _objective(problem, at))
                incumbent.best, incumbent.moves = (yield Evaluate(at.w, exact=False)), 0
            cut: Cut = yield TakeCut(at, trial, solution.model)
            del at, trial
            bundle.add([cut])
            asked = yield Report(len(bundle), solution.n_active, step, "cutting planes")
            if state.met(problem):
                state.stop = "gap"
                return
            if asked is not None:
                state.stop = asked
                return
            allowed = problem.stopping.allowed_gap(state.upper, problem.C)
            if stall.stalled(state.upper - own, state.upper, allowed) or state.left_open(allowed):
                state.stop = "stalled"
                return

    def open_bundle(
        self, problem: Problem, state: SolverState, cut: Cut, *, resumed: bool
    ) -> Bundle:
        """The initial bundle: planes of another C or of a checkpoint, the first cut, and planes of duals."""
        omega = problem.regularizer
        bundle = state.memory
        if not isinstance(bundle, Bundle):
            bundle = state.memory = Bundle(
                problem.dim,
                base=problem.base * problem.n_blocks,
                regularizer=omega,
                max_planes=self._planes_that_fit(cut),
                idle=self.idle,
            )
        # kept planes may come from another C, with another bound of free coordinates
        bundle.take_over(omega)
        bundle.add([cut])
        if not resumed:  # what a dual method proved before, as one plane
            for duals in state.duals.values():
                duals.dual_value(duals.C)  # summed anew: nobody checks this plane again
                bundle.add([duals.aggregate()])
        return bundle

    def _next_point(
        self,
        problem: Problem,
        state: SolverState,
        incumbent: _BestPoint,
        trial: Evaluation,
        barren: bool,
    ) -> Generator[Request, Any, tuple[Evaluation, float | None]]:
        """Move the incumbent toward the trial; where the next cut is taken, and the step."""
        cached = self._caches(problem)
        if not (self.line_search and moves_along_lines(trial)):
            if cached or _objective(problem, trial) < _objective(problem, incumbent.best):
                incumbent.best = trial
            return trial, None
        step = yield from search(problem, incumbent.best, trial, incumbent.guess)
        if step > 0.0:
            step = min(step, FAR)
            moved: LineEvaluation = yield Toward(_line(incumbent.best), trial, step)
            if _objective(problem, moved) < _objective(problem, incumbent.best):
                incumbent.best, incumbent.guess = moved, step
                incumbent.moves += 1
            else:  # rounding: the minimizer is where we are
                step = 0.0
            del moved
        if incumbent.moves >= _refresh_after(problem.dim):
            w = incumbent.best.w
            incumbent.best = trial  # lets go of the scores before they are computed anew
            incumbent.best, incumbent.moves = (yield Evaluate(w, exact=not cached)), 0
        best = _line(incumbent.best)
        if not cached:
            state.offer(best.w, problem.regularizer.value(best.w) + problem.C * best.upper)
        mu = default_mu(step or incumbent.guess) if self.mu is None else self.mu
        if barren or mu >= 1.0:
            return trial, step
        at: LineEvaluation = yield Toward(best, trial, mu, value=False)
        return at, step


@dataclass(slots=True)
class _BestPoint:
    """The best point seen, its moves along lines since it was evaluated, and the last step."""

    best: Evaluation
    moves: int = 0
    guess: float = 1.0


def _objective(problem: Problem, at: Evaluation) -> float:
    return problem.regularizer.value(at.w) + problem.C * at.value


def search(
    problem: Problem, best: Evaluation, trial: Evaluation, guess: float
) -> Generator[Request, Any, float]:
    """The step from the best point toward the trial at which F is smallest."""
    omega = problem.regularizer
    direction = trial.w - best.w
    # both ends are allowed, and so is all between them; beyond the trial a sign may change
    limit = omega.step_limit(best.w, direction)
    step: float = yield from minimize_on_line(
        _line(best),
        _line(trial),
        omega.inner(direction, direction),
        omega.inner(best.w, direction),
        problem.C,
        guess,
        expensive=problem.shape.expensive_slopes,
    )
    return min(step, limit)


def _refresh_after(dim: int) -> int:
    """Fewer moves where w is long: until then engines whose workers can die keep the ends of the lines."""
    return int(np.clip(MEMORY // (8 * max(1, dim)) - 1, REFRESH_AFTER_FEW, REFRESH_AFTER))


def default_mu(step: float) -> float:
    """Where the next cut is taken, given the last step: the default mu."""
    return float(np.clip(np.sqrt(MU * step), *MU_BOUNDS))


def _line(evaluation: Evaluation) -> LineEvaluation:
    if not moves_along_lines(evaluation):  # the other end of the line was one
        raise TypeError(
            f"the risk answers with a {type(evaluation).__name__} here and with evaluations that move along "
            "lines elsewhere: it must do one or the other."
        )
    return evaluation
