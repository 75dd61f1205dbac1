"""What a prior, a fixed or a signed weight cannot be is said by name, with what to do."""

import numpy as np
import pytest

from maxmargin import GaussianPrior, LinearSVC
from maxmargin.solvers import DualCoordinate, Newton

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
S = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 2.0]])
SINGULAR = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])


def fit(**params):
    return LinearSVC(C=0.1, **params, loss="hinge").fit(X, Y)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: GaussianPrior(variance=1.0, precision=2.0), "one of .*variance and precision"),
        (lambda: GaussianPrior(variance=0.0), "variance must be positive.*fixed="),
        (lambda: GaussianPrior(precision=[1.0, 0.0]), "precision must be positive.*small"),
        (lambda: GaussianPrior(variance=[1.0, np.inf]), "variance must contain finite"),
        (lambda: GaussianPrior(covariance=SINGULAR), "not positive definite.*diagonal"),
        (lambda: GaussianPrior(precision=SINGULAR), "precision matrix is not positive definite"),
        (lambda: GaussianPrior(covariance=[S, SINGULAR]), "not positive definite"),
        (lambda: GaussianPrior(covariance=np.triu(S)), "not symmetric"),
        (lambda: GaussianPrior(covariance=[1.0, 2.0]), "variance="),
    ],
)
def test_what_is_no_prior(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"prior": GaussianPrior(np.zeros(2))}, r"mean has shape \(2,\); \(3,\) is needed"),
        ({"prior": GaussianPrior(variance=np.ones(4))}, "variance has shape"),
        ({"prior": GaussianPrior(covariance=S), "nonnegative": [0]}, "weight 0 .*correlates"),
        ({"nonnegative": [0], "nonpositive": [0]}, "weight 0 .*use fixed="),
        ({"nonpositive": [1], "fixed": {1: 0.5}}, "weight 1 is fixed at 0.5, .*positive"),
        ({"nonnegative": [3]}, "nonnegative contains 3, "),
        ({"fixed": {0: np.nan}}, "finite number"),
        (
            {"nonnegative": [0], "cost": [[0, 1], [2, 0]], "multi_class": "crammer_singer"},
            "class_weight instead of cost",
        ),
    ],
)
def test_what_does_not_fit_the_features(params, match):
    with pytest.raises(ValueError, match=match):
        fit(**params)


def test_methods_that_cannot_say_so_and_auto_takes_one_that_can():
    with pytest.raises(TypeError, match=r"newton .*negative"):
        fit(nonnegative=[0], solver=Newton())
    y = np.arange(30) % 3
    with pytest.raises(TypeError, match=r"coordinate .*negative"):
        LinearSVC(nonnegative=[0], solver=DualCoordinate(), multi_class="crammer_singer").fit(X, y)
    assert LinearSVC(nonnegative=[0], multi_class="crammer_singer").fit(X, y).converged_
    assert fit(nonnegative=[0]).converged_


def test_a_sign_needs_independence_only():
    """A weight that a matrix correlates with no other one may have a sign."""
    svc = fit(prior=GaussianPrior(covariance=S), nonpositive=[2])
    assert svc.converged_
    assert svc.coef_[0, 2] <= 0.0


def test_masks_select_weights():
    mask = [True, False, True]
    by_index = fit(nonnegative=[0, 2], nonpositive=[1])
    by_mask = fit(nonnegative=mask, nonpositive=~np.array(mask))
    assert np.array_equal(by_mask.coef_, by_index.coef_)
    assert (fit(nonnegative=np.zeros(3, dtype=bool)).coef_ == fit().coef_).all()
    with pytest.raises(ValueError, match=r"nonnegative is a mask of 2 entries.*3 weights"):
        fit(nonnegative=[True, False])
    with pytest.raises(ValueError, match="contains True, which is not a weight"):
        fit(nonnegative=[0, True])
