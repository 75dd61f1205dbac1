"""Rows packed for a kernel, and blocks of its values by one matrix product each.

Packed rows are dense, in the precision asked for, lifted for the left and for the right side of a product
(:mod:`maxmargin.kernels.functions`). Sparse rows stay sparse until a block needs them.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels.functions import Block, FromCallable, Kernel

#: rows and columns of the tiles that products with coefficients are made of: a tile stays in the cache
TILE = (256, 2048)


class KernelRows:
    """Rows of data, ready for blocks of kernel values.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or CSR matrix of shape (n, d)
        The rows.
    dtype : float32 or float64
        Precision of the products and of the values.
    centre : array of shape (d,), optional
        What is subtracted from the rows before anything else: both sides of a block need the same. Only for
        kernels of differences.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import RBF, KernelRows
    >>> rows = KernelRows(RBF(gamma=0.5), np.array([[0.0], [1.0], [3.0]]), np.float64)
    >>> rows.block(rows).round(3)
    array([[1.   , 0.607, 0.011],
           [0.607, 1.   , 0.135],
           [0.011, 0.135, 1.   ]])
    """

    def __init__(
        self, kernel: Kernel, X: Any, dtype: Any = np.float32, centre: Array | None = None
    ) -> None:
        self.kernel, self.X, self.dtype = kernel, X, np.dtype(dtype)
        self.centre = centre if kernel.shift_invariant else None
        self._left: Block | None = None
        self._right: Block | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: IntArray | slice) -> Self:
        """Some of the rows."""
        out = type(self)(self.kernel, self.X[rows], self.dtype, self.centre)
        if self._left is not None and self._right is not None:
            out._left, out._right = self._left[rows], self._right[rows]
        return out

    def block(self, other: KernelRows, out: Block | None = None) -> Block:
        """k of each of these rows with each of the other ones."""
        if isinstance(self.kernel, FromCallable):
            values = np.asarray(self.kernel.function(self.X, other.X), dtype=self.dtype)
            if values.shape != (len(self), len(other)):
                raise ValueError(
                    f"the kernel function returned shape {values.shape} for {len(self)} and {len(other)} "
                    "rows: one row for each of the first and one column for each of the second are needed."
                )
            if out is None:
                return values
            out[:] = values
            return out
        return self.kernel.finish(np.matmul(self._lifted(True), other._lifted(False).T, out=out))

    def times(self, other: KernelRows, coef: Array) -> Array:
        """The functions sum_j coef_j k(., z_j) at these rows: ``block(other) @ coef``, a tile at a time,
        summed in double precision."""
        out = np.zeros((len(self), *coef.shape[1:]))
        for lo in range(0, len(other), TILE[1]):
            part, factors = other.take(slice(lo, lo + TILE[1])), coef[lo : lo + TILE[1]]
            for k in range(0, len(self), TILE[0]):
                out[k : k + TILE[0]] += self.take(slice(k, k + TILE[0])).block(part) @ factors
        return out

    def diagonal(self) -> Array:
        """k of each row with itself."""
        if isinstance(self.kernel, FromCallable):
            each = [self.take(slice(i, i + 1)) for i in range(len(self))]
            return np.array([row.block(row)[0, 0] for row in each], dtype=np.float64)
        return self.kernel.diagonal(self._squares(self._dense(np.float64)))

    def _dense(self, dtype: Any) -> Block:
        X = self.X.toarray() if sp.issparse(self.X) else np.asarray(self.X)
        X = X.astype(np.float64)
        if self.centre is not None:
            X -= self.centre
        return np.asarray(X, dtype=dtype)

    @staticmethod
    def _squares(X: Block) -> Array:
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)

    def _lifted(self, left: bool) -> Block:
        if self._left is None or self._right is None:
            X = self._dense(self.dtype)
            squares = self._squares(X)
            self._left = self.kernel.lift(X, squares, left=True)
            self._right = self.kernel.lift(X, squares, left=False)
        return self._left if left else self._right
