"""Predictions of fitted linear classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.vectors import Array
from maxmargin.data.design import BLOCK, Design
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import Samples
from maxmargin.estimators.parameters import NO_PROBABILITIES, Missing
from maxmargin.estimators.scores import AccuracyScore
from maxmargin.estimators.validation import finite_scores, rows_for

#: scores in memory at a time if only the classes are asked for
MOST_SCORES = 2**18


class LinearDecision(AccuracyScore):
    """Predictions from ``coef_``, ``intercept_`` and ``classes_``."""

    coef_: Array
    intercept_: Array
    classes_: npt.NDArray[Any]
    predict_proba = Missing(NO_PROBABILITIES)

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
            The larger, the more confident the prediction of the (second) class.
        """
        check_is_fitted(self, "coef_")
        design = rows_for(self, X)
        return self._scores_of(design, 0, design.shape[0])

    def _scores_of(self, design: Design, lo: int, hi: int) -> Array:
        """The scores of some validated rows."""
        W = np.ascontiguousarray(self.coef_.T)
        if W.shape[1] == 1:
            scores: Array = design.dot(W[:, 0].copy(), lo, hi) + self.intercept_[0]
            return finite_scores(scores, lo)
        return finite_scores(design.dot(W, lo, hi) + self.intercept_, lo)

    @chunked
    def predict(self, X: Samples, *, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Predict the class with the largest score.

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
            Class labels.
        """
        check_is_fitted(self, "coef_")
        own = type(self).decision_function is LinearDecision.decision_function
        shape: Any = getattr(X, "shape", ())
        n, height = shape[0] if shape else 0, MOST_SCORES // len(self.classes_)
        if not own or n <= height:
            return self._labels(self.decision_function(X))
        design, height = rows_for(self, X), max(BLOCK, height // BLOCK * BLOCK)
        spans = [(lo, min(n, lo + height)) for lo in range(0, n, height)]
        return np.concatenate([self._labels(self._scores_of(design, *span)) for span in spans])

    def _labels(self, scores: Array) -> npt.NDArray[Any]:
        which = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[which]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
