"""Rows in narrow types as a design: products convert a block of rows that fits in a cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import products
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.in_memory import DenseDesign
from maxmargin.data.typed_rows import TypedRows, check_finite, typed_rows, widen

#: entries of a block; and those up to which a matrix is converted as a whole, so that all methods are there
ENTRIES, FEW = 2**17, 2**21
#: squared norm of a row above which a float16 may be infinite: the smallest that is not finite
LARGE = 2.0**32


class TypedDesign:
    """Rows in one of these types, all of them or those of ``order`` in this order, without a copy."""

    def __init__(self, rows: TypedRows, order: IntArray | None = None) -> None:
        self.rows, self._order = rows, order
        #: the type in which steps are taken, and the one in which all entries are exact
        self.dtype: Any = np.dtype(np.float32)
        self._exact: Any = np.float32 if rows.scale is None else np.float64
        self.shape: tuple[int, int] = (len(rows if order is None else order), rows.shape[1])
        self.nnz = self.shape[0] * self.shape[1]
        #: the codes themselves: without an offset, products multiply the weights by the scale
        self._codes: TypedDesign | None = None
        if rows.scale is not None and not np.any(rows.offset):
            self._codes = TypedDesign(TypedRows(rows.codes, rows.kind), order)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> TypedDesign:
        """Rows selected by a slice, indices or a mask, without a copy."""
        return self.take(np.arange(len(self))[rows])

    def entries(
        self, which: slice | IntArray, dtype: npt.DTypeLike, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """See :class:`maxmargin.data.design.DenseRows`."""
        some = self.rows[which if self._order is None else self._order[which]]
        out = np.empty(some.shape, dtype) if out is None else out[: len(some)]
        return widen(some, out)

    def dot(self, W: Array, lo: int, hi: int, out: Array | None = None) -> Array:
        """See :class:`~maxmargin.data.design.Design`; ``out`` is an optional array for the scores."""
        if self._codes is not None:
            return self._codes.dot(self._scaled(W), lo, hi, out)
        out = np.empty((hi - lo, *W.shape[1:])) if out is None else out
        for first, last, block in self._blocks(lo, hi):
            block.dot(W, 0, last - first, out[first - lo : last - lo])
        return out

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`~maxmargin.data.design.Design`."""
        codes = self if self._codes is None else self._codes
        for first, last, block in codes._blocks(lo, hi):
            some = coef[first - lo : last - lo]
            if not some.any():
                continue
            if self._codes is None:
                block.accumulate(some, 0, last - first, out)
            else:  # block by block, so that it does not depend on the ranges that a caller adds up
                total = np.zeros_like(out)
                block.accumulate(some, 0, last - first, total)
                out += self._scaled(total)

    def _scaled(self, W: Array) -> Array:
        """One row per column of X, times its scale."""
        scale = self.rows.scale
        assert scale is not None
        scaled: Array = W * (scale if scale.ndim == 0 or W.ndim == 1 else scale[:, None])
        return scaled

    def block(self, lo: int, hi: int) -> DenseDesign:
        """The rows ``lo .. hi-1``, converted."""
        return DenseDesign(self.entries(slice(lo, hi), self._exact))

    def part(self, lo: int, hi: int) -> TypedDesign:
        """The rows ``lo .. hi-1`` alone, to send to a worker."""
        which: Any = slice(lo, hi) if self._order is None else self._order[lo:hi]
        return TypedDesign(self.rows[which])

    def take(self, rows: IntArray) -> TypedDesign:
        """These rows in this order: only their numbers are stored."""
        return TypedDesign(self.rows, rows if self._order is None else self._order[rows])

    def lengths(self, lo: int, hi: int) -> Array:
        """The norms of the rows ``lo .. hi-1``."""
        out = np.empty(hi - lo)
        for first, last, block in self._blocks(lo, hi):
            products.dense_lengths(block.X, out[first - lo : last - lo])
        return out

    @cached_property
    def largest_square(self) -> float:
        """The largest squared norm of a row. Raises ValueError for entries that are not finite."""
        largest = 0.0
        for first, last, block in self._blocks(0, self.shape[0]):
            X = block.X
            square = float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max(initial=0.0))
            if not square < LARGE and self._order is None:
                check_finite(self.rows[first:last], first)
            largest = max(largest, square)
        return largest

    def _blocks(self, lo: int, hi: int) -> Iterator[tuple[int, int, DenseDesign]]:
        height = block_rows(self.shape[1])
        scratch = np.empty((min(height, hi - lo), self.shape[1]), self._exact)
        for first in range(lo, hi, height):
            last = min(hi, first + height)
            rows = self.entries(slice(first, last), self._exact, scratch)
            yield first, last, DenseDesign(rows)


def block_rows(columns: int) -> int:
    """Number of rows of a block."""
    return max(16, ENTRIES // max(1, columns))


def by_blocks(X: Any) -> Any:
    """The design of a matrix in a narrow type, with finite entries; a small one as an array of float64, and
    everything else unchanged."""
    rows = typed_rows(X)
    if rows is None:
        return X
    if rows.codes.size <= FEW:
        return X if isinstance(X, np.ndarray) and rows.kind != "bfloat16" else _small(rows)
    design = TypedDesign(rows)
    _ = design.largest_square  # which every method needs, and which checks the entries
    return design


def _small(rows: TypedRows) -> Array:
    check_finite(rows)
    return rows.toarray()
