"""The losses of rows as cutting planes: all linear terms of each row's loss, as a block of its own.

    one-sided        0,  m - y <x, w>
    two-sided        0,  y - <x, w> - m,  <x, w> - y - m
    several scores   cost[y, k] + s_k - s_y  for all classes k, which is 0 for the true one

The planes of a row of weight s are multiplied by s, unless the loss is squared: then s is the curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import DenseDesign
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import row_terms
from maxmargin.losses.dual_terms import ClassTerms, DualTerms, RowTerms


@dataclass(frozen=True, slots=True, eq=False)
class RowPlanes:
    """The planes of all rows with nonzero weight, as :func:`maxmargin.core.dense_qp.solve_dense` takes them.

    ``factor`` converts the multiplier of a plane to that of its ``row`` and, if rows have several scores,
    its ``column``; it is zero for zero planes.
    """

    planes: Array
    offsets: Array
    block: IntArray
    row: IntArray
    column: IntArray | None
    factor: Array
    squared: Array | None

    def multipliers(self, shape: tuple[int, ...], alpha: Array) -> Array:
        """The multipliers of the rows, given those of the planes."""
        out = np.zeros(shape)
        where = self.row if self.column is None else (self.row, self.column)
        np.add.at(out, where, self.factor * alpha)
        return out


def planes_per_row(terms: RowTerms | None) -> int:
    """The number of planes of a row; 0 if its loss is not of this form."""
    if isinstance(terms, ClassTerms):
        return len(terms.cost)
    if not isinstance(terms, DualTerms) or (terms.capped and terms.curvature > 0.0):
        return 0
    return 3 if terms.two_sided else 2


def row_planes(rows: Rows, cap: float) -> RowPlanes:
    """The planes. Weights are reduced to ``cap``, which limits the multipliers to C times ``cap``."""
    index, terms = rows.indices(), row_terms(rows)
    X, weight = _matrix(rows, index), np.asarray(rows.weight[:])[index]
    if isinstance(terms, ClassTerms):
        return _of_classes(terms, rows.offset, index, X, np.minimum(weight, cap))
    if not isinstance(terms, DualTerms):
        raise TypeError(f"{type(terms).__name__} have no planes of single rows.")
    return _of_scores(terms.shifted(rows.offset), index, X, weight, cap)


def _of_scores(terms: DualTerms, index: IntArray, X: Array, weight: Array, cap: float) -> RowPlanes:
    n, labels = len(index), terms.labels[index]
    margin = np.broadcast_to(terms.margin, terms.labels.shape)[index]
    signs, asked, factors = [labels], [margin], [np.ones(n)]
    if terms.two_sided:
        signs = factors = [np.ones(n), -np.ones(n)]
        asked = [labels - margin, -labels - margin]
    size = np.minimum(terms.steepest * weight, cap) if terms.capped else np.ones(n)
    planes = [np.zeros_like(X), *(-sign[:, None] * X for sign in signs)]
    count = len(planes)
    return RowPlanes(
        np.tile(size, count)[:, None] * np.concatenate(planes),
        np.tile(size, count) * np.concatenate([np.zeros(n), *asked]),
        np.tile(np.arange(n), count),
        np.tile(index, count),
        None,
        np.tile(size, count) * np.concatenate([np.zeros(n), *factors]),
        None if terms.capped else weight / terms.curvature,
    )


def _of_classes(
    terms: ClassTerms, offset: Array | None, index: IntArray, X: Array, weight: Array
) -> RowPlanes:
    n, K = len(index), len(terms.cost)
    y, here = terms.y[index], np.arange(n)
    demands = terms.cost[y]
    if offset is not None:
        demands = demands + offset[index] - offset[index, y][:, None]
    planes = np.zeros((n, K, X.shape[1], K))
    for k in range(K):
        planes[:, k, :, k] += X
        planes[here, k, :, y] -= X
    return RowPlanes(
        (weight[:, None, None, None] * planes).reshape(n * K, -1),
        (weight[:, None] * demands).ravel(),
        np.repeat(here, K),
        np.repeat(index, K),
        np.tile(np.arange(K), n),
        np.repeat(weight, K),
        None,
    )


def _matrix(rows: Rows, index: IntArray) -> Array:
    """These rows as a dense matrix, including the constant feature."""
    design: Any = rows.design
    some = design.take(index)
    if isinstance(some, DenseDesign):
        X = some.X.astype(np.float64)
    else:
        parts = (some.data.astype(np.float64), some.indices, some.indptr)
        X = sp.csr_matrix(parts, shape=some.shape).toarray()
    if rows.intercept != 0.0:
        X = np.column_stack([X, np.full(len(X), rows.intercept)])
    return X
