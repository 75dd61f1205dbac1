"""Linear fits on Ray: the same bits as in one thread, and true bounds with workers and a whole machine killed
on the way."""

from __future__ import annotations

import pytest
from tests.cluster.conftest import wait_until
from tests.cluster.shards import Part
from tests.invariances.test_engines import binary, check_certified, fit, multiclass, solve
from tests.killed_shards import Kill, killing
from tests.nightly import first
from tests.reference_optima.problems import solve_binary_qp
from tests.rows.test_row_blocks import rows

from maxmargin import LinearSVC, data, minimize
from maxmargin.engines import SerialEngine
from maxmargin.solvers import CuttingPlane, DualCoordinate


@pytest.mark.parametrize("n_workers", first(1, [2, 4]))
@pytest.mark.parametrize("problem", [binary, multiclass])
def test_the_same_bits(make_engine, problem, n_workers):
    assert fit(problem, make_engine(n_workers)) == fit(problem, SerialEngine())


@pytest.mark.parametrize("problem", first(1, [binary, multiclass]))
def test_a_killed_worker_costs_a_recomputation(make_engine, problem, tmp_path, monkeypatch):
    engine = make_engine(2)
    first, last = 1, 0  # shards of one worker each: the problems have two or more
    kills = [
        Kill(str(tmp_path), "line_evaluate", first, 3),  # in the product
        Kill(str(tmp_path), "line_slopes", last, 4),  # in the line search
    ]
    real = engine.open
    monkeypatch.setattr(
        engine, "open", lambda factory, specs: real(*killing(factory, specs, kills))
    )
    found = solve(problem, engine)
    assert [kill for kill in kills if not kill.is_done()] == []
    check_certified(found, problem)


def test_a_machine_that_dies_in_the_middle_of_a_fit(machines, make_engine):
    lost = machines.add()
    engine = make_engine(3)

    def spread():
        """A new machine is known before it is given anything to do."""
        engine.close()
        return lost.node_id in engine.open(Part, [0, 1, 2]).gather(Part.machine)

    wait_until(spread)
    before = set(engine.gather(Part.pid))
    spares = []

    def kill(record):
        if record.iteration == 3:
            spares.append(machines.add())
            machines.kill(lost)

    risk, C = binary(engine)
    found = minimize(risk, C, solver=CuttingPlane(), callbacks=[kill])
    engine.open(Part, [0, 1, 2])
    after = set(engine.gather(Part.pid))
    machines.kill(spares[0])
    assert len(before & after) == 2  # another one did the work of the third
    check_certified(found, binary)


@pytest.mark.parametrize("on_disk", [False, True])
def test_blocks_at_the_shards_give_the_same_bits(make_engine, on_disk, tmp_path):
    X, y, _ = rows(3, n=3000, d=20)
    if on_disk:
        X, y = data.write(tmp_path / "rows", [(X, y)], shard_bytes=20_000), None

    def fitted(engine):
        svc = LinearSVC(
            C=0.05, solver=DualCoordinate(blocks=5, dealing="shards"), engine=engine, loss="hinge"
        )
        svc.fit(X, y)
        assert svc.converged_
        return svc.coef_.tobytes(), svc.objective_, svc.lower_bound_, svc.n_iter_

    assert fitted(make_engine(2)) == fitted(SerialEngine())


def test_a_killed_worker_loses_its_multipliers_and_the_fit_goes_on(
    make_engine, tmp_path, monkeypatch
):
    X, y, _ = rows(6, n=300)
    best, _ = solve_binary_qp(X, y, 0.05)
    engine, kills = make_engine(2), [Kill(str(tmp_path), "block_visit", 1, 2)]
    real = engine.open
    monkeypatch.setattr(
        engine, "open", lambda factory, specs: real(*killing(factory, specs, kills))
    )
    svc = LinearSVC(
        C=0.05, solver=DualCoordinate(blocks=4, dealing="shards"), engine=engine, loss="hinge"
    ).fit(X, y)
    assert kills[0].is_done()
    assert svc.converged_
    assert svc.lower_bound_ <= best * (1 + 1e-9) <= svc.objective_ * (1 + 1e-7)
