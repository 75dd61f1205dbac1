"""Coordinate ascent for regression and for scores with an offset: feasible, true, and the optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.risk import check_risk

from maxmargin import minimize
from maxmargin.core import Bundle, SquaredNorm
from maxmargin.losses import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
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


def opened(risk, C):
    return risk.row_duals("coordinate", C, SquaredNorm())


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


@tubes
@pytest.mark.parametrize("own", [False, True], ids=["common", "own"])
def test_every_epoch_leaves_a_feasible_point_and_its_value(tube, own):
    X, y, weight, offset = rows()
    width = np.random.default_rng(1).uniform(0.0, 1.0, len(y)) if own else np.full(len(y), 0.3)
    C, squared = 0.7, tube is SquaredEpsilonInsensitive
    labels = np.c_[y, width] if own else y
    risk = ScoreRisk(X, labels, tube(0.3), sample_weight=weight, intercept=2.0, offset=offset)
    duals = opened(risk, C)
    Z, last = np.hstack([X, np.full((len(X), 1), 2.0)]), 0.0
    for seed in range(15):
        duals.improve(seed)
        beta = duals.multipliers
        assert not beta[weight == 0.0].any()
        assert squared or (np.abs(beta) <= C * weight).all()
        w = Z.T @ beta
        value = (y - offset) @ beta - width @ np.abs(beta) - 0.5 * w @ w
        if squared:
            used = beta != 0.0
            value -= (beta[used] ** 2 / (4.0 * C * weight[used])).sum()
        np.testing.assert_allclose(duals.w, w, rtol=1e-10, atol=1e-12)
        assert duals.dual_estimate(C) == pytest.approx(value, rel=1e-10)
        assert value >= last - 1e-12 * abs(last)  # ascent
        last = value
        duals.check(risk.scores(risk.evaluate(duals.w.copy())))
    cut = duals.aggregate()
    for w in np.random.default_rng(2).normal(size=(20, risk.dim)):  # below the risk everywhere
        assert cut.offset + cut.plane @ w <= risk.evaluate(w).value + 1e-9
    bundle = Bundle(risk.dim)
    bundle.add([cut])
    assert bundle.solve(C).lower_bound >= duals.dual_estimate(C) - 1e-12


@tubes
def test_the_gap_of_an_epoch_at_rest_is_the_gap(tube, monkeypatch):
    monkeypatch.setattr("maxmargin.duals.one_score.epochs_per_call", lambda work: 1)
    X, y, _, offset = rows()
    risk = ScoreRisk(X[5:6], y[5:6], tube(0.1), sample_weight=[1.3], offset=offset[5:6])
    duals = opened(risk, 2.0)
    for seed in range(3):
        at = risk.evaluate(duals.w.copy())
        gap = 0.5 * at.w @ at.w + 2.0 * at.value - duals.dual_estimate(2.0)
        assert duals.improve(seed).gap == pytest.approx(gap, abs=1e-12)


@tubes
def test_multiples_bound_the_optimum_of_any_other_C(tube):
    X, y, weight, offset = rows()
    risk = ScoreRisk(X, y, tube(0.3), sample_weight=weight, intercept=1.0, offset=offset)
    duals = opened(risk, 0.1)
    for seed in range(30):
        duals.improve(seed)
    for C in (0.01, 0.1, 1.0, 10.0):
        best = minimize(risk, C, solver=Newton(), stopping=RelativeGap(1e-8))
        assert 0.0 < duals.dual_estimate(C) <= best.objective * (1.0 + 1e-9)
        assert duals.dual_value(C) == pytest.approx(duals.dual_estimate(C), rel=1e-9)
    duals.rescale(1.0, SquaredNorm())
    value = duals.dual_estimate(1.0)
    assert duals.dual_value(1.0) == pytest.approx(value, rel=1e-9)
    kept = duals.multipliers.copy()
    other = opened(risk, 1.0)
    other.load(kept)
    assert other.dual_value(1.0) == pytest.approx(value, rel=1e-9)


@tubes
def test_kinds_of_storage_agree(tube):
    X, y, weight, offset = rows()
    values = []
    for data in (X, sp.csr_matrix(X), X.astype(np.float32), sp.csr_matrix(X.astype(np.float32))):
        risk = ScoreRisk(data, y, tube(0.2), sample_weight=weight, intercept=1.0, offset=offset)
        duals = opened(risk, 0.4)
        for seed in range(5):
            duals.improve(seed)
        values.append(duals.dual_value(0.4))
    np.testing.assert_allclose(values[:2], values[0], rtol=1e-12)
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


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
    }  # fmt: skip


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("C", [0.03, 3.0])
def test_all_methods_have_one_optimum(name, C):
    X, y, loss, offset, weight = problems()[name]
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=0.5, offset=offset)
    offered = risk.methods(SquaredNorm())
    assert offered == {
        "logistic": {"newton"},
        "classes": {"coordinate", "dense QP", "stream"},
    }.get(
        name,
        {"newton", "coordinate", "block coordinate", "shard coordinate", "dense QP", "stream"},
    )
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
    assert len(bounds) == 1 + len(offered - {"dense QP"})  # see test_dense_rows.py
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
