"""Dual coordinate ascent over rows with one score each: feasible points, true bounds, and the optimum."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference_optima.problems import solve_binary_qp, solve_regression_qp

from maxmargin.core import Bundle, SquaredNorm
from maxmargin.losses import EpsilonInsensitive, Hinge, SquaredEpsilonInsensitive, SquaredHinge
from maxmargin.risks import ScoreRisk

LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "epsilon": EpsilonInsensitive(0.3),
    "squared epsilon": SquaredEpsilonInsensitive(0.3),
    "own epsilons": EpsilonInsensitive(),
}
every = pytest.mark.parametrize("name", LOSSES)


def rows(name="hinge", seed=0, n=80, d=6):
    """A problem with a row of zeros, rows without weight, and an offset of every score."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[0] = 0.0
    y = X @ rng.normal(size=d) + rng.normal(size=n) + 0.3
    y = np.where(y > 0, 1.0, -1.0) if "hinge" in name else y
    width = rng.uniform(0.0, 1.0, n) if name == "own epsilons" else np.full(n, 0.3)
    return SimpleNamespace(
        X=X,
        y=y,
        labels=np.c_[y, width] if name == "own epsilons" else y,
        weight=rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1),
        offset=rng.normal(size=n),
        width=width,
        loss=LOSSES[name],
        two_sided="hinge" not in name,
        squared="squared" in name,
    )


def risk_of(p, intercept=1.0, X=None, **options):
    options = {"sample_weight": p.weight, "offset": p.offset, **options}
    return ScoreRisk(p.X if X is None else X, p.labels, p.loss, intercept=intercept, **options)


def opened(risk, C, sweeps=0, check=False):
    duals = risk.row_duals("coordinate", C, SquaredNorm())
    for seed in range(sweeps):
        duals.improve(seed)
        if check and seed % 10 == 9:
            duals.check(risk.scores(risk.evaluate(duals.w.copy())))
    return duals


def dual_of(p, alpha, C, intercept):
    """D(alpha) and w, written out again."""
    beta = alpha if p.two_sided else alpha * p.y
    w = np.hstack([p.X, np.full((len(p.X), 1), intercept)]).T @ beta
    linear = p.y @ alpha - p.width @ np.abs(alpha) if p.two_sided else alpha.sum()
    used = alpha != 0.0
    curved = (alpha[used] ** 2 / (4.0 * C * p.weight[used])).sum() if p.squared else 0.0
    return linear - p.offset @ beta - 0.5 * w @ w - curved, w


@every
def test_every_epoch_leaves_a_feasible_point_and_its_value(name):
    p, C, last = rows(name), 0.7, 0.0
    risk = risk_of(p, 2.0)
    duals = opened(risk, C)
    for seed in range(15):
        duals.improve(seed)
        alpha = duals.multipliers
        assert p.two_sided or (alpha >= 0.0).all()
        assert not alpha[p.weight == 0.0].any()
        assert p.squared or (np.abs(alpha) <= C * p.weight).all()
        value, w = dual_of(p, alpha, C, 2.0)
        np.testing.assert_allclose(duals.w, w, rtol=1e-10, atol=1e-12)
        assert duals.dual_estimate(C) == pytest.approx(value, rel=1e-10)
        assert value >= last - 1e-12 * abs(last)  # ascent
        last = value
        duals.check(risk.scores(risk.evaluate(duals.w.copy())))
    cut = duals.aggregate()  # the multipliers are one cut
    for w in np.random.default_rng(2).normal(size=(20, risk.dim)):  # below the risk everywhere
        assert cut.offset + cut.plane @ w <= risk.evaluate(w).value + 1e-9
    bundle = Bundle(risk.dim)
    bundle.add([cut])
    assert bundle.solve(C).lower_bound >= duals.dual_estimate(C) - 1e-12


@every
def test_the_gap_of_an_epoch_at_rest_is_the_gap(name, monkeypatch):
    # with one row per epoch nothing moves between visits: the estimate is then exact
    monkeypatch.setattr("maxmargin.duals.one_score.epochs_per_call", lambda work: 1)
    p = rows(name)
    risk = ScoreRisk(p.X[5:6], p.labels[5:6], p.loss, sample_weight=[1.3], offset=p.offset[5:6])
    duals = opened(risk, 2.0)
    for seed in range(3):
        at = risk.evaluate(duals.w.copy())
        gap = 0.5 * at.w @ at.w + 2.0 * at.value - duals.dual_estimate(2.0)
        assert duals.improve(seed).gap_estimate == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "solve", "options"),
    [("hinge", solve_binary_qp, {}), ("epsilon", solve_regression_qp, {"epsilon": 0.3})],
)
def test_reaches_the_reference_optimum(name, solve, options):
    p = rows(name)
    best = solve(p.X, p.y, C=0.5, weight=p.weight, **options)[0]
    duals = opened(risk_of(p, offset=None), 0.5, 400, check=True)
    assert duals.dual_value(0.5) == pytest.approx(best, rel=1e-6)
    assert duals.dual_value(0.5) <= best * (1.0 + 1e-9)


