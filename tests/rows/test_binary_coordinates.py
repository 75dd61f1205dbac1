"""Dual coordinate ascent over rows: a feasible point at every step, true bounds, the optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.referees.problems import solve_binary_qp

from maxmargin.core import Bundle, SquaredNorm
from maxmargin.losses import Hinge, SquaredHinge
from maxmargin.risks import ScoreRisk

both = pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared"])


def rows(seed=0, n=80, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1)


def opened(risk, C):
    return risk.row_duals("coordinate", C, SquaredNorm())


def dual_of(risk, duals, X, y, weight, C, intercept):
    """D(alpha), written out again."""
    alpha = duals.multipliers
    Z = np.hstack([X, np.full((len(X), 1), intercept)])
    w = Z.T @ (alpha * y)
    value = alpha.sum() - 0.5 * w @ w
    if isinstance(risk.rows.loss, SquaredHinge):
        used = alpha > 0
        value -= (alpha[used] ** 2 / (4.0 * C * weight[used])).sum()
    return value, w


@both
def test_every_epoch_leaves_a_feasible_point_and_its_value(loss):
    X, y, weight = rows()
    C = 0.7
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=2.0)
    duals = opened(risk, C)
    last = 0.0
    for seed in range(15):
        duals.improve(seed)
        alpha = duals.multipliers
        assert (alpha >= 0.0).all()
        assert not alpha[weight == 0.0].any()
        if isinstance(loss, Hinge):
            assert (alpha <= C * weight).all()
        value, w = dual_of(risk, duals, X, y, weight, C, 2.0)
        np.testing.assert_allclose(duals.w, w, rtol=1e-10, atol=1e-12)
        assert duals.dual_estimate(C) == pytest.approx(value, rel=1e-10)
        assert value >= last - 1e-12 * abs(last)  # ascent
        last = value
        duals.check(risk.scores(risk.evaluate(duals.w.copy())))


@both
def test_the_gap_of_an_epoch_at_rest_is_the_gap(loss, monkeypatch):
    # with one row per epoch nothing moves between visits: the estimate is then exact
    monkeypatch.setattr("maxmargin.duals.one_score.epochs_per_call", lambda work: 1)
    X, y, weight = rows(n=1)
    weight[:] = 1.3
    risk = ScoreRisk(X, y, loss, sample_weight=weight)
    duals = opened(risk, 2.0)
    for seed in range(3):
        at = risk.evaluate(duals.w.copy())
        gap = 0.5 * at.w @ at.w + 2.0 * at.value - duals.dual_estimate(2.0)
        assert duals.improve(seed).gap == pytest.approx(gap, abs=1e-12)


def test_reaches_the_reference_optimum():
    X, y, weight = rows()
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight, intercept=1.0)
    best = solve_binary_qp(X, y, C=0.5, weight=weight, intercept_scaling=1.0)[0]
    duals = opened(risk, 0.5)
    for seed in range(400):
        duals.improve(seed)
        if seed % 10 == 9:
            duals.check(risk.scores(risk.evaluate(duals.w.copy())))
    assert duals.dual_value(0.5) == pytest.approx(best, rel=1e-6)
    assert duals.dual_value(0.5) <= best * (1.0 + 1e-9)


@both
def test_multiples_bound_the_optimum_of_any_other_C(loss):
    X, y, weight = rows()
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0)
    duals = opened(risk, 0.1)
    for seed in range(30):
        duals.improve(seed)
    for C in (0.01, 0.1, 1.0, 10.0):
        exact = opened(risk, C)
        for seed in range(300):
            exact.improve(seed)
            if seed % 10 == 9:
                exact.check(risk.scores(risk.evaluate(exact.w.copy())))
        assert 0.0 < duals.dual_estimate(C) <= exact.dual_value(C) * (1.0 + 1e-6)
        assert duals.dual_value(C) == pytest.approx(duals.dual_estimate(C), rel=1e-9)


@both
def test_the_multipliers_are_one_cut(loss):
    X, y, weight = rows()
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0)
    duals = opened(risk, 0.3)
    for seed in range(10):
        duals.improve(seed)
    cut = duals.aggregate()
    rng = np.random.default_rng(1)
    for w in rng.normal(size=(20, risk.dim)):  # below the risk everywhere
        assert cut.offset + cut.plane @ w <= risk.evaluate(w).value + 1e-9
    bundle = Bundle(risk.dim)
    bundle.add([cut])
    assert bundle.solve(0.3).lower_bound >= duals.dual_estimate(0.3) - 1e-12


@both
def test_kinds_of_storage_agree(loss):
    X, y, weight = rows()
    values = []
    for data in (X, sp.csr_matrix(X), X.astype(np.float32), sp.csr_matrix(X.astype(np.float32))):
        risk = ScoreRisk(data, y, loss, sample_weight=weight, intercept=1.0)
        duals = opened(risk, 0.4)
        for seed in range(5):
            duals.improve(seed)
        values.append(duals.dual_value(0.4))
    np.testing.assert_allclose(values[:2], values[0], rtol=1e-12)
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


@both
def test_ranges_leave_the_other_rows_alone(loss):
    X, y, weight = rows(n=90)
    inside = np.r_[0:20, 50:90]
    part = ScoreRisk(X, y, loss, sample_weight=weight, ranges=[(0, 20), (50, 90)])
    alone = ScoreRisk(X[inside], y[inside], loss, sample_weight=weight[inside])
    assert part.n_examples == 60
    w = np.random.default_rng(0).normal(size=6)
    assert part.evaluate(w).value == pytest.approx(alone.evaluate(w).value)
    np.testing.assert_allclose(part.evaluate(w).cut().plane, alone.evaluate(w).cut().plane)
    a, b = opened(part, 0.5), opened(alone, 0.5)
    for seed in range(10):
        assert a.improve(seed).gap == pytest.approx(b.improve(seed).gap, rel=1e-9)
    assert not a.multipliers[20:50].any()
    np.testing.assert_allclose(a.multipliers[inside], b.multipliers, rtol=1e-9)


def test_dropped_rows_come_back_when_the_check_shows_them():
    X, y, weight = rows(n=400, d=20)
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight)
    duals = opened(risk, 50.0)
    dropped = False
    for seed in range(30):
        duals.improve(seed)
        dropped |= duals.n_active < np.count_nonzero(weight)
    assert dropped
    before = duals.n_active
    wrong = -risk.scores(risk.evaluate(duals.w.copy()))  # scores as if all margins had flipped
    duals.check(wrong)
    assert duals.n_active > before


def test_rescaling_scales_the_point_and_stays_in_the_box():
    X, y, weight = rows()
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight)
    duals = opened(risk, 0.3)
    for seed in range(20):
        duals.improve(seed)
    w = duals.w.copy()
    duals.rescale(0.9, SquaredNorm())
    np.testing.assert_allclose(duals.w, 3.0 * w, rtol=1e-10)
    assert duals.C == 0.9
    assert (duals.multipliers <= 0.9 * weight).all()
    duals.load(np.full(len(y), 7.0))  # brought into the box
    np.testing.assert_allclose(duals.multipliers, 0.9 * weight)


def test_rows_of_zeros_lose_one_each():
    X, y, _ = rows(n=20)
    X[3] = 0.0
    risk = ScoreRisk(X, y, Hinge(), sample_weight=np.ones(20))
    duals = opened(risk, 0.5)
    for seed in range(3):
        duals.improve(seed)
    assert duals.multipliers[3] == 0.5
    assert np.isfinite(duals.w).all()


def test_the_order_decides_the_bits_and_nothing_else_does():
    X, y, weight = rows(n=300)

    def run(seed):
        duals = opened(ScoreRisk(X, y, Hinge(), sample_weight=weight), 0.5)
        for k in range(5):
            duals.improve(seed + k)
        return duals.w.copy()

    np.testing.assert_array_equal(run(0), run(0))
    assert (run(0) != run(100)).any()
