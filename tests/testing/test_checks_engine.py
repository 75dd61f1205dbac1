"""check_engine: a plain engine passes, and each broken promise is named."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.nightly import first

import maxmargin.engines.processes as processes
from maxmargin.core import tree_sum
from maxmargin.engines import ProcessEngine
from maxmargin.testing import check_engine
from maxmargin.testing.checks.engine_deaths import check_deaths
from maxmargin.testing.checks.engine_shards import Shard


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


class ByWorkers(PlainEngine):
    """Shards dealt out to two workers, each of which adds up its own."""

    def reduce(self, method, *args):
        parts = self.gather(method, *args)
        return tree_sum([tree_sum(parts[k::2]) for k in range(min(2, len(parts)))])


class DensePlanes(PlainEngine):
    def reduce(self, method, *args):
        total = super().reduce(method, *args)
        if method.__name__ == "sparse_cut" and hasattr(total.plane, "to_dense"):
            return type(total)(total.offset, total.plane.to_dense())
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


class Writable(PlainEngine):
    def publish(self, array):
        return Handle(np.array(array))


class WritableIfLarge(PlainEngine):
    def publish(self, array):
        return Handle(np.array(array)) if array.nbytes > 10_000 else super().publish(array)


class Flat(PlainEngine):
    def publish(self, array):
        return super().publish(np.ravel(array))


class ShortMemory(PlainEngine):
    """Remembers eight arrays, and takes the newest for one that it forgot."""

    def publish(self, array):
        handle = super().publish(array)
        self.kept = [*getattr(self, "kept", []), handle][-8:]
        return handle

    def _call(self, i, method, args):
        known = [self.kept[-1] if isinstance(a, Handle) and a not in self.kept else a for a in args]
        return super()._call(i, method, known)


class ForgetsWithOpen(PlainEngine):
    """Arrays that were published before ``open`` are gone after it."""

    def open(self, factory, specs):
        self.kept = []
        return super().open(factory, specs)

    def publish(self, array):
        self.kept.append(super().publish(array))
        return self.kept[-1]

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


class Swallows(PlainEngine):
    def _call(self, i, method, args):
        try:
            return super()._call(i, method, args)
        except Exception:
            return 0


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


class KeepsOldShards(PlainEngine):
    shards = ()

    def open(self, factory, specs):
        self.shards = [*self.shards, *(factory(s) for s in specs)]


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


class Rounds(PlainEngine):
    def open(self, factory, specs):
        return super().open(factory, [_rounded(s) for s in specs])


def _rounded(spec):
    if spec.block is None:
        return spec
    return spec._replace(block=spec.block.astype(np.float32).astype(np.float64))


class LiveSpecs(PlainEngine):
    durable = False


class NotAWorker(PlainEngine):
    """Says that its workers can die, and has none."""

    durable = False

    def open(self, factory, specs):
        return super().open(factory, copy.deepcopy(specs))


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Unsaid, "durable"),
        (Sequential, "tree_sum"),
        (ByWorkers, "tree_sum"),
        (DensePlanes, "sparse_cut"),
        (Reversed, "shard order"),
        (DropsNone, "return None"),
        (OneForAll, "a later call changed it"),
        (NoCopy, "snapshot|written"),
        (Writable, "written to"),
        (WritableIfLarge, "written to"),
        (Flat, "did not receive"),
        (ShortMemory, "did not receive"),
        (ForgetsWithOpen, "others were released"),
        (Rebuilds, "the same objects"),
        (Anonymous, "name its shard"),
        (AnonymousBuilding, "name its shard"),
        (Wraps, "its own type"),
        (LosesText, "first failing shard"),
        (Swallows, "raised none"),
        (Retries, "do not repeat it"),
        (CallsTwice, "each shard once"),
        (KeepsOldShards, "shard order"),
        (BreaksOnError, "error|usable|zip"),
        (AnswersWhenClosed, "raised none"),
        (Rounds, "bit-identical"),
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


class GivesUpAtOnce(ProcessEngine):
    limit = 1


class NeverGivesUp(ProcessEngine):
    limit = 1000


class KeepsMemory(ProcessEngine):
    """Tells shards again what they were told, as if it were not a cache."""

    told = None

    def gather(self, method, *args):
        if method.__name__ == "remember":
            self.told = args
        if method.__name__ == "recall" and self.told:
            super().gather(Shard.remember, *self.told)
        return super().gather(method, *args)


class AnotherError(ProcessEngine):
    def reduce(self, method, *args):
        try:
            return super().reduce(method, *args)
        except RuntimeError as error:
            raise LookupError("the worker died") from error


class ClosedByDeath(ProcessEngine):
    def reduce(self, method, *args):
        try:
            return super().reduce(method, *args)
        except RuntimeError:
            self._workers[0].end()
            self._workers[0]._recipe = self._workers[-1]._recipe
            raise


class StaleArrays(ProcessEngine):
    """After a death, arrays from before it are others."""

    def gather(self, method, *args):
        if method.__name__ == "seen":
            args = [self.publish(a.array + 1.0) for a in args]
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


@pytest.mark.parametrize(
    ("engine", "message"),
    first(
        2,
        [
            (DropsTheDead, "reduce differs"),
            (GivesUpAtOnce, "ended 1 times"),
            (NeverGivesUp, "give up after a worker died a few"),
            (KeepsMemory, "must have None"),
            (AnotherError, "must raise a RuntimeError"),
            (ClosedByDeath, "usable after"),
            (StaleArrays, "published before"),
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
