"""Reference implementation of the latent objective, slow and simple.

    F(w) = 1/2 |w|^2 + C sum_i s_i [ max_{y, h} (Delta(y_i, y, h) + <w, Psi(x_i, y, h)>)
                                     - max_h <w, Psi(x_i, y_i, h)> ]

It calls only the methods of :class:`~maxmargin.tasks.LatentTask` that a user writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array
from maxmargin.tasks.latent import LatentTask
from maxmargin.testing.reference import dense, objective, unwrap

Pairs: TypeAlias = Callable[[Any], Iterable[tuple[Any, Any]]]


def latent_score(task: LatentTask, x: Any, y: Any, h: Any, w: Array) -> float:
    """<w, Psi(x, y, h)>."""
    return float(dense(task.joint_feature(x, y, h)) @ w)


def latent_objective(
    task: LatentTask,
    X: Sequence[object],
    Y: Sequence[object],
    w: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    outputs: Pairs | None = None,
) -> float:
    """The latent objective, one example at a time.

    Parameters
    ----------
    task : LatentTask
        A task after ``setup``.
    X, Y : sequences
        Inputs and labeled outputs.
    w : array of shape (dim,)
        The weights.
    C : float
        Weight of the sum of losses.
    weight : array of shape (n,), optional
        Weights of the examples.
    outputs : callable, optional
        ``outputs(x)`` yields every pair (y, h) of ``x``. If given, the maxima are found by brute force
        instead of by the argmaxes of the task.

    Returns
    -------
    float
        F(w).

    See Also
    --------
    check_latent_task : has an example of both.
    """
    point = np.asarray(w, dtype=np.float64)
    values = [example_value(task, x, y, point, outputs) for x, y in zip(X, Y, strict=True)]
    return objective(point, C, values, weight)


def example_value(task: LatentTask, x: Any, y: Any, w: Array, outputs: Pairs | None) -> float:
    """The term of one example in brackets."""
    if outputs is not None:
        pairs = list(outputs(x))
        worst = max(task.loss(y, a, h) + latent_score(task, x, a, h, w) for a, h in pairs)
        return worst - max(latent_score(task, x, a, h, w) for a, h in pairs if task.same(a, y))
    own = latent_score(task, x, y, task.complete(x, y, w), w)
    a, h = unwrap(task.loss_augmented_inference(x, y, w))
    # with wrong_only, the argmax excludes the labeled output, whose value is 0
    return max(task.loss(y, a, h) + latent_score(task, x, a, h, w) - own, 0.0)
