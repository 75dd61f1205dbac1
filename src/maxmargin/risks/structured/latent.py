"""Structured risks with latent variables, and their convex upper bounds (majorants).

    R(w) = sum_i s_i [ max_{y, h} (Delta(y_i, y, h) + <w, Psi(x_i, y, h)>)  -  max_h <w, Psi(x_i, y_i, h)> ]

is a difference of convex functions. With fixed completions h_i instead of the second maximum it is the convex
risk of an ordinary task whose outputs are pairs and whose labels are (y_i, h_i):

    R_h(w) >= R(w) for all w,    with equality where every h_i attains its maximum.

If Delta(y_i, y_i, h) = 0 for all h,

    R(w) = sum_i s_i max(0, max_{y != y_i, h} (...) - max_h <w, Psi(x_i, y_i, h)>),

and an oracle over wrong outputs only (``task.wrong_only``) gives a majorant that is never above the previous
one: other h for the right y do not compete.

*Warm start after a new completion.* Let d_i = Psi(x_i, y_i, h_i) - Psi(x_i, y_i, h_i'), with h'
the new completion. Every plane of example i moves by d_i and keeps its offset, because Delta does not depend
on the completion. Working sets: the planes are recomputed, the multipliers stay, and the old true output,
which no longer has the zero plane, becomes an ordinary plane with its multiplier (so u moves by - c_i d_i).
Cutting planes: a_j moves by sum_i s_i d_i, and the zero plane stays. With ``wrong_only`` the old true output
does not compete: its multiplier stays with the zero plane, and a summed cut, in which some examples were at
their true output, cannot be moved at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.contract.examples import MovableSets
from maxmargin.core.contract.latent import Completion, LatentAnswers
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.vectors import Array, IntArray, Vector, add_scaled, dot, frozen, sparsify
from maxmargin.risks.structured.python_examples import PlainExamples
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.risks.structured.shard import TaskShard
from maxmargin.risks.weight_map import WeightMap
from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.latent import Completed, LatentTask

#: a completion worse than the previous one by more than this, relative to the scores, is an error of the
#: inference
ROUNDING = 1e-9
#: an improvement below this is a tie, and ties keep the current value. It is not larger than rounding,
#: because F may be a tiny fraction of the scores
TIES = 1e-14


class CompletedTask(Task):
    """A latent task as an ordinary task whose outputs are pairs :class:`maxmargin.tasks.latent.Completed`."""

    def __init__(self, task: LatentTask) -> None:
        self.latent = task
        self.oracle_kind = task.oracle_kind
        #: False: the oracle may return less than the true output's value; then the true output is used
        self.covers_truth = not task.wrong_only

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Not supported: the latent task has been set up already."""
        raise NotImplementedError("a completed task is made from a latent task after its setup.")

    def joint_feature(self, x: Any, y: Any) -> Vector:
        return self.latent.joint_feature(x, y.y, y.h)

    def loss(self, y: Any, y_hat: Any) -> float:
        if y is y_hat and not self.covers_truth:
            return 0.0
        return self.latent.loss(y.y, y_hat.y, y_hat.h)

    def inference(self, x: Any, w: Array) -> Completed:
        return self._pair("inference", self.latent.inference(x, w))

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        found = self.latent.loss_augmented_inference(x, y.y, w)
        answer = found.y if isinstance(found, Bounded) else found
        pair = self._pair("loss_augmented_inference", answer)
        if not self.covers_truth and self.latent.same(y.y, pair.y):
            raise ValueError(
                f"{type(self.latent).__name__} has wrong_only = True, but its loss_augmented_inference "
                "returned the labeled output: it must search the other outputs only."
            )
        return Bounded(pair, found.upper) if isinstance(found, Bounded) else pair

    def _pair(self, name: str, found: Any) -> Completed:
        if not isinstance(found, Sequence) or len(found) != 2:
            raise TypeError(
                f"{type(self.latent).__name__}.{name} returned {str(found)[:200]}: it must return a pair, "
                "the output and its latent part."
            )
        return Completed(*found)

    def same(self, y_a: Any, y_b: Any) -> bool:
        same = self.latent.same
        return same(y_a.y, y_b.y) and same(y_a.h, y_b.h)


class PlainLatentExamples(PlainExamples):
    """Completed examples whose oracle calls the task's Python methods."""

    def __init__(
        self,
        task: CompletedTask,
        X: Sequence[Any],
        Y: Sequence[Completed],
        dim: int,
        weight_map: WeightMap | None = None,
    ) -> None:
        super().__init__(task, X, Y, dim, "margin", weight_map)
        self._task, self._latent_task = task, task.latent

    def complete(self, w: Array, lo: int, hi: int) -> LatentAnswers:
        """The highest-scoring completions at ``w``; ties keep the current ones."""
        whole = w if self._map is None else self._map.whole(w)
        found, gains, scales = [], np.empty(hi - lo), np.empty(hi - lo)
        for k, i in enumerate(range(lo, hi)):
            truth = self._Y[i]
            try:
                h = self._latent_task.complete(self._X[i], truth.y, whole)
                old = dot(self.task.joint_feature(self._X[i], truth), whole)
                new = dot(self.task.joint_feature(self._X[i], Completed(truth.y, h)), whole)
            except Exception as error:
                error.add_note(
                    f"raised while the latent part of example {self._first + i} was completed"
                )
                raise
            gains[k], scales[k] = new - old, abs(new) + abs(old)
            found.append(h)
        return LatentAnswers(found, gains, scales)

    def completed(self, latent: Sequence[Any]) -> PlainLatentExamples:
        """The same examples with other completions."""
        pairs = [Completed(pair.y, h) for pair, h in zip(self._Y, latent, strict=True)]
        return PlainLatentExamples(self._task, self._X, pairs, self.dim, self._map)

    def moved(self, i: int, truth: Completed) -> Vector:
        """d_i: the move of the planes of example i if ``truth`` becomes its true output."""
        return self.task.difference(self._X[i], self._Y[i], truth)


