"""Working-set dual coordinate ascent on chains: the sweeps of Ramanan's algorithm 2.

Example i holds labelings y_i0 (the true one), y_i1, ... with dual variables alpha_ij >= 0 that sum to c_i:

    w     =  sum_ij alpha_ij (Psi(y_i0) - Psi(y_ij))
    g_ij  =  Delta_ij + <w, Psi(y_ij) - Psi(y_i0)>                                       (g_i0 = 0)
    gap_i =  c_i max_j g_ij - sum_j alpha_ij g_ij

A visit of example i runs Viterbi for the most violating labeling at the current w and adds it if it is new
(in :func:`stream_sweep`, not in :func:`epoch_sweep`), computes g, solves the small problem over alpha_i by
pair steps on squared distances (:mod:`maxmargin.compiled.simplex`), and writes w once.

All updates of w visit only the tokens in which a labeling differs from the true one.

In the code Z is the matrix of the labelings of one example, with the true labeling in row 0; W and ``tail``
are the two parts of w (:mod:`maxmargin.compiled.chain`). If a sweep finds no room for a plane, it returns
early with its position in the order; the caller allocates memory and resumes, so that no plane is lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.compiled.chain import (
    Chains,
    Data,
    FloatArray,
    Indices,
    IntArray,
    Labels,
    add_losses,
    add_tail_difference,
    add_token,
    allow,
    allow_ends,
    allow_row,
    emission,
    emissions,
    parts,
    path_loss,
    score_difference,
    viterbi,
)
from maxmargin.compiled.chain_insert import Places, insert
from maxmargin.compiled.chain_planes import Planes, block
from maxmargin.compiled.jit import entry, entry_products, inlined, leaf
from maxmargin.compiled.simplex import simplex_gap, solve_simplex_at

#: a visit ends when the gap of the example has dropped to this fraction of its initial value
INNER_SHARE = 1e-1
#: ... or below this fraction of c_i max(1, |g|), where rounding dominates
INNER_FLOOR = 1e-14
#: coefficients below this fraction of c_i are rounding residues of mass that moved in a circle
DUST = 1e-15
#: dual variables are rescaled when their sum deviates from the cap by more than this fraction (rescaling
#: every time would change the last bits every time)
DRIFT = 1e-14


class Scratch(NamedTuple):
    """Scratch for one visit: T_max x K tables, T_max vectors, and a difference of two feature vectors.

    Between visits ``net``, ``rows`` and ``tail`` are zero, ``place`` is -1, and no ``mark`` exceeds
    ``stamp[0]``. A difference touches few features: each gets a row of ``rows``, whose index is in ``place``
    (a vector of the size of w would double the memory of a large model).
    """

    scores: FloatArray
    nodes: FloatArray
    net: FloatArray
    mark: IntArray
    stamp: IntArray
    pairs: IntArray
    path: Labels
    place: Places
    rows: FloatArray
    tail: FloatArray


@inlined
def cached_scores(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    W: FloatArray,
    first: int,
    Z: Labels,
    scores: FloatArray,
    mark: IntArray,
    stamp: IntArray,
) -> None:
    """Token scores of one example, only for labels in which a plane differs from the true labeling."""
    stamp[0] += 1
    now = stamp[0]
    for j in range(1, Z.shape[0]):
        for t in range(Z.shape[1]):
            y, z = Z[0, t], Z[j, t]
            if z != y and mark[t, z] != now:
                mark[t, z] = now
                scores[t, z] = emission(indptr, indices, data, W, first + t, z)
                if mark[t, y] != now:
                    mark[t, y] = now
                    scores[t, y] = emission(indptr, indices, data, W, first + t, y)


@entry
def gradients(
    Z: Labels, loss: FloatArray, scores: FloatArray, tail: FloatArray, g: FloatArray
) -> None:
    """g_j of all planes of one example, given its token scores."""
    g[0] = 0.0
    for j in range(1, Z.shape[0]):
        g[j] = loss[j] + score_difference(scores, tail, scores.shape[1], Z[0], Z[j])


@leaf
def apply_change(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    W: FloatArray,
    tail: FloatArray,
    first: int,
    Z: Labels,
    change: FloatArray,
    dust: float,
    net: FloatArray,
    mark: IntArray,
    stamp: IntArray,
    pairs: IntArray,
) -> None:
    """``w += sum_j change_j (Psi(y_0) - Psi(y_j))``: one write per token and label with a nonzero net
    coefficient."""
    K = W.shape[1]
    stamp[0] += 1
    now = stamp[0]
    n_pairs = 0
    for j in range(1, Z.shape[0]):
        a = change[j]
        if a == 0.0:
            continue
        add_tail_difference(tail, K, Z[0], Z[j], -a)
        for t in range(Z.shape[1]):
            y, z = Z[0, t], Z[j, t]
            if z == y:
                continue
            if mark[t, z] != now:
                mark[t, z] = now
                pairs[n_pairs] = t * K + z
                n_pairs += 1
            if mark[t, y] != now:
                mark[t, y] = now
                pairs[n_pairs] = t * K + y
                n_pairs += 1
            net[t, z] -= a
            net[t, y] += a
    for p in range(n_pairs):
        t = pairs[p] // K
        label = pairs[p] - t * K
        coefficient = net[t, label]
        net[t, label] = 0.0
        if abs(coefficient) > dust:
            add_token(indptr, indices, data, W, first + t, label, coefficient)


@leaf
def block_step(
    chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray, i: int, tick: int
) -> Any:
    """Solve the problem of example i over its planes, given token scores. Returns its gap before the step."""
    first = chains.starts[i]
    base, m = planes.first_plane[i], planes.counts[i]
    W, tail = parts(w, chains.n_features, chains.cost.shape[0])
    Z = block(planes.labels, planes.first_label[i], m, chains.starts[i + 1] - first)
    alpha = planes.alpha[base : base + m]
    g, change = np.empty(m), np.empty(m)
    gradients(Z, planes.loss[base:], scratch.scores, tail, g)
    gap = simplex_gap(alpha, g)
    scale = 1.0
    for j in range(m):
        scale = max(scale, abs(g[j]))
        change[j] = -alpha[j]
        if alpha[j] > 0.0:
            planes.used[base + j] = tick
    floor = INNER_FLOOR * planes.caps[i] * scale
    if gap <= floor:
        return gap

    tol = max(INNER_SHARE * gap, floor)
    d0, stride = planes.first_distance[i], planes.room[i]
    solve_simplex_at(alpha, g, planes.distances, d0, stride, tol, 20 + 10 * m)
    for j in range(m):
        change[j] += alpha[j]
        if alpha[j] > 0.0:
            planes.used[base + j] = tick
    apply_change(
        chains.indptr,
        chains.indices,
        chains.data,
        W,
        tail,
        first,
        Z,
        change,
        DUST * planes.caps[i],
        scratch.net,
        scratch.mark,
        scratch.stamp,
        scratch.pairs,
    )
    return gap


@leaf
def allow_again(
    tail: FloatArray,
    penalty: FloatArray,
    Z: Labels,
    allowed: FloatArray,
    bounds: FloatArray,
    mark: IntArray,
    stamp: IntArray,
) -> None:
    """:func:`allow` for the rows that a step of an example with the labelings Z can have changed.

    Updating all K rows in every visit would cost as much as the search itself if K is large.
    """
    stamp[0] += 1
    now = stamp[0]
    for j in range(1, Z.shape[0]):
        for t in range(1, Z.shape[1]):
            if Z[j, t] != Z[0, t] or Z[j, t - 1] != Z[0, t - 1]:
                for row in (Z[j, t - 1], Z[0, t - 1]):
                    if mark[0, row] != now:
                        mark[0, row] = now
                        allow_row(tail, penalty, row, allowed, bounds)
    allow_ends(tail, penalty, bounds.shape[1], allowed)


@entry
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

    Returns (position reached, oracle calls, new planes, sum of gaps at the visits).
    """
    W, tail = parts(w, chains.n_features, chains.cost.shape[0])
    K = W.shape[1]
    allowed, bounds = np.empty(tail.size), np.empty((2, K))
    best, picks = np.empty(K), np.empty(K + 3, dtype=np.int64)
    allow(tail, chains.penalty, allowed, bounds)
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
        m = planes.counts[i]
        if m == planes.room[i]:
            return q, calls, added, total
        first, last = chains.starts[i], chains.starts[i + 1]
        y, z = chains.truth[first:last], scratch.path[: last - first]
        weight = chains.weight[first:last]
        emissions(chains.indptr, chains.indices, chains.data, W, first, last, scratch.scores)
        add_losses(y, weight, chains.cost, scratch.scores, scratch.nodes)
        viterbi(scratch.nodes, last - first, allowed, bounds, best, picks, z)
        calls += 1
        loss = path_loss(y, weight, chains.cost, z)
        j = insert(chains, planes, scratch.place, scratch.rows, scratch.tail, i, z, loss)
        added += planes.counts[i] - m
        planes.used[planes.first_plane[i] + j] = tick
        gap = block_step(chains, planes, scratch, w, i, tick)
        planes.gaps[i] = gap
        total += gap
        Z = block(planes.labels, planes.first_label[i], planes.counts[i], last - first)
        allow_again(tail, chains.penalty, Z, allowed, bounds, scratch.mark, scratch.stamp)
    return order.size, calls, added, total


