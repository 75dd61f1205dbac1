"""Newton steps for smooth losses of several scores on few dense rows, many in one compiled call.

For few features or classes, second derivatives and their Cholesky factors cost less than the many steps of a
quasi-Newton method, most of all at a large C: the squared hinge loss one-vs-rest has a matrix for each class,
the multinomial logistic loss one for all. Steps over more rows and features than allowed here cost more than
they save.

The first step of the squared hinge loss, from zero, has the same matrix for all classes if samples have the
same weight in all of them, and is a product of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.compiled import small_steps
from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.gram import FEW_PRODUCTS, Factor, SmallProblem
from maxmargin.duals.rows import Rows
from maxmargin.losses.column_terms import ColumnTerms, SoftmaxTerms, SquaredHingeTerms

#: multiplications for the matrices of a step up to which steps are exact: for one class, and for all
MOST_OF_A_CLASS, MOST_OF_ALL = 2**24, 2**19
#: steps in one call, and trials of a line search
STEPS, SEARCHES = 50, 60


def pays(rows: Rows, terms: ColumnTerms) -> bool:
    """Whether exact steps are the faster way."""
    H, K = rows.dim // rows.n_columns, rows.n_columns
    if isinstance(terms, SquaredHingeTerms):
        return (rows.n + H) * H * H <= MOST_OF_A_CLASS
    return isinstance(terms, SoftmaxTerms) and (rows.n + K * H) * (K * H) ** 2 <= MOST_OF_ALL


class ExactSteps:
    """The rows of a problem as the compiled steps take them. ``penalty`` has a row for each score."""

    def __init__(self, rows: Rows, terms: ColumnTerms, penalty: Array, design: Any) -> None:
        self._terms, self._penalty, self._K = terms, penalty, rows.n_columns
        parts = [np.arange(lo, hi) for lo, hi in rows.ranges]
        here: IntArray = parts[0] if len(parts) == 1 else np.concatenate(parts)
        d = design.shape[1]
        X = np.empty((len(here), penalty.shape[1]))
        X[:, :d] = design[here] if len(here) < len(design) else design
        X[:, d:] = rows.intercept
        y, self._weight = np.asarray(rows.y[:])[here], np.asarray(rows.weight[:])[here]
        self._y = y.astype(np.int64) if y.dtype.kind in "iu" else y
        self._offset: Array | float = 0.0
        if rows.offset is not None:
            self._offset = np.ascontiguousarray(rows.offset[here].reshape(len(here), -1).T)
        squared = isinstance(terms, SquaredHingeTerms)
        vectors = small_steps.SQUARED_VECTORS if squared else small_steps.SOFTMAX_VECTORS
        self._small = SmallProblem(
            X, *vectors, columns=penalty.shape[1] if squared else penalty.size
        )

    def take(self, W: Array, C: float, enough: float) -> None:
        """Replace the weights W by those of a point whose relative gap is about ``enough``."""
        if isinstance(self._terms, SquaredHingeTerms):
            self._squared(self._terms, W, C, enough)
        else:
            self._softmax(W, C, enough)

    def _squared(self, terms: SquaredHingeTerms, W: Array, C: float, enough: float) -> None:
        X = self._small.rows[0]
        here = np.arange(len(X))
        sign = np.full((self._K, len(X)), -1.0)
        if terms.classes:
            sign[self._y, here] = 1.0
        else:
            sign[0] = self._y
        c = terms.weights(self._y, C * self._weight, self._K)
        whole = self._whole(terms, C * self._weight)
        if whole is not None and not W.any():
            H = whole.copy()
            H.flat[:: len(H) + 1] += self._penalty[0]
            factor = Factor(H)
            if factor.ok:  # the loss is at most what it were if all margins were violated
                violated = 2.0 * c * (sign * terms.margin - self._offset)
                W[:] = factor.solve((violated @ X).T).T
        m = sign * (W @ X.T + self._offset) - terms.margin
        point = (self._penalty, SEARCHES, sign, m, c, W)
        known = small_steps.UNKNOWN if whole is None else whole
        fixed = *self._small.rows, known
        small_steps.squared_steps(STEPS, enough, *fixed, *point, *self._small.memory)

    def _whole(self, terms: SquaredHingeTerms, c: Array) -> Array | None:
        """The second derivatives of the loss if all margins are violated, or None if they differ between
        classes or cost less than a call."""
        X = self._small.rows[0]
        alike = terms.factors is None and (self._penalty == self._penalty[0]).all()
        if not alike or self._K == 1 or X.size * X.shape[1] <= FEW_PRODUCTS:
            return None
        H: Array = X.T @ (2.0 * c[:, None] * X)
        return H

    def _softmax(self, W: Array, C: float, enough: float) -> None:
        X = self._small.rows[0]
        s = np.ascontiguousarray(W @ X.T + self._offset)
        p, ds, trial = np.empty((3, *s.shape))
        point = (self._penalty, self._y, C * self._weight, s, W, p, ds, trial)
        small_steps.softmax_steps(STEPS, enough, *self._small.rows, *point, *self._small.memory)
        W -= W.mean(axis=0)
