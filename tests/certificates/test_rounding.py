"""Bounds hold in exact arithmetic: F is computed in rational numbers, which represent every double
exactly."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from tests.nightly import first

from maxmargin import LinearSVC, LinearSVR
from maxmargin.duals.proofs import exact_scores
from maxmargin.losses import CrammerSinger, Hinge, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton

SOLVERS = {
    "auto": "auto",
    "coordinate": DualCoordinate(),
    "newton": Newton(),
    "planes": CuttingPlane(),
}


def exact(numbers):
    return [Fraction(float(number)) for number in np.ravel(numbers)]


def score(x, w, b):
    return sum((a * c for a, c in zip(exact(x), w, strict=True)), b)


def objective(X, losses, w, b, C):
    """F in rational numbers; ``losses`` maps each score to its loss."""
    w, b = exact(w), Fraction(float(b))
    norm = (sum(c * c for c in w) + b * b) / 2
    total = sum((loss(score(x, w, b)) for x, loss in zip(X, losses, strict=True)), Fraction(0))
    return norm + Fraction(float(C)) * total


def holds(model, true):
    """The objective is not below F, up to rounding, nor above it by more than a certified gap."""
    above = Fraction(float(model.objective_)) / true - 1
    return above >= -1e-10 and (above <= model.tol or not model.converged_)


def hinge(label, margin=1.0, squared=False):
    def loss(s):
        short = max(Fraction(0), Fraction(float(margin)) - int(label) * s)
        return short * short if squared else short

    return loss


def tube(target):
    return lambda s: abs(s - Fraction(float(target)))


def quiet(estimator, *args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*args, **more)


def test_small_targets_of_a_regression_with_few_samples():
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(10, 40)), 1e-4 * rng.normal(size=10)
    svr = LinearSVR(C=1e5).fit(X, y)
    w = np.linalg.lstsq(np.c_[X, np.ones(10)], y, rcond=None)[0]
    losses = [tube(target) for target in y]
    assert svr.lower_bound_ <= objective(X, losses, w[:-1], w[-1], 1e5)
    here = objective(X, losses, svr.coef_, svr.intercept_[0], 1e5)
    assert holds(svr, here)
    assert svr.converged_


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_regressions_with_fewer_samples_than_features(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 12)), int(rng.integers(12, 30))
    X, y = rng.normal(size=(n, d)), 10.0 ** rng.uniform(-6, 1) * rng.normal(size=n)
    C, tol = 10.0 ** rng.uniform(-2, 6), 10.0 ** rng.uniform(-6, -1)
    svr = quiet(LinearSVR(C=C, tol=tol), X, y)
    w = np.linalg.lstsq(np.c_[X, np.ones(n)], y, rcond=None)[0]
    losses = [tube(target) for target in y]
    assert svr.lower_bound_ <= objective(X, losses, w[:-1], w[-1], C)
    here = objective(X, losses, svr.coef_, svr.intercept_[0], C)
    assert svr.lower_bound_ <= here
    assert holds(svr, here)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seed", first(4, range(12)))
def test_wild_scales(name, seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 20)), int(rng.integers(1, 20))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-8, 8, d) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    C = 10.0 ** rng.uniform(-8, 8)
    svc = quiet(
        LinearSVC(C=C, solver=SOLVERS[name], max_iter=300, loss="hinge"), sp.csr_matrix(X), y
    )
    losses = [hinge(a) for a in y]
    here = objective(X, losses, svc.coef_[0], svc.intercept_[0], C)
    assert holds(svc, here)
    for scale in (0.0, 0.5, 1.0 - 1e-9, 1.0 + 1e-9, 2.0):
        at = objective(X, losses, scale * svc.coef_[0], scale * svc.intercept_[0], C)
        assert svc.lower_bound_ <= at


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), CrammerSinger(1.0 - np.eye(2))])
def test_a_cut_lies_above_the_risk_by_no_more_than_its_error(loss):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 6)) * 10.0 ** rng.uniform(-6, 6, 6)
    y = rng.choice([-1.0, 1.0], 40)
    labels = y if loss.n_outputs() is None else (y > 0).astype(np.int64)
    risk = ScoreRisk(X, labels, loss)
    cut = risk.evaluate(1e-6 * rng.normal(size=risk.dim)).cut()
    assert cut.error > 0.0
    for size in (0.0, 1e-9, 1.0, 1e6):
        v = size * rng.normal(size=risk.dim)
        plane, point = exact(cut.plane), exact(v)
        below = Fraction(cut.offset) + sum(a * b for a, b in zip(plane, point, strict=True))
        columns = [point[k :: risk.shape.n_columns] for k in range(risk.shape.n_columns)]
        total = Fraction(0)
        for x, label in zip(X, y, strict=True):
            scores = [score(x, column, Fraction(0)) for column in columns]
            if len(scores) == 2:
                short = 1 + (scores[0] - scores[1]) * (1 if label > 0 else -1)
            else:
                short = 1 - int(label) * scores[0]
            short = max(Fraction(0), short)
            total += short * short if loss.smooth else short
        assert below <= total + Fraction(cut.error * (1.0 + float(np.linalg.norm(v))))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Hinge(), CrammerSinger(1.0 - np.eye(2))], ids=["one", "two"])
def test_exact_scores_are_rounded_once(make, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 30)) * 10.0 ** rng.uniform(-12, 12, 30)
    X[:, 15:] = X[:, :15]
    columns = loss.n_outputs() or 1
    W = rng.normal(size=(31, columns))
    W[15:30] = -W[:15] * (1.0 + 1e-12 * rng.normal(size=(15, columns)))  # nearly cancel
    y = rng.choice([-1.0, 1.0], 50) if columns == 1 else rng.integers(0, 2, 50)
    rows = ScoreRisk(make(X), y, loss, intercept=0.3).rows
    true = [[float(score([*x, 0.3], exact(column), Fraction(0))) for column in W.T] for x in X]
    found = exact_scores(rows, W.ravel())
    np.testing.assert_array_equal(found.reshape(50, columns), true)
    plain = np.c_[X, np.full(50, 0.3)] @ W
    assert np.abs(plain - true).max() > 1e-6 * np.abs(true).min()


@pytest.mark.parametrize("n_features", [100, 6_000, 1_200_000])
def test_long_planes_keep_the_bound_on_their_rounding_error(n_features):
    rng = np.random.default_rng(0)
    X = sp.random(
        300, n_features, density=2000 / (300 * n_features), format="csr", random_state=rng
    )
    risk = ScoreRisk(X, rng.choice([-1.0, 1.0], 300), Hinge())
    at = risk.evaluate(rng.normal(size=risk.dim))
    assert at.cut().error > 0.0


def test_two_classes_with_costs_return_the_weights_that_were_evaluated():
    # the two columns of weights that the solver works on have a common part here, by rounding
    rng = np.random.default_rng(3)
    X = rng.normal(size=(27, 2)) * [3e10, 5e3]
    y, C, cost = rng.integers(0, 2, 27), 2e9, np.array([[0.0, 6.6e-4], [4.8e-4, 0.0]])
    svc = LinearSVC(
        C=C,
        multi_class="crammer_singer",
        cost=cost,
        solver=CuttingPlane(),
        max_iter=40,
        fit_intercept=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svc.fit(X, y)
    short = cost[y, 1 - y] - np.where(y == 1, 1.0, -1.0) * (X @ svc.coef_[0])
    F = 0.25 * svc.coef_[0] @ svc.coef_[0] + C * np.maximum(0.0, short).sum()
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    assert svc.lower_bound_ <= svc.objective_


@pytest.mark.parametrize("target", [1e-6, 1e-3, 1.0, -3e-9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-7])
def test_the_objective_of_tiny_targets_covers_the_rounding_of_residuals(target, epsilon):
    for x in (-6000.0, 7.0, 3e4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svr = LinearSVR(epsilon=epsilon).fit([[x]], [target])
        w, b = Fraction(float(svr.coef_[0])), Fraction(float(np.ravel(svr.intercept_)[0]))
        short = max(abs(Fraction(target) - w * Fraction(x) - b) - Fraction(epsilon), Fraction(0))
        F = (w * w + b * b) / 2 + short
        assert Fraction(svr.objective_) >= F * Fraction(1 - 1e-12) - Fraction(
            1e-300
        )  # of underflow
        assert Fraction(svr.lower_bound_) <= F
