"""Dual points of losses with one score per row, optimized by coordinate ascent: for every loss that
declares :class:`maxmargin.losses.DualTerms`.

See :mod:`maxmargin.compiled.row_dual` for the mathematics.

References:

- C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi and S. Sundararajan, "A dual coordinate descent method
  for large-scale linear SVM", ICML 2008: algorithm 1, https://doi.org/10.1145/1390156.1390208
- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm
  1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.compiled import row_blocks, row_dual
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale, UpperBound
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.dual_sums import DualSums
from maxmargin.duals.proofs import proved_multiple, scale_of
from maxmargin.duals.rows import Rows, epochs_per_call, same_shape
from maxmargin.duals.terms import score_terms
from maxmargin.losses.dual_terms import DualTerms


class BinaryCoordinates(DualSums):
    """Losses of one score; see :class:`maxmargin.core.RowDuals`.

    ``regularizer`` may constrain weights to be nonnegative or above a floor.

    ``weights``: an array to update instead of a private one, if these are some of many rows. Then only
    :meth:`adopt`, :meth:`improve` and their results are meaningful. With a finite ``slack`` even the first
    epoch may shrink rows.
    """

    n_steps = 1

    def __init__(
        self,
        rows: Rows,
        C: float,
        regularizer: SquaredNorm | None = None,
        *,
        weights: Array | None = None,
        slack: float = np.inf,
    ) -> None:
        design, n = rows.design, rows.design.shape[0]
        self.rows, self.C = rows, C
        self.n_examples = rows.n
        self._norm, self._floor = _floors(regularizer, rows.dim)
        self._u: Array = np.zeros(rows.dim) if weights is None else weights
        self._terms = score_terms(rows)
        self._kind, self._steep, self._curvature = compiled_terms(self._terms)
        margin = self._terms.margin
        self._common = float(margin) if np.ndim(margin) == 0 else 0.0
        self._margins: Array | None = None if np.ndim(margin) == 0 else np.asarray(margin)
        self._state: Array = np.zeros((n, 4))
        self._linear, self._curved = 0.0, 0.0  # the two sums of row_dual.signed
        self._epoch: Any
        self._data: tuple[Any, ...]
        if isinstance(design, CSRDesign):
            self._epoch = row_dual.csr_epoch
            self._data = (design.indptr, design.indices, design.data)
        else:
            assert isinstance(design, DenseDesign)
            self._epoch, self._data = row_dual.dense_epoch, (design.X,)
        self._fill_state()
        self._members: IntArray = rows.indices()
        squares = self._state[self._members, row_dual.SQUARE]
        self.easy_C = 1.0 / max(float(squares.sum()) / max(1, len(squares)), 1e-300)
        self._start(slack)

    def _fill_state(self) -> None:
        """Set what all rows have."""
        self._fill(0, len(self._state))

    def _fill(self, lo: int, hi: int) -> None:
        """Labels, caps and squared norms of some rows."""
        design, part = self.rows.design, self._state[lo:hi]
        part[:, row_dual.LABEL] = self._terms.labels[lo:hi]
        part[:, row_dual.CAP] = self._steep * self.C * self.rows.weight[lo:hi]
        if isinstance(design, CSRDesign):
            starts = design.indptr[lo : hi + 1]
            row_dual.csr_squares(starts, design.data, self.rows.intercept, part)
        else:
            assert isinstance(design, DenseDesign)
            row_dual.dense_squares(design.X[lo:hi], self.rows.intercept, part)

    def _start(self, slack: float = np.inf) -> None:
        """Make all rows active. No row is shrunk until an epoch has measured the size of violations."""
        self._active = self._members.copy()
        self.n_active = len(self._active)
        self.slack = slack
        self._scores: Array | None = None  # at the current w, if known

    @property
    def active(self) -> IntArray:
        """Indices of the rows the next step visits."""
        return self._active[: self.n_active]

    def adopt(self, multipliers: Array) -> None:
        """Set multipliers that the weights already contain."""
        self.multipliers[:] = multipliers

    @property
    def multipliers(self) -> Array:
        """One per row."""
        return self._state[:, row_dual.ALPHA]

    @property
    def n_support(self) -> int:
        """Number of rows with a nonzero multiplier."""
        return int(row_dual.count_support(self._state))

    def improve(self, seed: int, epochs: int | None = None) -> SweepStats:
        """Run one epoch over the active rows, or a few if the call would take longer than the epoch."""
        visited, gap, self._scores = 0, 0.0, None
        for k in range(epochs or epochs_per_call(self.rows.work(self.n_active))):
            count = self.n_active
            row_dual.shuffle(self._active, count, seed + k)
            self.n_active, stats = self._visit(self._active, count, self.slack)
            self.slack = float(stats[row_dual.TOTAL] / max(1.0, stats[row_dual.VIOLATED]))
            visited, gap = visited + count, float(stats[row_dual.GAP])
        return SweepStats(visited, gap, 0)

    def _visit(self, rows: IntArray, count: int, slack: float) -> tuple[int, Array]:
        """Visit rows one after the other; how many stay active, which come first then, and statistics."""
        stats = np.zeros(5)
        kept = self.visit_rows(rows, count, slack, self._u, stats)
        self._linear += float(stats[row_dual.GAIN])
        self._curved += float(stats[row_dual.BEND])
        return kept, stats

    def visit_rows(
        self,
        rows: IntArray,
        count: int,
        slack: float,
        w: Array,
        stats: Array,
        damping: Array | None = None,
    ) -> int:
        """An epoch over the first ``count`` of these rows, which changes their multipliers and ``w``; see
        :func:`maxmargin.compiled.row_dual.csr_epoch`. Returns how many stay active."""
        scratch = (None, None) if damping is None else (np.empty_like(rows), np.empty(count))
        kept: int = self._epoch(
            *self._data, self.rows.intercept, self._kind, self._curvature, self._common,
            self._margins, slack, rows, count, self._state, w, self._floor, stats, damping, *scratch,
        )  # fmt: skip
        return kept

    def shorten(self, rows: IntArray, before: Array, t: float) -> Array:
        """Reduce the changes of the multipliers of these rows to ``t`` times what they are; the changes of
        the two sums that remain."""
        sums = np.zeros(2)
        row_blocks.shorten(
            rows, before, len(rows), t, self._state, self._kind, self._curvature, self._common,
            self._margins, sums,
        )  # fmt: skip
        return sums

    def check(self, scores: Array) -> None:
        """Reselect the active rows, given exact scores."""
        self._choose(scores if self.rows.offset is None else scores - self.rows.offset)

    def _choose(self, scores: Array) -> None:
        self._scores = scores
        self.n_active = row_dual.choose_active(
            self._members, scores, self._kind, self._curvature, self._common, self._margins,
            self.slack, self._state, self._active,
        )  # fmt: skip

    def dual_value(self, C: float) -> float:
        """The dual value, recomputed from the multipliers."""
        coef = np.empty(len(self._state))
        self._linear, self._curved = row_dual.signed(
            self._state, self._kind, self._curvature, self._common, self._margins, coef
        )
        self._u[:] = self._accumulate(coef)
        return self.dual_estimate(C)

    def _accumulate(self, coef: Array) -> Array:
        """X'coef, including the constant feature."""
        return self.rows.accumulate(coef)

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        lengths = np.sqrt(self._state[:, row_dual.SQUARE])
        alpha, norm, least = self.multipliers, self._norm, attained.negligible
        return proved_multiple(self.rows, C, self.C, norm, alpha, lengths, least, self._accumulate)

    def sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""
        lengths, alpha = np.sqrt(self._state[:, row_dual.SQUARE]), self.multipliers
        return scale_of(self.rows, alpha, alpha, self._curved, lengths)

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers."""
        self.multipliers[:] = self._terms.into_box(self.C * self.rows.weight[:], multipliers)
        self.dual_value(self.C)
        self._start()

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        return {"multipliers": np.ascontiguousarray(self.multipliers)}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`; the active rows are selected again."""
        self.load(same_shape(state["multipliers"], self.multipliers))

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C."""
        factor = C / self.C
        weight = self.rows.weight[:]
        if self._terms.below is None:
            row_dual.rescale_rows(self._state, weight, self._steep * C, factor, self._kind)
        else:
            self._state[:, row_dual.CAP] = self._steep * C * weight
            self.multipliers[:] = self._terms.into_box(C * weight, factor * self.multipliers)
        self.C = C
        # all sums are homogeneous in (alpha, C); the next exact value removes the rounding errors
        self._u *= factor
        self._linear *= factor
        self._curved *= factor
        if self._scores is None or self._norm.floor is not None:
            self._start()
        else:  # so are scores and violations: most rows stay shrunk
            self.slack *= factor
            self._choose(factor * self._scores)


def compiled_terms(terms: DualTerms) -> tuple[int, float, float]:
    """The kind for compiled loops, caps in units of C times a weight, and curvatures in units of 1 / cap, or
    the lower bounds of dual variables in units of the cap if these are not its negative."""
    kind = row_dual.CAPPED if terms.capped else 0
    kind |= row_dual.CURVED if terms.curvature > 0.0 else 0
    kind |= row_dual.TWO_SIDED if terms.two_sided else 0
    steep = float(terms.steepest) if terms.capped else 1.0
    return kind, steep, float(terms.curvature) * steep if terms.below is None else terms.skew


def _floors(regularizer: SquaredNorm | None, dim: int) -> tuple[SquaredNorm, Array | None]:
    """The lower bounds of all weights, minus infinity for most; None if there are none."""
    norm = regularizer or SquaredNorm()
    if not len(norm.nonnegative):
        return norm, None
    floor = np.full(dim, -np.inf)
    floor[norm.nonnegative] = norm.floors
    return norm, floor
