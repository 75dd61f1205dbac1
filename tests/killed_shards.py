"""Shards that kill their process in the middle of a call, and an engine with such shards."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import NamedTuple

from maxmargin.engines import ProcessEngine


class Kill(NamedTuple):
    """Which shard kills its process: before it answers this call of this method, and only once."""

    folder: str
    method: str
    shard: int = 0
    call: int = 2

    def is_done(self):
        return (Path(self.folder) / f"{self.method}-{self.shard}-{self.call}").exists()

    def now(self):
        (Path(self.folder) / f"{self.method}-{self.shard}-{self.call}").touch()
        os.kill(os.getpid(), signal.SIGKILL)


class CountedShard:
    """A shard whose calls are counted."""

    def __init__(self, shard, number, kills):
        self.shard, self.kills = shard, [d for d in kills if d.shard == number]
        self.calls = {}

    def __getattr__(self, method):
        if method.startswith("__"):
            raise AttributeError(method)
        for kill in self.kills:
            if kill.method == method:
                self.calls[method] = self.calls.get(method, 0) + 1
                if self.calls[method] == kill.call and not kill.is_done():
                    kill.now()
        return getattr(self.shard, method)


def build(factory, kills, spec):
    number, own = spec
    return CountedShard(factory(own), number, kills)


def killing(factory, specs, kills):
    """Factory and specs of the same shards, with these kills."""
    return partial(build, factory, kills), list(enumerate(specs))


class KillingEngine(ProcessEngine):
    """Processes, some of which are killed by their shards."""

    def __init__(self, n_workers, kills):
        super().__init__(n_workers)
        self.kills = kills

    def open(self, factory, specs):
        return super().open(*killing(factory, specs, self.kills))
