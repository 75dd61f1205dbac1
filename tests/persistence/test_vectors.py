"""A regression and a ranker that are saved come back the same."""

import numpy as np
import pandas as pd
import pytest
from tests.persistence.same import identical
from tests.persistence.test_damaged_files import joined, parts, refused
from tests.persistence.test_persistence import round_trip

from maxmargin import LinearSVR, RankSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate

RNG = np.random.default_rng(0)
X, TARGETS = RNG.normal(size=(60, 4)), RNG.normal(size=60)
LEVELS, GROUPS = RNG.integers(0, 3, 60), RNG.integers(0, 6, 60)
FITS = [
    LinearSVR(),
    LinearSVR(epsilon=0.25, penalize_intercept=False, C=3),
    LinearSVR(loss="squared_epsilon_insensitive", solver=DualCoordinate(), fit_intercept=False),
    RankSVM(),
    RankSVM(pair_weight="difference", query_weight="equal", C=3),
    RankSVM(pair_weight=np.arange(9.0).reshape(3, 3)),
    RankSVM(pair_weight=[[0, 0, 0], [1, 0, 0], [2.5, 1, 0]]),
    RankSVM(loss="ndcg", k=5, solver=CuttingPlane(), warm_start=True),
]


def labels(est):
    return (LEVELS, GROUPS) if isinstance(est, RankSVM) else (TARGETS,)


@pytest.mark.parametrize("est", FITS, ids=str)
def test_round_trip(est, path):
    again = round_trip(est.fit(X, *labels(est)), path)
    for name in {"coef_", "intercept_", "levels_"} & set(vars(est)):
        assert identical(getattr(again, name), getattr(est, name))
    assert identical(again.predict(X), est.predict(X))
    assert again.score(X, *labels(est)) == est.score(X, *labels(est))


@pytest.mark.parametrize("est", [LinearSVR(), RankSVM()], ids=str)
def test_feature_names(est, path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    again = round_trip(est.fit(frame, *labels(est)), path)
    assert identical(again.feature_names_in_, est.feature_names_in_)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[list("dcba")])


@pytest.mark.parametrize("est", [LinearSVR(), RankSVM(pair_weight=np.ones((3, 3)))], ids=str)
def test_damaged_files(est, path):
    est.fit(X, *labels(est)).save(path)
    header, tensors = parts(path.read_bytes())
    refused(path, joined(header, dict(tensors, coef_=tensors["coef_"][:-1].copy())))
