"""Problems in lockstep: the same optima as one by one, true bounds, and planes that others may use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

from maxmargin import minimize
from maxmargin.core.contract import requests as ask
from maxmargin.core.shared_bundle import PartedCut, PlanePool, PooledBundle
from maxmargin.data.design import as_design
from maxmargin.engines import ThreadEngine
from maxmargin.losses import Hinge, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.risks.lockstep import LockstepRisk
from maxmargin.risks.shared_rows import RowRun, SharedRows, order_rows
from maxmargin.solvers import RelativeGap
from maxmargin.solvers.lockstep import Cell, Chain, minimize_many
from maxmargin.testing import binary_objective

WEIGHTS = [np.array([1.0, 1.0]), np.array([0.2, 1.0]), np.array([1.0, 0.1])]


def problem(seed: int = 0, n: int = 300, d: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += 0.8 * y
    return X, y


def shared(X: Any, y: Any, trains: Any, loss: Any = None, **kwargs: Any) -> tuple[Any, Any]:
    order, runs = order_rows((y > 0).astype(np.int64), trains, len(y))
    weight = kwargs.get("weight", np.ones(len(y)))
    rows = SharedRows(
        as_design(X[order]),
        y[order],
        weight[order],
        loss or Hinge(),
        kwargs.get("intercept", 1.0),
        tuple(RowRun(*run) for run in runs),
    )
    return rows, order


def folds(y: Any, k: int = 3) -> list[Any]:
    return [train for train, _ in StratifiedKFold(k).split(np.zeros(len(y)), y)]


def solve(rows: Any, chains: Any, tol: float = 1e-5, **kwargs: Any) -> list[Any]:
    risk = LockstepRisk(rows, kwargs.pop("engine", None))
    return list(minimize_many(risk, chains, stopping=RelativeGap(tol), **kwargs))


@pytest.mark.parametrize("splitter", [StratifiedKFold(4), ShuffleSplit(3, random_state=0)])
def test_runs_give_each_split_its_own_rows(splitter: Any) -> None:
    _, y = problem()
    trains = [train for train, _ in splitter.split(np.zeros((len(y), 1)), y)]
    order, runs = order_rows((y > 0).astype(np.int64), trains, len(y))
    assert sorted(order) == list(range(len(y)))
    for k, train in enumerate(trains):
        mine = np.concatenate([order[lo:hi] for lo, hi, _, splits in runs if k in splits])
        assert sorted(mine) == sorted(train)
    for lo, hi, part, _ in runs:
        assert ((y[order[lo:hi]] > 0) == bool(part)).all()


@pytest.mark.parametrize("kind", ["dense", "float32", "csr"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_every_cell_reaches_the_optimum_of_its_own_problem(kind: str, loss: Any) -> None:
    X, y = problem()
    X = {"dense": X, "float32": X.astype(np.float32), "csr": sp.csr_matrix(X)}[kind]
    trains = folds(y)
    rows, _ = shared(X, y, trains, loss)
    chains = [
        Chain([Cell(k, scale, C) for C in (0.01, 1.0)]) for k in range(3) for scale in WEIGHTS
    ]
    results = solve(rows, chains)
    assert len(results) == 18
    for found in results:
        cell, result = found.cell, found.result
        train = trains[cell.split]
        weight = cell.scale[(y[train] > 0).astype(int)]
        alone = minimize(
            ScoreRisk(X[train], y[train], loss, sample_weight=weight, intercept=1.0),
            cell.C,
            stopping=RelativeGap(1e-6),
        )
        assert result.converged
        assert result.gap <= 1e-5
        slack = 1e-9 * alone.objective
        assert result.lower_bound <= alone.objective + slack
        assert alone.lower_bound <= result.objective + slack
        if isinstance(loss, Hinge):
            F = binary_objective(
                result.w[:-1], result.w[-1], X[train], y[train].astype(int), cell.C,
                weight,
            )  # fmt: skip
            assert result.objective == pytest.approx(F, rel=1e-9)


def test_answers_equal_those_of_a_single_risk() -> None:
    X, y = problem()
    trains = folds(y)
    rows, _ = shared(X, y, trains)
    many = LockstepRisk(rows)
    scale = np.array([0.3, 2.0])
    number = many.open(1, scale)
    train = trains[1]
    one = ScoreRisk(
        X[train], y[train], Hinge(), sample_weight=scale[(y[train] > 0).astype(int)], intercept=1.0
    )
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(2, 7))
    a, b = many.evaluate([(number, u), (number, v)])
    p, q = one.evaluate(u), one.evaluate(v)
    assert a.value == pytest.approx(p.value)
    ts = np.linspace(0.0, 2.0, 9)
    slopes, kinks, moved = many.lines(
        [ask.Slopes(a, b, ts), ask.Breakpoints(a, b, 0.0, 1.0, 10_000), ask.Toward(a, b, 0.3)]
    )
    np.testing.assert_allclose(slopes, p.slopes(q, ts))
    expected = p.breakpoints(q, 0.0, 1.0, 10_000)
    np.testing.assert_allclose(np.sort(kinks[0]), np.sort(expected[0]))
    np.testing.assert_allclose(np.sort(kinks[1]), np.sort(expected[1]))
    assert moved.value == pytest.approx(one.evaluate(moved.w).value)
    cut, mine = moved.cut(), one.evaluate(moved.w).cut()
    assert cut.offset == pytest.approx(mine.offset)
    np.testing.assert_allclose(cut.plane, mine.plane, atol=1e-12)
    # after a cut the shards keep the incumbent only; what they dropped they compute anew
    assert b.toward(a, 0.5).value == pytest.approx(q.toward(p, 0.5).value)
    assert b.cut().offset == pytest.approx(q.cut().offset)


def test_shards_hold_two_scores_per_row_of_a_running_problem() -> None:
    X, y = problem()
    rows, _ = shared(X, y, folds(y))
    risk = LockstepRisk(rows)
    most = 0
    evaluate = risk.evaluate

    def watched(asked: Any) -> Any:
        nonlocal most
        answer = evaluate(asked)
        for shard in risk.engine._shards:  # type: ignore[attr-defined]
            most = max([most, *(len(shelf.scores) for shelf in shard._shelves.values())])
        return answer

    risk.evaluate = watched  # type: ignore[method-assign]
    chains = [Chain([Cell(k, np.ones(2), C) for C in (0.01, 1.0, 100.0)]) for k in range(3)]
    found = list(minimize_many(risk, chains))
    assert all(f.result.converged for f in found)
    assert most <= 2
    assert all(not shard._shelves for shard in risk.engine._shards)  # type: ignore[attr-defined]


def test_a_plane_of_one_weighting_is_a_cut_for_every_other() -> None:
    X, y = problem()
    trains = folds(y)
    rows, _ = shared(X, y, trains)
    risk = LockstepRisk(rows)
    rng = np.random.default_rng(2)
    number = risk.open(0, np.array([1.0, 1.0]))
    cut = risk.evaluate([(number, rng.normal(size=7))])[0].cut()
    assert isinstance(cut, PartedCut)
    pool = PlanePool(7, 2)
    pool.add(cut.offsets, cut.planes)
    for scale in (np.array([5.0, 0.1]), np.array([0.0, 1.0])):
        other = risk.open(0, scale)
        for v in rng.normal(size=(20, 7)):
            value = risk.evaluate([(other, v)])[0].value
            assert value >= pool.cut(0, scale).at(v) - 1e-9
            assert pool.cut(0, scale).at(v) == pytest.approx(pool.values(scale, v)[0])


def _parted(offset: float, plane: list[float], offsets: list[float], planes: Any) -> PartedCut:
    return PartedCut(offset, np.array(plane), offsets=np.array(offsets), planes=np.array(planes))


def test_a_bundle_takes_what_lifts_its_model_and_nothing_else() -> None:
    pool = PlanePool(1, 2)
    giver = PooledBundle(pool, np.array([1.0, 1.0]))
    giver.add([_parted(3.0, [-1.0], [1.0, 2.0], [[-1.0], [0.0]])])
    taker = PooledBundle(pool, np.array([1.0, 0.5]))
    before = len(taker)
    solution = taker.solve(1.0)
    assert (before, len(taker)) == (0, 1)
    assert solution.lower_bound == pytest.approx(2.0 - 0.5)
    taker.solve(1.0)
    assert len(taker) == 1


def test_a_full_pool_forgets_the_oldest() -> None:
    pool = PlanePool(1, 1, room=20)
    for k in range(50):
        pool.add(np.array([float(k)]), np.array([[0.0]]))
    values = pool.values(np.ones(1), np.zeros(1))
    assert sorted(values) == list(range(30, 50))


def test_width_and_workers_change_no_certificate() -> None:
    X, y = problem(n=600)
    rows, _ = shared(X, y, folds(y))

    def chains() -> list[Chain]:
        return [Chain([Cell(k, s, 1.0)]) for k in range(3) for s in WEIGHTS]

    def key(found: Any) -> Any:
        return found.cell.split, tuple(found.cell.scale)

    wide = sorted(solve(rows, chains()), key=key)
    narrow = sorted(solve(rows, chains(), width=2), key=key)
    engine = ThreadEngine(3)
    threads = sorted(solve(rows, chains(), engine=engine), key=key)
    engine.close()
    for a, b, c in zip(wide, narrow, threads, strict=True):
        assert b.result.lower_bound <= a.result.objective
        assert a.result.lower_bound <= b.result.objective
        np.testing.assert_array_equal(a.result.w, c.result.w)


def test_an_iteration_limit_ends_with_true_bounds() -> None:
    X, y = problem()
    rows, _ = shared(X, y, folds(y))
    short = solve(rows, [Chain([Cell(0, np.ones(2), 10.0)])], max_iter=3)[0].result
    full = solve(rows, [Chain([Cell(0, np.ones(2), 10.0)])])[0].result
    assert (short.n_iter, short.stop_reason, short.converged) == (3, "max_iter", False)
    assert short.lower_bound <= full.objective
    assert full.lower_bound <= short.objective
