"""Shards of :mod:`maxmargin.risks.kernels.sampled`: the planes' scores at some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray, Vector
from maxmargin.kernels import KernelRows
from maxmargin.kernels.functions import FloatMatrix
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import ClassTerms
from maxmargin.risks.lines.shard import LossShard

#: number of rows whose kernel values are held at a time
TILE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class PlanePart:
    """Rows of a shard, and its capacity for planes and kernel columns."""

    rows: KernelRows
    outputs: int
    slots: int
    n_columns: int


@dataclass(frozen=True, slots=True, eq=False)
class KernelPart(PlanePart):
    """The same with labels, weights, and a loss."""

    y: Any
    weight: Array
    loss: ScoreLoss


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """The rows z_j of a plane; those whose kernel columns the shards cache come first.

    ``columns`` are the places of all columns that are or will be cached: first those that are, then as many
    of the ``fresh`` ones as fit. ``coef`` has one row per z_j and one column per output.
    """

    columns: IntArray
    n_held: int
    fresh: KernelRows
    coef: FloatMatrix


class PlaneShard:
    """The scores of planes at some rows. Points are combinations of planes."""

    def __init__(self, part: PlanePart) -> None:
        self._slots, self._outputs = part.slots, part.outputs
        self._chunks, self._n = _tiles(part.rows), len(part.rows)
        self._planes: FloatMatrix = np.zeros((part.slots, self._n * self._outputs), part.rows.dtype)
        self._columns: FloatMatrix = np.zeros((part.n_columns, self._n), part.rows.dtype)

    def mixed(self, factors: Array) -> FloatMatrix:
        """The scores of a combination of planes."""
        return self._mixed(factors).reshape(self._n, self._outputs)

    def _mixed(self, factors: Array) -> FloatMatrix:
        used = np.flatnonzero(factors)
        last = int(used[-1]) + 1 if len(used) else 0
        here = self._planes[:last, : self._n * self._outputs]
        return np.asarray(factors[:last].astype(here.dtype) @ here)

    # -- planes ----------------------------------------------------------------------------------------

    def add_plane(self, slot: int, basis: Basis) -> Array:
        """Store and return the scores of a new plane."""
        out = np.empty((self._n, self._outputs), self._planes.dtype)
        held, start = basis.n_held, 0
        to_keep = basis.columns[held:]
        for chunk in self._chunks:
            here = slice(start, start + len(chunk))
            part = np.zeros((self._outputs, len(chunk)), self._planes.dtype)
            if len(basis.fresh):
                block = basis.fresh.block(chunk)
                part += basis.coef[held:].T @ block
                if len(to_keep):
                    self._columns[to_keep, here] = block[: len(to_keep)]
            if held:
                part += basis.coef[:held].T @ self._columns[basis.columns[:held], here]
            out[here] = part.T
            start += len(chunk)
        self._planes[slot, : out.size] = out.ravel()
        return out.astype(np.float64)

    def mix_plane(self, slot: int, factors: Array) -> None:
        """Store a combination of planes as a new plane."""
        mixed = self._mixed(factors)
        self._planes[slot, : len(mixed)] = mixed

    # -- other rows ------------------------------------------------------------------------------------

    def exchange(self, part: PlanePart, kept: IntArray, planes: FloatMatrix) -> None:
        """Hold other rows: first those of before at the places ``kept``, then new ones, with the scores of
        all planes there, one row per plane."""
        n_old, n_kept = self._n * self._outputs, len(kept) * self._outputs
        size = len(part.rows) * self._outputs
        old = self._planes[: len(planes), :n_old]
        if n_kept < n_old:
            old = old.reshape(len(planes), self._n, self._outputs)[:, kept].reshape(
                len(planes), n_kept
            )
        if size > self._planes.shape[1]:
            self._planes = np.zeros((self._slots, 2 * size), self._planes.dtype)
        self._planes[: len(planes), :n_kept] = old
        self._planes[: len(planes), n_kept:size] = planes
        self._chunks, self._n = _tiles(part.rows), len(part.rows)

    def planes_at(self, places: IntArray, n_planes: int) -> Array:
        """The scores of the first planes at some of the rows: planes by rows by outputs."""
        here = self._planes[:n_planes, : self._n * self._outputs]
        return here.reshape(n_planes, self._n, self._outputs)[:, places].astype(np.float64)


class KernelShard(LossShard, PlaneShard):
    """Some rows. Points are combinations of planes, then free coordinates: one per output, or none."""

    def __init__(self, part: KernelPart) -> None:
        LossShard.__init__(self)
        PlaneShard.__init__(self, part)
        self._loss, self._y, self._weight = part.loss, part.y, part.weight

    @property
    def _labels(self) -> tuple[Any, Any]:
        return self._y, self._weight

    @property
    def _offset(self) -> Array | None:
        return None

    def plane_of(self, gradient: Array) -> Vector:
        """Not used: planes are sampled."""
        raise NotImplementedError

    # -- points ----------------------------------------------------------------------------------------

    def scores_at(self, w: Array) -> Array:
        """The scores of a point; needs no kernel values."""
        scores = self._mixed(w[: self._slots]).astype(np.float64)
        free = w[self._slots :]
        if self._loss.n_outputs() is None:
            return scores + free[0] if len(free) else scores
        scores = scores.reshape(-1, self._outputs)
        return scores + free if len(free) else scores

    def gradient(self, key: int) -> tuple[float, Array]:
        """Offset and derivative of the loss at stored scores."""
        return self._loss.cut(self._at(key), *self._labels)

    def exchange(self, part: KernelPart, kept: IntArray, planes: FloatMatrix) -> None:  # type: ignore[override]
        """Hold other rows, with their labels."""
        super().exchange(part, kept, planes)
        self._y, self._weight = part.y, part.weight
        self._scores.clear()


def _tiles(rows: KernelRows) -> list[KernelRows]:
    """Tiles of a few rows each, which stay packed."""
    return [rows.take(slice(lo, lo + TILE)) for lo in range(0, len(rows), TILE)]


def offsets_of(loss: ScoreLoss, gradient: Array, y: Any) -> Array:
    """The contribution of each row to a cut's offset."""
    terms = loss.dual_terms(y)
    if isinstance(terms, ClassTerms):
        top = gradient.argmax(axis=1)
        rows = np.arange(len(y))
        out: Array = gradient[rows, top] * terms.cost[np.asarray(y, dtype=np.int64), top]
        return out
    return np.abs(gradient)


class AuditShard:
    """Rows at which a function of the kernel is evaluated in double precision."""

    def __init__(self, part: KernelPart) -> None:
        self._part = part

    def measure(self, basis: KernelRows, coef: Array, intercept: Array) -> tuple[float, Array]:
        """(the loss, the function without intercept) at the rows."""
        part = self._part
        scores = part.rows.times(basis, coef)
        moved = scores + intercept
        value = part.loss.value(
            moved[:, 0] if part.loss.n_outputs() is None else moved, part.y, part.weight
        )
        return value, scores
