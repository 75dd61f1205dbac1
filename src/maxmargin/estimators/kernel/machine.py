"""What kernel estimators share: settings, kernels and given kernel values, and problems of one function."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import in_order
from maxmargin.core.result import SolveResult, relative_gap
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import as_matrix, is_design
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.constraints import (
    FUNCTION,
    KERNELS,
    NO_LIMIT,
    Constraint,
    integer,
    of_class,
    one_of,
)
from maxmargin.estimators.kernel.classes import interrupted
from maxmargin.estimators.kernel.lowrank import check_landmarks
from maxmargin.estimators.kernel.methods import METHODS, NAMED
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution
from maxmargin.estimators.linear.problem import require_positive_weight
from maxmargin.estimators.validation import loaded
from maxmargin.kernels import FromCallable, GramValues, Kernel, Precomputed, make_kernel
from maxmargin.kernels.extent import ROUNDING, precision, warn_of_no_kernel
from maxmargin.kernels.rows import variance_of
from maxmargin.losses import ScoreLoss

#: rows of a given matrix that are compared with columns at a time
STEP = 512


def methods(*known: str) -> Constraint:
    """The methods of these names, or their settings."""
    kinds = {type(NAMED[name]): None for name in known}
    words = f"the settings of a method ({', '.join(kind.__name__ for kind in kinds)})"
    every = len(known) == len(NAMED)  # then also of methods that were added to the table
    settings = Constraint((words,), lambda value: type(value) in (METHODS if every else kinds))
    return one_of(*known) | settings


class KernelMachine(CertifiedEstimator):
    """Base class of estimators with ``kernel``, ``method`` and ``memory``."""

    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    method: Any
    memory: int
    max_kernel_values: float
    #: workers are threads
    engine = "threads"
    _constraints = of_class(
        max_iter=integer(-1) | NO_LIMIT,
        kernel=KERNELS | one_of("precomputed") | FUNCTION,
        method=methods(*NAMED),
    )

    def _settings(self) -> Any:
        """The settings of the method."""
        return NAMED[self.method] if isinstance(self.method, str) else self.method

    def _name(self) -> str:
        return self.method if isinstance(self.method, str) else repr(self.method)

    def _loaded(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """The arguments of ``fit`` in memory."""
        X, y, sample_weight = loaded(X, y, sample_weight)
        if is_design(X):
            raise TypeError(
                f"{type(self).__name__} requires rows, but a {type(X).__name__} only computes products: pass "
                "an array or a sparse matrix."
            )
        if self._given and sp.issparse(X):
            raise TypeError(
                "Sparse data was passed, but kernel='precomputed' requires a dense matrix of kernel values: "
                "call X.toarray()."
            )
        return X, y, sample_weight

    @property
    def _given(self) -> bool:
        """Whether X holds kernel values."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _inputs(self, design: Any) -> tuple[Any, Kernel]:
        """The rows of validated data, and the kernel. Rows of given kernel values are their indices."""
        X = in_order(as_matrix(design))
        if self._given:
            _check_square(X)
            values = GramValues(X, positive_semidefinite=_symmetric(X))
            if not values.positive_semidefinite:
                warn_of_no_kernel()
            return np.arange(len(X), dtype=np.float64)[:, None], FromCallable(values)
        with np.errstate(over="ignore"):
            kernel = make_kernel(
                self.kernel,
                gamma=self.gamma,
                degree=self.degree,
                coef0=self.coef0,
                n_features=X.shape[1],
                variance=variance_of(X) if isinstance(self.gamma, str) else 0.0,
            )
            if not callable(self.kernel):
                precision(kernel, X)  # raises if values are not finite
        return X, kernel

    def _take_expansion(
        self, kernel: Kernel, X: Any, support: IntArray, coef: Array, intercept: Array
    ) -> None:
        """Set the attributes of the function."""
        self.kernel_ = Precomputed() if self._given else kernel
        self.support_, self.dual_coef_, self.intercept_ = support, coef, intercept
        self.support_vectors_ = X[support] if not self._given else np.empty((0, len(X)))

    def _take_extras(self, extras: dict[str, Any]) -> None:
        """Replace further attributes of the last fit, perhaps by another method."""
        for name in getattr(self, "_extras", ()):
            self.__dict__.pop(name, None)
        self.__dict__.update(extras)
        self._extras = tuple(extras)

    # -- problems of one function ------------------------------------------------------------------

    def _problem(
        self,
        X: Any,
        kernel: Kernel,
        y: Array,
        weight: Array,
        loss: ScoreLoss,
        intercept: bool,
        start: Array | None = None,
    ) -> KernelProblem:
        """One problem over the rows with positive weight."""
        require_positive_weight(weight)
        check_landmarks(self._settings(), weight)
        rows = np.flatnonzero(weight > 0.0)
        some = len(rows) < len(weight)
        return KernelProblem(
            kernel=kernel,
            X=X[rows] if some else X,
            y=y[rows],
            weight=weight[rows],
            C=self.C,
            n_classes=None,
            fit_intercept=intercept,
            memory=int(min(self.memory, sys.maxsize)),
            loss=loss,
            start=self._previous(len(weight), rows) if start is None else start,
            rows=rows,
        )

    def _previous(self, n: int, rows: IntArray) -> Array | None:
        """The coefficients of the previous fit, if it had as many samples."""
        if not self.warm_start or getattr(self, "shape_fit_", (0,))[0] != n:
            return None
        beta = np.zeros((n, 1))
        beta[self.support_, 0] = self.dual_coef_[0]
        return beta[rows]

    def _answer_one(
        self, problem: KernelProblem, settings: Any, after: list[SolveResult]
    ) -> KernelSolution:
        """Solve a problem of one function, whose support is then that of all rows."""
        method, (b, F) = METHODS[type(settings)], problem.constant
        definite = problem.kernel.positive_semidefinite
        try:
            fitted = method.fit(self, problem, after, settings) if F > 0.0 or not definite else None
        except KeyboardInterrupt:  # before or after the solver
            fitted = None
        if fitted is None:
            result = replace(interrupted(definite), objective=F, gap=relative_gap(F, 0.0))
            if F == 0.0 and definite:  # no function is better
                result = replace(result, converged=True, stop_reason="gap")
            none = np.zeros(0, dtype=np.int64)
            fitted = KernelSolution(
                result, none, np.zeros((0, 1)), np.array([b]), method.of_constant(F)
            )
        if fitted.result.lower_bound > F * (1.0 + 1e-9):
            warn_of_no_kernel()
            fitted = replace(fitted, result=fitted.result.claiming("measured"))
        assert problem.rows is not None
        return replace(fitted, support=problem.rows[fitted.support])


def _check_square(K: Any) -> None:
    """Raise ValueError unless a matrix of kernel values is square."""
    n, d = K.shape
    if n != d:
        raise ValueError(
            f"Precomputed matrix must be a square matrix. Input is a {n}x{d} matrix: with "
            "kernel='precomputed', fit needs the kernel values of all pairs of training samples."
        )


def _symmetric(K: Any) -> bool:
    """Whether a matrix is symmetric up to rounding."""
    eps = float(np.finfo(K.dtype).eps)
    allowed = max(ROUNDING * len(K), 4.0 * eps) * float(np.abs(K).max())
    steps = range(0, len(K), STEP)
    return all(
        float(np.abs(K[k : k + STEP] - K[:, k : k + STEP].T).max()) <= allowed for k in steps
    )
