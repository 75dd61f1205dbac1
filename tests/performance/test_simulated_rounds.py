"""What the Ray engine sends and how long its rounds take, on simulated machines with a virtual clock."""

import pytest
from benchmarks import cluster_sim as sim
from benchmarks.simulated_cluster import Costs, SimulatedCluster

from maxmargin.engines import ray as ray_engine
from maxmargin.engines import ray_team, ray_worker

UNIT = {"dot": 1.0, "accumulate": 1.5, "zeros": 1.0, "copy": 1.0, "add": 1.0}
COSTS = Costs(call=5e-4, latency=2e-4, put=2e-10, copy=2e-10, back=2e-10)


@pytest.fixture(autouse=True)
def real_clock_afterwards(monkeypatch):
    monkeypatch.setattr(ray_team, "time", ray_team.time)
    monkeypatch.setattr(ray_worker, "token_mode", ray_worker.token_mode)


@pytest.mark.parametrize("features", [50_000, 10_000_000])
@pytest.mark.parametrize("machines", [2, 100])
def test_two_vectors_from_a_worker_and_two_into_the_driver(machines, features):
    row = sim.messages(COSTS, machines, features, UNIT)
    assert row["vectors of a plane from a worker"] <= 2
    assert row["into the driver"] <= 2


def test_a_long_vector_is_sent_in_waves():
    row = sim.messages(COSTS, 100, 10_000_000, UNIT)
    # about log2(100) times the time of one transfer, and not 100 times
    assert row["copies of w from the driver"] <= 12
    transfer = 8e7 / COSTS.bandwidth
    waves, at_once = row["w in waves, and the product, s"], row["w at once, and the product, s"]
    assert at_once > 100 * transfer
    assert waves < at_once - 80 * transfer


def test_a_round_takes_as_long_as_its_longest_worker():
    cluster = SimulatedCluster(COSTS, 4, 2)
    work = [sim.Work(1000 * (k + 1), 100, UNIT) for k in range(8)]
    driver = sim.Driver(cluster, 4, 2, work)
    seconds = driver.timed(sim.Simulated.evaluate, driver.publish())
    longest = 8000 * sim.NONZEROS * 1e-9
    assert longest < seconds < longest + 8 * COSTS.call + 4 * COSTS.latency


def test_after_the_death_of_a_machine_iterations_are_hardly_longer(caplog):
    row = sim.one_dies(sim.large(COSTS, 100, 50_000, UNIT))
    assert "machine 0050 was lost" in caplog.text
    assert row["iteration with the event, s"] > COSTS.detection
    assert row["ratio"] <= 1.15


def test_few_machines_have_no_waves(monkeypatch):
    def refused(*_):
        raise AssertionError("a wave")

    cluster = SimulatedCluster(COSTS, ray_engine.FEW, 2)
    monkeypatch.setattr(cluster, "first", refused)
    driver = sim.Driver(cluster, ray_engine.FEW, 2, [sim.Work(1000, 10_000_000, UNIT)] * 8)
    assert driver.timed(sim.Simulated.evaluate, driver.publish()) > 0.0
