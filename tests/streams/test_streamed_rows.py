"""Rows that are not in memory: the same certificate, true bounds at every report, a bounded cache."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ctrl_c import interrupted
from tests.data import datasets, require

from maxmargin import LinearSVC
from maxmargin.core import SquaredNorm
from maxmargin.core.contract.sweeps import Streaming
from maxmargin.data.design import as_design
from maxmargin.losses import CrammerSinger, Hinge, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto, CuttingPlane, DualCoordinate
from maxmargin.solvers.auto import MANY_COORDINATES

COST = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [3.0, 1.0, 0.0]])


class Elsewhere:
    """A design that shows blocks of rows only, and counts what is read of it."""

    def __init__(self, X):
        self._inner = as_design(X)
        self.shape, self.nnz, self.largest_block = self._inner.shape, self._inner.nnz, 0
        self.rows_read = 0

    def dot(self, W, lo, hi):
        self.rows_read += hi - lo
        return self._inner.dot(W, lo, hi)

    def accumulate(self, coef, lo, hi, out):
        self.rows_read += hi - lo
        self._inner.accumulate(coef, lo, hi, out)

    def block(self, lo, hi):
        self.rows_read += hi - lo
        self.largest_block = max(self.largest_block, hi - lo)
        return self._inner.block(lo, hi)


def problem(kind, seed=0, n=300, d=6):
    """(X, y, weight, parameters of LinearSVC)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X[:3] = 0.0  # rows of zeros are rows too
    scores = X @ rng.normal(size=(d, 3)) + rng.normal(size=(n, 3))
    weight = rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1)
    if kind == "classes":
        return X, scores.argmax(axis=1), weight, {"multi_class": "crammer_singer"}
    if kind == "costs":
        return X, scores.argmax(axis=1), weight, {"cost": COST, "multi_class": "crammer_singer"}
    y = np.where(scores[:, 0] > 0, 1, -1)
    return X, y, weight, {"loss": kind}


