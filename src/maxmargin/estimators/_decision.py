"""Linear classifiers once they are fitted: scores and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.core.vectors import Array
from maxmargin.data.design import as_design


class LinearDecision(ClassifierMixin):
    """What ``coef_``, ``intercept_`` and ``classes_`` say about new rows."""

    coef_: Array
    intercept_: Array
    classes_: Any

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
        check_is_fitted(self, "coef_")
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
