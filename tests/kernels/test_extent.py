"""Kernel values of any size, and functions that are no kernels: told in the same words by every method."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import KernelSVC
from maxmargin.kernels import RBF, FromCallable, Linear, Polynomial
from maxmargin.kernels.extent import greatest, precision

EVERY = ["exact", "auto", "sampled", "sampled_constant", "map"]


def rows(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0.0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["exact", "auto"])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_values_above_single_precision_are_the_same_problem_in_other_units(kernel, method, sparse):
    # k / c and C c have the optimum of k and C, divided by c
    X, y = rows()
    degree = 3 if kernel == "poly" else 1
    options = {"kernel": kernel, "gamma": 0.5, "method": method, "tol": 1e-4}
    plain = KernelSVC(C=0.1, **options).fit(X, y)
    large = 1e25 ** (1.0 / degree)
    own = KernelSVC(C=0.1 / large ** (2 * degree), **options)
    own.fit(sp.csr_matrix(X * large) if sparse else X * large, y)
    assert own.converged_
    assert own.certificate_ == "exact"
    assert own.objective_ * large ** (2 * degree) == pytest.approx(plain.objective_, rel=2e-4)


@pytest.mark.parametrize("options", [{"gamma": 1.0}, {"kernel": "poly"}, {}])
@pytest.mark.parametrize("scale", [1e40, 1e-40])
def test_rows_that_single_precision_does_not_hold(options, scale):
    X, y = rows()
    reference = KernelSVC(method="map", tol=1e-4, **options).fit(X * scale, y)
    own = KernelSVC(method="exact", tol=1e-4, **options).fit(X * scale, y)
    assert own.converged_
    assert own.objective_ == pytest.approx(reference.objective_, rel=2e-4)


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({"kernel": "poly", "degree": 9, "gamma": 1.0}, 1e40),
        ({"kernel": "linear"}, 1e160),
        ({"gamma": 1.0}, 1e160),
    ],
)
def test_values_that_are_not_finite_are_refused(method, options, scale):
    X, y = rows()
    with pytest.raises(
        ValueError, match=r"not finite\. Check the kernel's parameters and the scale"
    ):
        KernelSVC(method=method, max_iter=20, **options).fit(X * scale, y)


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_functions_whose_values_are_no_numbers_are_refused(method, bad):
    def wrong(A, B):
        K = A @ B.T
        K[np.ix_(A[:, 0] > 1.0, B[:, 0] > 1.0)] = bad
        return K

    X, y = rows()
    with pytest.raises(ValueError, match="some kernel values are not finite"):
        KernelSVC(kernel=wrong, method=method, max_iter=20).fit(X, y)


def test_functions_with_values_above_single_precision():
    X, y = rows()
    kernel, large = (lambda A, B: A @ B.T), (lambda A, B: 1e45 * (A @ B.T))
    plain = KernelSVC(kernel=kernel, method="exact", C=0.1).fit(X, y)
    own = KernelSVC(kernel=large, method="exact", C=1e-46).fit(X, y)
    assert own.converged_
    assert own.objective_ * 1e45 == pytest.approx(plain.objective_, rel=2e-3)


@pytest.mark.parametrize("method", [*EVERY, "nystrom"])
def test_a_function_may_return_a_sparse_matrix(method):
    X, y = rows()
    Z = sp.csr_matrix(X)
    own = KernelSVC(kernel=lambda A, B: A @ B.T, method=method).fit(Z, y)
    plain = KernelSVC(kernel="linear", method=method).fit(X, y)
    assert own.objective_ == pytest.approx(plain.objective_, rel=2e-2)
    np.testing.assert_allclose(
        own.decision_function(Z), plain.decision_function(X), atol=0.2, rtol=0.2
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_value_is_above_the_greatest(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(-8, 8)
    gamma = 10.0 ** rng.uniform(-4, 4)
    for kernel in (Linear(), Polynomial(gamma, 0.5, 4), Polynomial(gamma, -0.5, 3), RBF(gamma)):
        S = X @ X.T
        reach = gamma * S + getattr(kernel, "coef0", 0.0)
        if isinstance(kernel, RBF):
            reach = gamma * (S.diagonal()[:, None] + S.diagonal() + 2.0 * np.abs(S))
        top = max(np.abs(reach).max(), np.abs(reach ** getattr(kernel, "degree", 1)).max())
        if not isinstance(kernel, Linear):
            assert greatest(kernel, X) * (1.0 + 1e-12) >= top
            assert greatest(kernel, sp.csr_matrix(X)) == pytest.approx(greatest(kernel, X))
    assert precision(FromCallable(lambda A, B: A @ B.T), X / np.abs(X).max()) is np.float32


# -- functions that are no kernels -----------------------------------------------------------------


def negative(A, B):
    return -(A @ B.T)


def lopsided(A, B):
    return A @ np.array([[1.0, 3.0, 0.0], [-2.0, 1.0, 0.5], [0.0, 0.0, 1.0]]) @ B.T


def rounded(A, B):
    return np.asarray(A @ B.T, dtype=np.float32)


def best_constant(y, C=1.0):
    return 2.0 * C * min(y.sum(), (~y).sum())


@pytest.mark.parametrize("method", ["exact", "auto", "map"])
@pytest.mark.parametrize("kernel", [negative, lopsided, rounded])
def test_functions_that_are_no_kernels_are_found_out(kernel, method):
    X, y = rows()
    with pytest.warns(UserWarning, match="not symmetric and positive semidefinite"):
        svc = KernelSVC(kernel=kernel, method=method, max_iter=100).fit(X, y)
    assert svc.certificate_ == "measured"
    assert svc.lower_bound_ == -np.inf
    assert not svc.converged_


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("kernel", [negative, lopsided])
@pytest.mark.filterwarnings("ignore:the kernel function is not")
def test_no_answer_is_worse_than_the_best_constant(kernel, method, free):
    X, y = rows()
    svc = KernelSVC(kernel=kernel, method=method, max_iter=30, fit_intercept=free).fit(X, y)
    F = best_constant(y) if free else len(y)
    assert svc.objective_ <= F * (1.0 + 1e-12)
    loss = np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * svc.decision_function(X)).sum()
    f = (svc.decision_function(X) - svc.intercept_)[svc.support_]
    if kernel is negative or method != "map":  # which solves the symmetric part
        assert svc.objective_ == pytest.approx(0.5 * svc.dual_coef_[0] @ f + loss, rel=1e-6)


@pytest.mark.parametrize("method", [*EVERY, "nystrom"])
def test_a_limit_leaves_no_answer_worse_than_the_best_constant(method):
    X, y = rows()
    svc = KernelSVC(C=1e3, method=method, max_seconds=0.0).fit(X, y)
    assert svc.objective_ <= best_constant(y, 1e3) * (1.0 + 1e-12)
    assert svc.stop_reason_ == "max_seconds"


def test_a_bound_above_the_best_constant_is_a_proof(monkeypatch):
    # a matrix that looks like a kernel's where one looks
    X, y = rows(600)
    monkeypatch.setattr("maxmargin.kernels.extent.TEST_ROWS", 2)
    first = X[[0, -1]]

    def sly(A, B):
        seen = (
            [(x == first).all(axis=1).any() for x in A],
            [(x == first).all(axis=1).any() for x in B],
        )
        return -(A @ B.T) + 100.0 * np.outer(*seen) * (A @ B.T)

    with pytest.warns(UserWarning, match="not symmetric and positive semidefinite"):
        svc = KernelSVC(kernel=sly, method="exact", max_iter=20).fit(X, y)
    assert svc.certificate_ == "measured"
    assert svc.objective_ <= best_constant(y) * (1.0 + 1e-12)


@pytest.mark.parametrize("method", [*EVERY, "nystrom"])
@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_ctrl_c_at_any_kernel_value_leaves_a_point(method, at):
    X, y = rows()
    asked = []

    def kernel(A, B):
        asked.append(1)
        if len(asked) == at:
            raise KeyboardInterrupt
        return A @ B.T

    svc, found = KernelSVC(kernel=kernel, method=method), None
    try:
        svc.fit(X, y)
    except KeyboardInterrupt as error:
        found = error.estimator
    assert (found is svc) == (svc.stop_reason_ == "interrupted") == (len(asked) >= at)
    assert svc.stop_reason_ in ("interrupted", "gap", "sampled")
    assert svc.objective_ <= best_constant(y) * (1.0 + 1e-12)
    asked += [1] * at
    svc.predict(X)
