"""lower <= F* <= upper for kernel machines: a thousand random problems, every method, any tolerance.

An independent program bounds F* in extended precision (``tests/reference_optima``), from kernel values by
the simplest formula. Reported bounds must hold without a tolerance, since they account for rounding. How much
they lose by that is bounded, too.
"""

from itertools import combinations

import numpy as np
import pytest
from tests.certificates.kernel_problems import draw, restricted
from tests.nightly import first
from tests.reference_optima.problems import solve_multiclass_qp

from maxmargin import KernelSVC
from maxmargin.kernels import Nystrom
from maxmargin.testing import multiclass_objective

PROBLEMS, GROUP = 1000, 50
#: relative to the terms of F before they cancel: how much an objective may lose to rounding bounds
GIVEN_AWAY = 1e-9
SAMPLED = ("sampled", "sampled_constant")


def fit(problem, method, max_iter=100, **more):
    return KernelSVC(method=method, max_iter=max_iter, **problem.options, **more).fit(
        problem.X, problem.y, problem.weight
    )


class Verdict:
    """The errors found in one fit."""

    def __init__(self, problem, svc):
        self.svc, self.wrong = svc, []
        coef = np.zeros(len(problem.y))
        coef[svc.support_] = svc.dual_coef_[0]
        intercept = float(svc.intercept_[0])
        self.F = problem.objective(coef, intercept, 1)
        # the reported objective is that of the fitted function
        self.at_most(self.F, svc.objective_, "the objective is below F of the function")
        most = self.F + GIVEN_AWAY * problem.terms(coef, intercept)
        self.at_most(svc.objective_, most, "the objective is above F of the function")

    def at_most(self, a, b, text):
        if not a <= b:
            self.wrong.append(f"{text}: {a!r} > {b!r}")

    def hold(self, truth, text):
        if not truth:
            self.wrong.append(text)


def judge_exact(problem, method):
    svc = fit(problem, method)
    found, best = Verdict(problem, svc), problem.best
    found.at_most(svc.lower_bound_, best.upper, "the lower bound is above the optimum")
    found.at_most(best.lower, svc.objective_, "the objective is below the optimum")
    found.hold(svc.certificate_ == "exact", f"certificate {svc.certificate_}")
    gap = (svc.objective_ - svc.lower_bound_) / svc.objective_
    found.hold(svc.gap_ >= gap - 1e-12, f"gap {svc.gap_}, but the bounds say {gap}")
    found.hold(svc.converged_ or svc.stop_reason_ != "gap", "stopped for a gap not reached")
    if svc.converged_:
        found.hold(gap <= problem.options["tol"] * (1 + 1e-6) + 1e-12, f"converged at {gap}")
    return found


def judge_nystrom(problem, seed):
    few = 1 + seed % max(1, len(problem.fitted_rows) // 2)
    svc = fit(problem, Nystrom(n_landmarks=few))
    found, rows = Verdict(problem, svc), problem.fitted_rows
    whole = problem.best
    K = restricted(problem.values(rows), np.searchsorted(rows, svc.support_))
    best = problem.optimum(rows, 1, K)
    found.at_most(whole.lower, svc.objective_, "the objective is below the optimum")
    found.at_most(best.lower, svc.objective_, "the objective is below the restricted optimum")
    found.at_most(svc.restricted_lower_bound_, best.upper, "the restricted bound is wrong")
    no_claim(found, "restricted")
    return found


def judge_sampled(problem, method):
    svc = fit(problem, method, max_iter=20)
    found, best = Verdict(problem, svc), problem.best
    found.at_most(best.lower, svc.objective_, "the objective is below the optimum")
    no_claim(found, "measured")
    return found


def no_claim(found, certificate):
    svc = found.svc
    found.hold(svc.certificate_ == certificate, f"certificate {svc.certificate_}")
    found.hold(svc.lower_bound_ == -np.inf and svc.gap_ == np.inf, "a lower bound is claimed")
    found.hold(not svc.converged_, "convergence is claimed")


@pytest.mark.slow
@pytest.mark.parametrize("number", first(2, range(PROBLEMS // GROUP)))
def test_two_classes(number):
    # each problem by the exact method and by one of the others
    verdicts = {}
    for seed in range(number * GROUP, (number + 1) * GROUP):
        problem = draw(seed)
        verdicts[seed, "exact"] = judge_exact(problem, "exact")
        other = ("map", "nystrom", "map", "nystrom", *SAMPLED)[seed % 6]
        if other == "map":
            verdicts[seed, other] = judge_exact(problem, other)
        elif other == "nystrom":
            verdicts[seed, other] = judge_nystrom(problem, seed)
        elif seed % 24 < 6:  # rarely: the slowest method, and the simplest
            verdicts[seed, other] = judge_sampled(problem, other)
    wrong = {key: found.wrong for key, found in verdicts.items() if found.wrong}
    assert not wrong, "\n".join(f"{key}: {'; '.join(text)}" for key, text in wrong.items())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "map"])
def test_one_against_one(method):
    for seed in range(30):
        problem = draw(seed, classes=3, most=30)
        svc = fit(problem, method)
        rows, lower, upper = problem.fitted_rows, 0.0, 0.0
        for pair in combinations(range(3), 2):
            best = problem.optimum(rows[np.isin(problem.y[rows], pair)], pair[0])
            lower, upper = lower + best.lower, upper + best.upper
        assert svc.lower_bound_ <= upper * (1 + 1e-10), seed
        assert svc.objective_ >= lower * (1 - 1e-10), seed


@pytest.mark.slow
def test_jointly():
    proved = 0
    for seed in range(40):
        problem = draw(seed, classes=3, most=20)
        problem.options["C"] = min(problem.options["C"], 10.0)
        svc = fit(problem, "map", multi_class="crammer_singer")
        rows, own = problem.fitted_rows, problem.options
        K = problem.values().astype(np.float64)
        S, U = np.linalg.eigh(K)
        features = U * np.sqrt(np.maximum(S, 0.0))
        weight = None if problem.weight is None else problem.weight[rows]
        kind = {"fit_intercept": own["fit_intercept"], "penalize_intercept": False}
        try:
            best, _ = solve_multiclass_qp(
                features[rows], problem.y[rows], own["C"], None, weight, 3, **kind
            )
        except ArithmeticError:
            continue
        proved += 1
        assert svc.lower_bound_ <= best * (1 + 1e-8), seed
        assert svc.objective_ >= best * (1 - 1e-8), seed
        # F of the returned function
        coef = np.zeros((3, len(K)))
        coef[:, svc.support_] = svc.dual_coef_
        W = coef @ features
        F = multiclass_objective(
            W, svc.intercept_, features, problem.y, own["C"], None, problem.weight, 1.0, False
        )
        assert svc.objective_ == pytest.approx(F, rel=1e-6), seed
    assert proved >= 30
