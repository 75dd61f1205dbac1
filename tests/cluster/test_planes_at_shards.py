"""Planes that stay at the shards, on Ray: the same bits as in one thread, and true bounds with workers
killed."""

from __future__ import annotations

import pytest
from tests.invariances.test_engines import AT_SHARDS, check_certified, fit, hard, multiclass, solve
from tests.killed_shards import Kill, killing
from tests.nightly import first

from maxmargin.engines import SerialEngine


@pytest.fixture(scope="module")
def expected():
    return {problem: fit(problem, SerialEngine(), AT_SHARDS) for problem in (hard, multiclass)}


@pytest.mark.parametrize("problem", [hard, multiclass])
@pytest.mark.parametrize("n_workers", first(1, [2, 4]))
def test_the_same_bits(make_engine, expected, problem, n_workers):
    assert fit(problem, make_engine(n_workers), AT_SHARDS) == expected[problem]


@pytest.mark.parametrize(
    "kills",
    first(
        1,
        [
            # while a plane is made; after planes were combined, and when the fit starts again
            [("column_finish", 0, 2), ("line_slopes", 2, 4)],
            [("column_products", 1, 20), ("column_plane", 2, 3)],
        ],
    ),
)
def test_a_killed_worker_costs_a_recomputation(make_engine, kills, tmp_path, monkeypatch):
    engine = make_engine(2)
    kills = [Kill(str(tmp_path), *kill) for kill in kills]
    real = engine.open
    monkeypatch.setattr(
        engine, "open", lambda factory, specs: real(*killing(factory, specs, kills))
    )
    found = solve(hard, engine, AT_SHARDS, max_iter=60)
    assert [kill for kill in kills if not kill.is_done()] == []
    check_certified(found, hard, AT_SHARDS)
