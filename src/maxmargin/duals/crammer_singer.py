"""Dual points of the Crammer-Singer loss, optimized by coordinate ascent.

See :mod:`maxmargin.compiled.class_dual` for the mathematics.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.compiled import class_dual
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.proofs import proved_multiple, scale_of
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.duals.terms import contribution, row_terms
from maxmargin.losses.dual_terms import ClassTerms

#: number of neighboring rows visited together while w has at most SMALL entries and most rows are active
BLOCK, SMALL = 4, 2**17
#: largest number of epochs in one call, the entries after which it ends, and the visits of all rows after
#: which the first one does
EPOCHS, WORK, FIRST = 1000, 4e6, 4.0


def padded(height: int, columns: int) -> Array:
    """Zero weights with padded columns, aligned to a cache line."""
    width = -(-columns // class_dual.LANES) * class_dual.LANES
    room: Array = np.zeros(height * width + 8)
    skip = -(room.ctypes.data // 8) % 8
    return room[skip : skip + height * width].reshape(-1, width)


class ClassCoordinates:
    """See :class:`maxmargin.core.RowDuals`.

    ``weights``: a :func:`padded` array to update instead of a private one; see
    :class:`maxmargin.duals.one_score.BinaryCoordinates`.
    """

    n_steps = 1
    #: estimated gap at which a step ends
    goal = 0.0

    def __init__(
        self,
        rows: Rows,
        C: float,
        regularizer: SquaredNorm | None = None,
        *,
        weights: Array | None = None,
        slack: float = np.inf,
    ) -> None:
        design, terms = rows.design, row_terms(rows)
        assert isinstance(terms, ClassTerms)
        cost = terms.cost
        n, d = design.shape
        if isinstance(design, CSRDesign):
            indptr, indices, data = design.indptr, design.indices, design.data
        else:
            assert isinstance(design, DenseDesign)
            indptr, indices, data = np.arange(n + 1) * d, None, design.X.reshape(-1)
        self.rows, self.C = rows, C
        self.n_examples = rows.n
        square = np.empty(n)
        class_dual.squares(indptr, data, rows.intercept, square)
        y = np.array(rows.y, dtype=np.int64)  # writable: to Numba a read-only array is another type
        offset = None
        if rows.offset is not None:
            offset = rows.offset - rows.offset[np.arange(n), y][:, None]
        self._compiled = class_dual.ClassRows(
            indptr, indices, data, y, square, cost, rows.intercept, offset
        )
        self._caps: Array = C * rows.weight[:]
        self._members: IntArray = rows.indices()
        self._alpha: Array = np.zeros((n, len(cost)))
        # the violator of an all-zero row is its most expensive class for every w: never visit it
        moves = square[self._members] > 0.0
        still = self._members[~moves]
        self._visited: IntArray = self._members[moves]
        self._still: IntArray = still
        demands = cost[y[still]] + (0.0 if offset is None else offset[still])
        self._costliest: IntArray = demands.argmax(axis=1)
        self._alpha[self._visited, y[self._visited]] = self._caps[self._visited]
        self._alpha[still, self._costliest] = self._caps[still]
        self.easy_C = 1.0 / max(float(square[self._members].mean()), 1e-300)
        self._block = BLOCK if rows.dim <= SMALL else 1
        # the weights of a class are neighbors if rows are dense, and those of a feature if they are sparse
        dense, K = indices is None, rows.n_columns
        self._W: Array = padded(K, d + 1) if dense else padded(d + 1, K)
        self._classes = np.tile(np.arange(K, dtype=np.int32), (n, 1)) if dense else None
        self._sizes = np.full(n, K, dtype=np.int32) if dense else None
        self._shared = weights
        self._stats: Array = np.zeros(class_dual.N_STATS)
        self._active: IntArray = np.empty_like(self._visited)
        self._offset = float(self._caps[still] @ demands.max(axis=1, initial=0.0))
        self._half_square = 0.0
        self._start(slack)

    def _start(self, slack: float = np.inf) -> None:
        """Make all rows active. No row is shrunk until an epoch has measured the size of violations."""
        stats = self._stats
        stats[:] = 0.0
        stats[class_dual.NEXT], stats[class_dual.LEAD] = 2.0, slack
        self._select(self._visited)
        stats[class_dual.FULL] = 1.0

    def _select(self, rows: IntArray) -> None:
        """Make these rows active, with all classes."""
        self._active[: len(rows)] = rows
        self._stats[class_dual.COUNT] = len(rows)
        if self._sizes is not None:
            self._sizes[:] = self.rows.n_columns

    @property
    def slack(self) -> float:
        """Mean violation of the last epoch."""
        return float(self._stats[class_dual.LEAD])

    @property
    def _by_feature(self) -> Array:
        """The weights with one row per feature."""
        return self._W if self._sizes is None else self._W.T

    @property
    def w(self) -> Array:
        """The weights without their padding."""
        K = self.rows.n_columns
        return self._by_feature[: self.rows.dim // K, :K].ravel()

    @property
    def n_active(self) -> int:
        """Number of active rows."""
        return int(self._stats[class_dual.COUNT])

    @property
    def n_support(self) -> int:
        """Number of rows with a multiplier off the true class."""
        return int(class_dual.count_support(self._compiled, self._alpha, self._members))

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """Run epochs over the active rows: one, or many if they are short. They end when the estimated gap is
        at most :attr:`goal`."""
        stats, W = self._stats, self._by_feature
        first = (
            FIRST * self.rows.work(len(self._visited)) if stats[class_dual.EPOCH] == 0.0 else WORK
        )
        stats[class_dual.GOAL], stats[class_dual.LIMIT] = self.goal, min(first, WORK)
        if self._shared is not None:
            W[: len(self._shared), : self.rows.n_columns] = self._shared[:, : self.rows.n_columns]
        class_dual.ascend(
            self._compiled, self._caps, self._alpha, self._W, self._visited, self._active,
            self._classes, self._sizes, self._block, seed, epochs or EPOCHS, stats,
        )  # fmt: skip
        if self._shared is not None:
            self._shared[:, : self.rows.n_columns] = W[: len(self._shared), : self.rows.n_columns]
        self._offset += float(stats[class_dual.OFFSET])
        return SweepStats(int(stats[class_dual.VISITS]), float(stats[class_dual.GAP]), 0)

    def check(self, scores: Array) -> None:
        """Reselect the active rows, given exact scores."""
        active = np.empty_like(self._visited)
        left = class_dual.choose_active(
            self._compiled, self._alpha, scores, self._visited, self.slack, active
        )
        self._select(active[:left])

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C, at the w that the epochs maintain."""
        # Sum again: the differences reported by epochs cancel, and a multiple amplifies what remains.
        self._half_square = 0.5 * float(np.vdot(self._W, self._W))
        t = 1.0
        if C != self.C:  # find the best multiple
            t = C / self.C
            if self._half_square > 0.0:
                t = min(t, max(0.0, 0.5 * self._offset / self._half_square))
        return t * self._offset - t * t * self._half_square

    def dual_value(self, C: float) -> float:
        """The dual value, recomputed from the multipliers."""
        self._W[:] = 0.0
        self._offset = float(
            class_dual.rebuild(self._compiled, self._alpha, self._members, self._W)
        )
        self._half_square = 0.5 * float(np.vdot(self._W, self._W))
        return self.dual_estimate(C)

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        lengths = np.sqrt(self._compiled.square)
        return proved_multiple(
            self.rows, C, self.C, SquaredNorm(), self._alpha, lengths, attained.negligible
        )

    def aggregate(self) -> Cut:
        """The multipliers as one cut."""
        coef = contribution(self.rows, self.C, self._alpha)[0]
        sizes = scale_of(self.rows, self._alpha, coef, 0.0, np.sqrt(self._compiled.square))
        return Cut(self._offset / self.C, self.w / -self.C, sizes.of_cut() / self.C)

    @property
    def multipliers(self) -> Array:
        """One per row and class, including the true class."""
        return self._alpha

    @property
    def active(self) -> IntArray:
        """Indices of the rows the next step visits."""
        return self._active[: self.n_active]

    def adopt(self, multipliers: Array) -> None:
        """Set multipliers that the weights already contain. Those off the true class are reduced if they
        exceed the cap; the true class gets the remainder."""
        rows, alpha = self._visited, self._alpha
        y, caps = self._compiled.y[rows], self._caps[rows]
        here = np.arange(len(rows))
        new = np.maximum(multipliers[rows], 0.0)
        new[here, y] = 0.0
        total = new.sum(axis=1)
        new *= np.minimum(1.0, caps / np.where(total > 0.0, total, 1.0))[:, None]
        new[here, y] = np.maximum(0.0, caps - new.sum(axis=1))
        alpha[:] = 0.0
        alpha[rows] = new
        alpha[self._still, self._costliest] = self._caps[self._still]

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers."""
        self.adopt(multipliers)
        self.dual_value(self.C)
        self._start()

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        return {"multipliers": self.multipliers}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`; the active rows are selected again."""
        self.load(same_shape(state["multipliers"], self.multipliers))

    def start_at(self, w: Array, gap: float) -> None:
        """Do nothing: a point does not determine multipliers."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C."""
        factor, self.C = C / self.C, C
        self._caps[:] = C * self.rows.weight[:]
        self._alpha *= factor
        self._W *= factor
        self._offset *= factor
        self._half_square *= factor * factor
        self._start()
