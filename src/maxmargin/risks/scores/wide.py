"""Score risks with planes that stay at the shards, for more features than the driver can hold.

Every plane of R(w) = L(X w) is a combination of rows, a_j = X'g_j with g_j the loss' derivative, and every
point a cutting-plane solver visits is a combination of planes. A shard stores two numbers per row and plane:
g_j and the scores s_j = X a_j. At the driver, a point is the short vector c of its coefficients:

    w = sum_j c_j a_j      R(w) = L(sum_j c_j s_j)      |w|^2 = c'G c,   G_ij = <a_i, a_j> = <g_i, s_j>

So evaluating a point takes no pass over the data and no long vector is sent. A new plane, at c, takes one
pass:

    g = L'(sum_j c_j s_j)   at the shards
    a = X'g                 one vector of the length of w, summed over the shards and published again
    s = X a, <g_i, s>       at the shards; the short products are the new row of G

These are as many products as with explicit planes, but vectors as long as w occur one at a time, and the
driver keeps none. (A feature matrix that computes its features may provide X X'g without such a vector:
``kernel_dot``. Then g is sent to the driver, and the scores back: two vectors with one entry per row.) At the
end w = X'(sum_j c_j g_j) is computed and evaluated, and so is the dual point's sum of planes. So the
certificate is that of the problem in feature space.

Planes are numbered by slots. When all slots are used, planes that the bundle has dropped are removed, and the
few combinations that points still need become columns themselves (:meth:`WideScoreRisk.tidy`). So
shards store up to 16 bytes per row and slot.

The columns of a shard are a function of the steps that made them: the points where cuts were computed. The
driver remembers these. A rebuilt shard repeats them, together with all other shards, since a_j is
a sum over all of them. The operations are the same, so the results are bit-identical. A lost shard therefore
costs up to all passes so far.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.contract.wide import PlaneColumns
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, SparseVector, Vector, combine, frozen
from maxmargin.duals.rows import RowPart, Rows
from maxmargin.risks.lines.evaluation import MAX_RESTORES, TOO_OFTEN, PinnedEvaluation, ScoreCache
from maxmargin.risks.lines.shard import LostScores
from maxmargin.risks.scores.wide_columns import (
    CutStep,
    GramNorm,
    Mix,
    MixStep,
    WideColumns,
    mix_of,
    planes_that_fit,
    tidied,
    unit,
)
from maxmargin.risks.scores.wide_shard import WideShard, make_shard


class RowsRisk(Protocol):
    """The part of a score risk that is needed here."""

    @property
    def rows(self) -> Rows:
        """The rows."""

    @property
    def engine(self) -> Engine:
        """The engine that holds the shards."""

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The rows of each shard."""

    @property
    def n_blocks(self) -> int:
        """Number of shards whose losses are summed."""

    def open(self) -> None:
        """Build the shards of the risk."""


