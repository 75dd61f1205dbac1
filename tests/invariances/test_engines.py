"""Whole fits are the same in every bit wherever the shards live. If a worker dies on the way, they end with
true bounds."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.killed_shards import Kill, KillingEngine
from tests.nightly import first
from tests.tiny_tasks import TinyMulticlass

from maxmargin import minimize
from maxmargin.engines import ProcessEngine, SerialEngine, ThreadEngine
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk, TaskRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap
from maxmargin.tasks import Chain, Enumerable


def rows(seed=0, n=20_000, d=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    return rng, X


def binary(engine):
    rng, X = rows()
    y = np.where(X @ rng.normal(size=30) + rng.normal(size=len(X)) > 0.0, 1.0, -1.0)
    return ScoreRisk(sp.csr_matrix(X), y, Hinge(), intercept=1.0, engine=engine), 0.01


def hard(engine):
    return binary(engine)[0], 1.0


def multiclass(engine):
    rng, X = rows(1)
    y = (X @ rng.normal(size=(30, 4)) + rng.normal(size=(len(X), 4))).argmax(axis=1)
    return ScoreRisk(X, y, CrammerSinger(1.0 - np.eye(4)), engine=engine), 0.005


def chain(engine):
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(rng.integers(1, 9), 5)) for _ in range(600)]
    Y = [(x[:, :3] + rng.normal(size=(len(x), 3))).argmax(axis=1) for x in X]
    task = Chain(3)
    dim = task.setup(X, Y)
    return TaskRisk(task, X, Y, dim, engine=engine), 0.02


def python(engine, expensive=False):
    rng = np.random.default_rng(3)
    X, Y = list(rng.normal(size=(130, 3))), list(rng.integers(0, 3, 130))
    task = TinyMulticlass()
    dim = task.setup(X, Y)
    return TaskRisk(task, X, Y, dim, engine=engine, expensive=expensive), 0.1


def expensive(engine):
    return python(engine, expensive=True)


def candidates(engine):
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(rng.integers(2, 6), 4)) for _ in range(200)]
    Y = [int(np.argmax(x[:, 0] + rng.normal(size=len(x)))) for x in X]
    task = Enumerable()
    return TaskRisk(task, X, Y, task.setup(X, Y), engine=engine), 0.1


def solve(problem, engine, solver=None, max_iter=None):
    risk, C = problem(engine)
    return minimize(
        risk, C, solver=solver or CuttingPlane(), stopping=RelativeGap(1e-3), max_iter=max_iter
    )


def fit(problem, engine, solver=None):
    out = solve(problem, engine, solver, max_iter=25)
    bounds = [(r.objective, r.lower_bound) for r in out.history]
    return out.w.tobytes(), out.objective, out.lower_bound, out.n_iter, bounds


#: the optimum by another solver, in one thread
REFEREES = {binary: DualCoordinate(), hard: DualCoordinate(), multiclass: DualCoordinate()}


def check_certified(found, problem, solver=None):
    """The bounds hold: the objective is that of the weights, and the optimum lies between."""
    risk, C = problem(SerialEngine())
    F = 0.5 * found.w @ found.w + C * risk.evaluate(found.w).value
    assert found.objective == pytest.approx(F, rel=1e-9)
    best = solve(problem, SerialEngine(), REFEREES.get(problem, DualCoordinate(batch_size="all")))
    assert best.converged
    assert found.lower_bound <= best.objective * (1 + 1e-9)
    assert best.lower_bound <= found.objective * (1 + 1e-9)
    if solver is not AT_SHARDS:  # two planes are too few
        assert found.converged


#: planes at the shards; few of them, so that some are combined on the way
AT_SHARDS = CuttingPlane(space="rows", max_planes=2)

PROBLEMS = [
    (binary, None),
    (hard, AT_SHARDS),
    (multiclass, None),
    (multiclass, CuttingPlane(space="rows")),
    (chain, CuttingPlane(use_cache=True)),
    (chain, CuttingPlane(use_cache=False)),
    (chain, DualCoordinate()),
    (chain, DualCoordinate(batch_size="all")),
    (chain, DualCoordinate(batch_size=7)),
    (chain, DualCoordinate(oracle="expensive")),
    (python, None),
    (python, DualCoordinate()),
    (python, DualCoordinate(batch_size=3)),
    (expensive, DualCoordinate(oracle="expensive")),
    (expensive, CuttingPlane()),
    (candidates, CuttingPlane(use_cache=True)),
    (candidates, DualCoordinate(batch_size="all")),
]


@pytest.fixture(scope="module")
def engines():
    made = [ThreadEngine(1), ThreadEngine(2), ThreadEngine(7), ProcessEngine(2), ProcessEngine(3)]
    yield made
    for engine in made:
        engine.close()


@pytest.mark.parametrize(("problem", "solver"), PROBLEMS)
def test_engines_give_the_same_bits(engines, problem, solver):
    expected = fit(problem, SerialEngine(), solver)
    for engine in engines:
        assert fit(problem, engine, solver) == expected


@pytest.mark.parametrize(
    ("problem", "solver", "kills"),
    first(
        2,
        [
            # (method, shard, which call): in the pass over the rows, in the line search, in a step, in a cut
            (binary, None, [("line_evaluate", 0, 2), ("line_slopes", 2, 3), ("line_toward", 0, 2)]),
            # in the oracle, and in a line search on what oracles said before
            (chain, CuttingPlane(use_cache=True), [("measure", 3, 3), ("line_slopes", 12, 5)]),
            (multiclass, None, [("line_kinks", 17, 3), ("line_cut_toward", 31, 4)]),
            # while a plane is made at the shards, after some were combined, and when the fit starts again
            (hard, AT_SHARDS, [("column_gradient", 0, 1), ("column_plane", 2, 5)]),
            (hard, AT_SHARDS, [("column_finish", 0, 19), ("column_finish", 2, 4)]),
            (
                hard,
                AT_SHARDS,
                [("columns_mix", 0, 1), ("line_slopes", 2, 3), ("column_products", 1, 20)],
            ),
            (
                multiclass,
                CuttingPlane(space="rows"),
                [("line_toward", 9, 4), ("combine_rows", 31, 2)],
            ),
            (python, None, [("measure", 2, 2), ("line_kinks", 0, 4)]),
            (python, DualCoordinate(), [("oracle_runs", 1, 1)]),
            # again while what it had lost is computed anew
            (chain, CuttingPlane(use_cache=True), [("line_kinks", 1, 3), ("line_restore", 3, 1)]),
            (expensive, DualCoordinate(oracle="expensive"), [("oracle_for", 4, 3)]),
        ],
    ),
)
def test_a_killed_worker_costs_a_recomputation(problem, solver, kills, tmp_path):
    kills = [Kill(str(tmp_path), *kill) for kill in kills]
    engine = KillingEngine(2, kills)
    try:
        found = solve(problem, engine, solver, max_iter=60 if solver is AT_SHARDS else None)
    finally:
        engine.close()
    assert [kill for kill in kills if not kill.is_done()] == []
    check_certified(found, problem, solver)
