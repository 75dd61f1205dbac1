"""Evaluations of risks whose scores are linear in w: line searches take no pass over the data.

Score risks (scores X w) and the cached model of structured risks (scores of cached constraints) use these;
the shards are in :mod:`maxmargin.risks.lines.shard`. Whatever a shard stores besides its data is a cache.
Calls refer to points by their keys. A shard that lacks one of them, because it was rebuilt, raises
:class:`LostScores`. Then its scores are computed again, from the w of the point, and the call is repeated.
(Scores that were moved along a line may differ from these in the last digits.) Keys that belong to no live
evaluation are dropped with the next call.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.checks import nonnegative
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.vectors import Array, frozen, sparsify
from maxmargin.risks.lines.shard import LineShard, LostScores

#: below this many entries the dense form of a plane is used: it is as fast, and small
SPARSE_FROM = 4096
#: maximum number of times that lost scores are restored in one call
MAX_RESTORES = 10
#: the note on the exception if that was not enough
TOO_OFTEN = (
    f"shards were rebuilt more than {MAX_RESTORES} times during one call: workers fail faster than their "
    "state can be restored. Do they run out of memory? Use fewer or smaller shards per worker."
)


def check_weights(sample_weight: Any, n: int) -> Array:
    """One finite, nonnegative weight per example; ones by default."""
    if sample_weight is None:
        return np.ones(n)
    return nonnegative("sample_weight", sample_weight, (n,))


class ScoreCache:
    """Creates evaluations of the shards behind one engine."""

    def __init__(self, engine: Engine, n_shards: int, make: Any = None) -> None:
        self.engine, self.n_shards = engine, n_shards
        #: creates evaluations
        self.make: Any = make or PinnedEvaluation
        self._keys = itertools.count()
        # Plain references instead of a WeakSet: a WeakSet runs Python code when a member is deleted, and a
        # Ctrl-C in that code is printed and lost.
        self._live: list[weakref.ref[PinnedEvaluation]] = []
        self._waiting: list[weakref.ref[PinnedEvaluation]] = []

    def evaluate(self, w: Array, *, is_upper: bool = True) -> PinnedEvaluation:
        """Evaluate at w. ``is_upper``: the value is also an upper bound of the risk."""
        if self._waiting:
            for waiting in _alive(self._waiting):
                waiting.store_scores()  # before adding a point: then its scores replace those of an end
        at, value = self.stored(w)
        out: PinnedEvaluation = self.make(self, is_upper, at=at, w=at.w, value=value)
        return out

    def stored(self, w: Array) -> tuple[StoredPoint, float]:
        """Make the shards store the scores of w: a pass over the data. Returns the point and its value."""
        at = self.new_point(frozen(w))
        live = self._live_keys(at)
        value = self.ask((at,), LineShard.line_evaluate, at.key, self.engine.publish(at.w), live)
        return at, float(value)

    def ask(
        self,
        points: tuple[StoredPoint, ...],
        method: Callable[..., Any],
        *args: Any,
        gather: bool = False,
    ) -> Any:
        """Call all shards. If one lost the scores of these points, restore them and repeat the call."""
        call = self.engine.gather if gather else self.engine.reduce
        restores = 0
        while True:
            try:
                if restores > 0:  # the restored scores may get lost again
                    handles = [self.engine.publish(point.w) for point in points]
                    keys = [point.key for point in points]
                    self.engine.gather(LineShard.line_restore, keys, *handles)
                return call(method, *args)
            except LostScores as error:
                restores += 1
                if restores > MAX_RESTORES:
                    error.add_note(TOO_OFTEN)
                    raise

    def value(self, at: StoredPoint) -> float:
        """The risk at a point whose scores were stored before its value was needed."""
        return float(self.ask((at,), LineShard.line_value, at.key))

    def value_on(self, line: _Line) -> float:
        """The risk at a point on a line: no pass over the data, and no scores are stored."""
        a, b = line.ends()
        return float(self.ask((a, b), LineShard.line_value_toward, a.key, b.key, line.t))

    def new_point(self, w: Array) -> StoredPoint:
        """A key for the scores of a point, which the shards do not have yet."""
        return StoredPoint(next(self._keys), w)

    def move(self, a: StoredPoint, b: StoredPoint, t: float, at: StoredPoint) -> None:
        """Make the shards store the scores of a point on a line: no pass over the data."""
        self.ask((at,), LineShard.line_toward, a.key, b.key, t, at.key, self._live_keys(at))

    def with_scores(self) -> list[PinnedEvaluation]:
        """All live evaluations, with their scores stored."""
        for waiting in _alive(self._waiting):
            waiting.store_scores()
        return _alive(self._live)

    def wait(self, evaluation: PinnedEvaluation) -> None:
        """Register an evaluation on a line between others, whose scores may have to be stored."""
        self._waiting = [*(weakref.ref(e) for e in _alive(self._waiting)), weakref.ref(evaluation)]

    def watch(self, evaluation: PinnedEvaluation) -> None:
        """From now on shards keep the scores of this evaluation as long as it is referenced."""
        if self._waiting:
            self._waiting = [weakref.ref(e) for e in _alive(self._waiting) if e is not evaluation]
        live = [reference for reference in self._live if reference() is not None]
        self._live = [*live, weakref.ref(evaluation)]

    def _live_keys(self, at: StoredPoint) -> frozenset[int]:
        return frozenset([at.key, *[e.key for e in _alive(self._live)]])


def _alive(references: list[weakref.ref[PinnedEvaluation]]) -> list[PinnedEvaluation]:
    out = []
    for reference in references:
        evaluation = reference()
        if evaluation is not None:
            out.append(evaluation)
    return out


class StoredPoint(NamedTuple):
    """A point whose scores the shards store under a key.

    It holds w itself, not the published handle: space in an object store is expensive, and losses are rare.
    """

    key: int
    w: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A lazily evaluated point on the line between two evaluations."""

    a: PinnedEvaluation
    b: PinnedEvaluation
    t: float

    def w(self) -> Array:
        w = self.b.w - self.a.w  # allocates one array only
        w *= self.t
        w += self.a.w
        w.setflags(write=False)
        return w

    def ends(self) -> tuple[StoredPoint, StoredPoint]:
        return self.a.point, self.b.point


