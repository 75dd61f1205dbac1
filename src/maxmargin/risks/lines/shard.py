"""Shards that store scores under keys and evaluate the risk on lines between them.

The stored scores are a cache; :mod:`maxmargin.risks.lines.evaluation` describes how it is refilled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.compiled.products import blend
from maxmargin.core.cut import Cut
from maxmargin.core.matrices import is_finite
from maxmargin.core.rounding import Scale
from maxmargin.core.vectors import Array, Vector
from maxmargin.files.scratch import ScratchPool
from maxmargin.losses.base import ScoreLoss

NOT_FINITE = (
    "a score is NaN or infinite: the features or weights are, or they are so large that scores overflow. "
    "Check and scale the features."
)


class LostScores(Exception):
    """A shard was rebuilt and lacks scores that an earlier call stored."""


class LineShard(ABC):
    """A shard that evaluates, moves along lines and computes cuts, given scores."""

    #: where scores are stored; in memory if None
    _scratch: ScratchPool | None = None

    def __init__(self) -> None:
        self._scores: dict[int, Array] = {}

    @abstractmethod
    def scores_at(self, w: Array) -> Array:
        """The scores of w, which are linear in w up to a constant."""

    @abstractmethod
    def value_of(self, scores: Array) -> float:
        """The shard's risk."""

    @abstractmethod
    def slopes_of(self, a: Array, b: Array, ts: Array) -> Array:
        """Right derivatives on the line between two score vectors."""

    @abstractmethod
    def kinks_of(
        self, a: Array, b: Array, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the same line."""

    @abstractmethod
    def cut_of(self, scores: Array) -> Cut:
        """The cut that is tight at these scores."""

    def line_evaluate(self, key: int, w: Array, live: frozenset[int]) -> float:
        """Store the scores of w under a key."""
        self._forget(live)
        if key not in self._scores:
            scores = self.scores_at(w)
            if not is_finite(scores):  # a loss would ignore it: max(0, nan) is 0
                raise ValueError(NOT_FINITE)
            self._scores[key] = self._stored(scores)
        return self.value_of(self._scores[key])

    def line_toward(self, a: int, b: int, t: float, key: int, live: frozenset[int]) -> float:
        """Store the scores of a point on the line, in place of those of ``a`` if they are not needed."""
        if key not in self._scores:
            start, end = self._at(a), self._at(b)
            # not a view of another array
            own = start.flags.writeable and (start.flags.owndata or self._scratch is not None)
            moved = self._scores.pop(a) if own and a not in live else self._empty_like(start)
            blend(start.ravel(), end.ravel(), t, moved.ravel())
            self._scores[key] = moved
        self._forget(live)
        return 0.0

    def line_value(self, key: int) -> float:
        return self.value_of(self._at(key))

    def line_value_toward(self, a: int, b: int, t: float) -> float:
        return self.value_of(self._between(a, b, t))

    def line_scores(self, key: int) -> Array:
        return self._at(key)

    def line_slopes(self, a: int, b: int, ts: Array) -> Array:
        return self.slopes_of(self._at(a), self._at(b), ts)

    def line_kinks(
        self, a: int, b: int, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        return self.kinks_of(self._at(a), self._at(b), lo, hi, limit)

    def line_cut(self, key: int) -> Cut:
        return self.cut_of(self._at(key))

    def line_cut_toward(self, a: int, b: int, t: float) -> Cut:
        return self.cut_of(self._between(a, b, t))

    def line_restore(self, keys: Sequence[int], *ws: Array) -> None:
        """Compute lost scores again."""
        for key, w in zip(keys, ws, strict=True):
            if key not in self._scores:
                self._scores[key] = self._stored(self.scores_at(w))

    def _stored(self, scores: Array) -> Array:
        if self._scratch is None:
            return scores
        stored = self._scratch.empty_like(scores)
        stored[...] = scores
        return stored

    def _empty_like(self, scores: Array) -> Array:
        if self._scratch is None:
            return np.empty_like(scores)
        return self._scratch.empty_like(scores)

    def _between(self, a: int, b: int, t: float) -> Array:
        start, end = self._at(a), self._at(b)
        moved = np.empty_like(start)
        blend(start.ravel(), end.ravel(), t, moved.ravel())
        return moved

    def _at(self, key: int) -> Array:
        try:
            return self._scores[key]
        except KeyError:
            raise LostScores(f"the scores of point {key} are not here") from None

    def _forget(self, live: frozenset[int]) -> None:
        for key in [key for key in self._scores if key not in live]:
            dropped = self._scores.pop(key)
            if self._scratch is not None:
                self._scratch.release(dropped)


class LossShard(LineShard):
    """A shard whose risk is a loss of its scores."""

    _loss: ScoreLoss

    @property
    @abstractmethod
    def _labels(self) -> tuple[Any, Any]:
        """Labels and weights."""

    @property
    @abstractmethod
    def _offset(self) -> Array | None:
        """The offset added to the products, or None."""

    @abstractmethod
    def plane_of(self, gradient: Array) -> Vector:
        """``X' gradient``, flat."""

    def value_of(self, scores: Array) -> float:
        value = self._loss.value(scores, *self._labels)
        if not np.isfinite(value):
            raise self._not_finite(f"value {value}")
        return value

    def slopes_of(self, a: Array, b: Array, ts: Array) -> Array:
        return self._loss.slopes(a, b, *self._labels, ts)

    def kinks_of(
        self, a: Array, b: Array, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        return self._loss.breakpoints(a, b, *self._labels, lo, hi, limit)

    def cut_of(self, scores: Array) -> Cut:
        offset, gradient = self._loss.cut(scores, *self._labels)
        if not (np.isfinite(offset) and is_finite(np.asarray(gradient))):
            raise self._not_finite("cut")
        if np.shape(gradient) != scores.shape:
            raise ValueError(
                f"the gradient of {type(self._loss).__name__} has shape {np.shape(gradient)} for scores of "
                f"shape {scores.shape}: it must have their shape."
            )
        error = self._error(scores, gradient)
        if self._offset is not None:  # scores are offset + X w
            offset += float(np.vdot(gradient, self._offset))
        return Cut(offset, self.plane_of(gradient), error)

    def _not_finite(self, what: str) -> ValueError:
        return ValueError(
            f"{type(self._loss).__name__} has a {what} that is not finite at finite scores: losses overflow "
            "because features or targets are too large (scale them, for example with StandardScaler), labels "
            "or weights contain NaN or infinite values, or the loss is wrong."
        )

    def lengths(self) -> Array | float | None:
        """Norms of the rows, including the constant feature, or a bound on them; None if unknown."""
        return None

    def _error(self, scores: Array, gradient: Array) -> float:
        """Bound on the rounding error of the cut at these scores; see :mod:`maxmargin.core.rounding`.

        The offset is a sum of l_i - g_i s_i (and of g_i o_i), the plane one of g_i x_i.
        """
        lengths = self.lengths()
        if lengths is None:
            return 0.0
        sizes = np.abs(gradient)
        total = abs(self.value_of(scores)) + float(np.vdot(sizes, np.abs(scores)))
        if self._offset is not None:
            total += float(np.vdot(sizes, np.abs(self._offset)))
        # use the longest row: for rows outside memory only a bound is known
        longest = float(np.max(lengths, initial=0.0))
        return Scale(total, float(sizes.sum()) * longest, len(scores)).of_cut()
