"""OneClassSVM: the region of most samples, with scikit-learn's ``nu`` and a certificate.

scikit-learn's problem has a threshold rho,

    minimize  1/2 |v|^2 - nu S rho + sum_i s_i max(0, rho - v(x_i)),     S = sum_i s_i

With f = v / rho it becomes the problem that is solved here (:class:`maxmargin.losses.OneClass`),

    minimize  1/2 |f|^2 + C sum_i s_i max(0, 1 - f(x_i)),

for the right C. Let beta be its dual optimum, 0 <= beta_i <= C s_i. The conditions of both problems agree if
nu = nu(C) = sum_i beta_i / (C S); then v = t f and rho = t with t = 1 / C. nu(C) decreases from 1 to 0 (if
the origin can be separated), so C is found by a search: the secant method in logarithms within a bracket. At
the optimum sum_i beta_i = F* + |f|^2 / 2, which needs no dual variables.

References:

- B. Schölkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola and R. C. Williamson, "Estimating the support of a
  high-dimensional distribution", Neural Computation 13 (2001), 1443-1471,
  https://doi.org/10.1162/089976601750264965
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.compat import check_sample_weight
from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import as_design
from maxmargin.estimators.base import ENDING
from maxmargin.estimators.checked_matrices import validate_data
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import (
    Callbacks,
    Gamma,
    KernelFunction,
    KernelName,
    Labels,
    Numbers,
    Samples,
    Seed,
    Tolerance,
)
from maxmargin.estimators.kernel.expansion import FittedExpansion
from maxmargin.estimators.kernel.machine import KernelMachine
from maxmargin.estimators.linear.problem import require_positive_weight
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.scikit import OutlierMixin
from maxmargin.estimators.validation import finite_scores
from maxmargin.kernels import KernelRows
from maxmargin.kernels.functions import Kernel
from maxmargin.losses import OneClass
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto

#: maximum number of values of C, and how precisely nu is met
MOST, NEAR = 60, 1e-3
#: margins are hard from this multiple of the first C on
HARDEST = 1e10
#: samples from which the first C is estimated
SAMPLE = 500


class Fitted(NamedTuple):
    """The solution at one C: the sum of its dual variables, and what the attributes are made from."""

    result: SolveResult
    total: float
    model: Any


@dataclass(eq=False, repr=False)
class OneClassSVM(OutlierMixin, FittedExpansion, KernelMachine):
    """Detection of outliers by a one-class SVM with a certificate.

    The problem is that of :class:`sklearn.svm.OneClassSVM`, with its parameters: a function that is at least
    a threshold for all but a fraction ``nu`` of the samples. It is solved in the equivalent form
    ``1/2 |f|^2 + C sum_i s_i max(0, 1 - f(x_i))``, where a search finds the C that belongs to ``nu``. The
    bounds ``lower_bound_ <= F* <= objective_`` are those of this problem at ``C_``.

    ``kernel="linear"`` learns one weight per feature instead of one coefficient per sample, so its cost is
    linear in the number of samples.

    Parameters
    ----------
    nu : float, default 0.5
        An upper bound of the fraction of outliers in the training data, and a lower bound of the fraction of
        support vectors, in (0, 1]. It is met up to a thousandth of itself.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, default "rbf"
        The kernel, with the names and conventions of scikit-learn. A callable ``f(X, Z)`` returns the matrix
        of kernel values; set its attribute ``positive_semidefinite`` to False if the kernel is not. With
        "precomputed", ``X`` holds kernel values, as in :class:`KernelSVR`.
    gamma : {"scale", "auto"} or float, default "scale"
        Coefficient of the kernels "rbf", "poly" and "sigmoid". "scale" is ``1 / (n_features * X.var())``,
        "auto" is ``1 / n_features``.
    degree : int, default 3
        Degree of the kernel "poly".
    coef0 : float, default 0.0
        Constant term of the kernels "poly" and "sigmoid".
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    memory : int, default 2**31
        Maximum size in bytes of blocks of kernel values.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds. They apply to the fit at each value of C, and to the whole search, respectively.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method. Predictions use it, too.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.

    Attributes
    ----------
    C_ : float
        The C that belongs to ``nu``.
    nu_ : float
        The ``nu`` that belongs to ``C_``.
    offset_ : float
        The threshold: ``decision_function = score_samples - offset_``.
    support_ : array of shape (n_SV,)
        Indices of the support vectors, ascending. This and what follows is empty with ``kernel="linear"``.
    support_vectors_ : array or sparse matrix of shape (n_SV, n_features)
        The support vectors; empty with ``kernel="precomputed"``.
    n_support_ : array of shape (1,)
        Number of support vectors.
    dual_coef_ : array of shape (1, n_SV)
        Coefficients of the support vectors.
    intercept_ : array of shape (1,)
        ``-offset_``.
    coef_ : array of shape (1, n_features)
        Weights, only for ``kernel="linear"``.
    kernel_ : Kernel
        The kernel with its parameters.
    n_fits_ : int
        Number of values of C that were tried.
    shape_fit_ : tuple of int
        Shape of the training data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.
    objective_ : float
        Objective at the returned weights: an upper bound of the optimum.
    lower_bound_ : float
        Lower bound of the optimum.
    gap_ : float
        Relative gap between the bounds, ``(objective_ - lower_bound_) / objective_``.
    converged_ : bool
        Whether the bounds prove that ``tol`` was reached.
    stop_reason_ : str
        Why the fit stopped: "gap" (``tol`` was reached), "max_iter", "max_seconds", "callback",
        "interrupted", "stalled" (no further progress) or "rounding" (rounding errors may exceed ``tol``:
        scale the features).
    certificate_ : str
        What the bounds guarantee: "exact", "relaxed", "restricted", "lower_only" or "measured"; see the user
        guide, "What the certificate means".
    n_iter_ : int
        Number of iterations.
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> svm = OneClassSVM(nu=0.1).fit(X)
    >>> svm.certificate_, svm.gap_ <= 1e-3, round(float(np.mean(svm.predict(X) == -1)), 1)
    ('exact', True, 0.1)
    >>> svm.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    C_: float = field(init=False)
    offset_: float = field(init=False)
    _weights: Array | None = field(default=None, init=False)
    n_support_: IntArray = field(init=False)
    method = "exact"
    max_kernel_values = math.inf
    warm_start = False

    nu: float = 0.5
    _: KW_ONLY
    kernel: KernelName | Literal["precomputed"] | Kernel | KernelFunction = "rbf"
    gamma: Gamma = "scale"
    degree: int = 3
    coef0: float = 0.0
    tol: Tolerance = 1e-3
    memory: int = 2**31
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    random_state: Seed = 0
    callbacks: Callbacks = None
    verbose: int = 0

    @certified_fit
    def fit(self, X: Samples, y: Labels = None, sample_weight: Numbers = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples. With ``kernel="precomputed"``, kernel values of shape (n_samples, n_samples).
        y : ignored
            Not used.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.

        Returns
        -------
        self
            The estimator itself.
        """
        settings = self._settings()
        X, _, sample_weight = self._loaded(X, None, sample_weight)
        rows_in = validate_data(self, X)
        weight = np.ones(rows_in.shape[0])
        if sample_weight is not None:
            weight = check_sample_weight(
                sample_weight, rows_in, dtype=np.float64, ensure_non_negative=True
            )
        require_positive_weight(weight)
        design = as_design(rows_in, checked=True)
        rows, kernel = self._inputs(design)
        some = np.random.default_rng(0).permutation(np.flatnonzero(weight > 0.0))[:SAMPLE]
        packed = KernelRows(kernel, rows[some], np.float64)
        mean = float(packed.block(packed).mean())  # the mean score if all multipliers are equal
        mean = max(mean, float(packed.diagonal().mean()) / len(some), 1e-100)
        first = 1.0 / (self.nu * float(weight.sum()) * mean)
        if self._linear:
            solve: Any = self._solve_features(design, weight)
        else:
            solve = self._solve_kernel(rows, kernel, weight, settings)
        fitted, results = self._search(solve, first, float(weight.sum()))
        self.shape_fit_, self.n_fits_, t = rows_in.shape, len(results), 1.0 / self.C_
        if self._linear:
            self._weights = t * fitted.model
            support, coef = np.zeros(0, dtype=np.int64), np.zeros((1, 0))
        else:
            self._weights = None
            support, coef = fitted.model.support, t * fitted.model.coef.T
        self._take_expansion(kernel, rows, support, coef, np.array([-t]))
        self.offset_, self.n_support_ = t, np.array([len(support)])
        self._take_extras({})
        self._ready()
        self._keep([fitted.result])
        return self

    @property
    def C(self) -> float:  # type: ignore[override]
        """The C of the problem that is solved."""
        return self.C_

    @property
    def coef_(self) -> Array:
        """Weights of the features; only for ``kernel="linear"``."""
        check_is_fitted(self, "offset_")
        return super().coef_ if self._weights is None else self._weights[None]

    @property
    def _linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _solve_features(self, design: Any, weight: Array) -> Callable[..., Fitted]:
        """Solve at C with one weight per feature."""

        def solve(last: Fitted | None, after: list[SolveResult]) -> Fitted:
            start, none = None if last is None else last.result, np.zeros(len(weight))
            with self._workers() as engine:
                risk = ScoreRisk(design, none, OneClass(), sample_weight=weight, engine=engine)
                result = self._minimize(risk, Auto(), start=start, after=after)
            middle = 0.5 * (result.objective + max(0.0, result.lower_bound))
            return Fitted(result, middle + 0.5 * float(result.w @ result.w), result.w)

        return solve

    def _solve_kernel(
        self, rows: Any, kernel: Any, weight: Array, settings: Any
    ) -> Callable[..., Fitted]:
        """Solve at C with one coefficient per sample."""
        none = np.zeros(len(weight))

        def solve(last: Fitted | None, after: list[SolveResult]) -> Fitted:
            start = None
            if last is not None:
                start = np.zeros((len(weight), 1))
                start[last.model.support] = last.model.coef
                start = start[weight > 0.0]
            problem = self._problem(rows, kernel, none, weight, OneClass(), False, start)
            found = self._answer_one(problem, settings, after)
            return Fitted(found.result, float(found.coef.sum()), found)

        return solve

    def _search(
        self, solve: Callable[..., Fitted], C: float, total: float
    ) -> tuple[Fitted, list[SolveResult]]:
        """Solve at several values of C, until the one that belongs to nu is found."""
        goal, results, last, first = math.log(self.nu), list[SolveResult](), None, C
        below: Any = None  # (log C, log nu) with too large a nu, and with too small a nu
        above: Any = None
        stride = 1.0
        for _ in range(MOST):
            self.C_ = C
            last = solve(last, results)
            results.append(replace(last.result, history=last.result.history[-1:]))
            self.nu_ = min(1.0, last.total / (C * total))
            here = math.log(C), math.log(max(self.nu_, 1e-300))
            if abs(here[1] - goal) <= NEAR or last.result.stop_reason in ENDING:
                return last, results
            if here[1] > goal:
                below = here
            else:
                above = here
            if below is None or above is None:
                C *= math.exp(stride * (here[1] - goal))
                stride *= 2.0
                if HARDEST * first < C:
                    raise ValueError(
                        f"nu={self.nu!r} has no solution: the origin cannot be separated from a fraction of "
                        f"{1.0 - self.nu:g} of the samples. Use a larger nu, or kernel='rbf'."
                    )
                continue
            (a, p), (b, q) = below, above
            part = (p - goal) / (p - q)
            C = math.exp(a + min(0.95, max(0.05, part)) * (b - a))
            if abs(b - a) <= 1e-9:
                return last, results
        assert last is not None
        return last, results

    @chunked
    def score_samples(self, X: Samples, *, out: Any = None) -> Array:
        """Return the scores of samples before the threshold.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples.
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            The larger, the more typical.
        """
        return self.decision_function(X) + self.offset_

    @chunked
    def decision_function(self, X: Samples, *, out: Any = None) -> Array:
        """Return scores: positive for typical samples, negative for outliers.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples.
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            ``score_samples(X) - offset_``.
        """
        check_is_fitted(self, "offset_")
        if self._weights is None:
            return finite_scores(self._scores(X)[:, 0])
        design = as_design(
            validate_data(self, self._loaded(X, None, None)[0], reset=False), checked=True
        )
        scores: Array = design.dot(self._weights, 0, design.shape[0])
        return finite_scores(scores - self.offset_)

    @chunked
    def predict(self, X: Samples, *, out: Any = None) -> IntArray:
        """Predict whether samples are typical.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples.
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            +1 for typical samples, -1 for outliers.
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
