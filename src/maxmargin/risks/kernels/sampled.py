"""Score risks over functions of a kernel with sampled planes, for
:class:`maxmargin.solvers.SampledCuts`.

    R(f, b) = sum_i s_i loss(y_i, f(x_i) + b)         f a function of the kernel's space, b free or none

Planes, points, and their scores are those of :mod:`maxmargin.risks.kernels.planes`; a point is the short
vector of the c_k, followed by b. (Compare :mod:`maxmargin.risks.scores.wide`, where planes contain all rows
and features are explicit.)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import Array, IntArray, SparseVector
from maxmargin.kernels import KernelRows
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import ClassTerms, DualTerms
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

    def gradient(self) -> tuple[float, Array]:
        """Offset and derivative of the loss, of all known rows."""
        if self._gradient is None:
            self._gradient = self._risk.gradient(self)
        return self._gradient

    def terms(self, trial: Any, examples: IntArray | None = None) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        return self._risk.terms(self, trial, examples)

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
        self.regularizer = GramNorm(
            free=np.arange(self._slots, self.dim),
            free_bound=self._free_bound(C),
            times_gram=self._times_gram,
        )

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
        self, at: SampledKernelEvaluation, trial: Any, examples: IntArray | None = None
    ) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        offset, gradient = at.gradient()
        scores, here, scale = self.scores(trial), self._known, 1.0
        if examples is not None:
            scale = len(here) / max(1, len(examples))
            gradient, scores, here = gradient[examples], scores[examples], here[examples]
            offset = float(offsets_of(self._loss, gradient, self._y[here]).sum())
        free, shape = trial.w[self._slots :], (len(here), self._outputs)
        scores, g = scores.reshape(shape), gradient.reshape(shape)
        if len(free):
            scores = scores - free
            offset += float(g.sum(axis=0) @ free)
        pulls = scale * np.einsum("ik,ik->i", g, scores)
        return Terms(scale * offset, pulls, g.any(axis=1) & (self._diagonal[here] > 0.0))

    def sampled_cut(self, at: SampledKernelEvaluation, draw: Draw, whole: bool) -> Cut:
        """A new plane from the sampled examples, in its own slot."""
        offset, gradient = at.gradient()
        g = gradient.reshape(len(self._known), self._outputs)
        own, factors = g[draw.examples], draw.factors
        if whole:
            free = g.sum(axis=0)
        else:
            factors = factors * (len(self._known) / max(1, len(draw.examples)))
            y = self._y[self._known[draw.examples]]
            offset = float(factors @ offsets_of(self._loss, gradient[draw.examples], y))
            free = factors @ own
        coef = factors[:, None] * own
        there = coef.any(axis=1)
        slot = self._new_plane(self._known[draw.examples[there]], coef[there])
        n_free = self.dim - self._slots
        where = np.array([slot, *range(self._slots, self.dim)])
        return Cut(float(offset), SparseVector(where, np.array([1.0, *free[:n_free]]), self.dim))

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


def require_hinge(loss: ScoreLoss, y: Any) -> None:
    """Raise TypeError unless offsets follow from derivatives, see :func:`offsets_of`."""
    terms = loss.dual_terms(y[:1])
    hinge = isinstance(terms, DualTerms) and (
        (terms.two_sided, terms.steepest, terms.curvature, terms.largest_demand)
        == (False, 1.0, 0.0, 1.0)
    )
    if not (hinge or isinstance(terms, ClassTerms)):
        raise TypeError(
            f"sampled cuts with a kernel are for the hinge loss of margin 1 and the Crammer-Singer loss, not "
            f"for {loss!r}."
        )
