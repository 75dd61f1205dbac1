"""Planes and points as combinations of rows: the iterates and the certificate of explicit planes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_wine
from tests.data import datasets, require

from maxmargin import LinearSVC, load, minimize
from maxmargin.core import SquaredNorm
from maxmargin.data import KmerDesign, hstack
from maxmargin.engines import ThreadEngine
from maxmargin.losses import CrammerSinger, Hinge, Logistic
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane
from maxmargin.testing import check_risk

ROWS = CuttingPlane(space="rows")


def wide(n: int = 60, d: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.1, random_state=seed, format="csr")
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("data", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("params", [{}, {"fit_intercept": False}, {"loss": "squared_hinge"}])
def test_the_iterates_are_those_of_explicit_planes(data: Any, params: Any) -> None:
    X, y = data(return_X_y=True)
    X = X / X.std(axis=0)
    a = LinearSVC(solver=CuttingPlane(), tol=1e-4, **params).fit(X, y)
    b = LinearSVC(solver=ROWS, tol=1e-4, **params).fit(X, y)
    for ours, theirs in list(zip(b.history_, a.history_, strict=False))[:10]:
        assert ours["objective"] == pytest.approx(theirs["objective"], rel=1e-8)
        assert ours["lower_bound"] == pytest.approx(theirs["lower_bound"], rel=1e-8)
    assert abs(b.n_iter_ - a.n_iter_) <= 3  # rounding grows from step to step
    assert b.lower_bound_ <= a.objective_
    assert a.lower_bound_ <= b.objective_
    assert b.converged_


@pytest.mark.parametrize("loss", [Hinge(), Logistic()])
def test_the_bounds_are_true_for_the_weights_returned(loss: Any) -> None:
    X, y = wide()
    risk = ScoreRisk(X, y, loss, intercept=1.0)
    result = minimize(risk, C=2.0, solver=ROWS)
    w = result.w
    scores = X @ w[:-1] + w[-1]
    assert result.objective == pytest.approx(
        0.5 * w @ w + 2.0 * loss.value(scores, y, np.ones(len(y))), rel=1e-12
    )
    best = minimize(risk, C=2.0)
    assert result.lower_bound <= best.objective
    assert best.lower_bound <= result.objective
    assert result.gap <= 1e-3
    # the risk over features has its engine back
    assert risk.evaluate(w).value == pytest.approx(loss.value(scores, y, np.ones(len(y))))


def test_other_C_go_on_from_the_planes() -> None:
    X, y = wide()
    risk = ScoreRisk(X, y, Hinge())
    first = minimize(risk, C=1.0, solver=ROWS)
    second = minimize(risk, C=1.5, solver=ROWS, start=first)
    alone = minimize(risk, C=1.5, solver=ROWS)
    assert second.n_iter < alone.n_iter
    assert second.converged
    assert second.lower_bound <= alone.objective
    assert alone.lower_bound <= second.objective
    # planes over features cannot go on from these, but from the point
    third = minimize(risk, C=1.5, solver=CuttingPlane(), start=second)
    assert third.converged


def test_the_pairs_are_a_risk_with_minorants() -> None:
    X, y = wide(n=12, d=30)
    risk = ScoreRisk(X, y, Hinge())
    span = risk.in_span(SquaredNorm())
    rng = np.random.default_rng(0)
    K = (X @ X.T).toarray()
    for _ in range(20):
        b, other = rng.normal(size=12), rng.normal(size=12)
        z, z2 = span.pair(b), span.pair(other)
        np.testing.assert_allclose(z, np.concatenate([b, K @ b]), atol=1e-12)
        assert span.regularizer.inner(z, z2) == pytest.approx(b @ K @ other)
        at = span.evaluate(z)
        cut = at.cut()
        tight = cut.offset + span.regularizer.inner(cut.plane, z)
        assert at.value == pytest.approx(tight)
        assert span.evaluate(z2).value >= cut.offset + span.regularizer.inner(cut.plane, z2) - 1e-9
    span.close()
    check_risk(risk)


@pytest.mark.data
def test_strings_of_three_classes_with_any_number_of_threads() -> None:
    letters, y = require(datasets.uci_splice)
    letters, y = letters[::4], y[::4]
    codes = np.searchsorted(np.unique(y), y)
    parts = [KmerDesign(letters, orders=3, normalize=True)]
    parts.append(KmerDesign(letters, orders=3, kind="spectrum", normalize=True))
    design = hstack(parts)
    loss = CrammerSinger(1.0 - np.eye(3))
    found = []
    for workers in (1, 2, 3):
        engine = ThreadEngine(workers)
        risk = ScoreRisk(design, codes, loss, intercept=1.0, engine=engine)
        found.append(minimize(risk, C=0.1, solver=ROWS))
        engine.close()
    for other in found[1:]:
        assert np.array_equal(found[0].w, other.w)
        assert (found[0].objective, found[0].lower_bound) == (other.objective, other.lower_bound)
    block = design.block(0, design.shape[0])
    X = sp.csr_matrix((block.data, block.indices, block.indptr), shape=block.shape)
    explicit = minimize(ScoreRisk(X, codes, loss, intercept=1.0), C=0.1)
    assert explicit.lower_bound <= found[0].objective
    assert found[0].lower_bound <= explicit.objective


@pytest.mark.data
def test_an_estimator_takes_strings() -> None:
    letters, y = require(datasets.uci_splice)
    X = KmerDesign(letters[::2], orders=3, normalize=True)
    svc = LinearSVC(C=1.0, solver=ROWS).fit(X, y[::2])
    assert svc.gap_ <= 1e-3
    assert svc.score(X.like(letters[1::2]), y[1::2]) > 0.93
    best = int(np.argmax(svc.coef_[0]))  # what speaks most for an exon's end
    assert "GT" in X.describe(best)


def test_interrupts_and_limits_return_the_best_point() -> None:
    X, y = wide()
    svc = LinearSVC(solver=ROWS, max_iter=3).fit(X, y)
    assert svc.stop_reason_ == "max_iter"
    assert svc.lower_bound_ <= svc.objective_ < 60.0

    def ctrl_c(record: Any) -> None:
        if record.iteration == 4:
            raise KeyboardInterrupt

    risk = ScoreRisk(X, y, Hinge())
    result = minimize(risk, C=1.0, solver=ROWS, callbacks=[ctrl_c])
    assert result.stop_reason == "interrupted"
    assert result.lower_bound <= minimize(risk, C=1.0).objective <= result.objective + 1e-9


def test_refusals() -> None:
    X, y = wide()
    with pytest.raises(ValueError, match="slacks='one'"):
        CuttingPlane(space="rows", slacks="blocks")
    with pytest.raises(ValueError, match="space="):
        CuttingPlane(space="columns")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="every weight penalised"):
        LinearSVC(solver=ROWS, penalize_intercept=False).fit(X, y)
    with pytest.raises(TypeError, match="all rows"):
        minimize(ScoreRisk(X, y, Hinge(), ranges=[(0, 30)]), C=1.0, solver=ROWS)


def test_a_saved_model_remembers_its_space(tmp_path: Any) -> None:
    X = KmerDesign(["ACGTAC", "ACCTTT", "TTGTAC", "TTCTTT"], orders=3)
    svc = LinearSVC(solver=ROWS).fit(X, [1, 0, 1, 0])
    svc.save(tmp_path / "model.safetensors")
    read = load(tmp_path / "model.safetensors")
    assert read.solver.space == "rows"
    assert np.array_equal(read.decision_function(X), svc.decision_function(X))
