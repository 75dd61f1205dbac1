"""KernelSVR: regression with kernels and a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np

from maxmargin.core.vectors import Array
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
    of_class,
    one_of,
)
from maxmargin.estimators.kernel.expansion import FittedExpansion
from maxmargin.estimators.kernel.machine import KernelMachine, methods
from maxmargin.estimators.linear.regression import QUANTILE, check_epsilon, epsilon_targets
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.scores import RegressionScore, is_quantile
from maxmargin.estimators.validation import finite_scores, training
from maxmargin.kernels.functions import Kernel
from maxmargin.losses import EpsilonInsensitive, Quantile, ScoreLoss


@dataclass(eq=False, repr=False)
class KernelSVR(RegressionScore, FittedExpansion, KernelMachine):
    """Support vector regression with kernels and a certificate.

    Minimizes ``1/2 |f|^2 + C sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon)`` over the functions f in the
    space of a kernel and the unpenalized intercept b. This is the problem of :class:`sklearn.svm.SVR`, with
    its parameters. With ``loss="quantile"``, the losses are those of a quantile q,
    ``max(q (y_i - f(x_i) - b), (1 - q) (f(x_i) + b - y_i))``.

    With the method "exact", the bounds ``lower_bound_ <= F* <= objective_`` hold for the full problem, if the
    kernel is positive semidefinite. "nystrom" minimizes over a smaller set of functions: ``objective_`` is
    true, the certificate is "restricted", and ``restricted_gap_`` is the gap of that problem. The user guide,
    "Kernels", explains which method to use.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over samples, as in scikit-learn.
    epsilon : float, default 0.1
        Errors up to ``epsilon`` cost nothing. It is measured on the scale of ``y``.
    loss : {"epsilon_insensitive", "quantile"}, default "epsilon_insensitive"
        The loss. "quantile" ignores ``epsilon``.
    quantile : float, default 0.5
        With ``loss="quantile"``: the conditional quantile to predict, between 0 and 1.
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
        "exact" or "nystrom", or an object with settings, such as ``kernels.Nystrom(...)``. "auto" is "exact"
        if the kernel values of an exact fit are within ``max_kernel_values`` even if all samples are support
        vectors, and "nystrom" otherwise.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    memory : int, default 2**31
        Maximum size in bytes of blocks of kernel values and features of landmarks. The data, a few numbers
        per sample and a few tens of megabytes of work space are not included.
    max_kernel_values : float, default 1e11
        Largest number of kernel values for which "auto" chooses an exact fit.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method. Predictions use it, too.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Its coefficients are reused by exact fits if
        the number of samples is the same.
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

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Indices of the support vectors, ascending.
    support_vectors_ : array or sparse matrix of shape (n_SV, n_features)
        The support vectors; empty with ``kernel="precomputed"``.
    n_support_ : array of shape (1,)
        Number of support vectors.
    dual_coef_ : array of shape (1, n_SV)
        Coefficients of the support vectors.
    intercept_ : array of shape (1,)
        The intercept.
    coef_ : array of shape (1, n_features)
        Weights, only for ``kernel="linear"``.
    kernel_ : Kernel
        The kernel with its parameters.
    method_ : str
        The method; after "auto", also why it was chosen.
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
    >>> from maxmargin import KernelSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> svr = KernelSVR(C=10.0).fit(X, y)
    >>> svr.certificate_, svr.gap_ <= 1e-3
    ('exact', True)
    >>> svr.predict(np.array([[np.pi / 2]])).round(1)
    array([1.])
    """

    n_support_: Any = field(init=False)
    _constraints = of_class(
        method=methods("auto", "exact", "nystrom"),
        loss=one_of("epsilon_insensitive", "quantile"),
        quantile=QUANTILE,
    )

    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 0.1
    loss: Literal["epsilon_insensitive", "quantile"] = "epsilon_insensitive"
    quantile: float = 0.5
    kernel: KernelName | Literal["precomputed"] | Kernel | KernelFunction = "rbf"
    gamma: Gamma = "scale"
    degree: int = 3
    coef0: float = 0.0
    method: Any = "auto"
    fit_intercept: bool = True
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

    @certified_fit
    def fit(
        self,
        X: Samples,
        y: Labels = None,
        sample_weight: Numbers = None,
        sample_epsilon: Numbers = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples; with ``kernel="precomputed"``, kernel values of shape (n_samples, n_samples). A data
            set on disk is read into memory.
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Target values.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.
        sample_epsilon : array of shape (n_samples,), optional
            An epsilon for each sample, in place of ``epsilon``: the accuracy to which its target is known.

        Returns
        -------
        self
            The estimator itself.
        """
        settings = self._settings()
        X, y, sample_weight = self._loaded(X, y, sample_weight)
        data = training(self, X, y, sample_weight, numeric=True, narrow=False)
        rows, kernel = self._inputs(data.design)
        problem = self._problem(
            rows,
            kernel,
            np.asarray(epsilon_targets(data.y, check_epsilon(sample_epsilon, data.n))),
            np.asarray(data.weight),
            self._loss(sample_epsilon),
            self.fit_intercept,
        )
        found = self._answer_one(problem, settings, [])
        self._take_expansion(kernel, rows, found.support, found.coef.T, found.intercept)
        self.n_support_, self.shape_fit_ = np.array([len(found.support)]), data.design.shape
        self._keep([found.result])
        self._take_extras({"method_": self._name(), **found.extras})
        self._ready()
        return self

    def _loss(self, sample_epsilon: Any) -> ScoreLoss:
        if not is_quantile(self.loss):
            return EpsilonInsensitive(self.epsilon)
        if sample_epsilon is not None:
            raise TypeError("sample_epsilon replaces epsilon, which loss='quantile' does not have.")
        return Quantile(self.quantile)

    @chunked
    def predict(self, X: Samples, *, out: Any = None) -> Array:
        """Predict target values.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples. With ``kernel="precomputed"``, their kernel values with all training samples.
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            Predicted targets.
        """
        return finite_scores(self._scores(X)[:, 0])
