"""check_task: check a structured prediction task."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, add_scaled
from maxmargin.tasks.base import Bounded, Task
from maxmargin.testing.checks._common import (
    Snapshot,
    dimension,
    points,
    require,
    require_at_least,
    require_close,
    require_same_vector,
    require_vector,
)
from maxmargin.testing.checks.examples import check_examples
from maxmargin.testing.checks.pool import check_against_pool
from maxmargin.testing.reference import (
    Outputs,
    Rescaling,
    brute_force_inference,
    dense,
    score,
    unwrap,
    violation,
)


def check_task(
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
    *,
    outputs: Outputs | None = None,
    n_trials: int = 20,
    random_state: int = 0,
) -> None:
    """Check a task on a few examples.

    The checks are:

    - ``setup`` returns the dimension of the joint features, and these are valid vectors.
    - The loss is 0 for the true output and never negative.
    - Exact argmaxes agree with brute force if ``outputs`` is given. Without it, they are never worse than the
      true output or any output that the task predicts for the same input at other weights.
    - The upper bounds of :class:`~maxmargin.tasks.Bounded` answers are valid.
    - ``difference``, ``loss_step`` and ``slack_augmented_inference``, the default one included, are correct.
    - The task does not change after ``setup``, and its methods do not change their inputs.
    - If ``pack`` returns a compiled form, all its parts agree with the methods.

    Parameters
    ----------
    task : Task
        The task; its ``setup`` is called.
    X, Y : sequences
        A few small examples.
    outputs : callable, optional
        ``outputs(x)`` yields every output of ``x``. If given, the argmaxes are compared with brute force.
        Without it, the checks find an argmax that ignores the loss or has its sign wrong, but they can miss
        one that is wrong for few outputs.
    n_trials : int
        Number of random weight vectors.
    random_state : int
        Seed of the weight vectors.

    Raises
    ------
    AssertionError
        If a check fails. The message names the method and the numbers found.

    Examples
    --------
    >>> import itertools
    >>> import numpy as np
    >>> from maxmargin.tasks import Chain
    >>> from maxmargin.testing import check_task
    >>> def outputs(x):
    ...     return itertools.product([0, 1], repeat=len(x))
    >>> check_task(Chain(n_labels=2), [np.eye(3)], [np.array([0, 1, 1])], outputs=outputs)
    """
    rng = np.random.default_rng(random_state)
    dim = dimension(task, X, Y, "check_task")
    before = Snapshot(task)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        _check_truth(task, x, y, dim, f"example {i}")
    before.require_unchanged("joint_feature, loss or same")
    trials = list(points(dim, n_trials, rng))
    found: list[Any] = []
    for trial, w in enumerate(trials):
        i = trial % len(X)
        where = f"example {i}, trial {trial}"
        found.append(_check_argmaxes(task, X[i], Y[i], w, dim, outputs, where))
    if outputs is None and task.oracle_kind == "exact":
        check_against_pool(task, X, Y, trials, found, dim, rng)
    before.require_unchanged("an argmax or difference")
    packed = task.pack(X, Y)
    before.require_unchanged("pack")
    if packed is not None:
        check_examples(packed, task, X, Y, dim, outputs, n_trials, random_state)
        before.require_unchanged("the packed examples")


def _check_truth(task: Task, x: Any, y: Any, dim: int, where: str) -> None:
    psi = task.joint_feature(x, y)
    require_vector(psi, dim, f"joint_feature ({where})")
    require_same_vector(task.joint_feature(x, y), psi, f"joint_feature, called twice ({where})")
    own = task.loss(y, y)
    require(
        isinstance(own, numbers.Real),
        f"loss ({where}) must return a number, got {type(own).__name__}",
    )
    require(own == 0.0, f"loss(y, y) ({where}) must be 0, got {own!r}")
    require(bool(task.same(y, y)), f"same(y, y) ({where}) must be True")


def _check_argmaxes(
    task: Task, x: Any, y: Any, w: Array, dim: int, outputs: Outputs | None, where: str
) -> dict[str, Any]:
    """Check the argmaxes at ``w``, and return their answers by the name of the method."""
    kept = copy.deepcopy((x, y))
    predicted = task.inference(x, w)
    require(
        not isinstance(predicted, Bounded),
        f"inference ({where}) must return an output, not a Bounded",
    )
    require(predicted is not None, f"inference ({where}) returned None")
    _check_inference(task, x, y, w, predicted, outputs, where)
    margin = task.loss_augmented_inference(x, y, w)
    require(unwrap(margin) is not None, f"loss_augmented_inference ({where}) returned None")
    answers = {"inference": predicted, "loss_augmented_inference": margin}
    _check_augmented(task, x, y, w, margin, "margin", outputs, where)
    candidates = [predicted, unwrap(margin)]
    slack = task.slack_augmented_inference(x, y, w)
    require(unwrap(slack) is not None, f"slack_augmented_inference ({where}) returned None")
    answers["slack_augmented_inference"] = slack
    _check_augmented(task, x, y, w, slack, "slack", outputs, where)
    candidates.append(unwrap(slack))
    for y_hat in candidates:
        _check_output(task, x, y, y_hat, dim, where)
    step = task.loss_step(x, y) if task.oracle_kind == "exact" else 0.0
    for y_hat in candidates if outputs is None else [*outputs(x)]:
        share = task.loss(y, y_hat) / (step or 1.0)
        wrong = f"loss_step ({where}): the loss of {y_hat!r} is not a multiple of {step!r}"
        require(not step or abs(share - round(share)) <= 1e-6, wrong)
    require(_untouched((x, y), kept), f"the argmaxes ({where}) changed their inputs")
    return answers


def _check_output(task: Task, x: Any, y: Any, y_hat: Any, dim: int, where: str) -> None:
    psi = task.joint_feature(x, y_hat)
    require_vector(psi, dim, f"joint_feature of an argmax ({where})")
    delta = task.loss(y, y_hat)
    require(
        np.isfinite(delta) and delta >= 0.0,
        f"loss ({where}) must be finite and nonnegative, got {delta!r} for {y_hat!r}",
    )
    if task.same(y, y_hat):
        require(
            delta == 0.0,
            f"loss ({where}) must be 0 for an output that is the same as the true one, got {delta!r}",
        )
    difference = task.difference(x, y_hat, y)
    require_vector(difference, dim, f"difference ({where})")
    expected = dense(psi).copy()
    add_scaled(expected, -1.0, task.joint_feature(x, y))
    require_same_vector(
        difference, expected, f"difference(x, y_hat, y) against two joint features ({where})"
    )


def _check_inference(
    task: Task, x: Any, y: Any, w: Array, predicted: Any, outputs: Outputs | None, where: str
) -> None:
    found, truth = score(task, x, predicted, w), score(task, x, y, w)
    if task.oracle_kind != "undergenerating":
        require_at_least(
            found, truth, f"inference ({where}): the score is below that of the true output"
        )
    if outputs is not None:
        best, value = brute_force_inference(task, x, w, outputs)
        what = f"inference ({where}): the score differs from that of brute force"
        _compare(task, found, value, what, 0.0, (predicted, best))


def _check_augmented(
    task: Task,
    x: Any,
    y: Any,
    w: Array,
    answer: object,
    rescaling: Rescaling,
    outputs: Outputs | None,
    where: str,
) -> None:
    name = "loss_augmented_inference" if rescaling == "margin" else "slack_augmented_inference"
    own = score(task, x, y, w)
    found = violation(task, x, y, unwrap(answer), w, rescaling)
    truncated = isinstance(answer, Bounded)
    # the objective of the argmax is Delta + <w, Psi(x, y^)>; subtract the score of the true output
    upper = found
    if isinstance(answer, Bounded):
        upper = float(answer.upper) - (own if rescaling == "margin" else 0.0)
        require_at_least(upper, found, f"{name} ({where}): upper is below the value attained", own)
    if truncated or task.oracle_kind != "undergenerating":
        require_at_least(
            upper,
            0.0,
            f"{name} ({where}): loss plus score is below that of the true output, which is an output too",
            own,
        )
    if outputs is None:
        return
    best, value = brute_force_inference(task, x, w, outputs, y, rescaling)
    what = f"{name} ({where}): the value differs from that of brute force"
    pair = (unwrap(answer), best)
    if truncated:
        require_at_least(upper, value, f"{name} ({where}): upper is below brute force", own)
        if (
            task.oracle_kind != "overgenerating"
        ):  # the value of a relaxation can exceed that of all outputs
            require_at_least(value, found, what, own, pair)
    else:
        _compare(task, found, value, what, own, pair)


def _compare(
    task: Task, found: float, value: float, what: str, scale: float, outputs: tuple[Any, Any]
) -> None:
    if task.oracle_kind == "exact":
        require_close(found, value, what, scale, outputs)
    elif task.oracle_kind == "undergenerating":
        require_at_least(value, found, what, scale, outputs)
    else:
        require_at_least(found, value, what, scale, outputs)


def _untouched(now: Any, kept: Any) -> bool:
    try:
        return _equal(now, kept)
    except Exception:  # they cannot be compared
        return True


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(_equal(p, q) for p, q in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(v, b[k]) for k, v in a.items())
    if hasattr(a, "tocsr"):
        return bool((a != b).nnz == 0)
    if hasattr(a, "__dict__") and "__eq__" not in vars(type(a)):
        return _equal(vars(a), vars(b))
    return bool(a == b)
