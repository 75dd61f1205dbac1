"""Exact solution of kernel problems, by blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.result import SolveResult, Start
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution
from maxmargin.kernels.extent import looks_semidefinite, n_test_values
from maxmargin.risks import KernelRisk
from maxmargin.solvers import KernelBlocks


def solve_exactly(
    estimator: Any, problem: KernelProblem, after: Sequence[SolveResult], settings: KernelBlocks
) -> KernelSolution:
    """Solve a problem of one function, with a certificate of the full problem."""
    if problem.n_classes is not None:
        raise ValueError(
            "method='exact' solves problems with two classes: use multi_class='ovo', or method='map' for "
            "joint multiclass training."
        )
    semidefinite = looks_semidefinite(problem.kernel, problem.X)
    with estimator._workers() as engine:
        risk = KernelRisk(
            problem.kernel,
            problem.X,
            np.asarray(problem.y, dtype=np.float64),
            problem.loss,
            sample_weight=problem.weight,
            fit_intercept=problem.fit_intercept,
            memory=problem.memory,
            engine=engine,
        )
        start = None
        if problem.start is not None:
            duals = risk.block_duals(problem.C)
            duals.load(problem.start[risk.here, 0])
            start = Start(np.zeros(risk.dim), duals)
        result = estimator._minimize(
            risk, settings, regularizer=risk.norm, start=start, after=after
        )
    if not semidefinite:
        result = result.claiming("measured")
    tested = (
        n_test_values(problem.kernel, len(problem.y)) if problem.kernel.positive_semidefinite else 0
    )
    beta = result.w[: risk.n_examples]
    support = np.flatnonzero(beta)
    return KernelSolution(
        result=result,
        support=risk.here[support],
        coef=beta[support, None],
        intercept=result.w[risk.n_examples :] if problem.fit_intercept else np.zeros(1),
        extras={"kernel_values_": risk.kernel_values + tested},
    )
