"""Matrix-free features, lazy columns and offsets give the same results as matrices and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_wine

from maxmargin import LinearSVC, minimize
from maxmargin.data import CSRDesign, DenseDesign, LazyColumn, as_design
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane


class Elsewhere:
    """Matrix-free features: not a matrix in memory, as far as the library can see."""

    def __init__(self, X: Any) -> None:
        self._inner = as_design(X)
        self.shape, self.nnz = self._inner.shape, self._inner.nnz

    def dot(self, W: Any, lo: int, hi: int) -> Any:
        return self._inner.dot(W, lo, hi)

    def accumulate(self, coef: Any, lo: int, hi: int, out: Any) -> None:
        self._inner.accumulate(coef, lo, hi, out)

    def block(self, lo: int, hi: int) -> Any:
        return self._inner.block(lo, hi)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"multi_class": "crammer_singer"},
        {"multi_class": "crammer_singer", "penalize_intercept": False},
        {"multi_class": "crammer_singer", "class_weight": "balanced"},
    ],
)
def test_a_design_gives_the_same_bits_as_its_matrix(load: Any, sparse: bool, params: Any) -> None:
    X, y = load(return_X_y=True)
    X = X / X.std(axis=0)
    if sparse:
        X = sp.csr_matrix(X)
    a = LinearSVC(solver=CuttingPlane(), **params, loss="hinge").fit(X, y)
    b = LinearSVC(**params, loss="hinge").fit(Elsewhere(X), y)
    assert np.array_equal(a.coef_, b.coef_)
    if params.get("penalize_intercept", True):
        assert (a.objective_, a.lower_bound_) == (b.objective_, b.lower_bound_)
    else:  # rounding, times the bound of the intercept, is visible: only a matrix in memory allows exact sums
        assert (a.objective_, a.lower_bound_) == pytest.approx(
            (b.objective_, b.lower_bound_), rel=1e-7
        )
    assert np.array_equal(a.predict(X), b.predict(Elsewhere(X)))
    assert b.n_features_in_ == X.shape[1]


def test_rows_of_a_design_in_any_order() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4)) * (rng.random((20, 4)) < 0.5)
    rows = np.array([3, 19, 3, 0])
    for design in (as_design(X), as_design(sp.csr_matrix(X))):
        w = rng.standard_normal(4)
        assert np.array_equal(design.block(5, 9).dot(w, 0, 4), design.dot(w, 5, 9))
        assert np.allclose(design.take(rows).dot(w, 0, 4), (X @ w)[rows])
        assert isinstance(design.take(rows), DenseDesign | CSRDesign)


def test_lazy_labels_and_weights_are_read_by_ranges() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((300, 3)), np.where(rng.random(300) < 0.5, 1.0, -1.0)
    weight = rng.random(300)
    asked: list[tuple[int, int]] = []

    def labels(lo: int, hi: int) -> Any:
        asked.append((lo, hi))
        return y[lo:hi].copy()

    lazy = ScoreRisk(
        X, LazyColumn(300, labels), Hinge(),
        sample_weight=LazyColumn(300, lambda lo, hi: weight[lo:hi].copy()),
    )  # fmt: skip
    plain = minimize(ScoreRisk(X, y, Hinge(), sample_weight=weight), C=1.0)
    again = minimize(lazy, C=1.0)
    assert np.array_equal(plain.w, again.w)
    assert plain.lower_bound == again.lower_bound
    assert asked


def test_wrong_lengths_are_told() -> None:
    X = Elsewhere(np.eye(3))
    with pytest.raises(ValueError, match="requires y"):
        LinearSVC(loss="hinge").fit(X)
    with pytest.raises(ValueError, match="one label each"):
        LinearSVC(loss="hinge").fit(X, [0, 1])
    with pytest.raises(ValueError, match=r"sample_weight has shape .*; expected \(3,\)"):
        LinearSVC(loss="hinge").fit(X, [0, 1, 1], sample_weight=[1.0])
    svc = LinearSVC(loss="hinge").fit(X, [0, 1, 1])
    with pytest.raises(ValueError, match="expecting 3 features"):
        svc.predict(Elsewhere(np.eye(2)))


@pytest.mark.parametrize("loss", [Hinge(), CrammerSinger(1.0 - np.eye(3))])
def test_an_offset_is_a_feature_of_fixed_weight(loss: Any) -> None:
    """F with scores offset + X w, recomputed by hand, and cuts that respect the offset."""
    rng = np.random.default_rng(2)
    n, d, K = 60, 3, loss.n_outputs() or 1
    X = rng.standard_normal((n, d))
    y = rng.integers(0, 3, n) if K > 1 else np.where(rng.random(n) < 0.5, 1.0, -1.0)
    offset = rng.standard_normal((n, K) if K > 1 else n)
    risk = ScoreRisk(X, y, loss, offset=offset)

    def value(w: Any) -> float:
        scores = offset + (X @ w.reshape(d, K) if K > 1 else X @ w)
        return loss.value(scores, y, np.ones(n))

    for _ in range(20):
        w, v = rng.standard_normal((2, d * K))
        at = risk.evaluate(w)
        cut = at.cut()
        assert at.value == pytest.approx(value(w), rel=1e-12)
        assert cut.offset + cut.plane @ w == pytest.approx(value(w), rel=1e-12)
        assert cut.offset + cut.plane @ v <= value(v) + 1e-9
    result = minimize(risk, C=0.5)
    assert result.converged
    assert result.objective == pytest.approx(
        0.5 * result.w @ result.w + 0.5 * value(result.w), rel=1e-12
    )
    with pytest.raises(ValueError, match="like the scores"):
        ScoreRisk(X, y, loss, offset=np.zeros(3))
