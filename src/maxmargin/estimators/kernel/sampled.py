"""Kernel problems by sampled cuts: :class:`maxmargin.solvers.SampledCuts`.

Planes are computed in single precision unless the tolerance requires more. At the end, the objective of
the returned function is measured by one pass over all rows in double precision, which takes n times the
number of support vectors kernel values. There is no lower bound; the value of the reduced problem over
sampled cuts is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.core.engine import Engine
from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution
from maxmargin.kernels import KernelRows
from maxmargin.kernels.extent import precision
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.losses.base import ScoreLoss
from maxmargin.risks.kernels.pool import GrowingKernelRisk
from maxmargin.risks.kernels.sampled import SampledKernelRisk
from maxmargin.risks.kernels.shard import AuditShard, KernelPart
from maxmargin.solvers.sampled import SampledCuts

#: below this tolerance single precision is too coarse; below this number of rows double precision is as fast
SINGLE_FROM, FEW_ROWS = 1e-4, 4096
#: number of rows that are measured at a time
PIECE = 2048


def fit_sampled(
    estimator: Any,
    problem: KernelProblem,
    after: Sequence[SolveResult],
    settings: SampledCuts,
) -> KernelSolution:
    """Solve one problem; see :data:`maxmargin.estimators.kernel.problem.Method`."""
    n = problem.X.shape[0]
    center = problem.center()
    tol = getattr(estimator.tol, "tol", estimator.tol)
    single = precision(problem.kernel, problem.X) == np.float32
    double = n <= FEW_ROWS or tol < SINGLE_FROM or not single
    rows = KernelRows(problem.kernel, problem.X, np.float64 if double else np.float32, center)
    loss: ScoreLoss = Hinge()
    if problem.n_classes is not None:
        loss = CrammerSinger(1.0 - np.eye(problem.n_classes))
    with estimator._workers() as engine:
        kind = GrowingKernelRisk if settings.constant_time else SampledKernelRisk
        risk = kind(
            rows,
            problem.y,
            loss,
            problem.C,
            weight=problem.weight,
            fit_intercept=problem.fit_intercept,
            memory=problem.memory,
            engine=engine,
        )
        result = estimator._minimize(risk, settings, regularizer=risk.regularizer, after=after)
        support, coef, intercept = risk.expansion(result.w)
        objective = result.objective
        values = risk.kernel_values
        if settings.measure:
            objective = _measured(problem, loss, center, support, coef, intercept, engine)
            values += n * len(support)
        elif settings.constant_time:
            objective = float("nan")
    extras = {"reduced_value_": result.dual.reduced, "kernel_values_": values}
    result = replace(result, objective=objective, dual=None).claiming("measured")
    return KernelSolution(result, support, coef, intercept, extras)


def _measured(
    problem: KernelProblem,
    loss: ScoreLoss,
    center: Array | None,
    support: IntArray,
    coef: Array,
    intercept: Array,
    engine: Engine,
) -> float:
    """The objective of a function, in double precision: |f|^2 is the sum of coef_j f(z_j)."""
    rows = KernelRows(problem.kernel, problem.X, np.float64, center)
    n = len(rows)
    parts = [
        KernelPart(
            rows.take(slice(lo, lo + PIECE)),
            coef.shape[1],
            0,
            0,
            problem.y[lo : lo + PIECE],
            problem.weight[lo : lo + PIECE],
            loss,
        )
        for lo in range(0, n, PIECE)
    ]
    engine.open(AuditShard, parts)
    answers = engine.gather(AuditShard.measure, rows.take(support), coef, intercept)
    scores = np.concatenate([own for _, own in answers])
    square = float(np.vdot(coef, scores[support]))
    value = 0.5 * square + problem.C * float(sum(value for value, _ in answers))
    return problem.upper(value, rows.rounding(), coef, intercept)
