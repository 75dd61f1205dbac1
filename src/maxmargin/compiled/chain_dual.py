"""Working-set dual coordinate ascent on chains: the sweeps of Ramanan's algorithm 2, run in cycles.

Example i holds labellings y_i0 (the truth), y_i1, ... with multipliers alpha_ij >= 0 of sum c_i:

    w     =  sum_ij alpha_ij (Psi(y_i0) - Psi(y_ij))
    g_ij  =  Delta_ij + <w, Psi(y_ij) - Psi(y_i0)>                                       (g_i0 = 0)
    gap_i =  c_i max_j g_ij - sum_j alpha_ij g_ij

A visit of example i: ask Viterbi for its worst labelling at the present w and add it if it is new
(:func:`stream_sweep`; left out in :func:`epoch_sweep`), compute g, solve the small problem over
alpha_i by pair steps on squared distances (:mod:`maxmargin.compiled.simplex`), and write w once.

Everything that touches w visits only the tokens in which a labelling differs from the truth. With
p_j = Psi(y_j) - Psi(y_0), distances of a new plane come from one scatter of p_new into a vector of zeros,

    |p_new - p_k|^2  =  |p_new|^2 + |p_k|^2 - 2 <p_new, p_k>

which is exact for tokens that share features (integer features: to the last bit); a rounded zero may
come out as 1e-16 or be clipped at 0, and both make the pair step go to its bound, as it should.

Storage is that of :mod:`maxmargin.compiled.chain_planes`. A sweep that finds an example full returns early
with its position in the order; the caller makes room and goes on, so that a plane is never refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from maxmargin.compiled.chain import (
    PRODUCTS,
    Chains,
    FloatArray,
    IntArray,
    Labels,
    add_difference,
    add_losses,
    add_tail_difference,
    add_token,
    emission,
    emissions,
    path_loss,
    score_difference,
    tail_difference,
    viterbi,
)
from maxmargin.compiled.chain_planes import Planes, copy_labels, find, label_code, labelling
from maxmargin.compiled.simplex import simplex_gap, solve_simplex_at

#: a visit ends when the example's own gap fell to this share of what it was
INNER_SHARE = 1e-2
#: ... or below this share of c_i max(1, |g|), where rounding takes over
INNER_FLOOR = 1e-14
#: coefficients below this share of c_i are rounding left over from mass that moved in a circle
DUST = 1e-15


class Scratch(NamedTuple):
    """Room for one visit: T_max x K tables, K, T_max and dim vectors. ``vector`` and ``net`` are
    zero, and ``mark`` below ``stamp[0]``, between visits."""

    scores: FloatArray
    nodes: FloatArray
    net: FloatArray
    mark: IntArray
    stamp: IntArray
    pairs: IntArray
    best: FloatArray
    path: Labels
    vector: FloatArray


@njit(nogil=True, cache=True, error_model="numpy", fastmath=PRODUCTS)
def token_product(chains: Chains, token: int, plus: int, minus: int, v: FloatArray) -> Any:
    """<v, features of a token under label ``plus`` less those under ``minus``>."""
    K = chains.cost.shape[0]
    V = v[: chains.n_features * K].reshape(chains.n_features, K)
    total = 0.0
    for p in range(chains.indptr[token], chains.indptr[token + 1]):
        f = np.uint64(chains.indices[p])
        total += np.float64(chains.data[p]) * (V[f, plus] - V[f, minus])
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def plane_product(chains: Chains, first: int, T: int, y: Labels, z: Labels, v: FloatArray) -> Any:
    """<v, Psi(z) - Psi(y)>."""
    K = chains.cost.shape[0]
    total = 0.0
    for t in range(T):
        if y[t] != z[t]:
            total += token_product(chains, first + t, z[t], y[t], v)
    return total + tail_difference(v[chains.n_features * K :], K, T, y, z)


@njit(nogil=True, cache=True, error_model="numpy")
def clear_difference(
    chains: Chains, first: int, T: int, y: Labels, z: Labels, v: FloatArray
) -> None:
    """Zero what ``add_difference`` wrote. (Subtracting again would leave rounding behind.)"""
    K = chains.cost.shape[0]
    V = v[: chains.n_features * K].reshape(chains.n_features, K)
    for t in range(T):
        if y[t] != z[t]:
            for p in range(chains.indptr[first + t], chains.indptr[first + t + 1]):
                f = np.uint64(chains.indices[p])
                V[f, y[t]] = 0.0
                V[f, z[t]] = 0.0
    for k in range(chains.n_features * K, v.size):
        v[k] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def insert(chains: Chains, planes: Planes, scratch: Scratch, i: int, z: Labels, loss: float) -> Any:
    """Find or add labelling z of example i. Returns (plane, whether it is new); plane -1 if the
    example is full."""
    first = chains.starts[i]
    T = chains.starts[i + 1] - first
    code = label_code(z, T)
    j = find(planes, i, T, z, code)
    if j >= 0:
        return j, False
    m = planes.counts[i]
    stride = planes.room[i]
    if m == stride:
        return -1, False

    copy_labels(z, labelling(planes, i, m, T))
    base = planes.first_plane[i]
    planes.alpha[base + m] = 0.0
    planes.loss[base + m] = loss
    planes.code[base + m] = code
    planes.counts[i] = m + 1

    y = labelling(planes, i, 0, T)
    d0 = planes.first_distance[i]
    row = d0 + m * stride
    planes.distances[row + m] = 0.0
    add_difference(chains, first, T, y, z, 1.0, scratch.vector)
    norm = plane_product(chains, first, T, y, z, scratch.vector)
    for k in range(m):
        cross = plane_product(chains, first, T, y, labelling(planes, i, k, T), scratch.vector)
        d2 = max(0.0, norm + planes.distances[d0 + k * stride] - 2.0 * cross)
        planes.distances[row + k] = d2
        planes.distances[d0 + k * stride + m] = d2
    clear_difference(chains, first, T, y, z, scratch.vector)
    return m, True


@njit(nogil=True, cache=True, error_model="numpy")
def cached_scores(chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray, i: int) -> None:
    """Token scores of example i, only for the labels in which a plane differs from the truth."""
    first = chains.starts[i]
    T = chains.starts[i + 1] - first
    y = labelling(planes, i, 0, T)
    stamp = scratch.stamp[0] + 1
    scratch.stamp[0] = stamp
    for j in range(1, planes.counts[i]):
        z = labelling(planes, i, j, T)
        for t in range(T):
            if z[t] != y[t] and scratch.mark[t, z[t]] != stamp:
                scratch.mark[t, z[t]] = stamp
                scratch.scores[t, z[t]] = emission(chains, first + t, z[t], w)
                if scratch.mark[t, y[t]] != stamp:
                    scratch.mark[t, y[t]] = stamp
                    scratch.scores[t, y[t]] = emission(chains, first + t, y[t], w)


@njit(nogil=True, cache=True, error_model="numpy")
def gradients(chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray, i: int) -> Any:
    """g_ij of all planes of example i, from the token scores in ``scratch``."""
    K = chains.cost.shape[0]
    T = chains.starts[i + 1] - chains.starts[i]
    tail = w[chains.n_features * K :]
    y = labelling(planes, i, 0, T)
    base = planes.first_plane[i]
    m = planes.counts[i]
    g = np.empty(m)
    g[0] = 0.0
    for j in range(1, m):
        z = labelling(planes, i, j, T)
        g[j] = planes.loss[base + j] + score_difference(scratch.scores, tail, K, T, y, z)
    return g


@njit(nogil=True, cache=True, error_model="numpy")
def apply_change(
    chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray, i: int, change: FloatArray
) -> None:
    """``w += sum_j change_j (Psi(y_0) - Psi(y_j))``: one write for each token and label in which
    the net coefficient is not zero."""
    K = chains.cost.shape[0]
    first = chains.starts[i]
    T = chains.starts[i + 1] - first
    tail = w[chains.n_features * K :]
    y = labelling(planes, i, 0, T)
    stamp = scratch.stamp[0] + 1
    scratch.stamp[0] = stamp
    n_pairs = 0
    for j in range(1, change.size):
        a = change[j]
        if a == 0.0:
            continue
        z = labelling(planes, i, j, T)
        add_tail_difference(tail, K, T, y, z, -a)
        for t in range(T):
            if z[t] != y[t]:
                if scratch.mark[t, z[t]] != stamp:
                    scratch.mark[t, z[t]] = stamp
                    scratch.pairs[n_pairs] = t * K + z[t]
                    n_pairs += 1
                if scratch.mark[t, y[t]] != stamp:
                    scratch.mark[t, y[t]] = stamp
                    scratch.pairs[n_pairs] = t * K + y[t]
                    n_pairs += 1
                scratch.net[t, z[t]] -= a
                scratch.net[t, y[t]] += a
    dust = DUST * planes.caps[i]
    for p in range(n_pairs):
        t = scratch.pairs[p] // K
        label = scratch.pairs[p] - t * K
        net = scratch.net[t, label]
        scratch.net[t, label] = 0.0
        if abs(net) > dust:
            add_token(chains, first + t, label, net, w)


@njit(nogil=True, cache=True, error_model="numpy")
def block_step(
    chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray, i: int, tick: int
) -> Any:
    """Solve example i over its planes, token scores given. Returns its gap before the step."""
    base = planes.first_plane[i]
    m = planes.counts[i]
    alpha = planes.alpha[base : base + m]
    g = gradients(chains, planes, scratch, w, i)
    gap = simplex_gap(alpha, g)
    for j in range(1, m):
        if alpha[j] > 0.0:
            planes.used[base + j] = tick
    scale = 1.0
    change = np.empty(m)
    for j in range(m):
        scale = max(scale, abs(g[j]))
        change[j] = -alpha[j]
    floor = INNER_FLOOR * planes.caps[i] * scale
    if gap <= floor:
        return gap
    solve_simplex_at(
        alpha,
        g,
        planes.distances,
        planes.first_distance[i],
        planes.room[i],
        max(INNER_SHARE * gap, floor),
        20 + 10 * m,
    )
    for j in range(m):
        change[j] += alpha[j]
        if alpha[j] > 0.0:
            planes.used[base + j] = tick
    apply_change(chains, planes, scratch, w, i, change)
    return gap


@njit(nogil=True, cache=True, error_model="numpy")
def stream_sweep(
    chains: Chains,
    planes: Planes,
    scratch: Scratch,
    w: FloatArray,
    order: IntArray,
    begin: int,
    skip_below: float,
    tick: int,
) -> Any:
    """Visit ``order[begin:]`` with the oracle.

    Returns (position reached, oracle calls, new planes, sum of gaps as seen).
    """
    K = chains.cost.shape[0]
    tail = w[chains.n_features * K :]
    allowed = np.empty(tail.size)
    calls = 0
    added = 0
    total = 0.0
    for q in range(begin, order.size):
        i = order[q]
        if planes.caps[i] == 0.0:
            continue
        if planes.gaps[i] < skip_below:
            total += planes.gaps[i]
            continue
        if planes.counts[i] == planes.room[i]:
            return q, calls, added, total
        first, last = chains.starts[i], chains.starts[i + 1]
        T = last - first
        z = scratch.path[:T]
        for k in range(tail.size):
            allowed[k] = tail[k] + chains.penalty[k]
        emissions(chains, first, last, w, scratch.scores)
        add_losses(chains, first, last, scratch.scores, scratch.nodes)
        viterbi(scratch.nodes, T, allowed, scratch.best, z)
        calls += 1
        j, new = insert(chains, planes, scratch, i, z, path_loss(chains, first, last, z))
        added += new
        planes.used[planes.first_plane[i] + j] = tick
        gap = block_step(chains, planes, scratch, w, i, tick)
        planes.gaps[i] = gap
        total += gap
    return order.size, calls, added, total


@njit(nogil=True, cache=True, error_model="numpy")
def epoch_sweep(
    chains: Chains,
    planes: Planes,
    scratch: Scratch,
    w: FloatArray,
    order: IntArray,
    tick: int,
) -> Any:
    """Visit ``order`` without the oracle. Returns the sum of the gaps over the planes held."""
    total = 0.0
    for q in range(order.size):
        i = order[q]
        if planes.caps[i] == 0.0 or planes.counts[i] == 1:
            continue
        cached_scores(chains, planes, scratch, w, i)
        total += block_step(chains, planes, scratch, w, i, tick)
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def confirm_range(
    chains: Chains,
    planes: Planes,
    scratch: Scratch,
    w: FloatArray,
    lo: int,
    hi: int,
    labels: Labels,
    losses: FloatArray,
    values: FloatArray,
    tick: int,
) -> Any:
    """Take the oracle's answers for ``lo .. hi-1`` at this w; room must have been made.

    They enter the sets, and gap_i = c_i value_i - sum_j alpha_ij g_ij. Returns the planes added.
    """
    added = 0
    base = chains.starts[lo]
    for i in range(lo, hi):
        if planes.caps[i] == 0.0:
            continue
        first, last = chains.starts[i], chains.starts[i + 1]
        z = labels[first - base : last - base]
        j, new = insert(chains, planes, scratch, i, z, losses[i - lo])
        added += new
        p = planes.first_plane[i]
        planes.used[p + j] = tick
        cached_scores(chains, planes, scratch, w, i)
        g = gradients(chains, planes, scratch, w, i)
        gap = 0.0
        for k in range(g.size):
            a = planes.alpha[p + k]
            gap += a * (values[i - lo] - g[k])
            if a > 0.0:
                planes.used[p + k] = tick
        planes.gaps[i] = max(gap, 0.0)
    return added


@njit(nogil=True, cache=True, error_model="numpy")
def restart(chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray) -> None:
    """Recompute w from the multipliers, after scaling each example's to add up to its cap."""
    for k in range(w.size):
        w[k] = 0.0
    for i in range(planes.caps.size):
        base = planes.first_plane[i]
        m = planes.counts[i]
        if planes.caps[i] == 0.0 or m == 1:
            continue
        alpha = planes.alpha[base : base + m]
        total = 0.0
        for j in range(m):
            total += alpha[j]
        for j in range(m):
            alpha[j] *= planes.caps[i] / total
        apply_change(chains, planes, scratch, w, i, alpha)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=PRODUCTS)
def block_squares(w: FloatArray, out: FloatArray) -> None:
    """Sums of squares of blocks of 4096: the same bits whatever BLAS and its threads do."""
    for b in range(out.size):
        total = 0.0
        for k in range(b * 4096, min(w.size, (b + 1) * 4096)):
            total += w[k] * w[k]
        out[b] = total


@njit(nogil=True, cache=True, error_model="numpy")
def restore_planes(
    chains: Chains,
    planes: Planes,
    scratch: Scratch,
    counts: IntArray,
    labels: Labels,
    alpha: FloatArray,
    loss: FloatArray,
    used: Any,
) -> None:
    """Fill fresh sets, which have the room, with planes kept elsewhere (truths included)."""
    plane = 0
    label = 0
    for i in range(counts.size):
        T = chains.starts[i + 1] - chains.starts[i]
        base = planes.first_plane[i]
        for j in range(counts[i]):
            if j > 0:
                insert(chains, planes, scratch, i, labels[label : label + T], loss[plane])
            planes.alpha[base + j] = alpha[plane]
            planes.used[base + j] = used[plane]
            plane += 1
            label += T
