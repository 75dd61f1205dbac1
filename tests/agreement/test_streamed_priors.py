"""Priors on samples that are not in memory: read from disk, streamed, or available as products only."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import GaussianPrior, LinearSVC, LinearSVR
from maxmargin import data as on_disk
from maxmargin.data.design import CSRDesign
from maxmargin.solvers import CuttingPlane, DualCoordinate

RNG = np.random.default_rng(0)
N, D = 400, 8
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6)
Y = np.where(X @ RNG.normal(size=D) + 0.7 * RNG.normal(size=N) > 0, 1, -1)
ROOT = RNG.normal(size=(D, D))
MEAN = RNG.normal(size=D)
PRIORS = {
    "center": GaussianPrior(MEAN),
    "diagonal": GaussianPrior(MEAN, variance=np.linspace(0.3, 3.0, D)),
    "dense": GaussianPrior(MEAN, covariance=ROOT @ ROOT.T + np.eye(D)),
}


class ProductsOnly:
    """Matrix-free features without access to rows."""

    def __init__(self, X):
        self._inner = CSRDesign(sp.csr_matrix(X))
        self.shape, self.nnz = self._inner.shape, self._inner.nnz

    def dot(self, W, lo, hi):
        return self._inner.dot(W, lo, hi)

    def accumulate(self, coef, lo, hi, out):
        self._inner.accumulate(coef, lo, hi, out)


@pytest.mark.parametrize(
    ("kind", "labels"), [("center", "two"), ("diagonal", "three"), ("dense", "two")]
)
@pytest.mark.parametrize("solver", [DualCoordinate(), CuttingPlane()], ids=["stream", "planes"])
def test_on_disk_as_in_memory(kind, labels, solver, tmp_path):
    y = Y if labels == "two" else (np.arange(N) + (X[:, 0] > 0)) % 3
    on_disk.write(tmp_path / "rows", [(sp.csr_matrix(X), y)])
    params = {"tol": 1e-5, "prior": PRIORS[kind], "fixed": {2: 0.1}}
    if labels == "three":
        params["multi_class"] = "crammer_singer"
    memory = LinearSVC(C=0.1, **params, loss="hinge").fit(X, y)
    disk = LinearSVC(C=0.1, solver=solver, **params, loss="hinge").fit(
        on_disk.open(tmp_path / "rows")
    )
    assert disk.converged_
    assert {record["method"] for record in disk.history_} == {
        "stream" if isinstance(solver, DualCoordinate) else "cutting planes"
    }
    assert disk.objective_ == pytest.approx(memory.objective_, rel=2e-5)
    np.testing.assert_allclose(disk.coef_, memory.coef_, atol=3e-2)


@pytest.mark.parametrize("kind", PRIORS)
def test_designs_that_show_no_rows(kind):
    memory = LinearSVC(C=0.1, tol=1e-5, prior=PRIORS[kind], loss="hinge").fit(X, Y)
    hidden = LinearSVC(C=0.1, tol=1e-5, prior=PRIORS[kind], loss="hinge").fit(ProductsOnly(X), Y)
    assert hidden.converged_
    assert hidden.objective_ == pytest.approx(memory.objective_, rel=2e-5)
    signed = {"nonnegative": [0, 1], "nonpositive": [3]}
    memory = LinearSVC(C=0.1, tol=1e-5, **signed, loss="hinge").fit(X, Y)
    hidden = LinearSVC(C=0.1, tol=1e-5, **signed, loss="hinge").fit(ProductsOnly(X), Y)
    assert hidden.objective_ == pytest.approx(memory.objective_, rel=2e-5)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("kind", PRIORS)
def test_regression(loss, kind):
    target = X @ np.linspace(-1.0, 1.0, D) + 0.1 * RNG.normal(size=N)
    params = {"loss": loss, "epsilon": 0.05, "tol": 1e-5, "prior": PRIORS[kind]}
    found = [
        LinearSVR(0.1, solver=solver, **params).fit(X, target)
        for solver in ("auto", CuttingPlane(), DualCoordinate())
    ]
    for svr in found:
        assert svr.converged_
        assert svr.objective_ == pytest.approx(found[0].objective_, rel=2e-5)
    nothing = LinearSVR(1e-9, **{**params, "tol": 1e-3}).fit(X, target)
    np.testing.assert_allclose(nothing.coef_.ravel(), MEAN, atol=1e-5)
    if kind != "dense":
        signed = {"nonnegative": [0, 1, 2], "nonpositive": [6], "fixed": {4: 0.25}}
        one = LinearSVR(0.1, solver=DualCoordinate(), **params, **signed).fit(X, target)
        other = LinearSVR(0.1, solver=CuttingPlane(), **params, **signed).fit(X, target)
        assert one.objective_ == pytest.approx(other.objective_, rel=2e-5)
        assert (one.coef_.ravel()[:3] >= 0.0).all()
