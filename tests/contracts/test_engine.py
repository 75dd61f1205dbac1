"""check_engine: a plain engine passes, and an engine that breaks one part of the contract is caught."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.contracts.engine import check_engine
from tests.contracts.engine_deaths import check_deaths
from tests.contracts.engine_shards import KilledInCall, Shard, Spec
from tests.nightly import first

import maxmargin.engines.processes as processes
from maxmargin.core import tree_sum
from maxmargin.engines import ProcessEngine


class Handle:
    def __init__(self, array):
        self.array = array


class PlainEngine:
    durable = True

    def open(self, factory, specs):
        self.shards = []
        for index, spec in enumerate(specs):
            try:
                self.shards.append(factory(spec))
            except Exception as error:
                error.add_note(f"while building shard {index}")
                raise
        return self

    def publish(self, array):
        copied = np.array(array)
        copied.flags.writeable = False
        return Handle(copied)

    def _call(self, i, method, args):
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        try:
            return method(self.shards[i], *plain)
        except Exception as error:
            error.add_note(f"shard {i} failed")
            raise

    def gather(self, method, *args):
        return [self._call(i, method, args) for i in range(len(self.shards))]

    def reduce(self, method, *args):
        if not self.shards:
            raise RuntimeError("no shards")
        return tree_sum(self.gather(method, *args))

    def close(self):
        self.shards = []


@pytest.mark.slow
def test_a_plain_engine_passes():
    check_engine(PlainEngine)


class Unsaid(PlainEngine):
    durable = None


class Sequential(PlainEngine):
    def reduce(self, method, *args):
        total, *rest = self.gather(method, *args)
        for part in rest:
            total = tree_sum([total, part])
        return total


class Reversed(PlainEngine):
    def gather(self, method, *args):
        return super().gather(method, *args)[::-1]


class DropsNone(PlainEngine):
    def gather(self, method, *args):
        return [a for a in super().gather(method, *args) if a is not None]


class OneForAll(PlainEngine):
    """One buffer that all large answers come through."""

    def gather(self, method, *args):
        answers = super().gather(method, *args)
        return self._through(answers) if method.__name__ == "large" else answers

    def _through(self, answers):
        if not hasattr(self, "buffers"):
            self.buffers = [np.empty_like(answers[0][0]) for _ in range(50)]
        for (array, _), buffer in zip(answers, self.buffers, strict=False):
            buffer[:] = array
        return [(b, a[1]) for a, b in zip(answers, self.buffers, strict=False)]


class NoCopy(PlainEngine):
    def publish(self, array):
        return Handle(array.view())


class WritableIfLarge(PlainEngine):
    def publish(self, array):
        return Handle(np.array(array)) if array.nbytes > 10_000 else super().publish(array)


class ShortMemory(PlainEngine):
    """Remembers eight arrays, and takes the newest for one that it forgot."""

    def publish(self, array):
        handle = super().publish(array)
        self.kept = [*getattr(self, "kept", []), handle][-8:]
        return handle

    def _call(self, i, method, args):
        known = [self.kept[-1] if isinstance(a, Handle) and a not in self.kept else a for a in args]
        return super()._call(i, method, known)


class Rebuilds(PlainEngine):
    """New shards, with the old ones' counts, for every call."""

    def gather(self, method, *args):
        for shard in self.shards:
            shard.token = type(shard)(shard.spec).token
        return super().gather(method, *args)


class Anonymous(PlainEngine):
    def _call(self, i, method, args):
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        return method(self.shards[i], *plain)


class AnonymousBuilding(PlainEngine):
    def open(self, factory, specs):
        self.shards = [factory(spec) for spec in specs]
        return self


class Wraps(PlainEngine):
    def _call(self, i, method, args):
        try:
            return super()._call(i, method, args)
        except Exception as error:
            raise RuntimeError(f"shard {i} failed: {error}") from error


class LosesText(PlainEngine):
    """What cannot be pickled becomes an error without a text."""

    def _call(self, i, method, args):
        try:
            return super()._call(i, method, args)
        except KeyError:
            raise
        except Exception:
            raise RuntimeError(f"shard {i} failed") from None


