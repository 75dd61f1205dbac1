"""Optima of the problems that tests fit: each function lists all terms of its problem.

Outputs are enumerated. With an intercept, its weight is the last one, times ``intercept_scaling``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference_optima.optimum import optimum, program_of
from tests.reference_optima.program import Array


def dense(v: Any) -> Array:
    """A dense vector or matrix; ``v`` may be sparse in SciPy's or in the library's form."""
    for name in ("to_dense", "toarray"):
        if hasattr(v, name):
            v = getattr(v, name)()
    return np.asarray(v, dtype=float)


def weights_of(weight: Any, n: int) -> Array:
    """The weights of the examples; ones by default."""
    return np.ones(n) if weight is None else np.asarray(weight, dtype=float)


def _with_intercept(X: Any, fit_intercept: bool, scaling: float, penalize: bool) -> tuple[Any, Any]:
    """The rows, with a constant feature if there is an intercept, and which features are penalized."""
    rows = dense(X)
    if not fit_intercept:
        return rows, np.ones(rows.shape[1])
    ones = np.full((len(rows), 1), scaling)
    return np.hstack([rows, ones]), np.append(np.ones(rows.shape[1]), float(penalize))


def solve_binary_qp(
    X: Any,
    y_signed: Any,
    C: float,
    weight: Any = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
    margin: Any = None,
) -> tuple[float, Array]:
    """(F*, w) of the linear SVM with hinge loss."""
    rows, penalized = _with_intercept(X, fit_intercept, intercept_scaling, penalize_intercept)
    y = np.asarray(y_signed, dtype=float)
    n = len(y)
    offsets = np.ones(n) if margin is None else margin
    cost = C * weights_of(weight, n)
    found = optimum(program_of(-y[:, None] * rows, offsets, np.arange(n), cost, penalized))
    found.z[-1] *= intercept_scaling if fit_intercept else 1.0
    return found.upper, found.z


def solve_multiclass_qp(
    X: Any,
    y_index: Any,
    C: float,
    cost: Any = None,
    weight: Any = None,
    n_classes: int | None = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
    margin: Any = None,
) -> tuple[float, Array]:
    """(F*, W) of Crammer and Singer's multiclass SVM; ``margin`` multiplies the costs of each sample."""
    rows, penalized = _with_intercept(X, fit_intercept, intercept_scaling, penalize_intercept)
    y = np.asarray(y_index, dtype=np.int64)
    n, d = rows.shape
    K = n_classes or (int(y.max()) + 1 if cost is None else len(cost))
    costs = 1.0 - np.eye(K) if cost is None else np.asarray(cost, dtype=float)
    # the plane of (i, k) is x_i in block k minus x_i in block y_i; that of k = y_i is zero
    i, k = (index.ravel() for index in np.indices((n, K)))
    i, k = i[k != y[i]], k[k != y[i]]
    planes = np.zeros((len(i), K, d))
    planes[np.arange(len(i)), k] = rows[i]
    planes[np.arange(len(i)), y[i]] = -rows[i]
    offsets = costs[y[i], k] * (1.0 if margin is None else np.asarray(margin)[i])
    found = optimum(
        program_of(
            planes.reshape(len(i), -1), offsets, i, C * weights_of(weight, n), np.tile(penalized, K)
        )
    )
    W = found.z.reshape(K, -1)
    W[:, -1] *= intercept_scaling if fit_intercept else 1.0
    return found.upper, W


def solve_regression_qp(
    X: Any,
    y: Any,
    C: float,
    epsilon: Any = 0.0,
    weight: Any = None,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    penalize_intercept: bool = True,
    quantile: float | None = None,
) -> tuple[float, Array]:
    """(F*, w) of linear regression with the epsilon-insensitive loss, or the pinball loss of a quantile."""
    rows, penalized = _with_intercept(X, fit_intercept, intercept_scaling, penalize_intercept)
    y = np.asarray(y, dtype=float)
    n = len(y)
    offsets = np.concatenate([y - epsilon, -y - epsilon])
    group, cost = np.tile(np.arange(n), 2), C * weights_of(weight, n)
    if quantile is not None:  # two losses per sample
        group, cost = np.arange(2 * n), np.concatenate([quantile * cost, (1.0 - quantile) * cost])
    found = optimum(program_of(np.vstack([-rows, rows]), offsets, group, cost, penalized))
    found.z[-1] *= intercept_scaling if fit_intercept else 1.0
    return found.upper, found.z


def terms_of(
    task: Any, X: Any, Y: Any, outputs: Any, rescaling: str = "margin"
) -> tuple[Any, Any, Any]:
    """The planes, offsets and examples of all outputs."""
    planes, offsets, examples = [], [], []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        own = dense(task.joint_feature(x, y))
        for y_hat in outputs(x):
            delta = float(task.loss(y, y_hat))
            plane = dense(task.joint_feature(x, y_hat)) - own
            planes.append(plane if rescaling == "margin" else delta * plane)
            offsets.append(delta)
            examples.append(i)
    return np.array(planes), np.array(offsets), np.array(examples)


