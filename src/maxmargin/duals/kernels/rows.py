"""Ranges of rows at which kernel values are computed, and a cache of kernel columns.

The duals maintain the scores of *active* rows. If a kernel value costs more than the memory for it, columns
k(., x_j) of rows that move repeatedly are cached for the active rows, within the memory limit. Then
another step costs a matrix-vector product instead of kernel values. Columns are stored in lots, one for
each step that added some. A column has a *slot*, the same in all ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.smo import gather
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels import KernelRows


class RowRange:
    """A contiguous range of rows; ``first`` is the index of its first row."""

    def __init__(self, rows: KernelRows, first: int, keep: bool) -> None:
        self._rows, self._first, self._keep = rows.keep() if keep else rows, first, keep
        self._lots: list[Any] = []
        self._active = np.arange(len(rows))
        self._here = self._rows

    def values(self, basis: KernelRows, coef: Array) -> Array:
        """sum_j coef_j k(., z_j) at all of these rows, in the precision of the basis."""
        return self._in(self._rows, basis.dtype).times(basis, coef)

    def activate(self, active: IntArray, dtype: npt.DTypeLike, kept: IntArray) -> None:
        """Make these rows active. The columns in the slots ``kept`` stay, as one lot."""
        here = self._own_rows(active)
        if len(kept):
            stay = np.searchsorted(self._active, here)
            lot = np.empty((len(here), len(kept)), dtype=dtype)
            self._gather(stay, kept, np.arange(len(kept)), lot)
            self._lots = [lot]
        else:
            self._lots = []
        self._active = here
        rows = self._rows if len(here) == len(self._rows) else self._rows.take(here)
        self._here = rows if rows.dtype == dtype else self._in(rows, dtype)
        if self._keep:
            self._here.keep()

    def update(
        self,
        stored: KernelRows,
        held: Any,
        other: KernelRows,
        coef: Array,
        known: IntArray,
    ) -> Array:
        """The change of the active rows' scores. ``held`` has one coefficient per cached column, of which
        ``stored`` are a new lot; ``other`` columns are not cached. ``known`` rows need none of the latter."""
        rows = self._here if self._keep else self._in(self._here, other.dtype)
        if len(stored):
            self._lots.append(rows.block(stored))
        out, at = np.zeros(len(self._active)), 0
        for lot in self._lots:
            factors = held[at : at + lot.shape[1]]
            at += lot.shape[1]
            if factors.any():
                out += lot @ factors
        if len(other):
            missing = np.setdiff1d(self._active, self._own_rows(known), assume_unique=True)
            places = np.searchsorted(self._active, missing)
            few = rows if len(places) == len(rows) else rows.take(places)
            out[places] += few.times(other, coef)
        return out

    def block(
        self,
        chosen: IntArray,
        held: IntArray,
        slots: IntArray,
        new: KernelRows,
        columns: IntArray,
        out: Any,
    ) -> None:
        """Write kernel values of the chosen rows in this range to their rows of ``out``: columns ``held``
        come from slots; columns ``columns`` are computed, for those rows that are themselves among them."""
        here, lo = self._own_rows(chosen), int(np.searchsorted(chosen, self._first))
        mine = out[lo : lo + len(here)]
        if len(held) and len(here):
            self._gather(np.searchsorted(self._active, here), slots, held, mine)
        own = columns[(columns >= lo) & (columns < lo + len(here))] - lo
        if len(own) == 0:
            return
        rows = self._in(self._rows.take(here[own]), out.dtype)
        if len(held):
            mine[np.ix_(own, columns)] = rows.block(new)
        else:
            rows.block(new, out=mine)

    def _gather(self, rows: IntArray, slots: IntArray, columns: IntArray, out: Any) -> None:
        """Copy cached values of these rows (indices among the active ones) from slots to columns."""
        first = 0
        for lot in self._lots:
            which = (slots >= first) & (slots < first + lot.shape[1])
            if which.any():
                gather(lot, rows, slots[which] - first, columns[which], out)
            first += lot.shape[1]

    def _own_rows(self, rows: IntArray) -> IntArray:
        lo, hi = np.searchsorted(rows, (self._first, self._first + len(self._rows)))
        return rows[lo:hi] - self._first

    def _in(self, rows: KernelRows, dtype: npt.DTypeLike) -> KernelRows:
        if rows.dtype == dtype and self._keep:
            return rows
        return rows.in_precision(dtype)


class KernelColumns:
    """The active rows and the cached columns of all ranges.

    Parameters
    ----------
    risk : KernelRisk
        The risk that holds the rows.
    memory : int
        Bytes for cached columns.
    dtype : float32 or float64
        Precision of all cached values.
    """

    def __init__(self, risk: Any, memory: int, dtype: npt.DTypeLike) -> None:
        self._risk, self._memory, self.dtype = risk, memory, np.dtype(dtype)
        self.active: IntArray = np.arange(risk.n_examples)
        self._slot = np.full(risk.n_examples, -1)
        self._owner = np.empty(0, dtype=np.int64)
        self._buffer = np.empty(0, dtype=self.dtype)
        self.follow(self.active, np.zeros(risk.n_examples, dtype=bool))

    def follow(self, active: IntArray, worth: Any) -> None:
        """Make these rows active; keep the cached columns of rows marked in ``worth``."""
        capacity = int(self._memory // (self.dtype.itemsize * max(1, len(active))))
        inside = np.zeros(self._risk.n_examples, dtype=bool)
        inside[active] = True
        kept = np.flatnonzero(worth[self._owner] & inside[self._owner])[:capacity]
        if np.count_nonzero(inside[self.active]) < len(active):
            kept = kept[:0]  # some rows return, for which nothing is cached
        owner = self._owner[kept]
        self._risk.engine.gather(RowRange.activate, active, self.dtype, kept)
        self._slot[:] = -1
        self._slot[owner] = np.arange(len(owner))
        self._owner, self.active, self._capacity = owner, active, capacity

    def times(self, rows: IntArray, coef: Array, worth: Any, known: IntArray) -> Array:
        """The change of the active rows' scores: sum_j coef_j k(., x_j) over these rows. Columns marked in
        ``worth`` are cached from now on, as far as memory allows. (Results for ``known`` rows are
        arbitrary.)"""
        new = np.flatnonzero((self._slot[rows] < 0) & worth[rows])
        new = new[: max(0, self._capacity - len(self._owner))]
        self._slot[rows[new]] = len(self._owner) + np.arange(len(new))
        self._owner = np.concatenate([self._owner, rows[new]])
        slot = self._slot[rows]
        others, held = np.flatnonzero(slot < 0), np.zeros(len(self._owner), dtype=self.dtype)
        held[slot[slot >= 0]] = coef[slot >= 0]
        risk, n = self._risk, len(self.active)
        risk.kernel_values += n * len(new) + (n - len(known)) * len(others)
        stored, rest = (risk.rows(rows[which], self.dtype) for which in (new, others))
        return np.concatenate(
            risk.engine.gather(RowRange.update, stored, held, rest, coef[others], known)
        )

    def block(self, rows: IntArray) -> Any:
        """Kernel values of these active rows (ascending) with each other. The memory is reused by the next
        block: allocating it costs more than many kernel values."""
        size = len(rows) ** 2
        if size > len(self._buffer):
            self._buffer = np.empty(0, dtype=self.dtype)
            self._buffer = np.empty(size, dtype=self.dtype)
        K = self._buffer[:size].reshape(len(rows), len(rows))
        slot = self._slot[rows]
        held, columns = np.flatnonzero(slot >= 0), np.flatnonzero(slot < 0)
        risk = self._risk
        risk.kernel_values += len(columns) ** 2
        new = risk.rows(rows[columns], self.dtype)
        risk.engine.gather(RowRange.block, rows, held, slot[held], new, columns, K)
        if len(held) and len(columns):
            K[np.ix_(held, columns)] = K[np.ix_(columns, held)].T
        return K
