"""LinearSVC: linear classification with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.design import as_design
from maxmargin.engines import make_engine
from maxmargin.estimators._base import CertifiedEstimator, with_callbacks
from maxmargin.losses import CrammerSinger, Hinge, ScoreLoss
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane


class LinearSVC(ClassifierMixin, CertifiedEstimator):
    """Linear support vector classification, certified.

    Minimises ``1/2 |w|^2 + C sum_i s_i loss_i``: the hinge loss for two classes, Crammer and
    Singer's for more. Takes the place of :class:`sklearn.svm.LinearSVC`; the differences are

    * every fit ends with bounds ``lower_bound_ <= F* <= objective_``; none "fails to converge";
    * ``loss="hinge"`` is the default (scikit-learn: squared hinge), and several classes are
      trained jointly (scikit-learn: one against the rest);
    * ``tol`` is the relative gap of the objective, not a threshold on a gradient;
    * ``max_iter=None``: no limit by default; ``random_state=0``: runs repeat bit for bit;
    * new: ``penalize_intercept``, ``cost``, ``solver``, ``max_seconds``, ``n_jobs``, ``callbacks``.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, as in scikit-learn: it multiplies a sum over rows.
    tol : float or stopping rule, default 1e-3
        Relative gap at which to stop.
    loss : {"hinge"}, default "hinge"
        The loss.
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
    solver : "auto" or solver object, default "auto"
        The method; see :mod:`maxmargin.solvers`.
    max_iter, max_seconds : optional
        Limits. The best point is returned with its bounds.
    n_jobs : int, optional
        Threads. The result has the same bits for any number of them.
    warm_start : bool, default False
        Start from the weights of the previous fit.
    random_state : int, default 0
        Seed for solvers that visit rows in random order.
    callbacks : list of callables, optional
        Each receives every iteration's record and may return True to stop.
    verbose : int, default 0
        1 shows one live line.

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
        loss: str = "hinge",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        penalize_intercept: bool = True,
        class_weight: Any = None,
        cost: Any = None,
        solver: Any = "auto",
        max_iter: int | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.tol = tol
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.cost = cost
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            float32 and float64 data are used without a copy (dense: C order; sparse: CSR).
        y : array of shape (n_samples,)
            Labels of any kind.
        sample_weight : array of shape (n_samples,), optional
            Factors of C by row.

        Returns
        -------
        LinearSVC
            The fitted estimator.
        """
        if self.loss != "hinge":
            raise ValueError(f"loss={self.loss!r} is not known; use 'hinge'.")
        data = {"X": X, "y": y}
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                "LinearSVC needs samples of at least 2 classes in the data, but the data contains only one "
                f"class: {self.classes_[0]!r}"
            )
        weight = self._weights(X, codes, sample_weight)
        loss, targets = self._loss(codes)
        intercept = self._intercept_feature()
        engine = make_engine(self.n_jobs)
        try:
            risk = ScoreRisk(
                X, targets, loss, sample_weight=weight, intercept=intercept, engine=engine
            )
            start = None
            if self.warm_start and hasattr(self, "coef_"):
                start = self._flatten(intercept, X.shape[1])
            result = self._minimize(
                risk,
                CuttingPlane() if self.solver == "auto" else self.solver,
                regularizer=self._regularizer(X, codes, weight, intercept),
                w0=start,
                fitted=lambda w: self._attributes(w, X.shape[1], intercept),
                data=data,
            )
        finally:
            engine.close()
        for name, value in self._attributes(result.w, X.shape[1], intercept).items():
            setattr(self, name, value)
        return self

    def _weights(self, X: Any, codes: Any, sample_weight: Any) -> Array:
        weight: Array = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        if self.class_weight is not None:
            factors = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_[codes]
            )
            weight = weight * factors[codes]
        if not weight.any():
            raise ValueError("all sample weights are zero: there is nothing to learn from.")
        return weight

    def _loss(self, codes: Any) -> tuple[ScoreLoss, Any]:
        n_classes = len(self.classes_)
        if self.cost is None:
            if n_classes == 2:
                return Hinge(), np.where(codes == 1, 1.0, -1.0)
            return CrammerSinger(1.0 - np.eye(n_classes)), codes
        cost = np.asarray(self.cost, dtype=np.float64)
        if cost.shape != (n_classes, n_classes):
            raise ValueError(
                f"cost has shape {cost.shape}, but there are {n_classes} classes: give a "
                f"({n_classes}, {n_classes}) matrix in the order of classes_ = {self.classes_}."
            )
        return CrammerSinger(cost), codes

    def _intercept_feature(self) -> float:
        if not self.fit_intercept:
            return 0.0
        if not self.penalize_intercept:
            return 1.0  # its scale is without effect when nothing is penalised
        if not self.intercept_scaling > 0:
            raise ValueError(
                f"intercept_scaling={self.intercept_scaling!r}: it must be positive with fit_intercept=True."
            )
        return float(self.intercept_scaling)

    def _regularizer(self, X: Any, codes: Any, weight: Array, intercept: float) -> SquaredNorm:
        """The norm without the intercept where that is asked, with a bound of the optimal
        intercept.

        At the optimum |w| <= W = sqrt(2 C R(0)), so scores without intercept differ by at most
        S = W max|x| (binary), sqrt(2) W max|x| (K classes). If the intercepts of two groups of
        classes were further apart than the largest cost plus S, every row of the lower group would
        be lost to the upper one and none the other way round: moving them together would lower the
        risk. So sorted intercepts are at most that far apart.
        """
        if intercept == 0.0 or self.penalize_intercept:
            return SquaredNorm()
        totals = np.bincount(codes, weights=weight, minlength=len(self.classes_))
        if (totals == 0.0).any():
            missing = self.classes_[np.flatnonzero(totals == 0.0)[0]]
            raise ValueError(
                f"class {missing!r} has no weight: an intercept that is not penalised would be infinite. "
                "Remove the class or use penalize_intercept=True."
            )
        d = X.shape[1]
        squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
        largest = float(np.sqrt(np.asarray(squares).max()))
        if len(self.classes_) == 2 and self.cost is None:
            radius = np.sqrt(2.0 * self.C * weight.sum())
            return SquaredNorm(np.array([d]), 1.0 + radius * largest)
        k = len(self.classes_)
        top = 1.0 if self.cost is None else float(np.max(self.cost))
        radius = np.sqrt(2.0 * self.C * weight.sum() * top)
        spread = (k - 1) * (top + np.sqrt(2.0) * radius * largest)
        return SquaredNorm(np.arange(d * k, (d + 1) * k), 0.5 * spread)

    def _attributes(self, w: Array, n_features: int, intercept: float) -> dict[str, Any]:
        """coef_ and intercept_ from the flat weights."""
        W = w.reshape(n_features + int(intercept != 0.0), -1)
        coef = W[:n_features].T
        bias = intercept * W[n_features] if intercept != 0.0 else np.zeros(W.shape[1])
        if W.shape[1] == 2 and len(self.classes_) == 2:  # two classes with a cost matrix
            coef, bias = coef[1:] - coef[:1], bias[1:] - bias[:1]
        return {"coef_": np.ascontiguousarray(coef), "intercept_": np.array(bias)}

    def _flatten(self, intercept: float, n_features: int) -> Array | None:
        """The flat weights of the previous fit, if they fit this one."""
        columns = 1 if len(self.classes_) == 2 else len(self.classes_)
        if self.coef_.shape != (columns, n_features) or (columns == 1 and self.cost is not None):
            return None
        parts = [self.coef_.T]
        if intercept != 0.0:
            parts.append(self.intercept_[None] / intercept)
        return np.concatenate(parts).ravel()

    def decision_function(self, X: Any) -> Array:
        """Scores: one per row for two classes, else one column per class.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            The larger, the more of the (second) class.
        """
        check_is_fitted(self)
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        design = as_design(X)
        W = np.ascontiguousarray(self.coef_.T)
        if W.shape[1] == 1:
            scores: Array = design.dot(W[:, 0].copy(), 0, X.shape[0]) + self.intercept_[0]
            return scores
        return design.dot(W, 0, X.shape[0]) + self.intercept_

    def predict(self, X: Any) -> Any:
        """The class of the largest score.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        scores = self.decision_function(X)
        which = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[which]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
