"""Enumerable outputs: the oracle, and dual coordinate ascent over candidates.

Example i has the rows ``starts[i] .. starts[i+1]-1`` of a matrix, one per candidate; ``truth[i]`` is the true
output. With l_j the loss of candidate j and rho_j = 1 (margin rescaling) or l_j (slack rescaling), its plane
and its value at w are

    p_j  =  rho_j (x_j - x_truth)            g_j  =  l_j + <w, p_j>           (g_truth = 0)

The dual variables alpha_j >= 0 of an example sum to its cap, and w = - sum alpha_j p_j. Every candidate has a
dual variable; most are zero. The *held* candidates (``used`` >= 0) are those that a sweep without the oracle
visits. A visit solves the small problem of one example over its held candidates
(:mod:`maxmargin.compiled.simplex`). They are few, so their Gram matrix is computed on the fly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, inlined, leaf
from maxmargin.compiled.simplex import simplex_gap, solve_simplex_at

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: a visit ends when the gap of the example has dropped to this fraction of its initial value
INNER_SHARE = 1e-1
#: ... or below this fraction of its cap, where rounding dominates
INNER_FLOOR = 1e-14
MAX_PAIR_STEPS = 1000


class Candidates(NamedTuple):
    """The candidates of all examples, stacked (CSR)."""

    indptr: IntArray
    indices: npt.NDArray[Any]
    data: npt.NDArray[Any]
    starts: IntArray
    truth: IntArray
    loss: FloatArray
    rho: FloatArray


class Held(NamedTuple):
    """Caps and gaps of the examples; dual variables and last use (-1: not held) of the candidates."""

    caps: FloatArray
    gaps: FloatArray
    alpha: FloatArray
    used: IntArray


class Scratch(NamedTuple):
    """Scratch arrays for one visit; ``dense`` is zero between visits."""

    dense: FloatArray
    members: IntArray
    g: FloatArray
    alpha: FloatArray
    before: FloatArray
    distances: FloatArray


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
def clear_row(c: Candidates, out: FloatArray, row: int) -> None:
    """Set ``out`` to zero where x_row has entries."""
    for p in range(c.indptr[row], c.indptr[row + 1]):
        out[np.uint64(c.indices[p])] = 0.0


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


@leaf
def gather_members(c: Candidates, held: Held, i: int, members: IntArray) -> Any:
    """The true output, then the held candidates of example i; returns their number."""
    members[0] = c.truth[i]
    m = 1
    for row in range(c.starts[i], c.starts[i + 1]):
        if held.used[row] >= 0:
            members[m] = row
            m += 1
    return m


@leaf
def member_values(c: Candidates, held: Held, w: FloatArray, m: int, room: Scratch) -> None:
    """Dual variables and values of the members, true output first."""
    truth = room.members[0]
    own = row_dot(c, w, truth)
    room.g[0] = 0.0
    room.alpha[0] = held.alpha[truth]
    for k in range(1, m):
        row = room.members[k]
        room.g[k] = c.loss[row] + c.rho[row] * (row_dot(c, w, row) - own)
        room.alpha[k] = held.alpha[row]


@leaf
def fill_distances(c: Candidates, m: int, room: Scratch) -> None:
    """Squared distances of the planes of the members, m per row."""
    D, truth = room.distances, room.members[0]
    for k in range(m):
        D[k] = 0.0
        D[k * m] = 0.0
    for j in range(1, m):
        row = room.members[j]
        add_row(c, room.dense, row, c.rho[row])
        add_row(c, room.dense, truth, -c.rho[row])
        own = row_dot(c, room.dense, truth)
        for k in range(1, m):
            other = room.members[k]
            D[j * m + k] = c.rho[other] * (row_dot(c, room.dense, other) - own)
        clear_row(c, room.dense, row)
        clear_row(c, room.dense, truth)
    for j in range(1, m):  # |p - q|^2 expanded; clipped, because rounding may make it negative
        D[j] = D[j * m] = max(0.0, D[j * m + j])
    for j in range(1, m):
        for k in range(1, m):
            if j != k:
                D[j * m + k] = max(0.0, D[j] + D[k] - 2.0 * D[j * m + k])
    for j in range(1, m):
        D[j * m + j] = 0.0


@leaf
def step(c: Candidates, held: Held, w: FloatArray, i: int, m: int, room: Scratch) -> Any:
    """Solve the problem of one example over its members and update w; returns the gap before the step."""
    alpha, g = room.alpha[:m], room.g[:m]
    gap = simplex_gap(alpha, g)
    if gap <= 0.0:
        return gap
    fill_distances(c, m, room)
    for k in range(m):
        room.before[k] = alpha[k]
    tol = max(INNER_SHARE * gap, INNER_FLOOR * held.caps[i])
    solve_simplex_at(alpha, g, room.distances, 0, m, tol, MAX_PAIR_STEPS)
    back = 0.0
    for k in range(1, m):
        row = room.members[k]
        change = (alpha[k] - room.before[k]) * c.rho[row]
        if change != 0.0:
            add_row(c, w, row, -change)
            back += change
        held.alpha[row] = alpha[k]
    held.alpha[room.members[0]] = alpha[0]
    if back != 0.0:
        add_row(c, w, room.members[0], back)
    return gap


@entry
def stream_sweep(
    c: Candidates,
    held: Held,
    room: Scratch,
    w: FloatArray,
    order: IntArray,
    skip_below: float,
    tick: int,
) -> Any:
    """Visit the examples with the oracle; returns (calls, new candidates, sum of gaps at the visits)."""
    calls, added, total = 0, 0, 0.0
    for i in order:
        if held.caps[i] > 0.0 and held.gaps[i] >= skip_below:
            calls += 1
            worst, _ = worst_row(c, w, i)
            if worst != c.truth[i]:
                added += held.used[worst] < 0
                held.used[worst] = tick
            m = gather_members(c, held, i, room.members)
            member_values(c, held, w, m, room)
            held.gaps[i] = step(c, held, w, i, m, room)
            for k in range(1, m):
                if held.alpha[room.members[k]] > 0.0:
                    held.used[room.members[k]] = tick
        total += held.gaps[i]
    return calls, added, total


@entry
def epoch_sweep(c: Candidates, held: Held, room: Scratch, w: FloatArray, order: IntArray) -> Any:
    """The same steps over held candidates only; returns the sum of gaps at the visits."""
    total = 0.0
    for i in order:
        if held.caps[i] > 0.0:
            m = gather_members(c, held, i, room.members)
            if m > 1:
                member_values(c, held, w, m, room)
                total += step(c, held, w, i, m, room)
    return total


@entry
def confirm_range(
    c: Candidates, held: Held, room: Scratch, w: FloatArray, lo: int, rows: IntArray, tick: int
) -> None:
    """Add the oracle's candidates for the examples from ``lo`` and update their gaps."""
    for k in range(rows.size):
        i = lo + k
        if held.caps[i] > 0.0:
            if rows[k] != c.truth[i]:
                held.used[rows[k]] = tick
            m = gather_members(c, held, i, room.members)
            member_values(c, held, w, m, room)
            held.gaps[i] = simplex_gap(room.alpha[:m], room.g[:m])
            for j in range(1, m):
                if held.alpha[room.members[j]] > 0.0:
                    held.used[room.members[j]] = tick
