"""check_engine: does an engine build shards, call them all, and add up by the one rule?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.core.summation import tree_sum
from maxmargin.testing.checks._common import require
from maxmargin.testing.checks.engine_deaths import check_deaths
from maxmargin.testing.checks.engine_shards import Shard, Spec, Unbuildable, bits, fingerprint

#: a tree of one, two, an odd number, two unequal sub-trees, and more than there are workers
COUNTS = (1, 2, 3, 7, 12, 33)
#: published arrays that are held at the same time
MANY = 40


def check_engine(make_engine: Callable[[], Any]) -> None:
    """Prove that an engine keeps its contract, or say what is wrong.

    The contract is at the top of :mod:`maxmargin.core.engine`. Checked are:

    - one shard per spec, called once per call, answers in shard order; it stays the same object from call to
      call. ``open`` replaces the shards, however many there were; ``close`` can be called twice, and the
      engine opened again after it;
    - sums equal in every bit to :func:`maxmargin.core.summation.tree_sum` of the parts, for numbers, arrays,
      large arrays, tuples and cuts with dense and sparse planes;
    - published arrays of all shapes are snapshots that no shard can write to, as many as are held, for as
      long as they are;
    - an error in a shard reaches the caller once, as itself (or by its text, if it cannot be pickled), with
      the shard's index in its notes; the call is not repeated and the engine stays usable. So does an error
      while a shard is built;
    - if the engine is not ``durable``: specs are snapshots; when a worker is killed in a call, or while it
      builds a shard, the result is the same in every bit, and the shard was built anew from its spec; a
      worker that always dies is given up with a RuntimeError, and the engine stays usable.

    Parameters
    ----------
    make_engine : callable
        Returns a new engine. It is called once.

    Raises
    ------
    AssertionError
        With a text that names what the engine got wrong.

    Examples
    --------
    >>> from maxmargin.engines import SerialEngine
    >>> from maxmargin.testing import check_engine
    >>> check_engine(SerialEngine)
    """
    engine = make_engine()
    try:
        durable = getattr(engine, "durable", None)
        require(
            isinstance(durable, bool),
            f"an engine must say whether it is durable: True or False, not {durable!r}",
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
    """Answers and sums, and how often the shards were called for them."""
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
            f"reduce({method.__name__}) over {n} shards differs from tree_sum of the parts",
        )
        require(
            bits(engine.gather(method, *args)) == bits(parts),
            f"gather({method.__name__}) over {n} shards differs from the parts",
        )
    found = engine.gather(Shard.nothing)
    require(found == [None] * n, f"gather over {n} shards without an answer: {found!r}")
    require(
        len(set(names)) == n and engine.gather(Shard.who) == names,
        f"{n} shards did not stay {n} and the same objects from call to call",
    )
    counts, once = engine.gather(Shard.called), 2 + 2 * len(calls)
    require(
        counts == [once] * n,
        f"{once} calls over {n} shards reached them {counts!r} times: each shard once per call",
    )


def check_large_answers(engine: Any) -> None:
    """Large answers, which may travel by another way; they are the caller's own."""
    for n in (1, 5):
        engine.open(Shard, [Spec(i, n) for i in range(n)])
        w = np.linspace(-1.0, 2.0, 5)
        parts = [Shard(Spec(i, n)).large(w) for i in range(n)]
        handle = engine.publish(w)
        total, each = engine.reduce(Shard.large, handle), engine.gather(Shard.large, handle)
        for when in ("", ", which has changed with a later call"):
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
    """Published arrays are snapshots that cannot be written to."""
    w = np.ones(5)
    handle = engine.publish(w)
    before = bits(engine.reduce(Shard.vector, handle))
    w[:] = 7.0
    require(
        bits(engine.reduce(Shard.vector, handle)) == before,
        "publish must take a snapshot: writing to the array afterwards changed what shards see",
    )
    for array in (w, np.ones(100_000)):
        written = engine.gather(Shard.try_to_write, engine.publish(array))
        require(
            not any(written), f"a published array can be written to in {sum(written)} of {n} shards"
        )
    second = engine.publish(w)
    require(
        bits(engine.reduce(Shard.vector, handle)) == before
        and bits(engine.reduce(Shard.vector, second)) != before,
        "two published arrays are mixed up",
    )


