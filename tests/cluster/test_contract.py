"""The Ray engine keeps the contract: same bits, snapshots, errors once, whatever the number of workers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.cluster.conftest import wait_until, worker_pids
from tests.cluster.shards import Part, Unbuildable, count
from tests.contracts.engine import check_engine
from tests.nightly import first

from maxmargin.core.summation import tree_sum
from maxmargin.engines import RayEngine
from maxmargin.engines import ray as ray_engine


def test_large_sums_of_many_workers_have_the_same_bits(make_engine, monkeypatch):
    monkeypatch.setattr(ray_engine, "FEW", 1)
    engine = make_engine(6)
    for n_shards in (6, 19):
        engine.open(Part, list(range(n_shards)))
        for size in (10, 200_000):
            expected = tree_sum([Part(k).vector(size) for k in range(n_shards)])
            assert engine.reduce(Part.vector, size).tobytes() == expected.tobytes()
    assert len(set(engine.gather(Part.pid))) == 6


def test_workers_are_spread_over_machines_with_one_thread_for_libraries(machines, make_engine):
    engine = make_engine(2).open(Part, list(range(6)))
    homes = engine.gather(Part.machine)
    assert len(set(homes)) == 2
    assert homes == sorted(homes, key=homes.index)  # neighbors share a machine
    assert set(engine.gather(Part.environment)) == {("1", "1", "1", "1")}


def test_published_arrays_are_freed(make_engine):
    import ray

    engine = make_engine(2).open(Part, [1, 2])
    free = ray.available_resources()["object_store_memory"]
    w = np.arange(2_000_000, dtype=np.float64)
    handle = engine.publish(w)
    np.testing.assert_array_equal(handle.array, w)
    assert not handle.array.flags.writeable
    total = engine.reduce(Part.times, handle)
    np.testing.assert_array_equal(total, Part(1).value() * w + Part(2).value() * w)
    wait_until(lambda: ray.available_resources()["object_store_memory"] <= free - w.nbytes)
    del handle, total
    wait_until(lambda: ray.available_resources()["object_store_memory"] >= free - 1_000_000)


def test_a_block_of_data_is_not_copied(make_engine):
    blocks = [np.full(100_000, float(k)) for k in range(4)]
    engine = make_engine(2).open(Part, blocks)
    assert all(engine.gather(Part.is_alias))
    assert engine.gather(Part.summary) == [(100_000, k * 1e5) for k in range(4)]


def test_an_error_is_raised_once_and_never_retried(make_engine, tmp_path):
    engine = make_engine(2).open(Part, list(range(5)))
    for call in (engine.reduce, engine.gather):
        path = str(tmp_path / call.__name__)
        with pytest.raises(LookupError, match="no answer from 3") as caught:
            call(Part.fail, 3, path)
        assert type(caught.value) is LookupError
        assert any("raised by 'fail' in shard 3 of 5" in note for note in caught.value.__notes__)
        assert count(path) == 1  # the worker of 3 and 4 stopped there
    path = str(tmp_path / "both")
    with pytest.raises(LookupError, match="no answer from 1"):
        engine.reduce(Part.fail, 1, path)
    assert count(path) == 2  # one in each worker
    assert engine.gather(Part.value) == [Part(k).value() for k in range(5)]


def test_an_error_that_cannot_travel_becomes_its_text(make_engine):
    engine = make_engine(2).open(Part, [1, 2, 3])
    with pytest.raises(RuntimeError, match="Unpicklable: cannot travel"):
        engine.reduce(Part.fail_unpicklable)
    with pytest.raises(Exception, match=r"pickle|serializ"):
        engine.gather(Part.unpicklable)
    assert engine.gather(Part.value) == [Part(k).value() for k in (1, 2, 3)]


def test_shards_that_cannot_be_built(make_engine):
    engine = make_engine(2)
    with pytest.raises(OSError, match="no file 2") as caught:
        engine.open(Unbuildable, [0, 1, 2, 3])
    assert any("building shard 2 of 4" in note for note in caught.value.__notes__)
    with pytest.raises(RuntimeError, match="open"):
        engine.reduce(Part.value)
    assert engine.open(Part, [5]).gather(Part.value) == [Part(5).value()]


def test_classes_of_a_script_travel(make_engine):
    class Local:
        def __init__(self, spec):
            self.spec = spec

        def value(self):
            return self.spec

    engine = make_engine(2).open(Local, [1, 2, 3])
    assert engine.reduce(Part.value) == 6


def test_copies_are_engines_of_their_own(make_engine):
    engine = make_engine(2).open(Part, [1, 2])
    before = worker_pids()
    other = copy.deepcopy(engine)
    assert isinstance(other, RayEngine)
    assert (other.n_workers, other.threads) == (2, 1)
    with pytest.raises(RuntimeError, match="open"):
        other.gather(Part.value)
    other.close()
    assert engine.gather(Part.value) == [Part(1).value(), Part(2).value()]
    assert worker_pids() == before


def test_prepare_is_called_once_in_each_worker(machines, tmp_path):
    path = str(tmp_path / "calls")

    def prepare():
        from tests.cluster.shards import note

        note(path)

    engine = RayEngine(2, threads=1, prepare=prepare)
    before = set(worker_pids())
    engine.open(Part, [1, 2, 3])
    engine.open(Part, [4, 5])
    assert engine.gather(Part.value) == [Part(4).value(), Part(5).value()]
    assert count(path) == 2
    engine.close()
    wait_until(lambda: set(worker_pids()) <= before)


# (these close their engines: at the end)
@pytest.mark.parametrize(("n_workers", "threads"), first(1, [(2, 3), (4, 1)]))
def test_the_contract(machines, n_workers, threads):
    check_engine(lambda: RayEngine(n_workers, threads=threads))
