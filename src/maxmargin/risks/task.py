"""Family B: R(w) = sum_i s_i max_y^ [Delta + <w, Psi(x_i, y^) - Psi(x_i, y_i)>], a task and its
examples.

Each shard is a range of the examples with a cache of the constraints its oracle returned (f = 10
per example, the most recently used stay). ``evaluate(w, exact=False)`` answers from the caches: a
lower model of R whose scores are linear in w, so it has free lines; ``evaluate(w)`` runs the oracle
on all examples and refreshes the caches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np

from maxmargin.compiled import envelope
from maxmargin.core.cut import Cut, add_cuts
from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.core.protocols import Answers, ConstraintCache, Evaluation, Examples, WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, frozen
from maxmargin.risks.lines import LineShard, Pins, check_weights
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


class _Shard(LineShard):
    """Examples ``lo .. hi-1``, their weights, and the constraints seen. Its scores are the cached model's."""

    def __init__(self, examples: Examples, weights: Array, spec: tuple[int, int, int]) -> None:
        super().__init__()
        self._examples = examples
        self._number, self._lo, self._hi = spec
        self._weights = weights[self._lo : self._hi]
        self._cache: ConstraintCache | None = None
        self._last: tuple[int, list[Answers]] | None = None

    def oracle(self, w: Array) -> Answers:
        return self._examples.oracle(w, self._lo, self._hi)

    def oracle_runs(self, w: Array) -> list[Answers]:
        """The same without examples of weight zero: one part per run of neighbours."""
        runs = np.flatnonzero(np.diff(np.concatenate([[0], self._weights > 0.0, [0]])))
        return [
            self._examples.oracle(w, self._lo + int(lo), self._lo + int(hi))
            for lo, hi in runs.reshape(-1, 2)
        ]

    def of_examples(self, method: str, w: Array) -> Any:
        """What a method of the examples says of this range at w."""
        return getattr(self._examples, method)(w, self._lo, self._hi)

    def oracle_for(self, w: Array, examples: list[list[int]], quick: bool) -> list[Answers]:
        """Answers for the examples listed for this shard, which may be any: each shard can see all."""
        eager = getattr(self._examples, "eager", None) if quick else None
        source = self._examples if eager is None else eager()
        return [source.oracle(w, i, i + 1) for i in examples[self._number]]

    def measure(self, key: int, w: Array) -> tuple[float, float]:
        """(value, upper) of the real risk at w; remembered once a model was asked for."""
        # a cache takes answers for all examples; else those without weight need not be asked for
        parts = self.oracle_runs(w) if self._cache is None else [self.oracle(w)]
        self._last = key, parts
        if self._cache is not None:
            self._cache.insert(parts[0])
            self._scores.clear()  # scores of entries that may be gone
        pairs = [(self._weights_of(part), part) for part in parts]
        value = sum(float(weights @ part.values) for weights, part in pairs)
        return value, sum(float(weights @ part.uppers) for weights, part in pairs)

    def cut_at(self, key: int, w: Array) -> Cut:
        """The cut of the real risk at w: from the answers just given, or from the oracle again."""
        same = self._last is not None and self._last[0] == key
        parts = self._last[1] if same and self._last is not None else self.oracle_runs(w)
        if not parts:
            return self._examples.cut(self._examples.oracle(w, self._lo, self._lo), np.empty(0))
        return add_cuts(self._examples.cut(part, self._weights_of(part)) for part in parts)

    def _weights_of(self, part: Answers) -> Array:
        return self._weights[part.lo - self._lo : part.hi - self._lo]

    def scores_at(self, w: Array) -> Array:
        if self._cache is None:
            self._cache = self._examples.cache(self._lo, self._hi, CACHE_SIZE)
        return self._cache.scores(w)

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
        assert self._cache is not None
        chosen = self._leaders(scores)
        self._cache.touch(chosen)
        return self._cache.cut(chosen, self._weights)

    @property
    def _pointers(self) -> IntArray:
        assert self._cache is not None
        return self._cache.pointers

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


class TaskEvaluation:
    """A structured risk pinned at w: one call of the oracle per example, planes only if asked for."""

    def __init__(
        self, engine: Engine, key: int, w: Array, known: tuple[float, float] | None = None
    ) -> None:
        self.w = w
        self._engine, self._key = engine, key
        self._handle = engine.publish(w)
        self.value: float
        self.upper: float
        self.value, self.upper = known or engine.reduce("measure", key, self._handle)
        self._cuts: list[Cut] | None = None

    def cut(self) -> Cut:
        """The cut that is tight here."""
        return add_cuts(self.cuts())

    def cuts(self) -> list[Cut]:
        """One part per shard."""
        if self._cuts is None:
            self._cuts = self._engine.gather("cut_at", self._key, self._handle)
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
            partial(_Shard, examples, self._weights),
            [(k, lo, hi) for k, (lo, hi) in enumerate(pairwise(bounds))],
        )
        self._pins = Pins(self.engine, n_shards)
        self._keys = count()
        self._dear = dear
        self._known: deque[tuple[Array, tuple[float, float]]] = deque(maxlen=3)

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """The oracle on all examples, or the model of the constraints seen since the first such question."""
        if not exact:
            return self._pins.evaluate(w, is_upper=False)
        w = frozen(w)
        known = next((values for at, values in self._known if at is w), None)
        evaluation = TaskEvaluation(self.engine, next(self._keys), w, known)
        if self._dear and known is None:
            self._known.append((w, (evaluation.value, evaluation.upper)))
        return evaluation

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
        lists = [examples[k :: self.n_blocks].tolist() for k in range(self.n_blocks)]
        found = self.engine.gather("oracle_for", self.engine.publish(w), lists, quick)
        return [found[k % self.n_blocks][k // self.n_blocks] for k in range(len(examples))]

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """These are all answers at w, a frozen array: a dear evaluation there need not be repeated."""
        if self._dear:
            pairs = [(self._weights[a.lo : a.hi], a) for a in answers]
            value = math.fsum(float(s @ a.values) for s, a in pairs)
            self._known.append((w, (value, math.fsum(float(s @ a.uppers) for s, a in pairs))))
