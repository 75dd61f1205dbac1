"""Class probabilities of linear classifiers that were trained with the logistic loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax

from maxmargin.core.vectors import Array
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.linear.decision import LinearDecision
from maxmargin.estimators.linear.problem import is_logistic, is_multinomial
from maxmargin.estimators.parameters import NO_PROBABILITIES, AvailableIf

_ADVICE = NO_PROBABILITIES.replace("Use ", "Use loss='logistic' or ", 1)
logistic_only = AvailableIf.decorator(
    lambda estimator: "" if is_logistic(estimator.loss) else _ADVICE
)


class Probabilities(LinearDecision):
    """Adds ``predict_proba`` and ``predict_log_proba`` to a classifier with a parameter ``loss``."""

    loss: Any

    @logistic_only
    @chunked
    def predict_proba(self, X: Any, *, out: Any = None) -> Array:
        """Return the probability of each class. Only with the logistic loss.

        Two classes: the logistic function of the score. Several classes that were trained together: the
        softmax of the scores. One-vs-rest: the logistic functions of the scores, divided by their sum.

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
            Probabilities, in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    @logistic_only
    @chunked
    def predict_log_proba(self, X: Any, *, out: Any = None) -> Array:
        """Return the logarithm of the probability of each class. Only with the logistic loss.

        Small probabilities keep their digits, also those that are zero in double precision.

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
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        if not is_multinomial(self):
            scores = -np.logaddexp(0.0, -scores)
        logs: Array = log_softmax(scores, axis=1)
        return logs