KINDS = ("hinge", "squared_hinge", "classes", "costs")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_agrees_with_rows_in_memory_and_with_cutting_planes(kind, sparse):
    X, y, weight, params = problem(kind)
    data = sp.csr_matrix(X) if sparse else X
    options = {"C": 0.3, "tol": 1e-4, **params}
    planes = LinearSVC(solver=CuttingPlane(), **options).fit(X, y, weight)
    memory = LinearSVC(solver=DualCoordinate(), **options).fit(X, y, weight)
    stream = LinearSVC(solver=DualCoordinate(max_cached=40), **options)
    stream.fit(Elsewhere(data), y, weight)
    fits = (planes, memory, stream)
    assert all(fit.converged_ and fit.gap_ <= 1e-4 for fit in fits)
    assert max(f.lower_bound_ for f in fits) <= min(f.objective_ for f in fits) * (1 + 1e-9)
    assert {record["method"] for record in stream.history_} == {"stream"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_converges_with_true_bounds_and_a_bounded_cache(kind):
    X, y, weight, params = problem(kind, n=200)
    best = LinearSVC(C=0.3, tol=1e-6, **params).fit(X, y, weight)
    records = []
    solver = DualCoordinate(max_cached=10)
    svc = LinearSVC(C=0.3, solver=solver, callbacks=[records.append], **params)
    svc.fit(Elsewhere(X), y, weight)
    assert svc.converged_
    assert svc.certificate_ == "exact"
    assert svc.lower_bound_ <= best.objective_ * (1 + 1e-9)
    assert svc.objective_ >= best.lower_bound_ * (1 - 1e-9)
    for record in records:
        assert record.lower_bound <= best.objective_ * (1 + 1e-9)
        assert record.objective >= best.lower_bound_ * (1 - 1e-9)
        assert record.n_cuts <= 10
    assert all(a.lower_bound <= b.lower_bound for a, b in pairwise(records))


def test_one_pass_is_one_pass():
    X, y, weight, _ = problem("hinge", n=2000)
    design = Elsewhere(X)
    svc = LinearSVC(C=0.1, solver=DualCoordinate(schedule="one_pass", max_cached=500), loss="hinge")
    svc.fit(design, y, weight)
    assert svc.stop_reason_ == "max_iter"
    assert not svc.converged_
    # the stream, its check, and the two products of the certificate
    assert design.rows_read == 4 * len(y)
    best = LinearSVC(C=0.1, tol=1e-5, loss="hinge").fit(X, y, weight)
    assert svc.lower_bound_ <= best.objective_
    assert svc.objective_ <= 1.02 * best.objective_


def test_a_sorted_file_is_no_harder_than_a_shuffled_one():
    X, y, _, _ = problem("hinge", n=4000)
    order = np.lexsort((X[:, 0], y))
    passes = []
    for rows in (slice(None), order):
        svc = LinearSVC(C=0.1, solver=DualCoordinate(max_cached=400), loss="hinge").fit(
            Elsewhere(X[rows]), y[rows]
        )
        assert svc.converged_
        passes.append(svc.history_[-1]["oracle_calls"])
    assert passes[1] <= 1.5 * passes[0]


@pytest.mark.parametrize("kind", KINDS)
def test_multipliers_are_feasible_and_worth_what_is_claimed_after_every_step(kind):
    X, y, weight, params = problem(kind, n=120)
    loss = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}.get(kind)
    if loss is None:
        loss = CrammerSinger(params.get("cost", 1.0 - np.eye(3)))
    labels = y.astype(float) if loss.n_outputs() is None else y
    risk = ScoreRisk(Elsewhere(X), labels, loss, sample_weight=weight, intercept=1.5)
    C = 0.4
    duals = risk.row_duals("stream", C, SquaredNorm(), Streaming(max_cached=15, chunks=7))
    caps, last = C * weight, -np.inf
    Z = np.hstack([X, np.full((len(X), 1), 1.5)])
    for seed in range(30):
        duals.improve(seed)
        alpha = duals.multipliers
        assert (alpha >= 0.0).all()
        if loss.n_outputs() is None:
            w = Z.T @ (alpha * y)
            value = alpha.sum() - 0.5 * w @ w
            if kind == "squared_hinge":
                used = alpha > 0
                value -= (alpha[used] ** 2 / (4.0 * caps[used])).sum()
            else:
                assert (alpha <= caps).all()
        else:
            away = alpha.copy()
            away[np.arange(len(y)), y] = 0.0
            assert (away.sum(axis=1) <= caps * (1 + 1e-12)).all()
            coef = -away
            coef[np.arange(len(y)), y] = away.sum(axis=1)
            w = (Z.T @ coef).ravel()
            value = (away * loss.cost[y]).sum() - 0.5 * w @ w
        np.testing.assert_allclose(duals.w, w, rtol=1e-9, atol=1e-11)
        assert duals.dual_estimate(C) == pytest.approx(value, rel=1e-9)
        assert value >= last - 1e-12 * abs(last)  # ascent, whatever was evicted
        last = value
    assert duals.dual_value(C) == pytest.approx(last, rel=1e-9)
    at = risk.evaluate(duals.w.copy())
    duals.check(risk.scores(at))
    gap = 0.5 * at.w @ at.w + C * at.value - last
    assert duals._gaps.sum() == pytest.approx(gap, rel=1e-8, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    chunks=st.integers(1, 9),
    cache=st.integers(1, 12),
    schedule=st.sampled_from(["gap", "one_pass"]),
)
def test_the_lower_bound_never_lies(seed, n, chunks, cache, schedule):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    risk = ScoreRisk(Elsewhere(X), y, Hinge(), sample_weight=rng.integers(0, 3, n) + 1e-3)
    C = float(10 ** rng.uniform(-2, 1))
    duals = risk.row_duals(
        "stream", C, SquaredNorm(), Streaming(schedule, chunks=chunks, max_cached=cache)
    )
    seen = [0.5 * w @ w + C * risk.evaluate(w).value for w in rng.normal(size=(20, 3))]
    for step in range(12):
        duals.improve(step)
        w = duals.w.copy()
        seen.append(0.5 * w @ w + C * risk.evaluate(w).value)
        assert duals.dual_estimate(C) <= min(seen) * (1 + 1e-9)
        assert duals.n_active <= cache


