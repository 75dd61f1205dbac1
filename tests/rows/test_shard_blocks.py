"""Dual coordinate ascent over blocks that stay with the shards of an engine: feasible points, ascent, the
optimum, bit-identical results on all engines, and true bounds when multipliers are lost."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from tests.ctrl_c import interrupted
from tests.killed_shards import Kill, KillingEngine
from tests.nightly import first
from tests.rebuilt_shards import RebuildingEngine
from tests.reference_optima.problems import solve_binary_qp
from tests.rows.test_row_blocks import LOSSES, SHARDS, dual_of, rows, value_of_feasible

from maxmargin import GaussianPrior, LinearSVC, LinearSVR, data, minimize, svc_path
from maxmargin.core import SquaredNorm
from maxmargin.core.contract.sweeps import Blocks
from maxmargin.core.rounding import UpperBound
from maxmargin.engines import SerialEngine, ThreadEngine
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap


def opened(risk, C, blocks=5, rounds=1, epochs=3, norm=None):
    layout = Blocks(blocks, rounds, epochs)
    return risk.row_duals("shard coordinate", C, norm or SquaredNorm(), blocks=layout)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("rounds", "epochs"), first(1, [(3, 2), (1, 1), (1, 4)]))
def test_every_epoch_leaves_a_feasible_point_and_does_not_decrease_the_dual(
    name, sparse, rounds, epochs
):
    X, y, weight = rows()
    offset = 0.3 * np.sin(np.arange(len(y)))
    loss, C = LOSSES[name], 0.7
    risk = ScoreRisk(
        sp.csr_matrix(X) if sparse else X,
        y,
        loss,
        sample_weight=weight,
        intercept=2.0,
        offset=offset,
    )
    duals = opened(risk, C, 5, rounds, epochs)
    last = 0.0
    for seed in range(12):
        if seed % 3 == 2:  # too little damping: the blocks together overshoot and are shortened
            duals._damping[:] = 1.0
        duals.improve(seed)
        value = value_of_feasible(duals, C, name, X, y, weight, offset)
        assert duals.proved_value(C, UpperBound(np.inf)) == pytest.approx(value, rel=1e-9)
        assert value >= last - 1e-12 * abs(last)
        last = value
        at = risk.evaluate(duals.w.copy())
        duals.check(risk.scores(at)) if seed % 2 else risk.check(duals, at)
    duals.rescale(3.0 * C, SquaredNorm())
    value, u = dual_of(loss, duals.multipliers, X, y, 3.0 * C * weight, 2.0, offset)
    assert duals.dual_value(3.0 * C) == pytest.approx(value - 0.5 * u @ u, rel=1e-9)


def test_a_risk_serves_other_solvers_after_blocks_at_shards():
    # cutting planes over rows use the engine for themselves and open the shards of the risk again
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 400))
    risk = ScoreRisk(X, np.sign(X[:, 0]), Hinge())
    shards = risk.n_blocks
    solvers = [SHARDS, CuttingPlane(space="rows"), SHARDS]
    fits = []
    for solver in solvers:
        fits.append(minimize(risk, 0.1, solver=solver, stopping=RelativeGap(1e-5)))
        assert risk.n_blocks == (4 if solver is SHARDS else shards)
    assert all(fit.converged for fit in fits)
    assert np.array_equal(fits[0].w, fits[-1].w)
    assert [fit.objective for fit in fits] == pytest.approx([fits[0].objective] * 3, rel=1e-5)


def fit(X, y, engine=None, **options):
    svc = LinearSVC(
        C=0.05,
        solver=DualCoordinate(blocks=5, dealing="shards", **options),
        engine=engine,
        loss="hinge",
    )
    svc.fit(X, y)
    assert svc.converged_
    return svc.coef_.tobytes(), svc.objective_, svc.lower_bound_, svc.n_iter_


@pytest.mark.parametrize("options", first(1, [{}, {"rounds": 2, "max_epochs": 3}]))
@pytest.mark.parametrize("form", ["dense", "sparse", "on disk"])
def test_all_engines_give_the_same_bits(form, options, processes, tmp_path):
    X, y, _ = rows(3, n=3000, d=20)
    expected = fit(X, y, SerialEngine(), **options)
    if form == "sparse":
        X = sp.csr_matrix(X)
        expected = fit(X, y, SerialEngine(), **options)
    if form == "on disk":  # the same as in memory
        X, y = data.write(tmp_path / "rows", [(X, y)], shard_bytes=20_000), None
    for engine in (SerialEngine(), ThreadEngine(2), ThreadEngine(7), processes):
        assert fit(X, y, engine, **options) == expected


def test_sorted_files_are_no_harder():
    X, y, _ = rows(4, n=4000, d=20)
    order = np.argsort(y, kind="stable")
    sorted_, mixed = fit(X[order], y[order])[3], fit(X, y)[3]
    assert sorted_ <= 1.5 * mixed + 2


def test_only_weights_are_sent():
    sent = []

    class Watched(SerialEngine):
        def publish(self, array):
            sent.append(array.nbytes)
            return super().publish(array)

        def _call(self, index, method, args):
            answer = super()._call(index, method, args)
            if (
                method == "line_kinks"
            ):  # a few thousand numbers for a line search, if that is enough
                return answer
            parts = answer if isinstance(answer, tuple) else (answer,)
            sent.append(
                sum(
                    np.asarray(part).nbytes for part in parts if not hasattr(part, "largest_demand")
                )
            )
            return answer

    X, y, _ = rows(5, n=20_000, d=10)
    fit(X, y, Watched())
    # two vectors and a few statistics, also for the certificate; the rows are 20,000
    assert max(sent) <= 8 * (2 * 11 + 10)


def certified(result, X, y, C):
    best, _ = solve_binary_qp(X, y, C)
    assert result.lower_bound <= best * (1 + 1e-9)
    assert best <= result.objective * (1 + 1e-7)


@pytest.mark.parametrize("method", first(1, ["block_visit", "block_choose", "block_sums"]))
def test_a_killed_worker_begins_again_and_the_bounds_are_true(method, tmp_path):
    X, y, _ = rows(6, n=300)
    kills = [Kill(str(tmp_path), method, 1, 2)]
    engine = KillingEngine(2, kills)
    risk = ScoreRisk(X, y, Hinge(), intercept=1.0, engine=engine)
    result = minimize(risk, 0.5, solver=SHARDS, stopping=RelativeGap(1e-3))
    engine.close()
    assert kills[0].is_done()
    assert result.converged
    certified(result, X, y, 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_workers_that_die_all_the_time(seed):
    X, y, _ = rows(7, n=200)
    engine = RebuildingEngine(seed, rate=0.05)
    risk = ScoreRisk(X, y, Hinge(), intercept=1.0, engine=engine)
    result = minimize(risk, 0.5, solver=SHARDS, stopping=RelativeGap(1e-3), max_iter=300)
    assert engine.deaths > 0
    certified(result, X, y, 0.5)


def test_after_ctrl_c_the_bound_of_the_last_check_remains():
    X, y, _ = rows(8, n=400)

    class Interrupted(RebuildingEngine):
        """Ctrl-C in the 30th round; all workers were busy and are ended."""

        rounds = 0

        def reduce(self, method, *args):
            if method.__name__ == "block_visit":
                self.rounds += 1
                if self.rounds == 30:
                    self._die(*range(len(self._shards)))
                    raise KeyboardInterrupt
            return super().reduce(method, *args)

    risk = ScoreRisk(X, y, Hinge(), intercept=1.0, engine=Interrupted(0, rate=0.0))
    error = interrupted(minimize, risk, 0.02, solver=SHARDS, stopping=RelativeGap(1e-9))
    result = error.result
    assert result.stop_reason == "interrupted"
    assert 0.0 < result.gap < 0.1
    certified(result, X, y, 0.02)


def test_a_checkpoint_continues(tmp_path):
    X, y, _ = rows(9, n=600)
    svc = LinearSVC(
        C=0.5, tol=1e-5, solver=SHARDS, max_iter=6, checkpoint=tmp_path / "state", loss="hinge"
    )
    with pytest.warns(ConvergenceWarning):
        svc.fit(X, y)
    before = svc.lower_bound_
    assert not svc.converged_
    svc.set_params(max_iter=None, checkpoint=None).fit(X, y, resume_from=tmp_path / "state")
    assert svc.converged_
    assert svc.lower_bound_ >= before


def test_paths_and_warm_starts_begin_each_fit_anew():
    X, y, _ = rows(10, n=300)
    for svc in svc_path(X, y, Cs=[0.1, 1.0], solver=SHARDS, loss="hinge"):
        assert svc.converged_
    svc = LinearSVC(C=0.1, solver=SHARDS, warm_start=True, loss="hinge").fit(X, y)
    assert svc.fit(X, y).converged_


def test_regression():
    X, _, _ = rows(11, n=500)
    y = X @ np.arange(6.0) + 0.1 * np.sin(np.arange(500))
    svr = LinearSVR(C=1.0, epsilon=0.1, solver=SHARDS).fit(X, y)
    other = LinearSVR(C=1.0, epsilon=0.1, solver=CuttingPlane()).fit(X, y)
    assert svr.converged_
    assert svr.objective_ == pytest.approx(other.objective_, rel=3e-3)


def test_what_shards_are_not_for_is_refused():
    X, y, _ = rows(12, n=60)
    with pytest.raises(TypeError, match=r"one score per sample.*leave out blocks="):
        LinearSVC(solver=SHARDS, multi_class="crammer_singer").fit(X, np.arange(60) % 3)
    with pytest.raises(TypeError, match="unpenalized intercept"):
        LinearSVC(solver=SHARDS, penalize_intercept=False, loss="hinge").fit(X, y)
    with pytest.raises(TypeError, match="prior transforms"):
        LinearSVC(
            solver=SHARDS, prior=GaussianPrior(precision=np.arange(1.0, 7.0)), loss="hinge"
        ).fit(X, y)
