"""Compare argmaxes with other outputs of the task, if the outputs cannot be enumerated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.tasks.base import Bounded, Task
from maxmargin.testing.checks._common import require_at_least
from maxmargin.testing.reference import Rescaling, dense, score, unwrap, violation

#: maximum number of outputs that the answers of an example are compared with
MOST = 50
#: minimum number of other weights at which an example is predicted
FEWEST = 4

Answers = dict[str, Any]


def check_against_pool(
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
    trials: Sequence[Array],
    found: Sequence[Answers],
    dim: int,
    rng: np.random.Generator,
) -> None:
    """Check that no answer of an exact argmax is worse than another output of the same input.

    ``found`` holds the answers at the weights ``trials``, which are for the examples in turn. An output of
    another example need not be an output of this one, so it is not compared directly. Instead, weights that
    favor it are used to predict this input, and the prediction is compared.
    """
    n = len(X)
    for i in range(min(n, len(trials))):
        own = range(i, len(trials), n)
        others = [
            unwrap(a) for k, by_name in enumerate(found) if k % n != i for a in by_name.values()
        ]
        others += [y for j, y in enumerate(Y) if j != i]
        pool = [Y[i], *(unwrap(a) for k in own for a in found[k].values())]
        for w in _other_weights(task, X[i], Y[i], others, max(FEWEST, 2 * len(own)), dim, rng):
            pool.append(task.inference(X[i], w))
        pool = _distinct(task, pool)
        for k in own:
            _compare(task, X[i], Y[i], trials[k], found[k], pool, f"example {i}, trial {k}")


def _other_weights(
    task: Task, x: Any, y: Any, others: list[Any], n: int, dim: int, rng: np.random.Generator
) -> Iterator[Array]:
    for _ in range(n):
        yield rng.normal(size=dim)
    for k in rng.permutation(len(others))[:n]:
        try:  # an output of another input may have no joint feature here, or one of another size
            aim = dense(task.joint_feature(x, others[k])) - dense(task.joint_feature(x, y))
        except Exception:
            continue
        if aim.shape == (dim,) and np.isfinite(aim).all() and aim.any():
            yield aim


def _distinct(task: Task, outputs: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for y in outputs:
        if len(kept) < MOST and not any(task.same(y, other) for other in kept):
            kept.append(y)
    return kept


def _compare(
    task: Task, x: Any, y: Any, w: Array, found: Answers, pool: list[Any], where: str
) -> None:
    value = score(task, x, found["inference"], w)
    what = f"inference ({where}) does not return the output with the largest score"
    for other in pool:
        outputs = (found["inference"], other)
        require_at_least(value, score(task, x, other, w), what, outputs=outputs)
    rescaling: Rescaling
    own = score(task, x, y, w)
    for rescaling in ("margin", "slack"):
        name = "loss_augmented_inference" if rescaling == "margin" else "slack_augmented_inference"
        if name not in found:
            continue
        answer = found[name]
        best = violation(task, x, y, unwrap(answer), w, rescaling)
        if isinstance(answer, Bounded):
            best = float(answer.upper) - (own if rescaling == "margin" else 0.0)
        objective = "loss plus score" if rescaling == "margin" else "loss times (1 + score)"
        for other in pool:
            require_at_least(
                best,
                violation(task, x, y, other, w, rescaling),
                f"{name} ({where}) does not return the output with the largest {objective}. Does it add "
                "loss(y, y_hat) to the score, with a plus sign? Minus the score of the true output",
                own,
                (unwrap(answer), other),
            )
