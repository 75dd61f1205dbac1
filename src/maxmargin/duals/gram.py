"""Products with the signed rows of a problem, for methods that need Z' diag(theta) Z.

Z has one row ``y_i x_i`` for every row of the problem with nonzero weight; see ``compiled/gram``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from maxmargin.compiled import gram
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.rows import Rows

#: number of rows whose entries are squared at a time
SQUARED = 4096
#: number of rows of a dense block whose Gram matrix BLAS computes at once
BLOCK = 512
#: multiplications for a Gram matrix and its factor up to which a step is faster in one compiled call than
#: composed of calls, most of them to BLAS
FEW_PRODUCTS = 125_000
#: measured relative costs: a scattered multiply-add, an entry written to a block, a multiply-add in BLAS
SCATTER, WRITE, BLAS = 0.8, 2.0, 0.034


class RowProducts:
    """Margins, sums and Gram matrices of the rows with nonzero weight."""

    def __init__(self, rows: Rows, y: Array) -> None:
        design, self._rows = rows.design, rows
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

    def of_scores(self, scores: Array) -> Array:
        """Z w from the scores X w of all rows."""
        out: Array = self.y * scores[self.index]
        return out

    def spread(self, multipliers: Array) -> Array:
        """One number per row of Z, from the multipliers of all rows."""
        out: Array = multipliers[self.index]
        return out

    def gather(self, alpha: Array) -> Array:
        """The multipliers of all rows, from those of the rows of Z."""
        out = np.zeros(self._n_stored)
        out[self.index] = alpha
        return out

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

    def small(self, vectors: tuple[int, ...]) -> SmallProblem | None:
        """What compiled steps with so many vectors need, if Z is small and dense."""
        return SmallProblem(self.dense(), *vectors) if self.is_small(1) else None

    def is_small(self, sides: int) -> bool:
        """Whether steps over so many copies of Z should be compiled as a whole."""
        products = (sides * self.n + self.dim) * self.dim**2
        return len(self._data) == 1 and products <= FEW_PRODUCTS

    def dense(self) -> Array:
        """Z itself, of a dense matrix."""
        X, Z = self._data[0], np.empty((self.n, self.dim))
        Z[:, : X.shape[1]] = X[self.index]
        Z[:, X.shape[1] :] = self._constant
        Z *= self.y[:, None]
        return Z

    def squares(self, theta: Array) -> Array:
        """The diagonal of Z' diag(theta) Z."""
        return squared_rows(self._rows, self.gather(theta))

    def block(self, theta: Array, start: int, out: Array) -> tuple[int, int]:
        """Fill ``out`` with the rows from ``start`` on, times the roots of their theta; rows with theta = 0
        are left out. Returns their number, and where to continue."""
        new, end = self._block(*self._data, self._constant, theta, self.index, start, out)
        return int(new), int(end)

    def mean_square(self) -> float:
        """The mean of |x|^2 over all stored rows."""
        values = self._data[-1].ravel()
        squares = float(np.einsum("i,i->", values, values, dtype=np.float64))
        return squares / max(1, self._n_stored) + self._constant**2

    def gram(self, theta: Array) -> tuple[Array, int]:
        """Z' diag(theta) Z for theta >= 0, and the number of rows with nonzero theta."""
        if self._scatter:
            pairs, squares = np.zeros((self.dim, self.dim)), np.zeros(self.dim)
            count = gram.csr_outer(*self._data, self._constant, theta, self.index, pairs, squares)
            pairs += pairs.T
            pairs.flat[:: self.dim + 1] += squares
            return pairs, int(count)
        lower = np.zeros((self.dim, self.dim), order="F")
        block = np.empty((BLOCK, self.dim))
        count = start = 0
        while start < self.n:
            new, start = self._block(*self._data, self._constant, theta, self.index, start, block)
            if new:
                count += new
                lower = dsyrk(1.0, block.T, beta=1.0, c=lower, lower=True, overwrite_c=True)
        # BLAS left the upper triangle zero; the diagonal must not be doubled
        diagonal = lower.diagonal().copy()
        whole: Array = lower + lower.T
        whole.flat[:: self.dim + 1] = diagonal
        return whole, count


