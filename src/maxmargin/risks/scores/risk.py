"""Score risks R(w) = L(X w): a feature matrix and a loss of scores.

w has one column per output: W = w[: d K] as (d, K), then K intercepts, multiplied by
``intercept``. Scores stay with the shards; a line between two evaluated points takes no pass over
X. A non-decomposable loss needs all scores in one place: see :mod:`maxmargin.risks.scores.joint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import LineEvaluation, OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.contract.row_duals import AT_SHARDS, RowDuals, RowSample, RowShape, refused
from maxmargin.core.contract.sweeps import Blocks, Streaming
from maxmargin.core.engine import Engine, SerialEngine, TaskEngine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import gamma, negligible_fraction
from maxmargin.core.vectors import Array, frozen
from maxmargin.data.columns import LazyColumn, chunks
from maxmargin.data.design import as_design, row_lengths, shard_bounds
from maxmargin.duals.choice import METHODS, refusal, row_duals
from maxmargin.duals.loaded_rows import Runs, RunsPart
from maxmargin.duals.proofs import loss_error, proved_risk, steepest
from maxmargin.duals.row_blocks import Run, in_order
from maxmargin.duals.rows import RowPart, Rows
from maxmargin.duals.sample import Sample
from maxmargin.duals.shard_block import BlockShard
from maxmargin.duals.shard_duals import RUNS, ShardCoordinates, count_blocks
from maxmargin.duals.terms import require_true_terms
from maxmargin.losses.base import ScoreLoss
from maxmargin.risks.lines.evaluation import PinnedEvaluation, ScoreCache, check_weights
from maxmargin.risks.lines.shard import LineShard
from maxmargin.risks.scores.joint import gathering
from maxmargin.risks.scores.shard import ScoreShard, make_block, make_shard, totals
from maxmargin.risks.scores.wide import WideScoreRisk

#: methods that the threads of an engine share
AT_ONCE = ("block coordinate", "quasi-newton")


def _weights(given: Any, n: int) -> Any:
    if not isinstance(given, LazyColumn):
        return check_weights(given, n)
    if len(given) != n:
        raise ValueError(f"sample_weight has {len(given)} rows; {n} weights are needed.")
    for lo, hi in chunks(0 if given.checked else n):
        check_weights(given[lo:hi], hi - lo)
    return given


def _totals(rows: Rows) -> Array:
    """What the shards sum up for a loss that is a sum over rows."""
    here = rows.indices()
    known = row_lengths(rows.design, 0, rows.design.shape[0])
    lengths = None if known is None else np.hypot(known, rows.intercept)
    limits = steepest(rows.loss, np.asarray(rows.y[:])[here], np.asarray(rows.weight[:])[here])
    offset = None if rows.offset is None else rows.offset[here]
    return totals(limits, lengths[here] if isinstance(lengths, np.ndarray) else lengths, offset)


def _offset(given: Any, n: int, loss: ScoreLoss) -> Array:
    """Check finite numbers in the shape of the scores."""
    columns = loss.n_outputs()
    offset = np.ascontiguousarray(given, dtype=np.float64)
    shape = (n,) if columns is None else (n, columns)
    if offset.shape != shape or not np.isfinite(offset).all():
        raise ValueError(
            f"offset has shape {offset.shape}; it must hold finite numbers of shape {shape}, like the scores."
        )
    return offset


class ScoreRisk:
    """R(w) = L(X w) over samples in memory, on disk, or computed on the fly.

    Parameters
    ----------
    X : array, CSR matrix or design
        The samples; used without a copy.
    y : array or LazyColumn
        Labels in the form that the loss expects.
    loss : ScoreLoss
        The loss of scores.
    sample_weight : array or LazyColumn, optional
        Weight of each sample.
    intercept : float, default 0
        Value of a constant feature, whose weight comes last in w; 0 for none.
    engine : Engine, optional
        The engine that holds the shards; the calling thread by default.
    ranges : sequence of (lo, hi), optional
        Row ranges that belong to the problem, ascending; all rows by default.
    offset : array, optional
        Numbers to add to the scores, of the same shape: R(w) = L(offset + X w).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> risk.evaluate(np.array([0.25])).value
    1.25
    """

    oracle: OracleKind = "exact"
    lower_bound = 0.0

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: ScoreLoss,
        *,
        sample_weight: Any = None,
        intercept: float = 0.0,
        engine: Engine | None = None,
        ranges: Sequence[tuple[int, int]] | None = None,
        offset: Any = None,
    ) -> None:
        design = as_design(X)
        n = design.shape[0]
        weight = _weights(sample_weight, n)
        if not isinstance(y, LazyColumn):
            y = np.ascontiguousarray(y)
        if y.shape[:1] != (n,):
            raise ValueError(f"X has {n} rows but y has shape {y.shape}.")
        if isinstance(y, LazyColumn) and loss.decomposable:
            for lo, hi in chunks(0 if y.checked else n):
                loss.check_labels(y[lo:hi])
        else:
            loss.check_labels(y[:])
        if not loss.weighted and any((weight[lo:hi] != 1.0).any() for lo, hi in chunks(n)):
            raise ValueError(
                f"{type(loss).__name__} takes no sample weights: it is a metric of whole samples."
            )
        if offset is not None:
            offset = _offset(offset, n, loss)
        self.rows = Rows(
            design, y, weight, loss, float(intercept), tuple(ranges or [(0, n)]), offset
        )
        self.dim = self.rows.dim
        self.n_examples = self.rows.n
        nnz = design.nnz * self.rows.n // max(1, n)
        self.shape = RowShape(nnz, self.rows.n_columns, loss.smooth, loss.expensive_slopes)
        self.engine: Engine = engine or SerialEngine()
        self._totals: Array | None = None
        #: rows of the shards
        self._parts: list[Runs] = []
        self.bounds = self._shards()
        self.n_blocks = 1
        self.open()

    def open(self) -> None:
        """Build the shards: at construction, and again after the engine was used for others."""
        self._parts = [(own,) for own in self.bounds]
        if not self.rows.loss.decomposable:
            self._pins = gathering(self.engine, self.rows, self.bounds)
            return
        self.n_blocks = len(self.bounds)
        parts = [RowPart(self.rows, lo, hi) for lo, hi in self.bounds]
        self.engine.open(partial(make_shard, self.rows.shared_part()), parts)
        self._pins = ScoreCache(self.engine, self.n_blocks)

    def _shards(self) -> list[tuple[int, int]]:
        rows = self.rows
        whole = rows.design if rows.n == rows.design.shape[0] else None
        bounds = shard_bounds(rows.n, self.shape.nnz * self.shape.n_columns, rows.dim, whole)
        parted = type(rows.loss).boundaries is not ScoreLoss.boundaries
        allowed = rows.loss.boundaries(rows.y[:]) if parted else None
        if allowed is not None:
            if len(rows.ranges) != 1 or rows.n != len(rows.y):
                raise ValueError(
                    f"{type(rows.loss).__name__} is a loss over groups of rows: it does not support ranges."
                )
            bounds = sorted({int(allowed[np.abs(allowed - b).argmin()]) for b in bounds})
        return self._in_ranges(bounds)

    def _in_ranges(self, bounds: Sequence[int]) -> list[tuple[int, int]]:
        """The shards between these bounds, which count the rows of the ranges."""
        out: list[tuple[int, int]] = []
        start = 0
        for lo, hi in self.rows.ranges:  # split shards where a range ends
            inside = [lo + b - start for b in bounds if start < b < start + hi - lo]
            out += pairwise([lo, *inside, hi])
            start += hi - lo
        return out

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(
            row_duals=self,
            wide=self,
            proved=self,
            engine=self.engine,
        )

    def evaluate(self, w: Array, *, exact: bool = True) -> LineEvaluation:
        """Evaluate by one product with X; ``exact`` has no effect here."""
        return self._pins.evaluate(w)

    def value(self, w: Array) -> float:
        """See :class:`maxmargin.core.contract.risk.ProvedRisk`."""
        if self.rows.n_columns == 1 or not self.rows.loss.decomposable:
            return float(self.evaluate(w).upper)
        return float(self.engine.reduce(ScoreShard.value_at, self.engine.publish(frozen(w))))

    def raised(self, w: Array, value: float, rest: float) -> float:
        """See :class:`maxmargin.core.contract.risk.ProvedRisk`."""
        enough = negligible_fraction(self.n_examples) * rest
        return proved_risk(self.rows, w, value, self.rounding(w, value), enough)

    def rounding(self, w: Array, value: float) -> float:
        """See :class:`maxmargin.core.contract.risk.ProvedRisk`: for row norms, which take one pass."""
        rows = self.rows
        if self._totals is None and rows.loss.decomposable:
            self._totals = self.engine.reduce(ScoreShard.totals)
        elif self._totals is None:
            self._totals = _totals(rows)
        first, second, shift, shift2 = self._totals
        if np.isnan(first):
            return gamma(rows.n) * value
        # a score has an error of at most unit (|x| |w| + |o|)
        unit, length = gamma(rows.design.shape[1]), float(np.linalg.norm(w))
        squares = 2.0 * unit**2 * (second * length**2 + shift2)
        return loss_error(rows, value, unit * (first * length + shift), squares)

    def scores(self, at: LineEvaluation) -> Array:
        """The scores of an evaluated point, one per row of the feature matrix (0 outside the ranges)."""
        assert isinstance(at, PinnedEvaluation)
        columns = self.rows.loss.n_outputs()
        n = self.rows.design.shape[0]
        out = np.zeros(n if columns is None else (n, columns))
        point = at.point
        parts = self._pins.ask((point,), LineShard.line_scores, point.key, gather=True)
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        start = 0
        for lo, hi in chain.from_iterable(self._parts):
            out[lo:hi] = scores[start : start + hi - lo]
            start += hi - lo
        return out

    def check(self, duals: RowDuals, at: LineEvaluation) -> None:
        """See :class:`maxmargin.core.contract.row_duals.RowDualRisk`."""
        if not isinstance(duals, ShardCoordinates):
            duals.check(self.scores(at))
            return
        assert isinstance(at, PinnedEvaluation)
        point = at.point  # its scores stay with the shards
        duals.choose(
            lambda slack: self._pins.ask((point,), BlockShard.block_choose, point.key, slack)
        )

    def refusal(self, method: str, regularizer: SquaredNorm) -> str | None:
        """See :class:`maxmargin.core.contract.row_duals.RowDualRisk`."""
        return refusal(method, self.rows, regularizer)

    def methods(self, regularizer: SquaredNorm) -> frozenset[str]:
        """The methods that :meth:`row_duals` supports for this problem."""
        return frozenset(m for m in METHODS if self.refusal(m, regularizer) is None)

    def in_span(self, regularizer: SquaredNorm, max_planes: int | None = None) -> WideScoreRisk:
        """The same risk with combinations of planes as points; see :mod:`maxmargin.risks.scores.wide`."""
        return WideScoreRisk(self, regularizer, max_planes)

    def row_duals(
        self,
        method: str,
        C: float,
        regularizer: SquaredNorm,
        streaming: Streaming | None = None,
        blocks: Blocks | None = None,
    ) -> RowDuals:
        """A new dual point over the rows, optimized by this method."""
        if method != AT_SHARDS:
            run = self.run if method in AT_ONCE else in_order
            return row_duals(method, self.rows, C, regularizer, streaming, blocks, run)
        why = self.refusal(method, regularizer)
        if why is not None:
            raise TypeError(refused(method, why))
        require_true_terms(self.rows.loss, self.rows.y)
        blocks = blocks or Blocks()
        self._divide(count_blocks(self.rows, blocks))
        return ShardCoordinates(self.engine, self.rows, self._parts, C, regularizer, blocks)

    def row_sample(self, C: float, regularizer: SquaredNorm) -> RowSample:
        """See :class:`maxmargin.core.contract.row_duals.RowDualRisk`."""
        return Sample(self.rows, C, regularizer)

    def _divide(self, n_shards: int) -> None:
        """Replace the shards by that many, each with runs of rows from all over the data, in memory."""
        n, n_runs = self.rows.n, min(self.rows.n, n_shards * RUNS)
        runs = self._in_ranges([k * n // n_runs for k in range(n_runs + 1)])
        self._parts = [tuple(runs[k::n_shards]) for k in range(n_shards)]
        self.n_blocks = self._pins.n_shards = n_shards
        parts = [RunsPart(self.rows, own) for own in self._parts]
        self.engine.open(partial(make_block, self.rows.shared_part()), parts)

    @property
    def run(self) -> Run:
        """Calls functions in this process, at the same time if the engine has threads here."""
        return self.engine.run if isinstance(self.engine, TaskEngine) else in_order
