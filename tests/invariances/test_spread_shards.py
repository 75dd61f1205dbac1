"""Deaths on a simulated cluster: shards go to the other workers at once, and return; bits stay the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.simulated_cluster import Killed, SimulatedCluster

from maxmargin.core.summation import tree_sum
from maxmargin.engines import RayEngine, ray, ray_team, ray_worker

N = 16


class Part:
    """A shard with a vector, and a number that it stores."""

    def __init__(self, number):
        self.number, self.stored, self.movable = number, None, True

    def vector(self, size):
        return np.random.default_rng(self.number).normal(size=size) * 10.0 ** (self.number % 7)

    def store(self, value):
        self.stored = value
        return 0.0

    def pin(self, movable):
        self.movable = movable
        return 0.0

    def recall(self):
        return self.number, self.stored

    def fatal(self, number):
        if self.number == number:
            raise Killed
        return 1.0

    def wrong(self):
        if self.number >= 5:
            raise LookupError(f"no {self.number}")
        return 0.0


@pytest.fixture
def make_engine(monkeypatch):
    monkeypatch.setattr(ray_worker, "token_mode", lambda: True)
    monkeypatch.setattr(ray_team, "LOOK", -1.0)  # at every round

    def make(n_workers, n_machines=None, n_shards=N, **options):
        engine = RayEngine(n_workers, threads=1, **options)
        cluster = SimulatedCluster(f"m{k:03}" for k in range(n_machines or n_workers))
        engine._cluster = cluster
        return engine.open(Part, list(range(n_shards))), cluster

    return make


def _sum(size, n=N):
    return tree_sum([Part(k).vector(size) for k in range(n)]).tobytes()


def test_shards_of_a_dead_worker_go_to_all_others_at_once(make_engine, caplog):
    engine, cluster = make_engine(4)
    before = cluster.homes(engine)
    engine.reduce(Part.store, 7)
    cluster.actors[1].alive = False
    with caplog.at_level("INFO", logger="maxmargin.engines"):
        cluster.names.remove("m001")  # no room for another process
        assert engine.reduce(Part.vector, 50).tobytes() == _sum(50)
        assert sorted(len(w.shards) for w in engine._team.workers) == [0, 5, 5, 6]
        found = engine.gather(Part.recall)
        lost = [k for k in range(N) if before[k] == 1]
        # only the shards of the dead worker lost what they stored
        assert found == [(k, None if k in lost else 7) for k in range(N)]
        engine.reduce(Part.store, 8)
        cluster.names.append("m009")  # a machine returns
        engine.reduce(Part.store, 8)  # its process is started ...
        assert engine.gather(Part.recall) == [(k, None if k in lost else 8) for k in range(N)]
    assert list(cluster.loads(engine)) == [4]  # ... and has its shards back
    assert engine.reduce(Part.vector, 50).tobytes() == _sum(50)
    log = "\n".join(record.getMessage() for record in caplog.records)
    for text in (
        "worker 1 of 4 on machine m001 was lost during a call (1 of at most 3 times): its 4 shards are "
        "spread over 3 others",
        "worker 1 of 4 is started again on machine m009",
        "worker 1 of 4 on machine m009 has its 4 shards back from 3 others",
    ):
        assert text in log


def test_shards_that_must_not_be_rebuilt_stay(make_engine):
    engine, cluster = make_engine(4)
    cluster.actors[2].alive = False
    engine.reduce(Part.pin, False)
    spread = cluster.homes(engine)
    for _ in range(5):
        engine.reduce(Part.store, 1)
    assert cluster.homes(engine) == spread
    assert engine.gather(Part.recall) == [(k, 1) for k in range(N)]
    engine.reduce(Part.pin, True)
    engine.reduce(Part.store, 1)
    assert list(cluster.loads(engine)) == [4]


@pytest.mark.parametrize("seed", range(8))
def test_any_deaths_at_any_time_leave_the_bits_as_they_are(make_engine, monkeypatch, seed):
    """Workers and machines die, return and hang before, in, and after calls; large sums, too."""
    monkeypatch.setattr(ray, "FEW", 2)
    monkeypatch.setattr(ray_worker, "LARGE", 3000)
    draw = random.Random(seed)
    n = draw.choice([5, 16, 37])
    engine, cluster = make_engine(draw.randint(2, 9), n_shards=n, timeout=1.0)
    expected = {size: _sum(size, n) for size in (3, 500)}
    deaths = [0]

    def before(actor, name):
        chance = draw.random()
        if deaths[0] < 2 and chance < 0.02:  # not too many in one call
            deaths[0] += 1
            actor.alive = actor.hangs = chance < 0.005 and name in ("sums", "answers")

    cluster.before = before
    for k in range(150):
        deaths[0] = 0
        size = draw.choice(list(expected))
        assert engine.reduce(Part.vector, size).tobytes() == expected[size], k
        assert [number for number, _ in engine.gather(Part.recall)] == list(range(n))
        if len(cluster.names) > 1 and draw.random() < 0.05:
            cluster.kill_machine(draw.choice(cluster.names))
        elif draw.random() < 0.05:
            cluster.names.append(f"new{k}")
    cluster.before = None
    cluster.names = [f"m{k:03}" for k in range(9)]
    for _ in range(3):
        engine.reduce(Part.store, 1)
    assert max(cluster.loads(engine)) - min(cluster.loads(engine)) <= 1 or n < 9
    assert len(cluster.actors) > len(engine._team.workers)


def test_a_round_after_a_death_is_not_twice_as_long(make_engine):
    engine, cluster = make_engine(32, n_shards=1024)
    cluster.actors[5].alive = False
    cluster.names.remove("m005")
    engine.reduce(Part.store, 1)
    assert max(cluster.loads(engine)) <= 34  # of 32


def test_a_worker_that_hangs_and_all_workers(make_engine):
    engine, cluster = make_engine(3, timeout=5.0)
    cluster.actors[0].hangs = True
    assert engine.reduce(Part.vector, 9).tobytes() == _sum(9)
    for actor in cluster.living():
        actor.hangs = True
    assert engine.reduce(Part.vector, 9).tobytes() == _sum(9)
    for actor in cluster.living():
        actor.alive = False
    assert engine.reduce(Part.vector, 9).tobytes() == _sum(9)


def test_a_shard_that_kills_every_worker_ends_the_call(make_engine):
    engine, cluster = make_engine(8)
    with pytest.raises(RuntimeError, match="shards that it had were lost 3 times during one call"):
        engine.reduce(Part.fatal, 11)
    assert len(cluster.living()) >= 5
    assert engine.reduce(Part.vector, 9).tobytes() == _sum(9)
    assert engine.traffic.rounds == 2  # the first built the shards
    with pytest.raises(LookupError, match="no 5") as error:
        engine.reduce(Part.wrong)
    assert any("shard 5 of 16" in note for note in error.value.__notes__)


@pytest.mark.parametrize("at", ["_replace", "_ask", "_take_back"])
def test_an_interrupt_while_shards_move(make_engine, monkeypatch, at):
    engine, cluster = make_engine(4)
    cluster.actors[2].alive = False
    team = engine._team
    if at == "_take_back":
        engine.reduce(Part.store, 1)
    original, calls = getattr(team, at), []

    def interrupted(*args):
        calls.append(at)
        if len(calls) == 6 or at != "_ask":
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(team, at, interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.reduce(Part.vector, 9)
    monkeypatch.setattr(team, at, original)
    for _ in range(3):
        assert engine.reduce(Part.vector, 9).tobytes() == _sum(9)
    assert list(cluster.loads(engine)) == [4]


def test_bytes_are_counted(make_engine):
    engine, _ = make_engine(4)
    before = engine.traffic.sent, engine.traffic.received
    engine.reduce(Part.vector, 10_000)
    assert 4 * 80_000 <= engine.traffic.received - before[1] <= 4 * 81_000
    assert engine.traffic.sent - before[0] < 1000
