"""Products with the signed rows of a problem, for methods that need Z' diag(theta) Z.

Z has one row ``y_i x_i`` for every row of the problem that has a weight; see ``compiled/gram``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as sl

from maxmargin.compiled import gram
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.risks.rows import Rows

#: rows of a dense block whose Gram matrix BLAS computes at once
BLOCK = 512
#: measured costs: a scattered multiply-add, an entry written to a block, a multiply-add of BLAS
SCATTER, WRITE, BLAS = 0.8, 2.0, 0.034


class RowProducts:
    """Margins, sums and Gram matrices of the rows that have a weight."""

    def __init__(self, rows: Rows, y: Array) -> None:
        design = rows.design
        self.index: IntArray = rows.indices()
        self.y: Array = np.ascontiguousarray(y[self.index], dtype=np.float64)
        self.n, self.dim = len(self.index), rows.dim
        self._constant, self._n_stored = rows.intercept, design.shape[0]
        self._data: tuple[Any, ...]
        if isinstance(design, CSRDesign):
            self._data = (design.indptr, design.indices, design.data)
            lengths = np.diff(design.indptr)[self.index].astype(np.float64)
            pairs = 0.5 * float((lengths * (lengths + 1.0)).sum())
            block = self.n * self.dim * (WRITE + 0.5 * BLAS * self.dim)
            self._scatter = SCATTER * pairs < block
            self._margins, self._combine, self._block = (
                gram.csr_margins, gram.csr_combine, gram.csr_block,
            )  # fmt: skip
        else:
            assert isinstance(design, DenseDesign)
            self._data, self._scatter = (design.X,), False
            self._margins, self._combine, self._block = (
                gram.dense_margins, gram.dense_combine, gram.dense_block,
            )  # fmt: skip

    def margins(self, w: Array) -> Array:
        """Z w."""
        out = np.empty(self.n)
        self._margins(*self._data, self._constant, w, self.index, self.y, out)
        return out

    def combine(self, coef: Array) -> Array:
        """Z' coef."""
        out = np.zeros(self.dim)
        self._combine(*self._data, self._constant, coef, self.index, self.y, out)
        return out

    def mean_square(self) -> float:
        """The mean of |x|^2, over all rows there are."""
        values = self._data[-1].ravel()
        squares = float(np.einsum("i,i->", values, values, dtype=np.float64))
        return squares / max(1, self._n_stored) + self._constant**2

    def gram(self, theta: Array) -> tuple[Array, int]:
        """Z' diag(theta) Z for theta >= 0, and how many rows took part."""
        if self._scatter:
            pairs, squares = np.zeros((self.dim, self.dim)), np.zeros(self.dim)
            count = gram.csr_outer(*self._data, self._constant, theta, self.index, pairs, squares)
            pairs += pairs.T
            pairs[np.diag_indices(self.dim)] += squares
            return pairs, int(count)
        lower = np.zeros((self.dim, self.dim), order="F")
        block = np.empty((BLOCK, self.dim))
        count = start = 0
        while start < self.n:
            new, start = self._block(*self._data, self._constant, theta, self.index, start, block)
            if new:
                count += new
                lower = sl.blas.dsyrk(1.0, block.T, beta=1.0, c=lower, lower=True, overwrite_c=True)
        return np.tril(lower) + np.tril(lower, -1).T, count


class Factor:
    """A Cholesky factor of a matrix that may be singular to rounding."""

    def __init__(self, H: Array) -> None:
        diagonal = np.diagonal(H)
        # columns of very different size (features that were not scaled): unit diagonal first
        self._scale: Array = np.where(diagonal > 0.0, diagonal, 1.0) ** -0.5
        scaled = H * self._scale * self._scale[:, None]
        self.ok = bool(np.isfinite(scaled).all())
        ridge = 0.0
        while self.ok:
            scaled[np.diag_indices(len(scaled))] = 1.0 + ridge
            try:
                self._factor = sl.cho_factor(scaled, lower=True, check_finite=False)
                return
            except np.linalg.LinAlgError:
                ridge = max(1e-15, 10.0 * ridge)
                self.ok = ridge < 1e-3

    def solve(self, b: Array) -> Array:
        """The solution of H x = b."""
        x = sl.cho_solve(self._factor, self._scale * b, check_finite=False)
        out: Array = self._scale * x
        return out
