"""Explicit features k(x, B) T of a kernel, for a basis B of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from maxmargin.core.vectors import Array
from maxmargin.kernels.functions import FromCallable, Kernel
from maxmargin.kernels.rows import KernelRows, center_of

#: rows whose kernel values are computed at a time
ROWS = 1024
#: a row is linearly dependent on others if the rest of k(x, x) is below this share of the largest
ROUNDING = 1e-13
#: error allowed per row for a user's function, as a share of the largest k(x, x)
INDEFINITE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class KernelFeatures:
    """A map of rows to features ``k(x, rows) @ factor``, in double precision.

    If ``factor`` is None, the kernel values themselves are the features. For shift-invariant kernels, all
    rows are first centered at the medians of the basis, which reduces rounding errors.

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
        """Number of features."""
        return int(self.rows.shape[0] if self.factor is None else self.factor.shape[1])

    def __call__(self, X: Any) -> Array:
        """The features of these rows."""
        center = center_of(self.rows) if self.kernel.shift_invariant else None
        basis = KernelRows(self.kernel, self.rows, np.float64, center)
        rows = KernelRows(self.kernel, X, np.float64, center)
        out = np.empty((len(rows), self.n_features))
        for lo in range(0, len(rows), ROWS):
            values = rows.take(slice(lo, lo + ROWS)).block(basis)
            out[lo : lo + ROWS] = values if self.factor is None else values @ self.factor
        return out


def no_features(kernel: Kernel, X: Any) -> KernelFeatures:
    """The map for the case that all k(x, x) are zero: one feature, always zero."""
    return KernelFeatures(kernel, X[:1], np.zeros((1, 1)))


def complete_features(kernel: Kernel, X: Any) -> tuple[KernelFeatures, Array, float]:
    """Features Z with Z Z' = K, the kernel matrix, by a pivoted Cholesky factorization.

    Returns the map, Z, and a bound of the norm of K - Z Z'. The bound is infinite if the difference is larger
    than rounding explains; then the kernel is not positive semidefinite.
    """
    rows = KernelRows(kernel, X, np.float64, center_of(X) if kernel.shift_invariant else None)
    K = np.asarray(rows.block(rows), dtype=np.float64)
    K = 0.5 * (K + K.T)
    diagonal = K.diagonal().copy()
    top = float(diagonal.max())
    if not K.any():
        return no_features(kernel, X), np.zeros((len(K), 1)), 0.0
    if not (top > 0.0 and np.isfinite(K).all()):
        raise ValueError(
            "the kernel has no features: some kernel values are not finite, or no k(x, x) is positive. Check "
            "the kernel's parameters and the scale of the inputs."
        )
    known = kernel.positive_semidefinite and not isinstance(kernel, FromCallable)
    lower, pivots, rank, _ = dpstrf(K, lower=1, tol=ROUNDING * top, overwrite_a=int(known))
    order = np.asarray(pivots, dtype=np.int64) - 1
    L = np.tril(lower)[:, :rank]
    Z = np.empty_like(L)
    Z[order] = L  # in the order of the rows
    # the remainder is positive semidefinite, so its trace bounds its norm
    error = float(np.maximum(diagonal - np.einsum("ij,ij->i", Z, Z), 0.0).sum())
    if not known:
        error = float(np.linalg.norm(K - Z @ Z.T))
        error = error if error <= INDEFINITE * len(K) * top else float("inf")
    error += len(K) * (rows.rounding().value + np.finfo(np.float64).eps * top)
    factor = np.ascontiguousarray(solve_triangular(L[:rank], np.eye(rank), lower=True).T)
    return KernelFeatures(kernel, X[order[:rank]], factor), Z, error
