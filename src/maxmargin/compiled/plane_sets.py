"""Working sets of planes of any task: storage, block steps and sums (Ramanan's algorithm 2).

Example i holds planes p_i0 = 0 (the true output), p_i1, ... with offsets l_ij, dual variables alpha_ij >= 0
that sum to c_i, and squared distances:

    u     =  - sum_ij alpha_ij p_ij,          w = P(u): u clipped at the lower bounds of the weights
    g_ij  =  l_ij + <w, p_ij>                                                             (g_i0 = 0)
    gap_i =  c_i max_j g_ij - sum_j alpha_ij g_ij

The block step of an example solves its simplex problem on squared distances
(:mod:`maxmargin.compiled.simplex`) and updates u once. With bounded weights it increases a minorant of the
dual,

    1/2 |P(u + d)|^2  <=  1/2 |P(u)|^2 + <P(u), d> + 1/2 |d|^2,

so the dual itself never decreases.

Storage is flat. Example i has room for ``room[i]`` planes from slot ``first[i]``, where slot 0 is the true
output, and for their distances from ``first_distance[i]``, ``room[i]`` per row. The values of slot s are
``values[begin[s] : begin[s] + size[s]]``; their positions in w are ``indices[place[s] : place[s] +
size[s]]``, or 0 .. size - 1 if ``place[s]`` is -1 (a dense plane). ``key[s]`` is the caller's identifier of
the output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import (
    entry,
    entry_products,
    inlined,
    inlined_in_order,
    inlined_products,
    leaf,
)
from maxmargin.compiled.simplex import FloatArray, simplex_gap, solve_simplex_at

IntArray = npt.NDArray[np.int64]
Indices = npt.NDArray[Any]  # int32 if w is short enough, else int64

#: a visit ends when the gap of the example has dropped to this fraction of its initial value ...
INNER_SHARE = 1e-2
#: ... or below this fraction of c_i, where rounding dominates
INNER_FLOOR = 1e-14
MAX_PAIR_STEPS = 1000
#: dual variables are rescaled when their sum deviates from the cap by more than this fraction
DRIFT = 1e-14


class PlaneSets(NamedTuple):
    """Planes of all examples. ``fill`` holds the used lengths of ``values`` and ``indices``."""

    caps: FloatArray
    gaps: FloatArray
    counts: IntArray
    room: IntArray
    first: IntArray
    first_distance: IntArray
    alpha: FloatArray
    loss: FloatArray
    used: IntArray
    key: IntArray
    begin: IntArray
    size: IntArray
    place: IntArray
    distances: FloatArray
    values: FloatArray
    indices: Indices
    fill: IntArray


@inlined_in_order
def sparse_product(values: FloatArray, indices: Indices, v: FloatArray) -> Any:
    """Sum of ``values[k] * v[indices[k]]``."""
    total = 0.0
    for k in range(values.size):
        total += values[k] * v[np.uint64(indices[k])]
    return total


@inlined_products
def product(sets: PlaneSets, slot: int, v: FloatArray) -> Any:
    """<v, p>."""
    begin, size, place = sets.begin[slot], sets.size[slot], sets.place[slot]
    values = sets.values[begin : begin + size]
    if place >= 0:
        return sparse_product(values, sets.indices[place : place + size], v)
    total = 0.0
    for k in range(size):
        total += values[k] * v[k]
    return total


@inlined
def add_plane(sets: PlaneSets, slot: int, scale: float, u: FloatArray) -> None:
    """``u += scale * p``."""
    begin, size, place = sets.begin[slot], sets.size[slot], sets.place[slot]
    values = sets.values[begin : begin + size]
    if place < 0:
        for k in range(size):
            u[k] += scale * values[k]
    else:
        indices = sets.indices[place : place + size]
        for k in range(size):
            u[np.uint64(indices[k])] += scale * values[k]


@inlined
def clip_plane(sets: PlaneSets, slot: int, u: FloatArray, w: FloatArray, floor: FloatArray) -> None:
    """``w = P(u)`` where the plane is nonzero."""
    size, place = sets.size[slot], sets.place[slot]
    for k in range(size):
        at = k if place < 0 else np.int64(sets.indices[place + k])
        w[at] = max(u[at], floor[at])


@inlined
def gradients(sets: PlaneSets, i: int, w: FloatArray, g: FloatArray) -> None:
    """g_j of all planes of one example."""
    base = sets.first[i]
    g[0] = 0.0
    for j in range(1, sets.counts[i]):
        g[j] = sets.loss[base + j] + product(sets, base + j, w)


@inlined
def block_step(
    sets: PlaneSets,
    u: FloatArray,
    w: FloatArray,
    floor: FloatArray,
    i: int,
    top: float,
) -> Any:
    """Solve the simplex problem of example i and update u. Returns its gap before the step, given the
    oracle's value ``top``."""
    base, m = sets.first[i], sets.counts[i]
    alpha = sets.alpha[base : base + m]
    g = np.empty(m)
    gradients(sets, i, w, g)
    cap = 0.0
    best = 0.0
    for j in range(m):
        cap += alpha[j]
        best = max(best, g[j])
    gap = simplex_gap(alpha, g)
    if gap > 0.0:
        before = alpha.copy()
        solve_simplex_at(
            alpha,
            g,
            sets.distances,
            sets.first_distance[i],
            sets.room[i],
            max(INNER_SHARE * gap, INNER_FLOOR * cap),
            MAX_PAIR_STEPS,
        )
        for j in range(1, m):
            if alpha[j] != before[j]:
                add_plane(sets, base + j, before[j] - alpha[j], u)
        if floor.size > 0:
            for j in range(1, m):
                if alpha[j] != before[j]:
                    clip_plane(sets, base + j, u, w, floor)
    return gap + cap * max(0.0, top - best)


