"""Planes and points as combinations of rows: the same iterates and certificate as with explicit planes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_wine
from tests.contracts.risk import check_risk
from tests.ctrl_c import interrupted
from tests.data import datasets, require
from tests.rebuilt_shards import RebuildingEngine

from maxmargin import CheckpointError, LinearSVC, load, minimize
from maxmargin.core import SquaredNorm
from maxmargin.data import KmerDesign, hstack
from maxmargin.data.design import as_matrix
from maxmargin.engines import ProcessEngine, SerialEngine, ThreadEngine
from maxmargin.losses import CrammerSinger, Hinge, Logistic
from maxmargin.risks import ScoreRisk
from maxmargin.risks.scores import risk as score
from maxmargin.risks.scores.wide_columns import WideColumns
from maxmargin.solvers import CuttingPlane

ROWS = CuttingPlane(space="rows")


@pytest.fixture
def seven_shards(monkeypatch: Any) -> None:
    """Split small data into as many shards as large data."""
    monkeypatch.setattr(score, "shard_bounds", lambda n, *_: [n * k // 7 for k in range(8)])


def wide(n: int = 60, d: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.1, random_state=seed, format="csr")
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X, y


SQUARED = {"loss": "squared_hinge"}


@pytest.mark.parametrize("data", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("params", [{}, {"fit_intercept": False}, SQUARED])
def test_the_iterates_are_those_of_explicit_planes(data: Any, params: Any) -> None:
    X, y = data(return_X_y=True)
    X = X / X.std(axis=0)
    joint = {"multi_class": "crammer_singer"} if data is load_wine else {"loss": "hinge"}
    params = params if params is SQUARED else joint | params
    a = LinearSVC(solver=CuttingPlane(), tol=1e-4, **params).fit(X, y)
    b = LinearSVC(solver=ROWS, tol=1e-4, **params).fit(X, y)
    for ours, theirs in list(zip(b.history_, a.history_, strict=False))[:10]:
        assert ours["objective"] == pytest.approx(theirs["objective"], rel=1e-8)
        assert ours["lower_bound"] == pytest.approx(theirs["lower_bound"], rel=1e-8)
    assert abs(b.n_iter_ - a.n_iter_) <= 3  # rounding errors grow from step to step
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
    # the engine was returned to the risk over features
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
    # a solver over features cannot reuse these planes, but it starts from the point
    third = minimize(risk, C=1.5, solver=CuttingPlane(), start=second)
    assert third.converged


def test_combinations_of_planes_are_a_risk_with_minorants() -> None:
    X, y = wide(n=12, d=30)
    risk = ScoreRisk(X, y, Hinge(), intercept=0.5)
    span = risk.in_span(SquaredNorm(), 40)
    rng = np.random.default_rng(0)
    Z = np.hstack([X.toarray(), np.full((12, 1), 0.5)])
    points, seen, cuts = [np.zeros(span.dim)], [np.zeros(31)], []
    for _ in range(20):
        at = span.evaluate(points[-1])
        assert at.value == pytest.approx(np.maximum(0.0, 1.0 - y * (Z @ seen[-1])).sum())
        cut = at.cut()
        cuts.append(cut)
        inner = span.regularizer.inner
        assert at.value == pytest.approx(
            cut.offset + cut.plane.to_dense() @ span.columns.times_gram(at.w)
        )
        c = np.zeros(span.dim)
        c[: len(cuts)] = rng.normal(size=len(cuts)) / len(cuts)
        w = span.weights(c)
        points, seen = [*points, c], [*seen, w]
        for point, there in zip(points, seen, strict=True):
            assert inner(point, c) == pytest.approx(there @ w)
            value = np.maximum(0.0, 1.0 - y * (Z @ there)).sum()
            assert value >= cut.offset + inner(cut.plane.to_dense(), point) - 1e-9
    while span.columns.free():
        at.cut()
    with pytest.raises(RuntimeError, match="slots"):
        at.cut()
    span.close()
    check_risk(risk)


@pytest.mark.parametrize("max_planes", [2, 5, 12])
def test_few_planes_give_the_iterates_of_few_explicit_planes(max_planes: int) -> None:
    X, y = wide(n=150, d=300)
    risk = ScoreRisk(X, y, Hinge(), intercept=1.0)
    mixes = []

    def count(self: Any, step: Any) -> None:
        mixes.append(step)
        mix(self, step)

    mix = WideColumns.mix
    options = {"max_planes": max_planes, "idle": 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WideColumns, "mix", count)
        a = minimize(risk, C=3.0, solver=CuttingPlane(space="rows", **options), max_iter=150)
    b = minimize(risk, C=3.0, solver=CuttingPlane(**options), max_iter=150)
    assert len(mixes) >= 2  # slots were reassigned several times
    assert any(step.mixed for step in mixes)
    for ours, theirs in list(zip(a.history, b.history, strict=False))[:40]:
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
        assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-6)
    # the bounds of the loop equal those over features
    assert a.history[-1].objective == pytest.approx(a.objective, rel=1e-9)
    assert a.history[-1].lower_bound == pytest.approx(a.lower_bound, rel=1e-9)
    assert a.lower_bound <= minimize(risk, C=3.0).objective


@pytest.mark.parametrize("max_planes", [None, 5])
def test_columns_can_be_written_down(max_planes: int | None) -> None:
    X, y = wide(n=150, d=300)
    risk = ScoreRisk(X, y, Hinge())
    span = risk.in_span(SquaredNorm(), max_planes)
    rng = np.random.default_rng(0)
    for k in range(6):
        span.cut_at(np.concatenate([rng.normal(size=k), np.zeros(span.dim - k)]))
    state, u = span.columns_state(), rng.normal(size=span.dim) * (np.arange(span.dim) < 6)
    expected = span.weights(u), span.evaluate(u).value, span.columns.times_gram(u)
    other = ScoreRisk(X, y, Hinge()).in_span(SquaredNorm(), max_planes)
    other.restore_columns(state)
    assert np.array_equal(other.weights(u), expected[0])
    assert other.evaluate(u).value == expected[1]
    np.testing.assert_allclose(other.columns.times_gram(u), expected[2], rtol=1e-12)
    there = ScoreRisk(X[::-1], y, Hinge()).in_span(SquaredNorm(), max_planes)
    with pytest.raises(ValueError, match="other data"):
        there.restore_columns(state)


@pytest.mark.usefixtures("seven_shards")
@pytest.mark.parametrize(("loss", "max_planes"), [(Hinge(), None), (Logistic(), 20)])
def test_a_fit_whose_workers_die_starts_again(loss: Any, max_planes: int | None) -> None:
    X, y = wide(n=150, d=300)
    engine = RebuildingEngine(0, rate=0.0)

    def kill(record: Any) -> None:
        if record.iteration in (2, 8):
            engine._die(record.iteration // 2)

    solver, risk = CuttingPlane(space="rows", max_planes=max_planes), ScoreRisk(X, y, loss)
    best = minimize(risk, C=3.0)
    risk = ScoreRisk(X, y, loss, engine=engine)
    found = minimize(risk, C=3.0, solver=solver, callbacks=[kill])
    assert engine.deaths == 2
    assert found.converged
    assert max(found.lower_bound, best.lower_bound) <= min(found.objective, best.objective)


class Counting(SerialEngine):
    """Counts the planes that are made."""

    planes = 0

    def reduce(self, method: Any, *args: Any) -> Any:
        self.planes += method.__name__ == "column_gradient"
        return super().reduce(method, *args)


@pytest.mark.usefixtures("seven_shards")
@pytest.mark.parametrize("max_planes", [None, 5])
def test_a_resumed_fit_reads_its_planes(max_planes: int | None, tmp_path: Any) -> None:
    """Also after a worker died, and the fit had started again."""
    X, y = wide(n=150, d=300)
    engine, path = RebuildingEngine(0, rate=0.0), tmp_path / "fit.checkpoint"
    solver = CuttingPlane(space="rows", max_planes=max_planes, idle=5)

    def kill(record: Any) -> None:
        if record.iteration == 3:
            engine._die(4)

    risk = ScoreRisk(X, y, Hinge(), engine=engine)
    options: Any = {"C": 3.0, "solver": solver}
    first = minimize(risk, **options, max_iter=30, checkpoint=path, callbacks=[kill])
    counting = Counting()
    risk = ScoreRisk(X, y, Hinge(), engine=counting)
    found = minimize(risk, **options, max_iter=35, resume_from=path)
    assert (first.n_iter, found.n_iter) == (30, 35)
    assert counting.planes <= 7
    best = minimize(ScoreRisk(X, y, Hinge()), C=3.0).objective
    assert first.lower_bound <= found.lower_bound * (1 + 1e-9) <= best * (1 + 1e-9)
    assert best <= found.objective <= first.objective
    with pytest.raises(CheckpointError, match="other data"):
        minimize(ScoreRisk(X[::-1], y, Hinge()), **options, max_iter=35, resume_from=path)


@pytest.mark.slow
@pytest.mark.usefixtures("seven_shards")
def test_planes_of_other_processes_are_not_kept_for_another_C() -> None:
    X, y = wide(n=150, d=300)
    risk = ScoreRisk(X, y, Hinge(), engine=RebuildingEngine(0, rate=0.0))
    first = minimize(risk, C=1.0, solver=ROWS)
    second = minimize(risk, C=1.5, solver=ROWS, start=first)
    alone = minimize(ScoreRisk(X, y, Hinge()), C=1.5, solver=ROWS)
    assert np.array_equal(second.w, alone.w)
    # those of this process are, and must be of the same data
    here = minimize(ScoreRisk(X, y, Hinge()), C=1.0, solver=ROWS)
    with pytest.raises(ValueError, match="other data"):
        minimize(ScoreRisk(X[::-1], y, Hinge()), C=1.5, solver=ROWS, start=here)


@pytest.mark.slow
@pytest.mark.usefixtures("seven_shards")
def test_ctrl_c_while_slots_are_given_anew() -> None:
    X, y = wide(n=150, d=300)
    solver = CuttingPlane(space="rows", max_planes=5, idle=5)
    best = minimize(ScoreRisk(X, y, Hinge()), C=3.0).objective

    class Interrupting(SerialEngine):
        def _call(self, index: int, method: str, args: Any) -> Any:
            if method == "columns_mix" and index == self.where:
                self.where = -1
                raise KeyboardInterrupt
            return super()._call(index, method, args)

    for where in (0, 3, 6):
        engine = Interrupting()
        engine.where = where
        risk = ScoreRisk(X, y, Hinge(), engine=engine)
        result = interrupted(minimize, risk, C=3.0, solver=solver).result
        assert result.stop_reason == "interrupted"
        assert result.lower_bound <= best <= result.objective
        assert result.history[-1].lower_bound <= result.lower_bound * (1.0 + 1e-9)
        after = minimize(risk, C=3.0, solver=solver, start=result, max_iter=100)
        assert result.lower_bound <= after.lower_bound <= best <= after.objective


@pytest.mark.usefixtures("seven_shards")
def test_ctrl_c_when_the_planes_are_lost_has_nothing_to_return() -> None:
    X, y = wide(n=150, d=300)
    engine = RebuildingEngine(0, rate=0.0)

    def press(record: Any) -> None:
        if record.iteration == 5:
            engine._die(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        minimize(ScoreRisk(X, y, Hinge(), engine=engine), C=3.0, solver=ROWS, callbacks=[press])
    assert not hasattr(caught.value, "result")


@pytest.mark.nightly
@pytest.mark.usefixtures("seven_shards")
@pytest.mark.slow
def test_killed_processes() -> None:
    X, y = wide(n=150, d=300)
    best = minimize(ScoreRisk(X, y, Hinge()), C=3.0)
    engine = ProcessEngine(2)

    def kill(record: Any) -> None:
        if record.iteration in (1, 10, 28):
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    try:
        risk = ScoreRisk(X, y, Hinge(), engine=engine)
        found = minimize(risk, C=3.0, solver=ROWS, callbacks=[kill])
    finally:
        engine.close()
    assert found.converged
    assert found.lower_bound <= best.objective
    assert best.lower_bound <= found.objective


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
    X = as_matrix(design.block(0, design.shape[0]))
    explicit = minimize(ScoreRisk(X, codes, loss, intercept=1.0), C=0.1)
    assert explicit.lower_bound <= found[0].objective
    assert found[0].lower_bound <= explicit.objective


@pytest.mark.data
def test_an_estimator_takes_strings() -> None:
    letters, y = require(datasets.uci_splice)
    X = KmerDesign(letters[::2], orders=3, normalize=True)
    svc = LinearSVC(C=1.0, solver=ROWS, loss="hinge").fit(X, y[::2])
    assert svc.gap_ <= 1e-3
    assert svc.score(X.like(letters[1::2]), y[1::2]) > 0.93
    best = int(np.argmax(svc.coef_[0]))  # the strongest indicator of an exon's end
    assert "GT" in X.describe(best)


def test_interrupts_and_limits_leave_the_best_point() -> None:
    X, y = wide()
    svc = LinearSVC(solver=ROWS, max_iter=3, loss="hinge").fit(X, y)
    assert svc.stop_reason_ == "max_iter"
    assert svc.lower_bound_ <= svc.objective_ < 60.0

    def ctrl_c(record: Any) -> None:
        if record.iteration == 4:
            raise KeyboardInterrupt

    risk = ScoreRisk(X, y, Hinge())
    result = interrupted(minimize, risk, C=1.0, solver=ROWS, callbacks=[ctrl_c]).result
    assert result.stop_reason == "interrupted"
    assert result.lower_bound <= minimize(risk, C=1.0).objective <= result.objective + 1e-9


def test_refusals() -> None:
    X, y = wide()
    with pytest.raises(ValueError, match="space="):
        CuttingPlane(space="columns")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="all weights are penalized"):
        LinearSVC(solver=ROWS, penalize_intercept=False, loss="hinge").fit(X, y)
    with pytest.raises(TypeError, match="all rows"):
        minimize(ScoreRisk(X, y, Hinge(), ranges=[(0, 30)]), C=1.0, solver=ROWS)


def test_a_saved_model_remembers_its_space(tmp_path: Any) -> None:
    X = KmerDesign(["ACGTAC", "ACCTTT", "TTGTAC", "TTCTTT"], orders=3)
    svc = LinearSVC(solver=ROWS, loss="hinge").fit(X, [1, 0, 1, 0])
    svc.save(tmp_path / "model.safetensors")
    read = load(tmp_path / "model.safetensors")
    assert read.solver.space == "rows"
    assert np.array_equal(read.decision_function(X), svc.decision_function(X))