class BothSides:
    """The same for a Z that holds every row twice, as x and as -x: the two sides of an epsilon-insensitive
    loss.

    A row's multiplier is that of x minus that of -x.
    """

    def __init__(self, rows: Rows) -> None:
        self._one = RowProducts(rows, np.ones(rows.design.shape[0]))
        self.index: IntArray = np.tile(self._one.index, 2)
        self.y: Array = np.concatenate([self._one.y, -self._one.y])
        self.n, self.dim = 2 * self._one.n, self._one.dim
        self.mean_square = self._one.mean_square

    def of_scores(self, scores: Array) -> Array:
        """See :class:`RowProducts`."""
        return self._signed(self._one.of_scores(scores))

    def spread(self, multipliers: Array) -> Array:
        """See :class:`RowProducts`."""
        return np.maximum(0.0, self._signed(self._one.spread(multipliers)))

    def gather(self, alpha: Array) -> Array:
        """See :class:`RowProducts`."""
        return self._one.gather(alpha[: self._one.n] - alpha[self._one.n :])

    def margins(self, w: Array) -> Array:
        """See :class:`RowProducts`."""
        return self._signed(self._one.margins(w))

    def combine(self, coef: Array) -> Array:
        """See :class:`RowProducts`."""
        return self._one.combine(coef[: self._one.n] - coef[self._one.n :])

    def small(self, vectors: tuple[int, ...]) -> SmallProblem | None:
        """See :class:`RowProducts`."""
        if not self._one.is_small(2):
            return None
        Z = self._one.dense()
        return SmallProblem(np.concatenate([Z, -Z]), *vectors)

    def squares(self, theta: Array) -> Array:
        """See :class:`RowProducts`."""
        return self._one.squares(theta[: self._one.n] + theta[self._one.n :])

    def gram(self, theta: Array) -> tuple[Array, int]:
        """See :class:`RowProducts`."""
        return self._one.gram(theta[: self._one.n] + theta[self._one.n :])

    def _signed(self, values: Array) -> Array:
        return np.concatenate([values, -values])


class ColumnProducts:
    """As :class:`RowProducts`, for several scores per row.

    w is a matrix W with one column per score, flattened by rows. Margins are the scores X W themselves, and
    multipliers have the same shape. The second derivative of a row is diag(theta) - theta theta' / c with
    c = sum_k theta_k, which is also

        sum over k < l of  theta_k theta_l / c  (e_k - e_l) (e_k - e_l)'

    This form has no cancellation if one class has nearly all of theta, so Gram matrices use it.
    """

    def __init__(self, rows: Rows) -> None:
        self._one = RowProducts(rows, np.ones(rows.design.shape[0]))
        self._rows, self._columns = rows, rows.n_columns
        self.index: IntArray = self._one.index
        self.y: Array = self._one.y
        self.n, self.dim = self._one.n, rows.dim
        self._all = self.n == rows.design.shape[0]
        self.mean_square = self._one.mean_square

    def of_scores(self, scores: Array) -> Array:
        """The scores of the rows with nonzero weight."""
        out: Array = scores[self.index]
        return out

    def spread(self, multipliers: Array) -> Array:
        """Those of the rows with nonzero weight."""
        out: Array = multipliers[self.index]
        return out

    def gather(self, alpha: Array) -> Array:
        """The multipliers of all rows."""
        out = np.zeros((self._rows.design.shape[0], self._columns))
        out[self.index] = alpha
        return out

    def margins(self, w: Array) -> Array:
        """X W."""
        design, W = self._rows.design, w.reshape(-1, self._columns)
        d = design.shape[1]
        inner = np.ascontiguousarray(W[:d])
        parts = [design.dot(inner, lo, hi) for lo, hi in self._rows.ranges]
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if self._rows.intercept != 0.0:
            scores += self._rows.intercept * W[d]
        if len(scores) == self.n:
            return scores
        here = np.concatenate([self._rows.weight[lo:hi] > 0.0 for lo, hi in self._rows.ranges])
        out: Array = scores[here]
        return out

    def combine(self, coef: Array) -> Array:
        """X' coef, flat."""
        return self._rows.accumulate(coef if self._all else self.gather(coef))

    def small(self, vectors: tuple[int, ...]) -> SmallProblem | None:
        """None: there are no compiled steps for several scores."""
        return None

    def squares(self, theta: Array) -> Array:
        """The diagonal of the second derivative with respect to W."""
        own = theta - theta * theta / theta.sum(axis=1, keepdims=True)
        return squared_rows(self._rows, own if self._all else self.gather(own))

    def gram(self, theta: Array) -> tuple[Array, int]:
        """The second derivative with respect to W, and the number of rows."""
        K, height = self._columns, self.dim // self._columns
        root = theta / np.sqrt(theta.sum(axis=1, keepdims=True))
        H = np.zeros((K, K, height, height))
        block, ones = np.empty((BLOCK, height)), np.ones(self.n)
        start = 0
        while start < self.n:
            first = start
            new, start = self._one.block(ones, start, block)
            X, p = block[:new], root[first:start]
            for k in range(K - 1):
                others = p[:, k + 1 :] * p[:, k : k + 1]
                many = (others[:, :, None] * X[:, None, :]).reshape(new, -1)
                H[k, k + 1 :] -= (X.T @ many).reshape(height, -1, height).swapaxes(0, 1)
        for k in range(K):
            H[k + 1 :, k] = H[k, k + 1 :].swapaxes(1, 2)
        for k in range(K):
            H[k, k] = -H[k].sum(axis=0)
        whole = np.ascontiguousarray(H.transpose(2, 0, 3, 1)).reshape(self.dim, self.dim)
        return whole, self.n


