"""Does a task's compiled form agree with its plain Python methods?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.examples import Examples
from maxmargin.core.cut import Cut
from maxmargin.core.vectors import Array
from maxmargin.tasks.base import Bounded, Task
from maxmargin.testing.checks._common import (
    points,
    require,
    require_at_least,
    require_close,
    require_same_cut,
    require_same_vector,
    size_of,
)
from maxmargin.testing.checks.working_sets import check_cache, check_working_sets
from maxmargin.testing.reference import (
    Outputs,
    brute_force_inference,
    dense,
    score,
    unwrap,
    violation,
)


class Referee:
    """The plain Python answers that the compiled form is compared with."""

    def __init__(
        self, task: Task, X: Sequence[Any], Y: Sequence[Any], dim: int, outputs: Outputs | None
    ) -> None:
        self.task, self.X, self.Y, self.dim, self.outputs = task, X, Y, dim, outputs

    def worst(self, i: int, w: Array) -> float:
        """The largest violation of example i at ``w`` that plain Python finds (the truth's is 0)."""
        x, y = self.X[i], self.Y[i]
        if self.outputs is not None and self.task.oracle_kind != "overgenerating":
            return max(0.0, brute_force_inference(self.task, x, w, self.outputs, y)[1])
        return self.attained(i, w)

    def attained(self, i: int, w: Array) -> float:
        """The violation of the answer of ``loss_augmented_inference``, at least the truth's 0."""
        x, y = self.X[i], self.Y[i]
        answer = unwrap(self.task.loss_augmented_inference(x, y, w))
        return max(0.0, violation(self.task, x, y, answer, w))

    def truncates(self, i: int, w: Array) -> bool:
        """Whether plain Python's search was cut short there."""
        answer = self.task.loss_augmented_inference(self.X[i], self.Y[i], w)
        return isinstance(answer, Bounded)

    def scale(self, i: int, w: Array) -> float:
        """The size of the score, which rounding errors scale with."""
        psi = dense(self.task.joint_feature(self.X[i], self.Y[i]))
        return float(np.abs(psi) @ np.abs(w))

    def objective(self, w: Array, caps: Array) -> float:
        """``|w|^2 / 2 + sum_i c_i (largest violation of i)``."""
        risk = math.fsum(float(c) * self.worst(i, w) for i, c in enumerate(caps) if c > 0.0)
        return 0.5 * float(w @ w) + risk


def check_examples(
    examples: Examples,
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    dim: int,
    outputs: Outputs | None,
    n_trials: int,
    random_state: int,
) -> None:
    """Prove that packed examples answer as the task's plain methods do (margin rescaling).

    Parameters
    ----------
    examples : Examples
        What ``task.pack(X, Y)`` returned.
    task : Task
        The task after ``setup``.
    X, Y : sequences
        The examples that were packed.
    dim : int
        Dimension of the joint features.
    outputs : callable or None
        ``outputs(x)`` yields every output of ``x``.
    n_trials, random_state : int
        Number and seed of the weight vectors tried.

    Raises
    ------
    AssertionError
        With a text that names the part that disagrees.
    """
    rng = np.random.default_rng(random_state)
    referee = Referee(task, X, Y, dim, outputs)
    n = len(X)
    require(len(examples) == n, f"len(examples) is {len(examples)}, packed were {n}")
    require(examples.dim == dim, f"examples.dim is {examples.dim}, setup said {dim}")
    for trial, w in enumerate(points(dim, n_trials, rng)):
        # the whole range at first, then arbitrary ones: shards are such ranges
        lo, hi = (0, n) if trial < 2 else sorted(rng.choice(n + 1, 2, replace=False).tolist())
        where = f"examples {lo} .. {hi - 1}, trial {trial}"
        answers = examples.oracle(w, lo, hi)
        _check_answers(answers, referee, w, lo, hi, where)
        _check_cut(examples, answers, referee, w, rng, where)
        _check_predict(examples, referee, w, lo, hi, where)
    check_cache(examples, dim, rng)
    check_working_sets(examples, referee.objective, dim, task.oracle_kind, rng)


def _check_answers(
    answers: Answers, referee: Referee, w: Array, lo: int, hi: int, where: str
) -> None:
    require(
        (answers.lo, answers.hi) == (lo, hi),
        f"oracle ({where}): answers say {answers.lo} .. {answers.hi - 1}",
    )
    for name in ("losses", "values", "uppers"):
        shape = np.shape(getattr(answers, name))
        require(shape == (hi - lo,), f"oracle ({where}): {name} has shape {shape}")
    for k, i in enumerate(range(lo, hi)):
        value, upper, scale = answers.values[k], answers.uppers[k], referee.scale(i, w)
        what = f"oracle ({where}), example {i}"
        require(answers.losses[k] >= 0.0, f"{what}: negative loss {answers.losses[k]!r}")
        require_at_least(upper, value, f"{what}: upper below value", scale)
        kind = referee.task.oracle_kind
        worst = referee.worst(i, w)
        if kind == "exact" and not referee.truncates(i, w) and upper <= value:
            require_close(value, worst, f"{what}: value against plain Python", scale)
        elif kind == "exact":
            require_at_least(upper, worst, f"{what}: upper against plain Python", scale)
        elif kind == "undergenerating" and referee.outputs is not None:
            require_at_least(worst, value, f"{what}: value above brute force", scale)
        elif kind == "overgenerating":
            require_close(value, worst, f"{what}: value against plain Python", scale)


def _check_cut(
    examples: Examples,
    answers: Answers,
    referee: Referee,
    w: Array,
    rng: np.random.Generator,
    where: str,
) -> None:
    m = answers.hi - answers.lo
    singles: list[Cut] = [examples.cut(answers, row) for row in np.eye(m)]
    v = rng.normal(size=referee.dim)
    for k, cut in enumerate(singles):
        i = answers.lo + k
        what = f"cut ({where}), example {i}"
        require_close(cut.offset, float(answers.losses[k]), f"{what}: offset against the loss")
        size = size_of(cut, w)
        require_close(cut.at(w), float(answers.values[k]), f"{what}: not tight at w", size)
        if referee.task.oracle_kind == "exact":
            what_v = f"{what}: not a minorant at another point"
            require_at_least(referee.worst(i, v), cut.at(v), what_v, size_of(cut, v))
        if referee.outputs is not None and referee.task.oracle_kind != "overgenerating":
            _check_is_output(cut, referee, i, what)
    weights = rng.random(m) * (rng.random(m) < 0.7)
    total = examples.cut(answers, weights)
    offset = math.fsum(s * c.offset for s, c in zip(weights, singles, strict=True))
    plane = np.zeros(referee.dim)
    for s, c in zip(weights, singles, strict=True):
        plane += s * dense(c.plane)
    require_same_cut(total, Cut(offset, plane), f"cut ({where}): weighted sum of single cuts")


def _check_is_output(cut: Cut, referee: Referee, i: int, what: str) -> None:
    """Some output must have this loss and this difference of joint features."""
    task, x, y = referee.task, referee.X[i], referee.Y[i]
    own = dense(task.joint_feature(x, y))
    plane = dense(cut.plane)
    assert referee.outputs is not None
    for y_hat in referee.outputs(x):
        difference = dense(task.joint_feature(x, y_hat)) - own
        if abs(task.loss(y, y_hat) - cut.offset) <= 1e-9 and np.allclose(
            difference, plane, 1e-9, 1e-9
        ):
            return
    require(False, f"{what}: no output has this loss and difference of joint features")


def _check_predict(
    examples: Examples, referee: Referee, w: Array, lo: int, hi: int, where: str
) -> None:
    predicted = examples.predict(w, lo, hi)
    require(
        isinstance(predicted, list) and len(predicted) == hi - lo,
        f"predict ({where}) must return a list of {hi - lo} outputs, got {type(predicted).__name__}",
    )
    for k, i in enumerate(range(lo, hi)):
        x = referee.X[i]
        found = score(referee.task, x, predicted[k], w)
        expected = score(referee.task, x, referee.task.inference(x, w), w)
        what = f"predict ({where}), example {i}: score against inference"
        if referee.task.oracle_kind == "undergenerating":
            require_same_vector(
                referee.task.joint_feature(x, predicted[k]),
                referee.task.joint_feature(x, referee.task.inference(x, w)),
                what,
            )
        else:
            require_close(found, expected, what, referee.scale(i, w))
