"""Rows seen through a kernel: features k(x, B) T of a basis B of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from maxmargin.core.vectors import Array
from maxmargin.kernels.functions import FromCallable, Kernel
from maxmargin.kernels.rows import KernelRows, centre_of

#: rows whose kernel values are held at a time
ROWS = 1024
#: rows that depend on others to this share of the largest k(x, x) do so to rounding
ROUNDING = 1e-13
#: what features of a user's function may lack, by row, as a share of the largest k(x, x)
INDEFINITE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class KernelFeatures:
    """A map of rows to features ``k(x, rows) @ factor``, in double precision.

    ``factor`` is None where the kernel values are the features themselves. Kernels of differences see rows
    as they are from the middle of the basis.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Polynomial
    >>> from maxmargin.kernels.features import KernelFeatures
    >>> features = KernelFeatures(Polynomial(degree=2, coef0=1.0), np.eye(2))
    >>> features(np.array([[1.0, 2.0]]))
    array([[4., 9.]])
    """

    kernel: Kernel
    rows: Any
    factor: Array | None = None

    @property
    def n_features(self) -> int:
        """Columns of what a call returns."""
        return int(self.rows.shape[0] if self.factor is None else self.factor.shape[1])

    def __call__(self, X: Any) -> Array:
        """The features of these rows."""
        centre = centre_of(self.rows) if self.kernel.shift_invariant else None
        basis = KernelRows(self.kernel, self.rows, np.float64, centre)
        rows = KernelRows(self.kernel, X, np.float64, centre)
        out = np.empty((len(rows), self.n_features))
        for lo in range(0, len(rows), ROWS):
            values = rows.take(slice(lo, lo + ROWS)).block(basis)
            out[lo : lo + ROWS] = values if self.factor is None else values @ self.factor
        return out


def no_features(kernel: Kernel, X: Any) -> KernelFeatures:
    """What is left where all k(x, x) are zero: one feature that is zero too."""
    return KernelFeatures(kernel, X[:1], np.zeros((1, 1)))


def complete_features(kernel: Kernel, X: Any) -> tuple[KernelFeatures, Array, float]:
    """Features Z with the very inner products of the kernel: rows of a Cholesky factor with pivots.

    Also, what rows that depend on others lost by rounding: a bound of the norm of K - Z Z'. Infinite, where
    that is no rounding: the kernel is not positive semidefinite.
    """
    rows = KernelRows(kernel, X, np.float64, centre_of(X) if kernel.shift_invariant else None)
    K = np.asarray(rows.block(rows), dtype=np.float64)
    K = 0.5 * (K + K.T)
    diagonal = K.diagonal().copy()
    top = float(diagonal.max())
    if not K.any():
        return no_features(kernel, X), np.zeros((len(K), 1)), 0.0
    if not (top > 0.0 and np.isfinite(K).all()):
        raise ValueError(
            "kernel values are not finite, or none of k(x, x) is positive: there are no features. Check the "
            "kernel's parameters and the scale of the inputs."
        )
    known = kernel.positive_semidefinite and not isinstance(kernel, FromCallable)
    lower, pivots, rank, _ = dpstrf(K, lower=1, tol=ROUNDING * top, overwrite_a=int(known))
    order = np.asarray(pivots, dtype=np.int64) - 1
    L = np.tril(lower)[:, :rank]
    Z = np.empty_like(L)
    Z[order] = L  # triangular: half of it is zero
    # of a remainder that is positive semidefinite the trace bounds the norm
    error = float(np.maximum(diagonal - np.einsum("ij,ij->i", Z, Z), 0.0).sum())
    if not known:
        error = float(np.linalg.norm(K - Z @ Z.T))
        error = error if error <= INDEFINITE * len(K) * top else float("inf")
    error += len(K) * (rows.rounding().value + np.finfo(np.float64).eps * top)
    factor = np.ascontiguousarray(solve_triangular(L[:rank], np.eye(rank), lower=True).T)
    return KernelFeatures(kernel, X[order[:rank]], factor), Z, error
