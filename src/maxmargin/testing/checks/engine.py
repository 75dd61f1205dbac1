"""check_engine: does an engine build shards, call them all, and add up by the one rule?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.cut import Cut
from maxmargin.core.summation import tree_sum
from maxmargin.core.vectors import Array
from maxmargin.testing.checks._common import require

#: a tree of one, two, an odd number, and two unequal sub-trees
COUNTS = (1, 2, 3, 7, 12)


class Shard:
    """A shard to try engines with; at module level, so that any worker can build it.

    Parameters
    ----------
    spec : tuple of int
        (index, number of shards).
    """

    def __init__(self, spec: tuple[int, int]) -> None:
        self.index, self.n = spec
        self.calls = 0
        rng = np.random.default_rng(self.index)
        # of very different sizes: sums in another order differ in their last bits
        self.numbers: Array = rng.normal(size=5) * 10.0 ** rng.integers(-6, 7, 5)

    def number(self) -> float:
        """One number."""
        self.calls += 1
        return float(self.numbers[0])

    def vector(self, w: npt.NDArray[Any]) -> Array:
        """An array that depends on an argument."""
        self.calls += 1
        return np.asarray(self.numbers * w, dtype=np.float64)

    def pair(self, w: npt.NDArray[Any], factor: float) -> tuple[float, Array]:
        """A tuple, summed member by member."""
        self.calls += 1
        return factor * float(self.numbers @ w), self.numbers + w

    def cut(self) -> Cut:
        """A cut."""
        self.calls += 1
        return Cut(float(self.numbers[0]), self.numbers)

    def slow_index(self) -> int:
        """The index; the first shards answer last."""
        self.calls += 1
        time.sleep(0.002 * (self.n - self.index))
        return self.index

    def fail(self, first: int) -> int:
        """Raise in all shards from ``first`` on."""
        self.calls += 1
        if self.index >= first:
            raise KeyError(f"deliberate error {self.index}")
        return 0

    def try_to_write(self, w: npt.NDArray[Any]) -> bool:
        """Whether the argument could be written to."""
        try:
            w[0] = 1e9
        except ValueError:
            return False
        return True

    def called(self) -> int:
        """Calls so far, this one not counted."""
        return self.calls


def check_engine(make_engine: Callable[[], Any]) -> None:
    """Prove that an engine keeps its contract, or say what is wrong.

    Checked are: one shard per spec, called once per call, answers in shard order; sums equal in every bit
    to :func:`maxmargin.core.summation.tree_sum` of the parts, for numbers, arrays, tuples and cuts; published
    arrays are snapshots that no shard can write to; an error in a shard reaches the caller once, as itself,
    with the shard's index in its text or notes, and leaves the engine usable; ``open`` replaces the shards;
    ``close`` can be called twice, and the engine opened again after it.

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
        for n in COUNTS:
            engine.open(Shard, [(i, n) for i in range(n)])
            _check_answers(engine, n)
            _check_publish(engine, n)
            _check_errors(engine, n)
        engine.close()
        engine.close()
        engine.open(Shard, [(0, 1)])
        found = engine.gather("slow_index")
        require(found == [0], f"opened again after close: gather gives {found!r}, expected [0]")
    finally:
        engine.close()


def _check_answers(engine: Any, n: int) -> None:
    shards = [Shard((i, n)) for i in range(n)]
    w = np.linspace(-1.0, 2.0, 5)
    handle = engine.publish(w)
    found = engine.gather("slow_index")
    require(found == list(range(n)), f"gather over {n} shards is not in shard order: {found!r}")
    calls: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = [
        ("number", (), ()),
        ("vector", (handle,), (w,)),
        ("pair", (handle, 3.0), (w, 3.0)),
        ("cut", (), ()),
    ]
    for method, args, plain in calls:
        parts = [getattr(shard, method)(*plain) for shard in shards]
        expected = _bits(tree_sum(parts))
        require(
            _bits(engine.reduce(method, *args)) == expected,
            f"reduce({method!r}) over {n} shards differs from tree_sum of the parts",
        )
        require(
            [_bits(a) for a in engine.gather(method, *args)] == [_bits(p) for p in parts],
            f"gather({method!r}) over {n} shards differs from the parts",
        )
    counts = engine.gather("called")
    once = 1 + 2 * len(calls)
    require(
        counts == [once] * n,
        f"{once} calls over {n} shards reached them {counts!r} times: each shard once per call",
    )


def _check_publish(engine: Any, n: int) -> None:
    w = np.ones(5)
    handle = engine.publish(w)
    before = _bits(engine.reduce("vector", handle))
    w[:] = 7.0
    require(
        _bits(engine.reduce("vector", handle)) == before,
        "publish must take a snapshot: writing to the array afterwards changed what shards see",
    )
    written = engine.gather("try_to_write", handle)
    require(
        not any(written), f"a published array can be written to in {sum(written)} of {n} shards"
    )
    second = engine.publish(w)
    require(
        _bits(engine.reduce("vector", handle)) == before
        and _bits(engine.reduce("vector", second)) != before,
        "two published arrays are mixed up",
    )


def _check_errors(engine: Any, n: int) -> None:
    for first in {0, n // 2, n - 1}:
        for call in (engine.reduce, engine.gather):
            before = engine.gather("called")
            text = _error_text(call, first)
            require(
                f"deliberate error {first}" in text,
                f"the error of the first failing shard ({first}) must be raised, got: {text}",
            )
            require(
                f"shard {first}" in text,
                f"an error must name its shard ('shard {first}') in its text or notes, got: {text}",
            )
            after = engine.gather("called")
            require(
                all(b <= a <= b + 1 for a, b in zip(after, before, strict=True)),
                "after an error, shards were called more than once for that call",
            )
    expected = _bits(tree_sum([Shard((i, n)).number() for i in range(n)]))
    require(_bits(engine.reduce("number")) == expected, "an engine must be usable after an error")


def _error_text(call: Callable[..., Any], first: int) -> str:
    try:
        call("fail", first)
    except Exception as error:
        seen: list[str] = []
        current: BaseException | None = error
        while current is not None:  # an engine may wrap the error: follow its causes
            seen += [repr(current), *getattr(current, "__notes__", [])]
            current = current.__cause__
        return " | ".join(seen)
    raise AssertionError("an error in a shard did not reach the caller")


def _bits(part: Any) -> Any:
    """A part as something that compares equal only if every bit is."""
    if isinstance(part, tuple):
        return tuple(_bits(p) for p in part)
    if isinstance(part, Cut):
        return _bits((part.offset, np.asarray(part.plane)))
    if isinstance(part, np.ndarray):
        return (part.dtype.str, part.shape, part.tobytes())
    return np.float64(part).tobytes()
