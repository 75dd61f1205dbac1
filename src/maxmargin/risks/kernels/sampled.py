"""Score risks over functions of a kernel with sampled planes, for
:class:`maxmargin.solvers.SampledCuts`.

    R(f, b) = sum_i s_i loss(y_i, f(x_i) + b)         f a function of the kernel's space, b free or none

Planes, points, and their scores are those of :mod:`maxmargin.risks.kernels.planes`; a point is the short
vector of the c_k, followed by b. (Compare :mod:`maxmargin.risks.scores.wide`, where planes contain all rows
and features are explicit.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.sampling import Draw, Terms, is_whole, spread_of
from maxmargin.core.vectors import Array, IntArray, SparseVector
from maxmargin.kernels import KernelRows
from maxmargin.losses.base import ScoreLoss
from maxmargin.risks.kernels.columns import (
    Bases,
    Drawn,
    gradient_of,
    pattern_of,
    require_hinge,
)
from maxmargin.risks.kernels.cut_by_row import CutByRow
from maxmargin.risks.kernels.planes import SampledPlanes
from maxmargin.risks.kernels.shard import KernelPart, KernelShard, offsets_of
from maxmargin.risks.lines.evaluation import PinnedEvaluation, ScoreCache, check_weights
from maxmargin.risks.lines.shard import LineShard
from maxmargin.risks.scores.wide_columns import GramNorm


class SampledKernelEvaluation(PinnedEvaluation):
    """An evaluation whose cuts are sampled."""

    def __init__(self, risk: SampledKernelRisk, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._risk = risk
        self._gradient: tuple[float, Array] | None = None
        #: set by :meth:`terms`: the plane whose change is sampled, the states of all rows, the population
        self.base: tuple[int, Drawn] | None = None
        self.pattern: Any = None
        self.drawn_from: Any = None

    def gradient(self) -> tuple[float, Array]:
        """Offset and derivative of the loss, of all known rows."""
        if self._gradient is None:
            self._gradient = self._risk.gradient(self)
        return self._gradient

    def terms(self, trial: Any, examples: IntArray | None = None) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        return self._risk.terms(self, trial, examples)

    def fresh_terms(self, trial: Any) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        return self._risk.terms(self, trial, None, afresh=True)

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        return self._risk.sampled_cut(self, draw, whole)


class SampledKernelRisk(SampledPlanes):
    """A sum of hinge losses of a kernel's functions, over combinations of sampled planes.

    Parameters
    ----------
    rows : KernelRows
        All samples.
    y : array
        Labels in the form that the loss expects.
    loss : Hinge or CrammerSinger
        The loss.
    C : float
        The C of the problem, which bounds the intercepts.
    weight : array, optional
        Weight of each sample.
    fit_intercept : bool, default True
        Whether to fit an unpenalized intercept for each output.
    memory : int, default 2**31
        Bytes for scores of planes (at least 48 planes are always held) and cached kernel columns.
    change : int, default 0
        If not 0, the number of rows to sample for a cut. Then the change of an earlier plane is
        sampled where that is better (:class:`maxmargin.risks.kernels.columns.Bases`).
    engine : Engine, optional
        The engine: the calling thread or several threads.

    Attributes
    ----------
    regularizer : GramNorm
        Half the squared norm of points.
    kernel_values : int
        Number of kernel values computed so far.
    """

    _shard = KernelShard

    def __init__(
        self,
        rows: KernelRows,
        y: Any,
        loss: ScoreLoss,
        C: float,
        *,
        weight: Any = None,
        fit_intercept: bool = True,
        memory: int = 2**31,
        change: int = 0,
        engine: Engine | None = None,
    ) -> None:
        self._y, self._loss = np.ascontiguousarray(y), loss
        loss.check_labels(self._y)
        require_hinge(loss, self._y)
        self._weight = check_weights(weight, len(rows))
        self._diagonal = np.sqrt(np.maximum(0.0, rows.diagonal()))
        k = loss.n_outputs() or 1
        super().__init__(rows, k, memory, k if fit_intercept else 0, engine)
        self.n_columns, self.n_examples = k, self.n_all
        self._pins = ScoreCache(self.engine, self.n_shards, partial(SampledKernelEvaluation, self))
        self._bases = Bases(change) if change else None
        n_free = self.dim - self._slots
        self.regularizer = GramNorm(
            free=np.arange(self._slots, self.dim),
            free_bound=self._free_bound(C),
            times_gram=self._times_gram,
        )
        # the largest possible loss, and the largest possible norm of a plane
        apart = 1.0 if loss.n_outputs() is None else np.sqrt(2.0)
        self.ceiling = self.n_all * self._top() * float(self._weight.max(initial=0.0))
        self.radius = self.n_all * apart * float((self._weight * self._diagonal).max(initial=0.0))
        # the same including free coordinates, if they are sampled: for any row, sampled or not
        lengths = np.sqrt(self._diagonal**2 + 1.0) if n_free else self._diagonal
        self._spread = self.n_all * apart * float((self._weight * lengths).max(initial=0.0))

    def _part(self, rows: IntArray | slice, n_columns: int) -> KernelPart:
        own = super()._part(rows, n_columns)
        return KernelPart(
            own.rows,
            self._outputs,
            self._slots,
            n_columns,
            self._y[rows],
            self._weight[rows],
            self._loss,
        )

    def _evaluations(self) -> Any:
        return self._pins.with_scores()

    def _keep(self, needed: set[int]) -> None:
        super()._keep(needed)
        if self._bases is not None:
            self._bases.keep(needed)

    def _free_bound(self, C: float) -> float:
        """A bound on an optimal intercept: see ``free_bound`` of linear estimators."""
        radius = np.sqrt(2.0 * C * self._weight.sum()) * float(self._diagonal.max(initial=0.0))
        if self._loss.n_outputs() is None:
            return float(1.0 + radius)
        return float(0.5 * (self._outputs - 1) * (self._top() + np.sqrt(2.0) * radius))

    def _top(self) -> float:
        terms = self._loss.dual_terms(self._y[:1])
        return 1.0 if terms is None else terms.largest_demand

    # -- points ----------------------------------------------------------------------------------------

    def evaluate(self, w: Array, *, exact: bool = True) -> PinnedEvaluation:
        """Evaluate by combining the planes' scores: no kernel values."""
        return self._pins.evaluate(w)

    def expansion(self, w: Array) -> tuple[IntArray, Array, Array]:
        """(rows, coefficients, intercepts) of the function that a point represents."""
        rows, coef = self._combined(w[: self._slots])
        there = coef.any(axis=1)
        intercept = np.zeros(self._outputs)
        if self.dim > self._slots:
            intercept[:] = w[self._slots :]
        return rows[there], coef[there], intercept

    # -- planes ----------------------------------------------------------------------------------------

    def terms(
        self,
        at: SampledKernelEvaluation,
        trial: Any,
        examples: IntArray | None,
        afresh: bool = False,
    ) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        rows = self._by_row(at, trial, examples)
        terms, at.base = rows.terms(self.ceiling, self.radius), None
        if examples is not None and len(examples) < self.n_all:
            terms = replace(terms, spread=self._spread / np.sqrt(len(examples)))
        if self._bases is not None:
            at.pattern = pattern_of(at.gradient()[1])
            nothing = 0 if self._loss.n_outputs() is None else -1
            slot, base, allowance = self._bases.choose(at.pattern, nothing, afresh)
            if slot is not None:
                before = gradient_of(self._loss, base.pattern, self._y, self._weight)
                value = float(self._gram[slot] @ trial.w[: self._slots])
                terms = rows.changed(terms, before, value, base.spread)
                at.base = slot, base
            terms = replace(terms, allowance=allowance)
        at.drawn_from = terms
        return terms

    def _by_row(
        self, at: SampledKernelEvaluation, trial: Any, examples: IntArray | None
    ) -> CutByRow:
        offset, gradient = at.gradient()
        scores = self.scores(trial)
        own = self.scores(at) if trial is not at else scores
        here, scale = self._known, 1.0
        if examples is not None:
            scale = len(here) / max(1, len(examples))
            gradient, scores, own = gradient[examples], scores[examples], own[examples]
            here = here[examples]
        costs = offsets_of(self._loss, gradient, self._y[here])
        shape = (len(here), self._outputs)
        free = trial.w[self._slots :]
        lengths = self._diagonal[here]
        if examples is not None:
            offset = float(costs.sum())
            if len(free):  # free coordinates are sampled, too
                lengths = np.sqrt(lengths**2 + 1.0)
        bare = scores.reshape(shape) - free if len(free) else scores.reshape(shape)
        g = gradient.reshape(shape)
        return CutByRow(offset, costs, g, bare, own.reshape(shape), lengths, free, scale)

    def sampled_cut(self, at: SampledKernelEvaluation, draw: Draw, whole: bool) -> Cut:
        """A new plane from the sampled examples, in its own slot."""
        offset, gradient = at.gradient()
        g = gradient.reshape(len(self._known), self._outputs)
        examples, place = np.unique(draw.examples, return_inverse=True)
        factors: Array = np.bincount(place, draw.factors, len(examples)).astype(np.float64)
        change, base = g[examples], None
        if whole:
            free = g.sum(axis=0)
        else:
            factors *= len(self._known) / max(1, len(draw.examples))
            costs = offsets_of(self._loss, gradient[examples], self._y[self._known[examples]])
            offset, free = float(factors @ costs), factors @ change
        if at.base is not None:
            base, drawn = at.base
            y, weight = self._y[examples], self._weight[examples]
            change = change - gradient_of(self._loss, drawn.pattern[examples], y, weight)
        coef = factors[:, None] * change
        there = coef.any(axis=1)
        slot = self._new_plane(self._known[examples[there]], coef[there], base)
        if self._bases is not None:
            self._remember(slot, at, draw)
        n_free = self.dim - self._slots
        where = np.array([slot, *range(self._slots, self.dim)])
        return Cut(float(offset), SparseVector(where, np.array([1.0, *free[:n_free]]), self.dim))

    def _remember(self, slot: int, at: SampledKernelEvaluation, draw: Draw) -> None:
        assert self._bases is not None
        terms, m = at.drawn_from, len(draw.examples)
        before = 0.0 if at.base is None else at.base[1].error
        left = 0 if is_whole(draw, terms) else int(np.count_nonzero(terms.sizes))
        error = self._bases.error(before, left, max(1, m))
        self._bases.add(slot, Drawn(at.pattern, error, spread_of(draw, terms)))
        self._bases.spend(m)

    # -- evaluations -----------------------------------------------------------------------------------

    def scores(self, at: PinnedEvaluation) -> Array:
        """The scores of an evaluated point at the known rows."""
        point = at.point
        return np.concatenate(
            self._pins.ask((point,), LineShard.line_scores, point.key, gather=True)
        )

    def gradient(self, at: PinnedEvaluation) -> tuple[float, Array]:
        """Offset and derivative of the loss at an evaluated point."""
        point = at.point
        parts = self._pins.ask((point,), KernelShard.gradient, point.key, gather=True)
        return float(sum(offset for offset, _ in parts)), np.concatenate([g for _, g in parts])
