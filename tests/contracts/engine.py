"""check_engine: check that an engine builds and calls shards, and sums results, as its contract requires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.contracts.engine_deaths import check_deaths
from tests.contracts.engine_shards import Shard, Spec, Unbuildable, bits, fingerprint

from maxmargin.core.summation import tree_sum
from maxmargin.testing.checks._common import require

#: numbers of shards: one, two, odd numbers, unequal subtrees of the sum, more than the number of workers
COUNTS = (1, 2, 3, 7, 12, 33)
#: number of published arrays held at the same time
MANY = 40


def check_engine(make_engine: Callable[[], Any]) -> None:
    """Check that an engine follows its contract.

    The contract is in the docstring of :mod:`maxmargin.core.engine`. The checks are:

    - There is one shard per spec. Each call reaches each shard once, and answers are in shard order. Shards
      stay the same objects from call to call. ``open`` replaces all shards. ``close`` can be called twice,
      and the engine can be opened again after it.
    - Sums are bit-identical to :func:`maxmargin.core.summation.tree_sum` of the parts, for numbers, arrays,
      large arrays, tuples, and cuts with dense and sparse planes.
    - Published arrays of all shapes are snapshots that no shard can write to. They remain available as long
      as their handles are held.
    - An error in a shard, or while a shard is built, is raised once, with its own type (or with its text, if
      it cannot be pickled) and with the index of the shard in its notes. The call is not repeated, and the
      engine remains usable.
    - If the engine is not ``durable``, specs are snapshots. If a worker is killed during a call or while it
      builds a shard, the shard is rebuilt from its spec and the result is bit-identical. If a worker dies
      again and again, the call raises a RuntimeError, and the engine remains usable.
    """
    engine = make_engine()
    try:
        durable = getattr(engine, "durable", None)
        require(
            isinstance(durable, bool),
            f"an engine must have an attribute durable that is True or False, got {durable!r}",
        )
        for n in COUNTS:
            engine.open(Shard, [Spec(i, n) for i in range(n)])
            check_answers(engine, n)
            check_publish(engine, n)
            check_errors(engine, n)
        check_large_answers(engine)
        check_many_arrays(engine)
        check_build_errors(engine)
        check_specs(engine)
        check_closing(engine)
        if not durable:
            check_deaths(engine)
    finally:
        engine.close()


def check_answers(engine: Any, n: int) -> None:
    """Check answers, sums, and the number of calls of each shard."""
    shards = [Shard(Spec(i, n)) for i in range(n)]
    w = np.linspace(-1.0, 2.0, 5)
    handle = engine.publish(w)
    found = engine.gather(Shard.slow_index)
    require(found == list(range(n)), f"gather over {n} shards is not in shard order: {found!r}")
    names = engine.gather(Shard.who)
    calls: list[tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = [
        (Shard.number, (), ()),
        (Shard.vector, (handle,), (w,)),
        (Shard.pair, (handle, 3.0), (w, 3.0)),
        (Shard.cut, (), ()),
        (Shard.sparse_cut, (), ()),
    ]
    for method, args, plain in calls:
        parts = [method(shard, *plain) for shard in shards]
        require(
            bits(engine.reduce(method, *args)) == bits(tree_sum(parts)),
            f"reduce({method.__name__}) over {n} shards is not bit-identical to tree_sum of the parts",
        )
        require(
            bits(engine.gather(method, *args)) == bits(parts),
            f"gather({method.__name__}) over {n} shards is not bit-identical to the parts",
        )
    found = engine.gather(Shard.nothing)
    require(
        found == [None] * n,
        f"gather over {n} shards that return None must give {n} times None, got {found!r}",
    )
    require(
        len(set(names)) == n and engine.gather(Shard.who) == names,
        f"the {n} shards are not the same objects from call to call",
    )
    counts, once = engine.gather(Shard.called), 2 + 2 * len(calls)
    require(
        counts == [once] * n,
        f"{once} calls reached the {n} shards {counts!r} times: each call must reach each shard once",
    )


def check_large_answers(engine: Any) -> None:
    """Check large answers, which may be sent in another way, and which no later call may change."""
    for n in (1, 5):
        engine.open(Shard, [Spec(i, n) for i in range(n)])
        w = np.linspace(-1.0, 2.0, 5)
        parts = [Shard(Spec(i, n)).large(w) for i in range(n)]
        handle = engine.publish(w)
        total, each = engine.reduce(Shard.large, handle), engine.gather(Shard.large, handle)
        for when in ("", " after a later call changed it"):
            require(
                bits(total) == bits(tree_sum(parts)),
                f"reduce of large arrays over {n} shards differs from tree_sum of the parts{when}",
            )
            require(
                bits(each) == bits(parts),
                f"gather of large arrays over {n} shards differs from the parts{when}",
            )
            other = engine.publish(w + 1.0)
            engine.reduce(Shard.large, other)
            engine.gather(Shard.large, other)


def check_publish(engine: Any, n: int) -> None:
    """Check that published arrays are read-only snapshots."""
    w = np.ones(5)
    handle = engine.publish(w)
    before = bits(engine.reduce(Shard.vector, handle))
    w[:] = 7.0
    require(
        bits(engine.reduce(Shard.vector, handle)) == before,
        "publish must take a snapshot: a later write to the array changed what shards receive",
    )
    for array in (w, np.ones(100_000)):
        written = engine.gather(Shard.try_to_write, engine.publish(array))
        require(
            not any(written),
            f"published arrays must be read-only, but they can be written to in {sum(written)} of {n} shards",
        )
    second = engine.publish(w)
    require(
        bits(engine.reduce(Shard.vector, handle)) == before
        and bits(engine.reduce(Shard.vector, second)) != before,
        "two published arrays are confused with each other",
    )


def check_many_arrays(engine: Any) -> None:
    """Check many arrays of all shapes, used late and in another order, and released."""
    n = 3
    engine.open(Shard, [Spec(i, n) for i in range(n)])
    rng = np.random.default_rng(0)
    shapes: list[Any] = [
        rng.normal(size=(300, 200)),
        np.asfortranarray(rng.normal(size=(200, 300))),
        rng.normal(size=(100, 500))[::3, ::2],
        rng.integers(0, 9, 70_000).astype(np.int32),
        np.zeros((0, 4)),
        np.array(["one", "three"]),
    ]
    shapes += [rng.normal(size=(3, 9_000)[k % 2]) for k in range(MANY)]
    handles = [engine.publish(array) for array in shapes]
    expected = [fingerprint(array) for array in shapes]
    for array in shapes:
        if array.dtype.kind == "f":
            array *= 2.0
    order = [*range(len(shapes)), *reversed(range(len(shapes)))]
    for k, last in zip(order, [0, *order], strict=False):
        found = engine.gather(Shard.seen, handles[k], handles[last], k)
        require(
            found == [[expected[k], expected[last], repr(k)]] * n,
            f"shards did not receive the published array {k} of {len(shapes)} unchanged",
        )
    del handles[1:]
    engine.open(Shard, [Spec(i, n) for i in range(n)])
    for k in range(MANY):
        array = rng.normal(size=9_000)
        found = engine.gather(Shard.seen, engine.publish(array), handles[0])
        require(
            found == [[fingerprint(array), expected[0]]] * n,
            f"shards did not receive array {k} unchanged after others were released and shards replaced",
        )


def check_errors(engine: Any, n: int) -> None:
    """Check that errors are raised once, with their own type and the index of the shard."""
    for first, pickles in sorted({(0, True), (n // 2, False), (n - 1, True)}):
        for call in (engine.reduce, engine.gather):
            before = engine.gather(Shard.called)
            error = _error(call, Shard.fail, first, pickles)
            after = engine.gather(Shard.called)
            _require_named(error, first)
            require(
                isinstance(error, KeyError) or not pickles,
                f"an error must be raised with its own type, KeyError, got {error!r}",
            )
            times = [a - b for a, b in zip(after, before, strict=True)]
            require(
                times[first] == 1 and max(times) <= 1,
                f"a call that raised in shard {first} reached the shards {times!r} times: do not repeat it",
            )
    expected = bits(tree_sum([Shard(Spec(i, n)).number() for i in range(n)]))
    require(
        bits(engine.reduce(Shard.number)) == expected,
        "the engine must remain usable after an error",
    )


def check_build_errors(engine: Any) -> None:
    """Check errors while shards are built."""
    n = 6
    error = _error(engine.open, Unbuildable, [Spec(i, n) for i in range(n)])
    _require_named(error, n // 2)
    engine.open(Shard, [Spec(i, n) for i in range(n)])
    found = engine.gather(Shard.slow_index)
    require(
        found == list(range(n)),
        f"the engine must remain usable after an error in building shards, but gather returned {found!r}",
    )


def check_specs(engine: Any) -> None:
    """Check that shards receive the arrays in their specs as they were when ``open`` was called."""
    n = 4
    rng = np.random.default_rng(1)
    blocks = [rng.normal(size=(130, 1_000)) for _ in range(n - 1)]
    blocks.append(blocks[0])
    before = [fingerprint(block) for block in blocks]
    engine.open(Shard, [Spec(i, n, block=block) for i, block in enumerate(blocks)])
    require(
        engine.gather(Shard.block) == before,
        "the arrays in specs that shards receive are not bit-identical to the originals",
    )
    if not engine.durable:
        for block in blocks[:-1]:
            block += 1.0
        require(
            engine.gather(Shard.block) == before,
            "an engine that is not durable must keep a snapshot of its specs: a write to an array after open "
            "changed the data of a shard",
        )


def check_closing(engine: Any) -> None:
    """Check closing twice, a call after closing, and opening again."""
    engine.close()
    engine.close()
    error = _error(engine.reduce, Shard.number)
    require(
        isinstance(error, RuntimeError),
        f"a call after close must raise a RuntimeError that says so, got {error!r}",
    )
    engine.open(Shard, [Spec(0, 1)])
    found = engine.gather(Shard.slow_index)
    require(
        found == [0],
        f"the engine must be usable after it is opened again, but gather returned {found!r}, not [0]",
    )


def _error(call: Callable[..., Any], *args: Any) -> Exception:
    try:
        call(*args)
    except Exception as error:
        return error
    raise AssertionError("a call that must raise an error raised none")


def _require_named(error: Exception, first: int) -> None:
    text = " | ".join([repr(error), *getattr(error, "__notes__", [])])
    require(
        f"deliberate error {first}" in text,
        f"the error of the first failing shard ({first}) must be raised, got: {text}",
    )
    require(
        f"shard {first}" in text,
        f"the text or the notes of an error must name its shard ('shard {first}'), got: {text}",
    )
