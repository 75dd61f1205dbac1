"""Support vector regression, written down once more and slowly: its objective, its optimum by clarabel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array
from maxmargin.testing.max_affine import AffineMax, solve_max_affine
from maxmargin.testing.reference import example_weights


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
        Added to every score; see :func:`~maxmargin.testing.binary_objective` for its penalty.
    X : array or scipy sparse matrix of shape (n, d)
        Rows.
    y : array of shape (n,)
        Targets.
    C : float
        Weight of the sum of losses.
    epsilon : float or array of shape (n,)
        Half the width of the tube, common or of each row.
    weight : array of shape (n,), optional
        Weights of the examples.
    intercept_scaling, penalize_intercept
        As in :func:`~maxmargin.testing.binary_objective`.
    squared : bool
        Whether the losses are squared.

    Returns
    -------
    float
        ``|w|^2 / 2 + C sum_i s_i max(0, |y_i - <w, x_i> - b| - epsilon_i)``, or with its squares.

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
    penalty = 0.5 * math.fsum(w * w)
    if penalize_intercept:
        penalty += 0.5 * (b / intercept_scaling) ** 2
    return penalty + C * math.fsum(example_weights(weight, len(target)) * losses)


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
    """The optimum of linear support vector regression with absolute errors.

    Parameters
    ----------
    X, C, weight, fit_intercept, intercept_scaling, penalize_intercept
        As in :func:`~maxmargin.testing.solve_binary_qp`.
    y : array of shape (n,)
        Targets.
    epsilon : float or array of shape (n,)
        Half the width of the tube, common or of each row.

    Returns
    -------
    F_star : float
        The optimal value.
    w : array of shape (d,) or (d + 1,)
        A minimiser; with an intercept its last entry is the intercept itself, already scaled.

    Examples
    --------
    >>> from maxmargin.testing import solve_regression_qp
    >>> F, w = solve_regression_qp([[1.0], [2.0]], [1.0, 2.0], C=10.0, epsilon=0.5, fit_intercept=False)
    >>> round(F, 5), w.round(5).tolist()
    (0.28125, [0.75])
    """
    rows = sp.csr_matrix(X, dtype=np.float64)
    target = np.asarray(y, dtype=np.float64)
    n, d = rows.shape
    if fit_intercept:
        rows = sp.csr_matrix(sp.hstack([rows, np.full((n, 1), intercept_scaling)]))
    width = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (n,))
    problem = AffineMax(
        planes=sp.csr_matrix(sp.vstack([-rows, rows])),
        offsets=np.concatenate([target - width, -target - width]),
        groups=np.tile(np.arange(n), 2),
        caps=C * example_weights(weight, n),
        penalized=np.arange(rows.shape[1]) < (d if not penalize_intercept else d + 1),
    )
    value, w = solve_max_affine(problem)
    if fit_intercept:
        w[-1] *= intercept_scaling
    return value, w
