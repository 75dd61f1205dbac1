"""Structured risks: a task and its examples.

    R(w) = sum_i s_i max_y^ [Delta(y_i, y^) + <w, Psi(x_i, y^) - Psi(x_i, y_i)>]

Each shard is a range of the examples with a cache of the constraints its oracle returned
(:mod:`maxmargin.risks.structured.shard`). ``evaluate(w, exact=False)`` answers from the caches: a lower model
of R whose scores are linear in w, so it has free lines; ``evaluate(w)`` runs the oracle on all examples and
refreshes the caches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np

from maxmargin.core.checks import one_of
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.evaluation import Evaluation
from maxmargin.core.contract.examples import (
    DivisibleExamples,
    Examples,
    SignedExamples,
    SmoothExamples,
)
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine, Handle, SerialEngine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, frozen
from maxmargin.risks.lines.evaluation import ScoreCache, check_weights
from maxmargin.risks.structured.python_examples import PlainExamples, Rescaling
from maxmargin.risks.structured.shard import CACHE_SIZE, ExamplePart, Maker, TaskShard
from maxmargin.risks.weight_map import WeightMap
from maxmargin.tasks.base import Task

#: ranges of examples: a function of the data alone, so that sums have one shape for any number
#: of workers
MAX_SHARDS = 16
MIN_EXAMPLES = {"compiled": 32, "plain": 8, "expensive": 1}
#: where each of 16 shards would have more examples than this there are more shards
SHARD_EXAMPLES = 4096
#: entries of the planes of all shards, unless 16 shards would have ``SHARD_EXAMPLES`` each
PLANE_ENTRIES = 2**24
#: examples from which the number of shards is a power of two
MANY = 2**20


def _examples_of(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    dim: int,
    rescaling: Rescaling,
    weight_map: WeightMap | None,
) -> Examples:
    """The task's compiled form of the examples where it has one, and it supports what is asked."""
    examples: Examples | None = None
    if weight_map is None:
        examples = task.pack(X, Y) if rescaling == "margin" else task.pack_slack(X, Y)
    if examples is None:
        examples = PlainExamples(task, X, Y, dim, rescaling, weight_map)
        if len(X) != len(Y):
            raise ValueError(f"X has {len(X)} examples but Y has {len(Y)}.")
    return examples


