"""Enumerable outputs: the oracle, and its sweeps over working sets of planes.

Example i has the rows ``starts[i] .. starts[i+1]-1`` of a matrix, one per candidate; ``truth[i]`` is the true
output. With l_j the loss of candidate j and rho_j = 1 (margin rescaling) or l_j (slack rescaling), its plane
and its value at w are

    p_j  =  rho_j (x_j - x_truth)            g_j  =  l_j + <w, p_j>           (g_truth = 0)

Candidates that the oracle has returned are planes of :mod:`maxmargin.compiled.plane_sets`, whose key is the
number of the row plus 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, inlined, leaf
from maxmargin.compiled.plane_sets import PlaneSets, block_step, mark_used, put_plane

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Candidates(NamedTuple):
    """The candidates of all examples, stacked (CSR)."""

    indptr: IntArray
    indices: npt.NDArray[Any]
    data: npt.NDArray[Any]
    starts: IntArray
    truth: IntArray
    loss: FloatArray
    rho: FloatArray


@inlined
def row_dot(c: Candidates, w: FloatArray, row: int) -> Any:
    """<w, x_row>."""
    total = 0.0
    for p in range(c.indptr[row], c.indptr[row + 1]):
        total += np.float64(c.data[p]) * w[np.uint64(c.indices[p])]
    return total


@leaf
def add_row(c: Candidates, out: FloatArray, row: int, scale: float) -> None:
    """``out += scale x_row``."""
    for p in range(c.indptr[row], c.indptr[row + 1]):
        out[np.uint64(c.indices[p])] += scale * c.data[p]


@leaf
def worst_row(c: Candidates, w: FloatArray, i: int) -> Any:
    """(row, value) of the candidate with the largest value; the true output if none is positive."""
    own = row_dot(c, w, c.truth[i])
    at, top = c.truth[i], 0.0
    for row in range(c.starts[i], c.starts[i + 1]):
        if row != c.truth[i]:
            value = c.loss[row] + c.rho[row] * (row_dot(c, w, row) - own)
            if value > top:
                at, top = row, value
    return at, top


@entry
def oracle_range(
    c: Candidates, w: FloatArray, lo: int, hi: int, rows: IntArray, values: FloatArray
) -> None:
    """The most violating candidate of each of the examples ``lo .. hi-1``."""
    for i in range(lo, hi):
        rows[i - lo], values[i - lo] = worst_row(c, w, i)


@entry
def predict_range(c: Candidates, w: FloatArray, lo: int, hi: int, out: IntArray) -> None:
    """The index, within its example, of the candidate with the largest score; ties: the first."""
    for i in range(lo, hi):
        best, top = 0, -np.inf
        for row in range(c.starts[i], c.starts[i + 1]):
            score = row_dot(c, w, row)
            if score > top:
                best, top = row - c.starts[i], score
        out[i - lo] = best


@entry
def row_values(
    c: Candidates, w: FloatArray, rows: IntArray, owners: IntArray, out: FloatArray
) -> None:
    """Values of candidates, given with their examples."""
    last, own = -1, 0.0
    for k in range(rows.size):
        if owners[k] != last:
            last = owners[k]
            own = row_dot(c, w, c.truth[last])
        row = rows[k]
        out[k] = c.loss[row] + c.rho[row] * (row_dot(c, w, row) - own)


@entry
def add_planes(
    c: Candidates, rows: IntArray, owners: IntArray, weights: FloatArray, out: FloatArray
) -> None:
    """``out += sum_k weights_k p_k`` over candidates, given with their examples."""
    for k in range(rows.size):
        row, truth = rows[k], c.truth[owners[k]]
        scale = weights[k] * c.rho[row]
        if row != truth and scale != 0.0:
            add_row(c, out, row, scale)
            add_row(c, out, truth, -scale)


@inlined
def enter(c: Candidates, sets: PlaneSets, i: int, row: int, tick: int, scratch: FloatArray) -> Any:
    """Put a candidate into the working set of example i. Returns 1 if it was new, 0 if it was there or is the
    true output, -1 if there is no room."""
    truth, base = c.truth[i], sets.first[i]
    if row == truth:
        return 0
    for slot in range(base + 1, base + sets.counts[i]):
        if sets.key[slot] == row + 1:
            sets.used[slot] = tick
            return 0
    most = c.indptr[row + 1] - c.indptr[row] + c.indptr[truth + 1] - c.indptr[truth]
    full = sets.counts[i] == sets.room[i] or sets.fill[0] + most > sets.values.size
    if full or sets.fill[1] + most > sets.indices.size:
        return -1
    add_row(c, scratch, row, c.rho[row])
    add_row(c, scratch, truth, -c.rho[row])
    values, indices = np.empty(most), np.empty(most, sets.indices.dtype)
    size = 0
    for part in (row, truth):
        for p in range(c.indptr[part], c.indptr[part + 1]):
            at = np.uint64(c.indices[p])
            if scratch[at] != 0.0:
                values[size], indices[size] = scratch[at], c.indices[p]
                scratch[at] = 0.0
                size += 1
    put_plane(sets, i, indices[:size], values[:size], False, c.loss[row], row + 1, tick, scratch)
    return 1


@entry
def enter_range(
    c: Candidates, sets: PlaneSets, lo: int, rows: IntArray, tick: int, scratch: FloatArray
) -> Any:
    """Put one candidate into the working set of each example from ``lo``; returns for how many there was
    room."""
    for k in range(rows.size):
        if sets.caps[lo + k] > 0.0 and enter(c, sets, lo + k, rows[k], tick, scratch) < 0:
            return k
    return rows.size


@entry
def stream_sweep(
    c: Candidates,
    sets: PlaneSets,
    u: FloatArray,
    w: FloatArray,
    floor: FloatArray,
    order: IntArray,
    skip_below: float,
    tick: int,
    scratch: FloatArray,
) -> Any:
    """Visit the examples with the oracle, as long as there is room for new planes. Returns the number of
    examples visited, of calls and of new planes, and the sum of the gaps at the visits."""
    calls, added, total = 0, 0, 0.0
    for q in range(order.size):
        i = order[q]
        if sets.caps[i] > 0.0 and sets.gaps[i] >= skip_below:
            row, top = worst_row(c, w, i)
            new = enter(c, sets, i, row, tick, scratch)
            if new < 0:
                return q, calls, added, total
            calls, added = calls + 1, added + new
            mark_used(sets, i, tick)
            sets.gaps[i] = block_step(sets, u, w, floor, i, top)
            mark_used(sets, i, tick)
        total += sets.gaps[i]
    return order.size, calls, added, total
