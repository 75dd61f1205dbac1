"""Linear classifiers once they are fitted: scores and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.vectors import Array
from maxmargin.estimators.validation import finite_scores, rows_for, scored


class LinearDecision(ClassifierMixin):
    """What ``coef_``, ``intercept_`` and ``classes_`` say about new rows."""

    coef_: Array
    intercept_: Array
    classes_: Any

    def decision_function(self, X: Any) -> Array:
        """Scores: one per row for two classes, else one column per class.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            The larger, the more of the (second) class.
        """
        check_is_fitted(self, "coef_")
        design = rows_for(self, X)
        W = np.ascontiguousarray(self.coef_.T)
        if W.shape[1] == 1:
            scores: Array = design.dot(W[:, 0].copy(), 0, design.shape[0]) + self.intercept_[0]
            return finite_scores(scores)
        return finite_scores(design.dot(W, 0, design.shape[0]) + self.intercept_)

    def predict(self, X: Any) -> Any:
        """The class of the largest score.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        scores = self.decision_function(X)
        which = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[which]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of samples with the right label.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The samples.
        y : array of shape (n_samples,)
            True labels; left out for a data set, which has its own.
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples; those of a data set by default.

        Returns
        -------
        float
            Between 0 and 1.
        """
        y, sample_weight = scored(X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
