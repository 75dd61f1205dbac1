"""Rows of very few entries: products of sparse matrices give the values of dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import KernelSVC
from maxmargin.kernels import RBF, KernelRows, Linear, Polynomial, Sigmoid, thin

KERNELS = [RBF(0.3), Polynomial(0.5, 1.0, 3), Sigmoid(0.2, 0.1), Linear()]


def rows(n, seed=0, dtype=np.float64, d=5000):
    X = sp.random(n, d, density=0.005, format="csr", random_state=seed, dtype=dtype)
    X.data[:] = np.random.default_rng(seed).normal(size=len(X.data))
    return X


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("data", [np.float32, np.float64])
def test_values_are_those_of_dense_rows(kernel, dtype, data):
    A, B = rows(70, 1, data), rows(600, 2, data)
    A = sp.vstack([A, B[:3]], format="csr")  # equal rows
    assert thin.is_thin(A)
    left, right = KernelRows(kernel, A, dtype), KernelRows(kernel, B, dtype)
    dense = [KernelRows(kernel, X.toarray().astype(np.float64), np.float64) for X in (A, B)]
    wanted = dense[0].block(dense[1])
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(left.block(right), wanted, **close)
    assert left.block(right).dtype == dtype
    coef = np.random.default_rng(0).normal(size=(600, 2))
    np.testing.assert_allclose(left.times(right, coef), wanted @ coef, atol=1e-3)
    np.testing.assert_allclose(left.diagonal(), dense[0].diagonal())
    some = np.array([3, 9, 40])
    np.testing.assert_allclose(left.take(some).keep().block(right), wanted[some], **close)


def test_a_center_makes_no_difference():
    A = rows(50)
    center = np.asarray(A.mean(axis=0)).ravel()
    kernel = RBF(0.3)
    with_it, without = (KernelRows(kernel, A, np.float64, c) for c in (center, None))
    np.testing.assert_allclose(with_it.block(with_it), without.block(without), atol=1e-12)
    mixed = KernelRows(kernel, A.toarray(), np.float64, center)
    np.testing.assert_allclose(with_it.block(mixed), without.block(without), atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "nystrom"])
def test_fits_never_make_them_dense(method, monkeypatch):
    X = rows(300, d=20_000)
    y = np.asarray(X[:, :3000].sum(axis=1)).ravel() > 0
    wanted = KernelSVC(method=method, gamma=0.05, C=5.0).fit(X.toarray(), y)

    def refuse(self, *args):
        raise AssertionError("rows were made dense")

    monkeypatch.setattr(KernelRows, "_dense", refuse)
    est = KernelSVC(method=method, gamma=0.05, C=5.0).fit(X, y)
    assert est.objective_ == pytest.approx(wanted.objective_, rel=2e-3)
    assert (est.predict(X) == y).mean() > 0.9


def test_entries_that_are_stored_twice():
    X = rows(200)
    y = np.asarray(X[:, :1000].sum(axis=1)).ravel() > 0
    est = KernelSVC(method="exact", gamma=0.05).fit(X, y)
    halves = sp.csr_matrix(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )
    again = KernelSVC(method="exact", gamma=0.05).fit(halves, y)
    assert again.objective_ == est.objective_
    np.testing.assert_array_equal(est.decision_function(halves), est.decision_function(X))
