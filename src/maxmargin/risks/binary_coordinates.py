"""Dual points of the hinge and the squared hinge, improved by epochs of coordinate ascent.

The mathematics is at the top of :mod:`maxmargin.compiled.row_dual`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.compiled import row_dual
from maxmargin.core.cut import Cut
from maxmargin.core.protocols import SweepStats
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.losses import Hinge
from maxmargin.risks.rows import Rows, epochs_per_call


#: times per epoch that lanes are brought together
MERGES = 16


class BinaryCoordinates:
    """See :class:`maxmargin.core.RowDuals`."""

    def __init__(self, rows: Rows, C: float) -> None:
        design, n = rows.design, rows.design.shape[0]
        self.rows, self.C = rows, C
        self.n_examples = rows.n
        self.w: Array = np.zeros(rows.dim)
        self._squared = not isinstance(rows.loss, Hinge)
        self._state: Array = np.zeros((n, 4))
        self._state[:, row_dual.LABEL] = rows.y
        self._state[:, row_dual.CAP] = C * rows.weight
        self._linear, self._curved = 0.0, 0.0  # sums of alpha and of q alpha^2 / 2
        self._epoch: Any
        self._data: tuple[Any, ...]
        if isinstance(design, CSRDesign):
            self._epoch = row_dual.csr_epoch
            self._data = (design.indptr, design.indices, design.data)
            row_dual.csr_squares(design.indptr, design.data, rows.intercept, self._state)
        else:
            assert isinstance(design, DenseDesign)
            self._epoch, self._data = row_dual.dense_epoch, (design.X,)
            row_dual.dense_squares(design.X, rows.intercept, self._state)
        self._members: IntArray = rows.indices()
        self._lanes = 1
        self.scale = 1.0 / max(float(self._state[self._members, row_dual.SQUARE].mean()), 1e-300)
        self._start()

    def _start(self) -> None:
        """All rows are active, and none is dropped until an epoch has shown what a violation is."""
        self._active = self._members.copy()
        self.n_active = len(self._active)
        self._slack = np.inf

    @property
    def multipliers(self) -> Array:
        """One per row."""
        return self._state[:, row_dual.ALPHA]

    @property
    def n_support(self) -> int:
        """Rows with a positive multiplier."""
        return int(np.count_nonzero(self.multipliers))

    def use_lanes(self, n_lanes: int, run: Callable[[list[Callable[[], Any]]], list[Any]]) -> None:
        """Visit rows in this many lanes at a time, which ``run`` may spread over threads."""
        self._lanes, self._run = n_lanes, run

    def improve(self, seed: int) -> SweepStats:
        """One epoch over the active rows, or a few where one would be over before it is called."""
        visited, gap = 0, 0.0
        work = self.rows.work(self.n_active)
        # what is copied and merged must be little beside what is visited
        in_lanes = self._lanes > 1 and work > 8 * MERGES * self._lanes * len(self.w)
        for k in range(epochs_per_call(work)):
            count = self.n_active
            row_dual.shuffle(self._active, count, seed + k)
            stats = self._in_lanes(count) if in_lanes else self._alone(count)
            self._curved += float(stats[row_dual.BEND])
            self._slack = float(stats[row_dual.TOTAL] / max(1.0, stats[row_dual.VIOLATED]))
            visited, gap = visited + count, float(stats[row_dual.GAP])
        return SweepStats(visited, gap, 0)

    def _visit(self, rows: IntArray, w: Array, stats: Array) -> int:
        return int(
            self._epoch(
                *self._data, self.rows.intercept, self._squared, self._slack, rows, len(rows),
                self._state, w, stats,
            )
        )  # fmt: skip

    def _alone(self, count: int) -> Array:
        stats = np.zeros(5)
        self.n_active = self._visit(self._active[:count], self.w, stats)
        self._linear += float(stats[row_dual.GAIN])
        return stats

    def _in_lanes(self, count: int) -> Array:
        """The epoch in portions; in each the lanes visit rows of their own from the same w, and what
        they did is merged in the best proportion: with w + sum_k t_k d_k, 0 <= t_k <= 1, D is a
        quadratic in t and its maximiser keeps every multiplier in the box."""
        bounds = np.linspace(0, count, MERGES * self._lanes + 1).astype(np.int64)
        kept, total = 0, np.zeros(5)
        for portion in range(MERGES):
            edges = bounds[portion * self._lanes : (portion + 1) * self._lanes + 1]
            lanes = [_Lane(self, self._active[lo:hi]) for lo, hi in pairwise(edges.tolist())]
            self._run([lane.visit for lane in lanes])
            self._merge(lanes)
            for lane in lanes:  # all lanes of earlier portions are in front of this one's rows
                self._active[kept : kept + lane.left] = lane.rows[: lane.left]
                kept += lane.left
                total += lane.stats
        self.n_active = kept
        return total

    def _merge(self, lanes: list[_Lane]) -> None:
        moves = np.array([lane.w - self.w for lane in lanes])
        gains = np.array([lane.stats[row_dual.GAIN] for lane in lanes])
        bends = np.array([lane.stats[row_dual.BEND] for lane in lanes])
        gram = moves @ moves.T
        slope = gains - bends - moves @ self.w
        t = np.ones(len(lanes))
        for _ in range(20):  # coordinate ascent in the unit box, from the full steps
            for k in range(len(t)):
                if gram[k, k] > 0.0:
                    t[k] = np.clip(t[k] + (slope[k] - gram[k] @ t) / gram[k, k], 0.0, 1.0)
        for step, lane in zip(t, lanes, strict=True):
            lane.scale(step)
        self.w += t @ moves
        self._linear += float(t @ gains)

    def check(self, scores: Array) -> None:
        """Choose the active rows from exact scores."""
        self.n_active = row_dual.choose_active(
            self._members, scores, self._squared, self._slack, self._state, self._active
        )

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C, at the w kept by the epochs."""
        curved = self._curved + 0.5 * float(self.w @ self.w)
        # the best multiple; with the squared hinge and a larger C its curvature is taken too large: a bound
        t = 1.0 if C == self.C else C / self.C
        if C != self.C and curved > 0.0:
            t = min(t, 0.5 * self._linear / curved)
        if self._squared and C < self.C:
            curved *= self.C / C
        return t * self._linear - t * t * curved

    def dual_value(self, C: float) -> float:
        """The dual value, recomputed from the multipliers."""
        alpha = self.multipliers
        self.w[:] = self.rows.accumulate(alpha * self._state[:, row_dual.LABEL])
        used = np.flatnonzero(alpha)
        self._linear = float(alpha[used].sum())
        if self._squared:
            self._curved = float((alpha[used] ** 2 / self._state[used, row_dual.CAP]).sum()) / 4.0
        return self.dual_estimate(C)

    def aggregate(self) -> Cut:
        """The multipliers as one cut."""
        return Cut((self._linear - self._curved) / self.C, self.w / -self.C)

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers."""
        caps = self._state[:, row_dual.CAP]
        top = np.where(caps > 0.0, np.inf, 0.0) if self._squared else caps
        self.multipliers[:] = np.clip(multipliers, 0.0, top)
        self.dual_value(self.C)
        self._start()

    def start_at(self, w: Array, gap: float) -> None:
        """A point says nothing about multipliers: the start stays as it is."""

    def rescale(self, C: float) -> None:
        """Carry over to another C."""
        factor, self.C = C / self.C, C
        self._state[:, row_dual.CAP] = C * self.rows.weight
        alpha = self.multipliers
        alpha *= factor
        if not self._squared:  # rounding must not leave the box
            np.minimum(alpha, self._state[:, row_dual.CAP], out=alpha)
        # all sums are of the same degree in (alpha, C); what rounding adds goes with the next exact value
        self.w *= factor
        self._linear *= factor
        self._curved *= factor
        self._start()


class _Lane:
    """Some rows visited from a w of its own."""

    def __init__(self, duals: BinaryCoordinates, rows: IntArray) -> None:
        self._duals, self.rows = duals, rows
        self.w: Array = duals.w
        self.left = 0
        self.stats: Array = np.zeros(5)

    def visit(self) -> None:
        """The part that may run in a thread: writes to its own rows' state only."""
        self._order = self.rows.copy()
        self._before = self._duals.multipliers[self._order]
        self.w = self._duals.w.copy()
        self.left = self._duals._visit(self.rows, self.w, self.stats)

    def scale(self, t: float) -> None:
        """Take only this part of the moves."""
        if t < 1.0:
            alpha = self._duals.multipliers
            moved = alpha[self._order] - self._before
            alpha[self._order] = self._before + t * moved
