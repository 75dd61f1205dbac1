"""Family B: R(w) = sum_i s_i max_y^ [Delta + <w, Psi(x_i, y^) - Psi(x_i, y_i)>], a task and its
examples.

Each shard is a range of the examples with a cache of the constraints its oracle returned (f = 10
per example, the most recently used stay). ``evaluate(w, exact=False)`` answers from the caches: a
lower model of R whose scores are linear in w, so it has free lines; ``evaluate(w)`` runs the oracle
on all examples and refreshes the caches.

A cache is a function of the points where the oracle was asked since the model came into use, nothing else.
Calls carry their number (``told``, -1 as long as there is no model); a shard that was built anew is told
the points, asks its oracle again, and has the same cache.

Shards that travel take their own examples along, or all of them where the oracle is dear: then there are
few, and any shard can answer for any of them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any

import numpy as np

from maxmargin.compiled import envelope
from maxmargin.core.cut import Cut, add_cuts
from maxmargin.core.engine import Engine, Handle, SerialEngine
from maxmargin.core.protocols import Answers, ConstraintCache, Evaluation, Examples, WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, frozen
from maxmargin.risks.lines import LineShard, LostScores, Pins, check_weights
from maxmargin.risks.plain_examples import PlainExamples, Rescaling
from maxmargin.risks.weights import WeightMap
from maxmargin.tasks.base import Task

#: the paper's f: constraints cached per example
CACHE_SIZE = 10
#: ranges of examples: a function of the data alone, so that sums have one shape for any number
#: of workers
MAX_SHARDS = 16
MIN_EXAMPLES = 32
PLANE_ENTRIES = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What a shard is made of: the examples ``lo .. hi-1``, of which the first in ``examples`` has the number
    ``base``."""

    examples: Examples
    weights: Array
    number: int
    lo: int
    hi: int
    base: int = 0
    whole: bool = False

    def __reduce__(self) -> Any:
        examples, lo, hi, base = self.examples, self.lo, self.hi, self.base
        if not self.whole and hasattr(examples, "part"):
            examples, base = examples.part(lo - base, hi - base), lo
        return Part, (examples, self.weights, self.number, lo, hi, base, self.whole)


class _Shard(LineShard):
    """Some examples, their weights, and the constraints seen. Its scores are the cached model's.

    Examples and answers are counted as in ``examples`` in here, and from the first of all to the outside.
    """

    def __init__(self, part: Part) -> None:
        super().__init__()
        self._examples, self._weights = part.examples, part.weights
        self._number, self._base = part.number, part.base
        self._lo, self._hi = part.lo - part.base, part.hi - part.base
        self._cache: ConstraintCache | None = None
        self._told: list[int] = []
        self._last: tuple[int, list[Answers]] | None = None

    def _runs(self, w: Array) -> list[Answers]:
        """The oracle on all examples but those of weight zero: one part per run of neighbours."""
        runs = np.flatnonzero(np.diff(np.concatenate([[0], self._weights > 0.0, [0]])))
        return [
            self._examples.oracle(w, self._lo + int(lo), self._lo + int(hi))
            for lo, hi in runs.reshape(-1, 2)
        ]

    def oracle_runs(self, w: Array) -> list[Answers]:
        """The same, for whoever counts from the first example of all."""
        return [self._outside(part) for part in self._runs(w)]

    def _outside(self, part: Answers) -> Answers:
        if self._base == 0:
            return part
        return replace(part, lo=part.lo + self._base, hi=part.hi + self._base)

    def of_examples(self, method: str, w: Array) -> Any:
        """What a method of the examples says of this range at w."""
        return getattr(self._examples, method)(w, self._lo, self._hi)

    def oracle_for(self, w: Array, examples: list[list[int]], quick: bool) -> list[Answers]:
        """Answers for the examples listed for this shard."""
        eager = getattr(self._examples, "eager", None) if quick else None
        source = self._examples if eager is None else eager()
        mine = [i - self._base for i in examples[self._number]]
        return [self._outside(source.oracle(w, i, i + 1)) for i in mine]

    def measure(self, key: int, w: Array, told: int) -> tuple[float, float]:
        """(value, upper) of the real risk at w; the answers are cached if a model is in use."""
        if self._last is None or self._last[0] != key:
            self.check(told)
            self._last = key, self._answers(key, w, told)
        pairs = [(self._weights_of(part), part) for part in self._last[1]]
        value = sum(float(weights @ part.values) for weights, part in pairs)
        return value, sum(float(weights @ part.uppers) for weights, part in pairs)

    def _answers(self, key: int, w: Array, told: int) -> list[Answers]:
        """The oracle at w. A cache takes answers for all examples; else those without weight need not be
        asked for."""
        if told < 0:
            return self._runs(w)
        answers = self._examples.oracle(w, self._lo, self._hi)
        if key not in self._told:
            cache = self._model()
            cache.touch(self._leaders(cache.scores(w)))
            cache.insert(answers)
            self._told.append(key)
            self._scores.clear()  # scores of entries that may be gone
        return [answers]

    def check(self, told: int) -> None:
        """Told of fewer points than the driver knows: built anew. (More: an interrupt.)"""
        if len(self._told) < told:
            raise LostScores("the cache of constraints is not here")

    def tell(self, keys: list[int], *ws: Array) -> None:
        """All points where the oracle was asked since the model came into use."""
        if self._told[: len(keys)] == keys:
            return
        self._cache, self._last = None, None
        self._told.clear()
        for key, w in zip(keys, ws, strict=True):
            self._last = key, self._answers(key, w, 0)

    def cut_at(self, key: int, w: Array, told: int) -> Cut:
        """The cut of the real risk at w: from the answers just given, or from the oracle again."""
        if self._last is not None and self._last[0] == key:
            parts = self._last[1]
        else:
            parts = self._runs(w) if told < 0 else [self._examples.oracle(w, self._lo, self._hi)]
        if not parts:
            return self._examples.cut(self._examples.oracle(w, self._lo, self._lo), np.empty(0))
        return add_cuts(self._examples.cut(part, self._weights_of(part)) for part in parts)

    def _weights_of(self, part: Answers) -> Array:
        return self._weights[part.lo - self._lo : part.hi - self._lo]

    def scores_at(self, w: Array) -> Array:
        return self._model().scores(w)

    def _model(self) -> ConstraintCache:
        if self._cache is None:
            self._cache = self._examples.cache(self._lo, self._hi, CACHE_SIZE)
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


