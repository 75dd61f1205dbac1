"""Predictions in single precision are those of double precision, whatever the number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from maxmargin import KernelSVC
from maxmargin.estimators.kernel import scores as _kernel_scores
from maxmargin.estimators.kernel.classes import pairs
from maxmargin.kernels import RBF, Linear, Polynomial, Sigmoid

D = 6


def model(kernel, n_classes, m=2500, seed=0, C=5.0, offset=0.0, joint=False):
    """A classifier as a fit leaves it: coefficients of both signs, some at the bound."""
    rng = np.random.default_rng(seed)
    est = KernelSVC(C=C)
    outputs = n_classes if joint else max(1, n_classes - 1)
    est.classes_ = np.arange(n_classes) * 10
    est.n_support_ = np.bincount(rng.integers(0, n_classes, m), minlength=n_classes)
    est.support_vectors_ = rng.normal(size=(m, D)) + offset
    est.dual_coef_ = np.clip(rng.normal(size=(outputs, m)) * 2 * C, -C, C)
    est.intercept_ = rng.normal(size=outputs if joint or n_classes == 2 else len(pairs(n_classes)))
    est.kernel_, est.n_features_in_ = kernel, D
    return est


def naive(est, X):
    """All functions, pair by pair, in double precision."""
    Z, K = est.support_vectors_, len(est.classes_)
    if isinstance(est.kernel_, RBF):
        square = ((X[:, None, :] - Z[None]) ** 2).sum(axis=2)
        values = np.exp(-est.kernel_.gamma * square)
    else:
        inner = est.kernel_.gamma * (X @ Z.T) + est.kernel_.coef0
        values = np.tanh(inner) if isinstance(est.kernel_, Sigmoid) else inner**est.kernel_.degree
    if K == 2 or len(est.dual_coef_) == K:
        return values @ est.dual_coef_.T + est.intercept_
    owner = np.repeat(np.arange(K), est.n_support_)
    out = []
    for k, (i, j) in enumerate(pairs(K)):
        own, other = owner == i, owner == j
        out.append(
            values[:, own] @ est.dual_coef_[j - 1, own]
            + values[:, other] @ est.dual_coef_[i, other]
            + est.intercept_[k]
        )
    return np.column_stack(out)


KERNELS = [RBF(0.3), RBF(20.0), Polynomial(0.1, 1.0, 3), Polynomial(0.5, 0.0, 2), Sigmoid(0.1, 0.2)]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("kind", ["two", "pairs", "joint"])
def test_scores_are_the_sums(kernel, kind):
    est = model(kernel, 2 if kind == "two" else 4, joint=kind == "joint")
    X = np.random.default_rng(1).normal(size=(300, D))
    expected = naive(est, X)
    est.decision_function_shape = "ovo"
    found = est.decision_function(X).reshape(expected.shape)
    size = np.abs(est.dual_coef_).sum() * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-6 * size)
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("kind", ["two", "pairs", "joint"])
def test_labels_are_those_of_double_precision(kernel, kind, monkeypatch):
    """Rows on the boundary itself, to the last digits of single precision."""
    est = model(kernel, 2 if kind == "two" else 4, joint=kind == "joint")
    rng = np.random.default_rng(2)
    ends = rng.normal(size=(2, 400, D))
    with monkeypatch.context() as patch:
        patch.setattr(_kernel_scores, "FEW", 10**9)  # all in double precision
        exact = model(kernel, len(est.classes_), joint=kind == "joint")
        for _ in range(40):  # halve the way between a row and one of another class
            middle = ends.mean(axis=0)
            same = exact.predict(middle) == exact.predict(ends[0])
            ends[0, same], ends[1, ~same] = middle[same], middle[~same]
        X = ends.mean(axis=0) + 1e-7 * rng.normal(size=(400, D))
        wanted = exact.predict(X)
    np.testing.assert_array_equal(est.predict(X), wanted)
    with monkeypatch.context() as patch:  # or else this test proves nothing
        patch.setattr(_kernel_scores, "ROUNDING", 0.0)
        assert (est.predict(X) != wanted).any()


def test_the_error_estimate_holds(monkeypatch):
    for seed, kernel in enumerate(KERNELS * 4):
        est = model(kernel, 2, seed=seed, m=1200, C=10.0 ** (seed % 4), offset=3.0 * (seed % 2))
        X = np.random.default_rng(seed).normal(size=(256, D)) + 3.0 * (seed % 2)
        est._ready()
        scores, error = est._evaluator._sums(X, est._evaluator._tiles)
        assert est._evaluator._tiles[0].rows.dtype == np.float32
        exact, _ = est._evaluator._sums(X, est._evaluator._packed(np.float64))
        assert (np.abs(scores - exact)[:, 0] <= 0.5 * error).all()


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_same_bits_for_any_number_of_threads(n_classes):
    est = model(RBF(0.2), n_classes)
    X = np.random.default_rng(3).normal(size=(1500, D))
    one = est.decision_function(X)
    for n_jobs in (2, 3, 7, -1):
        assert est.set_params(n_jobs=n_jobs).decision_function(X).tobytes() == one.tobytes()


def test_sparse_rows_and_single_rows():
    est = model(RBF(0.2), 3)
    X = np.round(np.random.default_rng(4).normal(size=(200, D)))
    scores = est.decision_function(X)
    np.testing.assert_allclose(est.decision_function(sp.csr_matrix(X)), scores, atol=1e-4)
    single = np.concatenate([est.decision_function(X[k : k + 1]) for k in range(200)])
    np.testing.assert_allclose(single, scores, atol=1e-4)
    est.support_vectors_ = sp.csr_matrix(est.support_vectors_)
    est._ready()
    np.testing.assert_allclose(est.decision_function(sp.csr_matrix(X)), scores, atol=1e-4)


def test_rows_far_from_zero():
    """Differences of large numbers: the rows are centered before anything is rounded."""
    est = model(RBF(0.3), 2, offset=1000.0)
    X = np.random.default_rng(5).normal(size=(300, D)) + 1000.0
    np.testing.assert_allclose(est.decision_function(X), naive(est, X)[:, 0], atol=0.02)


def test_votes_and_ties_are_those_of_libsvm():
    """A circle of classes has a tie in the middle: the first one wins."""
    rng = np.random.default_rng(0)
    angle = np.repeat(np.arange(5), 30) * 2 * np.pi / 5
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.4 * rng.normal(size=(150, 2))
    y = np.repeat(np.arange(5), 30)
    svc = SVC(kernel="linear", tol=1e-9, break_ties=False).fit(X, y)
    own = KernelSVC(kernel="linear")
    for name in ("classes_", "n_support_", "support_vectors_", "dual_coef_", "intercept_"):
        setattr(own, name, np.array(getattr(svc, name)))
    own.kernel_, own.n_features_in_ = Linear(), 2
    grid = rng.uniform(-1, 1, size=(4000, 2))
    wanted = svc.predict(grid)
    np.testing.assert_array_equal(own.predict(grid), wanted)
    np.testing.assert_allclose(own.decision_function(grid), svc.decision_function(grid), atol=1e-9)
    assert (own.decision_function(grid).argmax(axis=1) != wanted).any()  # there are ties


@pytest.mark.parametrize("kind", ["two", "pairs", "joint"])
def test_values_too_large_for_single_precision(kind):
    est = model(Polynomial(0.3, 1.0, 3), 2 if kind == "two" else 4, joint=kind == "joint")
    X = np.random.default_rng(6).normal(size=(200, D)) * 1e14
    expected = naive(est, X)
    assert np.isfinite(expected).all()
    est.decision_function_shape = "ovo"
    found = est.decision_function(X).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    if kind == "two":
        np.testing.assert_array_equal(est.predict(X), np.where(expected[:, 0] > 0, 10, 0))


def test_sparse_rows_far_from_zero():
    est = model(RBF(0.3), 2, offset=1e6)
    X = np.random.default_rng(7).normal(size=(300, D)) + 1e6
    expected = naive(est, X)[:, 0]
    est.support_vectors_ = sp.csr_matrix(est.support_vectors_)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(est.decision_function(rows), expected, atol=0.02)
        np.testing.assert_array_equal(est.predict(rows), np.where(expected > 0, 10, 0))
        _, error = est._evaluator._sums(rows, est._evaluator._tiles)
        assert error.max() < 0.1  # few rows are in doubt


@pytest.mark.parametrize(
    "kernel",
    [Linear(), Polynomial(1.0, 0.0, 2), Polynomial(1e-2, 1.0, 3), Sigmoid(1e-2, 0.0)],
    ids=str,
)
def test_products_that_cancel(kernel):
    """<x, z> is small though x and z are not: it is wrong by the last digits of |x| |z|."""
    est = model(kernel, 2, m=1200)
    rng = np.random.default_rng(8)
    far = np.array([1000.0, 1000.0, 0, 0, 0, 0])
    est.support_vectors_ = 0.01 * rng.normal(size=(1200, D)) + far
    X = 0.01 * rng.normal(size=(256, D)) + far * [1, -1, 1, 1, 1, 1]
    est._ready()
    scores, error = est._evaluator._sums(X, est._evaluator._tiles)
    exact, _ = est._evaluator._sums(X, est._evaluator._packed(np.float64))
    assert (np.abs(scores - exact)[:, 0] <= error).all()
    assert (error <= 1e6 * np.abs(scores - exact).max()).all()  # nor is all in doubt
