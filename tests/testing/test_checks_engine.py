"""check_engine: a plain engine passes, and each broken promise is named."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.core import tree_sum
from maxmargin.testing import check_engine


class Handle:
    def __init__(self, array):
        self.array = array


class PlainEngine:
    def open(self, factory, specs):
        self.shards = [factory(s) for s in specs]
        return self

    def publish(self, array):
        copy = np.array(array)
        copy.flags.writeable = False
        return Handle(copy)

    def _call(self, i, method, args):
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        try:
            return getattr(self.shards[i], method)(*plain)
        except Exception as error:
            raise RuntimeError(f"shard {i} failed") from error

    def gather(self, method, *args):
        return [self._call(i, method, args) for i in range(len(self.shards))]

    def reduce(self, method, *args):
        return tree_sum(self.gather(method, *args))

    def close(self):
        self.shards = []


def test_a_plain_engine_passes():
    check_engine(PlainEngine)


class Sequential(PlainEngine):
    def reduce(self, method, *args):
        total, *rest = self.gather(method, *args)
        for part in rest:
            total = tree_sum([total, part])
        return total


class Reversed(PlainEngine):
    def gather(self, method, *args):
        return super().gather(method, *args)[::-1]


class NoCopy(PlainEngine):
    def publish(self, array):
        return Handle(array.view())


class Writable(PlainEngine):
    def publish(self, array):
        return Handle(np.array(array))


class Anonymous(PlainEngine):
    def _call(self, i, method, args):
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        return getattr(self.shards[i], method)(*plain)


class Swallows(PlainEngine):
    def _call(self, i, method, args):
        try:
            return super()._call(i, method, args)
        except RuntimeError:
            return 0


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
        except RuntimeError:
            self.shards = self.shards[:1]
            raise


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Sequential, "tree_sum"),
        (Reversed, "shard order"),
        (NoCopy, "snapshot|written"),
        (Writable, "written to"),
        (Anonymous, "name its shard"),
        (Swallows, "did not reach"),
        (CallsTwice, "each shard once"),
        (KeepsOldShards, "shard order"),
        (BreaksOnError, "error|usable|zip"),
    ],
)
def test_wrong_engines_are_caught(engine, message):
    with pytest.raises((AssertionError, ValueError), match=message):
        check_engine(engine)
