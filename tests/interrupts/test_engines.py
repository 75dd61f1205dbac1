"""An engine gives no answer of an earlier call, and no sum without all its parts."""

import sys
import threading
import time

import pytest

import maxmargin.engines.processes as processes
import maxmargin.engines.threads as threads
from maxmargin.engines import ProcessEngine, SerialEngine, ThreadEngine


class Shard:
    """Some are slow, and one leaves the program."""

    def __init__(self, number):
        self.number, self.busy = number, 0

    def slow(self):
        self.busy += 1
        time.sleep(0.3)
        self.busy -= 1
        return 100.0

    def one(self):
        return 1.0 + self.busy

    def leave(self):
        time.sleep(0.01)
        if self.number == 3:
            sys.exit("no licence")
        return 1.0


@pytest.mark.parametrize("make", [SerialEngine, lambda: ThreadEngine(4), lambda: ProcessEngine(2)])
def test_an_oracle_that_leaves_the_program_does_so_once(make):
    """In a helping thread, or in a process of its own: the sum of the others would be a false bound."""
    engine = make().open(Shard, range(8))
    try:
        for call in (engine.reduce, engine.gather):
            with pytest.raises(SystemExit, match="no licence") as caught:
                call(Shard.leave)
            assert sum("in shard 3 of 8" in note for note in caught.value.__notes__) == 1
        assert engine.reduce(Shard.one) == 8.0
    finally:
        engine.close()


def test_a_second_ctrl_c_at_the_end_of_a_call_on_processes(monkeypatch):
    """The answers of the first call are never taken for those of the next."""
    engine = ProcessEngine(2).open(Shard, range(2))
    try:
        engine.reduce(Shard.one)
        with monkeypatch.context() as patch:

            def twice(worker):
                patch.setattr(processes._WorkerProcess, "end_if_busy", interrupt)
                raise KeyboardInterrupt

            patch.setattr(processes._WorkerProcess, "answer", twice)
            with pytest.raises(KeyboardInterrupt):
                engine.reduce(Shard.slow)
        assert engine.reduce(Shard.one) == 2.0
    finally:
        engine.close()


def test_a_second_ctrl_c_at_the_end_of_a_call_on_threads(monkeypatch):
    """Nothing of the first call still runs when the next one starts."""
    engine = ThreadEngine(3).open(Shard, range(6))
    main = threading.main_thread()
    call = ThreadEngine._call

    def first(self, index, method, args):
        if method == "slow" and threading.current_thread() is main:
            raise KeyboardInterrupt
        return call(self, index, method, args)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(ThreadEngine, "_call", first)
            drain, calls = threads._drain, []

            def broken(futures):
                if futures and not calls:
                    calls.append(futures)
                    raise KeyboardInterrupt
                drain(futures)

            patch.setattr(threads, "_drain", broken)
            with pytest.raises(KeyboardInterrupt):
                engine.reduce(Shard.slow)
        assert engine.reduce(Shard.one) == 6.0
    finally:
        engine.close()


def interrupt(*args):
    raise KeyboardInterrupt
