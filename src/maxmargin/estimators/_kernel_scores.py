"""Sums over support vectors at new rows, a tile of kernel values at a time.

Where there are many support vectors the values are computed in single precision, and the terms are summed in
double. Next to the sums goes that of the terms' sizes, which tells how far rounding can have moved them: rows
whose label that might change are computed once more in double precision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators._base import _blas
from maxmargin.kernels import RBF, FromCallable, Kernel, KernelRows

#: rows that a thread takes at a time: fixed, so that the number of threads changes no bit
ROWS = 256
#: support vectors of a tile
TILE = 2048
#: with fewer support vectors all is done in double precision
FEW = 1000
#: error of a term in single precision, in units of its size
ROUNDING = 4.0 * float(np.finfo(np.float32).eps)


class Segment(NamedTuple):
    """Neighbouring support vectors with the outputs that they belong to."""

    rows: slice
    #: one row each, one column per output
    coef: Array
    #: which outputs these are
    columns: IntArray | slice


class Tile(NamedTuple):
    """Some support vectors, packed."""

    rows: KernelRows
    coef: Array
    #: the largest coefficient of each row
    largest: Array
    columns: IntArray | slice


class KernelScores:
    """The functions of a fitted model: ``segments`` over ``rows``, plus ``intercept``."""

    def __init__(
        self, kernel: Kernel, rows: Any, segments: Sequence[Segment], intercept: Array
    ) -> None:
        self.kernel, self.rows, self.segments, self.intercept = kernel, rows, segments, intercept
        dense = not sp.issparse(rows) and not isinstance(kernel, FromCallable)
        # rows far from zero would lose digits in differences
        self._centre = rows.mean(axis=0, dtype=np.float64) if dense and len(rows) else None
        self._double = rows.shape[0] < FEW or isinstance(kernel, FromCallable)
        self._tiles = self._packed(np.float64 if self._double else np.float32)

    def __call__(
        self, X: Any, n_jobs: int | None, in_doubt: Callable[[Array, Array], npt.NDArray[np.bool_]]
    ) -> Array:
        """All outputs at some rows. ``in_doubt(scores, errors)`` says which rows are not clear."""
        out, error = np.empty((X.shape[0], len(self.intercept))), np.empty(X.shape[0])

        def work(lo: int) -> None:
            here = slice(lo, lo + ROWS)
            out[here], error[here] = self._sums(X[here], self._tiles)

        _in_threads(work, range(0, X.shape[0], ROWS), n_jobs)
        if self._double:
            return out
        again = np.flatnonzero(in_doubt(out, error))
        if len(again):
            tiles = self._packed(np.float64)

            def repeat(lo: int) -> None:
                here = again[lo : lo + ROWS]
                out[here], _ = self._sums(X[here], tiles)

            _in_threads(repeat, range(0, len(again), ROWS), n_jobs)
        return out

    def _packed(self, dtype: Any) -> list[Tile]:
        out = []
        for rows, coef, columns in self.segments:
            for lo in range(rows.start, rows.stop, TILE):
                hi = min(rows.stop, lo + TILE)
                part = np.ascontiguousarray(coef[lo - rows.start : hi - rows.start])
                largest = np.abs(part).max(axis=1, initial=0.0)
                packed = KernelRows(self.kernel, self.rows[lo:hi], dtype, self._centre)
                out.append(Tile(packed, part, largest, columns))
        return out

    def _sums(self, X: Any, tiles: Sequence[Tile]) -> tuple[Array, Array]:
        """Outputs and the sizes of their errors."""
        scores, size = np.zeros((X.shape[0], len(self.intercept))), np.zeros(X.shape[0])
        if not tiles:
            return scores + self.intercept, size
        left = KernelRows(self.kernel, X, tiles[0].rows.dtype, self._centre)
        for tile in tiles:
            values = left.block(tile.rows)
            scores[:, tile.columns] += values @ tile.coef
            if not self._double:
                size += np.abs(values, out=values) @ tile.largest
        return scores + self.intercept, ROUNDING * self._growth(left) * size

    def _growth(self, left: KernelRows) -> Any:
        """How much rounding of products grows on the way to a value."""
        if isinstance(self.kernel, RBF):  # the exponent's error is that of its largest terms
            return 1.0
        return 1.0 + getattr(self.kernel, "degree", 1)


def _in_threads(work: Callable[[int], None], items: range, n_jobs: int | None) -> None:
    """All items, by this many threads; BLAS has one each, so that sums have the same bits."""
    n = (
        1
        if n_jobs is None
        else n_jobs
        if n_jobs > 0
        else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    )
    with _blas().limit(limits=1, user_api="blas"):
        if n == 1 or len(items) < 2:
            for item in items:
                work(item)
            return
        with ThreadPoolExecutor(min(n, len(items))) as pool:
            for _ in pool.map(work, items):
                pass
