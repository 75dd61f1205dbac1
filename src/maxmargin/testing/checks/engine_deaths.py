"""Checks of engines whose workers can die: nothing is lost but what shards remembered."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from maxmargin.core.summation import tree_sum
from maxmargin.testing.checks._common import require
from maxmargin.testing.checks.engine_shards import (
    LIVES,
    Mortal,
    Shard,
    Spec,
    StillBorn,
    bits,
    deaths,
    fingerprint,
)

#: shards, and the one that dies
N, WHO = 5, 2


def check_deaths(engine: Any) -> None:
    """Kill workers in calls and while they build shards."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = [np.random.default_rng(i).normal(size=20_000) for i in range(N)]
        specs = [Spec(i, N, os.getpid(), block, folder) for i, block in enumerate(blocks)]
        before = [fingerprint(block) for block in blocks]
        engine.open(Mortal, specs)
        for block in blocks:
            block += 1.0
        check_one_death(engine, folder)
        require(
            engine.gather(Shard.block) == before,
            "a shard that was built anew after its worker's death has other data than before",
        )
        check_bound(engine, folder)
        engine.open(StillBorn, specs)
        require(deaths(folder, "birth") == 1, "a shard was not built in a worker")
        _require_usable(engine, "a worker died while it built its shards")


def check_one_death(engine: Any, folder: str) -> None:
    """A worker that dies in a call: same bits, a new shard, and published arrays as before."""
    w, large = np.linspace(-1.0, 2.0, 5), np.linspace(0.0, 1.0, 50_000)
    handles = engine.publish(w), engine.publish(large)
    parts = [Shard(Spec(i, N)) for i in range(N)]
    expected = [(float(s.numbers @ w), s.numbers * w) for s in parts]
    for kind, call in (("reduce", engine.reduce), ("gather", engine.gather)):
        names = engine.gather(Shard.who)
        engine.gather(Shard.remember, "told before")
        found = call(Mortal.deadly, handles[0], WHO, kind, 1)
        require(
            deaths(folder, kind) == 1,
            f"in a call of {kind} the worker died {deaths(folder, kind)} times, not once",
        )
        right = tree_sum(expected) if kind == "reduce" else expected
        require(bits(found) == bits(right), f"{kind} differs after a worker died in the call")
        now, kept = engine.gather(Shard.who), engine.gather(Shard.recall)
        require(
            now[WHO] != names[WHO] and len(set(now)) == N,
            "after its worker's death a shard must be another object, built anew from its spec",
        )
        require(
            kept[WHO] is None and all(memory in (None, "told before") for memory in kept),
            f"after a death shards remember {kept!r}: the one that died must have forgotten what it was told",
        )
    found = engine.gather(Shard.seen, *handles)
    require(
        found == [[fingerprint(w), fingerprint(large)]] * N,
        "after a death shards do not see the arrays that were published before it",
    )


def check_bound(engine: Any, folder: str) -> None:
    """A worker that always dies is given up."""
    error: Exception | None = None
    try:
        engine.reduce(Mortal.deadly, engine.publish(np.ones(5)), WHO, "always", LIVES)
    except Exception as caught:
        error = caught
    died = deaths(folder, "always")
    require(
        error is not None and 1 < died < LIVES,
        f"a worker that always dies must be given up after a few times, not {died} ({error!r})",
    )
    text = str(error).lower()
    require(
        isinstance(error, RuntimeError)
        and any(word in text for word in ("died", "ended", "killed", "dead", "lost")),
        f"a call that is given up must raise a RuntimeError that tells of the worker's death, not {error!r}",
    )
    _require_usable(engine, "a worker was given up")


def _require_usable(engine: Any, after: str) -> None:
    expected = tree_sum([Shard(Spec(i, N)).number() for i in range(N)])
    require(
        bits(engine.reduce(Shard.number)) == bits(expected),
        f"an engine must be usable after {after}",
    )
