"""Checks of engines whose workers can die: only the state of the shards may be lost."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
from tests.contracts.engine_shards import (
    MAX_KILLS,
    KilledInBuild,
    KilledInCall,
    Shard,
    Spec,
    bits,
    deaths,
    fingerprint,
)

from maxmargin.core.summation import tree_sum
from maxmargin.testing.checks._common import require

#: number of shards, and the index of the one that is killed
N, WHO = 5, 2


def check_deaths(engine: Any) -> None:
    """Kill workers during calls and while they build shards."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = [np.random.default_rng(i).normal(size=20_000) for i in range(N)]
        specs = [Spec(i, N, os.getpid(), block, folder) for i, block in enumerate(blocks)]
        before = [fingerprint(block) for block in blocks]
        engine.open(KilledInCall, specs)
        for block in blocks:
            block += 1.0
        check_one_death(engine, folder)
        require(
            engine.gather(Shard.block) == before,
            "a shard that was rebuilt after its worker died has other data than before",
        )
        check_bound(engine, folder)
        engine.open(KilledInBuild, specs)
        require(deaths(folder, "birth") == 1, "shards must be built in worker processes")
        _require_usable(engine, "a worker died while it built its shards")


def check_one_death(engine: Any, folder: str) -> None:
    """Kill a worker during a call: bit-identical results, a new shard, the same published arrays."""
    w, large = np.linspace(-1.0, 2.0, 5), np.linspace(0.0, 1.0, 50_000)
    handles = engine.publish(w), engine.publish(large)
    parts = [Shard(Spec(i, N)) for i in range(N)]
    expected = [(float(s.numbers @ w), s.numbers * w) for s in parts]
    for kind, call in (("reduce", engine.reduce), ("gather", engine.gather)):
        names = engine.gather(Shard.who)
        engine.gather(Shard.remember, "stored before")
        found = call(KilledInCall.killed_before_answer, handles[0], WHO, kind, 1)
        require(
            deaths(folder, kind) == 1,
            f"in {kind}, the worker was killed {deaths(folder, kind)} times instead of once",
        )
        right = tree_sum(expected) if kind == "reduce" else expected
        require(bits(found) == bits(right), f"{kind} differs after a worker died during the call")
        now, kept = engine.gather(Shard.who), engine.gather(Shard.recall)
        require(
            now[WHO] != names[WHO] and len(set(now)) == N,
            "after its worker died, a shard must be a new object, rebuilt from its spec",
        )
        require(
            kept[WHO] is None and all(memory in (None, "stored before") for memory in kept),
            f"after a worker died, shards have the values {kept!r}: the shard that died must have None",
        )
    found = engine.gather(Shard.seen, *handles)
    require(
        found == [[fingerprint(w), fingerprint(large)]] * N,
        "after a worker died, shards do not receive the arrays that were published before",
    )


def check_bound(engine: Any, folder: str) -> None:
    """Check that an engine gives up on a worker that always dies."""
    error: Exception | None = None
    try:
        engine.reduce(
            KilledInCall.killed_before_answer, engine.publish(np.ones(5)), WHO, "always", MAX_KILLS
        )
    except Exception as caught:
        error = caught
    died = deaths(folder, "always")
    require(
        error is not None and 1 < died < MAX_KILLS,
        f"an engine must give up after a worker died a few times, not {died} times ({error!r})",
    )
    text = str(error).lower()
    require(
        isinstance(error, RuntimeError)
        and any(word in text for word in ("died", "ended", "killed", "dead", "lost")),
        f"if an engine gives up, it must raise a RuntimeError that says that a worker died, got {error!r}",
    )
    _require_usable(engine, "it gave up on a worker")


def _require_usable(engine: Any, after: str) -> None:
    expected = tree_sum([Shard(Spec(i, N)).number() for i in range(N)])
    require(
        bits(engine.reduce(Shard.number)) == bits(expected),
        f"the engine must remain usable after {after}",
    )
