"""The shards of a structured risk: a range of the examples, and a cache of the constraints its oracle
returned (f per example, 10 by default; the least recently used are evicted).

The cache depends only on the points where the oracle was called since the model came into use. A rebuilt
shard starts with an empty cache. When it is asked about a point that the others know, it calls its oracle
there: then the model at that point is not below what it was, and a solver does not wait for a fall that never
comes. Calls carry f, since a rebuilt shard does not know it.

Shards sent to other processes include their own examples. If the oracle is expensive there are few examples,
and any shard can answer for any of them: then all examples are sent to every worker, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.compiled import envelope
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.examples import ConstraintCache, EagerExamples, Examples
from maxmargin.core.contract.latent import LatentAnswers
from maxmargin.core.cut import Cut, add_cuts
from maxmargin.core.vectors import Array, IntArray, writable
from maxmargin.risks.lines.shard import LineShard

#: number of constraints cached per example by default (f in the paper)
CACHE_SIZE = 10


@dataclass(frozen=True, slots=True, eq=False)
class ExamplePart:
    """The specification of a shard: the examples ``lo .. hi-1``. The first in ``examples`` has the number
    ``base``."""

    examples: Any  # None: the maker has them
    weights: Array
    number: int
    lo: int
    hi: int
    base: int = 0

    def __reduce__(self) -> Any:
        examples, lo, hi, base = self.examples, self.lo, self.hi, self.base
        if examples is not None:
            examples, base = examples.part(lo - base, hi - base), lo
        return ExamplePart, (examples, self.weights, self.number, lo, hi, base)


@dataclass(frozen=True, slots=True, eq=False)
class Maker:
    """Builds shards; holds the examples if all shards have all of them."""

    examples: Any

    def __call__(self, part: ExamplePart) -> TaskShard:
        return TaskShard(self.examples if part.examples is None else part.examples, part)


class TaskShard(LineShard):
    """Some examples, their weights, and the constraints seen. Its scores are those of the cached model.

    Internally, examples and answers are numbered as in ``examples``; externally, from the first of all
    examples.
    """

    def __init__(self, examples: Examples, part: ExamplePart) -> None:
        super().__init__()
        self._examples, self._weights = examples, writable(part.weights)
        #: the examples with a faster oracle, where a pass over working sets may use it
        self._eager = examples.eager() if isinstance(examples, EagerExamples) else examples
        self._number, self._base = part.number, part.base
        self._lo, self._hi = part.lo - part.base, part.hi - part.base
        self._cache: ConstraintCache | None = None
        self._size, self._is_empty = CACHE_SIZE, True
        #: the last point where the oracle was called, and its answers
        self._last: tuple[int, list[Answers]] | None = None

    def _runs(self, w: Array) -> list[Answers]:
        """Call the oracle for all examples with nonzero weight: one part per contiguous run."""
        runs = np.flatnonzero(np.diff(np.concatenate([[0], self._weights > 0.0, [0]])))
        return [
            self._examples.oracle(w, self._lo + int(lo), self._lo + int(hi))
            for lo, hi in runs.reshape(-1, 2)
        ]

    def oracle_runs(self, w: Array) -> list[Answers]:
        """The same with external example numbers."""
        parts = self._runs(w)
        return [self._outside(part) for part in parts] if self._base else parts

    def _outside(self, part: Answers) -> Answers:
        return replace(part, lo=part.lo + self._base, hi=part.hi + self._base)

    def complete(self, w: Array) -> LatentAnswers:
        """The highest-scoring latent values at w."""
        examples: Any = self._examples  # those of a latent task
        found: LatentAnswers = examples.complete(w, self._lo, self._hi)
        return found

    def oracle_for(self, w: Array, examples: list[list[int]], quick: bool) -> list[Answers]:
        """Answers for the examples listed for this shard."""
        found: list[Answers] = []
        for i in examples[self._number]:  # none, for most shards
            source, at = self._eager if quick else self._examples, i - self._base
            answers = source.oracle(w, at, at + 1)
            found.append(self._outside(answers) if self._base else answers)
        return found

    def resize(self, size: int) -> None:
        """Keep ``size`` constraints per example from now on. A cache of another size is dropped."""
        if size != self._size:
            self._size, self._is_empty = size, True
            self._cache, self._last = None, None
            self._scores.clear()

    def measure(self, key: int, w: Array, cached: bool, size: int) -> tuple[float, float]:
        """(value, upper) of the true risk at w; the answers are cached if a model is in use (``cached``)."""
        self.resize(size)
        if self._last is None or self._last[0] != key:
            self._last = key, self._answers(w, cached)
        pairs = [(self._weights_of(part), part) for part in self._last[1]]
        value = sum(float(weights @ part.values) for weights, part in pairs)
        return value, sum(float(weights @ part.uppers) for weights, part in pairs)

    def _answers(self, w: Array, cached: bool) -> list[Answers]:
        """Call the oracle at w: for all examples if there is a cache, otherwise only for those with nonzero
        weight."""
        return [self._learn(w)] if cached else self._runs(w)

    def _learn(self, w: Array) -> Answers:
        """Call the oracle at w for all examples and add its answers to the cache."""
        answers = self._examples.oracle(w, self._lo, self._hi)
        self._scores.clear()  # their entries may be evicted
        cache = self._model()
        cache.touch(self._leaders(cache.scores(w)))
        cache.insert(answers)
        self._is_empty = False
        return answers

    def line_restore(self, keys: Sequence[int], *ws: Array) -> None:
        """Compute lost scores again. If the cache was lost, too, call the oracle at these points."""
        if self._is_empty:
            for w in ws:
                self._learn(w)
        super().line_restore(keys, *ws)

    def cut_at(self, key: int, w: Array, cached: bool) -> Cut:
        """The cut of the true risk at w, from the last answers if they are at w, or by the oracle."""
        if self._last is not None and self._last[0] == key:
            parts = self._last[1]
        else:
            parts = [self._examples.oracle(w, self._lo, self._hi)] if cached else self._runs(w)
        if not parts:
            return self._examples.cut(self._examples.oracle(w, self._lo, self._lo), np.empty(0))
        return add_cuts(self._examples.cut(part, self._weights_of(part)) for part in parts)

    def _weights_of(self, part: Answers) -> Array:
        return self._weights[part.lo - self._lo : part.hi - self._lo]

    def scores_at(self, w: Array) -> Array:
        return self._model().scores(w)

    def _model(self) -> ConstraintCache:
        if self._cache is None:
            self._cache = self._examples.cache(self._lo, self._hi, self._size)
        return self._cache

    def value_of(self, scores: Array) -> float:
        chosen = self._leaders(scores)
        held = chosen >= 0
        return float(self._weights[held] @ scores[chosen[held]])

    def slopes_of(self, a: Array, b: Array, ts: Array) -> Array:
        out = np.zeros(len(ts))
        envelope.ragged_slopes(a, b, self._pointers, self._weights, ts, out)
        return out

    def kinks_of(
        self, a: Array, b: Array, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        ts, jumps = np.empty(limit), np.empty(limit)
        count = envelope.ragged_kinks(a, b, self._pointers, self._weights, lo, hi, ts, jumps)
        return None if count < 0 else (ts[:count].copy(), jumps[:count].copy())

    def cut_of(self, scores: Array) -> Cut:
        return self._model().cut(self._leaders(scores), self._weights)

    @property
    def _pointers(self) -> IntArray:
        return self._model().pointers

    def _leaders(self, scores: Array) -> IntArray:
        chosen = np.empty(self._hi - self._lo, dtype=np.int64)
        envelope.ragged_leaders(scores, self._pointers, chosen)
        return chosen