def squared_rows(rows: Rows, coef: Array) -> Array:
    """The sum of coef_i x_i^2, entry by entry, flat; one column per column of ``coef``."""
    design, d = rows.design, rows.design.shape[1]
    assert isinstance(design, CSRDesign | DenseDesign)
    out = np.zeros((rows.dim // rows.n_columns, *coef.shape[1:]))
    for first, last in rows.ranges:
        for lo in range(first, last, SQUARED):
            hi = min(last, lo + SQUARED)
            part = design.block(lo, hi)
            squared: DenseDesign | CSRDesign
            if isinstance(part, DenseDesign):
                squared = DenseDesign(np.square(part.X, dtype=np.float64))
            else:
                entries = np.square(part.data, dtype=np.float64)
                squared = CSRDesign.of(part.indptr, part.indices, entries, part.shape)
            squared.accumulate(coef[lo:hi], 0, hi - lo, out[:d])
            if rows.intercept != 0.0:
                out[d] += rows.intercept**2 * coef[lo:hi].sum(axis=0)
    return out.ravel()


class SmallProblem:
    """Z by rows and by columns, and memory for vectors with an entry per row and per column, for one or two
    square matrices, and for numbers of rows; see ``compiled/small_steps``.

    ``columns``: the number of weights of a step, if these are not one per column.
    """

    def __init__(
        self, Z: Array, by_row: int, by_column: int, squares: int = 1, columns: int | None = None
    ) -> None:
        n, d = Z.shape
        self.rows: tuple[Array, Array] = (Z, np.ascontiguousarray(Z.T))
        columns = columns or d
        lengths = [n] * by_row + [columns] * by_column
        held = [] if squares == 1 else [np.empty((d, d))]
        self.memory: tuple[Any, ...] = (
            *map(np.empty, lengths),
            *held,
            np.empty((columns, columns)),
            np.empty(n, np.int64),
        )


class Factor:
    """A Cholesky factorization of a matrix that may be numerically singular.

    LAPACK is called directly: SciPy's wrappers take longer than the factorization of a small matrix.
    """

    def __init__(self, H: Array) -> None:
        diagonal = np.diagonal(H)
        # scale to unit diagonal: columns may differ much in size (features that were not standardized)
        self._scale: Array = np.where(diagonal > 0.0, diagonal, 1.0) ** -0.5
        scaled = H * self._scale * self._scale[:, None]
        self.ok = bool(np.isfinite(scaled).all())
        ridge = 0.0
        while self.ok:
            scaled.flat[:: len(scaled) + 1] = 1.0 + ridge
            self._factor, failed = dpotrf(scaled, lower=1, clean=0)
            if not failed:
                return
            ridge = max(1e-15, 10.0 * ridge)
            self.ok = ridge < 1e-3

    def solve(self, b: Array) -> Array:
        """The solution of H x = b, of each column of b if there are several."""
        scale = self._scale if b.ndim == 1 else self._scale[:, None]
        x, _ = dpotrs(self._factor, scale * b, lower=1, overwrite_b=1)
        out: Array = scale * x
        return out
