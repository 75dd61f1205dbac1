"""Intercepts are those of LIBSVM, small regressions do not stall, and an optimum of zero is certified."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.svm import SVC, SVR

from maxmargin import KernelSVC, KernelSVR, minimize
from maxmargin.kernels import Linear
from maxmargin.losses import EpsilonInsensitive
from maxmargin.risks import KernelRisk
from maxmargin.solvers import KernelBlocks

SETS = {
    "iris": load_iris(return_X_y=True),
    "blobs": make_blobs(100, centers=2, cluster_std=4.0, random_state=0),
    "blobs of different sizes": make_blobs([40, 61], cluster_std=4.0, random_state=0),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("C", [1e-4, 1e-3, 1e-2, 0.1, 1.0])
def test_labels_are_those_of_libsvm(name, C):
    X, y = SETS[name]
    own, other = KernelSVC(C=C, tol=1e-6).fit(X, y), SVC(C=C, tol=1e-6).fit(X, y)
    assert own.converged_
    assert np.mean(own.predict(X) == other.predict(X)) >= 0.99
    assert abs(KernelSVC(C=C).fit(X, y).score(X, y) - other.score(X, y)) <= 0.02


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_values_are_those_of_libsvm(C, epsilon):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    own = KernelSVR(C=C, epsilon=epsilon, tol=1e-8).fit(X, y)
    other = SVR(C=C, epsilon=epsilon, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(own.predict(X), other.predict(X), atol=1e-3)


@pytest.mark.parametrize("method", ["exact", "nystrom"])
@pytest.mark.parametrize(("value", "epsilon"), [(0.0, 0.1), (0.0, 0.0), (2.0, 0.1), (0.3, 0.0)])
def test_an_optimum_of_zero_is_certified(method, value, epsilon):
    X = np.random.default_rng(0).normal(size=(20, 2))
    svr = KernelSVR(method=method, epsilon=epsilon).fit(X, np.full(20, value))
    assert (svr.objective_, svr.gap_, svr.converged_) == (0.0, 0.0, True)
    assert (svr.predict(X) == value).all()
    risk = KernelRisk(Linear(), X, np.full(20, value), EpsilonInsensitive(epsilon))
    found = minimize(risk, C=1.0, solver=KernelBlocks(), regularizer=risk.norm)
    assert (found.objective, found.lower_bound, found.converged) == (0.0, 0.0, True)


@pytest.mark.parametrize(("kernel", "count"), [("linear", 300), ("rbf", 150)])
def test_small_regressions_do_not_stall(kernel, count):
    gaps = {}
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 20))
        X = rng.normal(size=(n, 1))
        svr = KernelSVR(kernel=kernel, tol=1e-6).fit(X, rng.normal(size=n) + X[:, 0])
        gaps[seed] = svr.gap_
    assert not {seed: gap for seed, gap in gaps.items() if gap > 1e-6}
