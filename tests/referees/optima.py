"""Reference answers that only this project's own tests need; more are in ``maxmargin.testing``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array, Vector
from maxmargin.tasks.base import Task
from maxmargin.testing.max_affine import AffineMax, prove_optimum
from maxmargin.testing.reference import Outputs, Rescaling, brute_force_inference, dense, objective


def brute_force_objective(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    w: npt.ArrayLike,
    C: float,
    outputs: Outputs,
    weight: npt.ArrayLike | None = None,
    rescaling: Rescaling = "margin",
) -> float:
    """The structured objective, with every maximum by brute force over all outputs.

    Parameters
    ----------
    task, X, Y, w, C, weight, rescaling
        As in :func:`structured_objective`; the task's argmaxes are not called.
    outputs : callable
        ``outputs(x)`` yields every output of ``x``.

    Returns
    -------
    float
        F(w).
    """
    point = np.asarray(w, dtype=np.float64)
    worst = [
        max(0.0, brute_force_inference(task, x, point, outputs, y, rescaling)[1])
        for x, y in zip(X, Y, strict=True)
    ]
    return objective(point, C, worst, weight)


def solve_reduced_qp(
    planes: Sequence[Vector] | Sequence[Sequence[float]] | Array,
    offsets: npt.ArrayLike,
    C: float | npt.ArrayLike,
    blocks: npt.ArrayLike | None = None,
    nonnegative: npt.ArrayLike = (),
) -> tuple[float, Array]:
    """The dual of a bundle problem: ``max <b, a> - |sum_j a_j p_j|^2 / 2``, a >= 0, sum a <= C per block.

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
    >>> from tests.referees.optima import solve_reduced_qp
    >>> value, alpha = solve_reduced_qp([[-1.0, 0.0], [0.0, -2.0]], [1.0, 1.0], C=10.0)
    >>> round(value, 6), alpha.round(6).tolist()
    (0.625, [1.0, 0.25])
    """
    rows = sp.csr_matrix(np.vstack([dense(p) for p in planes]))
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