@every
def test_multiples_bound_the_optimum_of_any_other_C(name):
    risk = risk_of(rows(name))
    duals = opened(risk, 0.1, 30)
    for C in (0.01, 0.1, 1.0, 10.0):
        exact = opened(risk, C, 300, check=True)
        assert 0.0 < duals.dual_estimate(C) <= exact.dual_value(C) * (1.0 + 1e-6)
        assert duals.dual_value(C) == pytest.approx(duals.dual_estimate(C), rel=1e-9)
    duals.rescale(1.0, SquaredNorm())
    value = duals.dual_estimate(1.0)
    assert duals.dual_value(1.0) == pytest.approx(value, rel=1e-9)
    other = opened(risk, 1.0)
    other.load(duals.multipliers.copy())
    assert other.dual_value(1.0) == pytest.approx(value, rel=1e-9)


@every
def test_kinds_of_storage_agree(name):
    p, values = rows(name), []
    X = p.X
    for data in (X, sp.csr_matrix(X), X.astype(np.float32), sp.csr_matrix(X.astype(np.float32))):
        values.append(opened(risk_of(p, X=data), 0.4, 5).dual_value(0.4))
    np.testing.assert_allclose(values[:2], values[0], rtol=1e-12)
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


@every
def test_ranges_leave_the_other_rows_alone(name):
    p = rows(name, n=90)
    inside = np.r_[0:20, 50:90]
    part = risk_of(p, 0.0, ranges=[(0, 20), (50, 90)])
    alone = ScoreRisk(
        p.X[inside],
        p.labels[inside],
        p.loss,
        sample_weight=p.weight[inside],
        offset=p.offset[inside],
    )
    assert part.n_examples == 60
    w = np.random.default_rng(0).normal(size=6)
    assert part.evaluate(w).value == pytest.approx(alone.evaluate(w).value)
    np.testing.assert_allclose(part.evaluate(w).cut().plane, alone.evaluate(w).cut().plane)
    a, b = opened(part, 0.5), opened(alone, 0.5)
    for seed in range(10):
        assert a.improve(seed).gap_estimate == pytest.approx(b.improve(seed).gap_estimate, rel=1e-9)
    assert not a.multipliers[20:50].any()
    np.testing.assert_allclose(a.multipliers[inside], b.multipliers, rtol=1e-9)


def test_dropped_rows_come_back_when_the_check_shows_them():
    p = rows(n=400, d=20)
    risk = risk_of(p, 0.0, offset=None)
    duals = opened(risk, 50.0)
    dropped = False
    for seed in range(30):
        duals.improve(seed)
        dropped |= duals.n_active < np.count_nonzero(p.weight)
    assert dropped
    before = duals.n_active
    duals.check(-risk.scores(risk.evaluate(duals.w.copy())))  # as if all margins had flipped
    assert duals.n_active > before


def test_rescaling_scales_the_point_and_stays_in_the_box():
    p = rows()
    duals = opened(risk_of(p, 0.0), 0.3, 20)
    w = duals.w.copy()
    duals.rescale(0.9, SquaredNorm())
    np.testing.assert_allclose(duals.w, 3.0 * w, rtol=1e-10)
    assert duals.C == 0.9
    assert (duals.multipliers <= 0.9 * p.weight).all()
    duals.load(np.full(len(p.y), 7.0))  # brought into the box
    np.testing.assert_allclose(duals.multipliers, 0.9 * p.weight)


def test_rows_of_zeros_lose_one_each():
    p = rows(n=20)
    duals = opened(risk_of(p, 0.0, sample_weight=np.ones(20), offset=None), 0.5, 3)
    assert duals.multipliers[0] == 0.5
    assert np.isfinite(duals.w).all()


def test_the_order_decides_the_bits_and_nothing_else_does():
    p = rows(n=300)

    def run(seed):
        duals = opened(risk_of(p, 0.0), 0.5)
        for k in range(5):
            duals.improve(seed + k)
        return duals.w.copy()

    np.testing.assert_array_equal(run(0), run(0))
    assert (run(0) != run(100)).any()
