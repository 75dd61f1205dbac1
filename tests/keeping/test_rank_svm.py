"""A ranker that is saved comes back the same."""

import numpy as np
import pandas as pd
import pytest
from tests.keeping.same import identical
from tests.keeping.test_damaged_files import joined, parts, refused, survives
from tests.keeping.test_persistence import round_trip

from maxmargin import RankSVM
from maxmargin.solvers import CuttingPlane

RNG = np.random.default_rng(0)
X, Y, GROUPS = RNG.normal(size=(60, 4)), RNG.integers(0, 3, 60), RNG.integers(0, 6, 60)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"pair_weight": "difference", "query_weight": "equal", "C": 3},
        {"pair_weight": np.arange(9.0).reshape(3, 3)},
        {"pair_weight": [[0, 0, 0], [1, 0, 0], [2.5, 1, 0]]},
        {"loss": "ndcg", "k": 5, "solver": CuttingPlane(slacks="blocks"), "warm_start": True},
    ],
    ids=str,
)
def test_round_trip(params, path):
    est = RankSVM(**params).fit(X, Y, GROUPS)
    again = round_trip(est, path)
    assert identical(again.levels_, est.levels_)
    assert again.coef_.tobytes() == est.coef_.tobytes()
    assert identical(again.predict(X), est.predict(X))
    assert again.score(X, Y, GROUPS) == est.score(X, Y, GROUPS)


def test_feature_names(path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    est = RankSVM().fit(frame, Y, GROUPS)
    again = round_trip(est, path)
    assert identical(again.feature_names_in_, est.feature_names_in_)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[list("dcba")])


def test_damaged_files(path):
    RankSVM(pair_weight=np.ones((3, 3))).fit(X, Y, GROUPS).save(path)
    data = path.read_bytes()
    header, tensors = parts(data)
    for cut in range(0, len(data), 97):
        refused(path, data[:cut])
    for at in range(0, len(data), 23):
        survives(path, data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
    refused(path, joined(header, dict(tensors, coef_=tensors["coef_"][:-1].copy())))
