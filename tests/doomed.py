"""Shards that end their process in the middle of a call, and an engine full of them."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import NamedTuple

from maxmargin.engines import ProcessEngine


class Doom(NamedTuple):
    """When a shard dies: before it answers this call of this method, the first time it comes to that."""

    folder: str
    method: str
    shard: int = 0
    call: int = 2

    def has_struck(self):
        return (Path(self.folder) / f"{self.method}-{self.shard}-{self.call}").exists()

    def strike(self):
        (Path(self.folder) / f"{self.method}-{self.shard}-{self.call}").touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Doomed:
    """A shard whose calls are counted."""

    def __init__(self, shard, number, dooms):
        self.shard, self.dooms = shard, [d for d in dooms if d.shard == number]
        self.calls = {}

    def __getattr__(self, method):
        if method.startswith("__"):
            raise AttributeError(method)
        for doom in self.dooms:
            if doom.method == method:
                self.calls[method] = self.calls.get(method, 0) + 1
                if self.calls[method] == doom.call and not doom.has_struck():
                    doom.strike()
        return getattr(self.shard, method)


def build(factory, dooms, spec):
    number, own = spec
    return Doomed(factory(own), number, dooms)


def doomed(factory, specs, dooms):
    """Factory and specs of the same shards, doomed."""
    return partial(build, factory, dooms), list(enumerate(specs))


class DoomedEngine(ProcessEngine):
    """Processes, some of whose shards kill theirs."""

    def __init__(self, n_workers, dooms):
        super().__init__(n_workers)
        self.dooms = dooms

    def open(self, factory, specs):
        return super().open(*doomed(factory, specs, self.dooms))
