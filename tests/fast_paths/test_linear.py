"""Sparse = dense, float32 = its float64 copy, wide indices = narrow ones; and nothing is copied."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

from maxmargin import LinearSVC
from maxmargin.data import as_design


def data(classes=2):
    X, y = make_classification(300, 20, n_informative=8, n_classes=classes, random_state=classes)
    X[np.abs(X) < 0.7] = 0.0
    return X, y


@pytest.mark.parametrize("classes", [2, 4])
def test_sparse_equals_dense(classes):
    X, y = data(classes)
    dense = LinearSVC(C=0.1, tol=1e-6, loss="hinge").fit(X, y)
    sparse = LinearSVC(C=0.1, tol=1e-6, loss="hinge").fit(sp.csr_matrix(X), y)
    assert dense.objective_ == pytest.approx(sparse.objective_, rel=3e-6)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-2)
    np.testing.assert_allclose(
        dense.decision_function(X), dense.decision_function(sp.csr_matrix(X)), atol=1e-12
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_float32_is_its_float64_copy(classes, form):
    X, y = data(classes)
    X32 = X.astype(np.float32)
    narrow = LinearSVC(C=0.1, loss="hinge").fit(form(X32), y)
    wide = LinearSVC(C=0.1, loss="hinge").fit(form(X32.astype(np.float64)), y)
    # sums run in float64 for both: the same problem, the same bits
    np.testing.assert_array_equal(narrow.coef_, wide.coef_)
    assert narrow.objective_ == wide.objective_


def test_wide_indices_equal_narrow_ones():
    X, y = data()
    narrow = sp.csr_matrix(X)
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    a, b = (
        LinearSVC(C=0.1, loss="hinge").fit(narrow, y),
        LinearSVC(C=0.1, loss="hinge").fit(wide, y),
    )
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X,
        lambda X: X.astype(np.float32),
        sp.csr_matrix,
        lambda X: sp.csr_matrix(X.astype(np.float32)),
    ],
)
def test_data_is_not_copied(make):
    rng = np.random.default_rng(0)
    X, y = make(rng.normal(size=(20_000, 100))), rng.integers(0, 2, 20_000)
    size = X.data.nbytes
    LinearSVC(C=1e-4, max_iter=2, loss="hinge").fit(X, y)
    tracemalloc.start()
    LinearSVC(C=1e-4, max_iter=3, loss="hinge").fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # scores, labels and weights are a few numbers per row; a copy of 100 columns would show
    assert peak < 0.5 * size


def test_designs_agree_with_numpy_on_row_ranges():
    X, _ = data()
    rng = np.random.default_rng(1)
    for form in (X, X.astype(np.float32), sp.csr_matrix(X)):
        design = as_design(form)
        plain = X.astype(np.float32) if getattr(form, "dtype", None) == np.float32 else X
        for columns in ((), (3,)):
            W = rng.normal(size=(20, *columns))
            np.testing.assert_allclose(design.dot(W, 10, 200), plain[10:200] @ W, rtol=1e-6)
            coef = rng.normal(size=(190, *columns)) * (rng.random((190, *columns)) < 0.4)
            out = np.ones((20, *columns))
            design.accumulate(coef, 10, 200, out)
            np.testing.assert_allclose(out, 1 + plain[10:200].T @ coef, rtol=1e-5, atol=1e-9)


def test_a_design_of_ones_own():
    class Doubled:
        """Rows computed on the fly."""

        def __init__(self, X):
            self.X, self.shape, self.nnz = X, X.shape, X.size

        def dot(self, W, lo, hi):
            return 2 * self.X[lo:hi] @ W

        def accumulate(self, coef, lo, hi, out):
            out += 2 * self.X[lo:hi].T @ coef

    from maxmargin import minimize
    from maxmargin.losses import Hinge
    from maxmargin.risks import ScoreRisk

    X, y = data()
    signed = np.where(y == 1, 1.0, -1.0)
    implicit = minimize(ScoreRisk(Doubled(X), signed, Hinge()), 0.1)
    explicit = minimize(ScoreRisk(2 * X, signed, Hinge()), 0.1)
    assert implicit.objective == pytest.approx(explicit.objective, rel=1e-3)
    with pytest.raises(TypeError, match="accumulate"):
        as_design("text")
