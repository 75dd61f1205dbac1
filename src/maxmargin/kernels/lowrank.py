"""Explicit kernel features: the Nystrom approximation, and the exact map for few rows.

**Nystrom.** Restrict the functions to expansions in k rows B, the landmarks: f(x) = k(x, B) a. With
k(B, B) = L L' and a = L'^-1 w,

    f(x) = <w, phi(x)>,   phi(x) = L^-1 k(B, x),   |f|^2 = a' L L' a = |w|^2.

So the restricted problem is a linear problem with k features. The objective of the function found is the same
in the full space, hence an upper bound of the optimum of the kernel problem. The optimum over all functions
can be lower: the certificate is for the *restricted* problem. Landmarks that are linearly dependent on
others, up to :data:`DEPENDENT`, only add rounding errors; a pivoted Cholesky factorization drops them.

**All rows.** With k(X, X) = U S U', the features U S^(1/2) have exactly the inner products of the kernel, so
the linear problem equals the kernel problem. This is feasible for few rows only. There it serves as the
reference for all other methods.

References:

- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 3.3, problems OP8 and OP9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from maxmargin.core.checks import integer
from maxmargin.core.matrices import checked, checked_csr
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels.extent import semidefinite
from maxmargin.kernels.functions import FloatMatrix, Kernel
from maxmargin.kernels.rows import NOT_FINITE, KernelRows

#: a landmark is dropped if its squared distance to the span of others is below this share of max k(x, x)
DEPENDENT = 1e-8
#: bounds of the default number of landmarks, which also depends on the memory for their features
MOST, LEAST = 1000, 100
#: rows mapped at a time
ROWS = 1024
#: columns of the triangular factor multiplied at a time, to skip its zero half
PANEL = 128


@dataclass(frozen=True, slots=True)
class EmpiricalMap:
    """Solve the kernel problem as an equivalent linear one with one feature per sample: ``method="map"``.

    The result is exact up to rounding, which the bounds account for. It takes O(n^2) memory and O(n^3) time,
    so use it for a few thousand samples. Multiclass problems can be trained jointly (Crammer and Singer).

    Parameters
    ----------
    max_rows : int, default 5000
        With more samples, ``fit`` raises an error.

    Examples
    --------
    >>> from maxmargin.kernels import EmpiricalMap
    >>> EmpiricalMap(max_rows=2000)
    EmpiricalMap(max_rows=2000)
    """

    max_rows: int = 5000


@dataclass(frozen=True, slots=True)
class Nystrom:
    """Approximate the kernel by a few landmarks and solve the linear problem: ``method="nystrom"``.

    Parameters
    ----------
    n_landmarks : int, optional
        Number of landmarks. The default is 1000, or fewer if their features (8 n bytes per landmark) do not
        fit into the ``memory`` of the estimator, but at least 100. There are never more landmarks than
        training samples.
    landmarks : {"random", "kmeans++"} or array of int, default "random"
        How landmarks are chosen among the training samples: at random; spread out as by k-means++ (better if
        the data fills its space evenly); or the samples with the given indices. In one-vs-one multiclass,
        each pair of classes uses the landmarks that belong to the two classes.

    Examples
    --------
    >>> from maxmargin.kernels import Nystrom
    >>> Nystrom(n_landmarks=300)
    Nystrom(n_landmarks=300, landmarks='random')
    """

    n_landmarks: int | None = None
    landmarks: Any = "random"

    def count(self, n: int, memory: int) -> int:
        """Number of landmarks for ``n`` rows."""
        if self.n_landmarks is not None:
            integer("n_landmarks", self.n_landmarks, optional=True)
            return min(n, int(self.n_landmarks))
        return min(n, max(LEAST, min(MOST, memory // (8 * max(1, n)))))

    def numbers(self, n: int) -> IntArray:
        """The given indices of landmarks among ``n`` rows, in ascending order."""
        given = np.asarray(self.landmarks)
        if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
            raise ValueError(
                "landmarks must be 'random', 'kmeans++' or a list of indices of training samples (to use a "
                "boolean mask, pass np.flatnonzero(mask))."
            )
        chosen = np.unique(given).astype(np.int64)
        if chosen[0] < 0 or chosen[-1] >= n:
            raise ValueError(f"landmarks must be indices of training samples, from 0 to {n - 1}.")
        return chosen


class NystromMap:
    """The Nystrom feature map: ``phi(x) = L^-1 k(B, x)`` for landmarks B.

    Inner products of features approximate the kernel. They are exact between landmarks.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    landmarks : array or CSR matrix of shape (k, d)
        The rows B.
    center : array of shape (d,), optional
        Subtracted from all rows first; see :class:`maxmargin.kernels.KernelRows`.
    far : bool, optional
        Whether kernel values are computed from differences of rows; see
        :class:`maxmargin.kernels.KernelRows`. By default the landmarks and the rows decide.

    Attributes
    ----------
    kept : array of int
        Indices of the landmarks in use, in the order of the features. The others are linearly dependent on
        them and were dropped.
    basis : KernelRows
        The landmarks in use.
    factor : array
        ``L'^-1``: features are ``k(x, basis) @ factor``.
    n_features : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import RBF, KernelRows, NystromMap
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> features = NystromMap(RBF(0.5), X[:50])
    >>> Z = features.transform(X[:50])
    >>> rows = KernelRows(RBF(0.5), X[:50], np.float64)
    >>> np.allclose(Z @ Z.T, rows.block(rows), atol=1e-6)
    True
    """

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Any,
        center: Array | None = None,
        far: bool | None = None,
    ) -> None:
        self.kernel, self.center = kernel, center if kernel.shift_invariant else None
        rows = KernelRows(kernel, checked(landmarks, "landmarks"), np.float64, center, far)
        K = np.asarray(rows.block(rows), dtype=np.float64)
        K = 0.5 * (K + K.T)
        top = float(K.diagonal().max(initial=0.0))
        if not (top > 0.0 and np.isfinite(K).all()):
            raise ValueError(
                "the kernel has no features: some kernel values of the landmarks are not finite, or no "
                "k(x, x) is positive. Check the kernel's parameters and the scale of X."
            )
        lower, pivots, rank, _ = dpstrf(K, lower=1, tol=DEPENDENT * top)
        self.kept: IntArray = np.asarray(pivots[:rank], dtype=np.int64) - 1
        L = np.tril(lower[:rank, :rank])
        self.factor: Array = np.ascontiguousarray(solve_triangular(L, np.eye(rank), lower=True).T)
        self.basis = rows.take(self.kept)
        #: kernel matrix of the landmarks in use
        self.gram: Array = np.ascontiguousarray(K[np.ix_(self.kept, self.kept)])
        self.n_features = int(rank)

    def transform(self, X: Any, out: FloatMatrix | None = None) -> FloatMatrix:
        """Compute the features of rows in double precision. ``out`` can be in single precision."""
        X = checked_csr(X) if sp.issparse(X) else X
        n, k = X.shape[0], self.n_features
        if out is None:
            out = np.empty((n, k))
        room = np.empty((min(n, ROWS), k))
        for lo in range(0, n, ROWS):
            hi = min(n, lo + ROWS)
            values, here = self.values(X[lo:hi]), room[: hi - lo]
            for first in range(0, k, PANEL):
                last = min(k, first + PANEL)
                factor = self.factor[:last, first:last]
                np.matmul(values[:, :last], factor, out=here[:, first:last])
            out[lo:hi] = here
        return out

    def values(self, X: Any) -> FloatMatrix:
        """Kernel values between rows and the landmarks in use."""
        return KernelRows(self.kernel, X, np.float64, self.center).block(self.basis)

    def coefficients(self, W: Array) -> Array:
        """Coefficients of the landmarks in use from the weights of the features: ``L'^-1 W``."""
        return np.asarray(self.factor @ W)


