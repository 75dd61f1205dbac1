"""Low-rank kernel map as matrix-free features: computed on demand, never stored.

With phi(x) = L^-1 k(B, x), a product is ``k(X, B) (L'^-1 W)`` and a transposed product is
``L^-1 (k(B, X) coef)``: the triangular factor multiplies one small matrix per call, not every row. Rows with
zero coefficients are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import DenseDesign, as_design, as_matrix, is_design
from maxmargin.kernels import KernelRows, NystromMap
from maxmargin.kernels.functions import FloatMatrix
from maxmargin.kernels.lowrank import ROWS


class KernelDesign:
    """Features of a :class:`~maxmargin.kernels.NystromMap` for rows in memory or on disk.

    Use it in place of X with linear estimators, paths and parameter grids to train kernel models. Only the
    rows in use are held in memory, never all features.

    Parameters
    ----------
    features : NystromMap
        The kernel map.
    X : array, CSR matrix, or design with a ``block`` method (such as a data set on disk)
        The samples.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.data import KernelDesign
    >>> from maxmargin.kernels import RBF, NystromMap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 2, size=(500, 2))
    >>> y = np.floor(X).sum(axis=1) % 2 == 0            # a 2 x 2 checkerboard
    >>> features = NystromMap(RBF(5.0), X[:60])
    >>> svc = LinearSVC(C=10.0, penalize_intercept=False).fit(KernelDesign(features, X), y)
    >>> bool(svc.score(KernelDesign(features, X), y) > 0.9)
    True
    """

    def __init__(self, features: NystromMap, X: Any) -> None:
        if not (is_design(X) or sp.issparse(X) or isinstance(X, np.ndarray)):
            X = np.asarray(X)
        if is_design(X) and not hasattr(X, "block"):
            raise TypeError(
                f"{type(X).__name__} has no block(lo, hi) method, which kernels require."
            )
        if X.shape[1] != features.basis.X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, but the landmarks have {features.basis.X.shape[1]}."
            )
        self.features = features
        if not is_design(X):
            checked: Any = as_design(X)
            X = as_matrix(checked)
        self.X = X
        self.shape: tuple[int, int] = (int(X.shape[0]), features.n_features)
        self.nnz = self.shape[0] * self.shape[1]
        self._largest: float | None = None

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`maxmargin.data.Design`."""
        coef = self.features.coefficients(W)
        out = np.empty((hi - lo, *W.shape[1:]))
        for first, last, rows in self._walk(lo, hi):
            out[first - lo : last - lo] = self.features.values(rows) @ coef
        return out

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`maxmargin.data.Design`."""
        total = np.zeros((self.shape[1], *coef.shape[1:]))
        for first, last, rows in self._walk(lo, hi):
            here = coef[first - lo : last - lo]
            active = np.flatnonzero(here if here.ndim == 1 else here.any(axis=1))
            if len(active):
                total += self.features.values(rows[active]).T @ here[active]
        out += self.features.factor.T @ total

    def block(self, lo: int, hi: int) -> DenseDesign:
        """See :class:`maxmargin.data.design.BlockDesign`."""
        out = np.empty((hi - lo, self.shape[1]))
        self.fill(lo, hi, out)
        return DenseDesign(out)

    def fill(self, lo: int, hi: int, out: FloatMatrix) -> None:
        """Write the features of the rows ``lo .. hi-1`` to an array, in single or double precision."""
        for first, last, rows in self._walk(lo, hi):
            self.features.transform(rows, out[first - lo : last - lo])

    def take(self, rows: IntArray) -> DenseDesign:
        """See :class:`maxmargin.data.design.TakingDesign`."""
        some = as_matrix(self.X.take(rows)) if is_design(self.X) else self.X[rows]
        return DenseDesign(self.features.transform(some))

    @property
    def largest_square(self) -> float:
        """Upper bound on the squared norm of a row: the largest k(x, x)."""
        if self._largest is None:
            kernel, center = self.features.kernel, self.features.center
            packed = (
                KernelRows(kernel, rows, np.float64, center)
                for _, _, rows in self._walk(0, self.shape[0])
            )
            self._largest = max((float(part.diagonal().max()) for part in packed), default=0.0)
        return self._largest

    def _walk(self, lo: int, hi: int) -> Iterator[tuple[int, int, Any]]:
        """Iterate over small blocks of rows."""
        for first in range(lo, hi, ROWS):
            last = min(hi, first + ROWS)
            if is_design(self.X):
                yield first, last, as_matrix(self.X.block(first, last))
            else:
                yield first, last, self.X[first:last]
