"""Rows of ordered classes: a copy of each sample for each threshold that its class is compared with.

Row (i, j) has the features of sample i and a further feature -1 for threshold j, so its score is
``<w, x_i> - theta_j``. Rows are in the order of the samples, and those of a sample in the order of the
thresholds. The features are not copied: a product takes one pass over the samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign, Design, as_matrix, largest_square

#: number of entries up to which the rows of samples in memory are stored
STORED = 2**26


class ThresholdRows:
    """See :class:`maxmargin.data.design.BlockDesign`; ``counts`` are the rows of each sample, at least 1, and
    ``first`` its first threshold."""

    def __init__(
        self, design: Design, n_thresholds: int, first: IntArray, counts: IntArray
    ) -> None:
        self._design, self._first, self._d = design, first, design.shape[1]
        self._ends: IntArray = np.concatenate([[0], np.cumsum(counts)])
        n = int(self._ends[-1])
        self.shape: tuple[int, int] = (n, self._d + n_thresholds)
        self.nnz = n + int(design.nnz * (n / max(1, design.shape[0])))
        self.largest_square = largest_square(design) + 1.0

    def rows(self, lo: int, hi: int) -> tuple[IntArray, IntArray]:
        """The samples and the thresholds of the rows ``lo .. hi-1``."""
        start, stop = self._samples(lo, hi)
        samples = np.repeat(np.arange(start, stop), np.diff(self._ends[start : stop + 1]))
        offset = int(self._ends[start])
        samples = samples[lo - offset : hi - offset]
        return samples, self._first[samples] + np.arange(lo, hi) - self._ends[samples]

    def _samples(self, lo: int, hi: int) -> tuple[int, int]:
        if lo >= hi:
            return 0, 0
        start, stop = np.searchsorted(self._ends, [lo, hi - 1], side="right")
        return int(start) - 1, int(stop)

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`maxmargin.data.design.Design`."""
        start, stop = self._samples(lo, hi)
        samples, thresholds = self.rows(lo, hi)
        scores: Array = self._design.dot(np.ascontiguousarray(W[: self._d]), start, stop)
        return np.asarray(scores[samples - start] - W[self._d + thresholds])

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`maxmargin.data.design.Design`."""
        start, stop = self._samples(lo, hi)
        if start == stop:
            return
        samples, thresholds = self.rows(lo, hi)
        begin = np.flatnonzero(np.diff(samples, prepend=-1))
        sums = np.add.reduceat(coef, begin, axis=0)
        self._design.accumulate(sums, start, stop, out[: self._d])
        np.subtract.at(out, self._d + thresholds, coef)

    def block(self, lo: int, hi: int) -> DenseDesign | CSRDesign:
        """See :class:`maxmargin.data.design.BlockDesign`."""
        start, stop = self._samples(lo, hi)
        samples, thresholds = self.rows(lo, hi)
        design: Any = self._design
        X = as_matrix(design.block(start, stop))
        n, where = hi - lo, samples - start
        if isinstance(X, np.ndarray):
            out = np.zeros((n, self.shape[1]), X.dtype)
            np.take(X, where, axis=0, out=out[:, : self._d])
            out[np.arange(n), self._d + thresholds] = -1.0
            return DenseDesign(out)
        ones = np.full(n, -1.0, X.dtype)
        own = sp.csr_matrix((ones, thresholds, np.arange(n + 1)), (n, self.shape[1] - self._d))
        return CSRDesign(sp.hstack([X[where], own], format="csr"))

    def stored(self) -> Design:
        """The rows in memory, if the samples are and they are not too many; these rows otherwise."""
        if self.nnz <= STORED and isinstance(self._design, CSRDesign | DenseDesign):
            return self.block(0, self.shape[0])
        return self
