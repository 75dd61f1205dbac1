"""What processes share: one copy of what is large, and nothing left of it, however they end."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from tests.shared_shards import Looking

from maxmargin.engines import ProcessEngine, SerialEngine
from maxmargin.engines.shared_memory import SharedSegment, pickler

ROOT = Path(__file__).parents[2]
linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module")
def engine():
    with_two = ProcessEngine(2)
    yield with_two
    with_two.close()


@linux
def test_large_things_are_in_memory_once(engine):
    block = np.ones(8_000_000)  # 64 MB
    engine.open(Looking, [block, block, block, block])
    w = engine.publish(np.ones(8_000_000))
    before = max(engine.gather(Looking.own_memory))
    after = max(engine.gather(Looking.own_memory, w))
    assert after - before < 10_000_000
    fresh = ProcessEngine(1).open(Looking, [block])
    small = ProcessEngine(1).open(Looking, [block[:10]])
    try:
        assert (
            fresh.gather(Looking.own_memory)[0] - small.gather(Looking.own_memory)[0] < 30_000_000
        )
    finally:
        fresh.close()
        small.close()


def test_blocks_keep_their_flags_and_are_private(engine):
    block = np.ones(100_000)
    frozen = np.ones(100_000)
    frozen.setflags(write=False)
    engine.open(Looking, [block, frozen, block])
    assert engine.gather(Looking.flags) == [True, False, True]
    engine.open(Looking, [block, block, block])
    engine.gather(Looking.scribble, 7.0)  # shards 1 and 2 are in one worker and share its pages
    assert block[0] == 1.0
    assert engine.gather(Looking.total)[0] == 100_006.0
    pids = engine.gather(Looking.pid)
    os.kill(pids[0], signal.SIGKILL)
    os.kill(pids[2], signal.SIGKILL)
    assert engine.gather(Looking.total) == [100_000.0] * 3  # as they were
    assert len(set(pids) & set(engine.gather(Looking.pid))) == 0


def test_arrays_that_a_shard_keeps_stay(engine):
    engine.open(Looking, [np.ones(1), np.ones(1)])
    for size in (10, 10_000, 10_000_000):
        engine.gather(Looking.keep, engine.publish(np.ones(size)))
        for k in range(3):
            engine.gather(Looking.own_memory, engine.publish(np.full(size, float(k))))
        assert engine.gather(Looking.kept_total) == [float(size)] * 2


def test_arrays_of_any_layout_and_subclass_are_published(engine, tmp_path):
    engine.open(Looking, [np.ones(1), np.ones(1)])
    mapped = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=(200, 50))
    mapped[:] = 1.0
    for array in (mapped, np.ones((200, 50), order="F"), np.ones((400, 50))[::2]):
        engine.gather(Looking.keep, engine.publish(array))
        assert engine.gather(Looking.kept_total) == [10_000.0] * 2


def test_sums_that_hold_on_to_their_parts(engine):
    engine.open(Looking, [np.full(1, float(k)) for k in range(3)])
    found = engine.reduce(Looking.parts, 100_000)
    engine.reduce(Looking.answer, 100_000)
    engine.gather(Looking.answer, 100_000)
    assert [part[0] for part in found] == [0.0, 1.0, 2.0]
    assert all(part.flags.writeable and (part == part[0]).all() for part in found)
    engine.open(Looking, [np.ones(1)])  # one part: the sum is the part
    one = engine.reduce(Looking.answer, 100_000)
    engine.reduce(Looking.answer, 100_000)
    assert one.flags.writeable
    assert one.sum() == 100_000.0


def test_handles_of_other_engines(engine):
    engine.open(Looking, [np.ones(1), np.ones(1)])
    other = ProcessEngine(1)
    for foreign in (SerialEngine(), other):
        handle = foreign.publish(np.ones(50_000))
        engine.gather(Looking.keep, handle)
        assert engine.gather(Looking.kept_total) == [50_000.0] * 2
    other.close()


@linux
def test_descriptors_are_closed(engine):
    engine.open(Looking, [np.ones(1), np.ones(1)])
    engine.gather(Looking.pid)
    before = descriptors()
    for k in range(300):
        handle = engine.publish(np.full(50_000, float(k)))
        engine.gather(Looking.keep, handle)
        other = handle.array
    assert descriptors() - before <= 4
    del handle, other
    assert descriptors() == before
    late = engine.publish(np.ones(50_000))
    engine.close()
    at_rest = descriptors()
    assert at_rest < before
    with pytest.raises(AttributeError, match="pickle") as caught:
        engine.open(Looking, [np.ones(100_000), lambda: None])
    assert "in a module" in caught.value.__notes__[0]
    del caught  # with the traceback, and the frames that it holds
    with pytest.raises(AttributeError):
        engine.open(_unbuildable, [np.ones(100_000)] * 2)
    engine.open(Looking, [np.ones(1), np.ones(1)])
    engine.gather(Looking.keep, late)  # a handle can be used when the engine is opened again
    assert engine.gather(Looking.kept_total) == [50_000.0] * 2
    engine.close()
    assert descriptors() <= at_rest
    assert not multiprocessing.active_children()


@linux
def test_an_engine_that_is_dropped_is_closed():
    before = descriptors()
    engine = ProcessEngine(2).open(Looking, [np.ones(100_000), np.ones(100_000)])
    pids = engine.gather(Looking.pid)
    handle = engine.publish(np.ones(100_000))
    del engine
    assert not any(running(pid) for pid in pids)
    assert handle.array.sum() == 100_000.0
    del handle
    assert descriptors() <= before + 1  # the standard library's tracker of resources


def _unbuildable(block):
    return block.no_such_thing


def test_memory_used_by_several_objects_is_written_once():
    X = np.arange(100_000.0)
    segment = SharedSegment()
    first, second = segment.pack([(X, [1]), {"x": X, "tail": X[50_000:]}], pickler(by_value=False))
    assert segment.size < 1.6 * X.nbytes
    view = segment.view()
    del segment
    np.testing.assert_array_equal(first.unpack(view)[0], X)
    found = second.unpack(view)
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["tail"], X[50_000:])


SCRIPT = """
import sys, time
import numpy as np
from maxmargin.engines import ProcessEngine
from tests.shared_shards import Looking
if __name__ == "__main__":
    engine = ProcessEngine(2).open(Looking, [np.ones(1_000_000), np.ones(1_000_000)])
    handle = engine.publish(np.ones(2_000_000))
    engine.reduce(Looking.answer, 1_000_000)
    engine.gather(Looking.keep, handle)
    print(*engine.gather(Looking.pid), flush=True)
    if sys.argv[1] == "busy":
        engine.gather(Looking.sleep, 600.0)
    if sys.argv[1] == "idle":
        time.sleep(600.0)
    if sys.argv[1] == "error":
        raise LookupError("deliberate")
    engine.close()
"""


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@linux
@pytest.mark.parametrize("how", ["busy", "idle", "error", "end"])
def test_nothing_is_left_behind(how, tmp_path):
    """The driver killed while workers are busy, or idle; ended by an error, or as it should."""
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(SCRIPT))
    before = set(os.listdir("/dev/shm"))
    driver = subprocess.Popen(
        [sys.executable, str(script), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
    )
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 2
    if how in ("busy", "idle"):
        time.sleep(0.2)
        driver.kill()
    _, complaints = driver.communicate(timeout=60)
    deadline = time.monotonic() + 20.0
    while any(running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(running(pid) for pid in pids)
    assert not {n for n in set(os.listdir("/dev/shm")) - before if "psm" in n or "maxmargin" in n}
    assert "resource_tracker" not in complaints
    assert ("deliberate" in complaints) if how == "error" else complaints == ""
