"""Extreme scores without a loss do not reduce the accuracy of pairwise losses."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import RankSVM
from maxmargin.losses import PairHinge, RocAuc, query_labels


@pytest.mark.parametrize("importance", ["equal", "difference", "matrix"])
@pytest.mark.parametrize("seed", range(20))
def test_value_of_pairs(importance, seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 40))
    y, u = rng.integers(0, 5, m).astype(float), rng.uniform(0, 2, m)
    s = rng.normal(size=m) + rng.choice([0.0, 1e8, -1e10, 3e5], m)
    matrix = np.abs(rng.normal(size=(5, 5)))
    loss = PairHinge(matrix if importance == "matrix" else importance)
    right = np.longdouble(0)
    for i in range(m):
        for j in np.flatnonzero(y < y[i]):
            k = {"equal": 1.0, "difference": y[i] - y[j]}.get(
                importance, matrix[int(y[i]), int(y[j])]
            )
            gap = np.longdouble(s[i]) - np.longdouble(s[j])
            right += u[i] * u[j] * k * max(np.longdouble(0), 1 - gap)
    assert loss.value(s, query_labels(y), u) == pytest.approx(float(right), rel=1e-13)


@pytest.mark.parametrize("seed", range(20))
def test_value_of_the_roc_auc(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 40))
    y, u = np.where(np.arange(m) % 2, 1.0, -1.0), rng.uniform(0, 2, m)
    s = rng.normal(size=m) + rng.choice([0.0, 1e8, -1e10, 3e5], m)
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    right = np.longdouble(0)
    for i in positive:
        for j in negative:
            gap = np.longdouble(s[i]) - np.longdouble(s[j])
            right += u[i] * u[j] * max(np.longdouble(0), 1 - gap)
    right *= u.sum() / (u[positive].sum() * u[negative].sum())
    assert RocAuc().value(s, y, u) == pytest.approx(float(right), rel=1e-13)


def test_objective_of_a_ranking():
    X, y = np.array([[1.17e12], [0.0], [0.0]]), np.array([0.0, 0.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RankSVM(query_weight="equal").fit(X, y, groups=[3, 3, 3])
    s = X @ model.coef_
    value = 0.5 * float(model.coef_ @ model.coef_)
    value += 0.5 * sum(max(0.0, 1.0 - (s[2] - s[j])) for j in (0, 1))
    assert model.objective_ == pytest.approx(value, rel=1e-14)
