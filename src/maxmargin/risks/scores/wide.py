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

If a worker dies, its rows' part of every plane is lost, and with it all points. Then the fit starts again
from zero (:mod:`maxmargin.solvers.wide_fit`). A checkpoint stores the columns of all shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.contract.row_duals import RowShape
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.stored_values import entries, floats, integers
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector, combine, frozen
from maxmargin.duals.rows import RowPart, Rows
from maxmargin.risks.lines.evaluation import PinnedEvaluation, ScoreCache
from maxmargin.risks.scores.wide_columns import (
    GramNorm,
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
    def shape(self) -> RowShape:
        """The size of the problem."""

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
        self.engine, self.shape = risk.engine, risk.shape
        # a non-decomposable loss needs all scores, of every slot, in one place: use one shard
        bounds = risk.bounds if rows.loss.decomposable else rows.ranges
        parts = [RowPart(rows, lo, hi) for lo, hi in bounds]
        self.engine.open(partial(make_shard, rows.shared_part()), parts)
        self._pins = self._cache()
        self._interrupted = False

    def _cache(self) -> ScoreCache:
        return ScoreCache(self.engine, self.n_blocks, partial(_SpanEvaluation, self))

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(numbered_planes=self, engine=self.engine)

    @property
    def dim(self) -> int:
        """Length of a point: the number of slots."""
        return self.columns.capacity

    @property
    def max_planes(self) -> int:
        """Maximum number of planes in a bundle."""
        return self.columns.max_planes

    @property
    def n_scores(self) -> int:
        """Number of scores of all rows."""
        return self.columns.size

    @property
    def n_mixes(self) -> int:
        """How many times slots were reassigned."""
        return self.columns.n_mixes

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
        slot = free[0]
        offset = float(self.engine.reduce(WideShard.column_gradient, slot, c))
        self._finish(slot)
        products = self.engine.reduce(WideShard.column_products, slot, self.columns.used)
        self.columns.add(slot, products)
        return Cut(offset, unit(slot, self.dim))

    def _finish(self, slot: int) -> None:
        rows = self._risk.rows
        if hasattr(rows.design, "kernel_dot"):  # may be cheaper than through the features
            coef = np.concatenate(self.engine.gather(WideShard.column_coef, slot))
            columns = rows.loss.n_outputs()
            g = coef if columns is None else coef.reshape(-1, columns)
            scores = rows.design.kernel_dot(g)
            scores += rows.intercept**2 * g.sum(axis=0)
            published = self.engine.publish(frozen(scores.reshape(-1)))
            self.engine.gather(WideShard.column_finish_scores, slot, published)
            return
        total = self.engine.reduce(WideShard.column_plane, slot).plane
        plane = total.to_dense() if isinstance(total, SparseVector) else total
        plane.setflags(write=False)  # publishing a read-only array needs no copy
        self.engine.gather(WideShard.column_finish, slot, self.engine.publish(plane))

    def weights(self, c: Array) -> Array:
        """The weights that a point represents."""
        w: Array = self.engine.reduce(WideShard.combine_rows, mix_of(c))
        w.setflags(write=False)  # publishing a read-only array needs no copy
        return w

    def dual(self, dual: FeasibleDual) -> DualPoint:
        """The dual point in feature space: one plane, the sum of all."""
        if not isinstance(dual, DualPoint):
            raise TypeError(
                f"a {type(dual).__name__} is not a dual point over planes at the shards."
            )
        return _one_plane(dual, self.weights(combine(dual.alpha, dual.planes, self.dim)))

    # -- slots -----------------------------------------------------------------------------------------

    def tidy(self, state: Any) -> None:
        """Free slots between two iterations, if there are too few, by dropping unused columns.

        ``state`` is the solver's. The incumbent, the dual point and the bundle are expressed in slots and are
        rewritten. Ctrl-C is delayed until that is done, and raised by the next evaluation.
        """
        if len(self.columns.free()) >= 2:
            return
        bundle: Bundle = state.memory
        evaluations = self._pins.with_scores()
        total = combine(state.dual.alpha, state.dual.planes, self.dim)
        n, points = len(bundle.planes), [e.w for e in evaluations]
        step, after = tidied([*bundle.planes, total, state.w, *points], self.dim)
        dual, number = _one_plane(state.dual, after[n]), self.n_mixes + 1
        while True:
            try:
                if self.n_mixes < number:
                    self.engine.gather(WideShard.columns_mix, number, step.kept, step.mixed)
                    self.columns.mix(step)
                bundle.planes = after[:n]
                state.w, state.dual = after[n + 1], dual
                for evaluation, point in zip(evaluations, after[n + 2 :], strict=True):
                    evaluation.rename(np.asarray(point))
                return
            except KeyboardInterrupt:
                self._interrupted = True

    # -- warm starts and checkpoints -------------------------------------------------------------------

    def columns_state(self) -> dict[str, Any]:
        """The columns of all shards, as plain arrays: slots, and a row of coefficients and scores of each."""
        used, size = self.columns.used, self.columns.size
        columns = np.empty((2, len(used), size))
        for k, slot in enumerate(used):
            parts = self.engine.gather(WideShard.column_read, slot)
            np.concatenate(parts, axis=1, out=columns[:, k])
        return {"slots": np.array(used, dtype=np.int64), "coef": columns[0], "scores": columns[1]}

    def restore_columns(self, state: dict[str, Any]) -> None:
        """Continue with columns of a checkpoint or of an earlier fit."""
        slots, coef, scores = entries(state, "slots", "coef", "scores")
        slots = integers(slots, "the slots of planes", (None,), below=self.dim)
        shape = len(slots), self.columns.size
        coef, scores = (floats(part, "planes", shape) for part in (coef, scores))
        if len(set(slots.tolist())) < len(slots) or len(slots) > self.dim - 2:
            raise ValueError("some slots have two planes, or none is free for another one.")
        for k, slot in enumerate(slots.tolist()):
            column = self.engine.publish(np.array([coef[k], scores[k]]))
            self.engine.gather(WideShard.column_write, slot, column)
        self.columns.restore(slots, coef, scores)
        self._require_own(slots)

    def _require_own(self, slots: IntArray) -> None:
        """Raise ValueError unless the planes have the scores that were stored: one pass over the data."""
        mix = slots, np.ones(len(slots))
        w = self.engine.publish(self.engine.reduce(WideShard.combine_rows, mix))
        length, error = self.engine.reduce(WideShard.column_errors, mix, w)
        if not error <= 1e-12 * length:
            raise ValueError("the planes are those of other data.")

    def forget(self) -> None:
        """Drop all columns, and what shards of which some were rebuilt still have."""
        self.columns = self.columns.emptied()
        self._pins = self._cache()
        self.engine.gather(WideShard.columns_forget)

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


def _one_plane(dual: DualPoint, total: Vector) -> DualPoint:
    return DualPoint((total,), np.array([float(dual.offsets @ dual.alpha)]), np.ones(1), dual.base)
