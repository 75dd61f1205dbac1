"""The hinge with an intercept that is not penalized, by coordinates: every bound true, the optimum."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC
from maxmargin.core import SquaredNorm
from maxmargin.losses import Hinge, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate


def rows(seed=0, n=120, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + 1.5 + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1)


def objective(X, y, weight, C, w, b):
    return 0.5 * w @ w + C * (weight * np.maximum(0.0, 1.0 - y * (X @ w + b))).sum()


@pytest.mark.parametrize("intercept", [1.0, 3.0])
def test_bounds_of_every_epoch_are_below_the_optimum_and_reach_it(intercept):
    X, y, weight = rows()
    C, norm = 0.7, SquaredNorm(np.array([4]), 50.0)
    best = LinearSVC(C=C, penalize_intercept=False, tol=1e-9, solver=CuttingPlane(), loss="hinge")
    best.fit(X, y, weight)
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight, intercept=intercept)
    duals = risk.row_duals("coordinate", C, norm)
    reached = 0.0
    for seed in range(300):
        duals.improve(seed)
        estimate = duals.dual_estimate(C)
        assert estimate <= best.objective_ * (1 + 1e-9)
        if seed % 20 == 0:
            assert duals.dual_value(C) == pytest.approx(estimate, rel=1e-8, abs=1e-8)
            duals.check(risk.scores(risk.evaluate(duals.w.copy())))
        reached = max(reached, estimate)
    assert reached >= best.objective_ * (1 - 1e-3)
    w = duals.w
    F = objective(X, y, weight, C, w[:4], intercept * w[4])
    assert best.objective_ * (1 - 1e-9) <= F <= best.objective_ * (1 + 1e-2)


def test_a_bound_belongs_to_multipliers_that_balance():
    """The aggregate is a minorant of the risk whose plane does not look at the intercept."""
    X, y, weight = rows(3)
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight, intercept=1.0)
    duals = risk.row_duals("coordinate", 2.0, SquaredNorm(np.array([4]), 50.0))
    for seed in range(30):
        duals.improve(seed)
    cut, rng = duals.aggregate(), np.random.default_rng(0)
    assert cut.plane[-1] == 0.0
    assert 2.0 * cut.offset - 0.5 * (2.0 * cut.plane) @ (2.0 * cut.plane) == pytest.approx(
        duals.dual_estimate(2.0), rel=1e-9
    )
    for _ in range(200):
        v = rng.normal(size=5) * rng.choice([0.1, 1.0, 10.0, 100.0])
        assert cut.at(v) <= risk.evaluate(v).value + 1e-9 * abs(risk.evaluate(v).value)


@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0, 1e3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_the_optimum_of_cutting_planes(C, sparse):
    X, y, weight = rows(1)
    data = sp.csr_matrix(X) if sparse else X
    fits = [
        LinearSVC(C=C, penalize_intercept=False, tol=1e-5, solver=solver, loss="hinge").fit(
            data, y, weight
        )
        for solver in (DualCoordinate(), CuttingPlane(), "auto")
    ]
    F = [fit.objective_ for fit in fits]
    assert all(fit.converged_ for fit in fits)
    assert max(fit.lower_bound_ for fit in fits) <= min(F) * (1 + 1e-9)
    for fit in fits:
        again = objective(X, y, weight, C, fit.coef_[0], fit.intercept_[0])
        assert fit.objective_ == pytest.approx(again, rel=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_one_class_may_be_rare(share):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    y = np.where(rng.random(400) < share, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X[y > 0] += 0.7
    one = LinearSVC(
        C=1.0, penalize_intercept=False, tol=1e-4, solver=DualCoordinate(), loss="hinge"
    ).fit(X, y)
    other = LinearSVC(
        C=1.0, penalize_intercept=False, tol=1e-4, solver=CuttingPlane(), loss="hinge"
    ).fit(X, y)
    assert one.converged_
    assert one.lower_bound_ <= other.objective_ * (1 + 1e-9)
    assert other.lower_bound_ <= one.objective_ * (1 + 1e-9)


def test_what_it_does_not_serve_is_refused():
    X, y, _ = rows()
    norm = SquaredNorm(np.array([4]), 50.0)
    assert "coordinate" not in ScoreRisk(X, y, SquaredHinge(), intercept=1.0).methods(norm)
    other = SquaredNorm(np.array([0]), 50.0)
    assert "coordinate" not in ScoreRisk(X, y, Hinge(), intercept=1.0).methods(other)


def test_what_rounding_leaves_of_the_equation_is_not_claimed():
    """Weights over seven decades and a tiny C: what epochs leave of r adds up."""
    rng = np.random.default_rng(129)
    X, y = rng.normal(size=(45, 2)), np.where(rng.random(45) < 0.5, 1.0, -1.0)
    weight, C = 10.0 ** rng.uniform(-4, 4, 45), 1.5e-6
    bound = 1e4
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight, intercept=1.0)
    duals = risk.row_duals("coordinate", C, SquaredNorm(np.array([2]), bound))
    for seed in range(40):
        duals.improve(seed)
    duals._kept[np.argmax(duals._kept * y)] *= 1.0 + 1e-9  # as drift does
    claimed = duals.dual_value(C)
    alpha, total = duals._kept, duals._kept.sum()
    exact = alpha.astype(np.longdouble)
    w = (exact * y) @ X.astype(np.longdouble)
    true = exact.sum() - 0.5 * (w @ w) - bound * abs((exact * y).sum())
    assert claimed <= true
    assert claimed >= true - 1e-9 * total
    assert np.all((alpha >= 0.0) & (alpha <= C * weight))
