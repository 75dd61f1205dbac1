"""MeasureSVC: a linear classifier trained for a non-decomposable metric, such as F1 or precision at k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d

from maxmargin.compat import check_sample_weight
from maxmargin.core.result import Start
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import Array
from maxmargin.data.design import Design, compact, take
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import (
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
)
from maxmargin.estimators.linear.decision import LinearDecision
from maxmargin.estimators.linear.measures import (
    MEASURE,
    as_copies,
    best_threshold,
    counts_rows,
    declared,
    measure_loss,
    measured,
    threshold,
)
from maxmargin.estimators.linear.problem import intercept_feature
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.validation import require_two_classes, scored, training
from maxmargin.estimators.weights import Weighing, weigh
from maxmargin.losses import ScoreLoss
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto


@dataclass(eq=False, repr=False)
class MeasureSVC(LinearDecision, CertifiedEstimator):
    """Linear binary classification that optimizes a non-decomposable metric, with a certificate.

    Minimizes ``1/2 |w|^2 + C R(w)``. ``R(w)`` is the maximum over labelings v of the training set of ``n
    loss(v) + sum_i 1/2 (v_i - y_i) s_i``, with scores ``s = X w + intercept``: a convex upper bound of n
    times the loss of the metric. With ``measure="error"`` this is ``LinearSVC`` with the same C. The second
    of ``classes_`` is the positive class.

    Parameters
    ----------
    measure : str, callable or loss object, default "f1"
        The metric: "error", "balanced_error", "f1", "fbeta", "prbep" (precision-recall break-even point),
        "precision_at_k", "recall_at_k" or "roc_auc"; for quantification "ae", "nae", "rae", "kld", "nkld" or
        "q". A callable ``(tp, fp, fn, tn) -> loss`` may be any function of the confusion matrix that is 0 if
        there are no errors. It is evaluated for all confusion matrices, of which at most 4 million are
        allowed (about 4,000 samples, half of them positive). An object of a subclass of
        :class:`maxmargin.losses.ConfusionMatrixLoss` has no such limit; see the user guide, "Your own
        measure".
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies R.
    beta : float, default 1.0
        Parameter of "fbeta" and "q".
    k : int, optional
        For "precision_at_k" and "recall_at_k": number of training samples that are predicted as positive.
    rescaling : {"margin", "slack"}, default "margin"
        "slack" maximizes ``n loss(v) (1 + sum_i 1/2 (v_i - y_i) s_i)`` instead. It evaluates all confusion
        matrices, with the same limit as above, and is not available for "roc_auc".
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    fit_intercept : bool, default True
        Whether to fit an intercept. "roc_auc" and "prbep" do not depend on an intercept. It is then set after
        training, so that the number of training samples predicted as positive is the number of positive
        samples.
    intercept_scaling : float, default 1.0
        Value of the constant feature whose weight gives the intercept. The larger, the less the intercept is
        penalized.
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
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is the optimized cutting plane method,
        and for "error" the methods of ``LinearSVC``.
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
    coef_ : array of shape (1, n_features)
        Weights.
    intercept_ : array of shape (1,)
        Intercept.
    threshold_ : float
        Samples with ``X coef_ + intercept_ > threshold_`` are predicted as positive. For metrics of the
        confusion matrix that are not sums over samples, such as "f1", it maximizes the metric on the training
        data, because weights that minimize the convex bound may rank the samples well and still put 0 in the
        wrong place. Otherwise 0. ``intercept_`` and the certificate do not depend on it.
    classes_ : array
        The class labels, sorted. The second is the positive class.
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
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.metrics import f1_score
    >>> from maxmargin import LinearSVC, MeasureSVC
    >>> X, y = make_classification(
    ...     500, 10, weights=[0.9], class_sep=0.5, flip_y=0.05, random_state=0
    ... )
    >>> svc = MeasureSVC("f1").fit(X, y)
    >>> svc.converged_, svc.certificate_
    (True, 'exact')
    >>> plain = LinearSVC().fit(X, y)
    >>> round(f1_score(y, svc.predict(X)), 2), round(f1_score(y, plain.predict(X)), 2)
    (0.61, 0.2)
    """

    threshold_: float = field(init=False)

    _constraints = of_class(measure=MEASURE)

    measure: Any = "f1"
    C: float = 1.0
    _: KW_ONLY
    beta: float = 1.0
    k: int | None = None
    rescaling: Literal["margin", "slack"] = "margin"
    tol: Tolerance = 1e-3
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
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
            The samples, of shape (n_samples, n_features). float32 and float64 data are used without a copy if
            they are in C order (dense) or CSR format (sparse).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Labels of two classes.
        sample_weight : array of shape (n_samples,), optional
            Sample weights: any nonnegative numbers for "error", "balanced_error" and "roc_auc". The other
            metrics count samples and require integers: a sample of weight 2 counts as two samples.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.

        Returns
        -------
        self
            The estimator itself.
        """
        data = {"X": X, "y": y}
        rows = training(self, X, y, sample_weight)
        keeping = FitCheckpoint(self, resume_from, X=X, y=y, sample_weight=sample_weight)
        sign, design = self._signs(rows.y[:]), compact(rows.design)
        weight = self._checked(rows.weight[:], sign)
        intercept = self._intercept_feature()
        names = getattr(self, "feature_names_in_", None)
        weights = weigh(self, design.shape[1], names, intercept=intercept)
        if counts_rows(self._declared(), self.rescaling) and (weight != 1.0).any():
            copies = as_copies(weight, self.measure)
            design, sign, weight = take(design, copies), sign[copies], np.ones(len(copies))
        loss = measure_loss(self.measure, self.beta, self.k, self.rescaling, sign)
        with self._workers() as engine:
            risk = ScoreRisk(
                design, sign, loss, sample_weight=weight, intercept=intercept, engine=engine
            )
            result = self._minimize(
                weights.risk(risk),
                Auto() if self.solver == "auto" else self.solver,
                regularizer=weights.norm,
                start=self._start(design.shape[1], intercept, weights),
                fitted=lambda w: self._attributes(
                    weights.whole(w), risk, lambda w: _scores(design, intercept, w)
                ),
                data=data,
                keeping=keeping,
            )
            found = self._attributes(  # the workers are now free to compute scores
                weights.whole(result.w), risk, lambda w: risk.scores(risk.evaluate(w))
            )
        self.__dict__.update(found)
        self._warn_if_trivial()
        return self

    def _signs(self, y: Any) -> Array:
        """-1 for the first class, +1 for the second."""
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}, but MeasureSVC separates a positive class from a negative one."
            )
        require_two_classes(self, self.classes_)
        return np.where(y == self.classes_[1], 1.0, -1.0)

    def _checked(self, weight: Array, sign: Array) -> Array:
        for side, label in zip((-1.0, 1.0), self.classes_, strict=True):
            if not weight[sign == side].any():
                raise ValueError(f"all sample weights of class {label} are zero.")
        return weight

    def _intercept_feature(self) -> float:
        return 0.0 if self._set_afterwards() else intercept_feature(self)

    def _declared(self) -> ScoreLoss | None:
        """The loss of ``measure``, if it is a string or an object."""
        return declared(self.measure, self.beta, self.k)

    def _set_afterwards(self) -> bool:
        loss = self._declared()
        return loss is not None and loss.shift_invariant

    def _attributes(
        self, w: Array, risk: ScoreRisk, scores: Callable[[Array], Array]
    ) -> dict[str, Any]:
        d, intercept = risk.rows.design.shape[1], risk.rows.intercept
        sign, weight = risk.rows.y, risk.rows.weight
        coef, bias, cutoff, found = w[:d].copy(), 0.0, 0.0, scores(w)
        if intercept != 0.0:
            bias = intercept * float(w[d])
        elif self.fit_intercept and self._set_afterwards():
            bias = -threshold(found, weight, float(np.sum(weight[sign > 0])))
        if not self._set_afterwards():
            cutoff = best_threshold(self.measure, self._declared(), found, sign > 0, weight)
        return {"coef_": coef[None], "intercept_": np.array([bias]), "threshold_": cutoff}

    def _warn_if_trivial(self) -> None:
        """Warn if the weights are zero, so that all samples get the same label."""
        if self.coef_.any():
            return
        warn_user(
            "All weights are zero, so MeasureSVC predicts the same class for every sample: up to tol, the "
            f"convex bound of measure={self.measure!r} is smallest there. This happens if a class is rare "
            "and the classes overlap; another C does not change it. Use LinearSVC in "
            "sklearn.model_selection.TunedThresholdClassifierCV instead, or better features."
        )

    def _start(self, n_features: int, intercept: float, weights: Weighing) -> Start | None:
        """The weights of the previous fit, if their shape is right for this problem."""
        coef = self._previous_weights("coef_", (1, n_features))
        if coef is None:
            return None
        tail = self.intercept_ / intercept if intercept != 0.0 else np.empty(0)
        return Start(weights.learned(np.concatenate([coef[0], tail])))

    @chunked
    def decision_function(self, X: Samples, *, out: Any = None) -> Array:
        """Return ``X coef_ + intercept_ - threshold_``, which is positive for the positive class.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            The larger, the more confident the prediction of the second class.
        """
        scores = super().decision_function(X)
        return scores - self.threshold_

    def score(self, X: Samples, y: Labels = None, sample_weight: Numbers = None) -> float:
        """Return the metric that the classifier was trained for, as 1 - loss: the higher, the better.

        This is F1 for ``measure="f1"``, accuracy for "error", balanced accuracy for "balanced_error", ROC AUC
        for "roc_auc", 1 - the quantification error for "ae" and the like, and 1 - the value of a callable.
        "prbep", "precision_at_k" and "recall_at_k" are computed from the P or k highest scores. The best
        value is 1.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. True labels.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. By default those of the data set, if ``X`` is one, else 1. They are used as in
            ``fit``.

        Returns
        -------
        float
            1 - loss.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.metrics import f1_score
        >>> from maxmargin import MeasureSVC
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> svc = MeasureSVC("f1").fit(X, y)
        >>> bool(abs(svc.score(X, y) - f1_score(y, svc.predict(X))) < 1e-12)
        True
        """
        scores = self.decision_function(X)
        y, sample_weight = scored(X, y, sample_weight)
        labels = column_or_1d(y)
        check_consistent_length(scores, labels)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"y contains the label '{labels[unknown][0]}', which is not one of the classes "
                f"{self.classes_}."
            )
        weight = check_sample_weight(
            sample_weight, labels, dtype=np.float64, ensure_non_negative=True
        )
        positive, called = labels == self.classes_[1], scores > 0
        if counts_rows(self._declared(), self.rescaling) and (weight != 1.0).any():
            copies = as_copies(weight, self.measure)
            scores, positive, called = scores[copies], positive[copies], called[copies]
            weight = np.ones(len(copies))
        return measured(self.measure, self.beta, self.k, scores, positive, called, weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _scores(design: Design, intercept: float, w: Array) -> Array:
    scores: Array = design.dot(w[: design.shape[1]].copy(), 0, design.shape[0])
    return scores + intercept * w[-1] if intercept != 0.0 else scores
