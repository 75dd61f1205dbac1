"""Kernel problems as linear problems: by the empirical map of all rows, or by functions of some landmarks.

What the bounds guarantee. The features of the linear problem have rounding errors; the guarantees hold for
the kernel in double precision.

Upper bound: the objective is recomputed for the returned function, from kernel values in double precision.

Lower bound of the map. Let K~ be the inner products of the features and d >= |K - K~|. For dual points
alpha, D(alpha) >= D~(alpha) - d/2 |beta|^2 with |beta_i| <= alpha_i (two classes), sqrt(2) alpha_i
(several), and at the maximum of D~ sum_i alpha_i = F~* + |w|^2 / 2 <= 2 F~*; with alpha_i <= C_i = C s_i,

    F* >= D(alpha~*) >= F~* - d max_i C_i F~*        (several classes: twice as much).

Lower bound of the restricted problem. Features phi are computed in double precision and may be stored in
single precision, phi~; e >= |phi_i - phi~_i| for all rows. With u = sum_i beta_i phi_i and the same
alpha~*, |u - u~| <= e' = e sum_i |beta_i|, so

    F* >= F~* - e' |w~*| - e'^2 / 2,      |w~*| <= |w| + sqrt(2 (upper - lower)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, relative_gap
from maxmargin.core.stopping import Bounds, RelativeGap, StoppingRule
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import DenseDesign, Design, largest_square, shard_bounds
from maxmargin.data.kernel_design import KernelDesign
from maxmargin.estimators.base import _seed, stopping_rule
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution
from maxmargin.estimators.linear.problem import free_intercepts
from maxmargin.estimators.threads import one_blas_thread
from maxmargin.kernels import EmpiricalMap, FromCallable, Nystrom, NystromMap
from maxmargin.kernels.extent import warn_of_no_kernel
from maxmargin.kernels.lowrank import whole_map
from maxmargin.losses import CrammerSinger, ScoreLoss
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto

#: features are stored in single precision if there are more than this many and the tolerance allows it
MANY, LOOSE = 2**22, 1e-4
#: the tolerance of the linear problem is then this fraction of the tolerance
FINER = 0.75
#: number of candidate rows of k-means++ per landmark
POOL = 20


@dataclass(frozen=True, slots=True, eq=False)
class LinearSolution:
    """The solution of the linear problem."""

    result: SolveResult
    #: one column per output
    W: Array
    intercept: Array

    @property
    def longest(self) -> float:
        """A bound of the norm of the optimal weights: F is strongly convex in them."""
        left = max(0.0, self.result.objective - self.result.lower_bound)
        return float(np.linalg.norm(self.W)) + float(np.sqrt(2.0 * left))


def solve_linear(
    estimator: Any,
    problem: KernelProblem,
    after: Sequence[SolveResult],
    design: Design,
    largest: float,
    engine: Any,
    stopping: StoppingRule | None = None,
) -> LinearSolution:
    """Minimize over functions of these features, whose rows have norms of at most ``largest``."""
    risk, d = risk_on(problem, design, engine), design.shape[1]
    norm = _norm(problem, d, largest, risk.rows.loss)
    result = estimator._minimize(risk, Auto(), regularizer=norm, after=after, stopping=stopping)
    W = result.w.reshape(-1, problem.n_classes or 1)
    bias = W[d] if problem.fit_intercept else np.zeros(W.shape[1])
    return LinearSolution(result, np.ascontiguousarray(W[:d]), np.array(bias))


def risk_on(problem: KernelProblem, design: Design, engine: Any) -> ScoreRisk:
    """The loss of the problem on these features."""
    loss: ScoreLoss = problem.loss
    y: Any = np.asarray(problem.y, dtype=np.float64)
    if problem.n_classes is not None:
        loss = CrammerSinger(1.0 - np.eye(problem.n_classes))
        y = np.asarray(problem.y, dtype=np.int64)
    intercept = 1.0 if problem.fit_intercept else 0.0
    return ScoreRisk(
        design, y, loss, sample_weight=problem.weight, intercept=intercept, engine=engine
    )


def _norm(problem: KernelProblem, d: int, largest: float, loss: ScoreLoss) -> SquaredNorm:
    if not problem.fit_intercept:
        return SquaredNorm()
    if problem.n_classes is None and problem.terms.two_sided:
        # |w*|^2 / 2 <= F*, which is at most that of a constant; see regression.py for the intercept
        near = float(np.abs(problem.terms.target).max())
        return SquaredNorm().with_free(np.array([d]), near, largest, float(problem.constant[1]))
    _, codes = np.unique(problem.y, return_inverse=True)
    by_class = np.bincount(codes, weights=problem.weight)
    if (by_class == 0.0).any() or len(by_class) < (problem.n_classes or 2):
        raise ValueError(
            "a class has no weight, so an unpenalized intercept would be infinite. Remove the class or use "
            "fit_intercept=False."
        )
    return free_intercepts(problem.C * float(by_class.sum()), d, largest, loss)


def _claimed(
    estimator: Any,
    problem: KernelProblem,
    linear: LinearSolution,
    objective: float,
    allowance: float,
) -> SolveResult:
    """The result with bounds of the kernel problem instead of those of the linear problem."""
    result = linear.result
    lower = max(0.0, min(objective, result.lower_bound - allowance))
    slack = 1e-12 * abs(objective)
    met = stopping_rule(estimator.tol).met(Bounds(objective - slack, lower, problem.C))
    reason = result.stop_reason
    if reason == "gap" and not met:
        reason = "rounding"  # of the features
    return replace(
        result,
        objective=objective,
        lower_bound=lower,
        gap=relative_gap(objective, lower),
        converged=bool(result.converged and met),
        stop_reason=reason,
    )


def fit_map(
    estimator: Any, problem: KernelProblem, after: Sequence[SolveResult], settings: EmpiricalMap
) -> KernelSolution:
    """Fit with features of all rows."""
    n = problem.X.shape[0]
    if n > settings.max_rows:
        raise ValueError(
            f"method='map' requires the kernel matrix of {n} rows, more rows than max_rows="
            f"{settings.max_rows}. Use method='exact', or EmpiricalMap(max_rows=...)."
        )
    with one_blas_thread, estimator._workers() as engine:
        made = whole_map(problem.kernel, problem.X, problem.center())
        design = DenseDesign(made.features)
        largest = float(np.sqrt(largest_square(design)))
        linear = solve_linear(estimator, problem, after, design, largest, engine)
        coef = made.factor @ linear.W
        audit = risk_on(problem, DenseDesign(made.K), engine).evaluate(_flat(problem, coef, linear))
    norm = 0.5 * float(np.vdot(coef, made.K @ coef))
    rounding = problem.packed().rounding()
    F = norm + problem.C * audit.upper
    objective = problem.upper(F, rounding, coef, linear.intercept)
    largest = problem.C * float(problem.weight.max(initial=0.0))
    several = 1.0 if problem.n_classes is None else 2.0
    error = made.error + n * rounding.value
    allowance = several * error * largest * linear.result.objective
    result = _claimed(estimator, problem, linear, objective, allowance)
    if not (problem.kernel.positive_semidefinite and made.semidefinite):
        result = result.claiming("measured")
    claimed = isinstance(problem.kernel, FromCallable) and problem.kernel.positive_semidefinite
    if claimed and not made.semidefinite:
        warn_of_no_kernel()
    return KernelSolution(result, np.arange(n), coef, linear.intercept)


def fit_nystrom(
    estimator: Any, problem: KernelProblem, after: Sequence[SolveResult], settings: Nystrom
) -> KernelSolution:
    """Fit with functions of some landmarks."""
    seed = _seed(estimator.random_state)
    chosen = choose_landmarks(settings, problem.X, problem.memory, seed, problem.draw, problem.rows)
    # one BLAS thread everywhere, so that results do not depend on the number of workers
    with one_blas_thread, estimator._workers() as engine:
        rows = problem.packed()
        features = NystromMap(problem.kernel, problem.X[chosen], rows.center, rows.far)
        implicit = KernelDesign(features, problem.X)
        largest = float(np.sqrt(implicit.largest_square)) * (1.0 + 1e-6)
        design, error = _features(estimator, problem, implicit, engine)
        # a smaller tolerance makes up for the rounding errors of single precision
        finer = RelativeGap(FINER * estimator.tol) if error else None
        linear = solve_linear(estimator, problem, after, design, largest, engine, finer)
        coef = features.coefficients(linear.W)
        norm = 0.5 * float(np.vdot(coef, features.gram @ coef))
        audit = risk_on(problem, implicit, engine).evaluate(linear.result.w)
        rounding = rows.rounding()
        F = norm + problem.C * audit.upper
        objective = problem.upper(F, rounding, coef, linear.intercept)
    several = 1.0 if problem.n_classes is None else float(np.sqrt(2.0))
    # rounding errors of kernel values are multiplied by the factor, whose own errors are similar
    wrong = rounding.value * np.sqrt(len(coef)) * float(np.linalg.norm(features.factor))
    # the sum of the optimal dual variables is F + |w|^2 / 2; in a regression, at most that of their bounds
    total = linear.result.objective + 0.5 * linear.longest**2
    if problem.n_classes is None and problem.terms.two_sided:
        total = problem.C * float(problem.weight.sum())
    moved = several * (error * largest + wrong) * total
    allowance = moved * linear.longest + 0.5 * moved**2 + rounding.of_norm(coef)
    inside = _claimed(estimator, problem, linear, objective, allowance)
    kind: Any = "restricted" if problem.kernel.positive_semidefinite else "measured"
    order = np.argsort(chosen[features.kept])
    # features in memory are computed once, others for every product, at most twice per point
    passes = 1 if design is not implicit else 2 * int(np.ceil(linear.result.oracle_calls))
    extras = {
        "n_landmarks_": features.n_features,
        "kernel_values_": len(chosen) ** 2 + (passes + 1) * implicit.nnz,
        "restricted_lower_bound_": inside.lower_bound,
        "restricted_gap_": inside.gap,
    }
    support = chosen[features.kept][order]
    return KernelSolution(inside.claiming(kind), support, coef[order], linear.intercept, extras)


def check_landmarks(settings: Any, weight: Array) -> None:
    """Raise ValueError for landmarks that are not training rows, or have no weight."""
    if not isinstance(settings, Nystrom) or isinstance(settings.landmarks, str):
        return
    chosen = settings.numbers(len(weight))
    idle = chosen[weight[chosen] == 0.0]
    if len(idle):
        raise ValueError(
            f"landmarks: row {idle[0]} has no weight, so it is not in the training data: leave it out "
            f"({len(idle)} of {len(chosen)} landmarks are such rows)."
        )


def choose_landmarks(
    settings: Nystrom,
    X: Any,
    memory: int,
    seed: int,
    draw: Array | None = None,
    rows: IntArray | None = None,
) -> IntArray:
    """Indices of landmarks in X, ascending. ``rows``: the training rows that X contains, if not all."""
    n = X.shape[0]
    rng = np.random.default_rng(seed)
    if not isinstance(settings.landmarks, str):
        if rows is None:
            return settings.numbers(n)
        own = np.flatnonzero(np.isin(rows, np.asarray(settings.landmarks)))
        if not len(own):
            raise ValueError(
                "landmarks: a pair of classes has none. Choose rows of at least one class of each pair."
            )
        return own
    k = settings.count(n, memory)
    if settings.landmarks == "random" and draw is not None:
        return np.sort(np.argsort(draw, kind="stable")[:k])
    if settings.landmarks == "random":
        return np.sort(rng.choice(n, size=k, replace=False))
    if settings.landmarks == "kmeans++":
        from sklearn.cluster import kmeans_plusplus  # takes as long to import as all of maxmargin

        pool = np.sort(rng.choice(n, size=min(n, POOL * k), replace=False))
        _, which = kmeans_plusplus(X[pool], k, random_state=int(rng.integers(2**31)))
        return np.unique(pool[which])
    raise ValueError(
        f"landmarks={settings.landmarks!r}: use 'random', 'kmeans++' or indices of training rows."
    )


def _features(
    estimator: Any, problem: KernelProblem, implicit: KernelDesign, engine: Any
) -> tuple[Design, float]:
    """The features in memory if they fit, and the relative error of their precision."""
    n, k = implicit.shape
    scored = problem.n_classes is None and problem.terms.two_sided
    single = (
        not scored
        and n * k > MANY
        and isinstance(estimator.tol, Real)
        and float(estimator.tol) >= LOOSE
    )
    dtype = np.dtype(np.float32 if single else np.float64)
    if n * k * dtype.itemsize > problem.memory:
        return implicit, 0.0
    Z = np.empty((n, k), dtype=dtype)
    bounds = shard_bounds(n, implicit.nnz, k)
    engine.open(partial(_Filler, implicit, Z), list(pairwise(bounds)))
    engine.gather(_Filler.fill)
    return DenseDesign(Z), float(np.finfo(np.float32).eps) if single else 0.0


class _Filler:
    """Computes the features of the rows ``lo .. hi-1`` in place. (For engines in this process.)"""

    def __init__(self, implicit: KernelDesign, Z: Any, rows: tuple[int, int]) -> None:
        self._implicit, self._Z, self._rows = implicit, Z, rows

    def fill(self) -> int:
        lo, hi = self._rows
        self._implicit.fill(lo, hi, self._Z[lo:hi])
        return hi - lo


def _flat(problem: KernelProblem, coef: Array, linear: LinearSolution) -> Array:
    """Coefficients and intercepts in the layout of a risk."""
    return np.concatenate(
        [coef, linear.intercept[None]] if problem.fit_intercept else [coef]
    ).ravel()
