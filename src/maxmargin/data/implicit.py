"""Base class for designs that compute their features on the fly."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from maxmargin.core.vectors import Array, IntArray, with_writable_arrays, writable
from maxmargin.data.design import CSRDesign


class ImplicitDesign(ABC):
    """Rows computed on the fly, each multiplied by its own scale factor.

    A subclass works with flat weights, ``columns`` numbers per feature, and with one row of scores or
    coefficients per column. Its constructor must call :meth:`_describe_rows` last.
    """

    shape: tuple[int, int]
    nnz: int
    #: squared norm of every row
    squared_norms: Array

    @abstractmethod
    def _dot(self, w: Array, columns: int, lo: int, hi: int) -> Array:
        """Scores of shape (columns, rows), before scaling."""

    @abstractmethod
    def _accumulate(self, coef: Array, columns: int, lo: int, hi: int, out: Array) -> None:
        """Add rows times coefficients to the flat ``out``; coefficients include the scale factors."""

    @abstractmethod
    def _rows(self, rows: IntArray, capacity: int) -> tuple[Any, Any, Array]:
        """indptr, indices and data of these rows, before scaling."""

    @abstractmethod
    def describe(self, j: int) -> str:
        """Description of column j."""

    def _describe_rows(self, entries: IntArray, squares: Array, normalize: bool) -> None:
        """Store the number of entries and the squared norm of every row."""
        self._entries, self.nnz = entries, int(entries.sum())
        self._scale: Array | None = None
        if normalize:
            self._scale = np.where(squares > 0.0, squares, 1.0) ** -0.5
            squares = np.where(squares > 0.0, 1.0, 0.0)
        self.squared_norms = squares

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_writable_arrays(state))

    def part(self, lo: int, hi: int) -> Self:
        """The rows ``lo .. hi-1`` alone, to send to a worker."""
        other = copy.copy(self)
        other._entries, other.squared_norms = self._entries[lo:hi], self.squared_norms[lo:hi]
        other._scale = None if self._scale is None else self._scale[lo:hi]
        other.shape, other.nnz = (hi - lo, self.shape[1]), int(other._entries.sum())
        other._keep(lo, hi)
        return other

    @abstractmethod
    def _keep(self, lo: int, hi: int) -> None:
        """Drop what does not belong to the rows ``lo .. hi-1``, without changing shared objects."""

    @property
    def largest_square(self) -> float:
        """The largest squared norm of a row."""
        return float(self.squared_norms.max(initial=0.0))

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`maxmargin.data.Design`."""
        self._fits(W, "W", self.shape[1])
        columns = 1 if W.ndim == 1 else W.shape[1]
        flat = writable(np.ascontiguousarray(W)).reshape(-1)
        scores = self._dot(flat, columns, lo, hi)
        if self._scale is not None:
            scores *= self._scale[lo:hi]
        return scores[0] if W.ndim == 1 else np.ascontiguousarray(scores.T)

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`maxmargin.data.Design`."""
        self._fits(coef, "coef", hi - lo)
        self._fits(out, "out", self.shape[1])
        columns = 1 if coef.ndim == 1 else coef.shape[1]
        by_column = np.ascontiguousarray(coef.reshape(hi - lo, columns).T, dtype=np.float64)
        if self._scale is not None:
            by_column = by_column * self._scale[lo:hi]
        target = out if out.flags.c_contiguous else np.zeros(out.shape)
        self._accumulate(writable(by_column), columns, lo, hi, target.reshape(-1))
        if target is not out:
            out += target

    def kernel_dot(self, coef: Array) -> Array:
        """``X X' coef`` for all rows: the product with the kernel matrix."""
        n = self.shape[0]
        self._fits(coef, "coef", n)
        columns = 1 if coef.ndim == 1 else coef.shape[1]
        by_column = np.ascontiguousarray(coef.reshape(n, columns).T, dtype=np.float64)
        if self._scale is not None:
            by_column = by_column * self._scale
        scores = self._kernel_dot(writable(by_column), columns)
        if scores is None:  # use a weight vector
            w = np.zeros((self.shape[1], *coef.shape[1:]))
            self.accumulate(coef, 0, n, w)
            return self.dot(w, 0, n)
        if self._scale is not None:
            scores *= self._scale
        return scores[0] if coef.ndim == 1 else np.ascontiguousarray(scores.T)

    def _kernel_dot(self, coef: Array, columns: int) -> Array | None:
        """The same product without a weight vector, before scaling; None if not available."""
        return None

    def _fits(self, array: Array, name: str, length: int) -> None:
        # Compiled code does not check bounds.
        if array.shape[:1] != (length,) or array.ndim > 2:
            raise ValueError(f"{name} has shape {array.shape}; its first axis must be {length}.")

    def block(self, lo: int, hi: int) -> CSRDesign:
        """The rows ``lo .. hi-1`` in memory."""
        return self.take(np.arange(lo, hi))

    def take(self, rows: Any) -> CSRDesign:
        """These rows, in this order, in memory."""
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < self.shape[0]):
            raise IndexError(
                f"rows {rows.min()} to {rows.max()} are out of range: X has {self.shape[0]} rows."
            )
        capacity = int(self._entries[rows].sum())
        indptr, indices, data = self._rows(rows, capacity)
        if self._scale is not None:
            data *= np.repeat(self._scale[rows], np.diff(indptr))
        return CSRDesign.of(indptr, indices, data, (len(rows), self.shape[1]))

    def _has(self, j: int) -> int:
        if not 0 <= j < self.shape[1]:
            raise IndexError(f"column {j} is out of range: X has {self.shape[1]} columns.")
        return int(j)
