"""LinearSVC: linear classification with a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.constraints import (
    LOSS_OBJECT,
    MATRIX,
    NONE,
    Callbacks,
    ClassWeight,
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
from maxmargin.estimators.linear.probabilities import Probabilities
from maxmargin.estimators.linear.problem import KINDS, LOSSES, linear_model
from maxmargin.estimators.linear.proven import ProvenClasses
from maxmargin.estimators.linear.stream import (
    PartialFit,
    StreamBatch,
    check_streamable,
    if_streamable,
)
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.paths import PathOfC
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.validation import (
    Classes,
    check_labels,
    classes_of,
    require_two_classes,
    training,
)
from maxmargin.losses import ScoreLoss


@dataclass(eq=False, repr=False)
class LinearSVC(PathOfC, PartialFit, ProvenClasses, Probabilities, LinearFit):
    """Linear support vector classification with a certificate.

    Minimizes ``1/2 |w|^2 + C sum_i s_i loss_i``, where the loss is the hinge loss, its square or the logistic
    loss for two classes. Multiclass problems are trained one-vs-rest, or jointly with the loss of Crammer and
    Singer or the multinomial logistic loss. The class can replace :class:`sklearn.svm.LinearSVC`, with these
    differences:

    * Every fit ends with bounds ``lower_bound_ <= F* <= objective_`` of the optimum F*.
    * ``tol`` is the relative gap of the objective, not a threshold on a gradient.
    * By default there is no limit of iterations (``max_iter=None``), and fits are repeatable
      (``random_state=0``).
    * ``loss="logistic"`` is added, with ``predict_proba``, and ``multi_class="multinomial"`` for it.
      :class:`LogisticRegression` has the same losses with an unpenalized intercept.
    * There is no L1 penalty.
    * ``penalize_intercept``, ``cost``, ``solver``, ``max_seconds``, ``n_jobs``, ``warm_start`` and
      ``callbacks`` are new.

    Parameters
    ----------
    penalty : {"l2"}, default "l2"
        Accepted as in scikit-learn. There is no other penalty.
    loss : {"hinge", "squared_hinge", "logistic"} or loss object, default "squared_hinge"
        The loss function. "logistic" adds ``predict_proba``; it does not support ``partial_fit``. Pass an
        object for other parameters or for a loss of your own; see the user guide, "Your own loss".
    dual : "auto" or bool, default "auto"
        Accepted as in scikit-learn, without effect: every fit has a primal and a dual solution.
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over samples, as in scikit-learn.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    multi_class : {"ovr", "crammer_singer", "multinomial"}, default "ovr"
        How to train more than two classes: one problem per class against the rest, whose objectives and
        bounds are added, or all in one problem. "crammer_singer" is a hinge loss of its own, so that ``loss``
        is ignored, as in scikit-learn; "multinomial" is for the logistic loss.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    intercept_scaling : float, default 1.0
        Value of the constant feature whose weight gives the intercept. The larger, the less the intercept is
        penalized.
    penalize_intercept : bool, default True
        Whether the intercept is part of the penalized norm, as in scikit-learn. If False, the intercept is
        unpenalized.
    class_weight : dict or "balanced", optional
        Per-class multipliers of C.
    cost : array of shape (n_classes, n_classes), optional
        ``cost[i, j]`` is the cost of predicting class j when the true class is i, in the order of
        ``classes_``. The diagonal is zero. By default all errors cost 1. Requires
        ``multi_class="crammer_singer"``.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".
        With several classes, each has the same spread. It has a center of its own if the mean has a row per
        class.
    fixed : dict, optional
        Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
        constant, is not included in ``objective_``. With several classes, give one value for all classes or
        one for each.
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
        if the solver keeps them. If a data set on disk has only grown since then, its cutting planes are
        reused as well.
    keep_duals : bool, default False
        Whether to keep the dual variables of the samples, as ``dual_coef_``, with which
        :func:`maxmargin.testing.verify_certificate` recomputes the lower bound. They are not saved.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
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
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Weights.
    intercept_ : array of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : array
        The class labels, sorted.
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
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)     # unscaled features
    >>> svc = LinearSVC(loss="hinge").fit(X, y)
    >>> svc.gap_ <= 1e-3, svc.certificate_, svc.stop_reason_
    (True, 'exact', 'gap')
    >>> bool(svc.lower_bound_ <= 49.959 <= svc.objective_)
    True

    With the logistic loss there are probabilities:

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> svc = LinearSVC(loss="logistic", multi_class="multinomial").fit(X, y)
    >>> svc.predict_proba(X[:1]).round(2)
    array([[0.98, 0.02, 0.  ]])
    """

    _constraints = of_class(
        loss=one_of(*LOSSES) | LOSS_OBJECT,
        multi_class=one_of(*KINDS),
        cost=MATRIX | NONE,
    )

    penalty: Literal["l2"] = "l2"
    loss: Literal["hinge", "squared_hinge", "logistic"] | ScoreLoss = "squared_hinge"
    _: KW_ONLY
    dual: Literal["auto"] | bool = "auto"
    C: float = 1.0
    tol: Tolerance = 1e-3
    multi_class: Literal["ovr", "crammer_singer", "multinomial"] = "ovr"
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    penalize_intercept: bool = True
    class_weight: ClassWeight = None
    cost: npt.ArrayLike | None = None
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
    verbose: int = 0
    checkpoint: Resumable = None
    max_support: int = 10_000

    @certified_fit
    def fit(
        self,
        X: Samples,
        y: Labels = None,
        sample_weight: Numbers = None,
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
            The target of each sample. Omit it for a data set, which contains its own. Class labels of any
            type.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.

        Returns
        -------
        self
            The estimator itself.
        """
        keeping = FitCheckpoint(self, resume_from, X=X, y=y, sample_weight=sample_weight)
        self._fit(X, y, sample_weight, keeping=keeping)
        return self

    def _fit(
        self,
        X: Samples,
        y: Any,
        sample_weight: Any = None,
        last: LinearFits | None = None,
        keeping: FitCheckpoint | None = None,
    ) -> LinearFits:
        """Fit, continuing from ``last``: a fit to the same data with another C."""
        rows = training(self, X, y, sample_weight)
        classes = classes_of(rows, X)
        self.classes_ = classes.names
        require_two_classes(self, self.classes_)
        together = (last is None or len(last.results) == 1) and not self.keep_duals
        model = linear_model(self, rows, classes, together=together)
        data, grown = {"X": X, "y": y}, X if y is None and sample_weight is None else None
        return self._train(model, rows.design, data, last, grown=grown, keeping=keeping)

    @if_streamable
    def partial_fit(
        self, X: Samples, y: Labels = None, classes: Labels = None, sample_weight: Numbers = None
    ) -> Self:
        """Update the model with the next samples of a stream, each of which is seen once.

        At most ``max_support`` samples are kept. Other samples that contributed to the solution are merged
        into one cutting plane. After every call, ``lower_bound_`` is a lower bound of the optimum over *all
        samples seen so far*. An upper bound requires another pass over the samples: until :meth:`verify` is
        called, ``objective_`` and ``gap_`` are infinite, ``converged_`` is False and ``certificate_`` is
        "lower_only".

        The order of the stream matters. If samples are sorted by class or by time, the model partly forgets
        the earlier ones: shuffle them, or mix several files. Batches of a few hundred samples or more are
        faster than single samples. A call of ``fit`` ends the stream.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Class labels.
        classes : array, optional
            All classes that occur in the stream. Required in the first call, unless ``fit`` was called
            before: then its classes are the default.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.

        Returns
        -------
        self
            The estimator itself.

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
        (2500, True, 'lower_only')
        >>> svc.verify(seen).certificate_, svc.gap_ < 0.1
        ('exact', True)
        """
        first = not hasattr(self, "_streams")
        if first:
            if classes is None and not hasattr(self, "classes_"):
                raise ValueError("classes must be passed on the first call to partial_fit.")
            check_labels(classes, "classes")
            self.classes_ = np.unique(np.asarray(self.classes_ if classes is None else classes))
            if len(self.classes_) < 2:
                raise ValueError(f"classes={classes!r}: at least two classes are needed.")
        elif classes is not None and not np.array_equal(
            np.unique(np.asarray(classes)), self.classes_
        ):
            raise ValueError(
                f"classes={classes!r} are not those of the first call to partial_fit, {self.classes_}."
            )
        return self._learn(self._batch(X, y, sample_weight, first=first))

    def _batch(
        self, X: Samples, y: Any, sample_weight: Numbers = None, *, first: bool
    ) -> StreamBatch:
        check_streamable(self)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} requires the labels of all samples, which are not known "
                "in a stream: give the weights as a dict."
            )
        rows = training(self, X, y, sample_weight, reset=first)
        y = rows.y[:]
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = np.flatnonzero(self.classes_[codes] != y)
        if len(unknown):
            raise ValueError(
                f"row {unknown[0]} has the label '{y[unknown[0]]}', which is not one of the classes "
                f"{self.classes_} of the first call to partial_fit."
            )
        counts = np.bincount(codes, minlength=len(self.classes_))
        model = linear_model(self, rows, Classes(self.classes_, codes, counts))
        return StreamBatch(rows.design, model)
