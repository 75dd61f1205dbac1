"""Pairs of few rows that are solved in one call: certificates, agreement, and other inputs."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference_optima.kernel import binary, solve_kernel_qp, values

from maxmargin import KernelSVC, return_on_interrupt
from maxmargin.estimators.kernel import small_pairs

SLOWLY = {"max_iter": 10**6}  # single pairs


def problem(seed):
    """Rows of classes of different sizes, some of them equal, and weights."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(4), rng.integers(1, 9, size=4))
    X = (rng.normal(size=(len(y), 2)) + y[:, None]).round(0 if seed % 3 == 0 else 9)
    weight = rng.integers(1, 4, size=len(y)) * np.exp(3.0 * (seed % 2) * rng.normal(size=len(y)))
    shuffled = rng.permutation(len(y))
    return X[shuffled], y[shuffled], weight if seed % 4 else np.ones(len(y))


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("intercept", [True, False])
def test_bounds_enclose_the_optimum(seed, intercept):
    X, y, weight = problem(seed)
    C, tol = 10.0 ** (seed % 7 - 3), [1e-3, 1e-6][seed % 2]
    settings = {"C": C, "gamma": 0.5, "tol": tol, "fit_intercept": intercept}
    svc = KernelSVC(**settings).fit(X, y, weight)
    one = KernelSVC(**settings, **SLOWLY).fit(X, y, weight)
    assert svc.converged_
    assert any(record["method"] == "pairs" for record in svc.history_)
    assert svc.lower_bound_ <= one.objective_ * (1 + 1e-12)
    assert one.lower_bound_ <= svc.objective_ * (1 + 1e-12)
    K, lower, upper, attained, dual = values("rbf", X, 0.5), 0.0, 0.0, 0.0, 0.0
    for k, (i, j) in enumerate(combinations(range(4), 2)):
        rows = np.flatnonzero((y == i) | (y == j))
        sign, caps = np.where(y[rows] == i, 1.0, -1.0), C * weight[rows]
        part = K[np.ix_(rows, rows)]
        best = solve_kernel_qp(part, sign, C, weight[rows], intercept)
        lower, upper = lower + best.lower, upper + best.upper
        table = np.zeros((3, len(y)))
        table[:, svc.support_] = svc.dual_coef_
        beta = np.where(y[rows] == i, table[j - 1, rows], table[i, rows])
        assert (sign * beta >= 0.0).all()
        assert (sign * beta <= caps).all()
        if intercept:
            assert math.fsum(beta) == 0.0
        attained += binary(part, sign, caps, beta, svc.intercept_[k])
        dual += (sign * beta).sum() - 0.5 * beta @ part @ beta
    assert svc.lower_bound_ <= upper * (1 + 1e-12)
    assert lower <= svc.objective_ * (1 + 1e-12)
    assert attained <= svc.objective_ * (1 + 1e-14)
    assert dual >= svc.lower_bound_ * (1 - 1e-14)


def test_panels_and_inputs_agree(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 12)
    X = (rng.normal(size=(72, 3)) + y[:, None] / 2).round(3)
    weight = rng.integers(0, 3, size=72).astype(float)
    settings = {"gamma": 0.5, "tol": 1e-6}
    svc = KernelSVC(**settings).fit(X, y, weight)
    assert len(svc.history_) == 1
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    others = [
        KernelSVC(**settings).fit(sp.csr_matrix(X), y, weight),
        KernelSVC(kernel="precomputed", tol=1e-6).fit(K, y, weight),
        KernelSVC(
            kernel=lambda A, B: np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2)), tol=1e-6
        ).fit(X, y, weight),
    ]
    monkeypatch.setattr(small_pairs, "PANEL", 2000)
    monkeypatch.setattr(small_pairs, "WORK", 3000)
    others += [
        KernelSVC(**settings).fit(X, y, weight),
        KernelSVC(kernel="precomputed", tol=1e-6).fit(K, y, weight),
    ]
    for other in others:
        assert len(other.history_) == 1
        assert other.objective_ == pytest.approx(svc.objective_, rel=2e-6)
        np.testing.assert_allclose(other.intercept_, svc.intercept_, atol=1e-2)
        np.testing.assert_array_equal(other.n_support_.sum(), len(other.support_))
    again = KernelSVC(**settings, n_jobs=2).fit(X, y, weight)
    assert again.dual_coef_.tobytes() == others[3].dual_coef_.tobytes()
    assert (again.objective_, again.lower_bound_) == (others[3].objective_, others[3].lower_bound_)


def test_other_pairs_are_solved_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), [10, 50, 10, 10])
    X = rng.normal(size=(80, 2)) + y[:, None]
    whole = KernelSVC(tol=1e-6).fit(X, y)
    monkeypatch.setattr(small_pairs, "LIMIT", 55)
    mixed = KernelSVC(tol=1e-6).fit(X, y)
    assert mixed.objective_ == pytest.approx(whole.objective_, rel=2e-6)
    np.testing.assert_allclose(
        KernelSVC.decision_function(mixed, X), whole.decision_function(X), atol=1e-2
    )
    assert len(mixed.method_) == 6
    assert [text.startswith("exact: pairs") for text in mixed.method_] == [0, 1, 1, 0, 0, 1]
    few = KernelSVC(tol=1e-6, max_seconds=0.0)
    with pytest.warns(UserWarning, match="max_seconds"):
        few.fit(X, y)
    assert few.stop_reason_ == "max_seconds"


def test_an_interrupt_keeps_the_pairs_that_are_done(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 10)
    X = rng.normal(size=(50, 2)) + y[:, None]
    solve, calls = small_pairs.solve_pairs, []

    def interrupted(*args):
        calls.append(0)
        if len(calls) == 2:
            raise KeyboardInterrupt
        solve(*args)

    monkeypatch.setattr(small_pairs, "PANEL", 1000)
    monkeypatch.setattr(small_pairs, "solve_pairs", interrupted)
    with return_on_interrupt():
        svc = KernelSVC().fit(X, y)
    assert (svc.stop_reason_, svc.converged_, len(calls)) == ("interrupted", False, 2)
    assert 0.0 < svc.lower_bound_ <= svc.objective_ < np.inf
    assert len(svc.support_) > 0
    best = KernelSVC(**SLOWLY).fit(X, y)
    assert svc.lower_bound_ <= best.objective_
    assert svc.objective_ >= best.lower_bound_
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        KernelSVC().fit(X, y)


def test_indefinite_values_have_no_lower_bound():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(30, 30))
    K += K.T
    with pytest.warns(UserWarning, match="positive semidefinite"):
        svc = KernelSVC(kernel="precomputed").fit(K, np.repeat(np.arange(3), 10))
    assert (svc.certificate_, svc.lower_bound_) == ("measured", -np.inf)
