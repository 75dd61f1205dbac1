"""Score risks over functions of a kernel with sampled planes, for
:class:`maxmargin.solvers.SampledCuts`.

    R(f, b) = sum_i s_i loss(y_i, f(x_i) + b)         f a function of the kernel's space, b free or none

Every plane is a short sum of kernel functions, g = sum_j coef_j k(z_j, .), over sampled rows z_j, and
every point is a combination of planes. For each plane, its rows, its coefficients and its scores at all
n rows are stored,

    s(x_i) = sum_j coef_j k(z_j, x_i)         n r kernel values, the only ones ever needed

Then a point f = sum_k c_k g_k needs no kernel values: its scores are sum_k c_k s_k, and |f|^2 = c'G c with
G_kl = <g_k, g_l> = sum_j coef_kj s_l(z_kj). A point is the short vector of the c_k, followed by b. (Compare
:mod:`maxmargin.risks.scores.wide`, where planes contain all rows and features are explicit.)

Columns k(z_j, .) of rows that were sampled before are reused while they fit in memory. Slots of planes
that the bundle has dropped are reused for new ones. Points that still need such a plane become planes
themselves (:meth:`SampledKernelRisk.tidy`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.core.sampling import Draw, Terms, is_whole, spread_of
from maxmargin.core.vectors import Array, IntArray, SparseVector, frozen
from maxmargin.kernels import KernelRows
from maxmargin.losses.base import ScoreLoss
from maxmargin.risks.kernels.columns import (
    Bases,
    Drawn,
    HeldColumns,
    gradient_of,
    pattern_of,
    require_hinge,
)
from maxmargin.risks.kernels.cut_by_row import CutByRow
from maxmargin.risks.kernels.shard import Basis, KernelPart, KernelShard, offsets_of
from maxmargin.risks.lines.evaluation import PinnedEvaluation, ScoreCache, check_weights
from maxmargin.risks.lines.shard import LineShard
from maxmargin.risks.scores.wide_columns import GramNorm

#: minimum and maximum number of planes held at a time
MIN_SLOTS, MAX_SLOTS = 48, 1000
#: slots kept free before an iteration: for its plane, a rejected plane, and points that become planes
SPARE = 7
#: maximum number of shards, and minimum number of rows of a shard
MAX_SHARDS, SHARD_ROWS = 32, 2048


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


class SampledKernelRisk:
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

    oracle: OracleKind = "sampled"
    lower_bound = 0.0
    n_blocks = 1

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
        self._rows, self._y, self._loss = rows, np.ascontiguousarray(y), loss
        loss.check_labels(self._y)
        require_hinge(loss, self._y)
        self.n_all = len(rows)
        self._weight = check_weights(weight, self.n_all)
        self._outputs = loss.n_outputs() or 1
        self.n_columns, self.n_examples = self._outputs, self.n_all
        self._diagonal = np.sqrt(np.maximum(0.0, rows.diagonal()))
        self.engine: Engine = engine or SerialEngine()
        self.kernel_values = 0
        self._pins = ScoreCache(self.engine, 1, partial(SampledKernelEvaluation, self))
        # half for planes (their scores and row states), half for kernel columns
        each, half = rows.dtype.itemsize, memory // 2
        per_plane = max(1, self.n_all * (each * self._outputs + 1))
        self._slots = int(np.clip(half // per_plane, MIN_SLOTS, MAX_SLOTS))
        n_columns = self._begin(min(self.n_all, half // max(1, each * self.n_all)))
        self._held = HeldColumns(n_columns)
        n_free = self._outputs if fit_intercept else 0
        self.dim = self._slots + n_free
        self._gram: Array = np.zeros((self._slots, self._slots))
        self._bases = Bases(change) if change else None
        #: by slot: the rows of a plane, ascending, and their coefficients
        self._planes: dict[int, tuple[IntArray, Array]] = {}
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

    def _begin(self, n_columns: int) -> int:
        """Open the shards; return how many kernel columns they may cache."""
        #: rows known to the shards, in their order
        self._known: IntArray = np.arange(self.n_all)
        self._open(n_columns)
        return n_columns

    def _open(self, n_columns: int) -> None:
        n_shards = int(np.clip(self.n_all // SHARD_ROWS, 1, MAX_SHARDS))
        bounds = [round(k * self.n_all / n_shards) for k in range(n_shards + 1)]
        parts = [
            KernelPart(
                self._rows.take(slice(lo, hi)),
                self._y[lo:hi],
                self._weight[lo:hi],
                self._loss,
                self._slots,
                n_columns,
            )
            for lo, hi in pairwise(bounds)
        ]
        self.engine.open(KernelShard, parts)
        self._pins.n_shards = n_shards

    def _free_bound(self, C: float) -> float:
        """A bound on an optimal intercept: see ``free_bound`` of linear estimators."""
        radius = np.sqrt(2.0 * C * self._weight.sum()) * float(self._diagonal.max(initial=0.0))
        if self._loss.n_outputs() is None:
            return float(1.0 + radius)
        return float(0.5 * (self._outputs - 1) * (self._top() + np.sqrt(2.0) * radius))

    def _top(self) -> float:
        terms = self._loss.dual_terms(self._y[:1])
        return 1.0 if terms is None else terms.largest_demand

    def _times_gram(self, u: Array) -> Array:
        out = np.zeros(len(u))
        m = max(self._planes, default=-1) + 1
        out[:m] = self._gram[:m, :m] @ u[:m]
        return out

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(numbered_planes=self)

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

    def _combined(self, factors: Array) -> tuple[IntArray, Array]:
        used = [int(k) for k in np.flatnonzero(factors)]
        if not used:
            return np.empty(0, dtype=np.int64), np.zeros((0, self._outputs))
        return _summed([(self._planes[k][0], factors[k] * self._planes[k][1]) for k in used])

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

    def _new_plane(self, ids: IntArray, coef: Array, base: int | None = None) -> int:
        """Store a plane of these rows, added to the plane ``base`` if there is one."""
        free = sorted(set(range(self._slots)).difference(self._planes))
        if not free:
            raise RuntimeError("all slots for planes are taken: call tidy() in time.")
        slot = free[0]
        order = np.argsort(ids, kind="stable")
        ids, coef = ids[order], coef[order]
        columns, held, keep = self._held.places(ids)
        front = np.concatenate([np.flatnonzero(held), np.flatnonzero(~held)])
        fresh = ids[~held]
        basis = Basis(
            columns, int(held.sum()), self._rows.take(fresh), coef[front].astype(self._rows.dtype)
        )
        scores = np.concatenate(self.engine.gather(KernelShard.add_plane, slot, basis, base))
        self._held.keep(fresh[:keep], columns[basis.n_held :])
        self.kernel_values += len(fresh) * len(self._known)
        if base is not None:
            ids, coef = _summed([self._planes[base], (ids, coef)])
        self._add_products(slot, ids, coef, scores)
        return slot

    def _add_products(self, slot: int, ids: IntArray, coef: Array, scores: Array) -> None:
        products = np.zeros(self._slots)
        planes = {**self._planes, slot: (ids, coef)}
        for k, (rows, own) in planes.items():
            products[k] = np.vdot(own, scores[rows])
        self._gram[slot], self._gram[:, slot] = products, products
        self._planes = planes

    # -- slots -----------------------------------------------------------------------------------------

    def tidy(self, state: Any) -> None:
        """Free slots between two iterations, if there are too few, by dropping unused planes.

        Planes of the bundle keep their slots. Points that are combinations become planes themselves. Both
        representations are valid, so Ctrl-C may come at any time.
        """
        state.dual = None  # it would not prove a bound
        needed = {int(k) for plane in state.memory.planes for k in _slots_of(plane, self._slots)}
        if not self._is_crowded(len(needed)):
            return
        state.w = self._as_plane(state.w, needed)
        for evaluation in self._pins.with_scores():
            evaluation.rename(self._as_plane(evaluation.w, needed))
        self._planes = {k: plane for k, plane in self._planes.items() if k in needed}
        if self._bases is not None:
            self._bases.keep(needed)

    def _is_crowded(self, n_needed: int) -> bool:
        """Whether unused planes must be dropped, with ``n_needed`` planes in the bundle."""
        return self._slots - len(self._planes) < SPARE

    def _as_plane(self, w: Array, needed: set[int]) -> Array:
        factors = w[: self._slots]
        used = np.flatnonzero(factors)
        if len(used) > 1:
            taken = needed.union(int(k) for k in used)
            slot = next(k for k in range(self._slots) if k not in taken and k not in self._planes)
            self._combine_into(slot, factors)
            w = np.concatenate([np.zeros(self._slots), w[self._slots :]])
            w[slot] = 1.0
            used = np.array([slot])
        needed.update(int(k) for k in used)
        return frozen(w)

    def _combine_into(self, slot: int, factors: Array) -> None:
        plane = self._combined(factors)
        products = self._gram @ factors
        self.engine.gather(KernelShard.mix_plane, slot, factors)
        products[slot] = float(factors @ products)
        self._gram[slot], self._gram[:, slot] = products, products
        self._planes = {**self._planes, slot: plane}

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


def _summed(planes: list[tuple[IntArray, Array]]) -> tuple[IntArray, Array]:
    """A sum of planes: its rows, ascending, and their coefficients."""
    rows, place = np.unique(np.concatenate([own for own, _ in planes]), return_inverse=True)
    parts = np.concatenate([coef for _, coef in planes])
    columns = [np.bincount(place, part, len(rows)) for part in parts.T]
    return rows, np.stack(columns, axis=1)


def _slots_of(plane: Any, n_slots: int) -> IntArray:
    where = plane.indices if isinstance(plane, SparseVector) else np.flatnonzero(plane)
    return np.asarray(where[where < n_slots], dtype=np.int64)
