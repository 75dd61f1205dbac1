"""Sums over support vectors at new rows, one tile of kernel values at a time.

With many support vectors, values and the sums of a tile are in single precision, and tiles are added in
double precision. The sum of the absolute terms is computed as well and bounds the rounding error. Rows
whose label it could change are computed again in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray
from maxmargin.engines import worker_count
from maxmargin.estimators.threads import granted_jobs, one_blas_thread
from maxmargin.kernels import RBF, FromCallable, Kernel, KernelRows, center_of
from maxmargin.kernels.thin import is_thin, thin_squares

#: rows per work item of a thread: fixed, so that results are bit-identical for any number of threads
ROWS = 256
#: support vectors per tile, so that a block of kernel values stays in the cache
TILE = 1024
#: with fewer support vectors everything is in double precision
FEW = 1000
#: relative error of a term in single precision
ROUNDING = 4.0 * float(np.finfo(np.float32).eps)


class SupportSegment(NamedTuple):
    """Consecutive support vectors with the outputs that they belong to."""

    rows: slice
    #: one row each, one column per output
    coef: Array
    #: indices of the outputs
    columns: IntArray | slice


class Tile(NamedTuple):
    """Some support vectors, packed."""

    rows: KernelRows
    #: a last column has the largest coefficient of each row
    coef: npt.NDArray[Any]
    columns: IntArray | slice


class KernelScores:
    """The functions of a fitted model: ``segments`` over ``rows``, plus ``intercept``. ``double``: always in
    double precision."""

    def __init__(
        self,
        kernel: Kernel,
        rows: Any,
        segments: Sequence[SupportSegment],
        intercept: Array,
        double: bool = False,
    ) -> None:
        self.kernel, self.rows, self.segments, self.intercept = kernel, rows, segments, intercept
        self._double = double or rows.shape[0] < FEW or isinstance(kernel, FromCallable)

    # What follows is computed once, at the first prediction: fits do not need it, and predictions of single
    # rows are fast.

    @cached_property
    def _center(self) -> Array | None:
        """Subtracted from all rows: differences of rows far from zero would lose precision."""
        movable = self.kernel.shift_invariant and not is_thin(self.rows) and self.rows.shape[0]
        return center_of(self.rows) if movable else None

    @cached_property
    def _largest_square(self) -> float:
        """The largest |z - center|^2 of a support vector."""
        pieces = (self.rows[lo : lo + TILE] for lo in range(0, self.rows.shape[0], TILE))
        squares = (float(_squares(some, self._center).max()) for some in pieces)
        return max(squares, default=0.0)

    @cached_property
    def _all(self) -> float:
        """The sum of the largest coefficients of the support vectors."""
        return sum(float(np.abs(part.coef).max(axis=1).sum()) for part in self.segments)

    @cached_property
    def _tiles(self) -> list[Tile]:
        """The support vectors, packed."""
        return self._packed(np.float64 if self._double else np.float32)

    def __call__(
        self, X: Any, n_jobs: int | None, uncertain: Callable[[Array, Array], npt.NDArray[np.bool_]]
    ) -> Array:
        """All outputs at some rows. ``uncertain(scores, errors)`` is where rows need double precision."""
        out, error = np.empty((X.shape[0], len(self.intercept))), np.empty(X.shape[0])
        tiles = self._tiles  # computed before the threads start

        def work(lo: int) -> None:
            here = slice(lo, lo + ROWS)
            # values that are too large for single precision are computed again
            with np.errstate(over="ignore", invalid="ignore"):
                out[here], error[here] = self._sums(X[here], tiles)

        _in_threads(work, range(0, X.shape[0], ROWS), n_jobs)
        if self._double:
            return out
        known = np.isfinite(error) & np.isfinite(out).all(axis=1)
        again = np.flatnonzero(uncertain(out, error) | ~known)
        if len(again):
            exact = self._packed(np.float64)

            def repeat(lo: int) -> None:
                here = again[lo : lo + ROWS]
                out[here], _ = self._sums(X[here], exact)

            _in_threads(repeat, range(0, len(again), ROWS), n_jobs)
        return out

    def _packed(self, dtype: npt.DTypeLike) -> list[Tile]:
        out = []
        for rows, coef, columns in self.segments:
            for lo in range(rows.start, rows.stop, TILE):
                hi = min(rows.stop, lo + TILE)
                part = coef[lo - rows.start : hi - rows.start]
                part = np.column_stack([part, np.abs(part).max(axis=1, initial=0.0)])
                packed = KernelRows(self.kernel, self.rows[lo:hi], dtype, self._center)
                out.append(Tile(packed, np.ascontiguousarray(part, dtype=dtype), columns))
        return out

    def _sums(self, X: Any, tiles: Sequence[Tile]) -> tuple[Array, Array]:
        """Outputs, and bounds of their rounding errors."""
        scores, size = np.zeros((X.shape[0], len(self.intercept))), np.zeros(X.shape[0])
        if not tiles:
            return scores + self.intercept, size
        positive = isinstance(self.kernel, RBF)
        left = KernelRows(self.kernel, X, tiles[0].rows.dtype, self._center)
        for tile in tiles:
            values = left.block(tile.rows)
            sums = values @ tile.coef
            scores[:, tile.columns] += sums[:, :-1]
            size += sums[:, -1] if positive else np.abs(values, out=values) @ tile.coef[:, -1]
        return scores + self.intercept, ROUNDING * self._growth(X, size)

    def _growth(self, X: Any, size: Array) -> Array:
        """The error of a sum in units of one operation; ``size`` is sum |c_j| |k_j|.

        RBF: the error of the exponent is proportional to gamma (|x|^2 + |z|^2). Otherwise the argument t
        of the function has an error of r = gamma |x| |z|, however small t is, and t^p one of p (|t| +
        r)^(p - 1) r. The inequalities of Hoelder and Minkowski sum this: sum |c| (|t| + r)^(p - 1) <= S
        ((size / S)^(1/p) + r)^(p - 1) with S = sum |c|. (tanh is no steeper than p = 1.)
        """
        squares = _squares(X, self._center)
        if isinstance(self.kernel, RBF):
            return (1.0 + self.kernel.gamma * (squares + self._largest_square)) * size
        p = getattr(self.kernel, "degree", 1)
        if p == 0 or self._all == 0.0:
            return size
        r = abs(getattr(self.kernel, "gamma", 0.0)) * np.sqrt(squares * self._largest_square)
        terms: Array = (size / self._all) ** (1.0 / p) + ROUNDING * r
        return (1.0 + p) * size + self._all * p * r * terms ** (p - 1)


def _squares(X: Any, center: Array | None) -> Array:
    """|x - center|^2 of each row."""
    if sp.issparse(X) and center is None:
        return thin_squares(X)
    X = X.toarray() if sp.issparse(X) else X
    X = X if center is None else X - center
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def _in_threads(work: Callable[[int], None], items: range, n_jobs: int | None) -> None:
    """Process all items in this many threads, with one BLAS thread each, so that sums are bit-identical."""
    n = worker_count(granted_jobs(n_jobs))
    with one_blas_thread:
        if n == 1 or len(items) < 2:
            for item in items:
                work(item)
            return
        with ThreadPoolExecutor(min(n, len(items))) as pool:
            for _ in pool.map(work, items):
                pass
