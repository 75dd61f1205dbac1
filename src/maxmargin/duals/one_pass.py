"""A dual point over an unbounded stream: every row is seen once, and a bounded number of rows is kept.

    maximize  D = sum_i d_i(alpha_i) - 1/2 |w|^2  over the multipliers of all rows seen so far

Rows with multiplier zero are dropped: zero stays feasible. When more than ``max_support`` rows have a nonzero
multiplier, the surplus is merged into ONE plane,

    p = sum_i coef_i x_i,   L = sum_i d_i + q_i alpha_i^2 / 2,   Q = sum_i q_i alpha_i^2 / 2

over the merged rows. From then on their multipliers only change together, by a common factor t. This is
one more coordinate, and its step is exact:

    g = L - 2 Q - <w, p>,   t = clip(1 + g / (|p|^2 + 2 Q), 0, limit),    limit = min_i c_i / |alpha_i|

so every merged row stays within its cap. No step decreases D, and D is always a lower bound of the optimum
over all rows seen. An upper bound needs another pass over the rows.

Rows at their caps are merged first, the oldest first, because rows on the margin may still change. (If the
smallest multipliers are merged first instead, on covertype at C = 1 with 1000 rows kept, the bound ends at
0.79 of the optimum instead of 0.91, and F at 1.16 times the optimum instead of 1.05.)

References:

- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm
  2.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale, gamma
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import row_lengths
from maxmargin.duals.coordinates import coordinates
from maxmargin.duals.crammer_singer import padded
from maxmargin.duals.loaded_rows import InMemory, LoadedRows, part
from maxmargin.duals.proofs import radius, scale_of
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import contribution, require_true_terms, row_terms
from maxmargin.losses.base import ScoreLoss

#: average number of visits of kept rows per row read, and maximum number of epochs at a time
VISITS_PER_ROW, MAX_EPOCHS = 20.0, 10
#: minimum number of rows of a piece
LEAST_PIECE = 256
#: epochs end when the gap of the kept rows is this fraction of the gap of the new ones
EFFORT = 0.1


class SupportStream:
    """A dual point over a stream; see the top of this module.

    Parameters
    ----------
    loss : ScoreLoss
        A loss that supports coordinate ascent.
    n_features : int
        Number of features.
    C : float
        Weight of the loss.
    intercept : float
        Value of a constant feature, whose weight comes last; 0 for none.
    max_support : int
        Maximum number of rows to keep.
    """

    def __init__(
        self, loss: ScoreLoss, n_features: int, C: float, intercept: float, max_support: int
    ) -> None:
        self.loss, self.n_features, self.C = loss, n_features, C
        self.intercept, self.max_support = intercept, max_support
        columns = loss.n_outputs()
        self.n_columns = columns or 1
        self._height = n_features + int(intercept != 0.0)
        shape = (self._height,) if columns is None else (self._height, columns)
        self._weights: Array = self._zeros()
        self.held: LoadedRows | None = None
        self.alpha: Array = np.zeros((0, *shape[1:]))
        self.plane: Array = np.zeros(shape)
        self.offset, self.bend, self.limit = 0.0, 0.0, np.inf
        #: magnitudes of the terms of the plane, which bound its rounding error; see ``duals/proofs``
        self.demands = self.plane_size = 0.0
        self.n_folded = self.n_seen = 0
        self.weight_seen = 0.0
        self._slack, self._credit = np.inf, 0.0

    # -- the dual point ----------------------------------------------------------------------------

    def _zeros(self) -> Array:
        if self.loss.n_outputs() is None:
            return np.zeros(self._height)
        return padded(self.n_features + 1, self.n_columns)

    @property
    def w(self) -> Array:
        """The flat weights."""
        return self._view.ravel()

    @property
    def _view(self) -> Array:
        """The weights without padding."""
        if self.plane.ndim == 1:
            return self._weights
        return self._weights[: self._height, : self.n_columns]

    @property
    def n_support(self) -> int:
        """Number of rows kept."""
        return len(self.alpha)

    def dual_value(self) -> float:
        """D, with w recomputed from the kept rows and the plane, minus a bound on the rounding error."""
        w = self.plane.copy()
        linear, curved = self.offset, self.bend
        sizes = Scale(self.demands + self.bend, self.plane_size, self.n_seen)
        if self.held is not None:
            coef, a, b = contribution(self.held.rows, self.C, self.alpha)
            linear, curved = linear + a, curved + b
            self.held.design.accumulate(coef, 0, len(coef), w[: self.n_features])
            if self.intercept != 0.0:
                w[-1] += self.intercept * coef.sum(axis=0)
            sizes = sizes + self._scale(self.held, self.alpha, coef, b)
        self._view[:] = w
        lost = sizes.error(radius(SquaredNorm(), w.ravel()), gamma(self.n_seen))
        return linear - curved - 0.5 * float(np.vdot(w, w)) - lost

    def _scale(self, held: LoadedRows, alpha: Array, coef: Array, curved: float) -> Scale:
        known = row_lengths(held.design, 0, len(alpha))
        lengths = np.hypot(0.0 if known is None else known, self.intercept)
        return scale_of(held.rows, alpha, coef, curved, lengths)

    def rescale(self, C: float) -> None:
        """Convert to another C: multiply all multipliers by C' / C."""
        f = C / self.C
        changed = {
            "C": C,
            "alpha": f * self.alpha,
            "plane": f * self.plane,
            "offset": f * self.offset,
            "bend": f * self.bend,
            "demands": f * self.demands,
            "plane_size": f * self.plane_size,
            "_slack": f * self._slack,
        }
        self.__dict__.update(changed)  # in one step, so that an interrupt cannot leave a mixture
        self._weights *= f

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_weights"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._weights = self._zeros()
        self.dual_value()

    # -- the stream --------------------------------------------------------------------------------

    def feed(self, design: InMemory, y: Array, weight: Array, rng: np.random.Generator) -> None:
        """Process these rows once: pieces in the given order, rows in random order within a piece."""
        if not self.n_seen:
            require_true_terms(self.loss, y)
        n, whole = len(weight), Rows(design, y, weight, self.loss, self.intercept, ())
        count = max(1, round(n / max(LEAST_PIECE, self.max_support // 2)))
        for lo, hi in pairwise([k * n // count for k in range(count + 1)]):
            piece = part(whole, design.block(lo, hi), y[lo:hi], weight[lo:hi], None)
            self._process(piece, rng)

    def _process(self, piece: Rows, rng: np.random.Generator) -> None:
        """Process one piece completely or not at all. An interrupt in between would leave rows that are both
        kept and merged, and an invalid bound."""
        before = {**self.__dict__, "plane": self.plane.copy()}
        try:
            count = len(piece.weight)
            held = LoadedRows(self.n_seen + np.arange(count), piece)
            if not piece.weight.all():
                held = held.take(np.flatnonzero(piece.weight))
            # from now on these rows count, even if their multipliers stay zero
            self.n_seen += count
            self.weight_seen += float(piece.weight.sum())
            if len(held):
                self._visit(held if self.held is None else held.like(self.held), rng)
        except BaseException:
            self.__dict__.update(before)
            raise

    def _visit(self, new: LoadedRows, rng: np.random.Generator) -> None:
        fresh = np.zeros((len(new), *self.alpha.shape[1:]))
        gap_seen, alpha, active = self._sweep(new, fresh, rng, 1, 0.0)
        self._keep(new, alpha, active, join=True)
        self._credit += VISITS_PER_ROW * len(new)
        assert self.held is not None
        epochs = min(MAX_EPOCHS, int(self._credit // max(1, len(self.held))))
        active = np.arange(len(self.held))
        if epochs:
            _, self.alpha, active = self._sweep(
                self.held, self.alpha, rng, epochs, EFFORT * gap_seen, counted=True
            )
        self._keep(self.held, self.alpha, active, join=False)
        self._fold(active)

    def _sweep(
        self,
        held: LoadedRows,
        alpha: Array,
        rng: np.random.Generator,
        epochs: int,
        goal: float,
        *,
        counted: bool = False,
    ) -> tuple[float, Array, IntArray]:
        """Run epochs over these rows, each followed by a step of the plane. Return the gap of the rows at
        first, their multipliers, and which rows are still active."""
        sweeps = coordinates(held.rows)(held.rows, self.C, weights=self._weights, slack=self._slack)
        sweeps.adopt(alpha)
        first = np.nan
        for _ in range(epochs):
            stats = sweeps.improve(int(rng.integers(2**62)), 1)
            self._step()
            self._credit -= stats.oracle_calls if counted else 0
            first = stats.gap_estimate if np.isnan(first) else first
            if stats.gap_estimate <= goal or sweeps.n_active == 0:
                break
        self._slack = sweeps.slack
        return first, sweeps.multipliers.copy(), sweeps.active.copy()

    def _step(self) -> None:
        """Take the exact step of the plane's multiplier."""
        view = self._view
        square = float(np.vdot(self.plane, self.plane)) + 2.0 * self.bend
        slope = self.offset - 2.0 * self.bend - float(np.vdot(view, self.plane))
        if slope == 0.0 or self.n_folded == 0:
            return
        t = 1.0 + slope / square if square > 0.0 else (self.limit if slope > 0.0 else 0.0)
        t = min(max(t, 0.0), self.limit)
        if not np.isfinite(t):
            return
        view += (t - 1.0) * self.plane
        self.plane *= t
        self.offset *= t
        self.bend *= t * t
        self.demands, self.plane_size = t * self.demands, t * self.plane_size
        self.limit = self.limit / t if t > 0.0 else np.inf
        self.n_folded = self.n_folded if t > 0.0 else 0

    def _keep(self, held: LoadedRows, alpha: Array, active: IntArray, *, join: bool) -> None:
        """Drop rows with multiplier zero that are not active."""
        stay = self._sizes(held, alpha) > 0.0
        stay[active] = True
        which = np.flatnonzero(stay)
        if len(which) < len(held):
            held, alpha = held.take(which), alpha[which]
        if join and self.held is not None and len(self.held):
            held, alpha = LoadedRows.join([self.held, held]), np.concatenate([self.alpha, alpha])
        self.held, self.alpha = held, alpha

    def _sizes(self, held: LoadedRows, alpha: Array) -> Array:
        """The used part of each row's cap."""
        return row_terms(held.rows).sizes(alpha)

    def _caps(self, held: LoadedRows) -> Array:
        """The largest feasible multipliers."""
        return row_terms(held.rows).caps(self.C * held.rows.weight)

    def _fold(self, active: IntArray) -> None:
        """Reduce the number of rows to the maximum."""
        held, alpha = self.held, self.alpha
        assert held is not None
        surplus = len(held) - self.max_support
        if surplus <= 0:
            return
        size = self._sizes(held, alpha)
        free = size < self._caps(held)
        order = np.lexsort((held.index, free, size > 0.0))
        gone, stay = np.sort(order[:surplus]), np.sort(order[surplus:])
        folded = held.take(gone[size[gone] > 0.0])
        if len(folded):
            self._add(folded, alpha[gone[size[gone] > 0.0]])
        self.held, self.alpha = held.take(stay), alpha[stay]

    def _add(self, folded: LoadedRows, alpha: Array) -> None:
        """Merge these rows into the plane."""
        coef, linear, curved = contribution(folded.rows, self.C, alpha)
        folded.design.accumulate(coef, 0, len(coef), self.plane[: self.n_features])
        if self.intercept != 0.0:
            self.plane[-1] += self.intercept * coef.sum(axis=0)
        self.offset += linear
        self.bend += curved
        sizes = self._scale(folded, alpha, coef, 0.0)
        self.demands, self.plane_size = self.demands + sizes.offset, self.plane_size + sizes.plane
        self.n_folded += len(folded)
        room = self._caps(folded) / self._sizes(folded, alpha)
        self.limit = min(self.limit, float(room.min()))
