"""KernelSVC: classification with kernels, with a certificate of what was solved."""

from __future__ import annotations

import sys
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array
from maxmargin.data.design import is_design
from maxmargin.estimators.base import ENDING, CertifiedEstimator, _seed, stopping_rule
from maxmargin.estimators.kernel.classes import (
    ClassProblem,
    by_row,
    constant,
    interrupted,
    join,
    joined_extras,
    not_worse,
    parts,
    untouched,
    weakest,
)
from maxmargin.estimators.kernel.decision import KernelDecision
from maxmargin.estimators.kernel.lowrank import check_landmarks
from maxmargin.estimators.kernel.methods import METHODS, NAMED
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution
from maxmargin.estimators.linear.problem import class_factors, some_weight
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.validation import Classes, Training, classes_of, loaded, training
from maxmargin.kernels import Kernel, make_kernel
from maxmargin.kernels.extent import precision


class KernelSVC(KernelDecision, CertifiedEstimator):
    """Support vector classification with kernels, certified.

    Minimises ``1/2 |f|^2 + C sum_i s_i max(0, 1 - y_i (f(x_i) + b))`` over the functions f of a kernel's
    space and the intercept b, which is not penalised: the problem of :class:`sklearn.svm.SVC`, with its
    parameters. Several classes are trained one against one, as there, or jointly (Crammer and Singer).

    What a fit may claim depends on the method; ``certificate_`` says it, and the user guide, "Kernels", when
    to use which:

    * "exact": bounds ``lower_bound_ <= F* <= objective_`` of the full problem (kernels that are positive
      semidefinite);
    * "nystrom": ``objective_`` is true, the gap that was closed is that of a smaller set of functions:
      certificate "restricted", ``restricted_gap_``;
    * "sampled", "sampled-constant": ``objective_`` is measured, there is no lower bound: "measured".

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, as in scikit-learn: it multiplies a sum over rows.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, default "rbf"
        The kernel, with scikit-learn's names and conventions. A callable ``f(X, Z)`` returns the matrix of
        values; set its attribute ``positive_semidefinite`` to False if it is not.
    gamma : {"scale", "auto"} or float, default "scale"
        Factor of "rbf", "poly" and "sigmoid": 1 / (n_features * X.var()), 1 / n_features, or a number.
    degree : int, default 3
        Of "poly".
    coef0 : float, default 0.0
        Constant of "poly" and "sigmoid".
    method : str or settings, default "auto"
        "exact", "nystrom", "sampled", "sampled-constant", "map" (exact, for small data, also jointly for
        several classes), or an object with the settings of one, such as ``kernels.Nystrom(...)``. "auto"
        counts the kernel values that an exact fit would take and compares with ``max_kernel_values``.
    multi_class : {"auto", "ovo", "crammer_singer"}, default "auto"
        Several classes: a problem for each pair of them, whose objectives and bounds add up ("auto"), or one
        problem, for the methods that can.
    fit_intercept : bool, default True
        Whether there is an intercept.
    class_weight : dict or "balanced", optional
        Factors of C by class.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        What ``decision_function`` returns for several classes, one against one.
    tol : float or stopping rule, default 1e-3
        Relative gap at which to stop.
    memory : int, default 2**31
        Bytes that blocks of kernel values, features of landmarks and planes of sampled cuts may take. On top
        come the data, some numbers per row and some tens of megabytes of work space.
    max_kernel_values : float, default 1e11
        Kernel values that "auto" may expect an exact fit to take; each of several pairs has its share.
    max_iter, max_seconds : optional
        Limits, of each problem and of the whole fit. The best point is returned with its bounds.
    n_jobs : int, optional
        Threads, for the fit and for predictions. Results have the same bits for any number of them.
    warm_start : bool, default False
        Start from the coefficients of the previous fit, if that had the same number of rows. For "exact", and
        "auto" where it is exact; the other methods begin anew.
    random_state : int, default 0
        Seed of landmarks and samples.
    callbacks : list of callables, optional
        Each receives every iteration's record and may return True to stop.
    verbose : int, default 0
        1 shows one live line.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Rows of the training data that the functions are made of, by class and then ascending.
    support_vectors_ : array or sparse matrix of shape (n_SV, n_features)
        These rows.
    n_support_ : array of shape (n_classes,)
        How many of them each class has.
    dual_coef_ : array of shape (n_outputs, n_SV)
        Their coefficients. Two classes: one row. One against one: n_classes - 1 rows in LIBSVM's order: of
        a vector of class c, the coefficients in the pairs of c with each of the other classes. Crammer and
        Singer: one row per class.
    intercept_ : array of shape (1,), (n_pairs,) or (n_classes,)
        Intercepts.
    coef_ : array of shape (n_functions, n_features)
        Weights, for ``kernel="linear"`` only.
    classes_ : array
        The classes.
    kernel_ : Kernel
        The kernel with its numbers.
    method_ : str or list of str
        What was done; after "auto", why. A list if it differs between pairs of classes, in their order.
    n_features_in_, feature_names_in_
        Number of features; their names, if X had names.
    probabilistic_bound_, probabilistic_bound_is_vacuous_, reduced_value_
        After "sampled" and "sampled-constant": how far ``objective_`` is from the optimum at most, with
        probability 0.95; whether that says nothing; the value over the planes drawn, which bounds nothing.
    restricted_lower_bound_, restricted_gap_ : float
        After "nystrom": bound and gap of the problem that was solved.
    objective_, lower_bound_, gap_, converged_, stop_reason_, certificate_, n_iter_, history_
        The certificate; see the user guide, "What the certificate means".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), KernelSVC()).fit(X, y)
    >>> svc = model[-1]
    >>> svc.converged_, svc.certificate_, svc.gap_ <= 1e-3
    (True, 'exact', True)
    >>> round(model.score(X, y), 2)
    0.99
    """

    #: what the workers of a fit are
    engine = "threads"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        method: Any = "auto",
        multi_class: str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        decision_function_shape: str = "ovr",
        tol: Any = 1e-3,
        memory: int = 2**31,
        max_kernel_values: float = 1e11,
        max_iter: int | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.method = method
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.tol = tol
        self.memory = memory
        self.max_kernel_values = max_kernel_values
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @certified_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            float32 and float64 data are used as they are (dense: C order; sparse: CSR). A data set on disk
            is read into memory.
        y : array of shape (n_samples,)
            Labels of any kind.
        sample_weight : array of shape (n_samples,), optional
            Factors of C by row.

        Returns
        -------
        KernelSVC
            The fitted estimator.
        """
        check_parameters(self)
        settings = self._settings()
        X, y, sample_weight = loaded(X, y, sample_weight)
        if is_design(X):
            raise TypeError(
                f"KernelSVC needs rows, and a {type(X).__name__} only multiplies: pass an array or a sparse "
                "matrix."
            )
        rows = training(self, X, y, sample_weight)
        classes = classes_of(rows, X)
        if len(classes.names) < 2:
            raise ValueError(
                "KernelSVC needs samples of at least 2 classes in the data, but the data contains only one "
                f"class: {classes.names[0]!r}"
            )
        self._solve(rows, classes, settings)
        return self

    def _settings(self) -> Any:
        """Those of the method, with the parameters that do not depend on the data checked."""
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(
                f"decision_function_shape={self.decision_function_shape!r}: use 'ovr' or 'ovo'."
            )
        for name in ("memory", "max_kernel_values"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not float(value) >= 0.0:
                raise ValueError(f"{name}={value!r}: use a number that is not negative.")
        settings = self.method
        if isinstance(settings, str):
            settings = NAMED.get(settings)
        if type(settings) not in METHODS:
            kinds = ", ".join(cls.__name__ for cls in METHODS)
            raise ValueError(
                f"method={self.method!r}: use one of {sorted(NAMED)}, or the settings of a method ({kinds})."
            )
        return settings

    def _solve(self, data: Training, classes: Classes, settings: Any) -> None:
        X, codes, K = _matrix(data.design), classes.codes[:], len(classes.names)
        weight = np.asarray(data.weight)
        if self.class_weight is not None:
            weight = weight * class_factors(self.class_weight, classes)[codes]
        some_weight(weight)
        check_landmarks(settings, weight)
        with np.errstate(over="ignore"):
            kernel = self._kernel(X)
            if not callable(self.kernel):
                precision(kernel, X)  # refuses values that are not finite
        split = parts(self.multi_class, codes, weight, K)
        draw = None
        if len(split) > 1:
            draw = np.random.default_rng(_seed(self.random_state)).random(len(codes))
        work = sum(len(part.rows) ** 2 for part in split)
        found: list[KernelSolution] = []
        for part in split:
            problem = KernelProblem(
                kernel=kernel,
                X=X if len(part.rows) == len(codes) else X[part.rows],
                y=part.y,
                weight=weight[part.rows],
                C=self.C,
                n_classes=part.n_classes,
                fit_intercept=self.fit_intercept,
                memory=int(min(self.memory, sys.maxsize)),
                start=self._start(part, classes),
                rows=part.rows,
                draw=None if draw is None else draw[part.rows],
                share=len(part.rows) ** 2 / work,
            )
            # what counts of the problems before: why and when they ended
            before = [replace(fit.result, history=fit.result.history[-1:]) for fit in found]
            found.append(self._answer(problem, part, before, settings))
        self._take(found, split, classes, kernel, X)

    def _answer(
        self, problem: KernelProblem, part: ClassProblem, before: list[SolveResult], settings: Any
    ) -> KernelSolution:
        stopped = next((r for r in before if r.stop_reason in ENDING), None)
        of = part, problem.weight, self.C, self.fit_intercept
        if part.one_sided and (self.fit_intercept or not len(part.rows)):
            fitted = constant(*of)
        elif stopped is not None:
            fitted = untouched(*of, stopped)
        else:
            try:
                fitted = METHODS[type(settings)].fit(self, problem, before, settings)
                return not_worse(fitted, *of, stopping_rule(self.tol))
            except KeyboardInterrupt:  # before the solver began, or after it
                fitted = untouched(*of, interrupted(problem.kernel.positive_semidefinite))
        said = METHODS[type(settings)].of_constant(fitted.result.objective)
        return replace(fitted, extras={**said, **fitted.extras})

    def _kernel(self, X: Any) -> Kernel:
        return make_kernel(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            n_features=X.shape[1],
            variance=_variance(X) if isinstance(self.gamma, str) else 0.0,
        )

    def _start(self, part: ClassProblem, classes: Classes) -> Array | None:
        """The coefficients of the previous fit, if that was about as many rows of the same classes."""
        codes = classes.codes[:]
        if not self.warm_start or getattr(self, "shape_fit_", (0,))[0] != len(codes):
            return None
        outputs = part.n_classes or 1
        height = len(classes.names) - 1 if part.pair is not None else outputs
        if not np.array_equal(self.classes_, classes.names) or len(self.dual_coef_) != height:
            return None
        return by_row(part, codes, self.support_, self.dual_coef_, outputs)

    def _take(
        self,
        found: list[KernelSolution],
        split: list[ClassProblem],
        classes: Classes,
        kernel: Kernel,
        X: Any,
    ) -> None:
        """Everything that a fit leaves behind."""
        for name in getattr(
            self, "_said", ()
        ):  # by the last fit, which may have been another method's
            self.__dict__.pop(name, None)
        codes = classes.codes[:]
        whole = join(found, split, codes, len(classes.names))
        self.classes_, self.kernel_, self.shape_fit_ = classes.names, kernel, X.shape
        self.support_, self.n_support_ = whole.support, whole.n_support
        self.support_vectors_ = X[whole.support]
        self.dual_coef_, self.intercept_ = whole.coef, whole.intercept
        results = [fit.result for fit in found]
        self._keep(results)
        self.certificate_ = weakest(results)
        extras = joined_extras(found, self._name())
        for name, value in extras.items():
            setattr(self, name, value)
        self._said = tuple(extras)
        self._ready()

    def _name(self) -> str:
        return self.method if isinstance(self.method, str) else repr(self.method)


def _matrix(design: Any) -> Any:
    """The array or CSR matrix of checked data."""
    if not hasattr(design, "indptr"):
        return design.X
    arrays = (design.data, design.indices, design.indptr)
    return sp.csr_matrix(arrays, shape=design.shape, copy=False)


def _variance(X: Any) -> float:
    """The variance of all entries."""
    size = float(X.shape[0]) * float(X.shape[1])
    mean = float(X.sum(dtype=np.float64)) / size
    if sp.issparse(X):
        return float(np.square(X.data, dtype=np.float64).sum()) / size - mean * mean
    steps = range(0, len(X), 4096)  # a piece at a time: no second matrix in double precision
    return (
        sum(float(np.square(X[k : k + 4096] - mean, dtype=np.float64).sum()) for k in steps) / size
    )
