"""Deaths: workers and machines end in the middle of calls, and the bits stay the same."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.cluster.conftest import wait_until, worker_pids
from tests.cluster.shards import Part, count

from maxmargin.core.summation import tree_sum
from maxmargin.engines import RayEngine, ray_team
from maxmargin.engines import ray as ray_engine


def _expected(n):
    return tree_sum([Part(k).value() for k in range(n)])


def test_a_worker_that_dies_in_a_call_is_replaced(make_engine, tmp_path):
    engine = make_engine(2).open(Part, list(range(5)))
    path = str(tmp_path / "deaths")
    before = engine.gather(Part.pid)
    assert engine.reduce(Part.die, 1, path, 3) == _expected(5)
    assert count(path) == 2
    after = engine.gather(Part.pid)
    assert after[0] == before[0]
    assert before[-1] not in after


def test_a_worker_that_hangs_is_replaced_and_logged(make_engine, tmp_path, caplog, monkeypatch):
    engine = make_engine(2).open(Part, list(range(5)))
    before = engine.gather(Part.pid)
    monkeypatch.setattr(engine, "timeout", 10.0)
    with caplog.at_level("WARNING", logger="maxmargin.engines"):
        assert engine.reduce(Part.hang, 4, str(tmp_path / "calls")) == _expected(5)
    assert set(engine.gather(Part.pid)) == {before[0]}  # the other worker took over
    (record,) = caplog.records
    assert "worker 1 of 2" in record.getMessage()
    assert "shards are spread over 1 others" in record.getMessage()
    assert "TimeoutError: no answer for 10 seconds" in record.getMessage()
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds"):
        ray_engine.RayEngine(2, timeout=0)


def test_shards_of_a_dead_worker_are_spread_over_the_others_and_return(make_engine, caplog):
    n, size = 8, 150_000  # large sums
    engine = make_engine(4).open(Part, list(range(n)))
    before, n_workers = engine.gather(Part.pid), len(worker_pids())
    expected = tree_sum([Part(k).vector(size) for k in range(n)])
    engine.reduce(Part.remember, 1.0)
    with caplog.at_level("INFO", logger="maxmargin.engines"):
        os.kill(before[2], signal.SIGKILL)
        assert engine.reduce(Part.vector, size).tobytes() == expected.tobytes()
        spread = engine.gather(Part.pid)
        lost = [k for k in range(n) if before[k] == before[2]]
        kept = [k for k in range(n) if k not in lost]
        assert [spread[k] for k in kept] == [before[k] for k in kept]
        assert len({spread[k] for k in lost}) == len(lost)  # each at another of the three
        # other shards keep what they stored
        assert engine.gather(Part.recall) == [None if k in lost else 1.0 for k in range(n)]
        engine.reduce(Part.pin)
        wait_until(lambda: len(worker_pids()) == n_workers)
        for _ in range(20):  # they may not be rebuilt elsewhere
            time.sleep(0.2)
            assert engine.gather(Part.pid) == spread
        engine.reduce(Part.unpin)
        wait_until(lambda: len(set(engine.gather(Part.pid))) == 4)
    after = engine.gather(Part.pid)
    assert [after[k] for k in kept] == [before[k] for k in kept]
    assert engine.reduce(Part.vector, size).tobytes() == expected.tobytes()
    log = "\n".join(record.getMessage() for record in caplog.records)
    assert "was lost during a call" in log
    assert "its 2 shards are spread over 3 others" in log
    assert "is started again on machine" in log
    assert "has its 2 shards back from 2 others" in log
    assert engine.traffic.sent > 0
    assert engine.traffic.received > 3 * size * 8


@pytest.mark.nightly
def test_a_worker_that_died_between_calls_is_replaced(make_engine):
    engine = make_engine(2).open(Part, list(range(5)))
    os.kill(engine.gather(Part.pid)[0], signal.SIGKILL)
    assert engine.reduce(Part.value) == _expected(5)
    for pid in set(engine.gather(Part.pid)):  # all of them
        os.kill(pid, signal.SIGKILL)
    assert engine.reduce(Part.value) == _expected(5)


def test_a_worker_killed_from_outside_while_it_works(make_engine, tmp_path):
    engine = make_engine(2).open(Part, list(range(4)))
    path = str(tmp_path / "calls")
    victim = engine.gather(Part.pid)[-1]

    def kill():
        wait_until(lambda: count(path) >= 2)
        os.kill(victim, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    assert engine.reduce(Part.wait, 0.7, path) == _expected(4)
    thread.join()
    assert victim not in worker_pids()


@pytest.mark.nightly
def test_a_worker_that_dies_again_and_again_is_given_up(make_engine, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_team, "MAX_DEATHS", 2)  # each takes seconds
    engine = make_engine(2).open(Part, list(range(4)))
    path = str(tmp_path / "deaths")
    with pytest.raises(
        RuntimeError, match=r"worker \d of 2 died, and shards that it had were lost 2 times"
    ):
        engine.reduce(Part.die, 100, path, 3)
    assert count(path) == 2
    for k in range(2):  # rare deaths are not counted together
        assert engine.reduce(Part.die, 1, str(tmp_path / str(k)), 3) == _expected(4)


def test_a_cluster_without_machines_is_an_error_with_advice(machines, monkeypatch):
    import ray

    gone = [{**node, "Alive": False} for node in ray.nodes()]
    monkeypatch.setattr(ray, "nodes", lambda: gone)
    with pytest.raises(RuntimeError, match=r"no machine of the Ray cluster is alive.*resume_from"):
        RayEngine(2).open(Part, [0, 1])


def test_a_worker_dies_while_large_sums_are_made(make_engine, monkeypatch):
    monkeypatch.setattr(ray_engine, "FEW", 1)
    n, size = 7, 150_000
    engine = make_engine(6).open(Part, list(range(n)))
    expected = tree_sum([Part(k).vector(size) for k in range(n)])
    for which in (0, 3, 5):
        os.kill(worker_pids()[which], signal.SIGKILL)
        assert engine.reduce(Part.vector, size).tobytes() == expected.tobytes()


@pytest.mark.nightly
def test_sums_that_are_lost_while_they_are_merged(make_engine, monkeypatch):
    monkeypatch.setattr(ray_engine, "FEW", 1)
    n, size = 7, 150_000
    engine = make_engine(6).open(Part, list(range(n)))
    expected = tree_sum([Part(k).vector(size) for k in range(n)])
    pids = list(dict.fromkeys(engine.gather(Part.pid)))
    total, rounds = ray_team.Worker.total, []

    def deadly(self, sums):
        if not rounds:
            os.kill(pids[0], signal.SIGKILL)
            wait_until(lambda: pids[0] not in worker_pids())
        rounds.append(1)
        return total(self, sums)

    monkeypatch.setattr(ray_team.Worker, "total", deadly)
    assert engine.reduce(Part.vector, size).tobytes() == expected.tobytes()
    assert len(rounds) == 2
    monkeypatch.setattr(ray_engine, "MAX_DEATHS", 1)
    pids[0] = engine.gather(Part.pid)[0]
    rounds.clear()
    with pytest.raises(RuntimeError, match="partial sums were lost 1 times"):
        engine.reduce(Part.vector, size)


@pytest.mark.nightly
def test_a_machine_dies_and_another_takes_over(machines, make_engine, tmp_path):
    spare_to_come = machines.add()
    engine = make_engine(3).open(Part, list(range(6)))
    homes = engine.gather(Part.machine)
    assert len(set(homes)) == 3
    killed = next(node for node in [spare_to_come] if node.node_id in homes)
    w = engine.publish(np.arange(100_000, dtype=np.float64))
    expected = engine.reduce(Part.times, w)
    spare = machines.add()
    path = str(tmp_path / "calls")
    thread = threading.Thread(
        target=lambda: (wait_until(lambda: count(path) >= 3), machines.kill(killed))
    )
    thread.start()
    assert engine.reduce(Part.wait, 0.5, path) == _expected(6)
    thread.join()
    assert engine.reduce(Part.times, w).tobytes() == expected.tobytes()
    wait_until(lambda: spare.node_id in engine.gather(Part.machine))
    assert killed.node_id not in engine.gather(Part.machine)
    machines.kill(spare)
    assert engine.reduce(Part.times, w).tobytes() == expected.tobytes()