class Retries(PlainEngine):
    def _call(self, i, method, args):
        try:
            return super()._call(i, method, args)
        except Exception:
            return super()._call(i, method, args)


class CallsTwice(PlainEngine):
    def reduce(self, method, *args):
        self.gather(method, *args)
        return super().reduce(method, *args)


class BreaksOnError(PlainEngine):
    def _call(self, i, method, args):
        try:
            return super()._call(i, method, args)
        except Exception:
            self.shards = self.shards[:1]
            raise


class AnswersWhenClosed(PlainEngine):
    def reduce(self, method, *args):
        return super().reduce(method, *args) if self.shards else 0.0


class LiveSpecs(PlainEngine):
    durable = False


class NotAWorker(PlainEngine):
    """Says that its workers can die, and has none."""

    durable = False

    def open(self, factory, specs):
        return super().open(factory, copy.deepcopy(specs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Unsaid, "durable"),
        (Sequential, "tree_sum"),
        (Reversed, "shard order"),
        (DropsNone, "return None"),
        (OneForAll, "a later call changed it"),
        (NoCopy, "snapshot|written"),
        (WritableIfLarge, "written to"),
        (ShortMemory, "did not receive"),
        (Rebuilds, "the same objects"),
        (Anonymous, "name its shard"),
        (AnonymousBuilding, "name its shard"),
        (Wraps, "its own type"),
        (LosesText, "first failing shard"),
        (Retries, "do not repeat it"),
        (CallsTwice, "each shard once"),
        (BreaksOnError, "error|usable|zip"),
        (AnswersWhenClosed, "raised none"),
        (LiveSpecs, "snapshot of its specs"),
        (NotAWorker, "not a worker"),
    ],
)
def test_wrong_engines_are_caught(engine, message):
    with pytest.raises((AssertionError, ValueError), match=message):
        check_engine(engine)


class DropsTheDead(ProcessEngine):
    """The shards of a worker that died count nothing in the call."""

    def reduce(self, method, *args):
        if method.__name__ != "killed_before_answer":
            return super().reduce(method, *args)
        total = super().reduce(method, *args)
        return total[0], total[1] - super().gather(method, *args)[2][1]


class NeverGivesUp(ProcessEngine):
    limit = 1000


class KeepsMemory(ProcessEngine):
    """Sends shards again what they stored, as if it were not a cache."""

    stored = None

    def gather(self, method, *args):
        if method.__name__ == "remember":
            self.stored = args
        if method.__name__ == "recall" and self.stored:
            super().gather(Shard.remember, *self.stored)
        return super().gather(method, *args)


class SpecsOfToday(ProcessEngine):
    """Shards are built anew from the specs as they are now."""

    def open(self, factory, specs):
        self.opened = factory, specs
        return super().open(factory, specs)

    def gather(self, method, *args):
        if method.__name__ == "block":
            self.open(*self.opened)
        return super().gather(method, *args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "message"),
    first(
        2,
        [
            (DropsTheDead, "reduce differs"),
            (NeverGivesUp, "give up after a worker died a few"),
            (KeepsMemory, "must have None"),
            (SpecsOfToday, "other data"),
        ],
    ),
)
def test_engines_that_lose_something_with_a_worker_are_caught(engine, message, monkeypatch):
    monkeypatch.setattr(processes, "MAX_DEATHS", getattr(engine, "limit", processes.MAX_DEATHS))
    wrong = engine(2)
    try:
        with pytest.raises((AssertionError, RuntimeError), match=message):
            check_deaths(wrong)
    finally:
        wrong.close()


@pytest.mark.slow
def test_a_death_is_logged(caplog, tmp_path):
    engine = ProcessEngine(2)
    try:
        engine.open(KilledInCall, [Spec(i, 3, folder=str(tmp_path)) for i in range(3)])
        with caplog.at_level("WARNING", logger="maxmargin.engines"):
            engine.reduce(
                KilledInCall.killed_before_answer, engine.publish(np.ones(5)), 2, "once", 1
            )
    finally:
        engine.close()
    (record,) = caplog.records
    assert "worker 1 of 2" in record.getMessage()
    assert "its shards are rebuilt, and the call is repeated" in record.getMessage()
