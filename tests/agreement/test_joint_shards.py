"""Non-decomposable metrics over many shards: results independent of the shards, and the communication."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.nightly import first

from maxmargin import MeasureSVC, minimize
from maxmargin.core.engine import Handle, SerialEngine
from maxmargin.engines import ProcessEngine, ThreadEngine
from maxmargin.losses import AtK, BalancedError, FBeta, QMeasure, QuantificationLoss, RocAuc
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane

LOSSES = [FBeta(), AtK(), RocAuc(), BalancedError(), QuantificationLoss("kld"), QMeasure()]


def problem(n=4000, d=60, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.7, 1.0, -1.0)
    if sparse:
        X[np.abs(X) < 0.5] = 0.0
    return (sp.csr_matrix(X) if sparse else X), y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_many_shards_have_the_loss_of_all_scores(loss, sparse):
    X, y = problem(sparse=sparse)
    rng = np.random.default_rng(1)
    offset = rng.normal(size=len(y))
    risk = ScoreRisk(X, y, loss, intercept=2.0, offset=offset)
    assert len(risk.bounds) > 1
    assert risk.n_blocks == 1
    ones, points = np.ones(len(y)), rng.normal(size=(2, risk.dim))
    scores = [X @ w[:-1] + 2.0 * w[-1] + offset for w in points]
    a, b = (risk.evaluate(w) for w in points)
    np.testing.assert_allclose(risk.scores(a), scores[0], rtol=1e-12, atol=1e-12)
    assert a.value == pytest.approx(loss.value(scores[0], y, ones), rel=1e-12)
    plain, gradient = loss.cut(scores[0], y, ones)
    cut = a.cut()
    assert cut.offset == pytest.approx(plain + gradient @ offset, rel=1e-9)
    plane = np.append(X.T @ gradient, 2.0 * gradient.sum())
    np.testing.assert_allclose(cut.plane, plane, rtol=1e-9, atol=1e-9 * np.abs(plane).max())
    ts = np.array([0.0, 0.3, 0.9])
    np.testing.assert_allclose(
        a.slopes(b, ts), loss.slopes(scores[0], scores[1], y, ones, ts), rtol=1e-9
    )
    between = a.toward(b, 0.25)
    assert between.value == pytest.approx(risk.evaluate(between.w).value, rel=1e-10)
    cut = between.cut()
    assert cut.offset + cut.plane @ between.w == pytest.approx(between.value, rel=1e-9)
    for other in rng.normal(size=(20, risk.dim)):
        value = risk.evaluate(other).value
        assert cut.offset + cut.plane @ other <= value + 1e-9 * abs(value)


def test_ranges_are_one_measure_together():
    X, y = problem()
    ranges = [(100, 1900), (2500, 3900)]
    rows = np.concatenate([np.arange(*r) for r in ranges])
    some = ScoreRisk(X, y, FBeta(), ranges=ranges)
    alone = ScoreRisk(X[rows], y[rows], FBeta())
    w = np.random.default_rng(2).normal(size=some.dim)
    here, there = some.evaluate(w), alone.evaluate(w)
    assert here.value == there.value
    np.testing.assert_allclose(here.cut().plane, there.cut().plane, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(some.scores(here)[rows], alone.scores(there))


class Metered(SerialEngine):
    """Counts the numbers sent to and from the driver."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def _note(self, method, args, answer):
        sent = sum(a.array.size for a in args if isinstance(a, Handle))
        got = (
            sum(np.size(part) for part in answer) if isinstance(answer, list) else answer.plane.size
        )
        self.calls.append((method.__name__, sent, got))
        return answer

    def reduce(self, method, *args):
        return self._note(method, args, super().reduce(method, *args))

    def gather(self, method, *args):
        return self._note(method, args, super().gather(method, *args))


def test_one_number_per_row_for_a_point_and_one_for_a_cut():
    X, y = problem()
    n, d = X.shape
    engine = Metered()
    risk = ScoreRisk(X, y, FBeta(), engine=engine)
    a, b = risk.evaluate(np.zeros(d)), risk.evaluate(np.ones(d))
    assert engine.calls == [("scores_at", d, n)] * 2
    engine.calls.clear()
    a.slopes(b, np.linspace(0.0, 1.0, 9))
    on_line = a.toward(b, 0.5)
    assert on_line.value > 0.0
    assert not engine.calls  # lines need no communication
    on_line.cut()
    # plus, once, the norm of the longest row
    assert engine.calls[0][0] == "longest"
    assert engine.calls[1:] == [("plane_of", n, d)]


@pytest.mark.slow
@pytest.mark.parametrize("space", first(1, ["rows", "features"]))
@pytest.mark.parametrize("loss", [FBeta(), RocAuc()], ids=["f1", "roc"])
def test_any_number_of_workers_and_either_space(loss, space):
    X, y = problem(n=700, d=900)
    solver = CuttingPlane(space=space)
    results = []
    for engine in (SerialEngine(), ThreadEngine(2), ThreadEngine(7)):
        risk = ScoreRisk(X, y, loss, engine=engine)
        assert len(risk.bounds) > 2
        results.append(minimize(risk, 0.01, solver=solver))
        engine.close()
    assert results[0].converged
    assert len({result.w.tobytes() for result in results}) == 1
    explicit = minimize(ScoreRisk(X, y, loss), 0.01)
    assert results[0].lower_bound <= explicit.objective * (1 + 1e-9)
    assert explicit.lower_bound <= results[0].objective * (1 + 1e-9)


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing():
    measure = "roc_auc"  # the scores are computed once more at the end, for the threshold
    X, y = problem()
    here = MeasureSVC(measure, C=0.01).fit(X, y)
    engine = ProcessEngine(2)

    def kill(record):
        if record.iteration in (2, 4):
            engine._workers[record.iteration // 4]._process.kill()

    there = MeasureSVC(measure, C=0.01, engine=engine, callbacks=[kill]).fit(X, y)
    engine.close()
    assert here.n_iter_ > 4
    assert there.coef_.tobytes() == here.coef_.tobytes()
    assert there.intercept_.tobytes() == here.intercept_.tobytes()
    assert (there.objective_, there.lower_bound_) == (here.objective_, here.lower_bound_)