@entry
def epoch_sweep(
    chains: Chains,
    planes: Planes,
    scratch: Scratch,
    w: FloatArray,
    order: IntArray,
    tick: int,
) -> Any:
    """Visit ``order`` without the oracle. Returns the sum of the gaps over the held planes."""
    W, _ = parts(w, chains.n_features, chains.cost.shape[0])
    total = 0.0
    for q in range(order.size):
        i = order[q]
        if planes.caps[i] == 0.0 or planes.counts[i] == 1:
            continue
        first, last = chains.starts[i], chains.starts[i + 1]
        cached_scores(
            chains.indptr,
            chains.indices,
            chains.data,
            W,
            first,
            block(planes.labels, planes.first_label[i], planes.counts[i], last - first),
            scratch.scores,
            scratch.mark,
            scratch.stamp,
        )
        total += block_step(chains, planes, scratch, w, i, tick)
    return total


@entry
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
) -> None:
    """Add the oracle's labelings for ``lo .. hi-1`` at this w; memory must be allocated.

    Updates gap_i = c_i value_i - sum_j alpha_ij g_ij.
    """
    W, tail = parts(w, chains.n_features, chains.cost.shape[0])
    shift = chains.starts[lo]
    for i in range(lo, hi):
        if planes.caps[i] == 0.0:
            continue
        first, last = chains.starts[i], chains.starts[i + 1]
        z = labels[first - shift : last - shift]
        j = insert(chains, planes, scratch.place, scratch.rows, scratch.tail, i, z, losses[i - lo])
        base, m = planes.first_plane[i], planes.counts[i]
        planes.used[base + j] = tick
        Z = block(planes.labels, planes.first_label[i], m, last - first)
        cached_scores(
            chains.indptr,
            chains.indices,
            chains.data,
            W,
            first,
            Z,
            scratch.scores,
            scratch.mark,
            scratch.stamp,
        )
        g = np.empty(m)
        gradients(Z, planes.loss[base:], scratch.scores, tail, g)
        gap = 0.0
        for k in range(m):
            a = planes.alpha[base + k]
            gap += a * (values[i - lo] - g[k])
            if a > 0.0:
                planes.used[base + k] = tick
        planes.gaps[i] = max(gap, 0.0)


