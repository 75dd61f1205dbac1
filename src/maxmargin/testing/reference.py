"""Reference implementations of the objectives, slow and simple.

    F(w) = 1/2 |w|^2 + C sum_i s_i max_y^ [ Delta(y_i, y^) + <w, Psi(x_i, y^) - Psi(x_i, y_i)> ]

They share no code with the solvers, risks, losses or compiled functions, and call only the methods of a
:class:`~maxmargin.tasks.Task` that a user writes. Sums over examples are correctly rounded
(:func:`math.fsum`), so only the scores of single rows have rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, SparseVector, Vector
from maxmargin.tasks.base import Bounded, Task

Rescaling: TypeAlias = Literal["margin", "slack"]
Outputs: TypeAlias = Callable[[Any], Iterable[Any]]

#: rows per block, to keep temporary arrays small
BLOCK = 8192


# -- vector inputs ---------------------------------------------------------------------------------


def binary_objective(
    coef: npt.ArrayLike,
    intercept: float,
    X: Any,
    y_signed: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
) -> float:
    """The objective of the linear SVM with hinge loss.

    Parameters
    ----------
    coef : array of shape (d,) or (1, d)
        Weights.
    intercept : float
        Added to every score. A penalized intercept is the weight ``intercept / intercept_scaling`` of a
        constant feature with the value ``intercept_scaling``; the penalty applies to that weight.
    X : array or scipy sparse matrix of shape (n, d)
        Rows.
    y_signed : array of shape (n,)
        Labels, -1 or +1.
    C : float
        Weight of the *sum* of losses.
    weight : array of shape (n,), optional
        Weights of the examples.
    intercept_scaling : float
        Value of the constant feature.
    penalize_intercept : bool
        Whether the intercept is penalized.

    Returns
    -------
    float
        ``|w|^2 / 2 + C sum_i s_i max(0, 1 - y_i (<w, x_i> + b))``.

    Examples
    --------
    >>> from maxmargin.testing import binary_objective
    >>> binary_objective([1.0], 0.0, [[2.0], [0.5]], [1, 1], C=10.0)
    5.5
    """
    w = np.asarray(coef, dtype=np.float64).ravel()
    y = np.asarray(y_signed, dtype=np.float64)
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError("y_signed must contain -1 and +1 only")
    b = float(np.asarray(intercept, dtype=np.float64).reshape(()))
    s = example_weights(weight, len(y))
    parts: list[float] = []
    for rows, block in _blocks(X, len(w)):
        scores = np.asarray(block @ w).ravel() + b
        parts.extend((s[rows] * np.maximum(0.0, 1.0 - y[rows] * scores)).tolist())
    if len(parts) != len(y):
        raise ValueError(f"X has {len(parts)} rows, but y_signed has {len(y)} labels")
    penalty = _penalty(w, b, intercept_scaling, penalize_intercept)
    return penalty + C * math.fsum(parts)


def multiclass_objective(
    coef: npt.ArrayLike,
    intercept: npt.ArrayLike,
    X: Any,
    y_index: npt.ArrayLike,
    C: float,
    cost: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
) -> float:
    """The objective of Crammer and Singer's multiclass SVM with any cost matrix.

    Parameters
    ----------
    coef : array of shape (K, d)
        One row of weights per class.
    intercept : array of shape (K,) or float
        Added to the scores of the classes; see :func:`binary_objective` for its penalty.
    X : array or scipy sparse matrix of shape (n, d)
        Rows.
    y_index : array of shape (n,)
        Classes, 0 .. K-1.
    C : float
        Weight of the sum of losses.
    cost : array of shape (K, K), optional
        ``cost[i, j]`` is the cost of predicting class j when the true class is i; 0/1 by default.
    weight : array of shape (n,), optional
        Weights of the examples.
    intercept_scaling, penalize_intercept
        As in :func:`binary_objective`.

    Returns
    -------
    float
        ``sum_k |w_k|^2 / 2 + C sum_i s_i max_k [cost[y_i, k] + s_ik - s_iy_i]``.

    Examples
    --------
    >>> from maxmargin.testing import multiclass_objective
    >>> multiclass_objective([[1.0], [-1.0]], 0.0, [[0.25], [-3.0]], [0, 1], C=4.0)
    3.0
    """
    W = np.asarray(coef, dtype=np.float64)
    y = np.asarray(y_index, dtype=np.int64)
    n_classes = len(W)
    b = np.broadcast_to(np.asarray(intercept, dtype=np.float64), (n_classes,))
    costs = cost_matrix(cost, n_classes)
    s = example_weights(weight, len(y))
    parts: list[float] = []
    for rows, block in _blocks(X, W.shape[1]):
        scores = np.asarray(block @ W.T) + b
        truth = y[rows]
        own = scores[np.arange(len(truth)), truth]
        worst = (costs[truth] + scores - own[:, None]).max(axis=1)
        parts.extend((s[rows] * worst).tolist())
    if len(parts) != len(y):
        raise ValueError(f"X has {len(parts)} rows, but y_index has {len(y)} labels")
    penalty = math.fsum(_half_square(row) for row in W)
    if penalize_intercept:
        penalty += _half_square(b / intercept_scaling)
    return penalty + C * math.fsum(parts)


def regression_objective(
    coef: npt.ArrayLike,
    intercept: float,
    X: Any,
    y: npt.ArrayLike,
    C: float,
    epsilon: float | npt.ArrayLike = 0.0,
    weight: npt.ArrayLike | None = None,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
    squared: bool = False,
) -> float:
    """The objective of linear support vector regression.

    Parameters
    ----------
    coef : array of shape (d,)
        Weights.
    intercept : float
        Added to every score; see :func:`binary_objective` for its penalty.
    X : array or scipy sparse matrix of shape (n, d)
        Rows.
    y : array of shape (n,)
        Targets.
    C : float
        Weight of the sum of losses.
    epsilon : float or array of shape (n,)
        The epsilon of the epsilon-insensitive loss, common or per sample.
    weight : array of shape (n,), optional
        Weights of the examples.
    intercept_scaling, penalize_intercept
        As in :func:`binary_objective`.
    squared : bool
        Whether the losses are squared.

    Returns
    -------
    float
        ``|w|^2 / 2 + C sum_i s_i max(0, |y_i - <w, x_i> - b| - epsilon_i)``, or with squared losses.

    Examples
    --------
    >>> from maxmargin.testing import regression_objective
    >>> regression_objective([1.0], 0.0, [[2.0], [0.5]], [3.0, 0.4], C=10.0, epsilon=0.25)
    8.0
    """
    w, target = np.asarray(coef, dtype=np.float64).ravel(), np.asarray(y, dtype=np.float64)
    b = float(np.asarray(intercept, dtype=np.float64).reshape(()))
    off = np.abs(target - np.asarray(X @ w).ravel() - b)
    losses = np.maximum(0.0, off - np.asarray(epsilon, dtype=np.float64)) ** (2 if squared else 1)
    penalty = _penalty(w, b, intercept_scaling, penalize_intercept)
    return penalty + C * math.fsum(example_weights(weight, len(target)) * losses)


def kernel_objective(
    K: Any,
    y_signed: npt.ArrayLike,
    C: float,
    coef: npt.ArrayLike,
    intercept: float,
    weight: npt.ArrayLike | None = None,
) -> float:
    """The objective F of the function ``K @ coef + intercept``, in extended precision.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel values between all samples, if possible in extended precision.
    y_signed : array of shape (n,)
        Labels, -1 or +1.
    C : float
        Weight of the sum of losses.
    coef : array of shape (n,)
        Coefficients of all samples.
    intercept : float
        The intercept.
    weight : array of shape (n,), optional
        Weights of the samples.

    Returns
    -------
    float
        ``1/2 |f|^2 + C sum_i weight_i max(0, 1 - y_i (f(x_i) + b))``.

    Examples
    --------
    >>> from maxmargin.testing import kernel_objective
    >>> kernel_objective([[1.0, 0.0], [0.0, 1.0]], [1, -1], 10.0, [0.5, -0.5], 0.0)
    10.25
    """
    long = np.longdouble
    K, v, y = (np.asarray(part, dtype=long) for part in (K, coef, y_signed))
    caps = long(C) * example_weights(weight, len(y)).astype(long)
    f = K @ v
    return float(v @ f / 2 + caps @ np.maximum(0, 1 - y * (f + long(intercept))))


# -- structured outputs -----------------------------------------------------------------------------


def structured_objective(
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
    w: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    rescaling: Rescaling = "margin",
) -> float:
    """The structured objective, by the argmax of the task, one example at a time.

    Every maximum includes the true output, whose value is 0. If the argmax is inexact or leaves a gap,
    the result is a lower bound of F(w).

    Parameters
    ----------
    task : Task
        A task after ``setup``.
    X, Y : sequences
        Inputs and true outputs.
    w : array of shape (dim,)
        The weights.
    C : float
        Weight of the sum of losses.
    weight : array of shape (n,), optional
        Weights of the examples.
    rescaling : {"margin", "slack"}
        The loss rescaling.

    Returns
    -------
    float
        F(w).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import Chain
    >>> from maxmargin.testing import structured_objective
    >>> task, X, Y = Chain(n_labels=2), [np.eye(2)], [np.array([0, 1])]
    >>> dim = task.setup(X, Y)
    >>> structured_objective(task, X, Y, np.zeros(dim), C=1.0)
    2.0
    """
    point = np.asarray(w, dtype=np.float64)
    worst = []
    margin = rescaling == "margin"
    oracle = task.loss_augmented_inference if margin else task.slack_augmented_inference
    for x, y in zip(X, Y, strict=True):
        y_hat = unwrap(oracle(x, y, point))
        worst.append(max(0.0, violation(task, x, y, y_hat, point, rescaling)))
    return objective(point, C, worst, weight)


def brute_force_inference(
    task: Task,
    x: Any,
    w: npt.ArrayLike,
    outputs: Outputs,
    y: Any = None,
    rescaling: Rescaling = "margin",
) -> tuple[Any, float]:
    """The best output by brute force, and its value.

    Parameters
    ----------
    task : Task
        A task after ``setup``; only ``joint_feature`` and ``loss`` are called.
    x : object
        The input.
    w : array of shape (dim,)
        The weights.
    outputs : callable
        ``outputs(x)`` yields every output of ``x``.
    y : object, optional
        The true output. Without it, the score is maximized.
    rescaling : {"margin", "slack"}
        The loss rescaling; used if ``y`` is given.

    Returns
    -------
    y_hat : object
        The best output; the first of several.
    value : float
        Without ``y``, the score ``<w, Psi(x, y^)>``. With ``y``, the violation
        ``Delta + <w, Psi(x, y^) - Psi(x, y)>`` (margin) or ``Delta (1 + <w, ...>)`` (slack).
    """
    point = np.asarray(w, dtype=np.float64)
    best: Any = None
    best_value = -math.inf
    for y_hat in outputs(x):
        if y is None:
            value = score(task, x, y_hat, point)
        else:
            value = violation(task, x, y, y_hat, point, rescaling)
        if value > best_value:
            best, best_value = y_hat, value
    if best_value == -math.inf:
        raise ValueError("outputs(x) yielded no output with a finite value")
    return best, best_value


# -- helpers ---------------------------------------------------------------------------------------


def dense(v: Vector) -> Array:
    """Convert a vector to a dense float64 array."""
    return v.to_dense() if isinstance(v, SparseVector) else np.asarray(v, dtype=np.float64)


def score(task: Task, x: Any, y: Any, w: Array) -> float:
    """``<w, Psi(x, y)>``, correctly rounded."""
    psi = task.joint_feature(x, y)
    if isinstance(psi, SparseVector):
        return math.fsum((psi.values * w[psi.indices]).tolist())
    return math.fsum((np.asarray(psi, dtype=np.float64) * w).tolist())


def violation(
    task: Task, x: Any, y: Any, y_hat: Any, w: Array, rescaling: Rescaling = "margin"
) -> float:
    """The value of ``y_hat`` in the maximum of example (x, y)."""
    delta = float(task.loss(y, y_hat))
    ahead = score(task, x, y_hat, w) - score(task, x, y, w)
    if rescaling == "margin":
        return delta + ahead
    if rescaling == "slack":
        return delta * (1.0 + ahead)
    raise ValueError(f"rescaling must be 'margin' or 'slack', got {rescaling!r}")


def unwrap(answer: object) -> Any:
    """The output in the answer of an argmax, which may be a :class:`~maxmargin.tasks.Bounded`."""
    return answer.y if isinstance(answer, Bounded) else answer


def objective(
    w: Array, C: float, values: Sequence[float], weight: npt.ArrayLike | None = None
) -> float:
    """``|w|^2 / 2 + C sum_i weight_i values_i``, with correctly rounded sums."""
    weights = example_weights(weight, len(values)).tolist()
    return _half_square(w) + C * math.fsum(s * v for s, v in zip(weights, values, strict=True))


def _penalty(w: Array, b: float, scaling: float, penalized: bool) -> float:
    return _half_square(w) + (0.5 * (b / scaling) ** 2 if penalized else 0.0)


def _half_square(w: Array) -> float:
    return 0.5 * math.fsum((w * w).tolist())


def example_weights(weight: npt.ArrayLike | None, n: int) -> Array:
    """The weights of the examples; ones by default."""
    if weight is None:
        return np.ones(n)
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weight has shape {weights.shape}, expected ({n},)")
    return weights


def cost_matrix(cost: npt.ArrayLike | None, n_classes: int) -> Array:
    """The cost matrix, 0/1 by default."""
    if cost is None:
        return 1.0 - np.eye(n_classes)
    costs = np.asarray(cost, dtype=np.float64)
    if costs.shape != (n_classes, n_classes) or np.diag(costs).any():
        raise ValueError(f"cost must be {n_classes} x {n_classes} with a zero diagonal")
    return costs


def _blocks(X: Any, n_features: int) -> Iterator[tuple[slice, Any]]:
    """Row blocks of a dense or sparse matrix, as float64."""
    # SciPy sparse matrices and arrays have the method tocsr
    rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"X has shape {rows.shape}, expected (n, {n_features})")
    for start in range(0, rows.shape[0], BLOCK):
        part = slice(start, min(start + BLOCK, rows.shape[0]))
        yield part, rows[part].astype(np.float64)
