"""LinearSVR: linear regression with the epsilon-insensitive loss and a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.vectors import Array
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import (
    LOSS_OBJECT,
    Callbacks,
    File,
    Fixed,
    Labels,
    Method,
    Numbers,
    Resumable,
    Samples,
    Seed,
    Tolerance,
    Which,
    Workers,
    of_class,
    one_of,
)
from maxmargin.estimators.linear.fit import LinearFit, LinearFits
from maxmargin.estimators.linear.proven import ProvenScores
from maxmargin.estimators.linear.regression import (
    LOSSES,
    QUANTILES,
    check_epsilon,
    regression_model,
)
from maxmargin.estimators.linear.stream import (
    PartialFit,
    StreamBatch,
    check_streamable,
    if_streamable,
)
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.paths import PathOfC
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.scores import RegressionScore
from maxmargin.estimators.validation import finite_scores, rows_for, training
from maxmargin.losses import ScoreLoss


@dataclass(eq=False, repr=False)
class LinearSVR(PathOfC, PartialFit, ProvenScores, RegressionScore, LinearFit):
    """Linear support vector regression with a certificate.

    Minimizes ``1/2 |w|^2 + C sum_i s_i max(0, |y_i - f(x_i)| - epsilon)``, or the same with the squares of
    these losses, or with the pinball loss of a quantile q,
    ``max(q (y_i - f(x_i)), (1 - q) (f(x_i) - y_i))``. The class can replace :class:`sklearn.svm.LinearSVR`,
    with these differences:

    * Every fit ends with bounds ``lower_bound_ <= F* <= objective_`` of the optimum F*.
    * ``tol`` is the relative gap of the objective, not a threshold on a gradient.
    * By default there is no limit of iterations (``max_iter=None``), and fits are repeatable
      (``random_state=0``).
    * ``penalize_intercept``, ``prior``, ``fixed``, ``nonnegative``, ``nonpositive``, ``solver``,
      ``max_seconds``, ``n_jobs``, ``warm_start``, ``callbacks`` and an epsilon per sample are new.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over samples, as in scikit-learn.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    epsilon : float, default 0.0
        Errors up to ``epsilon`` cost nothing. It is measured on the scale of ``y``.
    loss : str or loss object, default "epsilon_insensitive"
        "epsilon_insensitive", "squared_epsilon_insensitive" or "quantile". With ``epsilon=0`` the first two
        are absolute errors and least squares. Pass an object for a loss of your own (:doc:`/own_loss`); it
        has its own parameters, and ``epsilon`` is ignored.
    quantile : float or list of float, default 0.5
        With ``loss="quantile"``: the conditional quantile to predict, between 0 and 1. Several, in ascending
        order, are fitted one by one to the same data; their objectives and bounds are added. Their
        predictions are sorted, so they never cross.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    intercept_scaling : float, default 1.0
        Value of the constant feature whose weight gives the intercept. The larger, the less the intercept is
        penalized.
    penalize_intercept : bool, default True
        Whether the intercept is part of the penalized norm, as in scikit-learn. If False, the intercept is
        unpenalized. This is recommended for targets that are far from zero.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".
    fixed : dict, optional
        Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
        constant, is not included in ``objective_``.
    nonnegative : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be negative.
    nonpositive : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be positive.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" chooses by the shape of the data and
        switches when progress is slow; ``history_`` records the methods.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Its weights are reused, and the dual variables
        if the solver keeps them.
    keep_duals : bool, default False
        Whether to keep the dual variables of the samples, as ``dual_coef_``, with which
        :func:`maxmargin.testing.verify_certificate` recomputes the lower bound. They are not saved.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    dual : "auto" or bool, default "auto"
        Accepted as in scikit-learn, without effect: every fit has a primal and a dual solution.
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.
    checkpoint : path or Checkpoint, optional
        File to which ``fit`` regularly writes its state, so that a fit that was killed can be resumed; see
        the user guide, "Checkpoints".
    max_support : int, default 10000
        Number of samples that ``partial_fit`` keeps. ``fit`` ignores it.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_quantiles, n_features)
        Weights; one row per quantile, if there are several.
    intercept_ : array of shape (1,) or (n_quantiles,)
        The intercept.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.
    dual_coef_ : array of shape (n_problems, n_samples)
        With ``keep_duals=True``: coefficients of the samples in the weights of the dual solution, one row for
        each row of ``coef_``.
    support_ : array
        With ``keep_duals=True``: indices of the samples with a nonzero coefficient.
    n_seen_, n_support_ : int
        After ``partial_fit``: number of samples seen so far, and number of samples kept.
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
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> svr = LinearSVR(C=100.0, epsilon=10.0).fit(X, y)
    >>> svr.gap_ <= 1e-3, svr.certificate_, svr.stop_reason_
    (True, 'exact', 'gap')
    >>> round(svr.score(X, y), 2)
    0.48

    An interval that should hold 80 % of the targets:

    >>> interval = LinearSVR(C=100.0, loss="quantile", quantile=[0.1, 0.9]).fit(X, y)
    >>> low, high = interval.predict(X).T
    >>> print(((low <= y) & (y <= high)).mean().round(1))
    0.8
    """

    _constraints = of_class(loss=one_of(*LOSSES) | LOSS_OBJECT, quantile=QUANTILES)

    C: float = 1.0
    _: KW_ONLY
    tol: Tolerance = 1e-3
    epsilon: float = 0.0
    loss: Literal["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"] | ScoreLoss = (
        "epsilon_insensitive"
    )
    quantile: npt.ArrayLike = 0.5
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    penalize_intercept: bool = True
    prior: GaussianPrior | None = None
    fixed: Fixed = None
    nonnegative: Which = None
    nonpositive: Which = None
    solver: Method = "auto"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Workers = "threads"
    warm_start: bool = False
    keep_duals: bool = False
    random_state: Seed = 0
    callbacks: Callbacks = None
    dual: Literal["auto"] | bool = "auto"
    verbose: int = 0
    checkpoint: Resumable = None
    max_support: int = 10_000

    @certified_fit
    def fit(
        self,
        X: Samples,
        y: Labels = None,
        sample_weight: Numbers = None,
        sample_epsilon: Numbers = None,
        resume_from: File | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features). float32 and float64 data are used without a copy if
            they are in C order (dense) or CSR format (sparse). Matrix-free features are computed on the fly.
            A data set (:func:`maxmargin.data.open`) is read from disk.
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Target values.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.
        sample_epsilon : array of shape (n_samples,), optional
            An epsilon for each sample, in place of ``epsilon``: the accuracy to which its target is known.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.

        Returns
        -------
        self
            The estimator itself.
        """
        given: Any = {
            "X": X,
            "y": y,
            "sample_weight": sample_weight,
            "sample_epsilon": sample_epsilon,
        }
        self._fit(**given, keeping=FitCheckpoint(self, resume_from, **given))
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        sample_epsilon: Any = None,
        last: LinearFits | None = None,
        keeping: FitCheckpoint | None = None,
    ) -> LinearFits:
        """Fit, continuing from ``last``: a fit to the same data with another C."""
        rows = training(self, X, y, sample_weight, numeric=True)
        model = regression_model(self, rows, check_epsilon(sample_epsilon, rows.n))
        return self._train(model, rows.design, {"X": X, "y": y}, last, keeping=keeping)

    @if_streamable
    def partial_fit(self, X: Samples, y: Labels = None, sample_weight: Numbers = None) -> Self:
        """Update the model with the next samples of a stream, each of which is seen once.

        As in :meth:`LinearSVC.partial_fit`, ``lower_bound_`` is a lower bound of the optimum over all samples
        seen so far. Call :meth:`verify` for an upper bound.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Target values.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.

        Returns
        -------
        self
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin import LinearSVR
        >>> rng, svr, seen = np.random.default_rng(0), LinearSVR(max_support=50), []
        >>> for _ in range(5):
        ...     X = rng.normal(size=(200, 2))
        ...     seen.append((X, X[:, 0] + 0.1 * rng.normal(size=200)))
        ...     svr = svr.partial_fit(*seen[-1])
        >>> svr.n_seen_, svr.certificate_, svr.verify(seen).certificate_
        (1000, 'lower_only', 'exact')
        """
        first = not hasattr(self, "_streams")
        return self._learn(self._batch(X, y, sample_weight, first=first))

    def _batch(
        self, X: Samples, y: Any, sample_weight: Numbers = None, *, first: bool
    ) -> StreamBatch:
        check_streamable(self)
        rows = training(self, X, y, sample_weight, numeric=True, reset=first)
        return StreamBatch(rows.design, regression_model(self, rows, None))

    @chunked
    def predict(self, X: Samples, *, out: Any = None) -> Array:
        """Predict target values.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_quantiles)
            Predicted targets. Several quantiles are in ascending order.
        """
        check_is_fitted(self, "coef_")
        design = rows_for(self, X)
        several = self.coef_.ndim == 2
        W = np.ascontiguousarray(self.coef_.T)
        scores: Array = design.dot(W, 0, design.shape[0])
        scores += self.intercept_ if several else self.intercept_[0]
        return finite_scores(np.sort(scores, axis=1) if several else scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
