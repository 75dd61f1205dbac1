"""The risk of :mod:`maxmargin.risks.kernels.sampled` over the samples drawn last.

It starts without rows. With m of the n rows held, it is the risk of these, each with weight n / m: an
estimate, not a bound. Rows are dropped when they were not in any of the last few samples, so an iteration
costs the same however many rows there are and however many iterations came before. Kernel values are
computed between sampled rows only: a new row needs one for every row of a plane, a new plane one for every
row held.

Inner products of a new plane with the others need no kernel values, since its own rows are held:
<g, g_k> = sum_j coef_j s_k(z_j), with s_k the stored scores of plane k.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels import KernelRows
from maxmargin.kernels.functions import FloatMatrix
from maxmargin.risks.kernels.planes import SPARE, SampledPlanes
from maxmargin.risks.kernels.sampled import SampledKernelRisk
from maxmargin.risks.kernels.shard import TILE, KernelPart, PlaneShard
from maxmargin.risks.lines.evaluation import PinnedEvaluation


class GrowingPlanes(SampledPlanes):
    """Planes whose scores are known at the rows sampled last."""

    def _begin(self, n_columns: int) -> int:
        self._known: IntArray = np.empty(0, dtype=np.int64)
        self._places: IntArray = np.full(self.n_all, -1)
        #: by place: the number of the last sample that had the row
        self._last: IntArray = np.empty(0, dtype=np.int64)
        self._n_samples = 0
        return 0  # rows differ from plane to plane, so caching columns does not pay

    def _exchange(self, kept: IntArray, new: IntArray) -> None:
        """Hold the rows at the places ``kept`` and the rows ``new``."""
        first = not len(self._known)
        planes = self._scores_of_planes(self._rows.take(new))
        self._places[self._known] = -1
        self._known = np.concatenate([self._known[kept], new])
        self._last = np.concatenate([self._last[kept], np.full(len(new), self._n_samples)])
        self._places[self._known] = np.arange(len(self._known))
        part = self._part(self._known, 0)
        if first:
            self.engine.open(self._shard, [part])
        else:
            self.engine.gather(self._shard.exchange, part, kept, planes)

    # -- planes ----------------------------------------------------------------------------------------

    def _scores_of_planes(self, rows: KernelRows) -> FloatMatrix:
        """Scores of all planes at new rows, one row per plane."""
        n, k = len(rows), self._outputs
        if not self._planes or not n:
            return np.zeros((max(self._planes, default=-1) + 1, n * k), rows.dtype)
        ids = np.unique(np.concatenate([own for own, _ in self._planes.values()]))
        coef = self._coefficients(ids)
        self.kernel_values += n * len(ids)
        scores: Array = np.zeros((coef.shape[0], n))
        for lo in range(0, len(ids), TILE):
            basis = self._rows.take(ids[lo : lo + TILE])
            scores += coef[:, lo : lo + TILE] @ basis.block(rows)
        by_plane = scores.reshape(-1, k, n).transpose(0, 2, 1).reshape(-1, n * k)
        return np.ascontiguousarray(by_plane, dtype=rows.dtype)

    def _coefficients(self, ids: IntArray) -> sp.csc_array:
        """The coefficients of all planes: one row per plane and output, one column per row of a plane."""
        k = self._outputs
        where, at, values = [], [], []
        for slot, (own, coef) in self._planes.items():
            there = np.searchsorted(ids, own)
            where.append(np.repeat(slot * k + np.arange(k), len(own)))
            at.append(np.tile(there, k))
            values.append(coef.T.ravel())
        shape = ((max(self._planes) + 1) * k, len(ids))
        entries = np.concatenate(values).astype(self._rows.dtype)
        return sp.csc_array((entries, (np.concatenate(where), np.concatenate(at))), shape=shape)

    def _add_products(self, slot: int, ids: IntArray, coef: Array, scores: Array) -> None:
        products = np.zeros(self._slots)
        planes = {**self._planes, slot: (ids, coef)}
        [there] = self.engine.gather(PlaneShard.planes_at, self._places[ids], max(planes) + 1)
        used = np.array(sorted(planes))
        products[used] = np.einsum("kij,ij->k", there[used], coef)
        self._gram[slot], self._gram[:, slot] = products, products
        self._planes = planes

    def _is_crowded(self, n_needed: int) -> bool:
        """Whether most planes are unused: new rows need kernel values for all of them."""
        return len(self._planes) > 2 * n_needed + SPARE or super()._is_crowded(n_needed)


class GrowingKernelRisk(GrowingPlanes, SampledKernelRisk):
    """A sum of hinge losses of a kernel's functions over the rows sampled last; parameters as for
    :class:`SampledKernelRisk`."""

    def _part(self, rows: IntArray | slice, n_columns: int) -> KernelPart:
        part = super()._part(rows, n_columns)
        return replace(part, weight=part.weight * (self.n_all / len(part.rows)))

    def evaluate(self, w: Array, *, exact: bool = True) -> PinnedEvaluation:
        """The risk of the rows held."""
        return self._pins.evaluate(w, is_upper=False)

    @property
    def offers(self) -> Capabilities:
        return replace(super().offers, growing=self)

    def extend(self, size: int, seed: int, held: int) -> IntArray:
        """See :class:`maxmargin.core.contract.sampled.GrowingRisk`."""
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.choice(self.n_all, min(size, self.n_all), replace=False, shuffle=False))
        self._n_samples += 1
        places = self._places[drawn]
        self._last[places[places >= 0]] = self._n_samples
        kept = np.flatnonzero(self._last > self._n_samples - held)
        self._exchange(kept, drawn[places < 0])
        return self._places[drawn]
