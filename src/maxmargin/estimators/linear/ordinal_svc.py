"""OrdinalSVC: classes in an order, with a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import Start
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.threshold_rows import ThresholdRows
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import (
    Callbacks,
    ClassWeight,
    File,
    Labels,
    Method,
    Numbers,
    Resumable,
    Samples,
    Seed,
    Tolerance,
    Workers,
    of_class,
    one_of,
)
from maxmargin.estimators.linear.fit import LinearFit
from maxmargin.estimators.linear.kept_duals import coefficients, require_duals
from maxmargin.estimators.linear.probabilities import Probabilities, logistic_only
from maxmargin.estimators.linear.problem import (
    LOSSES,
    class_factors,
    free_intercepts,
    require_positive_weight,
)
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.validation import (
    Training,
    classes_of,
    finite_scores,
    require_two_classes,
    rows_for,
    scored,
    training,
)
from maxmargin.risks import ScoreRisk


class OrdinalDecision(Probabilities):
    """Predictions from ``coef_``, ``thresholds_`` and ``classes_``."""

    thresholds: str
    metric: str
    thresholds_: Array

    @chunked
    def decision_function(self, X: Samples, *, out: Array | None = None) -> Array:
        """Return scores: one per sample for two classes, otherwise one column per class.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            The score of class k is ``k <w, x>`` minus the first k thresholds, so that neighboring classes
            differ by ``<w, x>`` minus the threshold between them. For two classes, this difference.
        """
        apart = self._above(X)
        if apart.shape[1] == 1:
            return apart[:, 0]
        return np.cumsum(np.pad(apart, ((0, 0), (1, 0))), axis=1)

    def _above(self, X: Any) -> Array:
        """The scores minus each threshold."""
        check_is_fitted(self, "coef_")
        design = rows_for(self, X)
        scores = design.dot(np.ascontiguousarray(self.coef_), 0, design.shape[0])
        return finite_scores(scores)[:, None] - self.thresholds_

    @logistic_only
    @chunked
    def predict_log_proba(self, X: Any, *, out: Any = None) -> Array:
        """Return the logarithm of the probability of each class. Only with the logistic loss.

        With ``thresholds="all"``, the logistic function of ``<w, x> - theta_j`` is the probability of a class
        above threshold j (proportional odds); ``predict`` returns the median of these classes, which need not
        be the most probable one. With "immediate", it is the probability of the class above the threshold,
        given one of the two next to it (adjacent categories); ``predict`` returns the most probable class.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Logarithms of probabilities, in the order of ``classes_``.
        """
        above = self._above(X)
        if self.thresholds == "immediate":
            return np.asarray(
                log_softmax(np.cumsum(np.pad(above, ((0, 0), (1, 0))), axis=1), axis=1)
            )
        # of a class between two thresholds: s(a) - s(b) = s(a) s(-b) (1 - exp(b - a))
        logs = np.zeros((len(above), len(self.classes_)))
        logs[:, 1:] -= np.logaddexp(0.0, -above)
        logs[:, :-1] -= np.logaddexp(0.0, above)
        with np.errstate(divide="ignore"):  # a class between equal thresholds has probability 0
            logs[:, 1:-1] += np.log(-np.expm1(-np.diff(self.thresholds_)))
        return logs

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy, or with ``metric="absolute_error"`` minus the mean absolute error.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. True labels.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. By default those of the data set, if ``X`` is one, else 1.

        Returns
        -------
        float
            Between 0 and 1; the error is 1 for each class between prediction and truth.
        """
        if self.metric == "accuracy":
            return super().score(X, y, sample_weight)
        labels, sample_weight = scored(X, y, sample_weight)
        places = [np.searchsorted(self.classes_, given) for given in (labels, self.predict(X))]
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"y contains {np.asarray(labels)[unknown][0]}, which is not one of the classes "
                f"{self.classes_}."
            )
        return -float(np.average(np.abs(places[0] - places[1]), weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # for classes in no order
        return tags


@dataclass(eq=False, repr=False)
class OrdinalSVC(OrdinalDecision, LinearFit):
    """Linear classification into ordered classes, with a certificate.

    One direction w and K - 1 thresholds for K classes: a sample belongs to the class between whose thresholds
    its score ``<w, x>`` lies. The problem is to minimize::

        1/2 |w|^2 + C sum_i s_i sum_j loss(z_ij (<w, x_i> - theta_j))

    over w and the thresholds theta, which are not penalized. z_ij is +1 if the class of sample i is above
    threshold j, and -1 otherwise. This is the threshold model of Rennie and Srebro, "Loss functions for
    preference levels" (2005). With ``loss="logistic"`` it is that of ``mord.LogisticAT`` and
    ``mord.LogisticIT`` with ``alpha = 1 / C``.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over samples, as in scikit-learn.
    thresholds : {"all", "immediate"}, default "all"
        The thresholds j in the loss of a sample. "all": each of them, so that an error costs about as much as
        the number of classes between prediction and truth. At the optimum they are in ascending order.
        "immediate": those next to the class of the sample, so that distant errors cost no more per class than
        by their distance. Their order is not enforced: two thresholds can change places if the class between
        them is rare, and that class is then never predicted.
    loss : {"hinge", "squared_hinge", "logistic"}, default "hinge"
        The loss of a sample and a threshold. Only "logistic" gives probabilities.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    class_weight : dict or "balanced", optional
        Per-class multipliers of C.
    metric : {"accuracy", "absolute_error"}, default "accuracy"
        What ``score`` returns, and so what a search maximizes: the accuracy, or minus the mean absolute
        difference of the positions of predicted and true class.
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
        Whether to start from the solution of the previous fit. Its weights are reused.
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

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights.
    thresholds_ : array of shape (n_classes - 1,)
        Thresholds. With two classes, the only one is minus the intercept.
    classes_ : array
        The class labels, sorted. This is their order: encode others as numbers.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.
    dual_coef_ : array of shape (n_classes - 1, n_samples)
        With ``keep_duals=True``: coefficients of the samples in the weights of the dual solution, one row for
        each threshold; the weights are the sum over rows.
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
    n_iter_ : int
        Number of iterations.
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import OrdinalSVC
    >>> X, target = load_diabetes(return_X_y=True)
    >>> y = np.digitize(target, [100, 150, 200])     # four grades
    >>> model = OrdinalSVC(C=100.0, loss="logistic").fit(X, y)
    >>> model.converged_, model.thresholds_.round(1)
    (True, array([-1.1,  0.2,  1.4]))
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.06, 0.14, 0.25, 0.54]])
    """

    _constraints = of_class(
        thresholds=one_of("all", "immediate"),
        loss=one_of(*LOSSES),
        metric=one_of("accuracy", "absolute_error"),
    )

    C: float = 1.0
    _: KW_ONLY
    thresholds: Literal["all", "immediate"] = "all"
    loss: Literal["hinge", "squared_hinge", "logistic"] = "hinge"
    tol: Tolerance = 1e-3
    class_weight: ClassWeight = None
    metric: Literal["accuracy", "absolute_error"] = "accuracy"
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
            The samples, of shape (n_samples, n_features). They are copied for each threshold if the copies
            have at most 67 million entries; larger ones, and a data set (:func:`maxmargin.data.open`), are
            used as they are.
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Class labels, in
            ascending order of the classes.
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
        for name in ("dual_coef_", "support_"):
            self.__dict__.pop(name, None)
        data = training(self, X, y, sample_weight)
        classes = classes_of(data, X)
        self.classes_ = classes.names
        require_two_classes(self, self.classes_)
        codes, weight = classes.codes[:], require_positive_weight(data.weight)[:]
        if self.class_weight is not None:
            weight = weight * class_factors(self.class_weight, classes)[codes]
        rows, signs, weights, norm = self._problem(data, codes, weight)
        previous = self._previous_weights("coef_", (data.n_features,))
        start = None
        if previous is not None and len(self.thresholds_) == len(self.classes_) - 1:
            start = Start(np.concatenate([previous, self.thresholds_]))
        with self._workers() as engine:
            solver: Any = self._automatic(engine) if self._is_automatic else self.solver
            loss = LOSSES[self.loss]()
            risk = ScoreRisk(rows.stored(), signs, loss, sample_weight=weights, engine=engine)
            if self.keep_duals:
                require_duals(risk, norm, solver)
            result = self._minimize(
                risk,
                solver,
                regularizer=norm,
                start=start,
                fitted=self._parts,
                data={"X": X, "y": y},
                keeping=keeping,
                # ascending thresholds never cost more if each sample is compared with all of them
                returned=partial(_sorted, data.n_features) if self.thresholds == "all" else None,
            )
        self.__dict__.update(self._parts(result.w))
        if self.keep_duals:
            kept = np.zeros((len(self.thresholds_), data.n))
            samples, thresholds = rows.rows(0, rows.shape[0])
            kept[thresholds, samples] = coefficients(loss, signs, result, self.C, norm)[0]
            self._keep_duals(kept)
        return self

    def _problem(
        self, data: Training, codes: IntArray, weight: Array
    ) -> tuple[ThresholdRows, Array, Array, SquaredNorm]:
        """The rows of samples and thresholds, their signs and weights, and the norm of w."""
        last = len(self.classes_) - 2
        if self.thresholds == "all":
            first, counts = np.zeros_like(codes), np.full(len(codes), last + 1)
        else:
            first = np.maximum(codes - 1, 0)
            counts = 1 + np.minimum(codes, last) - first
        rows = ThresholdRows(data.design, last + 1, first, counts)
        samples, thresholds = rows.rows(0, rows.shape[0])
        above = codes[samples] > thresholds
        weights = np.ascontiguousarray(weight[samples])
        sides = np.bincount(2 * thresholds + above, weights, 2 * last + 2).reshape(-1, 2)
        empty = np.flatnonzero((sides == 0.0).any(axis=1))
        if len(empty):
            lower, upper = self.classes_[empty[0]], self.classes_[empty[0] + 1]
            raise ValueError(
                f"the threshold between class {lower} and class {upper} has no weight on one side, so it "
                "would be infinite: remove a class without weight."
            )
        loss = LOSSES[self.loss]()
        # as for the unpenalized intercept of each threshold's problem of two classes
        demand = 1.0
        if self.loss == "logistic":
            demand = float(np.abs(np.log(sides[:, 1] / sides[:, 0])).max())
        total = self.C * float(sides.sum())
        norm = free_intercepts(total, data.n_features, data.largest_norm(), loss, demand)
        free = data.n_features + np.arange(last + 1)
        return rows, np.where(above, 1.0, -1.0), weights, replace(norm, free=free)

    def _parts(self, w: Array) -> dict[str, Any]:
        d = self.n_features_in_
        return {"coef_": w[:d].copy(), "thresholds_": w[d:].copy()}


def _sorted(d: int, w: Array) -> Array:
    """The weights with ascending thresholds."""
    return np.concatenate([w[:d], np.sort(w[d:])])
