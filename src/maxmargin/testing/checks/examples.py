"""Check that the compiled form of a task agrees with its Python methods."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from maxmargin.testing.reference import Outputs, dense, score, unwrap, violation


class Reference:
    """The answers of the Python methods, which the compiled form is compared with."""

    def __init__(
        self,
        task: Task,
        X: Sequence[object],
        Y: Sequence[object],
        dim: int,
        outputs: Outputs | None,
    ) -> None:
        self.task, self.X, self.Y, self.dim, self.outputs = task, X, Y, dim, outputs

    def worst(self, i: int, w: Array) -> tuple[float, bool]:
        """The violation of the answer of ``loss_augmented_inference``, at least 0, the value of the true
        output; and whether the search stopped early."""
        x, y = self.X[i], self.Y[i]
        answer = self.task.loss_augmented_inference(x, y, w)
        value = violation(self.task, x, y, unwrap(answer), w)
        return max(0.0, value), isinstance(answer, Bounded)

    def scale(self, i: int, w: Array) -> float:
        """The size of the terms of the score, which rounding errors are proportional to."""
        psi = dense(self.task.joint_feature(self.X[i], self.Y[i]))
        return float(np.abs(psi) @ np.abs(w))


def check_examples(
    examples: Examples,
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
    dim: int,
    outputs: Outputs | None,
    n_trials: int,
    random_state: int,
) -> None:
    """Check that packed examples give the same answers as the methods of the task (margin rescaling).

    Parameters
    ----------
    examples : Examples
        The result of ``task.pack(X, Y)``.
    task : Task
        The task after ``setup``.
    X, Y : sequences
        The packed inputs and outputs.
    dim : int
        Dimension of the joint features.
    outputs : callable or None
        ``outputs(x)`` yields every output of ``x``; if given, each cut must be that of one of them.
    n_trials, random_state : int
        Number and seed of the weight vectors tried.

    Raises
    ------
    AssertionError
        If a check fails. The message names the part that differs.
    """
    rng = np.random.default_rng(random_state)
    reference = Reference(task, X, Y, dim, outputs)
    n = len(X)
    require(len(examples) == n, f"len(examples) is {len(examples)}, but {n} examples were packed")
    require(examples.dim == dim, f"examples.dim is {examples.dim}, but setup returned {dim}")
    for trial, w in enumerate(points(dim, n_trials, rng)):
        # first all examples, then random ranges, as shards are
        lo, hi = (0, n) if trial < 2 else sorted(rng.choice(n + 1, 2, replace=False).tolist())
        where = f"examples {lo} .. {hi - 1}, trial {trial}"
        answers = examples.oracle(w, lo, hi)
        _check_answers(answers, reference, w, lo, hi, where)
        _check_cut(examples, answers, reference, w, rng, where)
        _check_predict(examples, reference, w, lo, hi, where)


def _check_answers(
    answers: Answers, reference: Reference, w: Array, lo: int, hi: int, where: str
) -> None:
    require(
        (answers.lo, answers.hi) == (lo, hi),
        f"oracle ({where}): the answers are for the examples {answers.lo} .. {answers.hi - 1}",
    )
    for name in ("losses", "values", "uppers"):
        shape = np.shape(getattr(answers, name))
        require(shape == (hi - lo,), f"oracle ({where}): {name} has shape {shape}")
    for k, i in enumerate(range(lo, hi)):
        value, upper, scale = answers.values[k], answers.uppers[k], reference.scale(i, w)
        what = f"oracle ({where}), example {i}"
        require(answers.losses[k] >= 0.0, f"{what}: the loss {answers.losses[k]!r} is negative")
        require_at_least(upper, value, f"{what}: upper is below value", scale)
        kind = reference.task.oracle_kind
        worst, stopped = reference.worst(i, w)
        if kind == "exact" and (stopped or upper > value):
            require_at_least(upper, worst, f"{what}: upper against the Python methods", scale)
        elif kind != "undergenerating":
            require_close(value, worst, f"{what}: value against the Python methods", scale)


def _check_cut(
    examples: Examples,
    answers: Answers,
    reference: Reference,
    w: Array,
    rng: np.random.Generator,
    where: str,
) -> None:
    m = answers.hi - answers.lo
    singles: list[Cut] = [examples.cut(answers, row) for row in np.eye(m)]
    v = rng.normal(size=reference.dim)
    for k, cut in enumerate(singles):
        i = answers.lo + k
        what = f"cut ({where}), example {i}"
        require_close(cut.offset, float(answers.losses[k]), f"{what}: offset against the loss")
        size = size_of(cut, w)
        require_close(
            cut.at(w), float(answers.values[k]), f"{what}: the cut is not tight at w", size
        )
        if reference.task.oracle_kind == "exact":
            what_v = f"{what}: the cut is not a minorant at another point"
            worst, stopped = reference.worst(i, v)
            if not stopped:
                require_at_least(worst, cut.at(v), what_v, size_of(cut, v))
        if reference.outputs is not None and reference.task.oracle_kind != "overgenerating":
            _check_is_output(cut, reference, i, what)
    weights = rng.random(m) * (rng.random(m) < 0.7)
    total = examples.cut(answers, weights)
    offset = math.fsum(s * c.offset for s, c in zip(weights, singles, strict=True))
    plane = np.zeros(reference.dim)
    for s, c in zip(weights, singles, strict=True):
        plane += s * dense(c.plane)
    require_same_cut(total, Cut(offset, plane), f"cut ({where}): weighted sum of single cuts")


def _check_is_output(cut: Cut, reference: Reference, i: int, what: str) -> None:
    """Check that some output has this loss and this difference of joint features."""
    task, x, y = reference.task, reference.X[i], reference.Y[i]
    own = dense(task.joint_feature(x, y))
    plane = dense(cut.plane)
    assert reference.outputs is not None
    for y_hat in reference.outputs(x):
        difference = dense(task.joint_feature(x, y_hat)) - own
        if abs(task.loss(y, y_hat) - cut.offset) <= 1e-9 and np.allclose(
            difference, plane, 1e-9, 1e-9
        ):
            return
    require(False, f"{what}: no output has this loss and difference of joint features")


def _check_predict(
    examples: Examples, reference: Reference, w: Array, lo: int, hi: int, where: str
) -> None:
    predicted = examples.predict(w, lo, hi)
    require(
        isinstance(predicted, list) and len(predicted) == hi - lo,
        f"predict ({where}) must return a list of {hi - lo} outputs, got {type(predicted).__name__}",
    )
    for k, i in enumerate(range(lo, hi)):
        x = reference.X[i]
        found = score(reference.task, x, predicted[k], w)
        expected = score(reference.task, x, reference.task.inference(x, w), w)
        what = f"predict ({where}), example {i}: score against inference"
        if reference.task.oracle_kind == "undergenerating":
            require_same_vector(
                reference.task.joint_feature(x, predicted[k]),
                reference.task.joint_feature(x, reference.task.inference(x, w)),
                what,
            )
        else:
            require_close(found, expected, what, reference.scale(i, w))
