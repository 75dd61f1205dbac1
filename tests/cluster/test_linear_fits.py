"""Linear fits on Ray: the same bits as in one thread, with workers and a whole machine killed on the way."""

from __future__ import annotations

import pytest
from tests.cluster.conftest import wait_until
from tests.cluster.shards import Part
from tests.doomed import Doom, doomed
from tests.invariances.test_engines import binary, fit, multiclass
from tests.nightly import first

from maxmargin import minimize
from maxmargin.engines import SerialEngine
from maxmargin.solvers import CuttingPlane


@pytest.mark.parametrize("n_workers", first(1, [2, 4]))
@pytest.mark.parametrize("problem", [binary, multiclass])
def test_the_same_bits(make_engine, problem, n_workers):
    assert fit(problem, make_engine(n_workers)) == fit(problem, SerialEngine())


@pytest.mark.parametrize("problem", first(1, [binary, multiclass]))
def test_a_killed_worker_changes_no_bit(make_engine, problem, tmp_path, monkeypatch):
    engine, expected = make_engine(2), fit(problem, SerialEngine())
    first, last = 1, 0  # shards of one worker each: the problems have two or more
    dooms = [
        Doom(str(tmp_path), "line_evaluate", first, 3),  # in the product
        Doom(str(tmp_path), "line_slopes", last, 4),  # in the line search
    ]
    real = engine.open
    monkeypatch.setattr(engine, "open", lambda factory, specs: real(*doomed(factory, specs, dooms)))
    assert fit(problem, engine) == expected
    assert [doom for doom in dooms if not doom.has_struck()] == []


def test_a_machine_that_dies_in_the_middle_of_a_fit_changes_no_bit(machines, make_engine):
    expected = _solved(SerialEngine())
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

    found = _solved(engine, kill)
    engine.open(Part, [0, 1, 2])
    after = set(engine.gather(Part.pid))
    machines.kill(spares[0])
    assert len(before & after) == 2  # another one did the work of the third
    assert found == expected


def _solved(engine, *callbacks):
    risk, C = binary(engine)
    found = minimize(risk, C, solver=CuttingPlane(), callbacks=callbacks)
    return found.w.tobytes(), found.objective, found.lower_bound, found.n_iter
