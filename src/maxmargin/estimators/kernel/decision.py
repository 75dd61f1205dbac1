"""Predictions of fitted kernel classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compat import ovr_decision_function
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import Samples
from maxmargin.estimators.kernel.classes import columns, pairs
from maxmargin.estimators.kernel.expansion import FittedExpansion
from maxmargin.estimators.kernel.scores import SupportSegment
from maxmargin.estimators.parameters import NO_PROBABILITIES, Missing
from maxmargin.estimators.scores import AccuracyScore


class KernelDecision(AccuracyScore, FittedExpansion):
    """Predictions from ``support_vectors_``, ``dual_coef_``, ``intercept_`` and ``classes_``."""

    _in_double = False
    n_support_: IntArray
    classes_: npt.NDArray[Any]
    predict_proba = Missing(NO_PROBABILITIES)
    decision_function_shape: str
    #: of an estimator that has no such parameter
    break_ties: bool = False

    @chunked
    def decision_function(self, X: Samples, *, out: Array | None = None) -> Array:
        """Return scores.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples.
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            Two classes: the larger, the more confident the prediction of the second class. Several classes,
            one-vs-one: with ``decision_function_shape="ovr"``, the number of votes for each class plus a
            fraction that measures their confidence; with "ovo", the scores of the pairs (0, 1), (0, 2), ...,
            positive for the first class of the pair. Crammer and Singer: the score of each class.

        Notes
        -----
        With 1000 support vectors or more, kernel values are computed in single precision. Scores then have
        errors of about 1e-7 times the sum of the absolute coefficients, and may differ by as much between
        calls with different other samples. Samples whose label such an error could change are computed in
        double precision, so labels are right.
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        if self._voting and self.decision_function_shape == "ovr":
            votes: Array = ovr_decision_function(scores <= 0, -scores, len(self.classes_))
            return votes
        return scores

    @chunked
    def predict(self, X: Samples, *, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Predict the class of each sample: by the sign, by the votes of the pairs of classes (ties go to the
        first class, unless ``break_ties``), or by the largest score.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples.
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            Class labels.
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0).astype(int)]
        if not self._voting:
            return self.classes_[scores.argmax(axis=1)]
        if self.break_ties and self.decision_function_shape == "ovr":
            votes = ovr_decision_function(scores <= 0, -scores, len(self.classes_))
            return self.classes_[votes.argmax(axis=1)]
        return self.classes_[_votes(scores > 0, scores <= 0, len(self.classes_)).argmax(axis=1)]

    @property
    def _voting(self) -> bool:
        """Whether the functions belong to pairs of classes."""
        return 2 < len(self.classes_) == len(self.dual_coef_) + 1

    def _segments(self) -> list[SupportSegment]:
        if not self._voting:
            return super()._segments()
        ends = np.cumsum(self.n_support_)
        return [
            SupportSegment(slice(hi - n, hi), self.dual_coef_[:, hi - n : hi].T, where)
            for hi, n, where in zip(ends, self.n_support_, columns(len(self.classes_)), strict=True)
        ]

    def _uncertain(self, scores: Array, error: Array) -> npt.NDArray[np.bool_]:
        """Samples whose label could be changed by such errors."""
        if len(self.classes_) == 2:
            return np.asarray(np.abs(scores[:, 0]) <= error)
        if self._voting:
            K, error = len(self.classes_), error[:, None]
            sure = _votes(scores > error, scores < -error, K)
            possible = _votes(scores >= -error, scores <= error, K)
            first = np.arange(len(scores)), sure.argmax(axis=1)
            possible[first] = -1
            return np.asarray(possible.max(axis=1) >= sure[first])
        best = np.partition(scores, -2, axis=1)[:, -2:]
        return np.asarray(best[:, 1] - best[:, 0] <= 2.0 * error)


def _votes(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], K: int) -> IntArray:
    """Votes for each class, from the pairs that favor their first and their second class."""
    votes = np.zeros((len(first), K), dtype=np.int64)
    for k, (i, j) in enumerate(pairs(K)):
        votes[:, i] += first[:, k]
        votes[:, j] += second[:, k]
    return votes
