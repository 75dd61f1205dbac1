"""Designs: matrices as far as training needs them, products with row ranges. Data is never copied
or cast.

A design answers ``dot`` (scores of rows) and ``accumulate`` (transposed product, added to an
output). Anything with these two methods can stand for X: a file, features computed on the fly, a
kernel's low-rank map. One that can also put rows into memory, a block at a time (:class:`BlockDesign`),
can be trained by methods that visit single rows.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled import convert, precise, products
from maxmargin.core.matrices import check_dense, check_rows, is_canonical, sound, summed
from maxmargin.core.vectors import Array, IntArray, thawed

#: rows of a dense matrix that are multiplied at a time, so that a block stays in the cache
BLOCK = 256


#: entries in a shard at most, where there are more than 32: about a tenth of a second
SHARD_WORK = 2**26
#: length of w from which it is far larger than a cache
LONG = 2**20
#: share of nonzeros below which a dense matrix is used as CSR
SPARSE_BELOW = 0.3


class Design(Protocol):
    """Rows of features."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, features)."""

    @property
    def nnz(self) -> int:
        """Stored entries: the work of one product."""

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """``X[lo:hi] @ W`` for W of shape (features,) or (features, K)."""

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """``out += X[lo:hi].T @ coef``."""


class BlockDesign(Design, Protocol):
    """A design that can put rows into memory."""

    def block(self, lo: int, hi: int) -> DenseDesign | CSRDesign:
        """The rows ``lo .. hi-1``, in memory. (A view where they are there already.)"""


class TakingDesign(BlockDesign, Protocol):
    """A design whose rows can be had in any order."""

    def take(self, rows: IntArray) -> DenseDesign | CSRDesign:
        """These rows, in this order, in memory: a copy."""


class RangeDesign:
    """The rows ``lo .. hi-1`` of a design that cannot be cut, counted from 0."""

    def __init__(self, design: Design, lo: int, hi: int) -> None:
        self._design, self._lo = design, lo
        self.shape: tuple[int, int] = (hi - lo, design.shape[1])
        self.nnz = design.nnz * (hi - lo) // max(1, design.shape[0])
        self.largest_square: float | None = getattr(design, "largest_square", None)

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`Design`."""
        return self._design.dot(W, self._lo + lo, self._lo + hi)

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`Design`."""
        self._design.accumulate(coef, self._lo + lo, self._lo + hi, out)