@leaf
def mark_used(sets: PlaneSets, i: int, tick: int) -> None:
    """Mark planes with a nonzero dual variable as used."""
    base = sets.first[i]
    for j in range(sets.counts[i]):
        if sets.alpha[base + j] > 0.0:
            sets.used[base + j] = tick


@entry
def visit(
    sets: PlaneSets,
    u: FloatArray,
    w: FloatArray,
    floor: FloatArray,
    i: int,
    top: float,
    tick: int,
) -> Any:
    """The block step of one example, given the oracle's value ``top`` at this w. Returns its gap."""
    mark_used(sets, i, tick)
    sets.gaps[i] = block_step(sets, u, w, floor, i, top)
    mark_used(sets, i, tick)
    return sets.gaps[i]


@entry
def epoch_sweep(
    sets: PlaneSets,
    u: FloatArray,
    w: FloatArray,
    floor: FloatArray,
    order: IntArray,
) -> Any:
    """Block steps over ``order`` without the oracle. Returns the sum of the gaps over the held planes."""
    total = 0.0
    for q in range(order.size):
        i = order[q]
        if sets.caps[i] > 0.0 and sets.counts[i] > 1:
            total += block_step(sets, u, w, floor, i, 0.0)
    return total


@entry
def confirm_range(
    sets: PlaneSets, w: FloatArray, lo: int, hi: int, values: FloatArray, tick: int
) -> None:
    """Gaps of the examples ``lo .. hi-1`` at this w, given the oracle's ``values``."""
    for i in range(lo, hi):
        if sets.caps[i] == 0.0:
            continue
        mark_used(sets, i, tick)
        base, m = sets.first[i], sets.counts[i]
        g = np.empty(m)
        gradients(sets, i, w, g)
        top = values[i - lo]
        for j in range(m):
            top = max(top, g[j])
        gap = 0.0
        for j in range(m):
            gap += sets.alpha[base + j] * (top - g[j])
        sets.gaps[i] = gap


@inlined_products
def put_plane(
    sets: PlaneSets,
    i: int,
    indices: Indices,
    values: FloatArray,
    is_dense: bool,
    loss: float,
    key: int,
    tick: int,
    scratch: FloatArray,
) -> Any:
    """Add a plane to example i, which must have room. Returns its index, 0 if it is that of the true output.

    ``scratch`` has the size of w and is zero before and after. Distances are computed as
    |p - q|^2 = |p|^2 + |q|^2 - 2 <p, q> and clipped, because rounding may make them negative.
    """
    for k in range(values.size):
        scratch[np.uint64(k if is_dense else indices[k])] += values[k]
    norm = 0.0
    if is_dense:
        for k in range(values.size):
            norm += values[k] * scratch[k]
    else:
        norm = sparse_product(values, indices, scratch)
    base, m, stride = sets.first[i], sets.counts[i], sets.room[i]
    if norm > 0.0 or loss > 0.0:
        slot = base + m
        sets.begin[slot] = sets.fill[0]
        sets.size[slot] = values.size
        for k in range(values.size):
            sets.values[sets.fill[0] + k] = values[k]
        sets.fill[0] += values.size
        sets.place[slot] = -1
        if not is_dense:
            sets.place[slot] = sets.fill[1]
            for k in range(values.size):
                sets.indices[sets.fill[1] + k] = indices[k]
            sets.fill[1] += values.size
        sets.alpha[slot] = 0.0
        sets.loss[slot] = loss
        sets.used[slot] = tick
        sets.key[slot] = key
        d0 = sets.first_distance[i]
        sets.distances[d0 + m * stride + m] = 0.0
        for j in range(m):
            cross = 0.0
            if j > 0:
                cross = product(sets, base + j, scratch)
            d2 = max(0.0, norm + sets.distances[d0 + j * stride] - 2.0 * cross)
            sets.distances[d0 + m * stride + j] = d2
            sets.distances[d0 + j * stride + m] = d2
        sets.counts[i] = m + 1
    else:
        m = 0
    for k in range(values.size):
        scratch[np.uint64(k if is_dense else indices[k])] = 0.0
    return m


