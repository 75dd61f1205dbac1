"""Family A: R(w) = L(X w), a design and a loss of scores.

w holds one column per output: W = w[: d K] as (d, K), then K intercepts, multiplied by ``intercept``. Scores stay with the
shards, under a key; a line between two evaluated points needs no pass over X. What a shard holds besides its rows is a
cache: every call carries the points it is about, so a shard that lost its scores computes them anew.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.protocols import Evaluation, OracleKind
from maxmargin.core.vectors import Array, sparsify
from maxmargin.data.design import Design, as_design, shard_bounds
from maxmargin.engines.base import Engine, Handle, SerialEngine
from maxmargin.losses.base import Labels, ScoreLoss

Point = tuple[int, Any]  # a key and the published w


@dataclass(slots=True, eq=False)
class _Rows:
    """What the shards share: in memory, a shard is a row range of it."""

    design: Design
    y: Labels
    weight: Array
    loss: ScoreLoss
    intercept: float

    @property
    def n_features(self) -> int:
        return self.design.shape[1]


class _Shard:
    """Rows ``lo .. hi-1`` and the scores of live points."""

    def __init__(self, rows: _Rows, lo: int, hi: int) -> None:
        self._rows, self._lo, self._hi = rows, lo, hi
        self._y, self._weight = rows.y[lo:hi], rows.weight[lo:hi]
        self._scores: dict[int, Array] = {}

    def evaluate(self, point: Point, live: frozenset[int]) -> float:
        self._forget(live)
        return self._rows.loss.value(self._at(point), self._y, self._weight)

    def toward(self, a: Point, b: Point, t: float, key: int, live: frozenset[int]) -> float:
        self._forget(live)
        start = self._at(a)
        self._scores[key] = moved = start + t * (self._at(b) - start)
        return self._rows.loss.value(moved, self._y, self._weight)

    def slopes(self, a: Point, b: Point, ts: Array) -> Array:
        return self._rows.loss.slopes(self._at(a), self._at(b), self._y, self._weight, ts)

    def breakpoints(
        self, a: Point, b: Point, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        return self._rows.loss.breakpoints(
            self._at(a), self._at(b), self._y, self._weight, lo, hi, limit
        )

    def cut(self, point: Point) -> Cut:
        rows = self._rows
        offset, gradient = rows.loss.cut(self._at(point), self._y, self._weight)
        d = rows.n_features
        extra = int(rows.intercept != 0.0)
        plane = np.zeros((d + extra, *gradient.shape[1:]))
        rows.design.accumulate(gradient, self._lo, self._hi, plane[:d])
        if extra:
            plane[d] = rows.intercept * gradient.sum(axis=0)
        return Cut(offset, plane.ravel())

    def _at(self, point: Point) -> Array:
        key, published = point
        scores = self._scores.get(key)
        if scores is None:
            w = published.array if isinstance(published, Handle) else published
            scores = self._scores[key] = self._product(w)
        return scores

    def _product(self, w: Array) -> Array:
        rows = self._rows
        d, columns = rows.n_features, rows.loss.n_outputs()
        if columns is not None:
            w = w.reshape(-1, columns)
        scores = rows.design.dot(w[:d], self._lo, self._hi)
        if rows.intercept != 0.0:
            scores += rows.intercept * w[d]
        return scores

    def _forget(self, live: frozenset[int]) -> None:
        for key in [key for key in self._scores if key not in live]:
            del self._scores[key]


def _make_shard(rows: _Rows, bounds: tuple[int, int]) -> _Shard:
    return _Shard(rows, *bounds)


class ScoreEvaluation:
    """A score risk pinned at w; lines to other evaluations of the same risk are free."""

    def __init__(self, risk: ScoreRisk, key: int, w: Array, handle: Any, value: float) -> None:
        self._risk, self._key, self._handle = risk, key, handle
        self.w = w
        self.value = value
        self.upper = value

    @property
    def _point(self) -> Point:
        return self._key, self._handle

    def cut(self) -> Cut:
        """The cut that is tight here."""
        total: Cut = self._risk.engine.reduce("cut", self._point)
        return Cut(total.offset, _thin(total.plane))

    def cuts(self) -> list[Cut]:
        """One part per shard."""
        parts = self._risk.engine.gather("cut", self._point)
        return [Cut(part.offset, _thin(part.plane)) for part in parts]

    def toward(self, other: ScoreEvaluation, t: float) -> ScoreEvaluation:
        """The evaluation at ``w + t (other.w - w)``."""
        w = self.w + t * (other.w - self.w)
        return self._risk._pin(
            w, lambda key, live: ("toward", self._point, other._point, t, key, live)
        )

    def slopes(self, other: ScoreEvaluation, ts: Array) -> Array:
        """Right derivatives on the line."""
        out: Array = self._risk.engine.reduce("slopes", self._point, other._point, ts)
        return out

    def breakpoints(
        self, other: ScoreEvaluation, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the line, unless they are too many."""
        # a shard may hold its fair share four times over before the round is given up
        share = max(64, 4 * limit // self._risk.n_blocks)
        parts = self._risk.engine.gather(
            "breakpoints", self._point, other._point, lo, hi, min(limit, share)
        )
        if any(part is None for part in parts):
            return None
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _thin(plane: Any) -> Any:
    # below a million entries the dense form is faster than it is large
    return sparsify(plane) if plane.size > 1_000_000 else plane


class ScoreRisk:
    """R(w) = L(X w) over in-memory rows.

    Parameters
    ----------
    X : array, CSR matrix or design
        The rows; used as they are, without a copy.
    y : array
        Labels as the loss wants them.
    loss : ScoreLoss
        The loss of scores.
    sample_weight : array, optional
        Weight of each row.
    intercept : float, default 0
        Value of a constant feature, whose weight comes last in w; 0 for none.
    engine : Engine, optional
        Where the shards live; the calling thread by default.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> risk.evaluate(np.array([0.25])).value
    1.25
    """

    oracle: OracleKind = "exact"
    has_cache = False
    lower_bound = 0.0

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: ScoreLoss,
        *,
        sample_weight: Any = None,
        intercept: float = 0.0,
        engine: Engine | None = None,
    ) -> None:
        design = as_design(X)
        n, d = design.shape
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
        columns = loss.n_outputs() or 1
        self.dim = (d + int(intercept != 0.0)) * columns
        self.n_examples = n
        self.engine: Engine = engine or SerialEngine()
        bounds = shard_bounds(n, design.nnz * columns, self.dim) if loss.decomposable else [0, n]
        self.n_blocks = len(bounds) - 1
        rows = _Rows(design, np.ascontiguousarray(y), weight, loss, float(intercept))
        self.engine.open(
            partial(_make_shard, rows), list(zip(bounds[:-1], bounds[1:], strict=True))
        )
        self._keys = itertools.count()
        self._live: weakref.WeakSet[ScoreEvaluation] = weakref.WeakSet()

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """One product with X; ``exact`` makes no difference here."""
        w = np.array(w, dtype=np.float64)
        handle = self.engine.publish(w)
        return self._pin(w, lambda key, live: ("evaluate", (key, handle), live), handle)

    def evaluate_many(self, points: Sequence[Array]) -> list[Evaluation]:
        """Several points, one after the other."""
        return [self.evaluate(w) for w in points]

    def _pin(
        self,
        w: Array,
        call: Callable[[int, frozenset[int]], tuple[Any, ...]],
        handle: Any = None,
    ) -> ScoreEvaluation:
        key = next(self._keys)
        live = frozenset([key, *(e._key for e in self._live)])
        value = float(self.engine.reduce(*call(key, live)))
        evaluation = ScoreEvaluation(self, key, w, w if handle is None else handle, value)
        self._live.add(evaluation)
        return evaluation
