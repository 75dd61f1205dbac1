"""Dual coordinate ascent over rows that are not in memory: Ramanan's algorithm 2, in cycles.

    maximize  D(alpha) = sum_i d_i(alpha_i) - 1/2 |w|^2,    w = sum_i coef_i(alpha_i) x_i

Memory holds w and a bounded number of rows, the cache; one multiplier per row (and class) is in memory or, if
there are millions, in a scratch file. Rows are read in pieces. One step:

    read       a piece and run one epoch over it, in random order, at the newest w. Rows at a bound that stay
               there are finished; the others are added to the cached rows
    optimize   epochs over the cached rows and those of the piece, until their gap is small
    prune      to the size of the cache. A row that leaves keeps its multiplier, which is fixed until the row
               is read again. No row is excluded forever, so cycling over the pieces converges

A piece consists of short runs of neighboring rows from all over the data, reshuffled in every pass. Files are
often sorted: with pieces of neighboring rows the same passes end at a gap a hundred times as large
(covertype); with runs they do as well as on rows in random order.

A row that is read again is visited with its current multiplier. Its gap contribution is
c_i loss_i - d_i + coef_i <w, x_i>, not all of its loss. The contributions seen in a pass sum to an estimate
of the gap. Since w changes meanwhile, it is multiplied by the rate of progress per pass. It is not a bound. D
is a lower bound for any multipliers, over all rows and at all times.

Every visit uses the compiled epoch of rows in memory, on weights that all pieces share.

References:

- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm
  2.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.contract.sweeps import Streaming, SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale, UpperBound, correction, gamma
from maxmargin.core.stored_values import floats, integers, number
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import DenseDesign, row_lengths
from maxmargin.duals.coordinates import Coordinates, coordinates
from maxmargin.duals.crammer_singer import padded
from maxmargin.duals.loaded_rows import LoadedRows, slice_of
from maxmargin.duals.pieces import Pieces
from maxmargin.duals.proofs import radius, scale_of
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.duals.terms import contribution, gap_contribution, into_box, row_terms
from maxmargin.files.scratch import scratch_zeros

#: bytes of a piece, and of the cache if its number of rows is not set
PIECE_BYTES, CACHE_BYTES = 2**25, 2**27
#: number of runs of neighboring rows in a piece
RUNS = 64
#: epochs over the cache end when its gap is this fraction of the piece's gap
EFFORT = 0.1


class StreamedRows:
    """See :class:`maxmargin.core.RowDuals`. One step reads one piece."""

    def __init__(self, rows: Rows, C: float, streaming: Streaming) -> None:
        (n, d), columns = rows.design.shape, rows.loss.n_outputs()
        self.rows, self.C, self.streaming = rows, C, streaming
        self.n_examples = rows.n
        self._curves = row_terms(slice_of(rows, 0, 1)).curvature > 0.0
        self._alpha: Array = scratch_zeros(n if columns is None else (n, columns))
        self._weights: Array = np.zeros(rows.dim) if columns is None else padded(d + 1, columns)
        self._linear, self._curved = 0.0, 0.0
        per_row = max(1.0, 12.0 * rows.design.nnz / max(1, n))
        self._fits = max(1, int(CACHE_BYTES / per_row))
        self._runs, self.n_steps = self._cut(per_row)
        self._pieces = Pieces(rows, self._runs, self.n_steps, per_row * n / self.n_steps)
        # before a row is read, its gap contribution is at most its loss at w = 0
        self._gaps: Array = np.array([C * self._loss_at_zero(*run) for run in self._runs])
        self._seen, self._before = 0.0, np.inf  # gaps seen in this pass and in the previous one
        self._cache: LoadedRows | None = None
        self._age: IntArray = np.zeros(0, dtype=np.int64)
        self._restart()

    @property
    def max_cached(self) -> int:
        """Maximum number of cached rows."""
        return self.streaming.max_cached or self._fits

    def _restart(self) -> None:
        self._due: list[IntArray] = []
        self._cache, self._age, self._clock = None, self._age[:0], 0
        self._slack = np.inf

    def _cut(self, per_row: float) -> tuple[list[tuple[int, int]], int]:
        """Runs of equal size, and the number of pieces to make of them: at least as many as requested,
        none larger than PIECE_BYTES."""
        n = self.rows.n
        size = max(1, min(-(-n // self.streaming.chunks), int(PIECE_BYTES / per_row)))
        run = -(-size // RUNS)
        out: list[tuple[int, int]] = []
        for lo, hi in self.rows.ranges:
            count = -(-(hi - lo) // run)
            out += pairwise([lo + k * (hi - lo) // count for k in range(count + 1)])
        return out, -(-n // size)

    def _loss_at_zero(self, lo: int, hi: int) -> float:
        some = slice_of(self.rows, lo, hi)
        zero = np.zeros((hi - lo, *self._alpha.shape[1:]))
        return some.loss.value(zero if some.offset is None else some.offset, some.y, some.weight)

    # -- the dual point ----------------------------------------------------------------------------

    @property
    def w(self) -> Array:
        """The weights, without their padding."""
        if self._weights.ndim == 1:
            return self._weights
        K = self.rows.n_columns
        return self._weights[: self.rows.dim // K, :K].ravel()

    @property
    def multipliers(self) -> Array:
        """One per row (and class)."""
        return self._alpha

    @property
    def easy_C(self) -> float:
        """See :class:`maxmargin.core.RowDuals`; estimated from the first run."""
        block = LoadedRows.read(self.rows, *self._runs[0]).design
        data = block.X.ravel() if isinstance(block, DenseDesign) else block.data
        square = float(np.vdot(data, data)) / block.shape[0] + self.rows.intercept**2
        return 1.0 / max(square, 1e-300)

    @property
    def n_active(self) -> int:
        """Number of rows in the cache."""
        return 0 if self._cache is None else len(self._cache)

    @property
    def n_support(self) -> int:
        """Number of rows with a nonzero multiplier (off the true class)."""
        total = 0
        for lo, hi in self._runs:
            coef = self._contribution(lo, hi)[0]
            total += int(np.count_nonzero(coef if coef.ndim == 1 else coef.any(axis=1)))
        return total

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C, at the w that the epochs maintain."""
        curved = self._curved + 0.5 * float(np.vdot(self._weights, self._weights))
        # The best multiple. For curved duals and a larger C the curvature is overestimated: still a bound.
        t = 1.0 if C == self.C else C / self.C
        if C != self.C and curved > 0.0:
            t = min(t, max(0.0, 0.5 * self._linear / curved))
        if self._curves and C < self.C:
            curved *= self.C / C
        return t * self._linear - t * t * curved

    def dual_value(self, C: float) -> float:
        """The dual value, recomputed from the multipliers: one product with all rows."""
        rows, d = self.rows, self.rows.design.shape[1]
        out = np.zeros((rows.dim // rows.n_columns, *self._alpha.shape[1:]))
        linear = curved = 0.0
        for lo, hi, design, first in self._pieces.in_order():
            coef, a, b = self._contribution(lo, hi)
            linear, curved = linear + a, curved + b
            design.accumulate(coef, first, first + hi - lo, out[:d])
            if rows.intercept != 0.0:
                out[d] += rows.intercept * coef.sum(axis=0)
        if out.ndim == 1:
            self._weights[:] = out
        else:
            self._weights[: len(out), : out.shape[1]] = out
        self._linear, self._curved = linear, curved
        return self.dual_estimate(C)

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        value, sizes = self.dual_value(C), self._sizes()
        t = C / self.C
        lost = sizes.error(
            radius(SquaredNorm(), self.w), gamma(sizes.terms) + self.rows.relative_error
        )
        lost *= max(t, t * t)
        return value - correction(lost, attained.negligible)

    def _sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""
        rows = self.rows
        known = row_lengths(rows.design, 0, rows.design.shape[0])  # None if that takes a pass
        longest = float(np.max(np.hypot(0.0 if known is None else known, rows.intercept)))
        total = Scale()
        for lo, hi in self._runs:
            part, alpha = slice_of(rows, lo, hi), self._alpha[lo:hi]
            coef, _, curved = contribution(part, self.C, alpha)
            total = total + scale_of(part, alpha, coef, curved, longest)
        return total

    def _contribution(self, lo: int, hi: int) -> tuple[Array, float, float]:
        return contribution(slice_of(self.rows, lo, hi), self.C, self._alpha[lo:hi])

    def aggregate(self) -> Cut:
        """The multipliers as one cut."""
        error = self._sizes().of_cut() / self.C
        return Cut((self._linear - self._curved) / self.C, self.w / -self.C, error)

    def check(self, scores: Array) -> None:
        """Recompute the gap contribution of each run from exact scores."""
        for k, (lo, hi) in enumerate(self._runs):
            some = slice_of(self.rows, lo, hi)
            self._gaps[k] = gap_contribution(some, self.C, self._alpha[lo:hi], scores[lo:hi])

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers, clipped to the box."""
        self._into_box(multipliers)
        self._restart()
        self.dual_value(self.C)

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`. Cached rows are not included: they are read again when
        their turn comes."""
        return {
            "multipliers": self._alpha,
            "gaps": self._gaps,
            "pass": (self._seen, self._before, list(self._due)),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`."""
        self.load(same_shape(state["multipliers"], self._alpha))
        self._gaps[:] = floats(state["gaps"], "the gaps", self._gaps.shape, finite=False)
        *gaps, due = state["pass"]
        n = len(self._runs)
        self._due = [integers(part, "pieces of a stream", (None,), below=n) for part in due]
        self._seen, self._before = (number(gap, "a gap", finite=False) for gap in gaps)

    def _into_box(self, multipliers: Array) -> None:
        for lo, hi in self._runs:
            some = slice_of(self.rows, lo, hi)
            self._alpha[lo:hi] = into_box(some, self.C, multipliers[lo:hi])

    def start_at(self, w: Array, gap: float) -> None:
        """Do nothing: a point does not determine multipliers."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C: all sums are homogeneous in (alpha, C)."""
        factor, self.C = C / self.C, C
        self._alpha *= factor
        self._into_box(self._alpha)  # rounding must not violate the caps
        self._weights *= factor
        self._linear *= factor
        self._curved *= factor
        self._gaps *= factor
        self._before *= factor
        self._slack *= factor

    # -- one step ----------------------------------------------------------------------------------

    def improve(self, seed: int) -> SweepStats:
        """Read the next piece and optimize according to the schedule."""
        rng = np.random.default_rng(seed)
        if not self._due:
            deal = np.array_split(rng.permutation(len(self._runs)), self.n_steps)
            self._due = [np.sort(part) for part in deal]
            self._seen = 0.0
        runs = self._due.pop()
        held = self._read(runs)
        gap_seen = self._visit(held, rng)
        self._gaps[runs] = gap_seen / len(runs)
        self._seen += gap_seen
        gap = float(self._gaps.sum())
        # end of a pass: w has changed since the rows were read, by about as much as in the last pass
        if not self._due:
            rate = self._seen / self._before if self._before > 0.0 else 1.0
            gap = self._seen * min(1.0, rate)
            self._before = self._seen
        return SweepStats(len(held), gap, 0)

    def _read(self, runs: IntArray) -> LoadedRows:
        """The rows of these runs with nonzero weight. Those of them in the cache are removed from it."""
        held = self._pieces.read(runs, self._due[::-1])
        if not held.rows.weight.all():
            held = held.take(np.flatnonzero(held.rows.weight))
        if self._cache is not None:
            twice = np.isin(self._cache.index, held.index, assume_unique=True)
            if twice.any():
                self._keep_of(self._cache, self._age, np.flatnonzero(~twice))
        return held

    def _visit(self, held: LoadedRows, rng: np.random.Generator) -> float:
        """Run one epoch over new rows, then epochs over them and the cache; return the new rows' gap."""
        gap_seen, active = self._sweep(held, rng, 1, 0.0)
        held = held.take(np.sort(active))
        both, age = self._with_cache(held)
        epochs, goal = self.streaming.max_epochs, EFFORT * gap_seen
        if len(both) and epochs:
            _, active = self._sweep(both, rng, epochs, goal)
        else:
            active = np.arange(len(both))
        self._prune(both, age, active, self.max_cached)
        return gap_seen

    def _with_cache(self, new: LoadedRows) -> tuple[LoadedRows, IntArray]:
        """Cached and new rows, and when each one was read."""
        self._clock += 1
        age = np.concatenate([self._age, np.full(len(new), self._clock)])
        return (new if self._cache is None else LoadedRows.join([self._cache, new])), age

    def _part(self, held: LoadedRows, slack: float) -> Coordinates:
        """Coordinate ascent over these rows, on the shared weights."""
        part: Coordinates = coordinates(held.rows)(
            held.rows, self.C, weights=self._weights, slack=slack
        )
        part.adopt(self._alpha[held.index])
        return part

    def _sweep(
        self, held: LoadedRows, rng: np.random.Generator, epochs: int, goal: float
    ) -> tuple[float, IntArray]:
        """Run at most ``epochs`` epochs over these rows, until their gap is at most ``goal``. Return their
        gap at first, and which of them are still active."""
        part, first = self._part(held, self._slack), np.nan
        try:
            for _ in range(epochs):
                stats = part.improve(int(rng.integers(2**62)), 1)
                first = stats.gap_estimate if np.isnan(first) else first
                if stats.gap_estimate <= goal or part.n_active == 0:
                    break
        finally:
            self._write_back(held, part.multipliers)
        self._slack = part.slack
        return first, part.active.copy()

    def _write_back(self, held: LoadedRows, alpha: Array) -> None:
        """Store new multipliers and update D."""
        _, linear, curved = contribution(held.rows, self.C, self._alpha[held.index])
        self._alpha[held.index] = alpha
        _, new_linear, new_curved = contribution(held.rows, self.C, alpha)
        self._linear += new_linear - linear
        self._curved += new_curved - curved

    def _prune(self, held: LoadedRows, age: IntArray, active: IntArray, room: int) -> None:
        """Keep at most ``room`` rows: rows at a bound are removed first, those read longest ago before
        others."""
        moves = np.zeros(len(held), dtype=bool)
        moves[active] = True
        stay = np.arange(len(held))
        if len(stay) > room:
            order = np.lexsort((age[stay], moves[stay]))
            stay = np.sort(stay[order[len(stay) - room :]])
        self._keep_of(held, age, stay)

    def _keep_of(self, held: LoadedRows, age: IntArray, which: IntArray) -> None:
        if len(which) < len(held):
            held, age = held.take(which), age[which]
        self._cache, self._age = held, age
