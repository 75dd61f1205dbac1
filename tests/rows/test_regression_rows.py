"""Losses of regression, scores with an offset, and one optimum for all methods over rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.risk import check_risk

from maxmargin import minimize
from maxmargin.core import SquaredNorm
from maxmargin.losses import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton, RelativeGap
from maxmargin.testing import check_loss

TUBES = [EpsilonInsensitive, SquaredEpsilonInsensitive]
tubes = pytest.mark.parametrize("tube", TUBES, ids=["plain", "squared"])


def rows(seed=0, n=80, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[0] = 0.0  # a row of zeros
    y = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) + 1.0
    return X, y, rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1), rng.normal(size=n)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 30), own=st.booleans())
@settings(max_examples=60, deadline=None)
def test_cuts_values_slopes_and_kinks_agree(seed, n, own):
    rng = np.random.default_rng(seed)
    # whole numbers, so that scores meet kinks exactly
    y = rng.integers(-2, 3, n).astype(float) if seed % 2 else rng.normal(size=n)
    labels = np.c_[y, rng.choice([0.0, 0.5, 1.0], n)] if own else y
    for tube in TUBES:
        for epsilon in (0.0, 1.0):
            check_loss(tube(epsilon), labels, random_state=seed, n_trials=8)
    for quantile in (0.5, 0.1, 0.99):
        check_loss(Quantile(quantile), y, random_state=seed, n_trials=8)


@tubes
@pytest.mark.parametrize("with_offset", [False, True])
def test_their_risks_are_risks(tube, with_offset):
    X, y, weight, offset = rows()
    check_risk(
        ScoreRisk(
            X,
            y,
            tube(0.3),
            sample_weight=weight,
            intercept=1.0,
            offset=offset if with_offset else None,
        )
    )


def problems():
    X, y, weight, offset = rows(3)
    sign = np.where(y > 1.0, 1.0, -1.0)
    rng = np.random.default_rng(4)
    cost = rng.random((3, 3)) + 0.5
    np.fill_diagonal(cost, 0.0)
    own = np.c_[y, rng.uniform(0.0, 1.0, len(y))]
    return {
        "hinge": (X, sign, Hinge(), offset, weight),
        "squared hinge": (X, sign, SquaredHinge(), offset, weight),
        "logistic": (X, sign, Logistic(), offset, weight),
        "one class": (X, sign, OneClass(), offset, weight),
        "classes": (X, rng.integers(0, 3, len(y)), CrammerSinger(cost), rng.normal(size=(80, 3)), weight),
        "tube": (X, y, EpsilonInsensitive(0.3), offset, weight),
        "squared tube": (X, y, SquaredEpsilonInsensitive(0.3), offset, weight),
        "own tubes": (X, own, EpsilonInsensitive(), offset, weight),
        "absolute": (X, y, EpsilonInsensitive(0.0), None, weight),
        "low quantile": (X, y, Quantile(0.1), offset, weight),
        "high quantile": (X, y, Quantile(0.9), None, weight),
    }  # fmt: skip


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("C", [0.03, 3.0])
def test_all_methods_have_one_optimum(name, C):
    X, y, loss, offset, weight = problems()[name]
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=0.5, offset=offset)
    offered = risk.methods(SquaredNorm())
    coordinates = {"newton", "coordinate", "block coordinate", "shard coordinate", "stream"}
    assert offered == {
        "logistic": {"newton", "quasi-newton"},
        "squared hinge": coordinates | {"quasi-newton"},
        "classes": {"coordinate", "stream"},
    }.get(name, coordinates)
    bounds = []
    solvers = {
        None: CuttingPlane(),
        "coordinate": DualCoordinate(),
        "block coordinate": DualCoordinate(blocks=3, rounds=2),
        "shard coordinate": DualCoordinate(blocks=3, dealing="shards"),
        "newton": Newton(),
        "stream": DualCoordinate(max_cached=15),
    }
    for method, solver in solvers.items():
        if method not in {None, *offered}:
            continue
        result = minimize(risk, C, solver=solver, stopping=RelativeGap(1e-5))
        assert result.converged
        bounds.append((result.lower_bound, result.objective))
    assert len(bounds) == 1 + len(offered - {"quasi-newton"})
    lowers, uppers = zip(*bounds, strict=True)
    assert max(lowers) <= min(uppers) * (1.0 + 1e-12)
    assert max(uppers) <= min(uppers) * (1.0 + 2e-5)


def test_an_offset_is_a_feature_of_fixed_weight():
    # L(o + X w) is the risk with o as one more column whose weight is one
    X, y, weight, offset = rows(5)
    wide = ScoreRisk(np.c_[X, offset], y, EpsilonInsensitive(0.2), sample_weight=weight)
    risk = ScoreRisk(X, y, EpsilonInsensitive(0.2), sample_weight=weight, offset=offset)
    w = np.random.default_rng(0).normal(size=6)
    assert risk.evaluate(w).value == pytest.approx(wide.evaluate(np.r_[w, 1.0]).value, rel=1e-12)


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (np.array([1, 2]), "float64"),
        (np.ones((2, 3)), "shape"),
        (np.array([1.0, np.nan]), "finite"),
        (np.array([[1.0, 0.1], [1.0, -0.1]]), "nonnegative"),
    ],
)
def test_what_is_no_target_is_refused(labels, word):
    with pytest.raises(ValueError, match=word):
        ScoreRisk(np.ones((2, 1)), labels, EpsilonInsensitive())
    with pytest.raises(ValueError, match="epsilon"):
        EpsilonInsensitive(-1.0)
    with pytest.raises(ValueError, match="quantile"):
        Quantile(1.0)
