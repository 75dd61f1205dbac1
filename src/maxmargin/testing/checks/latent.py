"""check_latent_task: check a task with latent variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.tasks.base import Bounded
from maxmargin.tasks.latent import LatentTask
from maxmargin.testing.checks._common import (
    Snapshot,
    dimension,
    points,
    require,
    require_at_least,
    require_close,
    require_vector,
)
from maxmargin.testing.latent import Pairs, latent_score
from maxmargin.testing.reference import unwrap


def check_latent_task(
    task: LatentTask,
    X: Sequence[object],
    Y: Sequence[object],
    *,
    outputs: Pairs | None = None,
    n_trials: int = 20,
    random_state: int = 0,
) -> None:
    """Check a latent task on a few examples.

    The checks are: the dimension that ``setup`` returns, and the form of the joint features; the loss;
    ``complete`` and both argmaxes (never worse than a known completion; equal to brute force if ``outputs``
    is given and the argmaxes are exact); the condition of ``wrong_only``; the initial completions; and that
    the task does not change after ``setup``.

    Parameters
    ----------
    task : LatentTask
        The task; its ``setup`` is called.
    X, Y : sequences
        A few small examples.
    outputs : callable, optional
        ``outputs(x)`` yields every pair (y, h) of ``x``. If given, the argmaxes are compared with brute
        force.
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
    >>> import numpy as np
    >>> from maxmargin.tasks import LatentBinary
    >>> from maxmargin.testing import check_latent_task, latent_objective
    >>> class BestRow(LatentBinary):
    ...     def n_features(self, X):
    ...         return X[0].shape[1]
    ...     def features(self, x, h):
    ...         return x[h]
    ...     def best(self, x, w):
    ...         return int(np.argmax(x @ w))
    >>> X = [np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[0.5, -1.0]])]
    >>> def outputs(x):
    ...     return [(-1, None)] + [(1, h) for h in range(len(x))]
    >>> task = BestRow()
    >>> check_latent_task(task, X, [1, -1], outputs=outputs)
    >>> latent_objective(task, X, [1, -1], [0.5, 0.25], C=1.0)
    1.15625
    """
    rng = np.random.default_rng(random_state)
    dim = dimension(task, X, Y, "check_latent_task")
    before = Snapshot(task)
    tries = list(points(dim, n_trials, rng))
    first = [_first(task, x, y, tries[0]) for x, y in zip(X, Y, strict=True)]
    for trial, w in enumerate(tries):
        i = trial % len(X)
        where = f"example {i}, trial {trial}"
        _check_completion(task, X[i], Y[i], first[i], w, dim, outputs, where)
        _check_argmaxes(task, X[i], Y[i], w, dim, outputs, where)
    before.require_unchanged("an argmax")


def _first(task: LatentTask, x: Any, y: Any, zero: Array) -> Any:
    h = task.initial(x, y)
    return task.complete(x, y, zero) if h is None else h


def _check_completion(
    task: LatentTask,
    x: Any,
    y: Any,
    first: Any,
    w: Array,
    dim: int,
    outputs: Pairs | None,
    where: str,
) -> None:
    h = task.complete(x, y, w)
    require_vector(task.joint_feature(x, y, h), dim, f"joint_feature of a completion ({where})")
    require_vector(
        task.joint_feature(x, y, first), dim, f"joint_feature of the initial h ({where})"
    )
    require(bool(task.same(h, h)) and bool(task.same(y, y)), f"same(h, h) ({where}) must be True")
    own = task.loss(y, y, h)
    require(np.isfinite(own) and own >= 0.0, f"loss(y, y, h) ({where}) must not be negative")
    found = latent_score(task, x, y, h, w)
    require_at_least(
        found,
        latent_score(task, x, y, first, w),
        f"complete ({where}): the score is below that of the initial h",
    )
    if outputs is not None:
        scores = [latent_score(task, x, a, b, w) for a, b in outputs(x) if task.same(a, y)]
        require(len(scores) > 0, f"outputs(x) ({where}) does not yield the labeled output")
        require_close(
            found, max(scores), f"complete ({where}): the score against brute force", found
        )
    if task.wrong_only:
        require(
            own == 0.0, f"wrong_only requires loss(y, y, h) = 0 for all h ({where}), got {own!r}"
        )


def _check_argmaxes(
    task: LatentTask, x: Any, y: Any, w: Array, dim: int, outputs: Pairs | None, where: str
) -> None:
    a, h = task.inference(x, w)
    found, truth = (
        latent_score(task, x, a, h, w),
        latent_score(task, x, y, task.complete(x, y, w), w),
    )
    require_at_least(
        found, truth, f"inference ({where}): the score is below that of the completed true output"
    )
    answer = task.loss_augmented_inference(x, y, w)
    b, k = unwrap(answer)
    loss = task.loss(y, b, k)
    require(
        np.isfinite(loss) and loss >= 0.0,
        f"loss ({where}) must be finite and nonnegative, got {loss!r} for {(b, k)!r}",
    )
    require_vector(task.joint_feature(x, b, k), dim, f"joint_feature of an argmax ({where})")
    value = loss + latent_score(task, x, b, k, w)
    if task.wrong_only:
        require(
            not task.same(b, y),
            f"wrong_only ({where}): loss_augmented_inference returned the labeled output",
        )
    elif not isinstance(answer, Bounded):
        require_at_least(
            value,
            truth,
            f"loss_augmented_inference ({where}): loss plus score is below that of the true output",
        )
    if outputs is None or task.oracle_kind != "exact":
        return
    pairs = list(outputs(x))
    best = max(latent_score(task, x, *pair, w) for pair in pairs)
    require_close(found, best, f"inference ({where}): the score against brute force", found)
    considered = [p for p in pairs if not (task.wrong_only and task.same(p[0], y))]
    worst = max(task.loss(y, *pair) + latent_score(task, x, *pair, w) for pair in considered)
    what = f"loss_augmented_inference ({where}): loss plus score against brute force"
    if isinstance(answer, Bounded):
        require_at_least(answer.upper, worst, f"{what}, upper bound")
    else:
        require_close(value, worst, what, value)
