"""Score risks seen from the rows: for many more features than rows.

Every plane of R(w) = L(X w) is a combination of rows, a = X'g with g the loss' derivative, and so is
every point a cutting-plane solver visits, w = X'b. A point is kept as the pair z = (b, s) of its
coefficients and its scores s = X w: two numbers per row instead of one per feature. Then

    R(w)         = L(s)                    no pass over the data
    <w, w'>      = <b, s'> = <s, b'>       the form (1/2) (<b, s'> + <s, b'>) on pairs
    plane at w   = (g, X X'g)              one transposed product and one product: the only pass

and combinations of pairs are pairs. So an iteration costs what it costs with explicit planes, one
product and one transposed product, but vectors of the length of w are only a passing thing: any number of
planes fits. (A design that computes its features may know X X'g without any such vector: ``kernel_dot``.)
At the end w = X'b is computed and evaluated, and so is the dual point's sum of planes
X'(sum_j alpha_j g_j): the certificate is that of the features.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.bundle import DualPoint
from maxmargin.core.cut import Cut
from maxmargin.core.protocols import OracleKind
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.summation import tree_sum
from maxmargin.core.vectors import Array, combine
from maxmargin.risks.lines import PinnedEvaluation, Pins
from maxmargin.risks.rows import Rows
from maxmargin.risks.score import ScoreRisk, ScoreShard


class PairNorm(SquaredNorm):
    """1/2 |w|^2 of points that are pairs."""

    def penalised(self, u: Array) -> Array:
        """The vector whose ordinary inner product with another pair is <w, w'>."""
        half = len(u) // 2
        return 0.5 * np.concatenate([u[half:], u[:half]])


class _SpanShard(ScoreShard):
    """Rows ``lo .. hi-1``; points are pairs."""

    def scores_at(self, w: Array) -> Array:
        n, columns = self._design.shape[0], self._loss.n_outputs()
        scores = w[len(w) // 2 :]
        if columns is not None:
            scores = scores.reshape(n, columns)
        return scores[self._lo : self._hi]

    def cut_of(self, scores: Array) -> Cut:
        """The derivative itself in place of a plane."""
        offset, gradient = self._loss.cut(scores, *self._labels)
        return Cut(offset, gradient.reshape(-1))

    def combine_rows(self, coef: Array) -> Array:
        """``X[lo:hi]' coef``, the constant feature included."""
        columns = self._loss.n_outputs()
        if columns is not None:
            coef = coef.reshape(-1, columns)
        return self.combined(coef[self._lo : self._hi])

    def row_scores(self, w: Array) -> Array:
        """The scores of a weight vector."""
        return super().scores_at(w).reshape(-1)


def _make_shard(rows: Rows, bounds: tuple[int, int]) -> _SpanShard:
    return _SpanShard(rows, *bounds)


class SpanRisk:
    """A :class:`maxmargin.risks.ScoreRisk` whose points are pairs of coefficients and scores.

    Parameters
    ----------
    risk : ScoreRisk
        The risk; its engine works for this one until :meth:`close`.
    regularizer : SquaredNorm
        What is penalised: everything.
    """

    oracle: OracleKind = "exact"
    has_cache = False
    lower_bound = 0.0

    def __init__(self, risk: ScoreRisk, regularizer: SquaredNorm) -> None:
        rows = risk.rows
        if len(regularizer.free) or len(regularizer.nonnegative):
            raise TypeError(
                "points as combinations of rows need every weight penalised and of either sign: use "
                "CuttingPlane(space='features')."
            )
        if rows.offset is not None or rows.ranges != ((0, rows.design.shape[0]),):
            raise TypeError(
                "points as combinations of rows need a risk over all rows, without an offset."
            )
        self._risk, self._size = risk, rows.n * rows.n_columns
        self.dim = 2 * self._size
        self.n_examples, self.n_columns, self.n_blocks = rows.n, rows.n_columns, risk.n_blocks
        self.nnz, self.smooth, self.dear_slopes = risk.nnz, risk.smooth, risk.dear_slopes
        self.regularizer = PairNorm()
        self.engine = risk.engine
        self.engine.open(partial(_make_shard, rows), risk.bounds)  # they see all rows' scores
        self._pins = Pins(self.engine, self.n_blocks, partial(_SpanEvaluation, self))

    def evaluate(self, w: Array, *, exact: bool = True) -> PinnedEvaluation:
        """Scores are part of the point: no pass."""
        return self._pins.evaluate(w)

    def pair(self, coef: Array) -> Array:
        """(b, X X'b): one pass."""
        rows = self._risk.rows
        if hasattr(
            rows.design, "kernel_dot"
        ):  # the design may know a shorter way than over features
            columns = rows.loss.n_outputs()
            b = coef if columns is None else coef.reshape(-1, columns)
            scores = rows.design.kernel_dot(b)
            scores += rows.intercept**2 * b.sum(axis=0)
            return np.concatenate([coef, scores.reshape(-1)])
        parts = self.engine.gather("row_scores", self.engine.publish(self.weights(coef)))
        return np.concatenate([coef, *parts])

    def weights(self, coef: Array) -> Array:
        """X'b; of a pair, that of its coefficients."""
        w: Array = self.engine.reduce("combine_rows", self.engine.publish(coef[: self._size]))
        w.setflags(write=False)  # then publishing it is no copy
        return w

    def dual(self, dual: DualPoint) -> DualPoint:
        """The dual point over explicit planes: one that adds them all up."""
        total = self.weights(combine(dual.alpha, dual.planes, self.dim))
        offset = np.array([float(dual.offsets @ dual.alpha)])
        return DualPoint((total,), offset, np.ones(1), dual.base)

    def close(self) -> None:
        """Give the engine back to the risk over features."""
        self._risk.open()


class _SpanEvaluation(PinnedEvaluation):
    """An evaluation whose cuts are pairs."""

    def __init__(self, risk: SpanRisk, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._span = risk

    def cut(self) -> Cut:
        """The cut that is tight here."""
        parts = self.ask_cut(gather=True)
        offset = float(tree_sum([part.offset for part in parts]))
        return Cut(offset, self._span.pair(np.concatenate([part.plane for part in parts])))

    def cuts(self) -> list[Cut]:
        """One slack per shard would need one product each."""
        raise TypeError("space='rows' goes with slacks='one'.")
