"""Priors, fixed and signed weights in model files."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.persistence.same import identical
from tests.persistence.test_damaged_files import joined, parts, refused

from maxmargin import GaussianPrior, LinearSVC, MeasureSVC, RankSVM, load

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
S = np.array([[2.0, 0.5], [0.5, 1.0]])
PRIORS = [
    GaussianPrior(),
    GaussianPrior(np.arange(4.0), variance=2.0, intercept_mean=0.5),
    GaussianPrior([[1.0, 0.0, 0.0, 0.5]], precision=[1.0, 2.0, 3.0, 4.0], intercept_mean=[0.5]),
    GaussianPrior(covariance=np.eye(4) + 0.1),
    GaussianPrior(covariance=[S, 2.0 * S]),
]
FIELDS = ("mean", "variance", "covariance", "precision", "intercept_mean")


def same_numbers(a, b):
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, list) and np.ndim(a[0]) == 2:
        return len(a) == len(b) and all(map(same_numbers, a, b))
    return np.shape(a) == np.shape(b) and np.array_equal(a, b)


@pytest.mark.parametrize("prior", PRIORS, ids=range(len(PRIORS)))
def test_a_prior_comes_back(prior, path):
    svc = LinearSVC(C=0.1, prior=prior, loss="hinge").fit(X, Y)
    svc.save(path)
    again = load(path)
    for name in FIELDS:
        assert same_numbers(getattr(prior, name), getattr(again.prior, name)), name
    assert again.coef_.tobytes() == svc.coef_.tobytes()
    refitted = clone(again).fit(X, Y)
    assert (refitted.coef_ == svc.coef_).all()


def test_signs_and_fixed_weights_come_back(path):
    for est in (LinearSVC, MeasureSVC, RankSVM):
        params = {"fixed": {1: 0.5}, "nonnegative": [0], "nonpositive": (2,)}
        model = est(**params).fit(X, Y)
        model.save(path)
        again = load(path).get_params()
        for name, value in params.items():
            assert identical(again[name], value)
    several = LinearSVC(fixed={0: [0.1, 0.2, 0.3]}, loss="hinge").fit(X, np.arange(60) % 3)
    several.save(path)
    assert load(path).fixed == {0: [0.1, 0.2, 0.3]}


def test_damaged_files(path):
    LinearSVC(C=0.1, prior=GaussianPrior(np.ones(4), covariance=[S, S]), loss="hinge").fit(
        X, Y
    ).save(path)
    header, tensors = parts(path.read_bytes())
    refused(path, joined(header, {k: v for k, v in tensors.items() if k != "small"}), "small")
