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

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal, TypeAlias

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import BundleSolution
from maxmargin.core.contract.evaluation import Evaluation, moves_along_lines
from maxmargin.core.cut import Cut
from maxmargin.core.line_search import FAR
from maxmargin.core.rounding import UpperBound
from maxmargin.core.vectors import n_bytes
from maxmargin.solvers.base import GapForecast, Problem, StallDetector
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.session import Session

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


#: the cut at a point, given the solution of the reduced problem and the model there
TakeCut: TypeAlias = Callable[[Evaluation, Evaluation | None, float], Cut]


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

    def run(
        self, session: Session, budget: float = float("inf"), *, take: TakeCut | None = None
    ) -> None:
        """The loop. It returns without a stop reason when more than ``budget`` iterations seem to be left.
        ``take``: for cuts that are made of some of the examples."""
        state, cached = session.state, self._caches(session.problem)
        take = take or (lambda at, *_: session.cut(at))
        progress = PlaneProgress()
        resumed = state.track(progress)
        at = session.evaluate(state.w)
        session.offer(at)
        model = ReducedProblem(
            session, self.open_bundle(session, take(at, None, np.nan), resumed=resumed)
        )
        if cached:  # then the incumbent is that of the cached model
            size = None if self.cache_size is None else int(self.cache_size)
            at = session.evaluate(at.w, exact=False, cache_size=size)
        best, stall = _BestPoint(self, session, cached, progress, at), StallDetector()
        forecast = GapForecast(progress.seen)
        del at  # an evaluation keeps the scores of all rows as long as someone holds it
        # judged here, so that a resumed fit gives up where this one would
        while not session.gives_up(forecast, progress.iterations, budget, at_least=JUDGED_FROM):
            progress.iterations += 1
            solution = model.solve()  # w_t, and the lower bound
            trial = session.evaluate(solution.w, exact=not cached)
            if not cached:
                session.offer(trial)
            barren = model.learned_nothing()
            step = best.search(trial)  # w_b
            if cached and self._model_is_solved(session, best.at):
                at = best.confirm()
            else:
                at = best.mix(trial, step, barren)  # w_c
            model.bundle.add([take(at, trial, solution.model)])
            del at, trial
            if session.report(len(model.bundle), solution.n_active, step, "cutting planes"):
                return
            if session.stalled(stall, state.upper - model.lower):
                return

    def open_bundle(self, session: Session, first: Cut, *, resumed: bool) -> Bundle:
        """The initial bundle: planes of another C or of a checkpoint, the first cut, and planes of duals."""
        problem, state, omega = session.problem, session.state, session.problem.regularizer
        bundle = state.memory
        if not isinstance(bundle, Bundle):
            bundle = state.memory = Bundle(
                problem.dim,
                base=problem.base * problem.n_blocks,
                regularizer=omega,
                max_planes=self._planes_that_fit(first),
                idle=self.idle,
            )
        # kept planes may come from another C, with another bound of free coordinates
        bundle.take_over(omega)
        bundle.add([first])
        if not resumed:  # what a dual method proved before, as one plane
            for duals in state.duals.values():
                duals.dual_value(duals.C)  # summed anew: nobody checks this plane again
                bundle.add([duals.aggregate()])
        return bundle

    def _model_is_solved(self, session: Session, best: Evaluation) -> bool:
        """Whether the cached model is minimized as far as it is worth without the oracle."""
        state, left = session.state, session.objective(best) - session.state.lower
        return left <= max(self.model_effort * state.gap, MODEL_TOL * session.allowed_gap)


@dataclass(slots=True)
class PlaneProgress:
    """How far the loop is: the last step, iterations, and what :class:`GapForecast` has seen."""

    guess: float = 1.0
    iterations: int = 0
    seen: list[float] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ReducedProblem:
    """The reduced problem: F with the maximum of the cuts so far for the risk."""

    session: Session
    bundle: Bundle
    #: its bound, the one before, and how many in a row hardly rose; a bound that was handed over may be ahead
    lower: float = -np.inf
    before: float = -np.inf
    in_vain: int = 0

    def solve(self) -> BundleSolution:
        """The minimizer, and the lower bound that it proves."""
        problem, state, bundle = self.session.problem, self.session.state, self.bundle
        effort = QP_EFFORT * state.gap if np.isfinite(state.gap) else 0.0
        attained = UpperBound.by(state.upper, problem.n_examples)
        precise = self.in_vain >= IN_VAIN
        solution = bundle.solve(problem.C, effort, attained, precise=precise)
        if (
            precise and solution.lower_bound < self.lower
        ):  # with more planes, the optimum is not below
            other = bundle.solve(problem.C, effort, attained)
            solution = other if other.lower_bound > solution.lower_bound else solution
        state.raise_lower(solution.lower_bound, solution.dual)
        self.before, self.lower = self.lower, max(self.lower, solution.lower_bound)
        return solution

    def learned_nothing(self) -> bool:
        """Whether the last cut did not raise the bound at all; counts how often it hardly did."""
        hardly = self.lower - self.before <= HARDLY * (self.session.state.upper - self.lower)
        self.in_vain = self.in_vain + 1 if hardly or self.in_vain >= IN_VAIN else 0
        return self.lower <= self.before


@dataclass(slots=True, eq=False)
class _BestPoint:
    """The best point seen, w_b, and its moves along lines since it was evaluated."""

    solver: CuttingPlane
    session: Session
    cached: bool
    progress: PlaneProgress
    at: Evaluation
    moves: int = 0

    def search(self, trial: Evaluation) -> float | None:
        """Move to the minimizer of F on the ray through the trial; the step, None without a line search."""
        session, progress = self.session, self.progress
        if not (self.solver.line_search and moves_along_lines(trial)):
            if self.cached or session.objective(trial) < session.objective(self.at):
                self.at = trial
            return None
        step = session.best_step(self.at, trial, session.problem.C, progress.guess)
        if step > 0.0:
            step = min(step, FAR)
            moved = session.toward(self.at, trial, step)
            if session.objective(moved) < session.objective(self.at):
                self.at, progress.guess = moved, step
                self.moves += 1
            else:  # rounding: the minimizer is where we are
                step = 0.0
            del moved
        if self.moves >= _refresh_after(session.problem.dim):
            w = self.at.w
            self.at = trial  # lets go of the scores before they are computed anew
            self.at, self.moves = session.evaluate(w, exact=not self.cached), 0
        if not self.cached:
            session.offer(self.at)
        return step

    def mix(self, trial: Evaluation, step: float | None, barren: bool) -> Evaluation:
        """Where the next cut is taken: w_c between w_b and the trial. When a cut there taught the model
        nothing, the one at the trial will."""
        mu = self.solver.mu
        mu = default_mu(step or self.progress.guess) if mu is None else mu
        if step is None or barren or mu >= 1.0:
            return trial
        return self.session.toward(self.at, trial, mu, value=False)

    def confirm(self) -> Evaluation:
        """The oracle at the incumbent of the cached model, which gets its constraints."""
        at = self.session.evaluate(self.at.w)
        self.session.offer(at)
        self.at, self.moves = self.session.evaluate(at.w, exact=False), 0
        return at


def _refresh_after(dim: int) -> int:
    """Fewer moves where w is long: until then engines whose workers can die keep the ends of the lines."""
    return int(np.clip(MEMORY // (8 * max(1, dim)) - 1, REFRESH_AFTER_FEW, REFRESH_AFTER))


def default_mu(step: float) -> float:
    """Where the next cut is taken, given the last step: the default mu."""
    return float(np.clip(np.sqrt(MU * step), *MU_BOUNDS))
