"""A regression that is saved comes back the same."""

import numpy as np
import pandas as pd
import pytest
from tests.keeping.same import identical
from tests.keeping.test_damaged_files import joined, parts, refused, survives
from tests.keeping.test_persistence import round_trip

from maxmargin import LinearSVR
from maxmargin.solvers import DualCoordinate

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.normal(size=60)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"epsilon": 0.25, "penalize_intercept": False, "C": 3},
        {"loss": "squared_epsilon_insensitive", "solver": DualCoordinate(), "fit_intercept": False},
    ],
    ids=str,
)
def test_round_trip(params, path):
    est = LinearSVR(**params).fit(X, Y)
    again = round_trip(est, path)
    assert again.coef_.tobytes() == est.coef_.tobytes()
    assert again.intercept_.tobytes() == est.intercept_.tobytes()
    assert identical(again.predict(X), est.predict(X))
    assert again.score(X, Y) == est.score(X, Y)


def test_feature_names(path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    est = LinearSVR().fit(frame, Y)
    again = round_trip(est, path)
    assert identical(again.feature_names_in_, est.feature_names_in_)


def test_damaged_files(path):
    LinearSVR().fit(X, Y).save(path)
    data = path.read_bytes()
    header, tensors = parts(data)
    for cut in range(0, len(data), 97):
        refused(path, data[:cut])
    for at in range(0, len(data), 23):
        survives(path, data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
    refused(path, joined(header, dict(tensors, coef_=tensors["coef_"][:-1].copy())))