class CompletedRisk(TaskRisk):
    """The convex risk of a latent task with given completions.

    Parameters
    ----------
    task : LatentTask
        The task; ``task.setup`` must have been called.
    X, Y : sequences
        Inputs and labeled outputs.
    latent : sequence
        A completion for each example.
    dim : int
        Dimension of the joint features.
    sample_weight, engine, weight_map, expensive, examples
        As in :class:`maxmargin.risks.TaskRisk`.

    See Also
    --------
    maxmargin.solvers.minimize_latent : has an example of such a risk.
    """

    def __init__(
        self,
        task: LatentTask,
        X: Sequence[Any],
        Y: Sequence[Any],
        latent: Sequence[Any],
        dim: int,
        *,
        sample_weight: Any = None,
        engine: Engine | None = None,
        weight_map: WeightMap | None = None,
        expensive: bool = False,
        examples: PlainLatentExamples | None = None,
    ) -> None:
        if task.oracle_kind == "undergenerating":
            raise ValueError(
                f"the oracle of {type(task).__name__} is undergenerating: then a decrease of the latent "
                "objective cannot be verified. Return tasks.Bounded, or use an exact or overgenerating "
                "oracle."
            )
        pairs = [Completed(y, h) for y, h in zip(Y, latent, strict=True)]
        adapter = CompletedTask(task)
        if examples is None:
            examples = PlainLatentExamples(adapter, X, pairs, dim, weight_map)
        super().__init__(
            adapter,
            X,
            pairs,
            dim,
            sample_weight=sample_weight,
            engine=engine,
            examples=examples,
            expensive=expensive,
        )
        self._latent_examples = examples
        self._made_of = (task, X, Y, dim)
        self._options: dict[str, Any] = {
            "engine": engine,
            "weight_map": weight_map,
            "expensive": expensive,
        }
        self.latent = list(latent)

    def complete(self, w: Array) -> Completion:
        """The best completions at ``w``; ties keep the current ones. A worse one is an error."""
        parts = self.engine.gather(TaskShard.complete, self.engine.publish(w))
        gains = np.concatenate([part.gains for part in parts])
        scales = np.concatenate([part.scales for part in parts])
        found = [h for part in parts for h in part.latent]
        worst = int(np.argmin(gains + ROUNDING * scales))
        if gains[worst] < -ROUNDING * scales[worst]:
            raise ValueError(
                f"complete(x, y, w) returned a latent value for example {worst} that scores below the "
                f"current value, by {-gains[worst]:.3g}: it must return the best one. (Is it the argmax "
                "over all h for the labeled y, with the same features as joint_feature?)"
            )
        changed = gains > TIES * scales
        latent = [
            new if is_new else old
            for new, old, is_new in zip(found, self.latent, changed, strict=True)
        ]
        which = np.flatnonzero(changed)
        decrease = float(self._weights[which] @ self._falls(w, which, gains[which]))
        asked = len(which) / len(latent) if self._made_of[0].wrong_only else 0.0
        return Completion(latent, decrease, len(which), asked)

    def _falls(self, w: Array, which: IntArray, gains: Array) -> Array:
        """The decrease of these examples' values when their true outputs' scores increase by ``gains``."""
        if not self._made_of[0].wrong_only:
            return gains
        # max(0, A - score of the true output) cannot decrease below zero
        values = np.array([part.uppers[0] for part in self.answers_for(frozen(w), which)])
        fall: Array = np.minimum(gains, values)
        return fall

    def completed(self, latent: Sequence[Any], memory: Any = None) -> tuple[CompletedRisk, Any]:
        """The risk with these completions, and the solver's memory of this risk converted to it."""
        task, X, Y, dim = self._made_of
        held = self._latent_examples
        other = CompletedRisk(  # takes over the engine: this risk can no longer be evaluated
            task,
            X,
            Y,
            latent,
            dim,
            sample_weight=self._weights,
            examples=held.completed(latent),
            **self._options,
        )
        changed = np.array(
            [i for i, (a, b) in enumerate(zip(self.latent, latent, strict=True)) if a is not b],
            dtype=np.int64,
        )
        if isinstance(memory, Bundle):
            if task.wrong_only:
                return other, None
            memory.shift(self._move(held, other, changed))
            return other, memory
        if isinstance(memory, MovableSets):
            return other, memory.moved_to(other.examples, changed, task.wrong_only)
        return other, None

    def _move(self, held: PlainLatentExamples, other: CompletedRisk, changed: IntArray) -> Cut:
        """The move of the summed planes."""
        weight_map: WeightMap | None = self._options["weight_map"]
        plane, offset = np.zeros(self.dim), 0.0
        for i in changed:
            d = held.moved(int(i), Completed(self._made_of[2][i], other.latent[i]))
            if weight_map is not None:
                share, d = weight_map.split(d)
                offset += self._weights[i] * share
            add_scaled(plane, float(self._weights[i]), d)
        return Cut(offset, sparsify(plane))
