"""KernelSVR: scikit-learn's checks and optimum, true bounds, and given kernel values."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import KernelSVC, KernelSVR, load
from maxmargin.duals.kernels import blocks as kernel_blocks

_WEIGHTS = "gamma='scale' is that of X, whatever the weights"
BY_SCALE = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}


@parametrize_with_checks(
    [
        KernelSVR(),
        KernelSVR(method="exact", gamma=0.3, tol=1e-12, n_jobs=2),
        KernelSVR(method="nystrom"),
        KernelSVR(kernel="precomputed"),
        KernelSVC(kernel="precomputed"),
    ],
    expected_failed_checks=lambda est: BY_SCALE if est.gamma == "scale" else {},
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def data(n=120, d=3, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_t(3, size=n) + shift
    return X, y, rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1)


def values(svr, K, y, weight, epsilon):
    """F and D of a fitted model, by their definitions."""
    beta = np.zeros(len(y))
    beta[svr.support_] = svr.dual_coef_[0]
    c, f = svr.C * weight, K @ beta
    F = 0.5 * beta @ f + c @ np.maximum(0.0, np.abs(f + svr.intercept_[0] - y) - epsilon)
    assert np.all(np.abs(beta) <= c)
    assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()
    return F, y @ beta - np.abs(beta) @ np.broadcast_to(epsilon, len(y)) - 0.5 * beta @ f


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_the_optimum_of_scikit_learn(epsilon, C, shift):
    X, y, weight = data(shift=shift)
    svr = KernelSVR(C, gamma=0.4, epsilon=epsilon, tol=1e-6).fit(X, y, weight)
    K = rbf_kernel(X, gamma=0.4)
    F, D = values(svr, K, y, weight, epsilon)
    assert svr.objective_ == pytest.approx(F, rel=1e-8)
    assert svr.objective_ >= F * (1 - 1e-13)
    assert svr.lower_bound_ <= D <= svr.objective_ <= svr.lower_bound_ * (1 + 2e-6)
    theirs = SVR(C=C, gamma=0.4, epsilon=epsilon, tol=1e-8).fit(X, y, weight)
    Z, beta = theirs.support_vectors_, theirs.dual_coef_[0]
    F = 0.5 * beta @ rbf_kernel(Z, gamma=0.4) @ beta
    F += C * weight @ np.maximum(0.0, np.abs(theirs.predict(X) - y) - epsilon)
    assert svr.lower_bound_ <= F * (1 + 1e-9)
    np.testing.assert_allclose(svr.predict(X), theirs.predict(X), atol=2e-2 * np.std(y))


def test_without_intercept_and_with_an_epsilon_per_sample():
    X, y, weight = data()
    width = np.random.default_rng(1).choice([0.0, 0.2, 1.0], len(y))
    svr = KernelSVR(5.0, gamma=0.4, tol=1e-7, fit_intercept=False)
    svr.fit(X, y, weight, sample_epsilon=width)
    F, _ = values_without_balance(svr, rbf_kernel(X, gamma=0.4), y, weight, width)
    assert svr.converged_
    assert svr.intercept_[0] == 0.0
    assert svr.objective_ == pytest.approx(F, rel=1e-9)


def values_without_balance(svr, K, y, weight, epsilon):
    beta = np.zeros(len(y))
    beta[svr.support_] = svr.dual_coef_[0]
    f = K @ beta
    return 0.5 * beta @ f + svr.C * weight @ np.maximum(0.0, np.abs(f - y) - epsilon), beta


def test_several_blocks_and_clusters(monkeypatch):
    """Blocks of 100 of 600 samples reach the same optimum, also if samples are shrunk."""
    X, y, weight = data(600)
    whole = KernelSVR(10.0, tol=1e-6).fit(X, y, weight)
    monkeypatch.setattr(kernel_blocks, "LEAST", 100)
    monkeypatch.setattr(kernel_blocks, "CLUSTER", 150)
    svr = KernelSVR(10.0, tol=1e-4).fit(X, y, weight)
    assert svr.converged_
    assert svr.n_iter_ > whole.n_iter_
    assert svr.lower_bound_ <= whole.objective_
    assert whole.lower_bound_ <= svr.objective_


def test_small_problems_on_which_steps_stall(monkeypatch):
    X, y, weight = data(60)
    best = KernelSVR(10.0, tol=1e-9).fit(X, y, weight)
    monkeypatch.setattr("maxmargin.solvers.kernel_blocks.DIRECT_AFTER", 1)
    monkeypatch.setattr(kernel_blocks, "EFFORT", 0.1)
    svr = KernelSVR(10.0, tol=1e-9).fit(X, y, weight)
    assert svr.converged_
    assert svr.objective_ == pytest.approx(best.objective_, rel=2e-9)


def test_landmarks():
    X, y, weight = data(400)
    exact = KernelSVR(2.0, gamma=0.4).fit(X, y, weight)
    low = KernelSVR(2.0, gamma=0.4, method="nystrom").fit(X, y, weight)
    F, _ = values_of_any(low, X, y, weight)
    assert low.certificate_ == "restricted"
    assert low.restricted_gap_ <= 1e-3
    assert low.objective_ == pytest.approx(F, rel=1e-6)
    assert low.objective_ >= exact.lower_bound_
    assert low.lower_bound_ == -np.inf
    assert "nystrom" in low.method_


def values_of_any(svr, X, y, weight):
    beta = np.zeros(len(y))
    beta[svr.support_] = svr.dual_coef_[0]
    f = rbf_kernel(X, gamma=0.4) @ beta
    loss = np.maximum(0.0, np.abs(f + svr.intercept_[0] - y) - svr.epsilon)
    return 0.5 * beta @ f + svr.C * weight @ loss, beta


def test_warm_starts_and_forms_of_data(tmp_path):
    X, y, weight = data()
    plain = KernelSVR(tol=1e-5, gamma=0.5).fit(X, y, weight)
    sparse = KernelSVR(tol=1e-5, gamma=0.5).fit(sp.csr_matrix(X), y, weight)
    np.testing.assert_allclose(sparse.predict(sp.csr_matrix(X)), plain.predict(X), atol=1e-3)
    warm = KernelSVR(0.5, tol=1e-5, gamma=0.5, warm_start=True).fit(X, y, weight)
    again = warm.set_params(C=1.0).fit(X, y, weight)
    assert again.converged_
    assert again.lower_bound_ <= plain.objective_
    for other in (
        load(plain.save(tmp_path / "svr") and tmp_path / "svr"),
        pickle.loads(pickle.dumps(plain)),
    ):
        np.testing.assert_array_equal(other.predict(X), plain.predict(X))
    flat = KernelSVR(kernel="linear", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(X @ flat.coef_[0] + flat.intercept_[0], flat.predict(X))


@pytest.mark.parametrize("machine", [KernelSVR, KernelSVC])
def test_given_kernel_values_are_the_kernel(machine, tmp_path):
    X, y, weight = data()
    y = y if machine is KernelSVR else np.digitize(y, [-1.0, 1.0])
    K, new = rbf_kernel(X[:90], gamma=0.4), rbf_kernel(X[90:], X[:90], gamma=0.4)
    given = machine(kernel="precomputed", tol=1e-6).fit(K, y[:90], weight[:90])
    rbf = machine(gamma=0.4, tol=1e-6).fit(X[:90], y[:90], weight[:90])
    assert given.objective_ == pytest.approx(rbf.objective_, rel=2e-6)
    assert given.certificate_ == "exact"
    assert given.support_vectors_.shape == (0, 90)
    np.testing.assert_allclose(given.predict(new), rbf.predict(X[90:]), atol=1e-2)
    loaded = load(given.save(tmp_path / "model") and tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(new), given.predict(new))
    # each fold takes the rows and columns of its samples
    K, options = rbf_kernel(X, gamma=0.4), {"cv": 3}
    scores = cross_val_score(machine(kernel="precomputed", tol=1e-6), K, y, **options)
    np.testing.assert_allclose(
        scores, cross_val_score(machine(gamma=0.4, tol=1e-6), X, y, **options), atol=1e-2
    )
    search = GridSearchCV(machine(kernel="precomputed"), {"C": [0.01, 1.0]}, cv=3).fit(K, y)
    assert search.best_params_ == {"C": 1.0}
    assert search.predict(K[:5]).shape == (5,)


def test_what_is_no_kernel_matrix():
    X, y, _ = data()
    K = linear_kernel(X)
    with pytest.raises(ValueError, match="must be a square matrix"):
        KernelSVR(kernel="precomputed").fit(X, y)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        KernelSVR(kernel="precomputed").fit(sp.csr_matrix(K), y)
    with pytest.raises(ValueError, match="120"):
        KernelSVR(kernel="precomputed").fit(K, y).predict(K[:, :5])
    for wrong in (K + np.triu(np.ones_like(K)), K - 10.0 * np.eye(len(K))):
        with pytest.warns(UserWarning, match="not symmetric and positive semidefinite"):
            svr = KernelSVR(kernel="precomputed", max_iter=20).fit(wrong, y)
        assert svr.certificate_ == "measured"
        assert svr.lower_bound_ == -np.inf


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"method": "sampled"}, "use .auto., .exact."),
        ({"epsilon": -1.0}, "epsilon"),
        ({"nu": 0.5}, "nu"),
    ],
)
def test_refused(params, text):
    X, y, _ = data()
    with pytest.raises((ValueError, TypeError), match=text):
        KernelSVR(**params).fit(X, y)