def solve_structured_qp(
    task: Any,
    X: Any,
    Y: Any,
    C: float,
    outputs: Any,
    weight: Any = None,
    rescaling: str = "margin",
    dim: int | None = None,
    nonnegative: Any = (),
    fixed: dict[int, float] | None = None,
) -> tuple[float, Array]:
    """(F*, w) of a task; ``setup`` (without ``dim``), ``joint_feature`` and ``loss`` are called."""
    size = task.setup(X, Y) if dim is None else dim
    planes, offsets, examples = terms_of(task, X, Y, outputs, rescaling)
    w, learned = _held(size, fixed)
    signed = np.flatnonzero(np.isin(np.flatnonzero(learned), nonnegative))
    cost = C * weights_of(weight, len(X))
    found = optimum(
        program_of(planes[:, learned], offsets + planes @ w, examples, cost, None, signed)
    )
    w[learned] = found.z
    return found.upper, w


def _held(size: int, fixed: dict[int, float] | None) -> tuple[Array, Any]:
    """Weights with the fixed ones set, and which are learned."""
    w, learned = np.zeros(size), np.ones(size, dtype=bool)
    for index, value in (fixed or {}).items():
        w[index], learned[index] = value, False
    return w, learned


def brute_force_objective(
    task: Any, X: Any, Y: Any, w: Any, C: float, outputs: Any, weight: Any = None,
    rescaling: str = "margin",
) -> float:  # fmt: skip
    """F(w) of a task, with every maximum by brute force over all outputs."""
    planes, offsets, examples = terms_of(task, X, Y, outputs, rescaling)
    program = program_of(planes, offsets, examples, C * weights_of(weight, len(X)))
    return float(program.value(w)[0])


def solve_reduced_qp(
    planes: Any, offsets: Any, C: Any, blocks: Any = None, nonnegative: Any = ()
) -> tuple[float, Array]:
    """The dual of a bundle problem: max <b, a> - |sum_j a_j p_j|^2 / 2, a >= 0, sums of at most C by block.

    Returns the value and feasible multipliers that attain it. If a coordinate must be ``nonnegative``, only
    a negative sum_j a_j p_j counts there.
    """
    A = np.vstack([dense(p) for p in planes])
    group = np.zeros(len(A), np.int64) if blocks is None else np.asarray(blocks)
    caps = np.broadcast_to(np.asarray(C, dtype=float), (int(group.max()) + 1,))
    found = optimum(program_of(A, offsets, group, caps, None, nonnegative))
    return found.lower, found.alpha


# -- with a prior: 1/2 (w - m)' S^-1 (w - m), and weights that are fixed or signed ------------------


def solve_prior_qp(
    planes: Any,
    offsets: Any,
    group: Any,
    cost: Any,
    S: Any,
    m: Any,
    signs: Any = None,
    fixed: Any = None,
) -> tuple[float, Array]:
    """(F*, w); the constant share of the fixed weights in the penalty is left out."""
    size, P = len(m), np.linalg.inv(np.asarray(S, dtype=float))
    w, learned = _held(size, fixed)
    held = ~learned
    signs = (np.zeros(size) if signs is None else np.asarray(signs))[learned]
    # with the fixed weights given, the prior of the others has the precision P_ll and this center
    inner = P[np.ix_(learned, learned)]
    center = m[learned] - np.linalg.solve(inner, P[np.ix_(learned, held)] @ (w - m)[held])
    program = program_of(
        planes[:, learned],
        offsets + planes @ w,
        group,
        cost,
        center=center,
        precision=inner if (inner - np.diag(inner.diagonal())).any() else inner.diagonal(),
        lower=np.where(signs > 0, 0.0, -np.inf),
        upper=np.where(signs < 0, 0.0, np.inf),
    )
    found = optimum(program)
    w[learned] = found.z
    return found.upper, w


def solve_binary_prior_qp(
    X: Any, y: Any, C: float, S: Any, m: Any, *,
    weight: Any = None, signs: Any = None, fixed: Any = None, b0: float = 0.0, scaling: float = 1.0,
) -> tuple[float, Array, float]:  # fmt: skip
    """(F*, w, b) of the hinge loss with the penalty (b - b0)^2 / scaling^2 of the intercept."""
    n, d = X.shape
    full = np.zeros((d + 1, d + 1))
    full[:d, :d], full[d, d] = S, scaling**2
    signs = None if signs is None else np.append(signs, 0.0)
    planes = -y[:, None] * np.hstack([X, np.ones((n, 1))])
    cost = C * weights_of(weight, n)
    value, w = solve_prior_qp(
        planes, np.ones(n), np.arange(n), cost, full, np.append(m, b0), signs, fixed
    )
    return value, w[:d], w[d]


def solve_structured_prior_qp(
    task: Any, X: Any, Y: Any, C: float, S: Any, m: Any, *, signs: Any = None, fixed: Any = None
) -> tuple[float, Array]:
    """(F*, w) of a task whose outputs can be listed."""
    task.setup(X, Y)
    terms = terms_of(task, X, Y, task.outputs)
    return solve_prior_qp(*terms, np.full(len(X), C), S, m, signs, fixed)
