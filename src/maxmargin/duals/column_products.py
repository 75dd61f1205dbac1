"""Products with the rows of a problem whose loss has several scores per row.

w is a matrix W with one column per score, flattened by rows. Margins are the scores X W themselves, and
multipliers have the same shape. The second derivative of a row is diag(theta) - theta theta' / c with
c = sum_k theta_k, which is also

    sum over k < l of  theta_k theta_l / c  (e_k - e_l) (e_k - e_l)'

This form has no cancellation if one class has nearly all of theta, so Gram matrices use it.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.gram import BLOCK, RowProducts, SmallProblem, squared_rows
from maxmargin.duals.rows import Rows


class ColumnProducts:
    """As :class:`maxmargin.duals.gram.RowProducts`, for several scores per row."""

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

    def small(self, vectors: tuple[int, int]) -> SmallProblem | None:
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
