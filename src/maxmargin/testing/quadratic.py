"""Exact optima of small problems by an independent interior-point solver (clarabel).

Each function lists all constraints of its problem and hands them to
:mod:`maxmargin.testing.max_affine`, which solves and proves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array, SparseVector, Vector
from maxmargin.tasks.base import Task
from maxmargin.testing.max_affine import AffineMax, prove_optimum, solve_max_affine
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
        What is asked of each row in place of 1.

    Returns
    -------
    F_star : float
        The optimal value.
    w : array of shape (d,) or (d + 1,)
        A minimiser; with an intercept its last entry is the intercept itself, already scaled.

    Examples
    --------
    >>> from maxmargin.testing import solve_binary_qp
    >>> F, w = solve_binary_qp([[1.0], [-1.0]], [1, -1], C=10.0, fit_intercept=False)
    >>> round(F, 6), w.round(6).tolist()
    (0.5, [1.0])
    """
    rows = _csr(X)
    y = np.asarray(y_signed, dtype=np.float64)
    n, d = rows.shape
    if fit_intercept:
        rows = sp.csr_matrix(sp.hstack([rows, np.full((n, 1), intercept_scaling)]))
    problem = AffineMax(
        planes=sp.csr_matrix(sp.diags_array(-y) @ rows),
        offsets=np.ones(n) if margin is None else np.asarray(margin, dtype=np.float64),
        groups=np.arange(n),
        caps=C * example_weights(weight, n),
        penalized=np.arange(rows.shape[1]) < (d if not penalize_intercept else d + 1),
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
        ``cost[truth, predicted]`` with a zero diagonal; 0/1 by default.
    n_classes : int, optional
        K; by default that of ``cost``, or one more than the largest class seen.
    margin : array of shape (n,), optional
        Factors of the rows' costs.

    Returns
    -------
    F_star : float
        The optimal value.
    w : array of shape (K, d) or (K, d + 1)
        A minimiser; with an intercept its last column holds the intercepts.

    Examples
    --------
    >>> from maxmargin.testing import solve_multiclass_qp
    >>> F, w = solve_multiclass_qp([[1.0], [-1.0]], [0, 1], C=10.0, fit_intercept=False)
    >>> round(F, 6), w.round(6).ravel().tolist()
    (0.25, [0.5, -0.5])
    """
    rows = _csr(X)
    y = np.asarray(y_index, dtype=np.int64)
    n, d = rows.shape
    if n_classes is None:
        n_classes = int(y.max()) + 1 if cost is None else len(np.asarray(cost))
    if fit_intercept:
        rows = sp.csr_matrix(sp.hstack([rows, np.full((n, 1), intercept_scaling)]))
    width = rows.shape[1]
    costs = cost_matrix(cost, n_classes)
    # row (i, k) of the planes is x_i in block k minus x_i in block y_i; k = y_i is the zero plane
    example = np.repeat(np.arange(n), n_classes)
    other = np.tile(np.arange(n_classes), n)
    keep = other != y[example]
    example, other = example[keep], other[keep]
    blocks = [
        sp.csr_matrix(
            sp.diags_array((other == k).astype(float) - (y[example] == k)) @ rows[example]
        )
        for k in range(n_classes)
    ]
    penalized = np.tile(np.arange(width) < (width if penalize_intercept else d), n_classes)
    problem = AffineMax(
        planes=sp.csr_matrix(sp.hstack(blocks)),
        offsets=costs[y[example], other] * (1.0 if margin is None else np.asarray(margin)[example]),
        groups=example,
        caps=C * example_weights(weight, n),
        penalized=penalized,
    )
    value, flat = solve_max_affine(problem)
    w = flat.reshape(n_classes, width)
    if fit_intercept:
        w[:, -1] *= intercept_scaling
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
    """The optimum of a structured problem whose outputs can be listed.

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
        How loss and score difference are joined.
    dim : int, optional
        Dimension of the joint features, where ``setup`` was called before.
    nonnegative : array of int
        Weights that must not be negative.
    fixed : mapping from index to value, optional
        Weights that are not learned; they are not penalised either.

    Returns
    -------
    F_star : float
        The optimal value, without the fixed weights' share of the norm.
    w : array of shape (dim,)
        The minimiser, fixed weights included.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.testing import solve_structured_qp
    >>> from maxmargin.testing.examples import TinyMulticlass
    >>> task = TinyMulticlass()
    >>> X = [np.array([1.0]), np.array([-1.0])]
    >>> F, w = solve_structured_qp(task, X, [0, 1], 10.0, task.outputs)
    >>> round(F, 6), w.round(6).tolist()
    (0.25, [0.5, -0.5])
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


def solve_reduced_qp(
    planes: Sequence[Vector] | Sequence[Sequence[float]] | Array,
    offsets: npt.ArrayLike,
    C: float | npt.ArrayLike,
    blocks: npt.ArrayLike | None = None,
    nonnegative: npt.ArrayLike = (),
) -> tuple[float, Array]:
    """The dual of a bundle: ``max <b, a> - |sum_j a_j p_j|^2 / 2``, a >= 0, ``sum a <= C`` per block.

    Parameters
    ----------
    planes : array of shape (t, dim), or sequence of vectors
        One plane per row. The zero plane need not be among them.
    offsets : array of shape (t,)
        The planes' offsets.
    C : float or array of shape (n_blocks,)
        Cap of each block's sum.
    blocks : array of shape (t,), optional
        The block of each plane, 0, 1, ...; one block by default.
    nonnegative : array of int
        Coordinates that must not be negative: there only ``sum_j a_j p_j < 0`` counts.

    Returns
    -------
    value : float
        The optimal value, exactly feasible: a lower bound of the problem the planes came from.
    alpha : array of shape (t,)
        Feasible multipliers that attain ``value``; ``w = - sum_j alpha_j p_j``.

    Examples
    --------
    >>> from maxmargin.testing import solve_reduced_qp
    >>> value, alpha = solve_reduced_qp([[-1.0, 0.0], [0.0, -2.0]], [1.0, 1.0], C=10.0)
    >>> round(value, 6), alpha.round(6).tolist()
    (0.625, [1.0, 0.25])
    """
    rows = _planes(planes)
    t = rows.shape[0]
    group = np.zeros(t, np.int64) if blocks is None else np.asarray(blocks, dtype=np.int64)
    caps = np.array(np.broadcast_to(np.asarray(C, dtype=np.float64), (int(group.max()) + 1,)))
    problem = AffineMax(
        rows,
        np.asarray(offsets, dtype=np.float64),
        group,
        caps,
        np.ones(rows.shape[1], dtype=bool),
        np.asarray(nonnegative, dtype=np.int64),
    )
    solution = prove_optimum(problem)
    return solution.lower, solution.alpha


def _csr(X: Any) -> sp.csr_matrix:
    return sp.csr_matrix(X if sp.issparse(X) else np.asarray(X, dtype=np.float64), dtype=np.float64)


def _planes(planes: Sequence[Vector] | Sequence[Sequence[float]] | Array) -> sp.csr_matrix:
    if isinstance(planes, np.ndarray):
        return _csr(planes)
    rows = [dense(p) if isinstance(p, SparseVector) else np.asarray(p, float) for p in planes]
    return _csr(np.vstack(rows))