def _shard_bounds(n: int, dim: int, kind: str) -> list[int]:
    """Where shards begin and end. The cheaper the oracle, the more examples a shard needs to be worth a call.
    A shard's part of a cut is a vector: few shards if there are few examples and long vectors."""
    most = max(MAX_SHARDS, n // SHARD_EXAMPLES)
    few = MAX_SHARDS if n >= MAX_SHARDS * SHARD_EXAMPLES else 2
    n_shards = max(1, min(most, n // MIN_EXAMPLES[kind], max(few, PLANE_ENTRIES // dim)))
    if n >= MANY:  # a power of two has few nodes of the summation tree in a worker's range
        n_shards = 1 << round(math.log2(n / SHARD_EXAMPLES))
    return [round(k * n / n_shards) for k in range(n_shards + 1)]


def _spread_out(shards: Sequence[int]) -> list[int]:
    """The shards in an order whose beginnings are spread evenly: halves alternate, and so do their halves.

    A worker holds neighboring shards. With 8 shards the order is 0, 4, 2, 6, 1, 5, 3, 7: the first four
    keep two workers busy for two calls each, and four workers for one.
    """
    if len(shards) <= 2:
        return list(shards)
    half = -(-len(shards) // 2)
    first, second = _spread_out(shards[:half]), _spread_out(shards[half:])
    order = [k for pair in zip(first, second, strict=False) for k in pair]
    return order + first[len(second) :]


class TaskEvaluation:
    """A structured risk pinned at w: one call of the oracle per example, planes only if asked for."""

    def __init__(
        self, engine: Engine, at: tuple[int, Handle, bool], w: Array, values: tuple[float, float]
    ) -> None:
        self.w = w
        self._engine, self._at = engine, at  # arguments of TaskShard.cut_at
        self.value, self.upper = values
        self._cut: Cut | None = None

    def cut(self) -> Cut:
        """The cut that is tight here."""
        if self._cut is None:
            self._cut = self._engine.reduce(TaskShard.cut_at, *self._at)
        return self._cut


class TaskRisk:
    """The structured risk of a task on examples.

    Parameters
    ----------
    task : Task
        What is predicted; ``task.setup`` must have been called.
    X, Y : sequences
        Inputs and labeled outputs.
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
        :class:`maxmargin.risks.priors.mapped_risk.MappedRisk`.
    expensive : bool, default False
        The oracle is expensive: examples are spread over as many shards as there can be, and an evaluation at
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
        expensive: bool = False,
    ) -> None:
        one_of("rescaling", rescaling, ("margin", "slack"))
        if examples is None:
            examples = _examples_of(task, X, Y, dim, rescaling, weight_map)
        elif weight_map is not None:
            raise ValueError("compiled examples support no map of weights; pass X and Y only.")
        n = len(examples)
        if n == 0:
            raise ValueError("there are no examples to learn from.")
        self.oracle = task.oracle_kind
        self.dim = dim
        self.n_examples = n
        self._examples = examples
        self._weights = check_weights(sample_weight, n)
        kind = "plain" if isinstance(examples, PlainExamples) else "compiled"
        bounds = _shard_bounds(n, dim, "expensive" if expensive else kind)
        n_shards = len(bounds) - 1
        self.n_blocks, self._bounds = n_shards, bounds
        self.engine: Engine = engine or SerialEngine()
        shared = examples if expensive or not isinstance(examples, DivisibleExamples) else None
        self.engine.open(
            Maker(shared),
            [
                ExamplePart(examples if shared is None else None, self._weights[lo:hi], k, lo, hi)
                for k, (lo, hi) in enumerate(pairwise(bounds))
            ],
        )
        #: whether the cached model is in use: then shards cache the constraints they find
        self._cached, self._cache_size = False, CACHE_SIZE
        self._pins = ScoreCache(self.engine, n_shards)
        self._keys = count()
        self._expensive = expensive
        # of an expensive oracle: the last points, their values, and whether caches have the answers there
        self._known: deque[tuple[Array, tuple[float, float], bool]] = deque(maxlen=3)

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """The oracle on all examples, or the model of the constraints seen since the first such question."""
        if not exact:
            self._cached = True
            return self._pins.evaluate(w, is_upper=False)
        w = frozen(w)
        values = self._values_at(w)
        at = next(self._keys), self.engine.publish(w), self._cached
        if values is None:
            values = self.engine.reduce(TaskShard.measure, *at, self._cache_size)
            if self._expensive:
                self._known.append((w, values, self._cached))
        return TaskEvaluation(self.engine, at, w, values)

    def _values_at(self, w: Array) -> tuple[float, float] | None:
        """What is known of a point; not enough if the caches are to have its answers, and do not."""
        return next((v for at, v, held in self._known if at is w and held >= self._cached), None)

    @property
    def cache_saves(self) -> bool:
        """Compiled oracles take as long as the values of ten cached constraints, or less."""
        return isinstance(self._examples, PlainExamples)

    def resize_cache(self, size: int) -> None:
        """See :class:`maxmargin.core.contract.risk.CachingRisk`."""
        if size != self._cache_size:
            self._cached, self._cache_size = False, size
            self._known.clear()
            self.engine.gather(TaskShard.resize, size)

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        if isinstance(self._examples, SmoothExamples):
            return Capabilities(working_sets=self, engine=self.engine)
        return Capabilities(working_sets=self, caching=self, engine=self.engine)

    @property
    def examples(self) -> Examples:
        """The examples, for another risk of the same with other weights."""
        return self._examples

    @property
    def signed_sets(self) -> bool:
        """Whether the working sets know weights that must not be negative."""
        return isinstance(self._examples, SignedExamples)

    def working_sets(self, C: float, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """Fresh dual state for the coordinate solver."""
        if regularizer is None or not len(regularizer.nonnegative):
            return self._examples.working_sets(self.caps(C))
        examples = self._examples
        if not isinstance(examples, SignedExamples):
            raise TypeError(
                f"the working sets of {type(examples).__name__} cannot keep weights from becoming "
                "negative. Use solver=CuttingPlane()."
            )
        return examples.working_sets(self.caps(C), regularizer)

    def caps(self, C: float) -> Array:
        """c_i = C s_i."""
        return C * self._weights

    def answers(self, w: Array) -> list[Answers]:
        """The oracle's answers for all examples of positive weight, in shard order."""
        parts = self.engine.gather(TaskShard.oracle_runs, self.engine.publish(w))
        return [answers for shard in parts for answers in shard]

    def in_turn(self, examples: IntArray) -> IntArray:
        """One example of each shard in turn, neighboring shards far apart; the order within a shard stays."""
        if self._expensive:  # any shard can answer for any example
            return examples
        owners = np.searchsorted(self._bounds, examples, side="right") - 1
        turns = np.empty(len(examples), dtype=np.int64)
        for k in range(self.n_blocks):
            mine = np.flatnonzero(owners == k)
            turns[mine] = np.arange(len(mine))
        places = np.empty(self.n_blocks, dtype=np.int64)
        places[_spread_out(range(self.n_blocks))] = np.arange(self.n_blocks)
        return examples[np.lexsort((places[owners], turns))]

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """The oracle's answers for these examples, one each, in this order; quick ones will do if asked."""
        if self._expensive:  # any shard can answer for any example
            # neighboring shards share a worker: spread them, so that few examples keep many workers busy
            owners = np.arange(len(examples)) * self.n_blocks // max(1, len(examples))
        else:
            owners = np.searchsorted(self._bounds, examples, side="right") - 1
        lists: list[list[int]] = list(map(list, [()] * self.n_blocks))
        for i, k in zip(examples.tolist(), owners.tolist(), strict=True):
            lists[k].append(i)
        found = self.engine.gather(TaskShard.oracle_for, self.engine.publish(w), lists, quick)
        next_of = list(map(iter, found))
        return list(map(next, map(next_of.__getitem__, owners)))

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """These are all answers at w, a frozen array: an expensive evaluation there need not be repeated."""
        if self._expensive:
            pairs = [(self._weights[a.lo : a.hi], a) for a in answers]
            value = math.fsum(float(s @ a.values) for s, a in pairs)
            upper = math.fsum(float(s @ a.uppers) for s, a in pairs)
            self._known.append((w, (value, upper), False))
