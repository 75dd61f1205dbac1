"""Dual coordinate ascent over rows that are not in memory: Ramanan's algorithm 2, in cycles.

    maximise  D(alpha) = sum_i d_i(alpha_i) - 1/2 |w|^2,    w = sum_i coef_i(alpha_i) x_i

Kept in memory are one multiplier per row (and class), w, and a bounded number of rows, the cache. Rows are
read in pieces. One step:

    read       a piece, and one epoch over it, in random order, at the newest w. Rows that sit at a bound and
               want to stay there are done with; the others join the cached rows
    optimise   epochs over the cached rows and those of the piece, as the schedule says
    prune      down to the size of the cache. A row that leaves keeps its multiplier, frozen until the row
               is read again: nothing is ever refused, so cycling over the pieces converges

A piece is put together from short runs of neighbours all over the data, dealt anew in every pass. Files are
sorted more often than not: with pieces of neighbours the same passes end at a gap a hundred times as large
(covertype), with runs they do as well as on rows in random order.

A row that is read for the second time is visited with the multiplier it has. What it lacks is
c_i loss_i - d_i + coef_i <w, x_i>, not all of its loss. What a pass saw lacking adds up to an estimate of the
gap; as w moved on meanwhile, it is multiplied by the rate at which passes gain. It is no bound. D is one,
for any multipliers, of all rows and at all times.

Every visit is the compiled epoch of rows in memory, on weights that all pieces share.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.contract.sweeps import Streaming, SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import gamma, paid
from maxmargin.core.stored_values import floats, integers, number
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import DenseDesign, row_lengths
from maxmargin.duals.coordinates import Coordinates, coordinates
from maxmargin.duals.crammer_singer import padded
from maxmargin.duals.loaded_rows import LoadedRows, slice_of
from maxmargin.duals.proofs import Scale
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.duals.terms import contribution, into_box, lacking, row_terms

#: bytes of a piece, and of the cache where nobody says how many rows it has
PIECE_BYTES, CACHE_BYTES = 2**25, 2**27
#: runs of neighbours that a piece is made of
RUNS = 64
#: epochs over the cache end when its gap is this part of what the piece lacked; the same for a full cache
EFFORT, FILL_EFFORT = 0.1, 0.01
#: LaRank's rule: visits of cached rows per row that is read
CACHED_PER_NEW = 10
#: a cache that is full of rows with multipliers is emptied down to this part
FILL_DOWN = 0.5


class StreamedRows:
    """See :class:`maxmargin.core.RowDuals`. One step reads one piece."""

    def __init__(self, rows: Rows, C: float, streaming: Streaming) -> None:
        (n, d), columns = rows.design.shape, rows.loss.n_outputs()
        self.rows, self.C, self.streaming = rows, C, streaming
        self.n_examples = rows.n
        self._curves = row_terms(slice_of(rows, 0, 1)).curvature > 0.0
        self._alpha: Array = np.zeros(n if columns is None else (n, columns))
        self._weights: Array = np.zeros(rows.dim) if columns is None else padded(d + 1, columns)
        self._linear, self._curved = 0.0, 0.0
        per_row = max(1.0, 12.0 * rows.design.nnz / max(1, n))
        self._fits = max(1, int(CACHE_BYTES / per_row))
        self._runs, self.n_steps = self._cut(per_row)
        # before a row was read it lacks at most what it loses at w = 0
        self._gaps: Array = np.array([C * self._loss_at_zero(*run) for run in self._runs])
        self._seen, self._before = 0.0, np.inf  # what this pass saw lacking, and the one before it
        self._cache: LoadedRows | None = None
        self._age: IntArray = np.zeros(0, dtype=np.int64)
        self._restart()

    @property
    def max_cached(self) -> int:
        """Rows that are kept at most."""
        return self.streaming.max_cached or self._fits

    def _restart(self) -> None:
        self._due: list[IntArray] = []
        self._cache, self._age, self._clock = None, self._age[:0], 0
        self._slack = np.inf

    def _cut(self, per_row: float) -> tuple[list[tuple[int, int]], int]:
        """Runs of equal size, and the number of pieces that are made of them: at least as many as asked
        for, none larger than PIECE_BYTES."""
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
    def scale(self) -> float:
        """See :class:`maxmargin.core.RowDuals`; from the first run."""
        block = LoadedRows.read(self.rows, *self._runs[0]).design
        data = block.X.ravel() if isinstance(block, DenseDesign) else block.data
        square = float(np.vdot(data, data)) / block.shape[0] + self.rows.intercept**2
        return 1.0 / max(square, 1e-300)

    @property
    def n_active(self) -> int:
        """Rows in the cache."""
        return 0 if self._cache is None else len(self._cache)

    @property
    def n_support(self) -> int:
        """Rows with a multiplier (off the true class)."""
        total = 0
        for lo, hi in self._runs:
            coef = self._contribution(lo, hi)[0]
            total += int(np.count_nonzero(coef if coef.ndim == 1 else coef.any(axis=1)))
        return total

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C, at the w kept by the epochs."""
        curved = self._curved + 0.5 * float(np.vdot(self._weights, self._weights))
        # the best multiple; with curved duals and a larger C their curvature is taken too large: a bound
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
        for lo, hi in self._runs:
            coef, a, b = self._contribution(lo, hi)
            linear, curved = linear + a, curved + b
            rows.design.accumulate(coef, lo, hi, out[:d])
            if rows.intercept != 0.0:
                out[d] += rows.intercept * coef.sum(axis=0)
        if out.ndim == 1:
            self._weights[:] = out
        else:
            self._weights[: len(out), : out.shape[1]] = out
        self._linear, self._curved = linear, curved
        return self.dual_estimate(C)

    def proved_value(self, C: float, negligible: float) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        value, sizes = self.dual_value(C), self._sizes()
        t = C / self.C
        lost = sizes.error(SquaredNorm(), self.w, gamma(sizes.terms) + self.rows.blur)
        lost *= max(t, t * t)
        return value - paid(lost, negligible)

    def _sizes(self) -> Scale:
        """What the dual value is a sum of."""
        rows = self.rows
        known = row_lengths(rows.design, 0, rows.design.shape[0])  # or not: no pass for it
        longest = float(np.max(np.hypot(0.0 if known is None else known, rows.intercept)))
        total = Scale(0.0, 0.0, 0.0, 0)
        for lo, hi in self._runs:
            part, alpha = slice_of(rows, lo, hi), self._alpha[lo:hi]
            coef, _, curved = contribution(part, self.C, alpha)
            total = total + Scale.of(part, alpha, coef, curved, longest)
        return total

    def _contribution(self, lo: int, hi: int) -> tuple[Array, float, float]:
        return contribution(slice_of(self.rows, lo, hi), self.C, self._alpha[lo:hi])

    def aggregate(self) -> Cut:
        """The multipliers as one cut."""
        error = self._sizes().of_cut() / self.C
        return Cut((self._linear - self._curved) / self.C, self.w / -self.C, error)

    def check(self, scores: Array) -> None:
        """Exact scores tell what each run lacks."""
        for k, (lo, hi) in enumerate(self._runs):
            some = slice_of(self.rows, lo, hi)
            self._gaps[k] = lacking(some, self.C, self._alpha[lo:hi], scores[lo:hi])

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers, brought into the box."""
        self._into_box(multipliers)
        self._restart()
        self.dual_value(self.C)

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`. Cached rows are not part of it: they are read again when
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
        stored = state["pass"]
        if not isinstance(stored, tuple) or len(stored) != 3 or type(stored[2]) is not list:
            raise ValueError("the place in a stream is not known.")
        n = len(self._runs)
        self._due = [integers(part, "pieces of a stream", (None,), below=n) for part in stored[2]]
        if sum(map(len, self._due)) > n:
            raise ValueError("pieces of a stream that there are not.")
        self._seen, self._before = (number(part, "a gap", finite=False) for part in stored[:2])

    def _into_box(self, multipliers: Array) -> None:
        for lo, hi in self._runs:
            some = slice_of(self.rows, lo, hi)
            self._alpha[lo:hi] = into_box(some, self.C, multipliers[lo:hi])

    def start_at(self, w: Array, gap: float) -> None:
        """A point says nothing about multipliers: the start stays as it is."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Carry over to another C: all sums are of the same degree in (alpha, C)."""
        factor, self.C = C / self.C, C
        self._alpha *= factor
        self._into_box(self._alpha)  # rounding must not leave it
        self._weights *= factor
        self._linear *= factor
        self._curved *= factor
        self._gaps *= factor
        self._before *= factor
        self._slack *= factor

    # -- one step ----------------------------------------------------------------------------------

    def improve(self, seed: int) -> SweepStats:
        """Read the next piece, and optimise as the schedule says."""
        rng = np.random.default_rng(seed)
        if not self._due:
            deal = np.array_split(rng.permutation(len(self._runs)), self.n_steps)
            self._due = [np.sort(part) for part in deal]
            self._seen = 0.0
        runs = self._due.pop()
        held = self._read(runs)
        if self.streaming.schedule == "fill":
            lacked = self._collect(held, rng, last=not self._due)
        else:
            lacked = self._visit(held, rng)
        self._gaps[runs] = lacked / len(runs)
        self._seen += lacked
        gap = float(self._gaps.sum())
        if (
            not self._due
        ):  # w has moved on since the rows were read, by about as much as in the last pass
            rate = self._seen / self._before if self._before > 0.0 else 1.0
            gap = self._seen * min(1.0, rate)
            self._before = self._seen
        return SweepStats(len(held), gap, 0)

    def _read(self, runs: IntArray) -> LoadedRows:
        """The rows of these runs that have a weight. Those of them in the cache leave it."""
        held = LoadedRows.join([LoadedRows.read(self.rows, *self._runs[k]) for k in runs])
        if not held.rows.weight.all():
            held = held.take(np.flatnonzero(held.rows.weight))
        if self._cache is not None:
            twice = np.isin(self._cache.index, held.index, assume_unique=True)
            if twice.any():
                self._keep_of(self._cache, self._age, np.flatnonzero(~twice))
        return held

    def _visit(self, held: LoadedRows, rng: np.random.Generator) -> float:
        """One epoch over new rows, then epochs over them and the cache; what the new ones lacked."""
        count = len(held)
        lacked, active = self._sweep(held, rng, 1, 0.0)
        held = held.take(np.sort(active))
        both, age = self._with_cache(held)
        epochs, goal = self.streaming.max_epochs, EFFORT * lacked
        if self.streaming.schedule == "larank":
            epochs, goal = -(-CACHED_PER_NEW * count // max(1, len(both))), 0.0
        if len(both) and epochs:
            _, active = self._sweep(both, rng, epochs, goal)
        else:
            active = np.arange(len(both))
        self._prune(both, age, active, self.max_cached)
        return lacked

    def _collect(self, held: LoadedRows, rng: np.random.Generator, last: bool) -> float:
        """Put new rows that want to move into the cache; optimise it when it is full, or all is read."""
        part, rows = self._part(held, 0.0), held.rows
        d, w = held.design.shape[1], self.w.reshape(-1, *self._alpha.shape[1:])
        scores = held.design.dot(w[:d], 0, len(held))
        if rows.intercept != 0.0:
            scores += rows.intercept * w[d]
        if rows.offset is not None:
            scores += rows.offset
        part.check(scores)
        lacked = lacking(rows, self.C, part.multipliers, scores)
        wanted = np.sort(part.active)
        while len(wanted):
            room = self.max_cached - self.n_active
            both, age = self._with_cache(held.take(wanted[:room]))
            wanted = wanted[room:]
            self._cache, self._age = both, age
            if len(wanted):
                self._empty(rng)
        if last:
            self._empty(rng)
        return lacked

    def _empty(self, rng: np.random.Generator) -> None:
        """Optimise a full cache; rows at a bound leave it, others too if it stays full."""
        if self._cache is None or not len(self._cache):
            return
        epochs = 10 * self.streaming.max_epochs
        gap, active = self._sweep(self._cache, rng, 1, 0.0)
        _, active = self._sweep(self._cache, rng, epochs, FILL_EFFORT * gap)
        self._prune(self._cache, self._age, active, max(1, int(FILL_DOWN * self.max_cached)))

    def _with_cache(self, new: LoadedRows) -> tuple[LoadedRows, IntArray]:
        """Cached and new rows, and when each was read."""
        self._clock += 1
        age = np.concatenate([self._age, np.full(len(new), self._clock)])
        return (new if self._cache is None else LoadedRows.join([self._cache, new])), age

    def _part(self, held: LoadedRows, slack: float) -> Coordinates:
        """The compiled epochs over these rows, on the shared weights."""
        part: Coordinates = coordinates(held.rows)(
            held.rows, self.C, weights=self._weights, slack=slack
        )
        part.adopt(self._alpha[held.index])
        return part

    def _sweep(
        self, held: LoadedRows, rng: np.random.Generator, epochs: int, goal: float
    ) -> tuple[float, IntArray]:
        """At most so many epochs over these rows, until they lack no more than ``goal``. Returns what they
        lacked at first, and which of them may still move."""
        part, first = self._part(held, self._slack), np.nan
        try:
            for _ in range(epochs):
                stats = part.improve(int(rng.integers(2**62)), 1)
                first = stats.gap if np.isnan(first) else first
                if stats.gap <= goal or part.n_active == 0:
                    break
        finally:
            self._write_back(held, part.multipliers)
        self._slack = part.slack
        return first, part.active.copy()

    def _write_back(self, held: LoadedRows, alpha: Array) -> None:
        """New multipliers, with what they change in D."""
        _, linear, curved = contribution(held.rows, self.C, self._alpha[held.index])
        self._alpha[held.index] = alpha
        _, new_linear, new_curved = contribution(held.rows, self.C, alpha)
        self._linear += new_linear - linear
        self._curved += new_curved - curved

    def _prune(self, held: LoadedRows, age: IntArray, active: IntArray, room: int) -> None:
        """Keep what is worth it: rows at a bound go first, of equals those that were read long ago."""
        moves = np.zeros(len(held), dtype=bool)
        moves[active] = True
        stay = np.arange(len(held))
        if self.streaming.prune == "immediate":
            stay = np.flatnonzero(moves)
        if len(stay) > room:
            order = np.lexsort((age[stay], moves[stay]))
            stay = np.sort(stay[order[len(stay) - room :]])
        self._keep_of(held, age, stay)

    def _keep_of(self, held: LoadedRows, age: IntArray, which: IntArray) -> None:
        if len(which) < len(held):
            held, age = held.take(which), age[which]
        self._cache, self._age = held, age
