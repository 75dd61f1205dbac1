"""Rows prepared for a kernel, and blocks of kernel values, one matrix product each.

Prepared rows are dense, in the requested precision, and lifted for the left or the right side of a product
(see :mod:`maxmargin.kernels.functions`). Sparse rows are converted when a block needs them. Very sparse rows
are never converted (see :mod:`maxmargin.kernels.thin`).

If rows are far from the center compared with their distances, a shift-invariant kernel loses digits by
cancellation. The bounds of a fit use values in double precision, so there such blocks are computed from
differences of rows instead. All rows decide this together, and subsets inherit it: the bound of the rounding
error is one of all rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled.distances import squared_distances
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels.functions import RBF, FloatMatrix, FromCallable, Kernel
from maxmargin.kernels.rounding import UNIT, Rounding
from maxmargin.kernels.thin import is_thin, thin_block, thin_squares

#: rows and columns of a tile of kernel values, which fits into the cache
TILE = (512, 512)
#: rounding error of a kernel value above which blocks are computed from differences
NOTICED = 1e-10
#: rows from which the center is estimated; rows converted to dense at a time
SAMPLE, STEP = 1001, 4096
#: the error message for kernel values that are not finite
NOT_FINITE = "some kernel values are not finite. Check the kernel's parameters and the scale of X."


def center_of(X: Any) -> Array:
    """The medians of the features over a sample of the rows. (A mean would follow outliers.)"""
    n = X.shape[0]
    some = X if n <= SAMPLE else X[np.linspace(0, n - 1, SAMPLE).astype(np.int64)]
    some = some.toarray() if sp.issparse(some) else np.asarray(some)
    # np.median takes three times as long for few rows
    middle = [(len(some) - 1) // 2, len(some) // 2]
    low, high = np.partition(some, middle, axis=0)[middle].astype(np.float64)
    center: Array = 0.5 * low + 0.5 * high
    return center


def variance_of(X: Any) -> float:
    """The variance of all entries of an array, or of a CSR matrix without duplicates."""
    size = float(X.shape[0]) * float(X.shape[1])
    if sp.issparse(X):
        mean = float(X.data.sum(dtype=np.float64)) / size
        return float(np.square(X.data, dtype=np.float64).sum()) / size - mean * mean
    mean = float(X.sum(dtype=np.float64)) / size
    steps = range(0, len(X), STEP)  # in blocks, without a copy in double precision
    return (
        sum(float(np.square(X[k : k + STEP] - mean, dtype=np.float64).sum()) for k in steps) / size
    )


class KernelRows:
    """Rows prepared for computing blocks of kernel values.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or CSR matrix of shape (n, d)
        The rows.
    dtype : float32 or float64
        Precision of the products and of the values.
    center : array of shape (d,), optional
        Subtracted from the rows first; both sides of a block need the same center. Used by shift-invariant
        kernels only.
    far : bool, optional
        Whether values in double precision are computed from differences of rows; by default, if rows are
        far from the center.

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
        self,
        kernel: Kernel,
        X: Any,
        dtype: npt.DTypeLike = np.float32,
        center: Array | None = None,
        far: bool | None = None,
    ) -> None:
        self.kernel, self.X, self.dtype = kernel, X, np.dtype(dtype)
        self.center = center if kernel.shift_invariant else None
        self._left: FloatMatrix | None = None
        self._right: FloatMatrix | None = None
        self._thin = not isinstance(kernel, FromCallable) and is_thin(X)
        self._far = far if isinstance(kernel, RBF) else False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: IntArray | slice) -> Self:
        """A subset of the rows."""
        out = self._with(self.X[rows], self.dtype)
        if self._left is not None:
            out._left = self._left[rows]
        if self._right is not None:
            out._right = self._right[rows]
        return out

    def in_precision(self, dtype: npt.DTypeLike) -> Self:
        """The same rows in this precision; what was stored by :meth:`keep` is left out."""
        return self._with(self.X, dtype)

    def _with(self, X: Any, dtype: npt.DTypeLike) -> Self:
        far = self.far if dtype == np.float64 else self._far
        out = type(self)(self.kernel, X, dtype, self.center, far)
        out._thin = self._thin
        return out

    def keep(self) -> Self:
        """Lift the rows now and store the result for the left side of blocks."""
        if not isinstance(self.kernel, FromCallable) and not self._thin:
            self._left = self._lifted(True)
        return self

    def block(self, other: KernelRows, out: FloatMatrix | None = None) -> FloatMatrix:
        """The matrix of kernel values between these rows and those of ``other``."""
        if isinstance(self.kernel, FromCallable):
            values = _of_function(self.kernel.function(self.X, other.X), self.dtype)
            if values.shape != (len(self), len(other)):
                raise ValueError(
                    f"the kernel function returned an array of shape {values.shape} for {len(self)} and "
                    f"{len(other)} rows. It must return one row for each row of its first argument and one "
                    "column for each row of its second argument."
                )
            if out is None:
                return values
            out[:] = values
            return out
        if out is None:
            out = np.empty((len(self), len(other)), dtype=self.dtype)
        if self._thin and other._thin:
            return thin_block(self.kernel, self.X, other.X, out)
        if self._by_differences(other):
            assert isinstance(self.kernel, RBF)
            # of the rows as they are: a far center would cost digits of the differences
            squared_distances(self._plain(np.float64), other._plain(np.float64), out)
            return self.kernel.of_distances(out)
        left, right = self._lifted(True), other._lifted(False)
        for k in range(0, len(self), TILE[0]):
            for lo in range(0, len(other), TILE[1]):
                part = out[k : k + TILE[0], lo : lo + TILE[1]]
                # the tile is still in the cache when the function is applied
                np.matmul(left[k : k + TILE[0]], right[lo : lo + TILE[1]].T, out=part)
                self.kernel.finish(part)
        return out

    def times(self, other: KernelRows, coef: Array) -> Array:
        """``block(other) @ coef``, one tile at a time; the sum over tiles is in double precision."""
        out = np.zeros((len(self), *coef.shape[1:]))
        if not len(other) or not len(self):
            return out
        coef = np.ascontiguousarray(coef, dtype=self.dtype)
        if (
            isinstance(self.kernel, FromCallable)
            or (self._thin and other._thin)
            or self._by_differences(other)
        ):
            for k in range(0, len(self), TILE[0]):
                part = self.take(slice(k, k + TILE[0]))
                for lo in range(0, len(other), TILE[1]):
                    values = part.block(other.take(slice(lo, lo + TILE[1])))
                    out[k : k + TILE[0]] += values @ coef[lo : lo + TILE[1]]
            return out
        left, right = self._lifted(True), other._lifted(False)
        tile = np.empty(TILE[0] * min(TILE[1], len(other)), dtype=self.dtype)
        for lo in range(0, len(other), TILE[1]):
            columns, factors = right[lo : lo + TILE[1]].T, coef[lo : lo + TILE[1]]
            for k in range(0, len(self), TILE[0]):
                rows = left[k : k + TILE[0]]
                values = tile[: len(rows) * columns.shape[1]].reshape(len(rows), -1)
                np.matmul(rows, columns, out=values)
                out[k : k + TILE[0]] += self.kernel.finish(values) @ factors
        return out

    def diagonal(self) -> Array:
        """The kernel value of each row with itself."""
        if isinstance(self.kernel, FromCallable):
            each = [self.take(slice(i, i + 1)) for i in range(len(self))]
            return np.array([row.block(row)[0, 0] for row in each], dtype=np.float64)
        if self._thin:
            return self.kernel.diagonal(thin_squares(self.X))
        return self.kernel.diagonal(self._squares(self._dense(np.float64)))

    def rounding(self) -> Rounding:
        """Rounding errors of kernel values between these rows in double precision."""
        if isinstance(self.kernel, FromCallable):
            # values are exact; sums of a given matrix are not
            return Rounding(0.0, float(getattr(self.kernel.function, "largest", 0.0)))
        largest, d = self._largest, int(self.X.shape[1])
        top = float(np.abs(self.kernel.diagonal(np.array([largest])))[0])
        value = self.kernel.rounding(largest, d)
        if self.far and not self._thin:
            value = (d + 8) * UNIT
        return Rounding(value, top)

    @property
    def far(self) -> bool:
        """Whether values in double precision are computed from differences of rows."""
        if self._far is None:
            error = self.kernel.rounding(self._largest, int(self.X.shape[1]))
            self._far = bool(error > NOTICED)
        return self._far

    @cached_property
    def _largest(self) -> float:
        """The largest |x|^2 after centering."""
        if self._thin:
            return float(thin_squares(self.X).max(initial=0.0))
        parts = (self.X[lo : lo + STEP] for lo in range(0, len(self), STEP))
        dense = (
            KernelRows(self.kernel, X, np.float64, self.center)._dense(np.float64) for X in parts
        )
        return max((float(self._squares(X).max()) for X in dense), default=0.0)

    def _by_differences(self, other: KernelRows) -> bool:
        """Whether a block must be computed from differences of rows."""
        return self.dtype == np.float64 and (self.far or other.far)

    def _plain(self, dtype: npt.DTypeLike) -> FloatMatrix:
        X = self.X.toarray() if sp.issparse(self.X) else np.asarray(self.X)
        return np.ascontiguousarray(X, dtype=dtype)

    def _dense(self, dtype: npt.DTypeLike) -> FloatMatrix:
        if self.center is None:
            return self._plain(dtype)
        # in double precision
        return np.ascontiguousarray(self._plain(self.X.dtype) - self.center, dtype=dtype)

    @staticmethod
    def _squares(X: FloatMatrix) -> Array:
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)

    def _lifted(self, left: bool) -> FloatMatrix:
        found = self._left if left else self._right
        if found is None:
            X = self._dense(self.dtype)
            found = self.kernel.lift(X, self._squares(X), left=left)
            if left:
                self._left = found
            else:
                self._right = found
        return found


def _of_function(values: Any, dtype: npt.DTypeLike) -> FloatMatrix:
    """Validate what a user's function returned."""
    values = np.asarray(values.toarray() if sp.issparse(values) else values)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(NOT_FINITE)
    top = np.finfo(dtype).max
    if values.size and values.dtype != dtype and float(np.abs(values).max()) > top:
        raise ValueError(
            f"the kernel function returned values above {top:.1e}. Divide its values by a constant, and "
            "multiply C by the same constant."
        )
    return np.asarray(values, dtype=dtype)
