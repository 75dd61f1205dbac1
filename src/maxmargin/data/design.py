"""Feature matrices as solvers use them: products with row ranges, without copying or casting data.

A :class:`Design` has two methods: ``dot`` computes scores of rows, and ``accumulate`` adds a transposed
product to an output. Any object with these methods can replace X: a file, features computed on the fly, a
low-rank kernel map. Solvers that visit single rows also need blocks of rows in memory (:class:`BlockDesign`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled import convert, products
from maxmargin.core.matrices import check_dense, check_rows, checked_csr, is_canonical, summed
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.in_memory import BLOCK as BLOCK
from maxmargin.data.in_memory import CSRDesign as CSRDesign
from maxmargin.data.in_memory import DenseDesign as DenseDesign
from maxmargin.data.in_memory import as_matrix as as_matrix
from maxmargin.data.typed_design import TypedDesign, by_blocks

#: maximum number of entries per shard if there are more than 32 shards: about a tenth of a second of work
SHARD_WORK = 2**26
#: about as many rows per shard if there are very many
SHARD_ROWS = 2**20
#: length of w from which it is much larger than a cache
LONG = 2**20
#: fraction of nonzeros below which a dense matrix is converted to CSR
SPARSE_BELOW = 0.3


class Design(Protocol):
    """Interface of a feature matrix, explicit or matrix-free."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, features)."""

    @property
    def nnz(self) -> int:
        """Number of stored entries: the work of one product."""

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """``X[lo:hi] @ W`` for W of shape (features,) or (features, K)."""

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """``out += X[lo:hi].T @ coef``."""


@runtime_checkable
class BlockDesign(Design, Protocol):
    """A design that can load rows into memory."""

    def block(self, lo: int, hi: int) -> DenseDesign | CSRDesign:
        """The rows ``lo .. hi-1`` in memory; a view if they already are."""


@runtime_checkable
class FarDesign(BlockDesign, Protocol):
    """A design that may be read over a network."""

    @property
    def far(self) -> bool:
        """Whether it is, so that blocks should be asked for together, and before they are needed."""

    def blocks(self, ranges: Sequence[tuple[int, int]]) -> list[DenseDesign | CSRDesign]:
        """The rows of these ranges in memory, loaded at the same time."""


@runtime_checkable
class DivisibleDesign(Design, Protocol):
    """A design of which a part can be sent to a worker. Others are sent as a whole."""

    def part(self, lo: int, hi: int) -> Design:
        """The rows ``lo .. hi-1`` alone, with indices from 0."""


@runtime_checkable
class DenseRows(BlockDesign, Protocol):
    """A design of dense rows that are read in blocks, each converted to the type of the computation."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type to compute in: float32, or float64 if the entries are."""

    def entries(
        self, which: slice | IntArray, dtype: npt.DTypeLike, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Some rows in this type: a view, the beginning of ``out``, or a new array."""


class TakingDesign(BlockDesign, Protocol):
    """A design that can load rows in any order."""

    def take(self, rows: IntArray) -> DenseDesign | CSRDesign:
        """A copy of these rows in memory, in this order."""


@runtime_checkable
class CountedDesign(Protocol):
    """A design that can find the rows that divide its entries."""

    def rows_at(self, entries: Sequence[int]) -> list[int]:
        """For each number of entries, the first row that has so many before it."""


class RangeDesign:
    """The rows ``lo .. hi-1`` of a design without a ``part`` method, with indices from 0."""

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


def is_design(X: Any) -> bool:
    """Whether X is a design, rather than a matrix to convert to one."""
    return hasattr(X, "dot") and hasattr(X, "accumulate")


def largest_square(design: Design, block: int = 4096) -> float:
    """The largest squared norm of a row, from the design's attribute or by a pass over its blocks."""
    known = getattr(design, "largest_square", None)
    if known is not None:
        return float(known)
    if not hasattr(design, "block"):
        raise TypeError(
            f"{type(design).__name__} has no block(lo, hi) method, so the largest norm of its rows is "
            "unknown: add an attribute largest_square, or the method block."
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
    """Norms of the rows ``lo .. hi-1``, or an upper bound; None if unknown."""
    if isinstance(design, DenseDesign):
        out = np.empty(hi - lo)
        products.dense_lengths(design.X[lo:hi], out)
        return out
    if isinstance(design, CSRDesign):
        out = np.empty(hi - lo)
        products.csr_lengths(design.indptr[lo : hi + 1], design.data, out)
        return out
    if isinstance(design, TypedDesign):
        return design.lengths(lo, hi)
    known = getattr(design, "largest_square", None)
    return None if known is None else float(np.sqrt(known))


def take(design: Design, rows: IntArray) -> Design:
    """These rows of a design, in this order."""
    if not hasattr(design, "take"):
        raise TypeError(
            f"{type(design).__name__} has no take() method to reorder its rows. Write the rows in the "
            "required order (queries together, copies for weights), or load them into memory."
        )
    part: Design = design.take(rows)
    return part


def as_design(X: Any, *, checked: bool = False) -> Design:
    """Convert an array, a SciPy sparse matrix or a data set on disk to a design; return a design unchanged.

    Entries of matrices must be finite, and indices and pointers of sparse matrices in range. The check takes
    a part of the time of one product; ``checked=True`` skips it. Large arrays of float16, int8 and uint8 are
    not converted, nor are :class:`Quantized` matrices: products convert a block of rows at a time.
    """
    X = by_blocks(X)
    if sp.issparse(X):
        X = X if checked else checked_csr(X)
        # 32-bit indices where they suffice: code for others is not precompiled
        X = _summed(sp.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape))
        return CSRDesign.of(X.indptr, X.indices, X.data, (int(X.shape[0]), int(X.shape[1])))
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix; got an array of shape {X.shape}.")
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
        f"cannot use {type(X).__name__} as X: pass a NumPy array, a SciPy sparse matrix, or an "
        "object with shape, nnz, dot(W, lo, hi) and accumulate(coef, lo, hi, out)."
    )


