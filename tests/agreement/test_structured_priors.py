"""Priors, fixed and signed weights of structured models: the optimum of a QP over all outputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import weights_qp

from maxmargin import GaussianPrior, LatentStructuredSVM, StructuredSVM, StructuredSVMCV
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Chain, MultipleInstance
from maxmargin.testing.examples import TinyMulticlass

C = 0.7
SOLVERS = [
    DualCoordinate(),
    DualCoordinate(mode="batch"),
    DualCoordinate(mode="dear"),
    CuttingPlane(),
    CuttingPlane(use_cache=False),
    CuttingPlane(slacks="blocks"),
]


def problem(seed, n=12, d=3, K=3):
    rng = np.random.default_rng(seed)
    X = list(rng.normal(size=(n, d)))
    y = [int(label) for label in rng.permutation(np.arange(n) % K)]
    root = rng.normal(size=(d * K, d * K))
    return TinyMulticlass(), X, y, root @ root.T + 0.5 * np.eye(d * K), rng.normal(size=d * K)


def agrees(svm, best, w):
    assert svm.converged_
    assert svm.certificate_ == "exact"
    assert svm.lower_bound_ <= best + 1e-7 * abs(best)
    assert best <= svm.objective_ + 1e-7 * abs(best)
    np.testing.assert_allclose(svm.coef_, w, atol=2e-2)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_a_dense_prior_with_fixed_weights(solver):
    task, X, y, S, m = problem(0)
    fixed = {2: 0.3, 7: -0.4}
    best, w = weights_qp.structured(task, X, y, C, S, m, fixed=fixed)
    prior = GaussianPrior(m, covariance=S)
    svm = StructuredSVM(task, C, prior=prior, fixed=fixed, tol=1e-6, solver=solver).fit(X, y)
    agrees(svm, best, w)
    assert svm.coef_[2] == 0.3


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(SOLVERS[:5]), st.booleans())
def test_signed_weights_with_a_centre(seed, solver, centred):
    task, X, y, S, m = problem(seed, n=8)
    variance = np.diagonal(S)
    m = m if centred else np.zeros(9)
    signs = np.array([1.0, -1.0, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 1.0])
    best, _ = weights_qp.structured(
        task, X, y, C, np.diag(variance), m, signs=signs, fixed={3: 0.2}
    )
    svm = StructuredSVM(
        task,
        C,
        prior=GaussianPrior(m, variance=variance),
        nonnegative=np.flatnonzero(signs > 0).tolist(),
        nonpositive=np.flatnonzero(signs < 0).tolist(),
        fixed={3: 0.2},
        tol=1e-5,
        solver=solver,
    ).fit(X, y)
    assert svm.lower_bound_ <= best + 1e-7 * abs(best)
    assert best <= svm.objective_ + 1e-7 * abs(best)
    assert svm.gap_ <= 1e-5
    assert (signs * svm.coef_ >= 0.0).all()


def test_a_task_with_compiled_examples_is_trained_by_its_python_methods():
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    Y = [rng.integers(0, 2, 3) for _ in X]
    plain = StructuredSVM(Chain(2), 1.0, tol=1e-6).fit(X, Y)
    again = StructuredSVM(Chain(2), 1.0, tol=1e-6, prior=GaussianPrior(plain.coef_, variance=1e-12))
    np.testing.assert_allclose(again.fit(X, Y).coef_, plain.coef_, atol=1e-6)


def test_grids_and_latent_variables_take_a_prior():
    task, X, y, _, m = problem(3, n=15)
    prior = GaussianPrior(m)
    grid = StructuredSVMCV(task, Cs=[1e-9, 1.0], cv=3, prior=prior, nonpositive=[0]).fit(X, y)
    assert all(grid.cv_results_["split0_converged"])
    rng = np.random.default_rng(4)
    bags = [rng.normal(size=(3, 2)) + label for label in (1.0, -1.0) * 6]
    labels = [1, -1] * 6
    around = np.array([0.3, -0.2, 0.1])[: MultipleInstance().setup(bags, labels)]
    svm = LatentStructuredSVM(MultipleInstance(), 1e-9, prior=GaussianPrior(around))
    np.testing.assert_allclose(svm.fit(bags, labels).coef_, around, atol=1e-6)
