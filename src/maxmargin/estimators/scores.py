"""The scores of classifiers and regressors, also of data sets on disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators.chunks import accuracy, determination
from maxmargin.estimators.scikit import ClassifierMixin, RegressorMixin
from maxmargin.estimators.validation import own_labels, scored


class AccuracyScore(ClassifierMixin):
    """A classifier with ``score``."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy: the fraction of samples with the right label.

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
            Between 0 and 1.
        """
        if own_labels(X, y, sample_weight):
            return accuracy(self, X)
        y, sample_weight = scored(X, y, sample_weight)
        return float(super().score(X, y, sample_weight))


class RegressionScore(RegressorMixin):
    """A regressor with ``score``, which depends on ``loss``."""

    loss: Any
    quantile: Any

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions; with ``loss="quantile"``, the share
        D^2 of the pinball loss that they explain, or the mean of these of several quantiles.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. True values.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. By default those of the data set, if ``X`` is one, else 1.

        Returns
        -------
        float
            At most 1; 0 for predicting the mean of ``y``, or its quantile.
        """
        quantile = is_quantile(self.loss)
        if not quantile and own_labels(X, y, sample_weight):
            return determination(self, X)
        y, sample_weight = scored(X, y, sample_weight)
        if not quantile:
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import d2_pinball_score

        fitted: Any = self
        columns = fitted.predict(X).reshape(len(y), -1).T
        shares = [
            d2_pinball_score(y, column, sample_weight=sample_weight, alpha=q)
            for column, q in zip(columns, np.ravel(self.quantile), strict=True)
        ]
        return float(np.mean(shares))


def is_quantile(loss: Any) -> bool:
    """Whether this parameter is the pinball loss."""
    return isinstance(loss, str) and loss == "quantile"
