"""LinearSVC: linear classification with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.linear.decision import LinearDecision
from maxmargin.estimators.linear.fit import LinearFit, LinearFits
from maxmargin.estimators.linear.problem import linear_model
from maxmargin.estimators.linear.stream import Batch, PartialFit, check_streamable, penalises_all
from maxmargin.estimators.margins import check_margins
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.validation import Classes, classes_of, training


class LinearSVC(PartialFit, LinearDecision, LinearFit):
    """Linear support vector classification, certified.

    Minimises ``1/2 |w|^2 + C sum_i s_i loss_i``: the hinge loss (or its square) for two classes,
    Crammer and Singer's for more, or each class against the rest. Takes the place of
    :class:`sklearn.svm.LinearSVC`; the differences are

    * every fit ends with bounds ``lower_bound_ <= F* <= objective_``; none "fails to converge";
    * ``loss="hinge"`` is the default (scikit-learn: squared hinge), and several classes are
      trained jointly (scikit-learn: one against the rest);
    * ``tol`` is the relative gap of the objective, not a threshold on a gradient;
    * ``max_iter=None``: no limit by default; ``random_state=0``: runs repeat bit for bit;
    * new: ``penalize_intercept``, ``cost``, ``solver``, ``max_seconds``, ``n_jobs``, ``warm_start``,
      ``callbacks``.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, as in scikit-learn: it multiplies a sum over rows.
    tol : float or stopping rule, default 1e-3
        Relative gap at which to stop.
    loss : {"hinge", "squared_hinge"} or loss object, default "hinge"
        The loss of one score; several classes with another loss than the hinge are trained one-vs-rest. Pass
        an object for other parameters, or for a loss of your own; see the user guide, "A loss of your own".
    multi_class : {"auto", "crammer_singer", "ovr"}, default "auto"
        Several classes: all in one problem (Crammer and Singer), or one problem for each class against
        the rest, whose objectives and bounds add up. "auto" is joint for the hinge loss.
    fit_intercept : bool, default True
        Whether there is an intercept.
    intercept_scaling : float, default 1.0
        The constant feature whose weight gives the intercept; the larger, the less it is penalised.
    penalize_intercept : bool, default True
        As scikit-learn's LinearSVC, put the intercept's weight into the norm. False leaves it out,
        exactly.
    class_weight : dict or "balanced", optional
        Factors of C by class.
    cost : array of shape (n_classes, n_classes), optional
        Cost of predicting the column's class for a row of the row's class, in the order of
        ``classes_``; zero on the diagonal. All errors cost 1 by default.
    prior : GaussianPrior, optional
        A centre and a spread of the weights instead of ``1/2 |w|^2``; see the user guide, "Priors". With
        several classes each has the same spread, and a centre of its own if the mean has a row per class.
    fixed : dict, optional
        Weights that are not learned, ``{index or name of a feature: value}``; with several classes one value
        for all or one for each. Their share of the norm, a constant, is not part of ``objective_``.
    nonnegative, nonpositive : list, optional
        Features (indices or names) whose weights must not become negative, or positive; with several classes,
        in each of them.
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
        Start from the weights, and where the solver keeps them the multipliers, of the previous fit. On a
        data set on disk that has only grown since, also from its planes.
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
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Weights.
    intercept_ : array of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : array
        The classes.
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
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)     # unscaled, as it comes
    >>> svc = LinearSVC().fit(X, y)
    >>> svc.gap_ <= 1e-3, svc.certificate_, svc.stop_reason_
    (True, 'exact', 'gap')
    >>> bool(svc.lower_bound_ <= 49.959 <= svc.objective_)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: Any = 1e-3,
        loss: Any = "hinge",
        multi_class: str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        penalize_intercept: bool = True,
        class_weight: Any = None,
        cost: Any = None,
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
        self.loss = loss
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.cost = cost
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
            Labels of any kind; left out for a data set, which has its own.
        sample_weight : array of shape (n_samples,), optional
            Factors of C by row.
        sample_margin : array of shape (n_samples,), optional
            The margin asked of each row in place of 1: ``max(0, m_i - y_i f(x_i))``; with several classes a
            factor of its costs. See the user guide, "Margins of single rows".
        resume_from : path, optional
            A checkpoint of a fit to the same data with the same parameters, from which to go on.

        Returns
        -------
        LinearSVC
            The fitted estimator.
        """
        given = {"X": X, "y": y, "sample_weight": sample_weight, "sample_margin": sample_margin}
        keeping = FitCheckpoint(self, resume_from, **given)
        self._fit(X, y, sample_weight, sample_margin=sample_margin, keeping=keeping)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        last: LinearFits | None = None,
        sample_margin: Any = None,
        keeping: FitCheckpoint | None = None,
    ) -> LinearFits:
        """Fit, going on from ``last``: the same data with another C."""
        rows = training(self, X, y, sample_weight)
        classes = classes_of(rows, X)
        self.classes_ = classes.names
        if len(self.classes_) < 2:
            raise ValueError(
                "LinearSVC needs samples of at least 2 classes in the data, but the data contains only one "
                f"class: {self.classes_[0]!r}"
            )
        margin = check_margins(sample_margin, rows.n)
        model = linear_model(self, rows, classes, margin)
        alone = y is None and sample_weight is None and margin is None
        data, grown = {"X": X, "y": y}, X if alone else None
        return self._train(model, rows.design, data, last, grown=grown, keeping=keeping)

    @available_if(penalises_all)
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from the next rows of a stream; each row is seen once.

        At most ``max_support`` rows are kept; others that had a say are folded into one plane. After every
        call ``lower_bound_`` is a lower bound of the optimum over *all rows seen so far*. An upper bound
        needs the rows again: until :meth:`verify`, ``objective_`` and ``gap_`` are infinite,
        ``converged_`` is False and ``certificate_`` is "lower-only".

        The order of a stream matters: rows that come sorted, by class or by time, are learned and half
        forgotten in turn. Shuffle them, or mix several files. Batches of some hundred rows or more are
        quicker than single rows. A call of ``fit`` ends the stream.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The next rows.
        y : array of shape (n_samples,)
            Their labels.
        classes : array, optional
            All classes that will ever come; needed in the first call (after ``fit``: those are taken).
        sample_weight : array of shape (n_samples,), optional
            Factors of C by row.

        Returns
        -------
        LinearSVC
            The estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin import LinearSVC
        >>> rng = np.random.default_rng(0)
        >>> def batch():
        ...     X = rng.normal(size=(500, 3))
        ...     return X, np.where(X[:, 0] + 0.3 * rng.normal(size=500) > 0, 1, -1)
        >>> svc, seen = LinearSVC(C=0.1, max_support=100), [batch() for _ in range(5)]
        >>> for X, y in seen:
        ...     svc = svc.partial_fit(X, y, classes=[-1, 1])
        >>> svc.n_seen_, svc.n_support_ <= 100, svc.certificate_
        (2500, True, 'lower-only')
        >>> svc.verify(seen).certificate_, svc.gap_ < 0.1
        ('exact', True)
        """
        first = not hasattr(self, "_streams")
        if first:
            if classes is None and not hasattr(self, "classes_"):
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(np.asarray(self.classes_ if classes is None else classes))
            if len(self.classes_) < 2:
                raise ValueError(f"classes={classes!r}: at least two classes are needed.")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} are not those of the first call to partial_fit, {self.classes_}."
            )
        return self._learn(self._batch(X, y, sample_weight, first=first))

    def _batch(self, X: Any, y: Any, sample_weight: Any, *, first: bool) -> Batch:
        check_streamable(self)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs the labels of all rows, which a stream does not "
                "have: give the weights as a dict."
            )
        rows = training(self, X, y, sample_weight, reset=first)
        y = rows.y[:]
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        strange = np.flatnonzero(self.classes_[codes] != y)
        if len(strange):
            raise ValueError(
                f"row {strange[0]} has the label '{y[strange[0]]}', which is not one of the classes "
                f"{self.classes_} of the first call to partial_fit."
            )
        counts = np.bincount(codes, minlength=len(self.classes_))
        model = linear_model(self, rows, Classes(self.classes_, codes, counts), None)
        return Batch(
            rows.design, model.targets, model.weight, model.loss, model.intercept, model.attributes
        )