def check_many_arrays(engine: Any) -> None:
    """Arrays of all shapes, more than are remembered anywhere, used late and in another order, let go of."""
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
            f"published array {k} of {len(shapes)} did not arrive as it was",
        )
    del handles[1:]
    engine.open(Shard, [Spec(i, n) for i in range(n)])
    for k in range(MANY):
        array = rng.normal(size=9_000)
        found = engine.gather(Shard.seen, engine.publish(array), handles[0])
        require(
            found == [[fingerprint(array), expected[0]]] * n,
            f"after others were let go of and shards replaced, published array {k} is another",
        )


def check_errors(engine: Any, n: int) -> None:
    """Errors are raised once, as themselves, with the shard's name."""
    for first, pickles in sorted({(0, True), (n // 2, False), (n - 1, True)}):
        for call in (engine.reduce, engine.gather):
            before = engine.gather(Shard.called)
            error = _error(call, Shard.fail, first, pickles)
            after = engine.gather(Shard.called)
            _require_named(error, first)
            require(
                isinstance(error, KeyError) or not pickles,
                f"an error must be raised as itself, a KeyError, not as {error!r}",
            )
            times = [a - b for a, b in zip(after, before, strict=True)]
            require(
                times[first] == 1 and max(times) <= 1,
                f"a call that raised in shard {first} reached the shards {times!r} times: once, no more",
            )
    expected = bits(tree_sum([Shard(Spec(i, n)).number() for i in range(n)]))
    require(
        bits(engine.reduce(Shard.number)) == expected, "an engine must be usable after an error"
    )


def check_build_errors(engine: Any) -> None:
    """Errors while shards are built: named, raised, and survived."""
    n = 6
    error = _error(engine.open, Unbuildable, [Spec(i, n) for i in range(n)])
    _require_named(error, n // 2)
    engine.open(Shard, [Spec(i, n) for i in range(n)])
    found = engine.gather(Shard.slow_index)
    require(
        found == list(range(n)),
        f"opened again after shards could not be built: gather gives {found!r}",
    )


def check_specs(engine: Any) -> None:
    """An array in a spec arrives as it is, and as it was when the engine may have to build the shard anew."""
    n = 4
    rng = np.random.default_rng(1)
    blocks = [rng.normal(size=(130, 1_000)) for _ in range(n - 1)]
    blocks.append(blocks[0])
    before = [fingerprint(block) for block in blocks]
    engine.open(Shard, [Spec(i, n, block=block) for i, block in enumerate(blocks)])
    require(
        engine.gather(Shard.block) == before,
        "arrays in specs do not arrive as they are in every bit",
    )
    if not engine.durable:
        for block in blocks[:-1]:
            block += 1.0
        require(
            engine.gather(Shard.block) == before,
            "an engine that is not durable must keep a snapshot of its specs: writing to an array after "
            "open changed what a shard has",
        )


def check_closing(engine: Any) -> None:
    """Closed twice; no shards; opened again."""
    engine.close()
    engine.close()
    error = _error(engine.reduce, Shard.number)
    require(
        isinstance(error, RuntimeError),
        f"a call after close must raise a RuntimeError that says so, not {error!r}",
    )
    engine.open(Shard, [Spec(0, 1)])
    found = engine.gather(Shard.slow_index)
    require(found == [0], f"opened again after close: gather gives {found!r}, expected [0]")


def _error(call: Callable[..., Any], *args: Any) -> Exception:
    try:
        call(*args)
    except Exception as error:
        return error
    raise AssertionError("an error did not reach the caller")


def _require_named(error: Exception, first: int) -> None:
    text = " | ".join([repr(error), *getattr(error, "__notes__", [])])
    require(
        f"deliberate error {first}" in text,
        f"the error of the first failing shard ({first}) must be raised, got: {text}",
    )
    require(
        f"shard {first}" in text,
        f"an error must name its shard ('shard {first}') in its text or notes, got: {text}",
    )
