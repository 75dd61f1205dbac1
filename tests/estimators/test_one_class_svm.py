"""OneClassSVM: scikit-learn's checks and function for the same nu, and a true certificate at the C found."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM as ScikitSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import OneClassSVM, load

_WEIGHTS = "gamma='scale' is that of X; without it, C is found up to the tolerances only"
_SQUARE = "the check passes features to a kernel that is precomputed"
FAIL = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}


@parametrize_with_checks(
    [OneClassSVM(), OneClassSVM(kernel="linear", nu=0.9)], expected_failed_checks=lambda _: FAIL
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 1.0
    return X, rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1)


@pytest.mark.parametrize("nu", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_function_and_properties_of_nu(nu, kernel):
    X, weight = data()
    nu = max(nu, 0.2) if kernel == "linear" else nu
    svm = OneClassSVM(nu=nu, kernel=kernel, gamma=0.3, tol=1e-6).fit(X, sample_weight=weight)
    used = weight > 0.0
    theirs = ScikitSVM(nu=nu, kernel=kernel, gamma=0.3, tol=1e-9)
    theirs.fit(X[used], sample_weight=weight[used])
    size = np.abs(theirs.decision_function(X)).max()
    np.testing.assert_allclose(svm.score_samples(X), theirs.score_samples(X), atol=1e-2 * size)
    np.testing.assert_allclose(svm.offset_, theirs.offset_, rtol=1e-2)
    # at most a fraction of nu is outside, and at least this fraction is not inside
    scores = svm.decision_function(X)
    slack = 1e-3 * size
    assert weight[scores < -slack].sum() <= (nu * 1.002) * weight.sum()
    assert weight[scores < slack].sum() >= (nu * 0.998) * weight.sum()
    np.testing.assert_array_equal(svm.predict(X), np.where(scores >= 0.0, 1, -1))
    # the certificate at C_, by the definition of the problem
    f = svm.score_samples(X) / svm.offset_
    if kernel == "linear":
        w = svm.coef_[0] / svm.offset_
        norm = w @ w
        np.testing.assert_allclose(f, X @ w)
    else:
        beta = np.zeros(len(X))
        beta[svm.support_] = svm.dual_coef_[0] / svm.offset_
        K = rbf_kernel(X, gamma=0.3)
        norm = beta @ K @ beta
        assert np.all((beta >= 0.0) & (beta <= svm.C_ * weight * (1.0 + 1e-12)))
        assert svm.lower_bound_ <= beta.sum() - 0.5 * norm
    F = 0.5 * norm + svm.C_ * weight @ np.maximum(0.0, 1.0 - f)
    assert svm.objective_ == pytest.approx(F, rel=1e-7)
    assert svm.lower_bound_ <= F
    assert svm.gap_ <= 1e-6


def test_forms_of_data(tmp_path):
    X, _ = data()
    K = rbf_kernel(X, gamma=0.3)
    svm = OneClassSVM(nu=0.2, gamma=0.3, tol=1e-5).fit(X)
    given = OneClassSVM(nu=0.2, kernel="precomputed", tol=1e-5).fit(K)
    np.testing.assert_allclose(given.decision_function(K), svm.decision_function(X), atol=0.05)
    linear = OneClassSVM(nu=0.4, kernel="linear").fit(sp.csr_matrix(X))
    for fitted, rows in ((svm, X), (given, K), (linear, X)):
        loaded = load(fitted.save(tmp_path / "svm") and tmp_path / "svm")
        np.testing.assert_array_equal(loaded.predict(rows), fitted.predict(rows))
        assert loaded.C_ == fitted.C_
    np.testing.assert_array_equal(linear.predict(sp.csr_matrix(X)), linear.predict(X))


def test_refused():
    X, _ = data()
    for nu in (0.0, 1.5, "many"):
        with pytest.raises(ValueError, match="nu="):
            OneClassSVM(nu=nu).fit(X)
    with pytest.raises(ValueError, match="cannot be separated"):
        OneClassSVM(nu=0.05, kernel="linear").fit(np.concatenate([X, -X]))
    with pytest.raises(ValueError, match="non-zero"):
        OneClassSVM().fit(X, sample_weight=np.zeros(len(X)))
