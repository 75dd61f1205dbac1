"""Latent models agree with convex ones if nothing is latent, and with brute force on small problems."""

from itertools import product

import numpy as np
import pytest
from tests.latent_tasks import Bags, Rows, WrongRows, rows_problem
from tests.reference_optima.problems import solve_structured_qp
from tests.tiny_tasks import TinyMulticlass

from maxmargin import LatentStructuredSVM, LinearSVC, StructuredSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.testing import latent_objective

SOLVERS = [DualCoordinate(), DualCoordinate(oracle="expensive"), CuttingPlane()]


class AsPairs(TinyMulticlass):
    """The same classes, with inputs that are matrices of one row."""

    def setup(self, X, Y):
        return super().setup([x[0] for x in X], Y)

    def joint_feature(self, x, y):
        return super().joint_feature(x[0], y)


def one_row(seed=0, n=30, d=3, K=3):
    rng = np.random.default_rng(seed)
    X = list(rng.normal(size=(n, 1, d)))
    return X, [int(k) for k in rng.permutation(np.arange(n) % K)]


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize(
    ("make", "constraints"),
    [
        (Rows, {}),
        (WrongRows, {"fixed": {1: 0.3, 5: -0.2}}),
        (WrongRows, {"nonnegative": [0, 4, 7]}),
    ],
)
def test_one_possible_h_is_the_convex_problem(make, solver, constraints):
    X, Y = one_row()
    weight = np.random.default_rng(1).uniform(0.0, 2.0, size=len(Y))
    convex = StructuredSVM(AsPairs(), 0.5, tol=1e-6, **constraints).fit(X, Y, weight)
    latent = LatentStructuredSVM(make(), 0.5, tol=1e-6, solver=solver, **constraints)
    latent.fit(X, Y, weight)
    assert latent.stop_reason_ == "cccp"
    assert latent.objective_ == pytest.approx(convex.objective_, rel=3e-6)
    assert latent.convex_lower_bound_ <= convex.objective_ * (1 + 1e-9)
    assert latent.convex_gap_ <= 1e-6
    np.testing.assert_allclose(latent.coef_, convex.coef_, atol=5e-3)
    assert latent.latent_ == [0] * len(Y)


def test_bags_of_one_are_a_linear_svm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1, -1)
    svc = LinearSVC(C=0.7, tol=1e-6, loss="hinge").fit(X, y)
    bags = LatentStructuredSVM(Bags(), 0.7, tol=1e-6).fit([x[None] for x in X], y)
    assert bags.objective_ == pytest.approx(svc.objective_, rel=3e-6)
    np.testing.assert_allclose(bags.coef_[:-1], svc.coef_[0], atol=5e-3)
    assert bags.coef_[-1] == pytest.approx(svc.intercept_[0], abs=5e-3)
    decision = [bags.task_.decision(x[None], bags.coef_) for x in X]
    np.testing.assert_allclose(decision, svc.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("make", [Rows, WrongRows])
def test_never_below_the_global_optimum(make):
    """Solve a tiny problem for all completions by a QP: the best of them is the global optimum."""
    X, Y = rows_problem(2, n=5, m=2, d=3, K=2)
    task = make(K=2)
    dim = task.setup(X, Y)
    C, best = 0.5, np.inf
    for latent in product(*(range(len(x)) for x in X)):
        pairs = list(zip(Y, latent, strict=True))
        listed = Listed(task)
        value, w = solve_structured_qp(
            listed, list(zip(X, Y, strict=True)), pairs, C, listed.outputs
        )
        best = min(best, latent_objective(task, X, Y, w, C, outputs=task.outputs))
        assert best <= value * (1 + 1e-6)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        svm = LatentStructuredSVM(task, C, tol=1e-5)
        svm.fit(X, Y, latent=[int(rng.integers(len(x))) for x in X])
        assert svm.objective_ >= best * (1 - 1e-5)
        assert svm.objective_ == pytest.approx(
            latent_objective(task, X, Y, svm.coef_, C, outputs=task.outputs), rel=1e-9
        )
    assert len(svm.coef_) == dim


class Listed(TinyMulticlass):
    """Pairs as outputs; the input contains its label, so that an oracle over wrong outputs can enumerate."""

    def __init__(self, task):
        super().__init__()
        self.inner = task

    def setup(self, X, Y):
        return self.inner.K * self.inner.d

    def outputs(self, x):
        return self.inner.outputs(x[0])

    def joint_feature(self, x, y):
        return self.inner.joint_feature(x[0], *y)

    def loss(self, y, y_hat):
        return self.inner.loss(y[0], *y_hat)


def test_warm_and_cold_steps_reach_alike_objectives():
    from maxmargin.risks import CompletedRisk
    from maxmargin.solvers.cccp import minimize_latent

    X, Y = rows_problem(4, n=60, m=5)
    task = WrongRows()
    dim = task.setup(X, Y)
    rng = np.random.default_rng(0)
    first = [int(rng.integers(len(x))) for x in X]
    results = [
        minimize_latent(CompletedRisk(task, X, Y, first, dim), 1.0, tol=1e-4, warm=warm)
        for warm in (True, False)
    ]
    assert results[0].objective == pytest.approx(results[1].objective, rel=0.1)
    assert results[0].oracle_calls < results[1].oracle_calls


def test_the_seed_of_the_order_is_all_that_is_random():
    X, Y = rows_problem(6)
    a, b = (LatentStructuredSVM(WrongRows(), random_state=3).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    c = LatentStructuredSVM(WrongRows(), random_state=3, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(a.coef_, c.coef_)


def test_weights_are_copies():
    X, Y = rows_problem(7, n=20)
    weight = np.array([float(1 + k % 2) for k in range(20)])
    twice = [i for i in range(20) for _ in range(int(weight[i]))]
    a = LatentStructuredSVM(Rows(), 0.3, tol=1e-6, solver=CuttingPlane()).fit(X, Y, weight)
    copies = [X[i] for i in twice], [Y[i] for i in twice]
    b = LatentStructuredSVM(Rows(), 0.3, tol=1e-6, solver=CuttingPlane()).fit(*copies)
    # the same function, of which rounding may lead to another local minimum
    F = latent_objective(a.task_, *copies, a.coef_, 0.3)
    assert a.objective_ == pytest.approx(F, rel=1e-9)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-2)