@entry_products
def insert(
    sets: PlaneSets,
    i: int,
    indices: Indices,
    values: FloatArray,
    is_dense: bool,
    loss: float,
    key: int,
    tick: int,
    scratch: FloatArray,
) -> Any:
    """The same as :func:`put_plane`."""
    return put_plane(sets, i, indices, values, is_dense, loss, key, tick, scratch)


@inlined
def copy_slot(old: PlaneSets, s: int, new: PlaneSets, t: int) -> None:
    """Copy the data of one slot, except its distances and values."""
    new.alpha[t] = old.alpha[s]
    new.loss[t] = old.loss[s]
    new.used[t] = old.used[s]
    new.key[t] = old.key[s]
    new.size[t] = old.size[s]


@entry
def repack(old: PlaneSets, new: PlaneSets) -> None:
    """Copy all planes into storage with more room, without the values of planes dropped since."""
    at_value = 0
    at_index = 0
    for i in range(old.caps.size):
        new.counts[i] = old.counts[i]
        for j in range(old.counts[i]):
            s, t = old.first[i] + j, new.first[i] + j
            copy_slot(old, s, new, t)
            new.begin[t] = at_value
            for k in range(old.size[s]):
                new.values[at_value + k] = old.values[old.begin[s] + k]
            at_value += old.size[s]
            new.place[t] = -1
            if old.place[s] >= 0:
                new.place[t] = at_index
                for k in range(old.size[s]):
                    new.indices[at_index + k] = old.indices[old.place[s] + k]
                at_index += old.size[s]
            row = old.first_distance[i] + j * old.room[i]
            row_new = new.first_distance[i] + j * new.room[i]
            for k in range(old.counts[i]):
                new.distances[row_new + k] = old.distances[row + k]
    new.fill[0] = at_value
    new.fill[1] = at_index


@entry
def drop_planes(sets: PlaneSets, oldest: int, dropped: IntArray) -> Any:
    """Remove planes with a zero dual variable last used before sweep ``oldest``.

    Their keys go to ``dropped``; returns their number. Their values stay in memory until the next repacking.
    """
    count = 0
    for i in range(sets.caps.size):
        base, m, stride = sets.first[i], sets.counts[i], sets.room[i]
        d0 = sets.first_distance[i]
        kept = 1
        for j in range(1, m):
            if sets.alpha[base + j] == 0.0 and sets.used[base + j] < oldest:
                dropped[count] = sets.key[base + j]
                count += 1
                continue
            if kept < j:
                copy_slot(sets, base + j, sets, base + kept)
                sets.begin[base + kept] = sets.begin[base + j]
                sets.place[base + kept] = sets.place[base + j]
                # In row-major order, writes stay behind reads.
                for k in range(m):
                    sets.distances[d0 + kept * stride + k] = sets.distances[d0 + j * stride + k]
                for k in range(m):
                    sets.distances[d0 + k * stride + kept] = sets.distances[d0 + k * stride + j]
            kept += 1
        for j in range(kept, m):
            sets.alpha[base + j] = 0.0
        sets.counts[i] = kept
    return count


@entry
def restart(sets: PlaneSets, u: FloatArray) -> Any:
    """Recompute u from the dual variables, rescaled to sum to c_i for each example. Returns sum alpha l."""
    for k in range(u.size):
        u[k] = 0.0
    offset = 0.0
    for i in range(sets.caps.size):
        base, m = sets.first[i], sets.counts[i]
        alpha = sets.alpha[base : base + m]
        total = 0.0
        for j in range(m):
            total += alpha[j]
        if total > 0.0 and abs(total - sets.caps[i]) > DRIFT * sets.caps[i]:
            for j in range(m):
                alpha[j] *= sets.caps[i] / total
        part = 0.0
        for j in range(1, m):
            if alpha[j] != 0.0:
                part += alpha[j] * sets.loss[base + j]
                add_plane(sets, base + j, -alpha[j], u)
        offset += part
    return offset
