"""Ctrl-C during a call: it is heard, and the engine answers the next call."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from tests.cluster.conftest import wait_until
from tests.cluster.shards import Part, count

from maxmargin.core.summation import tree_sum
from maxmargin.engines import ray as ray_engine


@pytest.fixture(autouse=True)
def listen_to_ctrl_c():
    """A process started in the background by a shell ignores SIGINT; these tests must hear it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupted(engine, path, seconds):
    """Call a method that takes so long and press Ctrl-C when it runs; how long it took to be heard."""
    pressed = []

    def press():
        wait_until(lambda: count(path) >= 2)
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.reduce("wait", seconds, path)
    heard = time.monotonic()
    thread.join()
    return heard - pressed[0]


def test_workers_that_are_soon_done_are_kept(make_engine, tmp_path):
    engine = make_engine(2).open(Part, [1, 2])
    before = engine.gather("pid")
    # Ray looks for signals once in a second
    _interrupted(engine, str(tmp_path / "calls"), 2.0)
    assert engine.reduce("value") == tree_sum([Part(1).value(), Part(2).value()])
    assert engine.gather("pid") == before


def test_workers_that_are_not_are_started_anew(make_engine, tmp_path):
    engine = make_engine(2).open(Part, [1, 2])
    before = engine.gather("pid")
    assert _interrupted(engine, str(tmp_path / "calls"), 60.0) < ray_engine.GRACE + 5.0
    assert engine.reduce("value") == tree_sum([Part(1).value(), Part(2).value()])
    assert not set(engine.gather("pid")) & set(before)
