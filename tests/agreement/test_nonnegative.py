"""Nonnegative weights by coordinate ascent: u must be stored, not the clipped w.

Section 5 of Ramanan's paper reads as if w itself were clipped after every step. That loses how far
u = sum_i alpha_i y_i x_i is below zero: when later steps increase it again, w increases too early.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference_optima.problems import solve_binary_prior_qp

from maxmargin import GaussianPrior, LinearSVC
from maxmargin.solvers import CuttingPlane, DualCoordinate

C = 1.0


def problem(seed=7, n=40, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5
    y = np.where(X @ np.array([-1.0, 0.3, 1.0, -0.5]) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def by_coordinates(X, y, C, in_place, epochs=2000):
    """Plain coordinate ascent over the rows with nonnegative weights.

    ``in_place``: clip the stored vector itself, as the paper's step reads.
    """
    n, d = X.shape
    alpha, u = np.zeros(n), np.zeros(d)
    order = np.random.default_rng(0)
    for _ in range(epochs):
        for i in order.permutation(n):
            w = np.maximum(u, 0.0)
            new = np.clip(alpha[i] + (1.0 - y[i] * (X[i] @ w)) / (X[i] @ X[i]), 0.0, C)
            u += (new - alpha[i]) * y[i] * X[i]
            alpha[i] = new
            if in_place:
                u = np.maximum(u, 0.0)
    return np.maximum(u, 0.0), alpha


def objective(X, y, C, w):
    return 0.5 * w @ w + C * np.maximum(0.0, 1.0 - y * (X @ w)).sum()


def optimum(X, y, signs):
    best, w, _ = solve_binary_prior_qp(
        X, y, C, np.eye(X.shape[1]), np.zeros(X.shape[1]), signs=signs, scaling=1e-9
    )
    return best, w


@pytest.mark.slow
def test_clipping_in_place_is_wrong():
    X, y = problem()
    best, _ = optimum(X, y, np.ones(4))
    wrong, alpha = by_coordinates(X, y, C, in_place=True)
    assert objective(X, y, C, wrong) > 1.1 * best
    # and it stays there: its supposed dual value never reaches F
    assert alpha.sum() - 0.5 * wrong @ wrong < 0.95 * best


@pytest.mark.slow
def test_keeping_u_is_right():
    X, y = problem()
    best, w = optimum(X, y, np.ones(4))
    right, alpha = by_coordinates(X, y, C, in_place=False)
    assert objective(X, y, C, right) == pytest.approx(best, rel=1e-6)
    assert alpha.sum() - 0.5 * right @ right == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(right, w, atol=1e-4)


@pytest.mark.parametrize("solver", [DualCoordinate(), CuttingPlane(), "auto"], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("flipped", [False, True])
def test_the_library_keeps_u(solver, sparse, flipped):
    X, y = problem()
    best, w = optimum(X, y, np.ones(4))
    if flipped:  # the same problem with nonpositive weights
        X, w = -X, -w
    where = {"nonpositive" if flipped else "nonnegative": range(4)}
    svc = LinearSVC(C=C, tol=1e-7, fit_intercept=False, solver=solver, **where, loss="hinge")
    svc.fit(sp.csr_matrix(X) if sparse else X, y)
    assert svc.converged_
    assert svc.lower_bound_ <= best + 1e-8
    assert svc.objective_ == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(svc.coef_[0], w, atol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("center", [0.0, 0.4, -0.4])
def test_coordinates_agree_with_cutting_planes(loss, center):
    """Also with a large C, which is reached in stages, and with nonzero floors."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 8))
    y = np.where(X @ rng.normal(size=8) + rng.normal(size=300) > 0, 1, -1)
    params = {"loss": loss, "tol": 1e-5, "nonnegative": [0, 2, 4], "nonpositive": [1, 3]}
    params["prior"] = GaussianPrior(np.full(8, center), variance=np.linspace(0.5, 2.0, 8))
    for C in (0.01, 5.0):
        one = LinearSVC(C=C, solver=DualCoordinate(), **params).fit(X, y)
        other = LinearSVC(C=C, solver=CuttingPlane(), **params).fit(X, y)
        assert one.converged_
        assert other.converged_
        assert one.lower_bound_ <= other.objective_ * (1 + 1e-9)
        assert other.lower_bound_ <= one.objective_ * (1 + 1e-9)
        assert one.objective_ == pytest.approx(other.objective_, rel=2e-5)


def test_every_state_of_the_multipliers_is_a_bound():
    """Interrupted at any epoch or stage, the bounds recomputed from the multipliers hold."""
    X, y = problem(n=60)
    best, _ = optimum(X, y, np.array([1.0, -1.0, 1.0, 0.0]))
    for limit in range(1, 12):
        svc = LinearSVC(
            C=C, fit_intercept=False, solver=DualCoordinate(), nonnegative=[0, 2], nonpositive=[1],
            max_iter=limit, tol=1e-9, loss="hinge",
        ).fit(X, y)  # fmt: skip
        assert svc.lower_bound_ <= best * (1 + 1e-9)
        assert best <= svc.objective_ * (1 + 1e-9)
