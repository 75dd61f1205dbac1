"""LogisticRegression: scikit-learn's model with a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.constraints import (
    SHARED,
    Callbacks,
    ClassWeight,
    Constraint,
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
from maxmargin.estimators.linear.fit import LinearFit
from maxmargin.estimators.linear.probabilities import Probabilities
from maxmargin.estimators.linear.problem import linear_model
from maxmargin.estimators.linear.proven import ProvenClasses
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.validation import classes_of, require_two_classes, training

#: names of scikit-learn's methods, all of which minimize the problem that is minimized here
SAME_PROBLEM = ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga")


@dataclass(eq=False, repr=False)
class LogisticRegression(ProvenClasses, Probabilities, LinearFit):
    """Logistic regression with a certificate.

    Minimizes ``1/2 |w|^2 + C sum_i s_i log(1 + exp(-y_i f(x_i)))`` for two classes and the multinomial
    logistic loss for more. The intercepts are not penalized. This is the problem of
    :class:`sklearn.linear_model.LogisticRegression`, with its parameters and attributes, and these
    differences:

    * Every fit ends with bounds ``lower_bound_ <= F* <= objective_`` of the optimum F*.
    * ``tol`` is the relative gap of the objective, not a threshold on a gradient, and by default there is no
      limit of iterations (``max_iter=None``).
    * ``solver`` is "auto" or a solver object. scikit-learn's names are accepted and mean "auto"; only
      "liblinear", which penalizes the intercept, is refused.
    * The penalty is the squared norm or a prior. There is no L1 penalty.

    :class:`LinearSVC` with ``loss="logistic"`` fits the same losses with a penalized intercept, and
    one-vs-rest.

    Parameters
    ----------
    penalty : {"l2"}, default "l2"
        Accepted as in scikit-learn. There is no other penalty.
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over samples, as in scikit-learn.
    l1_ratio : float, default 0.0
        Accepted as in scikit-learn. It must be 0.
    dual : bool, default False
        Accepted as in scikit-learn, without effect.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    intercept_scaling : float, default 1.0
        Accepted as in scikit-learn. It has no effect on an unpenalized intercept.
    class_weight : dict or "balanced", optional
        Per-class multipliers of C.
    random_state : int, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical.
    solver : {"auto", "lbfgs", "newton-cg", "newton-cholesky", "sag", "saga"} or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. All names mean "auto".
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results
        are bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".
    fixed : dict, optional
        Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
        constant, is not included in ``objective_``.
    nonnegative : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be negative.
    nonpositive : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be positive.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object.
    keep_duals : bool, default False
        Whether to keep the dual variables of the samples, as ``dual_coef_``, with which
        :func:`maxmargin.testing.verify_certificate` recomputes the lower bound. They are not saved.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    checkpoint : path or Checkpoint, optional
        File to which ``fit`` regularly writes its state, so that a fit that was killed can be resumed; see
        the user guide, "Checkpoints".

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Weights.
    intercept_ : array of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : array
        The class labels, sorted.
    n_iter_ : array of shape (1,)
        Number of iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.
    dual_coef_ : array of shape (1, n_samples) or (n_classes, n_samples)
        With ``keep_duals=True``: coefficients of the samples in the weights of the dual solution, one row for
        each row of ``coef_``.
    support_ : array
        With ``keep_duals=True``: indices of the samples with a nonzero coefficient.
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
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression().fit(X, y)
    >>> model.converged_, model.certificate_
    (True, 'exact')
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.98, 0.02, 0.  ]])
    """

    _same_as_auto = SAME_PROBLEM
    _constraints = of_class(
        solver=one_of(*SAME_PROBLEM)
        | SHARED["solver"]
        | Constraint(
            ("LinearSVC(loss='logistic'), which penalizes the intercept as 'liblinear' does",),
            lambda value: False,
        )
    )
    # not parameters: without annotations, these are no fields
    loss = "logistic"
    multi_class = "multinomial"
    penalize_intercept = False
    cost = None

    penalty: str = "l2"
    _: KW_ONLY
    C: float = 1.0
    l1_ratio: float = 0.0
    dual: bool = False
    tol: Tolerance = 1e-3
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    class_weight: ClassWeight = None
    random_state: Seed = 0
    solver: Method = "auto"
    max_iter: int | None = None
    verbose: int = 0
    warm_start: bool = False
    n_jobs: int | None = None
    prior: GaussianPrior | None = None
    fixed: Fixed = None
    nonnegative: Which = None
    nonpositive: Which = None
    max_seconds: float | None = None
    engine: Workers = "threads"
    keep_duals: bool = False
    callbacks: Callbacks = None
    checkpoint: Resumable = None

    @property  # type: ignore[override]
    def n_iter_(self) -> npt.NDArray[np.int32]:
        """Number of iterations, with the shape that scikit-learn gives it."""
        if "n_iter_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: it has no n_iter_")
        return np.array([vars(self)["n_iter_"]], np.int32)

    @n_iter_.setter
    def n_iter_(self, value: int) -> None:
        vars(self)["n_iter_"] = value

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
            The samples, of shape (n_samples, n_features). float32 and float64 data are used without a copy
            if they are in C order (dense) or CSR format (sparse). A data set (:func:`maxmargin.data.open`)
            is read from disk.
        y : array of shape (n_samples,)
            Class labels of any type. Omit it for a data set, which contains its own.
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
        rows = training(self, X, y, sample_weight)
        classes = classes_of(rows, X)
        self.classes_ = classes.names
        require_two_classes(self, self.classes_)
        model = linear_model(self, rows, classes)
        self._train(model, rows.design, {"X": X, "y": y}, None, keeping=keeping)
        return self