@dataclass(frozen=True, slots=True, eq=False)
class WholeMap:
    """The empirical kernel map of rows: ``K = features @ features.T`` up to ``error``."""

    K: Array
    features: Array
    #: ``factor @ weights`` are the coefficients of the rows
    factor: Array
    #: a bound of the norm of K - features features'
    error: float
    #: whether K is positive semidefinite up to rounding
    semidefinite: bool


def whole_map(kernel: Kernel, X: Any, center: Array | None = None) -> WholeMap:
    """The features U S^(1/2) of all rows, without eigenvalues that are negative or rounding errors."""
    rows = KernelRows(kernel, X, np.float64, center)
    given = np.asarray(rows.block(rows), dtype=np.float64)
    K = 0.5 * (given + given.T)
    if not np.isfinite(K).all():
        raise ValueError(NOT_FINITE)
    n, eps = len(K), np.finfo(np.float64).eps
    S, U = np.linalg.eigh(K)
    top = max(float(S[-1]), 0.0)
    least = n * eps * top
    kept = least < S
    kept[-1] = True  # a feature of zeros is better than none
    root = np.sqrt(np.maximum(S[kept], 0.0))
    features = np.ascontiguousarray(U[:, kept] * root)
    # the actual error, plus a bound of the rounding error of this measurement
    error = float(np.linalg.norm(K - features @ features.T)) + 2.0 * n * eps * top
    factor = U[:, kept] / np.where(root > 0.0, root, np.inf)
    return WholeMap(K, features, factor, error, semidefinite(given, S))
