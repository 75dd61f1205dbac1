"""Optima of small problems by an independent interior-point solver (clarabel).

Each function lists all constraints of its problem. :mod:`maxmargin.testing.max_affine` solves it and proves
optimality.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array
from maxmargin.tasks.base import Task
from maxmargin.testing.max_affine import AffineMax, solve_max_affine
from maxmargin.testing.reference import (
    Outputs,
    Rescaling,
    cost_matrix,
    dense,
    example_weights,
)


def solve_binary_qp(
    X: Any,
    y_signed: npt.ArrayLike,
    C: float,
    weight: npt.ArrayLike | None = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
    margin: npt.ArrayLike | None = None,
) -> tuple[float, Array]:
    """The optimum of the linear SVM with hinge loss.

    Parameters
    ----------
    X : array or scipy sparse matrix of shape (n, d)
        Rows; small (the problem has n + d variables).
    y_signed : array of shape (n,)
        Labels, -1 or +1.
    C : float
        Weight of the sum of losses.
    weight : array of shape (n,), optional
        Weights of the examples.
    fit_intercept : bool
        Whether there is an intercept.
    intercept_scaling, penalize_intercept
        As in :func:`~maxmargin.testing.binary_objective`.
    margin : array of shape (n,), optional
        The required margin of each sample; 1 by default.

    Returns
    -------
    F_star : float
        The optimal value.
    w : array of shape (d,) or (d + 1,)
        A minimizer; with an intercept its last entry is the intercept.

    Examples
    --------
    >>> from maxmargin.testing import solve_binary_qp
    >>> F, w = solve_binary_qp([[1.0], [-1.0]], [1, -1], C=10.0, fit_intercept=False)
    >>> round(F, 6), w.round(6).tolist()
    (0.5, [1.0])
    """
    rows, penalized = _with_intercept(X, fit_intercept, intercept_scaling, penalize_intercept)
    y = np.asarray(y_signed, dtype=np.float64)
    n = len(y)
    problem = AffineMax(
        planes=sp.csr_matrix(sp.diags(-y) @ rows),
        offsets=np.ones(n) if margin is None else np.asarray(margin, dtype=np.float64),
        groups=np.arange(n),
        caps=C * example_weights(weight, n),
        penalized=penalized,
    )
    value, w = solve_max_affine(problem)
    if fit_intercept:
        w[-1] *= intercept_scaling
    return value, w


def solve_multiclass_qp(
    X: Any,
    y_index: npt.ArrayLike,
    C: float,
    cost: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    n_classes: int | None = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
    margin: npt.ArrayLike | None = None,
) -> tuple[float, Array]:
    """The optimum of Crammer and Singer's multiclass SVM.

    Parameters
    ----------
    X, C, weight, fit_intercept, intercept_scaling, penalize_intercept
        As in :func:`solve_binary_qp`.
    y_index : array of shape (n,)
        Classes, 0 .. K-1.
    cost : array of shape (K, K), optional
        ``cost[i, j]`` is the cost of predicting class j when the true class is i; 0/1 by default.
    n_classes : int, optional
        K. The default is the size of ``cost``, or one more than the largest class in ``y_index``.
    margin : array of shape (n,), optional
        Multipliers of the costs of each sample; 1 by default.

    Returns
    -------
    F_star : float
        The optimal value.
    w : array of shape (K, d) or (K, d + 1)
        A minimizer; with an intercept its last column holds the intercepts.

    Examples
    --------
    >>> from maxmargin.testing import solve_multiclass_qp
    >>> F, w = solve_multiclass_qp([[1.0], [-1.0]], [0, 1], C=10.0, fit_intercept=False)
    >>> round(F, 6), w.round(6).ravel().tolist()
    (0.25, [0.5, -0.5])
    """
    rows, penalized = _with_intercept(X, fit_intercept, intercept_scaling, penalize_intercept)
    y = np.asarray(y_index, dtype=np.int64)
    n = len(y)
    if n_classes is None:
        n_classes = int(y.max()) + 1 if cost is None else len(np.asarray(cost))
    costs = cost_matrix(cost, n_classes)
    # row (i, k) of the planes is x_i in block k minus x_i in block y_i; k = y_i is the zero plane
    example = np.repeat(np.arange(n), n_classes)
    other = np.tile(np.arange(n_classes), n)
    keep = other != y[example]
    example, other = example[keep], other[keep]
    blocks = [
        sp.csr_matrix(sp.diags((other == k).astype(float) - (y[example] == k)) @ rows[example])
        for k in range(n_classes)
    ]
    problem = AffineMax(
        planes=sp.csr_matrix(sp.hstack(blocks)),
        offsets=costs[y[example], other] * (1.0 if margin is None else np.asarray(margin)[example]),
        groups=example,
        caps=C * example_weights(weight, n),
        penalized=np.tile(penalized, n_classes),
    )
    value, flat = solve_max_affine(problem)
    w = flat.reshape(n_classes, -1)
    if fit_intercept:
        w[:, -1] *= intercept_scaling
    return value, w


def solve_regression_qp(
    X: Any,
    y: npt.ArrayLike,
    C: float,
    epsilon: float | npt.ArrayLike = 0.0,
    weight: npt.ArrayLike | None = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
) -> tuple[float, Array]:
    """The optimum of linear support vector regression with the epsilon-insensitive loss.

    Parameters
    ----------
    X, C, weight, fit_intercept, intercept_scaling, penalize_intercept
        As in :func:`solve_binary_qp`.
    y : array of shape (n,)
        Targets.
    epsilon : float or array of shape (n,)
        The epsilon of the epsilon-insensitive loss, common or per sample.

    Returns
    -------
    F_star : float
        The optimal value.
    w : array of shape (d,) or (d + 1,)
        A minimizer; with an intercept its last entry is the intercept.

    Examples
    --------
    >>> from maxmargin.testing import solve_regression_qp
    >>> F, w = solve_regression_qp([[1.0], [2.0]], [1.0, 2.0], C=10.0, epsilon=0.5, fit_intercept=False)
    >>> round(F, 5), w.round(5).tolist()
    (0.28125, [0.75])
    """
    rows, penalized = _with_intercept(X, fit_intercept, intercept_scaling, penalize_intercept)
    target = np.asarray(y, dtype=np.float64)
    n = len(target)
    width = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (n,))
    problem = AffineMax(
        planes=sp.csr_matrix(sp.vstack([-rows, rows])),
        offsets=np.concatenate([target - width, -target - width]),
        groups=np.tile(np.arange(n), 2),
        caps=C * example_weights(weight, n),
        penalized=penalized,
    )
    value, w = solve_max_affine(problem)
    if fit_intercept:
        w[-1] *= intercept_scaling
    return value, w


def solve_structured_qp(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    C: float,
    outputs: Outputs,
    weight: npt.ArrayLike | None = None,
    rescaling: Rescaling = "margin",
    dim: int | None = None,
    nonnegative: npt.ArrayLike = (),
    fixed: Mapping[int, float] | None = None,
) -> tuple[float, Array]:
    """The optimum of a structured problem whose outputs can be enumerated.

    Parameters
    ----------
    task : Task
        A task; only ``setup`` (if ``dim`` is not given), ``joint_feature`` and ``loss`` are called.
    X, Y : sequences
        Inputs and true outputs.
    C : float
        Weight of the sum of losses.
    outputs : callable
        ``outputs(x)`` yields every output of ``x``.
    weight : array of shape (n,), optional
        Weights of the examples.
    rescaling : {"margin", "slack"}
        The loss rescaling.
    dim : int, optional
        Dimension of the joint features. Pass it if ``setup`` was already called.
    nonnegative : array of int
        Indices of weights that must be nonnegative.
    fixed : mapping from index to value, optional
        Weights that are fixed; they are not penalized.

    Returns
    -------
    F_star : float
        The optimal value, without the norm of the fixed weights.
    w : array of shape (dim,)
        The minimizer, fixed weights included.

    Examples
    --------
    >>> import itertools
    >>> import numpy as np
    >>> from maxmargin.tasks import Chain
    >>> from maxmargin.testing import solve_structured_qp
    >>> X, Y = [np.array([[1.0]]), np.array([[-1.0]])], [np.array([0]), np.array([1])]
    >>> def outputs(x):
    ...     return itertools.product([0, 1], repeat=len(x))
    >>> F, w = solve_structured_qp(Chain(n_labels=2), X, Y, 10.0, outputs)
    >>> round(F, 6)
    0.25
    """
    if rescaling not in ("margin", "slack"):
        raise ValueError(f"rescaling must be 'margin' or 'slack', got {rescaling!r}")
    size = task.setup(X, Y) if dim is None else dim
    rows: list[sp.csr_matrix] = []
    offsets: list[float] = []
    groups: list[int] = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        own = dense(task.joint_feature(x, y))
        for y_hat in outputs(x):
            delta = float(task.loss(y, y_hat))
            plane = dense(task.joint_feature(x, y_hat)) - own
            rows.append(sp.csr_matrix(plane if rescaling == "margin" else delta * plane))
            offsets.append(delta)
            groups.append(i)
    planes = sp.csr_matrix(sp.vstack(rows))
    held = np.zeros(size)
    learned = np.ones(size, dtype=bool)
    for index, value in (fixed or {}).items():
        held[index], learned[index] = value, False
    problem = AffineMax(
        planes=planes[:, learned],
        offsets=np.array(offsets) + planes @ held,
        groups=np.array(groups, dtype=np.int64),
        caps=C * example_weights(weight, len(X)),
        penalized=np.ones(int(learned.sum()), dtype=bool),
        nonnegative=np.flatnonzero(np.isin(np.flatnonzero(learned), nonnegative)),
    )
    value, held[learned] = solve_max_affine(problem)
    return value, held


def _with_intercept(
    X: Any, fit_intercept: bool, intercept_scaling: float, penalize_intercept: bool
) -> tuple[sp.csr_matrix, npt.NDArray[np.bool_]]:
    """The rows, with a constant feature if there is an intercept, and which features are penalized."""
    rows = sp.csr_matrix(X if sp.issparse(X) else np.asarray(X, dtype=np.float64), dtype=np.float64)
    n, d = rows.shape
    if not fit_intercept:
        return rows, np.ones(d, dtype=bool)
    rows = sp.csr_matrix(sp.hstack([rows, np.full((n, 1), intercept_scaling)]))
    return rows, np.append(np.ones(d, dtype=bool), penalize_intercept)
