"""Examples of a task in plain Python: the form that works for every task, and the reference for
compiled ones.

Margin and slack rescaling differ only in the plane of a labeling: rho (Psi(x, y^) - Psi(x, y))
with rho = 1 or rho = Delta(y, y^). Everything else is the same. Fixed weights and priors
change planes and offsets; see :mod:`maxmargin.risks.weight_map`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.examples import ConstraintCache
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import (
    Array,
    IntArray,
    SparseVector,
    Vector,
    add_scaled,
    dot,
    norm,
    sparsify,
)
from maxmargin.risks.weight_map import WeightMap
from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.plane_sets import Labeling, PlainWorkingSets

Rescaling = Literal["margin", "slack"]


class PlainExamples:
    """Examples whose oracle calls the task's Python methods."""

    signed_sets = True

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        dim: int,
        rescaling: Rescaling,
        weight_map: WeightMap | None = None,
    ) -> None:
        self.task, self.dim = task, dim
        self._X, self._Y, self._rescaling, self._map = X, Y, rescaling, weight_map
        self._quick = False
        #: number of the first example in error messages
        self._first = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_probe": np.zeros(1)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not state.pop("_probe").flags.writeable:
            # from an object store; user code may fail on read-only arrays
            state = copy.deepcopy(state)
        self.__dict__.update(state)

    def __len__(self) -> int:
        return len(self._Y)

    def part(self, lo: int, hi: int) -> Self:
        """The examples ``lo .. hi-1`` alone; error messages use their original numbers."""
        other = copy.copy(self)
        other._X, other._Y = _some(self._X, lo, hi), _some(self._Y, lo, hi)
        other._first = self._first + lo
        return other

    def same(self, a: Labeling, b: Labeling) -> bool:
        """Whether two labelings are the same output."""
        return a.loss == b.loss and self.task.same(a.y, b.y)

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """See :class:`maxmargin.core.Examples`."""
        labelings: list[Labeling] = []
        losses, values, uppers = np.empty((3, hi - lo))
        whole = w if self._map is None else self._map.whole(w)
        for i in range(lo, hi):
            try:
                labeling, value, upper = self._ask(i, whole)
            except Exception as error:
                error.add_note(f"raised by the task's oracle for example {self._first + i}")
                raise
            labelings.append(labeling)
            losses[i - lo], values[i - lo], uppers[i - lo] = labeling.loss, value, upper
        return Answers(lo, hi, labelings, losses, values, uppers)

    def _ask(self, i: int, w: Array) -> tuple[Labeling, float, float]:
        """(labeling, value, upper bound of the maximum) at the user-space weights w."""
        task, x, y = self.task, self._X[i], self._Y[i]
        slack, bound = self._rescaling == "slack", None
        found = task.quick_augmented_inference(x, y, w) if self._quick else None
        if found is not None:
            bound = float("inf")
        else:
            ask = task.slack_augmented_inference if slack else task.loss_augmented_inference
            found = ask(x, y, w)
        if isinstance(found, Bounded):
            found, bound = found.y, found.upper
        if found is None:
            name = "slack_augmented_inference" if slack else "loss_augmented_inference"
            raise TypeError(
                f"{type(task).__name__}.{name} returned None for example {self._first + i}: it must return "
                "the output of largest loss plus score. Is a return statement missing? (An output that means "
                "'nothing' must be a value other than None.)"
            )
        loss, plane = self._plane(i, found)
        labeling = (
            Labeling(found, loss, plane) if self._map is None else self._mapped(found, loss, plane)
        )
        # at the user-space weights: the center's part of an offset may be much larger than the value
        value = loss + dot(plane, w)
        if not np.isfinite(value):
            raise ValueError(
                f"the joint features of example {self._first + i} give a score of {value}: they, or the "
                "input, contain NaN or infinite values."
            )
        upper = value
        if bound is not None:
            upper = bound if slack else bound - dot(task.joint_feature(x, y), w)
            if not upper >= value - 1e-8 * (1.0 + abs(loss) + abs(bound)):  # NaN is no bound either
                raise ValueError(
                    f"the oracle's bound for example {self._first + i}, Bounded(y, {bound}), is below the "
                    "value of y: it must bound loss + score of all outputs from above (infinity if unknown)."
                )
        if value < 0.0:
            # the true output has value 0, so an exact oracle never returns less, up to rounding
            scale = 1.0 + abs(loss) + abs(labeling.loss) + 1e-3 * norm(plane) * norm(w)
            exact = task.oracle_kind == "exact" and bound is None
            if value < -1e-8 * scale and exact and task.covers_truth:
                raise ValueError(
                    f"the oracle's answer for example {self._first + i} is worse than its own label (by "
                    f"{-value:.3g}): the argmax must be over all outputs, including the labeled one, and the "
                    "label must be feasible. If the oracle is approximate, set "
                    "oracle_kind = 'undergenerating'."
                )
            labeling, value = Labeling(y, 0.0, _zero(labeling.plane)), 0.0
        return labeling, value, max(value, upper)

    def labeling(self, i: int, found: Any) -> tuple[Labeling, float]:
        """An output of example i with its plane, and its loss."""
        loss, plane = self._plane(i, found)
        return self._mapped(found, loss, plane), loss

    def _mapped(self, found: Any, loss: float, plane: Vector) -> Labeling:
        """An output with its plane and offset in the solver's coordinates."""
        if self._map is None:
            return Labeling(found, loss, plane)
        share, seen = self._map.split(plane)
        return Labeling(found, loss + share, seen)

    def _plane(self, i: int, found: Any) -> tuple[float, Vector]:
        """Loss and plane of an output, in user-space weights."""
        x, y = self._X[i], self._Y[i]
        loss = float(self.task.loss(y, found))
        if not (np.isfinite(loss) and loss >= 0.0):
            raise ValueError(
                f"loss(y, y_hat) = {loss} for example {self._first + i}: a loss must be finite and not "
                "negative."
            )
        plane = self.task.difference(x, found, y)
        if self._rescaling == "slack":
            plane = _scaled(plane, loss)
        return loss, plane

    def truth(self, i: int) -> Any:
        """The labeled output."""
        return self._Y[i]

    def cut(self, answers: Answers, weights: Array) -> Cut:
        """See :class:`maxmargin.core.Examples`."""
        return _sum_cut(answers.labelings, weights, self.dim)

    def cache(self, lo: int, hi: int, size: int) -> ConstraintCache:
        """See :class:`maxmargin.core.Examples`."""
        return PlainCache(self, lo, hi, size)

    def working_sets(self, caps: Array, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """See :class:`maxmargin.core.Examples`."""
        return PlainWorkingSets(self.eager(), caps, regularizer)

    def eager(self) -> PlainExamples:
        """The same examples with the task's quick inference where it exists: never used for bounds."""
        quick = getattr(self.task.quick_augmented_inference, "__func__", None)
        if self._rescaling == "slack" or quick is Task.quick_augmented_inference:
            return self
        other = copy.copy(self)
        other._quick = True
        return other

    def predict(self, w: Array, lo: int, hi: int) -> list[Any]:
        """See :class:`maxmargin.core.Examples`."""
        if self._map is not None:
            w = self._map.whole(w)
        return [self.task.inference(self._X[i], w) for i in range(lo, hi)]


class PlainCache:
    """A cache of the most recently used labelings of a range of examples."""

    def __init__(self, examples: PlainExamples, lo: int, hi: int, size: int) -> None:
        self._examples, self._lo, self._size = examples, lo, size
        self._entries: list[list[Labeling]] = [[] for _ in range(hi - lo)]  # oldest use first
        self._flat: list[Labeling] = []
        self.pointers: IntArray = np.zeros(hi - lo + 1, dtype=np.int64)
        self._used: list[Labeling] = []

    def insert(self, answers: Answers) -> None:
        """See :class:`maxmargin.core.ConstraintCache`."""
        used = {id(labeling) for labeling in self._used}
        self._used = []
        same = self._examples.same
        for entries, new in zip(self._entries, answers.labelings, strict=True):
            entries.sort(key=lambda entry: id(entry) in used)  # stable: recently touched ones last
            for k, entry in enumerate(entries):
                if same(entry, new):
                    entries.append(entries.pop(k))
                    break
            else:
                if new.loss > 0.0 or dot(new.plane, new.plane) > 0.0:  # not the true output
                    entries.append(new)
                    del entries[: -self._size]
        self._flat = [entry for entries in self._entries for entry in entries]
        self.pointers = np.concatenate(
            [[0], np.cumsum([len(entries) for entries in self._entries])]
        ).astype(np.int64)

    def scores(self, w: Array) -> Array:
        """See :class:`maxmargin.core.ConstraintCache`."""
        return np.array(
            [entry.loss + dot(entry.plane, w) for entry in self._flat], dtype=np.float64
        )

    def touch(self, chosen: IntArray) -> None:
        """See :class:`maxmargin.core.ConstraintCache`."""
        self._used.extend(self._flat[j] for j in chosen if j >= 0)

    def cut(self, chosen: IntArray, weights: Array) -> Cut:
        """See :class:`maxmargin.core.ConstraintCache`."""
        which = [(self._flat[j], s) for j, s in zip(chosen, weights, strict=True) if j >= 0]
        return _sum_cut([entry for entry, _ in which], [s for _, s in which], self._examples.dim)


def _some(members: Sequence[Any], lo: int, hi: int) -> Any:
    """The members ``lo .. hi-1`` of an array or any other sequence."""
    if isinstance(members, np.ndarray):
        return members[lo:hi]
    return [members[i] for i in range(lo, hi)]


def _sum_cut(labelings: Sequence[Labeling], weights: Any, dim: int) -> Cut:
    plane: Array = np.zeros(dim)
    offset = 0.0
    for labeling, weight in zip(labelings, weights, strict=True):
        offset += weight * labeling.loss
        add_scaled(plane, weight, labeling.plane)
    return Cut(float(offset), sparsify(plane))


def _scaled(v: Vector, factor: float) -> Vector:
    if isinstance(v, SparseVector):
        return SparseVector(v.indices, factor * v.values, v.size)
    return np.asarray(factor * v, dtype=np.float64)


def _zero(like: Vector) -> Vector:
    size = like.size
    return SparseVector(np.empty(0, dtype=np.int64), np.empty(0), size)