def test_the_same_bits_for_any_number_of_threads():
    X, y, weight, _ = problem("hinge", n=3000, d=40)
    fits = [
        LinearSVC(C=0.2, n_jobs=jobs, solver=DualCoordinate(max_cached=100), loss="hinge").fit(
            Elsewhere(X), y, weight
        )
        for jobs in (1, 2, 3)
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
        assert (fit.objective_, fit.lower_bound_) == (fits[0].objective_, fits[0].lower_bound_)


@pytest.mark.parametrize("at", [3, 25, 47])
def test_ctrl_c_while_a_piece_is_read_leaves_a_true_certificate(at):
    X, y, weight, _ = problem("hinge", n=500)
    best = LinearSVC(C=0.3, tol=1e-6, loss="hinge").fit(X, y, weight)

    class Pressed(Elsewhere):
        reads = 0

        def block(self, lo, hi):
            self.reads += 1
            if self.reads == at * 25:
                raise KeyboardInterrupt
            return super().block(lo, hi)

    solver = DualCoordinate(max_cached=10)
    svc = LinearSVC(C=0.3, tol=1e-9, solver=solver, loss="hinge")
    assert interrupted(svc.fit, Pressed(X), y, weight).estimator is svc
    assert svc.stop_reason_ == "interrupted"
    assert svc.lower_bound_ <= best.objective_ * (1 + 1e-9)
    assert svc.objective_ >= best.lower_bound_ * (1 - 1e-9)
    assert np.isfinite(svc.gap_)
    assert svc.lower_bound_ > 0.0


def test_a_warm_start_takes_up_the_multipliers():
    X, y, weight, _ = problem("hinge", n=1500)
    solver = DualCoordinate(max_cached=100)
    svc = LinearSVC(C=0.3, solver=solver, warm_start=True, loss="hinge").fit(
        Elsewhere(X), y, weight
    )
    cold = svc.history_[-1]["oracle_calls"]
    svc.set_params(C=0.33).fit(Elsewhere(X), y, weight)
    assert svc.converged_
    assert svc.history_[-1]["oracle_calls"] < cold


def test_auto_streams_only_where_planes_cost_too_much():
    rng = np.random.default_rng(0)
    n = 300
    y = rng.integers(0, 2, n)
    wide = sp.random(n, MANY_COORDINATES + 10, density=1e-3, format="csr", random_state=0)
    for X, method in ((wide, "stream"), (rng.normal(size=(n, 5)), "cutting planes")):
        svc = LinearSVC(C=0.1, solver=Auto(), loss="hinge").fit(Elsewhere(X), y)
        assert svc.converged_
        assert {r["method"] for r in svc.history_} == {method}


def test_what_makes_no_sense_is_refused():
    X, y, _, _ = problem("hinge", n=30)
    with pytest.raises(ValueError, match="schedule='often'"):
        DualCoordinate(schedule="often")
    with pytest.raises(ValueError, match="at least one row"):
        DualCoordinate(max_cached=0)

    class Blind(Elsewhere):
        block = property()

    with pytest.raises(TypeError, match="does not give access to single rows"):
        LinearSVC(solver=DualCoordinate(), loss="hinge").fit(Blind(X), y)


@pytest.mark.data
@pytest.mark.slow
def test_one_pass_over_covertype_ends_within_two_percent():
    X, y = require(datasets.covtype, dense=True)
    y = np.where(y == 2, 1, -1)  # C = 0.1 is best on held-out rows; rows are sorted by place
    best = LinearSVC(C=0.1, tol=1e-4, loss="hinge").fit(X, y)
    solver = DualCoordinate(schedule="one_pass", max_cached=20_000)
    svc = LinearSVC(C=0.1, solver=solver, loss="hinge").fit(Elsewhere(X), y)
    assert svc.objective_ <= 1.02 * best.lower_bound_
    assert svc.lower_bound_ <= best.objective_