class DenseDesign:
    """A C-contiguous float32 or float64 array."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        self.X = X
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.nnz = int(X.size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(thawed(state))

    def dot(self, W: Array, lo: int, hi: int, out: Array | None = None) -> Array:
        """See :class:`Design`; ``out`` is where to put the scores, if they have a place already."""
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
        """See :class:`Design`."""
        _check_transposed(self.shape, coef, lo, hi, out)
        if coef.ndim == 1:
            products.dense_accumulate(self.X, coef, lo, hi, out)
            return
        active = np.flatnonzero(coef.any(axis=1))
        for start in range(0, len(active), BLOCK):
            rows = active[start : start + BLOCK]
            out += self.X[lo + rows].astype(np.float64, copy=False).T @ coef[rows]

    def block(self, lo: int, hi: int) -> DenseDesign:
        """See :class:`BlockDesign`."""
        return DenseDesign(self.X[lo:hi])

    def part(self, lo: int, hi: int) -> DenseDesign:
        """The rows ``lo .. hi-1`` as all that travels to a worker."""
        return self.block(lo, hi)

    def take(self, rows: IntArray) -> DenseDesign:
        """See :class:`TakingDesign`."""
        return DenseDesign(self.X[rows])


class CSRDesign:
    """A CSR matrix with float32 or float64 data and 32- or 64-bit indices. Its arrays are checked here, once:
    compiled code reads and writes where they say."""

    def __init__(self, X: Any) -> None:
        check_rows(X.indptr, X.indices, X.data, X.shape)
        self.indptr, self.indices, self.data = X.indptr, X.indices, X.data
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.nnz = int(self.indptr[-1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(thawed(state))

    def dot(self, W: Array, lo: int, hi: int, out: Array | None = None) -> Array:
        """See :class:`Design`; ``out`` is where to put the scores, if they have a place already."""
        _check_product(self.shape, W, lo, hi, out)
        if out is None:
            out = np.empty((hi - lo, *W.shape[1:]))
        kernel = products.csr_dot if W.ndim == 1 else products.csr_dot_columns
        kernel(self.indptr, self.indices, self.data, W, lo, hi, out)
        return out

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`Design`."""
        _check_transposed(self.shape, coef, lo, hi, out)
        kernel = products.csr_accumulate if coef.ndim == 1 else products.csr_accumulate_columns
        kernel(self.indptr, self.indices, self.data, coef, lo, hi, out)

    def block(self, lo: int, hi: int) -> CSRDesign:
        """See :class:`BlockDesign`."""
        start, stop = int(self.indptr[lo]), int(self.indptr[hi])
        indptr = self.indptr[lo : hi + 1] - self.indptr[lo]
        return CSRDesign.of(
            indptr, self.indices[start:stop], self.data[start:stop], (hi - lo, self.shape[1])
        )

    def part(self, lo: int, hi: int) -> CSRDesign:
        """The rows ``lo .. hi-1`` as all that travels to a worker."""
        return self.block(lo, hi)

    def take(self, rows: IntArray) -> CSRDesign:
        """See :class:`TakingDesign`."""
        whole = sp.csr_matrix((self.data, self.indices, self.indptr), shape=self.shape, copy=False)
        part = whole[rows]
        return CSRDesign.of(part.indptr, part.indices, part.data, part.shape)

    @classmethod
    def of(cls, indptr: Any, indices: Any, data: Any, shape: tuple[int, int]) -> CSRDesign:
        """A design of these arrays as they are: of one that was checked, or made here."""
        design = cls.__new__(cls)
        design.indptr, design.indices, design.data = indptr, indices, data
        design.shape, design.nnz = shape, int(indptr[-1])
        return design


def _check_product(shape: tuple[int, int], W: Array, lo: int, hi: int, out: Array | None) -> None:
    """Raise ValueError where compiled code would read or write outside of arrays."""
    fits = 0 <= lo <= hi <= shape[0] and W.ndim in (1, 2) and W.shape[0] == shape[1]
    if not fits or (out is not None and out.shape != (hi - lo, *W.shape[1:])):
        raise ValueError(
            f"rows {lo} .. {hi} times W of shape {W.shape}: the design has {shape[0]} rows and {shape[1]} "
            "features, of which W needs one row each."
        )


def _check_transposed(shape: tuple[int, int], coef: Array, lo: int, hi: int, out: Array) -> None:
    fits = 0 <= lo <= hi <= shape[0] and coef.ndim in (1, 2) and coef.shape[0] == hi - lo
    if not fits or out.shape != (shape[1], *coef.shape[1:]):
        raise ValueError(
            f"coef has shape {coef.shape} and out {out.shape} for rows {lo} .. {hi} of {shape[0]}, with "
            f"{shape[1]} features."
        )


def is_design(X: Any) -> bool:
    """Whether this is a design already, not a matrix that can become one."""
    return hasattr(X, "dot") and hasattr(X, "accumulate")


def largest_square(design: Design, block: int = 4096) -> float:
    """The largest squared norm of a row: as the design knows it, or by a pass over its blocks."""
    known = getattr(design, "largest_square", None)
    if known is not None:
        return float(known)
    if not hasattr(design, "block"):
        raise TypeError(
            f"{type(design).__name__} shows no rows, so their largest norm is not known: give it an "
            "attribute largest_square, or a method block(lo, hi)."
        )
    largest, n = 0.0, design.shape[0]
    for lo in range(0, n, block):
        part = design.block(lo, min(n, lo + block))
        if isinstance(part, DenseDesign):
            squares = np.einsum("ij,ij->i", part.X, part.X, dtype=np.float64)
        else:
            squares = np.zeros(part.shape[0])
            rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            np.add.at(squares, rows, part.data.astype(np.float64) ** 2)
        largest = max(largest, float(squares.max(initial=0.0)))
    return largest


