"""Planes of few rows each, of which points are combinations: the part that risks over functions of a kernel
with sampled cuts have in common.

Every plane is a short sum of kernel functions, g = sum_j coef_j k(z_j, .), with one coefficient per output.
For each plane, its rows, its coefficients and its scores at all known rows are stored,

    s(x_i) = sum_j coef_j k(z_j, x_i)         n r kernel values, the only ones ever needed

Then a point f = sum_k c_k g_k needs no kernel values: its scores are sum_k c_k s_k, and |f|^2 = c'G c with
G_kl = <g_k, g_l> = sum_j coef_kj s_l(z_kj).

Columns k(z_j, .) of rows that were sampled before are reused while they fit in memory. Slots of planes
that the bundle has dropped are reused for new ones. Points that still need such a plane become planes
themselves, and so do aggregates of the bundle, which would need the slots of all their planes
(:meth:`SampledPlanes.tidy`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector, frozen, sparsify
from maxmargin.kernels import KernelRows
from maxmargin.risks.kernels.columns import HeldColumns
from maxmargin.risks.kernels.shard import Basis, PlanePart, PlaneShard

#: minimum and maximum number of planes held at a time
MIN_SLOTS, MAX_SLOTS = 48, 1000
#: slots kept free before an iteration: for its plane, a rejected plane, and points that become planes
SPARE = 7
#: maximum number of shards, and minimum number of rows of a shard
MAX_SHARDS, SHARD_ROWS = 32, 2048


class SampledPlanes:
    """Planes of sampled rows, their scores, and their inner products.

    Parameters
    ----------
    rows : KernelRows
        All rows.
    outputs : int
        Number of coefficients of a row.
    memory : int
        Bytes for scores of planes (at least 48 planes are always held) and cached kernel columns.
    n_free : int, default 0
        Number of unpenalized coordinates of a point, which follow the coefficients of planes.
    engine : Engine, optional
        The engine: the calling thread or several threads.
    """

    oracle: OracleKind = "sampled"
    lower_bound = 0.0
    n_blocks = 1
    n_shards = 1
    regularizer: SquaredNorm
    _shard: type[PlaneShard] = PlaneShard

    def __init__(
        self,
        rows: KernelRows,
        outputs: int,
        memory: int,
        n_free: int = 0,
        engine: Engine | None = None,
    ) -> None:
        self._rows, self._outputs, self.n_all = rows, outputs, len(rows)
        self.engine: Engine = engine or SerialEngine()
        self.kernel_values = 0
        # half for the scores of planes, half for kernel columns
        each, half = rows.dtype.itemsize, memory // 2
        per_plane = max(1, self.n_all * each * outputs)
        self._slots = int(np.clip(half // per_plane, MIN_SLOTS, MAX_SLOTS))
        n_columns = self._begin(min(self.n_all, half // max(1, each * self.n_all)))
        self._held = HeldColumns(n_columns)
        self.dim = self._slots + n_free
        self._gram: Array = np.zeros((self._slots, self._slots))
        #: by slot: the rows of a plane, ascending, and their coefficients
        self._planes: dict[int, tuple[IntArray, Array]] = {}

    def _begin(self, n_columns: int) -> int:
        """Open the shards; return how many kernel columns they may cache."""
        #: rows known to the shards, in their order
        self._known: IntArray = np.arange(self.n_all)
        self._open(n_columns)
        return n_columns

    def _open(self, n_columns: int) -> None:
        n_shards = int(np.clip(self.n_all // SHARD_ROWS, 1, MAX_SHARDS))
        bounds = [round(k * self.n_all / n_shards) for k in range(n_shards + 1)]
        parts = [self._part(slice(lo, hi), n_columns) for lo, hi in pairwise(bounds)]
        self.engine.open(self._shard, parts)
        self.n_shards = n_shards

    def _part(self, rows: IntArray | slice, n_columns: int) -> PlanePart:
        return PlanePart(self._rows.take(rows), self._outputs, self._slots, n_columns)

    def _times_gram(self, u: Array) -> Array:
        out = np.zeros(len(u))
        m = max(self._planes, default=-1) + 1
        out[:m] = self._gram[:m, :m] @ u[:m]
        return out

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(numbered_planes=self)

    def _combined(self, factors: Array) -> tuple[IntArray, Array]:
        used = [int(k) for k in np.flatnonzero(factors)]
        if not used:
            return np.empty(0, dtype=np.int64), np.zeros((0, self._outputs))
        return _summed([(self._planes[k][0], factors[k] * self._planes[k][1]) for k in used])

    # -- planes ----------------------------------------------------------------------------------------

    def _new_plane(self, ids: IntArray, coef: Array) -> int:
        """Store a plane of these rows."""
        slot = self._free_slot()
        order = np.argsort(ids, kind="stable")
        ids, coef = ids[order], coef[order]
        columns, held, keep = self._held.places(ids)
        front = np.concatenate([np.flatnonzero(held), np.flatnonzero(~held)])
        fresh = ids[~held]
        basis = Basis(
            columns, int(held.sum()), self._rows.take(fresh), coef[front].astype(self._rows.dtype)
        )
        scores = np.concatenate(self.engine.gather(PlaneShard.add_plane, slot, basis))
        self._held.keep(fresh[:keep], columns[basis.n_held :])
        self.kernel_values += len(fresh) * len(self._known)
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

    def _free_slot(self) -> int:
        free = sorted(set(range(self._slots)).difference(self._planes))
        if not free:
            raise RuntimeError("all slots for planes are taken: call tidy() in time.")
        return free[0]

    def tidy(self, state: Any) -> None:
        """Free slots between two iterations, if there are too few, by dropping unused planes.

        Points that are combinations become planes themselves, and then one aggregate of the bundle after
        another: each takes a slot and gives back those that only it needed. Both representations are valid,
        so Ctrl-C may come at any time.
        """
        state.dual = None  # it would not prove a bound
        bundle = state.memory
        needed = self._slots_of(bundle.planes)
        if not self._is_crowded(len(needed)):
            return
        before, state.w = state.w, self._as_plane(state.w)
        points = [state.w]
        for evaluation in self._evaluations():
            same = evaluation.w is before
            evaluation.rename(state.w if same else self._as_plane(evaluation.w))
            points.append(evaluation.w)
        self._keep(needed | self._slots_of(points))
        for j, plane in enumerate(bundle.planes):
            if len(self._slots_of([plane])) > 1:
                sparse = isinstance(plane, SparseVector)
                own = self._as_plane(plane.to_dense() if sparse else plane)
                one = sparsify(own) if sparse else own
                bundle.planes = [*bundle.planes[:j], one, *bundle.planes[j + 1 :]]
                self._keep(self._slots_of([*bundle.planes, *points]))

    def _slots_of(self, vectors: Iterable[Vector]) -> set[int]:
        """The slots that combinations use."""
        each = (v.indices if isinstance(v, SparseVector) else np.flatnonzero(v) for v in vectors)
        return {int(k) for where in each for k in where if k < self._slots}

    def _evaluations(self) -> Any:
        """All evaluations in use."""
        raise NotImplementedError

    def _keep(self, needed: set[int]) -> None:
        self._planes = {k: plane for k, plane in self._planes.items() if k in needed}

    def _is_crowded(self, n_needed: int) -> bool:
        """Whether unused planes must be dropped, with ``n_needed`` planes in the bundle."""
        return self._slots - len(self._planes) < SPARE

    def _as_plane(self, w: Array) -> Array:
        factors = w[: self._slots]
        if np.count_nonzero(factors) > 1:
            slot = self._free_slot()
            self._combine_into(slot, factors)
            w = np.concatenate([np.zeros(self._slots), w[self._slots :]])
            w[slot] = 1.0
        return frozen(w)

    def _combine_into(self, slot: int, factors: Array) -> None:
        plane = self._combined(factors)
        products = self._gram @ factors
        self.engine.gather(PlaneShard.mix_plane, slot, factors)
        products[slot] = float(factors @ products)
        self._gram[slot], self._gram[:, slot] = products, products
        self._planes = {**self._planes, slot: plane}


def _summed(planes: list[tuple[IntArray, Array]]) -> tuple[IntArray, Array]:
    """A sum of planes: its rows, ascending, and their coefficients."""
    rows, place = np.unique(np.concatenate([own for own, _ in planes]), return_inverse=True)
    parts = np.concatenate([coef for _, coef in planes])
    columns = [np.bincount(place, part, len(rows)) for part in parts.T]
    return rows, np.stack(columns, axis=1)
