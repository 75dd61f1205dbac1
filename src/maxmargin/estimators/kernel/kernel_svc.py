"""KernelSVC: classification with kernels and a certificate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.estimators.base import Solved, _seed, stopping_rule
from maxmargin.estimators.constraints import (
    Callbacks,
    ClassWeight,
    Constraint,
    Gamma,
    KernelFunction,
    KernelName,
    Labels,
    Numbers,
    Samples,
    Seed,
    Tolerance,
    of_class,
    one_of,
)
from maxmargin.estimators.kernel.auto import Automatic
from maxmargin.estimators.kernel.classes import (
    ClassProblem,
    Pairs,
    SmallPairs,
    by_row,
    constant,
    interrupted,
    join,
    joined_extras,
    not_started,
    not_worse,
    parts,
    weakest,
)
from maxmargin.estimators.kernel.decision import KernelDecision
from maxmargin.estimators.kernel.lowrank import check_landmarks
from maxmargin.estimators.kernel.machine import KernelMachine
from maxmargin.estimators.kernel.methods import METHODS
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution
from maxmargin.estimators.kernel.small_pairs import solve_small_pairs
from maxmargin.estimators.linear.problem import class_factors, require_positive_weight
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.validation import (
    Classes,
    Training,
    classes_of,
    require_two_classes,
    training,
)
from maxmargin.kernels import Kernel
from maxmargin.solvers import KernelBlocks


@dataclass(eq=False, repr=False)
class KernelSVC(KernelDecision, KernelMachine):
    """Support vector classification with kernels and a certificate.

    Minimizes ``1/2 |f|^2 + C sum_i s_i max(0, 1 - y_i (f(x_i) + b))`` over the functions f in the space of a
    kernel and the unpenalized intercept b. This is the problem of :class:`sklearn.svm.SVC`, with its
    parameters. Multiclass problems are trained one-vs-one, as in scikit-learn, or jointly (Crammer and
    Singer).

    What is guaranteed depends on the method and is stated by ``certificate_``. The user guide, "Kernels",
    explains which method to use:

    * "exact" gives bounds ``lower_bound_ <= F* <= objective_`` of the full problem, if the kernel is positive
      semidefinite.
    * "nystrom" gives the true ``objective_``, but the fit minimizes over a smaller set of functions: the
      certificate is "restricted", and ``restricted_gap_`` is the gap of that problem.
    * "sampled" and "sampled_constant" measure ``objective_`` and give no lower bound: the certificate is
      "measured".

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over samples, as in scikit-learn.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, default "rbf"
        The kernel, with the names and conventions of scikit-learn. A callable ``f(X, Z)`` returns the matrix
        of kernel values; set its attribute ``positive_semidefinite`` to False if the kernel is not. With
        "precomputed", ``X`` holds kernel values instead of features: those of all pairs of training samples
        in ``fit``, and those of new samples (rows) with all training samples (columns) later.
    gamma : {"scale", "auto"} or float, default "scale"
        Coefficient of the kernels "rbf", "poly" and "sigmoid". "scale" is ``1 / (n_features * X.var())``,
        "auto" is ``1 / n_features``.
    degree : int, default 3
        Degree of the kernel "poly".
    coef0 : float, default 0.0
        Constant term of the kernels "poly" and "sigmoid".
    method : str or settings object, default "auto"
        "exact", "nystrom", "sampled", "sampled_constant" or "map" (exact, for small data, also for joint
        multiclass training), or an object with the settings of a method, such as ``kernels.Nystrom(...)``.
        "auto" is "exact" if the kernel values of an exact fit are within ``max_kernel_values`` even if all
        samples are support vectors, and "nystrom" otherwise.
    multi_class : {"auto", "ovo", "crammer_singer"}, default "auto"
        How to train more than two classes: one problem for each pair of classes, whose objectives and bounds
        are added ("auto" and "ovo"), or one problem for all classes, for the methods that support it.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    class_weight : dict or "balanced", optional
        Per-class multipliers of C.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        Whether ``decision_function`` returns one column per class or one per pair of classes, if several
        classes were trained one-vs-one.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    memory : int, default 2**31
        Maximum size in bytes of blocks of kernel values, features of landmarks and planes of sampled cuts.
        The data, a few numbers per sample and a few tens of megabytes of work space are not included.
    max_kernel_values : float, default 1e11
        Largest number of kernel values for which "auto" chooses an exact fit. With several pairs of classes,
        each pair has a share of it.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds. ``max_iter`` applies to each problem, ``max_seconds`` to the whole fit.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method. Predictions use it, too.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Its coefficients are reused if the number of
        samples is the same. This applies to "exact", and to "auto" if it chooses "exact"; the other methods
        start from scratch.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.
    shrinking : bool, default True
        Accepted as in scikit-learn, without effect: samples are always shrunk.
    cache_size : float, default 200
        Accepted as in scikit-learn, without effect: ``memory`` limits the blocks of kernel values.
    break_ties : bool, default False
        If True, with one-vs-one and ``decision_function_shape="ovr"``: ``predict`` returns the class with the
        largest ``decision_function`` also where several classes have the most votes.
    probability : bool, default False
        Accepted as in scikit-learn. It must be False: for probabilities wrap the classifier in
        :class:`sklearn.calibration.CalibratedClassifierCV`.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Indices of the support vectors, sorted by class and then ascending.
    support_vectors_ : array or sparse matrix of shape (n_SV, n_features)
        The support vectors; empty with ``kernel="precomputed"``.
    n_support_ : array of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : array of shape (n_outputs, n_SV)
        Coefficients of the support vectors. Two classes: one row. One-vs-one: n_classes - 1 rows in the order
        of LIBSVM; the column of a vector of class c has its coefficients in the pairs of c with each other
        class. Crammer and Singer: one row per class.
    intercept_ : array of shape (1,), (n_pairs,) or (n_classes,)
        Intercepts.
    coef_ : array of shape (n_functions, n_features)
        Weights, only for ``kernel="linear"``.
    classes_ : array
        The class labels, sorted.
    kernel_ : Kernel
        The kernel with its parameters.
    method_ : str or list of str
        The method; after "auto", also why it was chosen. A list if it differs between pairs of classes, in
        their order.
    shape_fit_ : tuple of int
        Shape of the training data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.
    kernel_values_ : int
        Number of kernel values that were computed.
    n_landmarks_ : int
        After "nystrom": number of landmarks.
    restricted_lower_bound_ : float
        If the certificate is "restricted": lower bound of the problem that was solved.
    restricted_gap_ : float
        If the certificate is "restricted": relative gap of the problem that was solved.
    reduced_value_ : float
        After a fit with sampled cuts: optimum over the sampled cuts. It bounds nothing.
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

    #: there may be very many pairs of classes
    _keeps_parts = False
    _constraints = of_class(
        multi_class=one_of("auto", "ovo", "crammer_singer"),
        probability=Constraint(
            ("False, and sklearn.calibration.CalibratedClassifierCV for probabilities",),
            lambda value: isinstance(value, bool | np.bool_) and not value,
        ),
    )

    C: float = 1.0
    _: KW_ONLY
    kernel: KernelName | Literal["precomputed"] | Kernel | KernelFunction = "rbf"
    gamma: Gamma = "scale"
    degree: int = 3
    coef0: float = 0.0
    method: Any = "auto"
    multi_class: str = "auto"
    fit_intercept: bool = True
    class_weight: ClassWeight = None
    decision_function_shape: str = "ovr"
    tol: Tolerance = 1e-3
    memory: int = 2**31
    max_kernel_values: float = 1e11
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    warm_start: bool = False
    random_state: Seed = 0
    callbacks: Callbacks = None
    verbose: int = 0
    shrinking: bool = True
    cache_size: float = 200
    break_ties: bool = False
    probability: bool = False

    @certified_fit
    def fit(self, X: Samples, y: Labels = None, sample_weight: Numbers = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples. float32 and float64 data are used without a copy if they are in C order (dense) or
            CSR format (sparse). A data set on disk is read into memory.
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Class labels of any
            type.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.

        Returns
        -------
        self
            The estimator itself.
        """
        settings = self._settings()
        X, y, sample_weight = self._loaded(X, y, sample_weight)
        rows = training(self, X, y, sample_weight, narrow=False)
        classes = classes_of(rows, X)
        require_two_classes(self, classes.names)
        self._solve(rows, classes, settings)
        return self

    def _solve(self, data: Training, classes: Classes, settings: Any) -> None:
        (X, kernel), codes, K = self._inputs(data.design), classes.codes[:], len(classes.names)
        weight = np.asarray(data.weight)
        if self.class_weight is not None:
            weight = weight * class_factors(self.class_weight, classes)[codes]
        require_positive_weight(weight)
        check_landmarks(settings, weight)
        split = parts(self.multi_class, codes, weight, K)
        draw, small, found = None, None, {}
        if len(split) > 1:
            draw = np.random.default_rng(_seed(self.random_state)).random(len(codes))
        if isinstance(split, Pairs) and self._at_once(settings, kernel):
            small = solve_small_pairs(self, kernel, X, self.C * weight, split)
        work = (
            float((split.sizes**2).sum()) if isinstance(split, Pairs) else len(split[0].rows) ** 2
        )
        before = Solved()  # of these, only why and when they ended matters
        if small is not None and small.result is not None:
            before.append(small.result)
        if small is not None and small.interrupted:
            before.append(interrupted(True))
        for k in range(len(split)):
            if small is not None and small.done[k]:
                continue
            part = split[k]
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
            found[k] = self._answer(problem, part, before, settings)
            last = found[k].result
            before.append(replace(last, history=last.history[-1:]))
        self._take(found, split, small, classes, kernel, X)
        self.shape_fit_ = data.design.shape

    def _at_once(self, settings: Any, kernel: Kernel) -> bool:
        """Whether pairs of few rows are solved in one call. Iterations of single pairs, which callbacks
        see and ``max_iter`` counts, and starting points require the solver's loop for each pair."""
        watched = self.callbacks or getattr(self, "_skl_callbacks", None)
        plain = self._max_iter is None and not self.warm_start and not watched
        return (
            plain
            and isinstance(settings, Automatic | KernelBlocks)
            and kernel.positive_semidefinite
        )

    def _answer(
        self, problem: KernelProblem, part: ClassProblem, before: Solved, settings: Any
    ) -> KernelSolution:
        stopped = before.ended
        of = part, problem.weight, self.C, self.fit_intercept
        if part.one_sided and (self.fit_intercept or not len(part.rows)):
            fitted = constant(*of)
        elif stopped is not None:
            fitted = not_started(*of, stopped)
        else:
            try:
                fitted = METHODS[type(settings)].fit(self, problem, before, settings)
                return not_worse(fitted, *of, stopping_rule(self.tol))
            except KeyboardInterrupt:  # before or after the solver
                fitted = not_started(*of, interrupted(problem.kernel.positive_semidefinite))
        said = METHODS[type(settings)].of_constant(fitted.result.objective)
        return replace(fitted, extras={**said, **fitted.extras})

    def _start(self, part: ClassProblem, classes: Classes) -> Array | None:
        """The coefficients of the previous fit, if it had as many samples of the same classes."""
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
        found: dict[int, KernelSolution],
        split: Sequence[ClassProblem],
        small: SmallPairs | None,
        classes: Classes,
        kernel: Kernel,
        X: Samples,
    ) -> None:
        """Set the fitted attributes."""
        codes = classes.codes[:]
        whole = join(found, split, codes, len(classes.names), small)
        self.classes_, self.n_support_ = classes.names, whole.n_support
        self._take_expansion(kernel, X, whole.support, whole.coef, whole.intercept)
        fits, numbers = list(found.values()), list(found)
        name, several = self._name(), 0
        if small is not None and small.result is not None:
            several = int(small.done.sum())
            text = "exact: pairs of few rows" if name == "auto" else name
            values = {"method_": text, "kernel_values_": small.kernel_values}
            fits.insert(
                0,
                KernelSolution(
                    small.result, codes[:0], whole.coef[:0], whole.intercept[:0], values
                ),
            )
        results = [fit.result for fit in fits]
        self._keep(results)
        self._ended += self._ended[:1] * (several - 1)
        self.certificate_ = weakest(results)
        extras = joined_extras(fits, name)
        if several and isinstance(extras["method_"], list):
            methods = dict(zip(numbers, extras["method_"][1:], strict=True))
            extras["method_"] = [methods.get(k, text) for k in range(len(split))]
        self._take_extras(extras)
        self._ready()
