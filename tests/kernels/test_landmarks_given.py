"""Landmarks that are given by number are rows of the data that ``fit`` got."""

import numpy as np
import pytest

from maxmargin import KernelSVC
from maxmargin.kernels import Nystrom

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 3))
Y = rng.integers(0, 3, size=150)


def test_several_classes():
    chosen = np.array([0, 1, 2, 3, 4, 5, 77, 149])
    assert len(np.unique(Y[chosen])) == 3
    est = KernelSVC(method=Nystrom(landmarks=chosen)).fit(X, Y)
    np.testing.assert_array_equal(np.sort(est.support_), chosen)
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):  # as the pair alone would be
        own = np.flatnonzero(np.isin(Y, [i, j]))
        places = np.flatnonzero(np.isin(own, chosen))
        options = {"gamma": est.kernel_.gamma}
        alone = KernelSVC(method=Nystrom(landmarks=places), **options).fit(X[own], Y[own])
        assert est.intercept_[k] == pytest.approx(-alone.intercept_[0], abs=1e-2)


def test_rows_without_weight():
    y, weight = (Y > 0).astype(int), np.ones(150)
    weight[:5] = 0.0
    est = KernelSVC(method=Nystrom(landmarks=[7, 149, 20])).fit(X, y, weight)
    assert sorted(est.support_) == [7, 20, 149]
    with pytest.raises(ValueError, match="row 3 has no weight"):
        KernelSVC(method=Nystrom(landmarks=[7, 3])).fit(X, y, weight)


@pytest.mark.parametrize(
    ("method", "match"),
    [
        (Nystrom(landmarks=[150]), "0 to 149"),
        (Nystrom(landmarks=[-1, 3]), "0 to 149"),
        (Nystrom(landmarks=np.arange(150) < 9), "flatnonzero"),
        (Nystrom(landmarks=[1.5]), "flatnonzero"),
        (Nystrom(landmarks=[]), "flatnonzero"),
        (Nystrom(landmarks=np.flatnonzero(Y == 1)[:4]), "a pair of classes has none"),
        (Nystrom(2.5), "n_landmarks must be an integer of at least 1 or None, got 2.5"),
        (Nystrom("a"), "n_landmarks must be .* got 'a'"),
        (Nystrom(0), "n_landmarks must be .* got 0"),
        (Nystrom(landmarks="all"), "landmarks='all'"),
    ],
    ids=str,
)
def test_what_is_refused(method, match):
    with pytest.raises(ValueError, match=match):
        KernelSVC(method=method).fit(X, Y)
