"""KernelSVC around its methods: the composition, orders and shapes of scikit-learn's SVC."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.svm import SVC
from tests.kernels.libsvm_method import ByLibsvm

from maxmargin import KernelSVC, minimize
from maxmargin.estimators.kernel import small_pairs
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk

METHOD = ByLibsvm()
LOADERS = {"iris": load_iris, "digits": load_digits, "cancer": load_breast_cancer}


def whole(est, n):
    """dual_coef_ of all rows: tiny coefficients are zero for one solver and not for another."""
    out = np.zeros((len(est.dual_coef_), n))
    out[:, est.support_] = est.dual_coef_
    return out


def in_order(est, y):
    """Whether support vectors go by class, and ascend within each."""
    codes = np.searchsorted(est.classes_, y[est.support_])
    assert (np.diff(codes * len(y) + est.support_) > 0).all()
    np.testing.assert_array_equal(est.n_support_, np.bincount(codes, minlength=len(est.classes_)))


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_entries_are_those_of_svc(name, kernel):
    X, y = LOADERS[name](return_X_y=True)
    X, y = X[:500], y[:500]
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-3)
    X += 0.1 * np.random.default_rng(0).normal(
        size=X.shape
    )  # no two rows alike: coefficients are unique
    for shape in ("ovr", "ovo"):
        svc = SVC(kernel=kernel, tol=1e-8, decision_function_shape=shape).fit(X, y)
        own = KernelSVC(kernel=kernel, method=METHOD, decision_function_shape=shape).fit(X, y)
        in_order(own, y)
        np.testing.assert_array_equal(own.support_vectors_, X[own.support_])
        np.testing.assert_allclose(whole(own, len(y)), whole(svc, len(y)), atol=1e-5)
        np.testing.assert_allclose(own.intercept_, svc.intercept_, atol=1e-5)
        np.testing.assert_array_equal(own.predict(X), svc.predict(X))
        np.testing.assert_allclose(own.decision_function(X), svc.decision_function(X), atol=1e-5)
        if kernel == "linear":
            np.testing.assert_allclose(own.coef_, svc.coef_, atol=1e-5)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
def test_gamma_and_sparse_rows(gamma):
    X, y = load_digits(return_X_y=True)
    X = X[:300] / 16.0
    y = y[:300]
    for Z in (X, sp.csr_matrix(X), sp.csc_array(X), X.astype(np.float32)):
        svc = SVC(gamma=gamma, tol=1e-8).fit(Z, y)
        own = KernelSVC(gamma=gamma, method=METHOD).fit(Z, y)
        assert own.kernel_.gamma == pytest.approx(svc._gamma)
        np.testing.assert_allclose(own.decision_function(Z), svc.decision_function(Z), atol=1e-5)


def test_pairs_that_were_cut_short_are_told_of():
    risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    easy = minimize(risk, C=1.0).claiming("restricted")
    assert easy.stop_reason == "gap"
    svc = KernelSVC()
    svc._keep([easy, replace(easy, stop_reason="max_iter"), easy])
    assert svc.stop_reason_ == "max_iter"
    svc._keep([easy, easy])
    assert svc.stop_reason_ == "gap"


def test_the_overhead_is_linear_in_the_number_of_pairs(monkeypatch):
    """Small pairs are solved in one call, others one by one; the certificate is stored once."""
    kept = []
    keep = KernelSVC._keep
    monkeypatch.setattr(
        KernelSVC, "_keep", lambda self, results: (kept.append(len(results)), keep(self, results))
    )
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 3)
    X = rng.normal(size=(24, 2)) + y[:, None]
    svc = KernelSVC(max_iter=1000).fit(X, y)
    assert kept == [28]
    assert svc.converged_
    assert len(svc.history_) >= 28
    calls, solve = [], small_pairs.solve_pairs
    monkeypatch.setattr(small_pairs, "solve_pairs", lambda *args: (calls.append(0), solve(*args)))
    monkeypatch.setattr(KernelSVC, "_minimize", None)
    svc = KernelSVC().fit(X, y)
    assert (len(calls), kept[1:], len(svc.history_), svc.converged_) == (1, [1], 1, True)
    assert svc.kernel_values_ == 24**2


def test_ties_are_broken_as_in_scikit_learn_if_asked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.repeat([0, 1, 2], 30)
    given = {"C": 1.0, "gamma": 0.5, "break_ties": True, "shrinking": False, "cache_size": 50.0}
    ours = KernelSVC(**given, tol=1e-6, max_iter=-1).fit(X, y)
    theirs = SVC(**given, tol=1e-7).fit(X, y)
    grid = rng.normal(scale=3.0, size=(4000, 2))
    assert (ours.predict(grid) == ours.decision_function(grid).argmax(axis=1)).all()
    assert (ours.predict(grid) == theirs.predict(grid)).mean() > 0.999
    plain = KernelSVC(C=1.0, gamma=0.5, tol=1e-6).fit(X, y)
    assert (plain.predict(grid) != ours.predict(grid)).any(), "no ties in this data"
    with pytest.raises(ValueError, match="CalibratedClassifierCV"):
        KernelSVC(probability=True).fit(X, y)
