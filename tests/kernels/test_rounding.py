"""What rounding does in double precision is part of the bounds: rows far away, large C, many terms."""

import numpy as np
import pytest
from tests.reference_optima.kernel import solve_kernel_qp, values

from maxmargin import KernelSVC
from maxmargin.kernels import RBF, KernelRows, NystromMap, Polynomial, center_of
from maxmargin.risks import KernelRisk


def board(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def far_off(X):
    X = X.copy()
    X[-1] = [1e9, 1e7, 1e7]
    return X


CASES = {
    "large rows": (lambda X: X * 1e7, 1.0, 1.0),
    "a row far off": (far_off, 1.0, 1.0),
    "a narrow kernel": (lambda X: X, 1e15, 1.0),
    "a large C": (lambda X: X, 1.0, 1e6),
}


@pytest.mark.parametrize("method", ["exact", "map", "nystrom", "sampled"])
@pytest.mark.parametrize("name", CASES)
def test_bounds_hold_where_single_products_lose_all_digits(name, method):
    move, gamma, C = CASES[name]
    X, y = board()
    X = move(X)
    svc = KernelSVC(method=method, gamma=gamma, C=C, max_iter=200).fit(X, y)
    K, beta = values("rbf", X, gamma), np.zeros(len(X), dtype=np.longdouble)
    beta[svc.support_] = svc.dual_coef_[0]
    f = K @ beta
    F = 0.5 * beta @ f + C * np.maximum(0.0, 1.0 - y * (f + svc.intercept_[0])).sum()
    best = solve_kernel_qp(K, y, C, None, True)
    assert svc.objective_ >= F
    assert svc.objective_ >= best.lower
    assert svc.lower_bound_ <= best.upper


def test_a_row_far_off_leaves_the_others_their_certificate():
    X, y = board()
    svc = KernelSVC(method="exact", gamma=1.0).fit(far_off(X), y)
    assert svc.converged_


def test_distances_by_differences_are_those_of_extended_precision():
    X = board()[0] * 1e6 + 1e9
    rows = KernelRows(RBF(1e-11), X, np.float64, center_of(X))
    K = values("rbf", X, 1e-11)
    assert np.abs(rows.block(rows) - K).max() <= rows.rounding().value
    assert np.abs(rows.times(rows, np.ones(len(X))) - K.sum(axis=1)).max() < 1e-12


@pytest.mark.parametrize("kernel", [RBF(0.3), Polynomial(0.7, 1.0, 3), Polynomial(2.0, 0.5, 5)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_the_error_of_a_value_is_bounded(kernel, scale):
    X = np.random.default_rng(1).normal(size=(80, 20)) * scale
    rows = KernelRows(kernel, X, np.float64, center_of(X))
    long = X.astype(np.longdouble)
    if isinstance(kernel, RBF):
        K = values("rbf", X, kernel.gamma)
    else:
        gamma, coef0 = np.longdouble(kernel.gamma), np.longdouble(kernel.coef0)
        K = (gamma * (long @ long.T) + coef0) ** kernel.degree
    assert np.abs(rows.block(rows) - K).max() <= rows.rounding().value


def parted():
    """A first part is not far enough from the center for differences, but one of the other rows is."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5000, 1))
    X[:2100] += 100.0
    X[-1] = 1e4
    return X


def test_a_range_without_rows_far_off_has_the_error_bound_of_all_rows():
    X = parted()
    risk = KernelRisk(RBF(1.0), X, np.where(np.arange(len(X)) % 2, 1.0, -1.0), fit_intercept=False)
    beta = np.zeros(len(X))
    beta[:200] = np.random.default_rng(3).choice([-1.0, 1.0], 200)
    some = values("rbf", X[:200], 1.0) @ beta[:200]
    assert np.abs(risk.values(beta)[:200] - some).max() <= risk.rounding.of_scores(beta)


def test_landmarks_and_samples_have_the_error_bound_of_all_rows():
    X = parted()
    rows = KernelRows(RBF(1.0), X, np.float64, center_of(X))
    features = NystromMap(RBF(1.0), X[:20], rows.center, rows.far)
    K = values("rbf", X[:200], 1.0)
    assert np.abs(features.values(X[:200]) - K[:, features.kept]).max() <= rows.rounding().value
    part = rows.take(slice(0, 200))
    assert np.abs(part.block(part) - K).max() <= rows.rounding().value


def test_the_center_is_the_median():
    X = board(61)[0]
    for part in (X, X[:-1], X[:1], X[:2], X.astype(np.float32)):
        assert np.array_equal(center_of(part), np.median(part.astype(np.float64), axis=0))


def test_the_center_is_among_the_rows():
    X = far_off(board()[0])
    assert np.abs(center_of(X)).max() < 1.0
