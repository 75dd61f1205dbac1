"""Kernels on structures: the rows of the inputs are replaced by kernel features.

Where Psi(x, y) = sum_r row_r (x) e_r(y) + rest(y), an input with phi(row) in place of its rows has the
joint kernel

    <Psi(x, y), Psi(x', y')> = sum_rr' k(row_r, row'_r') <e_r(y), e_r'(y')> + <rest(y), rest(y')>.

Features that have the inner products of k on all rows of the training inputs (a Cholesky factor of their
kernel matrix) give the same problem, and the certificate stays "exact". Features of some rows, the
landmarks, give a problem with fewer functions: its objective is true, and the lower bound is that of the
"restricted" problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import check_dense, stacked
from maxmargin.core.result import SolveResult, relative_gap
from maxmargin.core.stopping import Bounds
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.base import stopping_rule
from maxmargin.estimators.kernel.lowrank import choose_landmarks
from maxmargin.estimators.weights import given_weight_parameters
from maxmargin.kernels import (
    EmpiricalMap,
    Kernel,
    KernelRows,
    Nystrom,
    NystromMap,
    center_of,
    make_kernel,
)
from maxmargin.kernels.features import KernelFeatures, complete_features, no_features
from maxmargin.kernels.rows import variance_of
from maxmargin.solvers.sampled import SampledCuts
from maxmargin.tasks.base import Task

#: attributes of a fit with a kernel, besides the certificate
ATTRIBUTES = (
    "kernel_method_",
    "restricted_lower_bound_",
    "restricted_gap_",
    "kernel_values_",
)
PARAMETERS = ("kernel", "gamma", "degree", "coef0", "kernel_method")
#: maximum size in bytes of the features of landmarks, if their number is not given
MEMORY = 2**30
#: rows mapped at a time when inputs are predicted
ROWS = 4096

Settings = EmpiricalMap | Nystrom | SampledCuts
_NAMED: dict[str, Settings] = {
    "map": EmpiricalMap(),
    "nystrom": Nystrom(),
    "sampled": SampledCuts(),
}


def require_kernel_inputs(task: Task) -> None:
    """Raise NotImplementedError, before any work is done, if a task does not support kernels."""
    own = type(task)
    if own.kernel_inputs is Task.kernel_inputs or own.with_kernel_inputs is Task.with_kernel_inputs:
        raise NotImplementedError(
            f"{own.__name__} cannot use a kernel: define kernel_inputs(x), the matrix of rows of x that the "
            "kernel acts on, and with_kernel_inputs(x, rows), the same input with other rows. The joint "
            "feature must be linear in these rows (maxmargin.testing.check_kernel_inputs tests it). Or leave "
            "out kernel=."
        )


def check_kernel(estimator: Any) -> None:
    """Raise ValueError for parameters that cannot be combined."""
    if estimator.kernel is None:
        return
    given = given_weight_parameters(estimator)
    if given:
        raise ValueError(
            f"{', '.join(given)}: weights of single features do not exist with a kernel. Leave out kernel=, "
            "or these parameters."
        )


def is_sampled(estimator: Any) -> bool:
    """Whether the problem with a kernel is solved by sampled cuts."""
    method = getattr(estimator, "kernel_method", None)
    return estimator.kernel is not None and (method == "sampled" or isinstance(method, SampledCuts))


def forget_kernel(estimator: Any) -> None:
    """Remove attributes that an earlier fit with a kernel set."""
    for name in ATTRIBUTES:
        if hasattr(estimator, name):
            delattr(estimator, name)


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """The kernel features of a fit, those of its rows, and what the bounds guarantee."""

    features: KernelFeatures
    #: one row per training row; half of the entries are zero if all rows are in the basis
    rows: Array
    #: how many rows each example has
    counts: IntArray
    claim: Literal["exact", "restricted", "measured"]
    why: str
    #: for "exact": a bound of the norm of K - rows rows'
    error: float = 0.0

    def keep(self, estimator: Any, result: SolveResult, caps: Array) -> None:
        """Store the certificate of this fit."""
        estimator.kernel_method_ = self.why
        if self.claim == "restricted":
            estimator.restricted_lower_bound_ = result.lower_bound
            estimator.restricted_gap_ = result.gap
        if self.claim == "exact":
            estimator._keep([self._less_rounding(estimator, result, caps)])
        else:
            estimator._keep([result.claiming(self.claim)])

    def _less_rounding(self, estimator: Any, result: SolveResult, caps: Array) -> SolveResult:
        """The result with bounds that allow for the rounding errors of the features.

        The dual value at multipliers of caps c_i changes by at most ``error / 2`` times the sum of the
        squared coefficients of rows. These are at most 2 c_i^2 for every row of example i if a row enters
        an output once. The optimum changes by the same amount at most. (F = 0 is attained at w = 0, where
        features have no effect.)
        """
        if result.objective == 0.0:
            return result
        allowance = self.error * float(caps**2 @ self.counts)
        lower, upper = result.lower_bound - allowance, result.objective + allowance
        bounds = Bounds(upper * (1.0 - 1e-12), lower, estimator.C)
        return replace(
            result,
            objective=upper,
            lower_bound=lower,
            gap=result.gap if not np.isfinite(result.gap) else relative_gap(upper, lower),
            converged=result.converged and stopping_rule(estimator.tol).met(bounds),
        )

    def folded(self, task: Task, w: Array) -> tuple[Array, KernelFeatures]:
        """Weights and features with the same predictions, in the smallest form that the task allows."""
        features = self.features
        less = None if features.factor is None else task.project_weights(w, features.factor)
        return (w, features) if less is None else (less, replace(features, factor=None))


def map_rows(estimator: Any, X: Any, counts: IntArray, seed: int) -> Mapped:
    """Features of all rows of the training inputs, for the kernel and method of the estimator."""
    n = X.shape[0]
    if n == 0:
        raise ValueError("kernel= requires inputs with rows, but all inputs are empty.")
    kernel = kernel_of(estimator, X)
    settings, why = _settings(estimator.kernel_method, n)
    definite = kernel.positive_semidefinite
    if isinstance(settings, EmpiricalMap):
        if n > settings.max_rows:
            raise ValueError(
                f"kernel_method='map' computes {n} x {n} kernel values: more rows than max_rows="
                f"{settings.max_rows}. Use kernel_method='nystrom', or EmpiricalMap(max_rows=...)."
            )
        features, rows, error = complete_features(kernel, X)
        claim: Any = "exact" if definite and np.isfinite(error) else "measured"
        return Mapped(features, rows, counts, claim, why, error)
    features = _some_rows(kernel, X, settings, seed)
    return Mapped(features, features(X), counts, "restricted" if definite else "measured", why)


def kernel_of(estimator: Any, X: Any) -> Kernel:
    """The kernel of the estimator, with parameters that depend on the rows."""
    return make_kernel(
        estimator.kernel,
        gamma=estimator.gamma,
        degree=estimator.degree,
        coef0=estimator.coef0,
        n_features=X.shape[1],
        variance=variance_of(X),
    )


def _settings(method: Any, n: int) -> tuple[Any, str]:
    """The method, and why it was chosen."""
    if method != "auto":
        return (_NAMED[method] if isinstance(method, str) else method), "as asked"
    exact = EmpiricalMap()
    if n <= exact.max_rows:
        return exact, f"map: all {n} rows are in the basis, not more than {exact.max_rows}"
    return Nystrom(), (
        f"nystrom: {n} rows are more than the {exact.max_rows} of a basis of all, so the problem of fewer "
        "functions is solved"
    )


def _some_rows(kernel: Kernel, X: Any, settings: Nystrom, seed: int) -> KernelFeatures:
    chosen = choose_landmarks(settings, X, MEMORY, seed)
    if not KernelRows(kernel, X[chosen], np.float64).diagonal().any():
        return no_features(kernel, X[chosen])
    found = NystromMap(kernel, X[chosen], center_of(X[chosen]))
    return KernelFeatures(kernel, X[chosen[found.kept]], found.factor)


# -- inputs of tasks ---------------------------------------------------------------------------------


def stack_inputs(task: Task, X: Iterable[object]) -> tuple[Any, IntArray]:
    """All rows of the inputs in one matrix, and the index where each input ends."""
    parts = [task.kernel_inputs(x) for x in X]
    for i, rows in enumerate(parts):
        if not (sp.issparse(rows) or (isinstance(rows, np.ndarray) and rows.ndim == 2)):
            raise TypeError(
                f"kernel_inputs must return a matrix, dense or CSR, but for input {i} it returned a "
                f"{type(rows).__name__}."
            )
        if not sp.issparse(rows):
            check_dense(rows, f"the rows of input {i}")
    widths = {rows.shape[1] for rows in parts}
    if len(widths) > 1:
        raise ValueError(f"the rows of the inputs have different lengths: {sorted(widths)}.")
    ends = np.cumsum([rows.shape[0] for rows in parts])
    if any(sp.issparse(rows) for rows in parts):
        return stacked(parts, "the rows of the inputs", "input"), ends
    return np.concatenate(parts) if parts else np.empty((0, 0)), ends


def replace_rows(task: Task, X: Sequence[object], rows: Any, ends: IntArray) -> list[Any]:
    """The inputs with these rows, which are stacked in one matrix."""
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return [
        task.with_kernel_inputs(x, rows[lo:hi]) for x, lo, hi in zip(X, starts, ends, strict=True)
    ]


def mapped_inputs(task: Task, features: KernelFeatures, X: Sequence[object]) -> Iterable[Any]:
    """The inputs with features in place of their rows, a few thousand rows at a time."""
    group: list[Any] = []
    n_rows = 0
    for x in X:
        group.append(x)
        n_rows += task.kernel_inputs(x).shape[0]
        if n_rows >= ROWS:
            yield from _mapped_group(task, features, group)
            group, n_rows = [], 0
    if group:
        yield from _mapped_group(task, features, group)


def _mapped_group(task: Task, features: KernelFeatures, X: list[Any]) -> list[Any]:
    rows, ends = stack_inputs(task, X)
    if rows.shape[1] != features.rows.shape[1]:
        raise ValueError(
            f"the rows of the inputs have {rows.shape[1]} entries; the model was fitted on rows with "
            f"{features.rows.shape[1]} entries."
        )
    return replace_rows(task, X, features(rows), ends)