class PinnedEvaluation:
    """A risk evaluated at w. Points on lines to other evaluations of the same risk take no pass over the
    data.

    A point on a line is settled (its scores are stored) when another line starts there, or before the next
    point is evaluated. Until then its value and its cut are computed from temporary scores. When it is
    settled and nothing else refers to the line's first end, its scores replace those of that end. So at most
    two scores per row are stored at a time.
    """

    def __init__(
        self,
        pins: ScoreCache,
        is_upper: bool,
        *,
        at: StoredPoint | None = None,
        w: Array | None = None,
        line: _Line | None = None,
        value: float | None = None,
    ) -> None:
        self._pins, self._is_upper, self._at, self._line = pins, is_upper, at, line
        self._value, self._w = value, w
        if at is not None:
            pins.watch(self)
        else:
            pins.wait(self)

    def store_scores(self) -> StoredPoint:
        """Make the shards store the scores."""
        line = self._line
        if line is not None:
            (a, b), t = line.ends(), line.t
            at = self._pins.new_point(self.w)
            # from here on an interrupt is harmless: shards can recompute the scores of any point
            self._at, self._line = at, None
            self._pins.watch(self)
            del line  # this may release its first end
            self._pins.move(a, b, t, at)
        assert self._at is not None
        return self._at

    def rename(self, w: Array) -> None:
        """Replace the representation of the point."""
        self._at, self._w = self._pins.stored(w)[0], w

    @property
    def key(self) -> int:
        """The key of the scores."""
        assert self._at is not None
        return self._at.key

    @property
    def point(self) -> StoredPoint:
        """The point, whose scores the shards have."""
        return self._at if self._line is None and self._at is not None else self.store_scores()

    @property
    def w(self) -> Array:
        """The point."""
        if self._w is None:
            assert self._line is not None
            self._w = self._line.w()
        return self._w

    @property
    def value(self) -> float:
        """R(w)."""
        if self._value is None:
            line = self._line
            self._value = (
                self._pins.value_on(line)
                if line is not None
                else self._pins.value(self.store_scores())
            )
        return self._value

    @property
    def upper(self) -> float:
        """R(w), or infinite if the value is only that of a lower model."""
        if not self._is_upper:
            return float("inf")
        return self.value if self._value is None else self._value

    def cut(self) -> Cut:
        """The cut that is tight here."""
        cut: Cut = self.ask_cut()
        return _thin(cut)

    def ask_cut(self, *, gather: bool = False) -> Any:
        """The sum of the shards' cuts, or a list of all of them."""
        if self._line is not None:
            a, b = ends = self._line.ends()
            return self._pins.ask(
                ends, LineShard.line_cut_toward, a.key, b.key, self._line.t, gather=gather
            )
        at = self.point
        return self._pins.ask((at,), LineShard.line_cut, at.key, gather=gather)

    def toward(self, other: PinnedEvaluation, t: float) -> PinnedEvaluation:
        """The evaluation at ``w + t (other.w - w)``."""
        line = _Line(self, other, t)
        if self._line is not None and self._line.b is other:  # further along the same line
            line = _Line(self._line.a, other, self._line.t + t * (1.0 - self._line.t))
        out: PinnedEvaluation = self._pins.make(self._pins, self._is_upper, line=line)
        return out

    def slopes(self, other: PinnedEvaluation, ts: Array) -> Array:
        """Right derivatives on the line, at ascending ts."""
        a, b = ends = self.point, other.point
        out: Array = self._pins.ask(ends, LineShard.line_slopes, a.key, b.key, ts)
        return out

    def breakpoints(
        self, other: PinnedEvaluation, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the line, unless there are too many."""
        # a shard may have four times its fair share before the attempt is given up
        share = min(limit, max(64, 4 * limit // self._pins.n_shards))
        a, b = ends = self.point, other.point
        parts = self._pins.ask(ends, LineShard.line_kinks, a.key, b.key, lo, hi, share, gather=True)
        if any(part is None for part in parts):
            return None
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _thin(cut: Cut) -> Cut:
    plane = cut.plane
    if not isinstance(plane, np.ndarray) or plane.size < SPARSE_FROM:
        return cut
    thin = sparsify(plane)
    # planes are kept for long: copy them out of memory owned by the engine
    kept = plane.copy() if thin is plane and plane.base is not None else thin
    return Cut(cut.offset, kept, cut.error)
