"""KernelSVC: scikit-learn's law, and the conventions of its SVC."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import KernelSVC
from maxmargin.estimators.kernel.methods import METHODS, NAMED, KernelMethod
from maxmargin.kernels import Nystrom

#: gamma="scale" looks at X, where a row of weight 2 is one row: as in scikit-learn
_WEIGHTS = "gamma='scale' is that of X, whatever the weights"
BY_SCALE = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}


def expected(estimator):
    return BY_SCALE if estimator.gamma == "scale" else {}


@parametrize_with_checks(
    [
        KernelSVC(),
        KernelSVC(method="exact", gamma=0.3, tol=1e-9),
        KernelSVC(method="map", gamma=0.3, tol=1e-12, multi_class="crammer_singer"),
        KernelSVC(method="nystrom", n_jobs=2),
    ],
    expected_failed_checks=expected,
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def scaled(load, n=500):
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    X = StandardScaler().fit_transform(X)[:n]
    return X + 0.05 * rng.normal(size=X.shape), y[:n]  # no two rows alike: coefficients are unique


def whole(est, n):
    out = np.zeros((len(est.dual_coef_), n))
    out[:, est.support_] = est.dual_coef_
    return out


@pytest.mark.parametrize("method", ["exact", "map"])
@pytest.mark.parametrize("load", [load_iris, load_digits, load_breast_cancer])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_the_coefficients_and_labels_of_svc(method, load, kernel):
    X, y = scaled(load, 300)
    svc = SVC(kernel=kernel, coef0=1.0, tol=1e-9).fit(X, y)
    own = KernelSVC(kernel=kernel, coef0=1.0, method=method, tol=1e-10).fit(X, y)
    if method == "exact":  # the map's coefficients are others of the same function
        np.testing.assert_allclose(whole(own, len(y)), whole(svc, len(y)), atol=2e-3)
    np.testing.assert_allclose(own.intercept_, svc.intercept_, atol=2e-3)
    scores = svc.decision_function(X)
    np.testing.assert_allclose(own.decision_function(X), scores, atol=2e-3)
    np.testing.assert_array_equal(own.predict(X), svc.predict(X))


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.5}])
def test_weights_of_classes_and_rows(class_weight):
    X, y = scaled(load_iris)
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=len(y))
    options = {"C": 2.0, "gamma": 0.4, "class_weight": class_weight}
    svc = SVC(**options, tol=1e-9).fit(X, y, sample_weight=weight)
    own = KernelSVC(**options, method="exact", tol=1e-9).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(own.decision_function(X), svc.decision_function(X), atol=1e-3)


def test_bounds_of_pairs_add_up():
    X, y = scaled(load_iris)
    est = KernelSVC(method="exact", gamma=0.2).fit(X, y)
    single = [
        KernelSVC(method="exact", gamma=0.2).fit(X[keep], y[keep])
        for keep in (y != 2, y != 1, y != 0)
    ]
    assert est.objective_ == pytest.approx(sum(s.objective_ for s in single), rel=1e-3)
    assert est.lower_bound_ == pytest.approx(sum(s.lower_bound_ for s in single), rel=1e-3)
    assert est.lower_bound_ <= est.objective_
    assert est.gap_ <= 1e-3
    assert est.converged_
    assert est.certificate_ == "exact"


def test_float32_rows_stay_float32():
    X, y = scaled(load_breast_cancer)
    own = KernelSVC(method="exact").fit(X.astype(np.float32), y)
    assert own.support_vectors_.dtype == np.float32
    assert KernelSVC(method="exact").fit(X, y).support_vectors_.dtype == np.float64


def test_frames_sparse_rows_and_arrays_agree():
    X, y = scaled(load_breast_cancer)
    X = np.round(X, 1) * (np.abs(X) > 0.5)
    fits = [
        KernelSVC(method="exact", tol=1e-8, gamma=0.1).fit(Z, y)
        for Z in (X, sp.csr_matrix(X), sp.csc_array(X), pd.DataFrame(X).add_prefix("f"))
    ]
    for fit, Z in zip(fits[:3], (X, sp.csr_array(X), X), strict=True):
        np.testing.assert_allclose(
            fit.decision_function(Z), fits[0].decision_function(X), atol=1e-4
        )
    assert list(fits[3].feature_names_in_[:2]) == ["f0", "f1"]
    assert sp.issparse(fits[1].support_vectors_)


def test_a_kernel_function():
    X, y = scaled(load_iris)

    def kernel(A, B):
        return (A @ B.T + 1.0) ** 2

    own = KernelSVC(kernel=kernel, method="exact", tol=1e-8).fit(X, y)
    named = KernelSVC(kernel="poly", degree=2, coef0=1.0, gamma=1.0, method="exact", tol=1e-8)
    np.testing.assert_allclose(
        own.decision_function(X), named.fit(X, y).decision_function(X), atol=1e-3
    )
    kernel.positive_semidefinite = False
    est = KernelSVC(kernel=kernel, method="exact").fit(X, y)
    assert est.certificate_ == "measured"
    assert est.lower_bound_ == -np.inf
    assert not est.converged_


def test_crammer_and_singer():
    X, y = scaled(load_iris)
    est = KernelSVC(method="map", multi_class="crammer_singer", kernel="linear", tol=1e-6).fit(X, y)
    assert est.dual_coef_.shape == (3, len(est.support_))
    assert est.intercept_.shape == (3,)
    assert est.decision_function(X).shape == (150, 3)
    np.testing.assert_array_equal(est.predict(X), est.decision_function(X).argmax(axis=1))
    np.testing.assert_allclose(
        X @ est.coef_.T + est.intercept_, est.decision_function(X), atol=1e-9
    )
    assert est.score(X, y) > 0.95
    two = KernelSVC(method="map", multi_class="crammer_singer").fit(X[y < 2], y[y < 2])
    assert two.dual_coef_.shape[0] == 1
    with pytest.raises(ValueError, match="map"):
        KernelSVC(method="exact", multi_class="crammer_singer").fit(X, y)


def test_three_classes_jointly_are_not_votes():
    """Three classes have three pairs: which of the two it is must not be guessed from the intercepts."""
    X, y = scaled(load_iris)
    joint = KernelSVC(method="map", multi_class="crammer_singer").fit(X, y)
    assert not joint._voting
    assert KernelSVC(method="map").fit(X, y)._voting


def test_rows_and_classes_without_weight():
    X, y = scaled(load_iris)
    weight = np.where(y == 1, 0.0, 1.0)
    weight[::7] = 0.0
    est = KernelSVC(method="exact").fit(X, y, sample_weight=weight)
    assert not set(est.support_) & set(np.flatnonzero(weight == 0.0))
    assert not (est.predict(X) == 1).any()
    assert est.converged_
    one = KernelSVC(method="nystrom").fit(X[y > 0], y[y > 0], sample_weight=weight[y > 0])
    assert (one.predict(X) == 2).all()
    assert one.objective_ == 0.0 == one.lower_bound_
    with pytest.raises(ValueError, match="at least one non-zero"):
        KernelSVC(method="exact").fit(X, y, sample_weight=np.zeros(len(y)))


def test_stopping_early_leaves_constants_and_true_bounds():
    X, y = scaled(load_digits)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) > 3

    est = KernelSVC(method="exact", callbacks=[stop]).fit(X, y)
    best = KernelSVC(method="exact").fit(X, y)
    assert est.stop_reason_ == "callback"
    assert not est.converged_
    assert est.certificate_ == "exact"
    assert est.lower_bound_ <= best.objective_
    assert est.objective_ >= best.lower_bound_
    assert len(est.intercept_) == 45
    assert set(est.predict(X)) <= set(range(10))
    quick = KernelSVC(method="exact", max_seconds=0.0).fit(X, y)
    assert quick.stop_reason_ == "max_seconds"
    assert quick.lower_bound_ <= best.objective_ <= quick.objective_ * 1.001
    low = KernelSVC(method="nystrom", max_seconds=0.0).fit(X, y)
    assert low.certificate_ == "restricted"
    assert low.lower_bound_ == -np.inf
    assert low.restricted_lower_bound_ <= best.objective_


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_warm_start(load):
    X, y = scaled(load)
    cold = KernelSVC(method="exact", C=1.0, tol=1e-6).fit(X, y)
    warm = KernelSVC(method="exact", C=1.0, tol=1e-6, warm_start=True).fit(X, y)
    first = warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ < first
    np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=1e-2)
    warm.set_params(C=0.3).fit(X, y)
    again = KernelSVC(method="exact", C=0.3, tol=1e-6).fit(X, y)
    assert max(warm.lower_bound_, again.lower_bound_) <= min(warm.objective_, again.objective_)
    warm.fit(X[:-1], y[:-1])  # other rows: a cold start
    assert warm.converged_


def test_attributes_of_the_last_method_go_away():
    X, y = scaled(load_iris)
    est = KernelSVC(method="nystrom").fit(X, y)
    assert est.restricted_gap_ <= 1e-3
    assert est.gap_ == np.inf
    assert est.method_ == "nystrom"
    est.set_params(method="exact").fit(X, y)
    assert not hasattr(est, "restricted_gap_")
    est.set_params(method=Nystrom(n_landmarks=20)).fit(X, y)
    assert "Nystrom" in est.method_
    assert est.n_support_.sum() <= 40  # pairs share their landmarks


def test_pairs_share_the_budget_of_auto(monkeypatch):
    X, y = scaled(load_digits)
    shares = []
    spy = METHODS[type(NAMED["exact"])].fit

    def watch(estimator, problem, before, settings):
        shares.append(problem.share)
        return spy(estimator, problem, before, settings)

    monkeypatch.setitem(METHODS, type(NAMED["exact"]), KernelMethod(watch))
    KernelSVC(method="exact", max_iter=1000).fit(X, y)  # single pairs
    assert len(shares) == 45
    assert sum(shares) == pytest.approx(1.0)


def test_refusals():
    X, y = scaled(load_iris)
    est = KernelSVC(method="exact").fit(X, y)
    with pytest.raises(AttributeError, match="linear"):
        est.coef_


def test_in_pipelines_and_searches():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), KernelSVC(method="exact"))
    grid = GridSearchCV(model, {"kernelsvc__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert grid.best_score_ > 0.95
    est = clone(grid.best_estimator_[-1])
    assert est.get_params() == grid.best_estimator_[-1].get_params()
    again = pickle.loads(pickle.dumps(grid.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), grid.predict(X))


def test_every_name_has_a_method():
    names = {"auto", "exact", "map", "nystrom", "sampled", "sampled_constant"}
    assert names == set(NAMED)
    assert {type(settings) for settings in NAMED.values()} <= set(METHODS)


def test_fits_repeat_bit_for_bit():
    X, y = make_classification(300, 8, n_informative=4, n_classes=3, random_state=0)
    for method in ("exact", "nystrom"):
        fits = [KernelSVC(method=method, n_jobs=k).fit(X, y) for k in (1, 2, 3)]
        for fit in fits[1:]:
            assert fit.dual_coef_.tobytes() == fits[0].dual_coef_.tobytes()
            assert fit.objective_ == fits[0].objective_
