"""Matrices in memory as designs; see :class:`maxmargin.data.design.Design`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled import products
from maxmargin.core.matrices import check_rows
from maxmargin.core.vectors import Array, IntArray, with_writable_arrays

#: rows of a dense matrix multiplied at a time, so that a block stays in the cache
BLOCK = 256


class DenseDesign:
    """A C-contiguous float32 or float64 array."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        self.X = X
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.nnz = int(X.size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_writable_arrays(state))

    @property
    def dtype(self) -> np.dtype[Any]:
        """See :class:`~maxmargin.data.design.DenseRows`."""
        return self.X.dtype

    def entries(
        self, which: slice | IntArray, dtype: npt.DTypeLike, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """See :class:`~maxmargin.data.design.DenseRows`."""
        return self.X[which].astype(dtype, copy=False)

    def dot(self, W: Array, lo: int, hi: int, out: Array | None = None) -> Array:
        """See :class:`~maxmargin.data.design.Design`; ``out`` is an optional array for the scores."""
        _check_product(self.shape, W, lo, hi, out)
        if out is None:
            out = np.empty((hi - lo, *W.shape[1:]))
        if W.ndim == 1:
            products.dense_dot(self.X, W, lo, hi, out)
            return out
        for start in range(lo, hi, BLOCK):
            stop = min(hi, start + BLOCK)
            block = self.X[start:stop].astype(np.float64, copy=False)
            np.matmul(block, W, out=out[start - lo : stop - lo])
        return out

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`~maxmargin.data.design.Design`."""
        _check_transposed(self.shape, coef, lo, hi, out)
        if coef.ndim == 1:
            products.dense_accumulate(self.X, coef, lo, hi, out)
            return
        active = np.flatnonzero(coef.any(axis=1))
        X = self.X[lo:hi]
        for start in range(0, len(active), BLOCK):
            rows: Any = active[start : start + BLOCK]
            if len(active) == len(X):  # without a copy
                rows = slice(start, start + BLOCK)
            out += X[rows].astype(np.float64, copy=False).T @ coef[rows]

    def block(self, lo: int, hi: int) -> DenseDesign:
        """See :class:`~maxmargin.data.design.BlockDesign`."""
        return DenseDesign(self.X[lo:hi])

    def part(self, lo: int, hi: int) -> DenseDesign:
        """The rows ``lo .. hi-1`` alone, to send to a worker."""
        return self.block(lo, hi)

    def take(self, rows: IntArray) -> DenseDesign:
        """See :class:`~maxmargin.data.design.TakingDesign`."""
        return DenseDesign(self.X[rows])


class CSRDesign:
    """A CSR matrix with float32 or float64 data and 32- or 64-bit indices. The constructor checks the arrays
    once, because compiled code does not check bounds."""

    def __init__(self, X: Any) -> None:
        check_rows(X.indptr, X.indices, X.data, X.shape)
        self.indptr, self.indices, self.data = X.indptr, X.indices, X.data
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.nnz = int(self.indptr[-1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_writable_arrays(state))

    def dot(self, W: Array, lo: int, hi: int, out: Array | None = None) -> Array:
        """See :class:`~maxmargin.data.design.Design`; ``out`` is an optional array for the scores."""
        _check_product(self.shape, W, lo, hi, out)
        if out is None:
            out = np.empty((hi - lo, *W.shape[1:]))
        kernel = products.csr_dot if W.ndim == 1 else products.csr_dot_columns
        kernel(self.indptr, self.indices, self.data, W, lo, hi, out)
        return out

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`~maxmargin.data.design.Design`."""
        _check_transposed(self.shape, coef, lo, hi, out)
        kernel = products.csr_accumulate if coef.ndim == 1 else products.csr_accumulate_columns
        kernel(self.indptr, self.indices, self.data, coef, lo, hi, out)

    def rows_at(self, entries: Sequence[int]) -> list[int]:
        """See :class:`~maxmargin.data.design.CountedDesign`."""
        return [int(row) for row in np.searchsorted(self.indptr, entries)]

    def block(self, lo: int, hi: int) -> CSRDesign:
        """See :class:`~maxmargin.data.design.BlockDesign`."""
        start, stop = int(self.indptr[lo]), int(self.indptr[hi])
        indptr = self.indptr[lo : hi + 1] - self.indptr[lo]
        return CSRDesign.of(
            indptr, self.indices[start:stop], self.data[start:stop], (hi - lo, self.shape[1])
        )

    def part(self, lo: int, hi: int) -> CSRDesign:
        """The rows ``lo .. hi-1`` alone, to send to a worker."""
        return self.block(lo, hi)

    def take(self, rows: IntArray) -> CSRDesign:
        """See :class:`~maxmargin.data.design.TakingDesign`."""
        part = as_matrix(self)[rows]
        return CSRDesign.of(part.indptr, part.indices, part.data, part.shape)

    @classmethod
    def of(cls, indptr: Any, indices: Any, data: Any, shape: tuple[int, int]) -> CSRDesign:
        """A design of arrays that are known to be valid; nothing is checked."""
        design = cls.__new__(cls)
        design.indptr, design.indices, design.data = indptr, indices, data
        design.shape, design.nnz = shape, int(indptr[-1])
        return design


def as_matrix(design: DenseDesign | CSRDesign) -> Any:
    """The array or the CSR matrix of rows in memory."""
    if isinstance(design, DenseDesign):
        return design.X
    return sp.csr_matrix((design.data, design.indices, design.indptr), shape=design.shape)


def _check_product(shape: tuple[int, int], W: Array, lo: int, hi: int, out: Array | None) -> None:
    """Raise ValueError if compiled code would access memory out of bounds."""
    fits = 0 <= lo <= hi <= shape[0] and W.ndim in (1, 2) and W.shape[0] == shape[1]
    if not fits or (out is not None and out.shape != (hi - lo, *W.shape[1:])):
        raise ValueError(
            f"rows {lo} .. {hi} times W of shape {W.shape}: X has {shape[0]} rows and {shape[1]} features, "
            "and W must have one row per feature."
        )


def _check_transposed(shape: tuple[int, int], coef: Array, lo: int, hi: int, out: Array) -> None:
    fits = 0 <= lo <= hi <= shape[0] and coef.ndim in (1, 2) and coef.shape[0] == hi - lo
    if not fits or out.shape != (shape[1], *coef.shape[1:]):
        raise ValueError(
            f"coef has shape {coef.shape} and out {out.shape} for rows {lo} .. {hi} of {shape[0]}, with "
            f"{shape[1]} features."
        )