def _summed(X: Any) -> Any:
    """The matrix with duplicate entries added up, because |x|^2 is not the sum of their squares. Unsorted
    columns are allowed."""
    if has_repeats(X):
        X = summed(X)
        check_rows(X.indptr, X.indices, X.data, X.shape)  # the sums may overflow
    return X


def has_repeats(X: Any) -> bool:
    """Whether a valid CSR matrix has duplicate entries."""
    if is_canonical(X):
        return False
    seen = np.full(X.shape[1], -1, dtype=np.int64)
    return bool(convert.has_duplicates(X.indptr, X.indices, seen))


def compact(X: Any) -> Design:
    """The design of a matrix. A dense matrix with a fraction of nonzeros below ``SPARSE_BELOW`` is converted
    to CSR, because faster products outweigh the cost of the conversion."""
    design = as_design(X)
    if not isinstance(design, DenseDesign):
        return design
    X, (n, d) = design.X, design.shape
    some = X[:: max(1, n // 1000)]
    if d < 16 or np.count_nonzero(some) > 1.2 * SPARSE_BELOW * some.size:
        return design  # decided without counting all entries
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


def shard_bounds(n_rows: int, work: int, dim: int, design: Design | None = None) -> list[int]:
    """Row boundaries of the shards. They depend on the data alone, never on the number of workers.

    There are 32 shards, enough to keep many workers busy, and each has several times the work that the
    summation of its cut costs. If each would have seconds of work, there are more. If w is much larger than a
    cache, an entry costs several times as much, and a shard has fewer entries.

    Very many rows (32 * ``SHARD_ROWS``) are cut into a power of two of shards, so that a worker's range of
    them has few nodes of the summation tree, with about ``SHARD_ROWS`` rows at most, so that the memory for
    the scores of a shard does not grow with the data. If the design is given and can count entries, the
    shards of very many rows have equally many of them.
    """
    worth = work // (8 * max(1, dim))
    if dim >= LONG and 2 * work >= dim:
        worth = max(2, 1 << ((work - 1) // dim).bit_length())
    most, many = max(32, work // SHARD_WORK), n_rows >= 32 * SHARD_ROWS
    if many:
        most = 1 << round(math.log2(max(n_rows / SHARD_ROWS, work / SHARD_WORK)))
        worth = 1 << max(0, worth.bit_length() - 1)
    n_shards = max(1, min(most, work // 50_000, worth, n_rows))
    full = design is None or design.nnz == n_rows * design.shape[1]  # all rows have equally many
    if many and not full and isinstance(design, CountedDesign):
        inside = design.rows_at([k * design.nnz // n_shards for k in range(1, n_shards)])
        return sorted({0, *inside, n_rows})
    return [round(k * n_rows / n_shards) for k in range(n_shards + 1)]
