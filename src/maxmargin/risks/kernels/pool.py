"""The risk of :mod:`maxmargin.risks.kernels.sampled` over a pool of samples that grows during the fit.

It starts without rows. After m of the n rows have been sampled, it is the risk of these, each with weight
n / m: an estimate, not a bound. Kernel values are computed between sampled rows only: a new row needs one for
every row in a plane, a new plane one for every row sampled so far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels import KernelRows
from maxmargin.kernels.functions import Block
from maxmargin.risks.kernels.sampled import SampledKernelRisk
from maxmargin.risks.kernels.shard import KernelPart, KernelShard
from maxmargin.risks.lines.evaluation import PinnedEvaluation


class GrowingKernelRisk(SampledKernelRisk):
    """A sum of hinge losses of a kernel's functions over the rows sampled so far; parameters as for
    :class:`SampledKernelRisk`."""

    def _begin(self, n_columns: int) -> int:
        self._known: IntArray = np.empty(0, dtype=np.int64)
        self._places: IntArray = np.full(self.n_all, -1)
        return 0  # rows differ from plane to plane, so caching columns does not pay

    def _place(self, ids: IntArray) -> IntArray:
        return self._places[ids]

    def evaluate(self, w: Array, *, exact: bool = True) -> PinnedEvaluation:
        """The risk of the rows sampled so far."""
        return self._pins.evaluate(w, is_upper=False)

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return replace(super().offers, growing=self)

    def extend(self, size: int, seed: int) -> IntArray:
        """See :class:`maxmargin.core.contract.requests.Extend`."""
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.choice(self.n_all, min(size, self.n_all), replace=False, shuffle=False))
        new = drawn[self._places[drawn] < 0]
        if len(new):
            self._take(new)
        return self._places[drawn]

    def _take(self, new: IntArray) -> None:
        rows, first = self._rows.take(new), not len(self._known)
        planes = self._scores_of_planes(rows)
        self._places[new] = np.arange(len(self._known), len(self._known) + len(new))
        self._known = np.concatenate([self._known, new])
        weight = self._weight[self._known] * (self.n_all / len(self._known))
        if first:
            part = KernelPart(rows, self._y[new], weight, self._loss, self._slots, 0)
            self.engine.open(KernelShard, [part])
        else:
            self.engine.gather(KernelShard.grow, rows, self._y[new], planes)
            self.engine.gather(KernelShard.weigh, weight)

    def _scores_of_planes(self, rows: KernelRows) -> Block:
        """Scores of all planes at new rows."""
        if not self._planes:
            return np.zeros((0, len(rows) * self._outputs), rows.dtype)
        ids = np.unique(np.concatenate([own for own, _ in self._planes.values()]))
        n_slots = max(self._planes) + 1
        coef = np.zeros((len(ids), n_slots, self._outputs))
        for k, (own, factors) in self._planes.items():
            coef[np.searchsorted(ids, own), k] = factors
        self.kernel_values += len(rows) * len(ids)
        scores = rows.times(self._rows.take(ids), coef.reshape(len(ids), -1))
        by_plane = scores.reshape(len(rows), n_slots, self._outputs).transpose(1, 0, 2)
        return np.ascontiguousarray(by_plane.reshape(n_slots, -1), dtype=rows.dtype)
