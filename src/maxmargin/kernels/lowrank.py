"""Features of a kernel: functions made of some of the rows only, and the map that is exact for few rows.

Low rank. Of all functions of the kernel's space take those made of k rows B, the landmarks, f(x) = k(x, B) a.
With k(B, B) = L L' and a = L'^-1 w,

    f(x) = <w, phi(x)>,   phi(x) = L^-1 k(B, x),   |f|^2 = a' L L' a = |w|^2.

So the problem over these functions is a linear one with k features, norm and all, and F of the function
found is its F in the whole space too: an upper bound of the kernel's problem. The minimum over all functions
may be lower: what is certified is the *restricted* problem. Landmarks that depend on others, to
:data:`DEPENDENT`, add nothing but rounding; a Cholesky factor with pivots finds and drops them.

All rows. With k(X, X) = U S U' the features U S^(1/2) have the very inner products of the kernel: the linear
problem *is* the kernel's. Of course only for few rows; there it is the referee of all other methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from maxmargin.core.matrices import checked, sound
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels.extent import semidefinite
from maxmargin.kernels.functions import Block, Kernel
from maxmargin.kernels.rows import NOT_FINITE, KernelRows

#: a landmark is dropped if its distance^2 from the span of the others is below this share of max k(x, x)
DEPENDENT = 1e-8
#: landmarks by default: this many, or as many as there is memory for their features, but not less than
MOST, LEAST = 1000, 100
#: rows that are mapped at a time
ROWS = 1024
#: columns of a triangular factor that are multiplied at a time: half of it is zero
PANEL = 128


@dataclass(frozen=True, slots=True)
class EmpiricalMap:
    """The kernel's problem as an equal linear one with a feature for every row: ``method="map"``.

    Exact to rounding, which the bounds give away; needs n^2 numbers and n^3 operations, so it is for a few
    thousand rows. Several classes may be trained jointly (Crammer and Singer).

    Parameters
    ----------
    max_rows : int, default 5000
        More rows are refused.

    Examples
    --------
    >>> from maxmargin.kernels import EmpiricalMap
    >>> EmpiricalMap(max_rows=2000)
    EmpiricalMap(max_rows=2000)
    """

    max_rows: int = 5000


@dataclass(frozen=True, slots=True)
class Nystrom:
    """Functions made of a few landmarks, by the whole linear machinery: ``method="nystrom"``.

    Parameters
    ----------
    n_landmarks : int, optional
        How many. By default 1000, or as many as have their features (n numbers of 8 bytes each) in the
        ``memory`` of the estimator, but at least 100; all rows where there are fewer.
    landmarks : {"random", "kmeans++"} or array of int, default "random"
        Which training rows: drawn at random, spread out as the first centres of k-means are (better where
        the data fills its space evenly), or the rows with these numbers. One against one, a pair of
        classes has those that are rows of the two.

    Examples
    --------
    >>> from maxmargin.kernels import Nystrom
    >>> Nystrom(n_landmarks=300)
    Nystrom(n_landmarks=300, landmarks='random')
    """

    n_landmarks: int | None = None
    landmarks: Any = "random"

    def count(self, n: int, memory: int) -> int:
        """How many landmarks for this many rows."""
        if self.n_landmarks is not None:
            if not isinstance(self.n_landmarks, Integral) or self.n_landmarks < 1:
                raise ValueError(
                    f"n_landmarks={self.n_landmarks!r}: use None or a whole number from 1 on."
                )
            return min(n, int(self.n_landmarks))
        return min(n, max(LEAST, min(MOST, memory // (8 * max(1, n)))))

    def numbers(self, n: int) -> IntArray:
        """The landmarks that are given as numbers of n rows, ascending."""
        given = np.asarray(self.landmarks)
        if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
            raise ValueError(
                "landmarks: use 'random', 'kmeans++' or a list of numbers of training rows (of a mask: "
                "np.flatnonzero(mask))."
            )
        chosen = np.unique(given).astype(np.int64)
        if chosen[0] < 0 or chosen[-1] >= n:
            raise ValueError(f"landmarks must be numbers of training rows, 0 to {n - 1}.")
        return chosen


class NystromMap:
    """The features of functions made of landmarks: ``phi(x) = L^-1 k(B, x)``.

    Inner products of features approximate the kernel from below, and are it between landmarks.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    landmarks : array or CSR matrix of shape (k, d)
        The rows B.
    centre : array of shape (d,), optional
        What is subtracted from all rows first; see :class:`maxmargin.kernels.KernelRows`.

    Attributes
    ----------
    kept : array of int
        The landmarks in use, in the order of the features: the others depend on them.
    basis : KernelRows
        Those rows.
    factor : array
        ``L'^-1``: features are ``k(x, basis) @ factor``.
    n_features : int
        Their number.

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

    def __init__(self, kernel: Kernel, landmarks: Any, centre: Array | None = None) -> None:
        self.kernel, self.centre = kernel, centre if kernel.shift_invariant else None
        rows = KernelRows(kernel, checked(landmarks, "landmarks"), np.float64, centre)
        K = np.asarray(rows.block(rows), dtype=np.float64)
        K = 0.5 * (K + K.T)
        top = float(K.diagonal().max(initial=0.0))
        if not (top > 0.0 and np.isfinite(K).all()):
            raise ValueError(
                "the landmarks' kernel values are not finite, or none of k(x, x) is positive: there are no "
                "features. Check the kernel's parameters and the scale of X."
            )
        lower, pivots, rank, _ = dpstrf(K, lower=1, tol=DEPENDENT * top)
        self.kept: IntArray = np.asarray(pivots[:rank], dtype=np.int64) - 1
        L = np.tril(lower[:rank, :rank])
        self.factor: Array = np.ascontiguousarray(solve_triangular(L, np.eye(rank), lower=True).T)
        self.basis = rows.take(self.kept)
        #: k between the landmarks in use
        self.gram: Array = np.ascontiguousarray(K[np.ix_(self.kept, self.kept)])
        self.n_features = int(rank)

    def transform(self, X: Any, out: Block | None = None) -> Block:
        """The features of some rows, computed in double precision; ``out`` may be of single precision."""
        X = sound(X) if sp.issparse(X) else X
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

    def values(self, X: Any) -> Block:
        """k of some rows with the landmarks in use."""
        return KernelRows(self.kernel, X, np.float64, self.centre).block(self.basis)

    def coefficients(self, W: Array) -> Array:
        """Of the landmarks in use, from the weights of the features: ``L'^-1 W``."""
        return np.asarray(self.factor @ W)


@dataclass(frozen=True, slots=True, eq=False)
class WholeMap:
    """The empirical map of rows: ``K = features @ features.T`` up to ``error``."""

    K: Array
    features: Array
    #: coefficients of the rows from the weights of the features
    factor: Array
    #: a bound of the norm of K - features features'
    error: float
    #: whether K is positive semidefinite, to rounding
    semidefinite: bool


def whole_map(kernel: Kernel, X: Any, centre: Array | None = None) -> WholeMap:
    """The features U S^(1/2) of all rows, without what is rounding of S or below zero."""
    rows = KernelRows(kernel, X, np.float64, centre)
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
    # what was dropped and what was rounded away, as it is, and what rounding may add in measuring it
    error = float(np.linalg.norm(K - features @ features.T)) + 2.0 * n * eps * top
    factor = U[:, kept] / np.where(root > 0.0, root, np.inf)
    return WholeMap(K, features, factor, error, semidefinite(given, S))
