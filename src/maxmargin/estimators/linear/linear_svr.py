"""LinearSVR: linear regression with a tube and a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.vectors import Array
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.linear.fit import LinearFit
from maxmargin.estimators.linear.regression import regression_model
from maxmargin.estimators.linear.stream import Batch, PartialFit, check_streamable, penalises_all
from maxmargin.estimators.margins import check_margins
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.validation import finite_scores, rows_for, scored, training


class LinearSVR(PartialFit, RegressorMixin, LinearFit):
    """Linear support vector regression, certified.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, |y_i - f(x_i)| - epsilon)``, or the squares of these terms.
    Takes the place of :class:`sklearn.svm.LinearSVR`; the differences are

    * every fit ends with bounds ``lower_bound_ <= F* <= objective_``; none "fails to converge";
    * ``tol`` is the relative gap of the objective, not a threshold on a gradient;
    * ``max_iter=None``: no limit by default; ``random_state=0``: runs repeat bit for bit;
    * new: ``penalize_intercept``, ``prior``, ``fixed``, ``nonnegative``, ``nonpositive``, ``solver``,
      ``max_seconds``, ``n_jobs``, ``warm_start``, ``callbacks``, and tubes of single rows.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, as in scikit-learn: it multiplies a sum over rows.
    tol : float or stopping rule, default 1e-3
        Relative gap at which to stop.
    epsilon : float, default 0.0
        Half the width of the tube inside which nothing is lost. It has the scale of y.
    loss : str or loss object, default "epsilon_insensitive"
        "epsilon_insensitive" or "squared_epsilon_insensitive"; with ``epsilon=0`` absolute errors, or least
        squares. Or an object, such as a loss of your own (:doc:`/own_loss`): it has its own parameters, and
        ``epsilon`` is not used.
    fit_intercept : bool, default True
        Whether there is an intercept.
    intercept_scaling : float, default 1.0
        The constant feature whose weight gives the intercept; the larger, the less it is penalised.
    penalize_intercept : bool, default True
        As scikit-learn's LinearSVR, put the intercept's weight into the norm. False leaves it out,
        exactly; targets far from zero ask for it.
    prior : GaussianPrior, optional
        A centre and a spread of the weights instead of ``1/2 |w|^2``; see the user guide, "Priors".
    fixed : dict, optional
        Weights that are not learned, ``{index or name of a feature: value}``. Their share of the norm, a
        constant, is not part of ``objective_``.
    nonnegative, nonpositive : list, optional
        Features (indices or names) whose weights must not become negative, or positive.
    solver : "auto" or solver object, default "auto"
        The method; see :mod:`maxmargin.solvers`. "auto" chooses by the shape of the data and switches
        when the gap falls too slowly; ``history_`` says what it did.
    max_iter, max_seconds : optional
        Limits. The best point is returned with its bounds.
    n_jobs : int, optional
        Threads. The result has the same bits for any number of them.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are: the result has the same bits on all of them. An engine object is not closed by
        the fit. See :mod:`maxmargin.engines`.
    warm_start : bool, default False
        Start from the weights, and where the solver keeps them the multipliers, of the previous fit.
    random_state : int, default 0
        Seed for solvers that visit rows in random order.
    callbacks : list of callables, optional
        Each receives every iteration's record and may return True to stop.
    verbose : int, default 0
        1 shows one live line.
    checkpoint : path or Checkpoint, optional
        Where ``fit`` writes its state now and then, so that a fit that was killed can go on; see the user
        guide, "Checkpoints".
    max_support : int, default 10000
        Rows that ``partial_fit`` keeps; ``fit`` does not look at it.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights.
    intercept_ : array of shape (1,)
        The intercept.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if X had names.
    n_seen_, n_support_ : int
        After ``partial_fit``: rows seen so far, and rows kept.
    objective_, lower_bound_, gap_, converged_, stop_reason_, certificate_, n_iter_, history_
        The certificate; see the user guide, "What the certificate means".

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
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: Any = 1e-3,
        epsilon: float = 0.0,
        loss: Any = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        penalize_intercept: bool = True,
        prior: Any = None,
        fixed: Any = None,
        nonnegative: Any = None,
        nonpositive: Any = None,
        solver: Any = "auto",
        max_iter: int | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        engine: Any = "threads",
        warm_start: bool = False,
        random_state: Any = 0,
        callbacks: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        max_support: int = 10_000,
    ) -> None:
        self.C = C
        self.tol = tol
        self.epsilon = epsilon
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.prior = prior
        self.fixed = fixed
        self.nonnegative = nonnegative
        self.nonpositive = nonpositive
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.engine = engine
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.max_support = max_support

    @certified_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        sample_margin: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            float32 and float64 data are used without a copy (dense: C order; sparse: CSR). Designs compute
            their features on the fly; a data set (:func:`maxmargin.data.open`) is read from disk.
        y : array of shape (n_samples,)
            Targets; left out for a data set, which has its own.
        sample_weight : array of shape (n_samples,), optional
            Factors of C by row.
        sample_margin : array of shape (n_samples,), optional
            Half the width of each row's own tube, in place of ``epsilon``: how exactly its target is known.
        resume_from : path, optional
            A checkpoint of a fit to the same data with the same parameters, from which to go on.

        Returns
        -------
        LinearSVR
            The fitted estimator.
        """
        rows = training(self, X, y, sample_weight, numeric=True)
        margin = check_margins(sample_margin, rows.n, least=0.0)
        given = {"X": X, "y": y, "sample_weight": sample_weight, "sample_margin": sample_margin}
        keeping = FitCheckpoint(self, resume_from, **given)
        model, data = regression_model(self, rows, margin), {"X": X, "y": y}
        self._train(model, rows.design, data, None, keeping=keeping)
        return self

    @available_if(penalises_all)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the next rows of a stream; each row is seen once.

        As in :meth:`LinearSVC.partial_fit`: ``lower_bound_`` is a lower bound of the optimum over all rows
        seen so far, and an upper bound comes with :meth:`verify`.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The next rows.
        y : array of shape (n_samples,)
            Their targets.
        sample_weight : array of shape (n_samples,), optional
            Factors of C by row.

        Returns
        -------
        LinearSVR
            The estimator.

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
        (1000, 'lower-only', 'exact')
        """
        first = not hasattr(self, "_streams")
        return self._learn(self._batch(X, y, sample_weight, first=first))

    def _batch(self, X: Any, y: Any, sample_weight: Any, *, first: bool) -> Batch:
        check_streamable(self)
        rows = training(self, X, y, sample_weight, numeric=True, reset=first)
        model = regression_model(self, rows, None)
        return Batch(
            rows.design, model.targets, model.weight, model.loss, model.intercept, model.attributes
        )

    def predict(self, X: Any) -> Array:
        """The values of the linear function.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Predicted targets.
        """
        check_is_fitted(self, "coef_")
        design = rows_for(self, X)
        scores: Array = design.dot(np.array(self.coef_), 0, design.shape[0]) + self.intercept_[0]
        return finite_scores(scores)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 of the predictions.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The samples.
        y : array of shape (n_samples,)
            True values; left out for a data set, which has its own.
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples; those of a data set by default.

        Returns
        -------
        float
            At most 1; 0 for predicting the mean.
        """
        y, sample_weight = scored(X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
