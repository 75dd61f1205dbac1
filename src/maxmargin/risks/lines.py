"""Risks whose scores are linear in w: shards that keep scores under keys, and evaluations with free
lines.

Shared by the score risks (scores X w) and the cached model of structured risks (scores of cached
constraints). What a shard holds besides its data is a cache: every call carries the published
points it is about, so a shard that lost its scores computes them anew. Keys that no live evaluation
owns are forgotten with the next call.
"""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.compiled.products import blend
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.vectors import Array, frozen, sparsify

#: below this many entries the dense form of a plane is faster than it is large
SPARSE_FROM = 1_000_000


def check_weights(sample_weight: Any, n: int) -> Array:
    """One finite, non-negative weight per example; ones by default."""
    weight: Array = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; {n} weights are needed.")
    if not np.isfinite(weight).all() or (weight < 0.0).any():
        raise ValueError(
            "sample_weight must be finite and not negative: with a negative weight the risk is not "
            "convex and no bound would be true."
        )
    return weight


class LineShard(ABC):
    """A shard that can evaluate, move along lines and cut, given scores."""

    def __init__(self) -> None:
        self._scores: dict[int, Array] = {}

    @abstractmethod
    def scores_at(self, w: Array) -> Array:
        """The scores of w, linear in w up to a constant."""

    @abstractmethod
    def value_of(self, scores: Array) -> float:
        """The shard's risk."""

    @abstractmethod
    def slopes_of(self, a: Array, b: Array, ts: Array) -> Array:
        """Right derivatives on the line between two scores."""

    @abstractmethod
    def kinks_of(
        self, a: Array, b: Array, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the same line."""

    @abstractmethod
    def cut_of(self, scores: Array) -> Cut:
        """The cut that is tight at the scores."""

    def line_evaluate(self, key: int, w: Array, live: frozenset[int]) -> float:
        self._forget(live)
        return self.value_of(self._at(key, w))

    def line_toward(
        self,
        a: int,
        wa: Array,
        b: int,
        wb: Array,
        t: float,
        key: int,
        live: frozenset[int],
    ) -> float:
        """Keep the scores of a point on the line, in the place of ``a``'s if nobody needs those any more."""
        start, end = self._at(a, wa), self._at(b, wb)
        own = start.flags.owndata and start.flags.writeable  # not a view of somebody's array
        moved = self._scores.pop(a) if own and a not in live else np.empty_like(start)
        blend(start.ravel(), end.ravel(), t, moved.ravel())
        self._scores[key] = moved
        self._forget(live)
        return 0.0

    def line_value_toward(self, a: int, wa: Array, b: int, wb: Array, t: float) -> float:
        return self.value_of(self._between(a, wa, b, wb, t))

    def line_scores(self, key: int, w: Array) -> Array:
        return self._at(key, w)

    def line_slopes(self, a: int, wa: Array, b: int, wb: Array, ts: Array) -> Array:
        return self.slopes_of(self._at(a, wa), self._at(b, wb), ts)

    def line_kinks(
        self, a: int, wa: Array, b: int, wb: Array, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        return self.kinks_of(self._at(a, wa), self._at(b, wb), lo, hi, limit)

    def line_cut(self, key: int, w: Array) -> Cut:
        return self.cut_of(self._at(key, w))

    def line_cut_toward(self, a: int, wa: Array, b: int, wb: Array, t: float) -> Cut:
        return self.cut_of(self._between(a, wa, b, wb, t))

    def _between(self, a: int, wa: Array, b: int, wb: Array, t: float) -> Array:
        start, end = self._at(a, wa), self._at(b, wb)
        moved = np.empty_like(start)
        blend(start.ravel(), end.ravel(), t, moved.ravel())
        return moved

    def _at(self, key: int, w: Array) -> Array:
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = self.scores_at(w)
        return scores

    def _forget(self, live: frozenset[int]) -> None:
        for key in [key for key in self._scores if key not in live]:
            del self._scores[key]


class Pins:
    """Hands out evaluations of the shards behind one engine."""

    def __init__(self, engine: Engine, n_shards: int, make: Any = None) -> None:
        self.engine, self.n_shards = engine, n_shards
        #: builds evaluations
        self.make: Any = make or PinnedEvaluation
        self._keys = itertools.count()
        # plain references, not a WeakSet: that runs Python code when one dies, and a Ctrl-C that falls into
        # it is printed and forgotten
        self._live: list[weakref.ref[PinnedEvaluation]] = []
        self._waiting: list[weakref.ref[PinnedEvaluation]] = []

    def evaluate(self, w: Array, *, is_upper: bool = True) -> PinnedEvaluation:
        """Evaluate at w; ``is_upper``: the value also bounds the risk from above."""
        for waiting in _alive(self._waiting):
            waiting.settle()  # before there is one more point: then its scores replace those of an end
        at = self.pin(w)
        out: PinnedEvaluation = self.make(self, is_upper, at=at, value=self.value(at))
        return out

    def value(self, at: _Pinned) -> float:
        """The risk at a point."""
        return float(self.engine.reduce("line_evaluate", *at.point, self._live_keys(at)))

    def value_on(self, line: _Line) -> float:
        """The risk at a point on a line: no pass over the data, and no scores are kept."""
        return float(self.engine.reduce("line_value_toward", *line.ends(), line.t))

    def pin(self, w: Array) -> _Pinned:
        """A name for the scores of a point that the shards do not have yet."""
        w = frozen(w)
        return _Pinned(w, (next(self._keys), self.engine.publish(w)))

    def move(self, ends: tuple[Any, ...], t: float, at: _Pinned) -> None:
        """Let the shards keep the scores of a point on a line: no pass over the data."""
        self.engine.reduce("line_toward", *ends, t, at.point[0], self._live_keys(at))

    def wait(self, evaluation: PinnedEvaluation) -> None:
        """This one is on a line between others, and may have to be settled."""
        self._waiting = [*(weakref.ref(e) for e in _alive(self._waiting)), weakref.ref(evaluation)]

    def watch(self, evaluation: PinnedEvaluation) -> None:
        """From now on shards keep the scores of this evaluation while it lives."""
        self._waiting = [weakref.ref(e) for e in _alive(self._waiting) if e is not evaluation]
        self._live = [*(weakref.ref(e) for e in _alive(self._live)), weakref.ref(evaluation)]

    def _live_keys(self, at: _Pinned) -> frozenset[int]:
        return frozenset([at.point[0], *(e.key for e in _alive(self._live))])


def _alive(references: list[weakref.ref[PinnedEvaluation]]) -> list[PinnedEvaluation]:
    return [e for e in (reference() for reference in references) if e is not None]


@dataclass(frozen=True, slots=True, eq=False)
class _Pinned:
    """A point whose scores the shards keep under ``point``."""

    w: Array
    point: tuple[int, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A point between two evaluations that nobody has asked about yet."""

    a: PinnedEvaluation
    b: PinnedEvaluation
    t: float

    def w(self) -> Array:
        return frozen(self.a.w + self.t * (self.b.w - self.a.w))

    def ends(self) -> tuple[Any, ...]:
        return (*self.a.point, *self.b.point)


class PinnedEvaluation:
    """A risk pinned at w, with free lines to other evaluations of the same risk.

    A point on a line is settled (its scores kept) when another line begins there, or before the next point is
    evaluated. Until then its value and its cut are taken from scores that live as long as a call. When it is
    settled and nobody else holds the line's first end, its scores take the place of that end's: then no more
    than two scores of a row are kept at a time.
    """

    def __init__(
        self,
        pins: Pins,
        is_upper: bool,
        *,
        at: _Pinned | None = None,
        line: _Line | None = None,
        value: float | None = None,
    ) -> None:
        self._pins, self._is_upper, self._at, self._line = pins, is_upper, at, line
        self._value, self._w = value, None if at is None else at.w
        if at is not None:
            pins.watch(self)
        else:
            pins.wait(self)

    def settle(self) -> _Pinned:
        """Let the shards keep the scores."""
        line = self._line
        if line is not None:
            at, ends, t = self._pins.pin(self.w), line.ends(), line.t
            # an interrupt from here on does no harm: shards can compute the scores of any point anew
            self._at, self._line = at, None
            self._pins.watch(self)
            del line  # and with it, perhaps, its first end
            self._pins.move(ends, t, at)
        assert self._at is not None
        return self._at

    @property
    def key(self) -> int:
        """The name of the scores."""
        assert self._at is not None
        return self._at.point[0]

    @property
    def point(self) -> tuple[int, Any]:
        """Where shards find the scores."""
        return self.settle().point

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
                self._pins.value_on(line) if line is not None else self._pins.value(self.settle())
            )
        return self._value

    @property
    def upper(self) -> float:
        """R(w), or infinite if the value is only a lower model's."""
        return self.value if self._is_upper else float("inf")

    def cut(self) -> Cut:
        """The cut that is tight here."""
        return _thin(self._pins.engine.reduce(*self._cut_call()))

    def cuts(self) -> list[Cut]:
        """One part per shard."""
        return [_thin(part) for part in self._pins.engine.gather(*self._cut_call())]

    def _cut_call(self) -> tuple[Any, ...]:
        if self._line is not None:
            return ("line_cut_toward", *self._line.ends(), self._line.t)
        return ("line_cut", *self.point)

    def toward(self, other: PinnedEvaluation, t: float) -> PinnedEvaluation:
        """The evaluation at ``w + t (other.w - w)``."""
        line = _Line(self, other, t)
        if self._line is not None and self._line.b is other:  # further along the same line
            line = _Line(self._line.a, other, self._line.t + t * (1.0 - self._line.t))
        out: PinnedEvaluation = self._pins.make(self._pins, self._is_upper, line=line)
        return out

    def slopes(self, other: PinnedEvaluation, ts: Array) -> Array:
        """Right derivatives on the line; the ts ascend."""
        out: Array = self._pins.engine.reduce("line_slopes", *self.point, *other.point, ts)
        return out

    def breakpoints(
        self, other: PinnedEvaluation, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the line, unless they are too many."""
        # a shard may hold its fair share four times over before the round is given up
        share = min(limit, max(64, 4 * limit // self._pins.n_shards))
        parts = self._pins.engine.gather("line_kinks", *self.point, *other.point, lo, hi, share)
        if any(part is None for part in parts):
            return None
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _thin(cut: Cut) -> Cut:
    plane = cut.plane
    if isinstance(plane, np.ndarray) and plane.size >= SPARSE_FROM:
        return Cut(cut.offset, sparsify(plane))
    return cut
