"""Bounds of the logistic loss against optima in 60 decimal digits, and against |grad F|^2 / 2."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxmargin import LinearSVC, minimize
from maxmargin.losses import Logistic, Multinomial
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto, CuttingPlane, Newton, RelativeGap
from maxmargin.testing import check_loss


def solve(H: list[list[Decimal]], b: list[Decimal]) -> list[Decimal]:
    """Gaussian elimination; H is positive definite."""
    n = len(b)
    H, b = [row[:] for row in H], b[:]
    for k in range(n):
        for i in range(k + 1, n):
            f = H[i][k] / H[k][k]
            H[i] = [x - f * y for x, y in zip(H[i], H[k], strict=True)]
            b[i] -= f * b[k]
    for k in reversed(range(n)):
        b[k] = (b[k] - sum((H[k][j] * b[j] for j in range(k + 1, n)), Decimal(0))) / H[k][k]
    return b


def optimum(X: Any, y: Any, C: float, K: int) -> tuple[Decimal, list[Decimal]]:
    """F* and W* of 1/2 |W|^2 + C sum_i (log sum_k exp <W_k, x_i> - <W_y, x_i>), by Newton's method with
    halved steps, in decimal arithmetic. K = 2 has one vector of weights: that of class 1."""
    rows, c = [[Decimal(float(v)) for v in x] for x in X], Decimal(C)
    d, free = X.shape[1], list(range(K)) if K > 2 else [1]

    def parts(w: list[Decimal]) -> tuple[Decimal, list[Decimal], list[list[Decimal]]]:
        F = sum((v * v for v in w), Decimal(0)) / 2
        g, H = w[:], [[Decimal(i == j) for j in range(len(w))] for i in range(len(w))]
        for x, label in zip(rows, y, strict=True):
            score = [Decimal(0)] * K
            for at, k in enumerate(free):
                score[k] = sum((w[at * d + j] * x[j] for j in range(d)), Decimal(0))
            total = sum((s.exp() for s in score), Decimal(0))
            p = [s.exp() / total for s in score]
            F += c * (total.ln() - score[label])
            for a, k in enumerate(free):
                for j in range(d):
                    g[a * d + j] += c * (p[k] - (k == label)) * x[j]
                    for b, l in enumerate(free):
                        bend = p[k] * ((k == l) - p[l])
                        for m in range(d):
                            H[a * d + j][b * d + m] += c * bend * x[j] * x[m]
        return F, g, H

    w = [Decimal(0)] * (d * len(free))
    F, g, H = parts(w)
    for _ in range(60):
        step, t = solve(H, g), Decimal(1)
        while (new := parts([a - t * b for a, b in zip(w, step, strict=True)]))[0] > F:
            t /= 2
            if t < Decimal("1e-9"):
                return F, w
        w, (F, g, H) = [a - t * b for a, b in zip(w, step, strict=True)], new
        if sum((v * v for v in g), Decimal(0)) < Decimal("1e-70"):
            break
    return F, w


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_bounds_enclose_the_optimum_in_60_digits(C: float, K: int, tol: float) -> None:
    rng = np.random.default_rng(K)
    X, y = rng.normal(size=(14, 2)), rng.integers(0, K, 14)
    svc = LinearSVC(
        C=C, loss="logistic", multi_class="multinomial", tol=tol, fit_intercept=False
    ).fit(X, y)
    with localcontext() as context:
        context.prec = 60
        best, w = optimum(X, y, C, K)
        assert Decimal(svc.lower_bound_) <= best <= Decimal(svc.objective_)
    assert svc.converged_
    if tol < 1e-3:
        exact = np.array([float(v) for v in w]).reshape(svc.coef_.shape)
        gap = svc.objective_ - svc.lower_bound_
        assert np.linalg.norm(svc.coef_ - exact) <= np.sqrt(2.0 * gap)  # F is strongly convex


@pytest.mark.parametrize("seed", range(20))
def test_cuts_values_and_slopes_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 7))
    check_loss(Multinomial(K), rng.integers(0, K, int(rng.integers(1, 30))), random_state=seed)


def multiclass(n: int = 60, d: int = 5, K: int = 4) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, K)) + rng.normal(size=(n, K)), axis=1)
    return X, y, rng.uniform(0.0, 2.0, n) * (rng.random(n) > 0.1)


@pytest.mark.parametrize("max_iter", [1, 2, 4])
def test_the_lower_bound_is_at_least_that_of_strong_convexity(max_iter: int) -> None:
    X, y, weight = multiclass()
    risk = ScoreRisk(X, y, Multinomial(4), sample_weight=weight, intercept=1.0)
    result = minimize(risk, 3.0, solver=Newton(), max_iter=max_iter, stopping=RelativeGap(1e-12))
    at = risk.evaluate(result.w).cut()
    gradient = result.w + 3.0 * at.plane
    bound = result.objective - 0.5 * float(gradient @ gradient)
    assert bound - 1e-9 * abs(bound) <= result.lower_bound <= result.objective


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_newton_steps_and_cutting_planes_have_the_same_optimum(C: float) -> None:
    X, y, weight = multiclass()
    offset = np.random.default_rng(5).normal(size=(len(y), 4))
    found = [
        minimize(
            ScoreRisk(X, y, Multinomial(4), sample_weight=weight, intercept=0.5, offset=offset),
            C,
            solver=solver,
            stopping=RelativeGap(1e-4),
        )
        for solver in (Newton(), CuttingPlane())
    ]
    assert all(result.converged for result in found)
    assert found[0].lower_bound <= found[1].objective
    assert found[1].lower_bound <= found[0].objective


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
@pytest.mark.parametrize("sparse", [False, True])
def test_many_features_are_trained_by_products_with_the_hessian(loss: Any, sparse: bool) -> None:
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1200)) * 10.0 ** rng.uniform(-2, 2, 1200)  # features of all scales
    y = rng.integers(0, 3, 80) if loss.n_outputs() else rng.choice([-1.0, 1.0], 80)
    rows = sp.csr_matrix(X) if sparse else X
    ranges = [(0, 30), (35, 80)]
    risk = ScoreRisk(rows, y, loss, intercept=1.0, ranges=ranges)
    result = minimize(risk, 0.1, solver=Auto(), stopping=RelativeGap(1e-6))
    assert result.converged
    assert {record.method for record in result.history} == {"newton"}
    here = np.r_[0:30, 35:80]
    plain = ScoreRisk(X[here], y[here], loss, intercept=1.0)
    other = minimize(plain, 0.1, solver=CuttingPlane(), stopping=RelativeGap(1e-3))
    assert result.lower_bound <= other.objective
    assert other.lower_bound <= result.objective


@pytest.mark.parametrize("n_classes", [1, 0])
def test_one_class_is_refused(n_classes: int) -> None:
    with pytest.raises(ValueError, match="integer of at least 2"):
        Multinomial(n_classes)


@pytest.mark.parametrize("seed", [28, 45, 82, 269])
def test_the_bound_of_a_free_intercept_costs_no_digits(seed):
    r = np.random.default_rng(seed)
    n, d = int(r.integers(4, 60)), int(r.integers(1, 12))
    X, k = r.normal(size=(n, d)) * 10.0 ** r.uniform(-2, 2), int(r.integers(2, 5))
    y, C = np.concatenate([np.arange(k), r.integers(0, k, n - k)]), 10.0 ** r.uniform(-4, 4)
    svc = LinearSVC(C=C, loss="logistic", penalize_intercept=False, tol=1e-9).fit(X, y)
    assert svc.stop_reason_ == "gap"
    assert svc.gap_ <= 1e-9


@pytest.mark.parametrize(
    ("loss", "kind"), [("logistic", "multinomial"), ("hinge", "crammer_singer")]
)
def test_free_intercepts_of_several_classes_are_centered(loss, kind):
    X, y = load_iris(return_X_y=True)
    svc = LinearSVC(C=0.1, loss=loss, multi_class=kind, penalize_intercept=False)
    svc = svc.fit(X + 3.0, y)
    assert abs(svc.intercept_.sum()) <= 1e-13 * np.abs(svc.intercept_).max()
    assert svc.converged_
