"""verify_certificate recomputes both bounds of a fit, and refuses false ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import GaussianPrior, LinearSVC, LinearSVR
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton
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
]


def rows(estimator, classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200) + 1.0
    weight = rng.uniform(0.2, 2.0, 200) * (rng.random(200) > 0.1)
    if isinstance(estimator, LinearSVC):
        y = np.digitize(y, [0.0, 2.0][: classes - 1])
    return X, y, weight


@pytest.mark.filterwarnings("ignore:keep_duals")
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
        if not (classes == 3 and fit.loss == "hinge" and not fit.penalize_intercept):
            assert upper - lower <= 1e-3 * upper  # not vacuous
    assert len(fit.support_) <= np.count_nonzero(weight)


def test_a_bound_of_cutting_planes_is_said_to_be_one():
    svc = LinearSVC(
        loss="hinge", penalize_intercept=False, solver=DualCoordinate(), keep_duals=True
    )
    X, y, weight = rows(svc, classes=3)
    with pytest.warns(UserWarning, match="is of cutting planes"):
        svc.fit(X, y, weight)
    assert verify_certificate(svc, X, y, weight)[0] < svc.lower_bound_
    svc.set_params(solver=Newton()).fit(X, y, weight)
    lower, upper = verify_certificate(svc, X, y, weight)
    assert upper - lower <= 1e-3 * upper


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


@pytest.mark.parametrize(
    "params",
    [
        {"solver": CuttingPlane()},
        {"prior": GaussianPrior(mean=1.0)},
        {"loss": "hinge", "multi_class": "crammer_singer"},
    ],
)
def test_fits_without_dual_variables_of_samples_are_refused(params):
    X, y, _ = rows(LinearSVC(), classes=3)
    with pytest.raises(ValueError, match="keep_duals"):
        LinearSVC(**params, keep_duals=True).fit(X, y)
