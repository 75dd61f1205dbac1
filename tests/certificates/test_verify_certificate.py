"""verify_certificate recomputes both bounds of a fit, and refuses false ones."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from maxmargin import (
    GaussianPrior,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    MeasureSVC,
    OrdinalSVC,
    RankSVM,
)
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton, SampledNewton
from maxmargin.testing import verify_certificate

FITS = [
    LinearSVC(loss="hinge"),
    LinearSVC(loss="hinge", solver=DualCoordinate(), class_weight="balanced"),
    LinearSVC(loss="hinge", penalize_intercept=False, solver=DualCoordinate()),
    LinearSVC(loss="hinge", penalize_intercept=False, solver=Newton()),
    LinearSVC(solver=Newton(), intercept_scaling=3.0),
    LinearSVC(solver=DualCoordinate(), fit_intercept=False),
    LinearSVC(loss="logistic"),
    LinearSVC(loss="logistic", penalize_intercept=False),
    LinearSVR(epsilon=0.1),
    LinearSVR(epsilon=0.1, penalize_intercept=False),
    LinearSVR(epsilon=0.1, solver=DualCoordinate(max_cached=50)),
    LinearSVR(epsilon=0.1, loss="squared_epsilon_insensitive", solver=DualCoordinate()),
    LinearSVR(loss="squared_epsilon_insensitive", solver=Newton()),
    LinearSVR(loss="quantile", quantile=[0.1, 0.8]),
    LinearSVR(loss="quantile", quantile=0.8, solver=DualCoordinate()),
    LogisticRegression(),
    LogisticRegression(C=10.0, solver=Newton(), class_weight="balanced"),
    LogisticRegression(fit_intercept=False),
    LinearSVC(loss="logistic", multi_class="multinomial", intercept_scaling=2.0),
    LinearSVC(loss="hinge", multi_class="crammer_singer"),
    LinearSVC(loss="hinge", multi_class="crammer_singer", class_weight="balanced", C=30.0),
    LinearSVC(loss="hinge", multi_class="crammer_singer", solver=DualCoordinate()),
    OrdinalSVC(),
    OrdinalSVC(class_weight="balanced", solver=Newton()),
    OrdinalSVC(thresholds="immediate"),
    OrdinalSVC(loss="squared_hinge"),
    OrdinalSVC(loss="logistic", thresholds="immediate"),
]

SPREAD = np.linalg.inv(0.3 * np.eye(5) + 0.1)
SPREAD[0, 1:] = SPREAD[1:, 0] = 0.0
PRIORS = [
    {"prior": GaussianPrior(mean=np.arange(5.0) / 10.0, variance=0.5, intercept_mean=2.0)},
    {"prior": GaussianPrior(precision=np.arange(1.0, 6.0)), "nonpositive": [0, 2]},
    {"prior": GaussianPrior(mean=0.5, covariance=SPREAD), "fixed": {3: 0.3}, "nonnegative": [0]},
    {"prior": GaussianPrior(precision=[SPREAD[:2, :2], SPREAD[2:, 2:]])},
    {"fixed": {1: 0.3, 2: -1.0}, "nonnegative": [False, False, False, True, True]},
]
WITH_PRIORS = [
    LinearSVC(loss="hinge"),
    LinearSVC(loss="squared_hinge", solver=DualCoordinate()),
    LinearSVC(loss="hinge", multi_class="crammer_singer"),
    LinearSVR(epsilon=0.1),
    LinearSVR(loss="quantile", quantile=[0.2, 0.7], penalize_intercept=False),
    LogisticRegression(),
]


def rows(estimator, classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200) + 1.0
    weight = rng.uniform(0.2, 2.0, 200) * (rng.random(200) > 0.1)
    if not isinstance(estimator, LinearSVR):
        y = np.digitize(y, [0.0, 2.0][: classes - 1])
    return X, y, weight


@pytest.mark.filterwarnings("error:keep_duals")
@pytest.mark.parametrize("estimator", FITS, ids=lambda one: repr(one)[:90])
@pytest.mark.parametrize("classes", [2, 3])
def test_both_bounds_are_recomputed(estimator, classes):
    if classes == 3 and isinstance(estimator, LinearSVR):
        pytest.skip("a regression")
    X, y, weight = rows(estimator, classes)
    fit = estimator.set_params(keep_duals=True, tol=1e-4).fit(X, y, weight)
    for given in (X, sp.csr_matrix(X)):
        lower, upper = verify_certificate(fit, given, y, weight)
        assert lower <= fit.objective_ * (1.0 + 1e-12)
        assert fit.lower_bound_ <= upper * (1.0 + 1e-12)
        assert upper - lower <= 1e-3 * upper  # not vacuous
    assert len(fit.support_) <= np.count_nonzero(weight)


def test_a_bound_of_an_earlier_step_is_said_to_be_one():
    svc = LinearSVC(
        loss="hinge", penalize_intercept=False, solver=DualCoordinate(), keep_duals=True, max_iter=5
    )
    X, y, weight = rows(svc, classes=3)
    with pytest.warns(UserWarning, match="is of an earlier step of the fit"):
        svc.fit(X, y, weight)
    assert verify_certificate(svc, X, y, weight)[0] < svc.lower_bound_


def test_samples_outside_of_the_support_do_not_matter():
    svc = LinearSVC(loss="hinge", C=0.1, tol=1e-8, keep_duals=True, solver=DualCoordinate())
    X, y, _ = rows(svc)
    svc.fit(X, y)
    assert 0 < len(svc.support_) < 150
    less = LinearSVC(loss="hinge", C=0.1, tol=1e-8).fit(X[svc.support_], y[svc.support_])
    np.testing.assert_allclose(less.coef_, svc.coef_, atol=1e-3)
    assert not hasattr(svc.set_params(keep_duals=False).fit(X, y), "dual_coef_")


def test_a_false_bound_is_found():
    svc = LinearSVC(loss="hinge", keep_duals=True)
    X, y, _ = rows(svc)
    svc.fit(X, y)
    with pytest.raises(AssertionError, match="objective_"):
        verify_certificate(svc, X + 0.1, y)
    svc.lower_bound_ = 1.1 * svc.objective_
    with pytest.raises(AssertionError, match="lower_bound_"):
        verify_certificate(svc, X, y)
    svc.dual_coef_ = 3.0 * svc.dual_coef_  # infeasible: it proves less, and nothing false
    svc.lower_bound_ = 0.0
    assert verify_certificate(svc, X, y)[0] <= svc.objective_


@pytest.mark.filterwarnings("error:keep_duals")
@pytest.mark.parametrize("params", PRIORS, ids=repr)
@pytest.mark.parametrize("estimator", WITH_PRIORS, ids=lambda one: repr(one)[:60])
@pytest.mark.parametrize("classes", [2, 3])
def test_bounds_with_priors_are_recomputed(estimator, params, classes):
    if classes == 3 and isinstance(estimator, LinearSVR):
        pytest.skip("a regression")
    X, y, weight = rows(estimator, classes)
    fit = clone(estimator).set_params(**params, keep_duals=True, tol=1e-4)
    if classes == 2 and getattr(fit, "multi_class", "") == "crammer_singer":
        fit.set_params(multi_class="ovr")
    joint = getattr(fit, "multi_class", "") == "crammer_singer"
    if {"nonnegative", "nonpositive"} & set(params) and (joint or not fit.penalize_intercept):
        with pytest.raises(ValueError, match="keep_duals=True needs dual variables"):
            fit.fit(X, y, weight)
        return
    fit.fit(X, y, weight)
    lower, upper = verify_certificate(fit, X, y, weight)
    assert upper - lower <= 2e-4 * upper


def test_a_mean_of_each_class_and_names_of_features():
    X, y, weight = rows(LinearSVC(), classes=3)
    names = list("abcde")
    frame = pd.DataFrame(X, columns=names)
    prior = GaussianPrior(mean=np.arange(15.0).reshape(3, 5) / 10.0, intercept_mean=[0.0, 1.0, 2.0])
    for kind in ("ovr", "crammer_singer"):
        svc = LinearSVC(
            loss="hinge", multi_class=kind, prior=prior, fixed={"b": 0.5}, keep_duals=True
        )
        lower, upper = verify_certificate(svc.fit(frame, y, weight), X, y, weight)
        assert upper - lower <= 1.1e-3 * upper


def test_two_classes_with_costs():
    X, y, weight = rows(LinearSVC())
    svc = LinearSVC(
        loss="hinge", multi_class="crammer_singer", cost=[[0.0, 5.0], [1.0, 0.0]], keep_duals=True
    )
    lower, upper = verify_certificate(svc.fit(X, y, weight), X, y, weight)
    assert svc.dual_coef_.shape == (1, 200)
    assert upper - lower <= 1.1e-3 * upper


def test_an_epsilon_for_each_sample():
    svr = LinearSVR(keep_duals=True)
    X, y, weight = rows(svr)
    epsilon = np.abs(X[:, 0])
    svr.fit(X, y, weight, epsilon)
    lower, upper = verify_certificate(svr, X, y, weight, epsilon)
    assert upper - lower <= 1.1e-3 * upper
    with pytest.raises(AssertionError, match="objective_"):
        verify_certificate(svr, X, y, weight)


@pytest.mark.parametrize("quantile", [0.3, [0.2, 0.7]])
def test_a_constant_target_rests_on_no_sample(quantile):
    svr = LinearSVR(loss="quantile", quantile=quantile, penalize_intercept=False, keep_duals=True)
    X, y = rows(svr)[0], np.full(200, 3.0)
    svr.fit(X, y)
    assert verify_certificate(svr, X, y) == (0.0, 0.0)
    assert len(svr.support_) == 0


def test_dual_variables_are_kept_where_planes_would_be_faster():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 1200)), rng.integers(0, 4, 300)
    plain, kept = (OrdinalSVC(C=1e-3, keep_duals=keep).fit(X, y) for keep in (False, True))
    assert plain.history_[-1]["method"] == "cutting planes"
    assert kept.history_[-1]["method"] == "newton"
    lower, upper = verify_certificate(kept, X, y)
    assert upper - lower <= 1.1e-3 * upper


@pytest.mark.parametrize(
    "estimator",
    [
        LinearSVC(solver=CuttingPlane()),
        LogisticRegression(solver=SampledNewton()),
        OrdinalSVC(solver=CuttingPlane()),
        LinearSVC(loss="hinge", multi_class="crammer_singer", penalize_intercept=False),
    ],
    ids=lambda one: repr(one)[:60],
)
def test_fits_without_dual_variables_of_samples_are_refused_before_they_begin(estimator):
    X, y, _ = rows(LinearSVC(), classes=3)
    seen = []
    estimator = clone(estimator).set_params(keep_duals=True, callbacks=[seen.append])
    with pytest.raises(ValueError, match="keep_duals=True needs dual variables of samples"):
        estimator.fit(X, y)
    assert not seen


@pytest.mark.parametrize("estimator", [RankSVM(), MeasureSVC(), LinearSVC()], ids=repr)
def test_models_without_dual_variables_of_samples_cannot_be_verified(estimator):
    X, y, _ = rows(LinearSVC())
    with pytest.raises(TypeError, match=r"keep_duals=True\. This .* has none"):
        verify_certificate(estimator.fit(X, y), X, y)