def row_lengths(design: Design, lo: int, hi: int) -> Array | float | None:
    """The norms of some rows, or a bound of them; None where the design does not know."""
    if isinstance(design, DenseDesign):
        out = np.empty(hi - lo)
        precise.dense_lengths(design.X[lo:hi], out)
        return out
    if isinstance(design, CSRDesign):
        out = np.empty(hi - lo)
        precise.csr_lengths(design.indptr[lo : hi + 1], design.data, out)
        return out
    known = getattr(design, "largest_square", None)
    return None if known is None else float(np.sqrt(known))


def take(design: Design, rows: IntArray) -> Design:
    """These rows of a design, in this order."""
    if not hasattr(design, "take"):
        raise TypeError(
            f"{type(design).__name__} shows its rows in their own order only, and another one is needed "
            "here. Write them in the right order (queries together, copies for weights), or load them."
        )
    part: Design = design.take(rows)
    return part


def as_design(X: Any, *, checked: bool = False) -> Design:
    """The design for an array, a SciPy sparse matrix, a data set on disk, or what already is a design.

    Entries of matrices must be finite, and indices and pointers of sparse ones inside their arrays. To see
    that takes part of the time of one product; ``checked``: it has been seen already.
    """
    if sp.issparse(X):
        X = X if checked else sound(X)
        X = _summed(X)
        return CSRDesign.of(X.indptr, X.indices, X.data, (int(X.shape[0]), int(X.shape[1])))
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix; it is an array of shape {X.shape}.")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        X = np.ascontiguousarray(X)
        if not checked:
            check_dense(X)
        return DenseDesign(X)
    if is_design(X):
        design: Design = X
        return design
    raise TypeError(
        f"cannot use {type(X).__name__} as a design: pass a NumPy array, a SciPy sparse matrix, or an "
        "object with shape, nnz, dot(W, lo, hi) and accumulate(coef, lo, hi, out)."
    )


def _summed(X: Any) -> Any:
    """The matrix without entries stored twice: |x|^2 is not the sum of their squares. Columns that are
    merely out of order do no harm."""
    if has_repeats(X):
        X = summed(X)
        check_rows(X.indptr, X.indices, X.data, X.shape)  # sums may overflow
    return X


def has_repeats(X: Any) -> bool:
    """Whether a CSR matrix, which was checked, stores an entry twice."""
    if is_canonical(X):
        return False
    seen = np.full(X.shape[1], -1, dtype=np.int64)
    return bool(convert.has_duplicates(X.indptr, X.indices, seen))


def compact(X: Any) -> Design:
    """The design of a matrix; of a dense one as CSR where less than ``SPARSE_BELOW`` of it is not
    zero: then every product is quicker by more than the conversion costs."""
    design = as_design(X)
    if not isinstance(design, DenseDesign):
        return design
    X, (n, d) = design.X, design.shape
    some = X[:: max(1, n // 1000)]
    if d < 16 or np.count_nonzero(some) > 1.2 * SPARSE_BELOW * some.size:
        return design  # clear without counting everything
    indptr = np.empty(n + 1, dtype=np.int64)
    convert.count(X, indptr)
    nnz = int(indptr[-1])
    if nnz > SPARSE_BELOW * X.size:
        return design
    indices, data = np.empty(nnz, dtype=np.int32), np.empty(nnz, dtype=X.dtype)
    convert.fill(X, indptr, indices, data)
    if nnz < 2**31:
        indptr = indptr.astype(np.int32)
    return CSRDesign.of(indptr, indices, data, (n, d))


def shard_bounds(n_rows: int, work: int, dim: int) -> list[int]:
    """Row boundaries of the shards: a function of the data alone, never of the number of workers.

    Enough shards to keep many workers busy, but each with more work than adding up its plane costs: 32, and
    more where each would have seconds of work. (Where w is far larger than a cache an entry costs several
    times as much, and a shard may have fewer of them.)
    """
    worth = work // (4 * max(1, dim))
    if dim >= LONG and 2 * work >= dim:
        worth = max(2, 1 << ((work - 1) // dim).bit_length())
    n_shards = max(1, min(max(32, work // SHARD_WORK), work // 50_000, worth, n_rows))
    return [round(k * n_rows / n_shards) for k in range(n_shards + 1)]