class WideScoreRisk:
    """A :class:`maxmargin.risks.ScoreRisk` whose points are combinations of its planes.

    Parameters
    ----------
    risk : ScoreRisk
        The risk; this object uses its engine until :meth:`close`.
    regularizer : SquaredNorm
        The regularizer, which must penalize all weights.
    max_planes : int, optional
        Maximum number of planes in a bundle; by default as many as fit in 2 GB.
    """

    oracle: OracleKind = "exact"
    has_cache = False
    lower_bound = 0.0

    def __init__(
        self, risk: RowsRisk, regularizer: SquaredNorm, max_planes: int | None = None
    ) -> None:
        rows = risk.rows
        if len(regularizer.free) or len(regularizer.nonnegative):
            raise TypeError(
                "space='rows' requires that all weights are penalized and of either sign: use "
                "CuttingPlane(space='features')."
            )
        if rows.offset is not None or rows.ranges != ((0, rows.design.shape[0]),):
            raise TypeError("space='rows' requires a risk over all rows, without an offset.")
        self._risk = risk
        size = rows.n * rows.n_columns
        self.columns = WideColumns(size, max_planes or planes_that_fit(size))
        self.n_examples, self.n_blocks = rows.n, risk.n_blocks
        self.regularizer = GramNorm(times_gram=lambda u: self.columns.times_gram(u))
        self.engine = risk.engine
        # a non-decomposable loss needs all scores, of every slot, in one place: use one shard
        bounds = risk.bounds if rows.loss.decomposable else rows.ranges
        parts = [RowPart(rows, lo, hi) for lo, hi in bounds]
        self.engine.open(partial(make_shard, rows.light()), parts)
        self._pins = ScoreCache(
            self.engine,
            self.n_blocks,
            partial(_SpanEvaluation, self),
            tell=self._restore,
            told=lambda: len(self.columns.steps),
        )
        self._interrupted = False

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(
            numbered_planes=self,
            kept_planes=self,
            engine=self.engine,
            expensive_slopes=self._risk.rows.loss.expensive_slopes,
        )

    @property
    def dim(self) -> int:
        """Length of a point: the number of slots."""
        return self.columns.capacity

    # -- points and planes -----------------------------------------------------------------------------

    def evaluate(self, w: Array, *, exact: bool = True) -> PinnedEvaluation:
        """Evaluate by combining the planes' scores: no pass over the data."""
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        return self._pins.evaluate(w)

    def cut_at(self, c: Array) -> Cut:
        """The cut at a point, as a new column: one pass over the data."""
        free = self.columns.free()
        if not free:
            raise RuntimeError("all slots for planes are taken: call tidy() in time.")
        slot, at = free[0], mix_of(c)
        offset, products = self._until_told(lambda: self._make(len(self.columns.steps), slot, at))
        self.columns.add(CutStep(slot, at, offset), products)
        return Cut(offset, unit(slot, self.dim))

    def _make(self, step: int, slot: int, at: Mix) -> tuple[float, Array]:
        offset = float(self.engine.reduce(WideShard.column_gradient, step, slot, self._point(at)))
        self._finish(step, slot)
        n_slots = max([slot, *self.columns.used]) + 1
        return offset, self.engine.reduce(WideShard.column_products, slot, n_slots)

    def _finish(self, step: int, slot: int) -> None:
        rows = self._risk.rows
        if hasattr(rows.design, "kernel_dot"):  # may be cheaper than through the features
            coef = np.concatenate(self.engine.gather(WideShard.column_coef, step, slot))
            columns = rows.loss.n_outputs()
            g = coef if columns is None else coef.reshape(-1, columns)
            scores = rows.design.kernel_dot(g)
            scores += rows.intercept**2 * g.sum(axis=0)
            published = self.engine.publish(frozen(scores.reshape(-1)))
            self.engine.gather(WideShard.column_finish_scores, step, slot, published)
            return
        total = self.engine.reduce(WideShard.column_plane, step, slot).plane
        plane = total.to_dense() if isinstance(total, SparseVector) else total
        plane.setflags(write=False)  # publishing a read-only array needs no copy
        self.engine.gather(WideShard.column_finish, step, slot, self.engine.publish(plane))

    def _point(self, mix: Mix) -> Array:
        c = np.zeros(self.dim)
        c[mix[0]] = mix[1]
        return c

    def weights(self, c: Array) -> Array:
        """The weights that a point represents."""
        mix = mix_of(c)
        told = len(self.columns.steps)  # later steps may reassign slots
        w: Array = self._until_told(lambda: self.engine.reduce(WideShard.combine_rows, told, mix))
        w.setflags(write=False)  # publishing a read-only array needs no copy
        return w

    def dual(self, dual: FeasibleDual) -> DualPoint:
        """The dual point in feature space: one plane, the sum of all."""
        if not isinstance(dual, DualPoint):
            raise TypeError(
                f"a {type(dual).__name__} is not a dual point over planes at the shards."
            )
        return _one_plane(dual, self.weights(combine(dual.alpha, dual.planes, self.dim)))

    # -- rebuilt shards --------------------------------------------------------------------------------

    def _until_told(self, ask: Callable[[], Any]) -> Any:
        for _ in range(MAX_RESTORES):
            try:
                return ask()
            except LostScores:
                self._restore()
        try:
            return ask()
        except LostScores as error:
            error.add_note(TOO_OFTEN)
            raise

    def _restore(self) -> None:
        """Make rebuilt shards repeat all steps."""
        for again in range(MAX_RESTORES):
            try:
                self._take_steps()
                return
            except LostScores as error:  # another shard was rebuilt in the meantime
                if again == MAX_RESTORES - 1:
                    error.add_note(TOO_OFTEN)
                    raise

    def _take_steps(self) -> None:
        steps = self.columns.steps
        taken = self.engine.gather(WideShard.steps_taken)
        first = min(taken)
        if first == len(steps):
            return
        if len({type(step) for step in steps[first : max(taken)]}) > 1:
            # the others have dropped columns that the rebuilt shard needs
            self.engine.gather(WideShard.columns_forget)
            first = 0
        for number, step in enumerate(steps):
            if number < first:
                continue
            if isinstance(step, MixStep):
                self.engine.gather(WideShard.columns_mix, number, step.kept, step.mixed)
                continue
            found = self.engine.reduce(
                WideShard.column_gradient, number, step.slot, self._point(step.at)
            )
            if float(found) != step.offset:
                raise RuntimeError(
                    "stored planes belong to other data, or rebuilt shards compute different numbers: "
                    f"the offset of plane {number} was {step.offset!r} and is {found!r}."
                )
            self._finish(number, step.slot)

    # -- slots -----------------------------------------------------------------------------------------

    def tidy(self, state: Any) -> None:
        """Free slots between two iterations, if there are too few, by dropping unused columns.

        ``state`` is the solver's. The incumbent, the dual point and the bundle are expressed in slots and are
        rewritten. Ctrl-C is delayed until that is done, and raised by the next evaluation.
        """
        if len(self.columns.free()) >= 2:
            return
        bundle: Bundle = state.memory
        if not self.engine.durable:  # frames of an error that is over may still hold evaluations
            gc.collect()
        evaluations = self._pins.settled()
        total = combine(state.dual.alpha, state.dual.planes, self.dim)
        n, points = len(bundle.planes), [e.w for e in evaluations]
        step, after = tidied([*bundle.planes, total, state.w, *points], self.dim)
        dual = _one_plane(state.dual, after[n])
        while True:
            try:
                if self.columns.steps[-1] is not step:
                    self.columns.mix(step)
                self._restore()  # makes the shards take the new step
                bundle.planes = after[:n]
                state.w, state.dual = after[n + 1], dual
                for evaluation, point in zip(evaluations, after[n + 2 :], strict=True):
                    evaluation.rename(np.asarray(point))
                return
            except KeyboardInterrupt:
                self._interrupted = True

    # -- warm starts and checkpoints -------------------------------------------------------------------

    def keep(self) -> list[Any] | None:
        """The shards' columns for a later fit, if the shards are in this process; otherwise None."""
        if not self.engine.durable:
            return None
        return self.engine.gather(
            WideShard.columns_keep, len(self.columns.steps), self.columns.used
        )

    def take(self, columns: PlaneColumns, kept: list[Any] | None) -> None:
        """Continue with the columns of an earlier fit."""
        if not isinstance(columns, WideColumns):
            raise TypeError(f"a {type(columns).__name__} is not a record of planes at the shards.")
        self.columns = columns
        if kept is not None and self.engine.durable:
            self.engine.gather(WideShard.columns_take, kept)

    def columns_state(self) -> dict[str, Any]:
        """The record of how the columns were made, as plain arrays for a checkpoint."""
        return self.columns.state()

    def restore_columns(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint; the shards take all steps with the first call."""
        columns = WideColumns.from_state(state)
        if (columns.size, columns.capacity) != (self.columns.size, self.columns.capacity):
            raise ValueError(
                f"the checkpoint has {columns.size} scores and {columns.capacity} slots for planes; this "
                f"problem has {self.columns.size} and {self.columns.capacity}."
            )
        if len(columns.free()) < 2:
            raise ValueError("the checkpoint has no free slot for another plane.")
        self.columns = columns

    def require_columns(self, vectors: Sequence[Vector]) -> None:
        """Raise ValueError unless points and planes from a file are combinations of existing columns."""
        used = set(self.columns.used)
        if not all(used.issuperset(mix_of(v)[0].tolist()) for v in vectors):
            raise ValueError("points or planes refer to columns that do not exist.")

    def close(self) -> None:
        """Return the engine to the risk in feature space."""
        self._risk.open()


class _SpanEvaluation(PinnedEvaluation):
    """An evaluation whose cuts are columns."""

    def __init__(self, risk: WideScoreRisk, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._span = risk

    def cut(self) -> Cut:
        """The cut that is tight here."""
        return self._span.cut_at(self.w)

    def cuts(self) -> list[Cut]:
        """Not supported: one slack per shard would need one product each."""
        raise TypeError("space='rows' requires slacks='one'.")


def _one_plane(dual: DualPoint, total: Vector) -> DualPoint:
    return DualPoint((total,), np.array([float(dual.offsets @ dual.alpha)]), np.ones(1), dual.base)
