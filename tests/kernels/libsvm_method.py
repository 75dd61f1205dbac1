"""A method that asks scikit-learn's SVC: what is tested with it is what KernelSVC does around a method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.svm import SVC

from maxmargin.core.result import SolveResult
from maxmargin.estimators.kernel.methods import METHODS, KernelMethod
from maxmargin.estimators.kernel.problem import KernelSolution
from maxmargin.kernels import KernelRows


@dataclass(frozen=True)
class ByLibsvm:
    """Settings of the method."""

    tol: float = 1e-8


def solve(estimator, problem, results, settings):
    rows = KernelRows(problem.kernel, problem.X, np.float64)
    K = rows.block(rows)
    svc = SVC(kernel="precomputed", C=problem.C, tol=settings.tol)
    svc.fit(K, problem.y, sample_weight=problem.weight)
    order = np.argsort(svc.support_)
    support, coef = svc.support_[order], svc.dual_coef_[0, order]
    f, y, c = K[:, support] @ coef, problem.y, problem.C * problem.weight
    norm = 0.5 * float(coef @ f[support])
    upper = norm + float(c @ np.maximum(0.0, 1.0 - y * (f + svc.intercept_[0])))
    lower = float(np.abs(coef).sum()) - norm
    result = SolveResult(coef, upper, lower, (upper - lower) / upper, True, "gap", "exact", 1, [])
    return KernelSolution(result, support, coef[:, None], svc.intercept_)


METHODS[ByLibsvm] = KernelMethod(solve)