@entry
def restart(chains: Chains, planes: Planes, scratch: Scratch, w: FloatArray) -> None:
    """Recompute w from the dual variables, which are rescaled to sum to c_i for each example."""
    for k in range(w.size):
        w[k] = 0.0
    W, tail = parts(w, chains.n_features, chains.cost.shape[0])
    for i in range(planes.caps.size):
        base, m = planes.first_plane[i], planes.counts[i]
        alpha = planes.alpha[base : base + m]
        total = 0.0
        for j in range(m):
            total += alpha[j]
        if total == 0.0 or total == alpha[0]:
            continue
        if abs(total - planes.caps[i]) > DRIFT * planes.caps[i]:
            for j in range(m):
                alpha[j] *= planes.caps[i] / total
        first = chains.starts[i]
        apply_change(
            chains.indptr,
            chains.indices,
            chains.data,
            W,
            tail,
            first,
            block(planes.labels, planes.first_label[i], m, chains.starts[i + 1] - first),
            alpha,
            0.0,
            scratch.net,
            scratch.mark,
            scratch.stamp,
            scratch.pairs,
        )


@entry_products
def block_squares(w: FloatArray, out: FloatArray) -> None:
    """Sums of squares of blocks of 4096; bit-identical for any BLAS and number of threads."""
    for b in range(out.size):
        total = 0.0
        for k in range(b * 4096, min(w.size, (b + 1) * 4096)):
            total += w[k] * w[k]
        out[b] = total
