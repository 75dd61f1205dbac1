"""Dual coordinate ascent over several blocks of rows: feasible points, ascent, the optimum, and bit-identical
results for any number of threads."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from tests.ctrl_c import interrupted
from tests.data import datasets, require
from tests.reference_optima.problems import solve_binary_qp
from tests.tiny_tasks import TinyMulticlass

from maxmargin import LinearSVC, LinearSVR, StructuredSVM, minimize
from maxmargin.compiled import row_blocks
from maxmargin.core import SquaredNorm
from maxmargin.core.contract.sweeps import Blocks
from maxmargin.duals.row_blocks import BlockCoordinates, padded
from maxmargin.engines import ThreadEngine, make_engine
from maxmargin.losses import (
    EpsilonInsensitive,
    Hinge,
    OneClass,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap
from maxmargin.testing import binary_objective

LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "tube": EpsilonInsensitive(0.2),
    "squared tube": SquaredEpsilonInsensitive(0.2),
    "one class": OneClass(),
}
BLOCKS = DualCoordinate(blocks=4, rounds=3)
SHARDS = DualCoordinate(blocks=4, dealing="shards")


def rows(seed=0, n=400, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) + 0.5
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1)


def opened(risk, C, blocks=5, rounds=3, norm=None):
    layout = Blocks(blocks, rounds)
    return risk.row_duals("block coordinate", C, norm or SquaredNorm(), blocks=layout)


def dual_of(loss, alpha, X, y, c, intercept, offset):
    """D(alpha), written out again."""
    Z = np.hstack([X, np.full((len(X), 1), intercept)])
    two_sided = isinstance(loss, EpsilonInsensitive | SquaredEpsilonInsensitive)
    y = np.ones(len(X)) if isinstance(loss, OneClass) else y
    if two_sided:
        u, value = Z.T @ alpha, alpha @ (y - offset) - 0.2 * np.abs(alpha).sum()
    else:
        u, value = Z.T @ (alpha * y), alpha.sum() - alpha @ (y * offset)
    if isinstance(loss, SquaredHinge | SquaredEpsilonInsensitive):
        used = alpha != 0.0
        value -= (alpha[used] ** 2 / (4.0 * c[used])).sum()
    return value, u


def value_of_feasible(duals, C, name, X, y, weight, offset):
    """D of the multipliers, which are feasible and belong to the weights, for an intercept of 2."""
    alpha = duals.multipliers
    assert not alpha[weight == 0.0].any()
    if "tube" not in name:
        assert (alpha >= 0.0).all()
    if "squared" not in name:
        assert (np.abs(alpha) <= C * weight).all()
    value, u = dual_of(LOSSES[name], alpha, X, y, C * weight, 2.0, offset)
    value -= 0.5 * u @ u
    np.testing.assert_allclose(duals.w, u, rtol=1e-9, atol=1e-11)
    assert duals.dual_estimate(C) == pytest.approx(value, rel=1e-9)
    return value


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("damping", ["measured", "none"])
def test_every_epoch_leaves_a_feasible_point_and_does_not_decrease_the_dual(
    name, form, damping, monkeypatch
):
    # without damping the blocks together overshoot, and the line search must shorten their changes
    steps, shorten = [], row_blocks.shorten
    monkeypatch.setattr(row_blocks, "shorten", lambda *a: (steps.append(a[3]), shorten(*a)))
    X, y, weight = rows()
    X = X.astype(np.float32).astype(np.float64)
    offset = 0.3 * np.sin(np.arange(len(y)))
    loss, C = LOSSES[name], 0.7
    data = {"dense": X, "sparse": sp.csr_matrix(X), "float32": X.astype(np.float32)}[form]
    risk = ScoreRisk(data, y, loss, sample_weight=weight, intercept=2.0, offset=offset)
    duals = opened(risk, C)
    last = 0.0
    for seed in range(12):
        if damping == "none":
            duals._damping[:] = 1.0
        duals.improve(seed)
        value = value_of_feasible(duals, C, name, X, y, weight, offset)
        assert value >= last - 1e-12 * abs(last)
        last = value
        duals.check(risk.scores(risk.evaluate(duals.w.copy())))
    assert damping == "measured" or (steps and max(steps) < 0.75)


@pytest.mark.parametrize("solver", [BLOCKS, SHARDS], ids=["threads", "shards"])
def test_weights_with_signs(solver):
    X, y, weight = rows(1)
    norm = SquaredNorm(nonnegative=np.array([0, 2]))
    fits = []
    for own in (solver, CuttingPlane()):
        risk = ScoreRisk(X, y, Hinge(), sample_weight=weight)
        fits.append(minimize(risk, 0.5, solver=own, regularizer=norm, stopping=RelativeGap(1e-5)))
    assert all(fit.converged for fit in fits)
    assert (fits[0].w[[0, 2]] >= 0.0).all()
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=2e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("solver", "method"), [(BLOCKS, "block coordinate"), (SHARDS, "shard coordinate")]
)
def test_the_bounds_include_the_optimum_of_an_independent_solver(solver, method, sparse):
    X, y, weight = rows(2, n=150)
    C = 0.8
    best, _ = solve_binary_qp(X, y, C, weight=weight)
    svc = LinearSVC(C=C, tol=1e-6, solver=solver, loss="hinge")
    svc.fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weight)
    assert svc.converged_
    assert svc.lower_bound_ <= best * (1 + 1e-9)
    assert best <= svc.objective_ * (1 + 1e-7)
    assert svc.objective_ - svc.lower_bound_ <= 1.1e-6 * svc.objective_
    assert {record["method"] for record in svc.history_} == {method}


@pytest.mark.parametrize("shape", [(900, 10), (150, 4796)], ids=["rows", "features"])
@pytest.mark.parametrize("sparse", [False, True])
def test_any_number_of_threads_gives_the_same_bits(shape, sparse):
    rng = np.random.default_rng(3)
    X = rng.normal(size=shape) * (rng.random(shape) < 0.2)
    y = X[:, :5].sum(axis=1) + 0.3 * rng.normal(size=len(X)) > 0
    X = sp.csr_matrix(X) if sparse else X
    fits = [
        LinearSVC(C=0.3, solver=DualCoordinate(blocks=6, rounds=2), n_jobs=jobs, loss="hinge").fit(
            X, y
        )
        for jobs in (1, 2, 7)
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
        assert fit.lower_bound_ == fits[0].lower_bound_
        assert fit.n_iter_ == fits[0].n_iter_
    assert fits[0].converged_


def test_blocks_use_several_threads():
    # all three calls wait for each other: they are in three threads
    engine, barrier, seen = ThreadEngine(3), threading.Barrier(3, timeout=60.0), set()

    def meet(index):
        barrier.wait()
        seen.add(index)

    engine.run(meet, 3)
    assert seen == {0, 1, 2}
    with pytest.raises(ZeroDivisionError):
        engine.run(lambda index: 1 // (index - 4), 9)
    engine.close()


def test_private_vectors_share_no_cache_line():
    copies = padded(5, 13)
    starts = [copies[k].ctypes.data for k in range(5)]
    assert all(start % 64 == 0 for start in starts)
    assert all(b - a >= 13 * 8 + 64 for a, b in pairwise(starts))
    assert all(copies[k].flags.c_contiguous for k in range(5))


def test_one_block_is_the_sequential_method():
    X, y, weight = rows(4)
    fits = [
        LinearSVC(C=2.0, solver=s, loss="hinge").fit(X, y, sample_weight=weight)
        for s in (DualCoordinate(), DualCoordinate(blocks=1))
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert {record["method"] for record in fits[1].history_} == {"coordinate"}


@pytest.mark.parametrize("n", [2, 7, 30])
def test_more_blocks_than_rows(n):
    X, _, _ = rows(5, n=n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    svc = LinearSVC(C=1.0, tol=1e-4, solver=DualCoordinate(blocks=64, rounds=8), loss="hinge").fit(
        X, y
    )
    assert svc.converged_
    F = binary_objective(svc.coef_[0], svc.intercept_[0], X, y, 1.0)
    assert svc.objective_ == pytest.approx(F, rel=1e-9)


def test_a_sorted_file_takes_no_more_epochs():
    X, y, _ = rows(6, n=4000)
    order = np.lexsort((X[:, 0], y))
    passes = [
        LinearSVC(C=0.1, solver=DualCoordinate(blocks=8, rounds=4), loss="hinge")
        .fit(X[i], y[i])
        .history_[-1]
        for i in (np.random.default_rng(0).permutation(len(y)), order)
    ]
    assert passes[1]["oracle_calls"] <= 1.5 * passes[0]["oracle_calls"] + 1.0


def test_a_warm_start_reuses_the_multipliers():
    X, y, _ = rows(7, n=3000)
    svc = LinearSVC(C=0.2, solver=BLOCKS, warm_start=True, loss="hinge").fit(X, y)
    first = svc.history_[-1]["oracle_calls"]
    svc.set_params(C=0.22).fit(X, y)
    assert svc.converged_
    assert svc.history_[-1]["oracle_calls"] < first


def test_regression():
    X, y, weight = rows(8)
    y = y + X[:, 0]
    fits = [
        LinearSVR(0.5, epsilon=0.1, tol=1e-5, solver=s).fit(X, y, sample_weight=weight)
        for s in (BLOCKS, CuttingPlane())
    ]
    assert all(fit.converged_ for fit in fits)
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=3e-5)


@pytest.mark.parametrize("dealing", ["epochs", "shards"])
def test_one_class(dealing):
    # all samples pull in the same direction, so the changes of all blocks agree
    X, _, weight = rows(11, n=600)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, C = np.ones(len(X)), 0.02
    best, _ = solve_binary_qp(X, y, C, weight=weight, fit_intercept=False)
    fits = []
    for jobs in (1, 2, 7):
        risk = ScoreRisk(X, y, OneClass(), sample_weight=weight, engine=make_engine(jobs))
        solver = DualCoordinate(blocks=4, rounds=2, dealing=dealing)
        fits.append(minimize(risk, C, solver=solver, stopping=RelativeGap(1e-6)))
        risk.engine.close()
        np.testing.assert_array_equal(fits[-1].w, fits[0].w)
        assert fits[-1].lower_bound == fits[0].lower_bound
    assert fits[0].converged
    assert {record.method for record in fits[0].history} <= {"block coordinate", "shard coordinate"}
    assert fits[0].lower_bound <= best * (1 + 1e-9)
    assert best <= fits[0].objective * (1 + 1e-7)


def test_several_classes_by_one_problem_each():
    X, _, weight = rows(12)
    y = (X[:, :3] + 0.1 * X[:, 3:]).argmax(axis=1)
    fits = [
        LinearSVC(C=0.3, tol=1e-5, multi_class="ovr", solver=s, loss="hinge").fit(
            X, y, sample_weight=weight
        )
        for s in (BLOCKS, CuttingPlane())
    ]
    assert all(fit.converged_ for fit in fits)
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=3e-5)


def test_an_interrupt_between_two_rounds_leaves_weights_and_true_bounds(monkeypatch):
    X, y, _ = rows(9)
    calls, measure = [], BlockCoordinates._measure

    def press(*args):
        calls.append(1)
        if len(calls) == 8:  # the blocks have moved, and w has not
            raise KeyboardInterrupt
        measure(*args)

    monkeypatch.setattr(BlockCoordinates, "_measure", press)
    svc = interrupted(
        LinearSVC(C=1.0, tol=1e-9, solver=BLOCKS, n_jobs=2, loss="hinge").fit, X, y
    ).estimator
    assert svc.stop_reason_ == "interrupted"
    F = binary_objective(svc.coef_[0], svc.intercept_[0], X, y, 1.0)
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    best = LinearSVC(C=1.0, tol=1e-6, solver=CuttingPlane(), loss="hinge").fit(X, y).objective_
    assert 0.0 < svc.lower_bound_ <= best <= svc.objective_ * (1 + 1e-6)

    risk, calls[:] = ScoreRisk(X, y, Hinge()), []
    duals = opened(risk, 1.0)
    with pytest.raises(KeyboardInterrupt):
        duals.improve(0, 9)
    np.testing.assert_allclose(duals.w, X.T @ (duals.multipliers * y), rtol=1e-12, atol=1e-12)


def test_what_blocks_are_not_for_is_refused():
    X, y, _ = rows(10, n=60)
    with pytest.raises(TypeError, match=r"one per class.*leave out blocks=.*'ovr'"):
        LinearSVC(solver=BLOCKS, multi_class="crammer_singer").fit(X, np.arange(60) % 3)
    with pytest.raises(TypeError, match="unpenalized intercept"):
        LinearSVC(solver=BLOCKS, penalize_intercept=False, loss="hinge").fit(X, y)
    with pytest.raises(TypeError, match="single rows"):
        StructuredSVM(TinyMulticlass(), solver=BLOCKS).fit(list(X[:, :3]), [0, 1, 2] * 20)
    for wrong in ({"blocks": 0}, {"blocks": 2.5}, {"blocks": 4, "rounds": 0}, {"rounds": 3}):
        with pytest.raises(ValueError, match=r"blocks|rounds"):
            DualCoordinate(**wrong)
    with pytest.raises(ValueError, match="not for streams"):
        DualCoordinate(blocks=4, max_cached=100)
    with pytest.raises(ValueError, match="set blocks="):
        DualCoordinate(dealing="shards")
    with pytest.raises(ValueError, match="'epochs' or 'shards'"):
        DualCoordinate(blocks=4, dealing="rows")


@pytest.mark.data
@pytest.mark.parametrize("C_mean", [1e3, 1e5])
def test_real_data_reach_the_tolerance(C_mean):
    X, y = require(datasets.a9a)
    svc = LinearSVC(C=C_mean / len(y), solver=DualCoordinate(blocks=8), n_jobs=2, loss="hinge").fit(
        X, y
    )
    assert svc.converged_
    assert svc.history_[-1]["oracle_calls"] < 60.0  # 8.5 and 21


@pytest.mark.data
def test_a_sorted_sample_of_covertype_reaches_the_tolerance():
    X, y = require(datasets.covtype)
    some = np.arange(0, X.shape[0], 10)
    some = some[np.argsort(y[some], kind="stable")]
    svc = LinearSVC(C=1e3 / len(some), solver=DualCoordinate(blocks=8), n_jobs=2, loss="hinge")
    svc.fit(X[some], y[some] == 2)
    assert svc.converged_
    assert svc.history_[-1]["oracle_calls"] < 12.0


@pytest.mark.data
def test_text_with_more_features_than_samples_reaches_the_tolerance():
    X, y = require(datasets.rcv1, "CCAT")
    svc = LinearSVC(
        C=1e3 / len(y), solver=DualCoordinate(blocks=8, rounds=1), n_jobs=2, loss="hinge"
    ).fit(X, y)
    assert svc.converged_
    assert svc.history_[-1]["oracle_calls"] < 15.0