def require_rescaling(task: Task, rescaling: str) -> None:
    """Raise unless the task can be trained with this rescaling."""
    if rescaling not in ("margin", "slack"):
        raise ValueError(f"rescaling={rescaling!r}: use 'margin' or 'slack'.")
    own = getattr(type(task), "slack_augmented_inference", None)
    if rescaling == "slack" and own is Task.slack_augmented_inference:
        raise NotImplementedError(
            f"{type(task).__name__} cannot use slack rescaling: define "
            "slack_augmented_inference(x, y, w), the argmax of loss * (1 + score difference), or use "
            "rescaling='margin'. (The margin argmax would give a false upper bound.)"
        )


def _margins(sample_margin: Any, n: int) -> Array:
    """One positive number per example."""
    margin = np.ascontiguousarray(sample_margin, dtype=np.float64)
    if margin.shape != (n,):
        raise ValueError(f"sample_margin has shape {margin.shape}; {n} margins are needed.")
    if not (np.isfinite(margin) & (margin > 0.0)).all():
        raise ValueError("sample_margin must be finite and positive: it multiplies the losses.")
    return margin


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A point where the oracle was asked, ``told`` points after the model came into use (or before: -1)."""

    key: int
    handle: Handle
    told: int


class TaskEvaluation:
    """A structured risk pinned at w: one call of the oracle per example, planes only if asked for."""

    def __init__(
        self, engine: Engine, point: _Asked, w: Array, values: tuple[float, float]
    ) -> None:
        self.w = w
        self._engine, self._point = engine, point
        self.value, self.upper = values
        self._cuts: list[Cut] | None = None

    def cut(self) -> Cut:
        """The cut that is tight here."""
        return add_cuts(self.cuts())

    def cuts(self) -> list[Cut]:
        """One part per shard."""
        if self._cuts is None:
            at = self._point
            self._cuts = self._engine.gather("cut_at", at.key, at.handle, at.told)
        return self._cuts


class TaskRisk:
    """The structured risk of a task on examples.

    Parameters
    ----------
    task : Task
        What is predicted; ``task.setup`` must have been called.
    X, Y : sequences
        Inputs and labelled outputs.
    dim : int
        Dimension of the joint features, as ``setup`` returned it.
    rescaling : {"margin", "slack"}
        How the loss enters.
    sample_weight : array, optional
        Weight of each example.
    engine : Engine, optional
        Where the shards live; the calling thread by default.
    examples : Examples, optional
        A compiled form of (X, Y), where the caller has one already.
    weight_map : WeightMap, optional
        A map of the weights (some are fixed, or have a prior). Compiled forms do not know it: the task's
        Python methods are used instead. To keep them, and be content with cutting planes, use
        :class:`maxmargin.risks.mapped.MappedRisk`.
    sample_margin : array, optional
        Factors of the losses by example, positive. Compiled forms do not know them either.
    dear : bool, default False
        The oracle is dear: examples are spread over as many shards as there can be, and an evaluation at
        one of the last points evaluated costs nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.risks import TaskRisk
    >>> from maxmargin.tasks import Chain
    >>> X, Y = [np.eye(3)], [np.array([0, 1, 1])]
    >>> task = Chain(n_labels=2)
    >>> risk = TaskRisk(task, X, Y, task.setup(X, Y))
    >>> minimize(risk, C=1.0).certificate
    'exact'
    """

    lower_bound = 0.0
    has_cache = True

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        dim: int,
        *,
        rescaling: Rescaling = "margin",
        sample_weight: Any = None,
        engine: Engine | None = None,
        examples: Examples | None = None,
        weight_map: WeightMap | None = None,
        sample_margin: Any = None,
        dear: bool = False,
    ) -> None:
        require_rescaling(task, rescaling)
        margin = None if sample_margin is None else _margins(sample_margin, len(Y))
        plain = weight_map is not None or margin is not None
        if plain and examples is not None:
            raise ValueError(
                "compiled examples know no map of weights and no margins; pass X and Y only."
            )
        if examples is None and not plain:
            examples = task.pack(X, Y) if rescaling == "margin" else task.pack_slack(X, Y)
        if examples is None:
            examples = PlainExamples(task, X, Y, dim, rescaling, weight_map, margin)
        n = len(examples)
        if isinstance(examples, PlainExamples) and len(X) != len(Y):
            raise ValueError(f"X has {len(X)} examples but Y has {len(Y)}.")
        if n == 0:
            raise ValueError("there are no examples to learn from.")
        self.oracle = task.oracle_kind
        self.dim = dim
        self.n_examples = n
        self._examples = examples
        self._weights = check_weights(sample_weight, n)
        # every shard of a cut is a vector of its own: few of them where vectors are long
        fewest = 1 if dear else MIN_EXAMPLES
        n_shards = max(1, min(MAX_SHARDS, n // fewest, max(2, PLANE_ENTRIES // dim)))
        bounds = [round(k * n / n_shards) for k in range(n_shards + 1)]
        self.n_blocks, self._bounds = n_shards, bounds
        self.engine: Engine = engine or SerialEngine()
        self.engine.open(
            _Shard,
            [
                Part(examples, self._weights[lo:hi], k, lo, hi, whole=dear)
                for k, (lo, hi) in enumerate(pairwise(bounds))
            ],
        )
        #: points the shards' caches depend on, if they can get lost; and how many there were
        self._past: list[tuple[int, Handle]] = []
        self._told = -1
        self._pins = Pins(self.engine, n_shards, tell=self._tell, told=lambda: self._told)
        self._keys = count()
        self._dear = dear
        self._known: deque[tuple[Array, tuple[float, float]]] = deque(maxlen=3)

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """The oracle on all examples, or the model of the constraints seen since the first such question."""
        if not exact:
            self._told = max(0, self._told)
            return self._pins.evaluate(w, is_upper=False)
        w = frozen(w)
        values = next((values for at, values in self._known if at is w), None)
        point = _Asked(next(self._keys), self.engine.publish(w), self._told)
        if values is None:
            values = self._pins.ask((), "measure", point.key, point.handle, point.told)
            if self._told >= 0:
                self._told += 1
                if not self.engine.durable:
                    self._past.append((point.key, point.handle))
            if self._dear:
                self._known.append((w, values))
        return TaskEvaluation(self.engine, point, w, values)

    def _tell(self) -> None:
        if self.engine.durable:  # a cache is never lost, only the scores of what left it
            return
        self.engine.gather("tell", [key for key, _ in self._past], *(h for _, h in self._past))

    def evaluate_many(self, points: Sequence[Array]) -> list[Evaluation]:
        """Several points, one after the other."""
        return [self.evaluate(w) for w in points]

    @property
    def examples(self) -> Examples:
        """The examples, for another risk of the same with other weights."""
        return self._examples

    @property
    def signed_sets(self) -> bool:
        """Whether the working sets know weights that must not be negative."""
        return bool(getattr(self._examples, "signed_sets", False))

    def working_sets(self, C: float, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """Fresh dual state for the coordinate solver."""
        if regularizer is None or not len(regularizer.nonnegative):
            return self._examples.working_sets(self.caps(C))
        if not self.signed_sets:
            raise TypeError(
                f"the working sets of {type(self._examples).__name__} cannot keep weights from becoming "
                "negative. Use solver=CuttingPlane()."
            )
        signed: Any = self._examples
        sets: WorkingSets = signed.working_sets(self.caps(C), regularizer)
        return sets

    def caps(self, C: float) -> Array:
        """c_i = C s_i."""
        return C * self._weights

    def answers(self, w: Array) -> list[Answers]:
        """The oracle's answers for all examples of positive weight, in shard order."""
        parts = self.engine.gather("oracle_runs", self.engine.publish(w))
        return [answers for shard in parts for answers in shard]

    def ask(self, method: str, w: Array) -> list[Any]:
        """What a method ``(w, lo, hi)`` of the examples says at w, in shard order."""
        return self.engine.gather("of_examples", method, self.engine.publish(w))

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """The oracle's answers for these examples, one each, in this order; quick ones will do if asked."""
        if self._dear:  # any shard can answer for any example
            owners = np.arange(len(examples)) % self.n_blocks
        else:
            owners = np.searchsorted(self._bounds, examples, side="right") - 1
        lists = [examples[owners == k].tolist() for k in range(self.n_blocks)]
        found = self.engine.gather("oracle_for", self.engine.publish(w), lists, quick)
        next_of = [iter(answers) for answers in found]
        return [next(next_of[k]) for k in owners]

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """These are all answers at w, a frozen array: a dear evaluation there need not be repeated."""
        if self._dear:
            pairs = [(self._weights[a.lo : a.hi], a) for a in answers]
            value = math.fsum(float(s @ a.values) for s, a in pairs)
            self._known.append((w, (value, math.fsum(float(s @ a.uppers) for s, a in pairs))))
