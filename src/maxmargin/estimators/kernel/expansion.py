"""Scores of fitted kernel machines: sums over support vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array, check_is_fitted

from maxmargin.core.matrices import in_order
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.checked_matrices import validate_data
from maxmargin.estimators.kernel.scores import KernelScores, SupportSegment
from maxmargin.estimators.validation import loaded
from maxmargin.kernels import Kernel, Precomputed


class FittedExpansion:
    """Scores from ``support_vectors_``, ``dual_coef_`` and ``intercept_``."""

    kernel: Any
    kernel_: Kernel
    support_: IntArray
    support_vectors_: Any
    dual_coef_: Array
    intercept_: Array
    n_jobs: int | None
    #: whether the scores themselves matter, not only what is decided by them
    _in_double: ClassVar[bool] = True

    @property
    def coef_(self) -> Array:
        """Weights of the features, one row per function; only for ``kernel="linear"``."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self, "dual_coef_")
        out = np.zeros((len(self.intercept_), self.support_vectors_.shape[1]))
        for rows, coef, where in self._segments():
            out[where] += (self.support_vectors_[rows].T @ coef).T
        return out

    def _segments(self) -> list[SupportSegment]:
        n = self.dual_coef_.shape[1]
        return [SupportSegment(slice(0, n), self.dual_coef_.T, slice(None))]

    def _scores(self, X: Any) -> Array:
        """All functions, one column each."""
        check_is_fitted(self, "dual_coef_")
        X = loaded(X, None, None)[0]
        if isinstance(
            self.kernel_, Precomputed
        ):  # finite, before the number of columns is compared
            X = check_array(X, dtype=[np.float64, np.float32])
        X = validate_data(self, X, reset=False)
        X = in_order(X)
        if "_evaluator" not in self.__dict__:  # after copying or loading
            self._ready()
        return self._evaluator(X, self.n_jobs, self._uncertain)

    def _ready(self) -> None:
        """Prepare predictions."""
        rows = self.support_vectors_
        if isinstance(self.kernel_, Precomputed):
            rows = self.support_[:, None].astype(np.float64)
        self._evaluator = KernelScores(
            self.kernel_, rows, self._segments(), self.intercept_, self._in_double
        )

    def _uncertain(self, scores: Array, error: Array) -> npt.NDArray[np.bool_]:
        """Samples that single precision is not enough for."""
        raise NotImplementedError

    def __getstate__(self) -> Any:
        """Without the packed support vectors, which are made when they are needed."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_evaluator"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        given = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse, tags.input_tags.pairwise = not given, given
        return tags
