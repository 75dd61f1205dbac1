"""Structured fits on Ray: the same bits as in one thread, with 2 and 4 workers, and true bounds with workers
killed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.invariances.test_engines import (
    candidates,
    chain,
    check_certified,
    expensive,
    fit,
    python,
    solve,
)
from tests.invariances.test_lost_caches import Fails, bags, latent_fit
from tests.killed_shards import Kill, killing
from tests.nightly import first

from maxmargin import SequenceTagger, StructuredSVM
from maxmargin.engines import SerialEngine
from maxmargin.solvers import CuttingPlane, DualCoordinate

CUTS = [None, CuttingPlane(use_cache=False)]
SETS = [DualCoordinate(batch_size="all"), DualCoordinate(oracle="expensive"), DualCoordinate()]
PROBLEMS = [
    *((chain, solver) for solver in CUTS + SETS),
    (python, None),
    (python, DualCoordinate()),  # 130 examples: batches of six
    (expensive, DualCoordinate(oracle="expensive")),
    (candidates, None),
]


@pytest.fixture(scope="module")
def expected():
    known = {}

    def ask(problem, solver):
        if (problem, str(solver)) not in known:
            known[problem, str(solver)] = fit(problem, SerialEngine(), solver)
        return known[problem, str(solver)]

    return ask


@pytest.mark.parametrize("n_workers", first(1, [2, 4]))
def test_the_same_bits(make_engine, expected, n_workers):
    for problem, solver in PROBLEMS:
        assert fit(problem, make_engine(n_workers), solver) == expected(problem, solver)


@pytest.mark.parametrize(
    ("problem", "solver", "kills"),
    first(
        1,
        [
            # in the oracle when the cached model is in use, and in the line search
            (chain, None, [("measure", 3, 3), ("line_kinks", 9, 4)]),
            (chain, DualCoordinate(batch_size="all"), [("oracle_runs", 9, 2)]),
            (expensive, DualCoordinate(oracle="expensive"), [("oracle_for", 4, 3)]),
        ],
    ),
)
def test_a_killed_worker_costs_a_recomputation(
    make_engine, problem, solver, kills, tmp_path, monkeypatch
):
    engine = make_engine(2)
    kills = [Kill(str(tmp_path), *kill) for kill in kills]
    real = engine.open
    monkeypatch.setattr(
        engine, "open", lambda factory, specs: real(*killing(factory, specs, kills))
    )
    found = solve(problem, engine, solver)
    assert [kill for kill in kills if not kill.is_done()] == []
    check_certified(found, problem)


@pytest.mark.nightly
def test_latent_fits(make_engine):
    assert latent_fit(bags, make_engine(2)) == latent_fit(bags, SerialEngine())


def test_a_tagger(make_engine):
    rng = np.random.default_rng(0)
    X = [[[f"w{k}"] for k in rng.integers(0, 30, rng.integers(1, 6))] for _ in range(80)]
    y = [[str(int(token[0][1:]) % 3) for token in x] for x in X]
    a, b = (SequenceTagger(engine=e).fit(X, y) for e in (make_engine(2), SerialEngine()))
    assert a.coef_.tobytes() == b.coef_.tobytes()
    assert (a.objective_, a.lower_bound_) == (b.objective_, b.lower_bound_)


def test_an_error_of_the_task_is_raised_once_and_never_retried(make_engine, tmp_path):
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(130, 3)), rng.integers(0, 3, 130)
    X[101, 0] = 7.0
    path = tmp_path / "calls"
    svm = StructuredSVM(
        Fails(str(path), after=2), 0.1, solver=CuttingPlane(), engine=make_engine(2)
    )
    with pytest.raises(LookupError, match="no answer for seven") as caught:
        svm.fit(list(X), list(Y))
    assert path.stat().st_size == 3
    notes = " ".join(caught.value.__notes__)
    assert "example 101" in notes
    assert notes.count("in shard 12 of 16") == 1
