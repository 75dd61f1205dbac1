"""First-order chains: emissions, Viterbi, and the difference of the features of two labelings.

A chain of T tokens with feature rows x_t and K labels scores a labeling z by

    <w, Psi(x, z)>  =  sum_t <W[:, z_t], x_t> + sum_{t>0} A[z_{t-1}, z_t]
                       + start[z_0] + stop[z_{T-1}]

w is flat: first W as d x K (the K scores of one feature are adjacent in memory), then the *tail*: A as K x K
[from, to], start, stop. Forbidden transitions are given by a flat array ``penalty`` parallel to the tail, 0
or -inf. It is added to a copy of the tail for the search and never enters a value, so inf - inf cannot occur.
The loss of z for the true labeling y is Delta = sum_t weight_t cost[y_t, z_t], a sum over tokens:
loss-augmented inference is Viterbi with the terms of Delta added to the emissions.

Viterbi stores only the best score of every (token, label); backtracking recomputes the predecessors along the
decoded path. The inner loops run over the target label of a transition, which is contiguous in memory, for
four source labels at a time: the compiler vectorizes such loops. Ties go to the smallest label. Source labels
that cannot matter are skipped: with b the scores before a transition,

    max_r b_r + A[r, s]  >=  max_r (b_r + min_s A[r, s])  =:  sure        for every s

so r is the source of no best transition if b_r + max_s A[r, s] < sure. Rounding is monotone, so the result is
bit-identical. (On trained models 5 of 22 labels remain on CoNLL-2000, 10 of 85 on Brown. Transition
constraints put -inf into the minimum of every row they affect, so fewer labels are skipped.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import simd
from maxmargin.compiled.jit import entry, inlined_in_order, leaf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Indices = npt.NDArray[Any]
Data = npt.NDArray[Any]
Labels = npt.NDArray[Any]

#: entries ahead whose weights are prefetched
AHEAD = 12


class Chains(NamedTuple):
    """Stacked sequences: chain i has the tokens ``starts[i] .. starts[i+1]-1``."""

    indptr: IntArray
    indices: npt.NDArray[Any]
    data: npt.NDArray[Any]
    n_features: int
    starts: IntArray
    truth: Labels
    weight: FloatArray
    cost: FloatArray
    penalty: FloatArray


@entry
def parts(w: FloatArray, n_features: int, K: int) -> Any:
    """Views of w: the features x labels matrix, and the tail."""
    return w[: n_features * K].reshape(n_features, K), w[n_features * K :]


@inlined_in_order
def emissions(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    W: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """Scores of all labels for the tokens ``first .. last-1``, written to the leading rows of ``out``."""
    K, end = W.shape[1], indptr[last]
    for t in range(first, last):
        row = t - first
        for s in range(K):
            out[row, s] = 0.0
        for p in range(indptr[t], indptr[t + 1]):
            if p + AHEAD < end:  # W seldom fits in a cache
                far = np.int64(indices[p + AHEAD]) * K
                for s in range(0, K, 8):
                    simd.prefetch(W, far + s)
            feature = np.uint64(indices[p])  # unsigned: avoids a check for negative indices
            x = np.float64(data[p])
            for s in range(K):
                out[row, s] += x * W[feature, s]


@inlined_in_order
def emission(
    indptr: IntArray, indices: Indices, data: Data, W: FloatArray, token: int, label: int
) -> Any:
    """Score of one label for one token."""
    total = 0.0
    for p in range(indptr[token], indptr[token + 1]):
        total += np.float64(data[p]) * W[np.uint64(indices[p]), label]
    return total


@leaf
def add_token(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    W: FloatArray,
    token: int,
    label: int,
    scale: float,
) -> None:
    """``W[:, label] += scale * x_token``."""
    for p in range(indptr[token], indptr[token + 1]):
        W[np.uint64(indices[p]), label] += scale * data[p]


@leaf
def add_losses(
    y: Labels, weight: FloatArray, cost: FloatArray, scores: FloatArray, out: FloatArray
) -> None:
    """``out`` = token scores plus the loss of each label."""
    K = cost.shape[0]
    for t in range(y.size):
        for s in range(K):
            out[t, s] = scores[t, s] + weight[t] * cost[y[t], s]


@leaf
def allow_row(
    tail: FloatArray, penalty: FloatArray, r: int, allowed: FloatArray, bounds: FloatArray
) -> None:
    """``allowed = tail + penalty`` for the transitions from label r; ``bounds[:, r]`` are their minimum and
    maximum."""
    K = bounds.shape[1]
    low0 = low1 = low2 = low3 = np.inf
    high0 = high1 = high2 = high3 = -np.inf
    k, end = r * K, r * K + K
    while k + 4 <= end:  # four independent accumulators instead of one
        a0, a1 = tail[k] + penalty[k], tail[k + 1] + penalty[k + 1]
        a2, a3 = tail[k + 2] + penalty[k + 2], tail[k + 3] + penalty[k + 3]
        allowed[k], allowed[k + 1], allowed[k + 2], allowed[k + 3] = a0, a1, a2, a3
        low0, low1, low2, low3 = min(low0, a0), min(low1, a1), min(low2, a2), min(low3, a3)
        high0, high1, high2, high3 = max(high0, a0), max(high1, a1), max(high2, a2), max(high3, a3)
        k += 4
    while k < end:
        a0 = tail[k] + penalty[k]
        allowed[k] = a0
        low0, high0 = min(low0, a0), max(high0, a0)
        k += 1
    bounds[0, r] = min(min(low0, low1), min(low2, low3))
    bounds[1, r] = max(max(high0, high1), max(high2, high3))


@leaf
def allow_ends(tail: FloatArray, penalty: FloatArray, K: int, allowed: FloatArray) -> None:
    """``allowed = tail + penalty`` for start and stop."""
    for k in range(K * K, tail.size):
        allowed[k] = tail[k] + penalty[k]


@entry
def allow(tail: FloatArray, penalty: FloatArray, allowed: FloatArray, bounds: FloatArray) -> None:
    """The tail used by the search: forbidden transitions are -inf; and the bounds of each row."""
    for r in range(bounds.shape[1]):
        allow_row(tail, penalty, r, allowed, bounds)
    allow_ends(tail, penalty, bounds.shape[1], allowed)


@leaf
def pick_origins(before: FloatArray, bounds: FloatArray, picks: IntArray) -> Any:
    """The labels that a best transition may come from, given the scores ``before`` it; returns their number.

    Three copies of the first label follow: they do not change a maximum, and leave no remainder when labels
    are processed four at a time.
    """
    K = before.size
    sure0 = sure1 = sure2 = sure3 = -np.inf
    r = 0
    while r + 4 <= K:
        sure0 = max(sure0, before[r] + bounds[0, r])
        sure1 = max(sure1, before[r + 1] + bounds[0, r + 1])
        sure2 = max(sure2, before[r + 2] + bounds[0, r + 2])
        sure3 = max(sure3, before[r + 3] + bounds[0, r + 3])
        r += 4
    while r < K:
        sure0 = max(sure0, before[r] + bounds[0, r])
        r += 1
    sure = max(max(sure0, sure1), max(sure2, sure3))
    n_picks = 0
    for r in range(K):
        picks[n_picks] = r
        n_picks += before[r] + bounds[1, r] >= sure
    for k in range(n_picks, n_picks + 3):
        picks[k] = picks[0]
    return n_picks


@leaf
def forward(
    nodes: FloatArray,
    T: int,
    tail: FloatArray,
    bounds: FloatArray,
    best: FloatArray,
    picks: IntArray,
) -> None:
    """Token scores to the best score of a prefix that ends in each label, in place.

    ``nodes`` (at least T x K) holds the token scores; ``tail`` and ``bounds`` come from :func:`allow`;
    ``best`` (K) and ``picks`` (K + 3) are scratch. Stop scores are not added.
    """
    K = best.size
    moves = tail[: K * K].reshape(K, K)
    for s in range(K):
        nodes[0, s] += tail[K * K + s]
    for t in range(1, T):
        n_picks = pick_origins(nodes[t - 1], bounds, picks)
        r = picks[0]
        b0 = nodes[t - 1, r]
        for s in range(K):
            best[s] = b0 + moves[r, s]
        for k in range(1, n_picks, 4):
            r0, r1, r2, r3 = picks[k], picks[k + 1], picks[k + 2], picks[k + 3]
            b0, b1, b2, b3 = nodes[t - 1, r0], nodes[t - 1, r1], nodes[t - 1, r2], nodes[t - 1, r3]
            for s in range(K):
                c0, c1 = b0 + moves[r0, s], b1 + moves[r1, s]
                c2, c3 = b2 + moves[r2, s], b3 + moves[r3, s]
                c0 = c0 if c0 > c1 else c1
                c2 = c2 if c2 > c3 else c3
                c0 = c0 if c0 > c2 else c2
                old = best[s]
                best[s] = c0 if c0 > old else old
        for s in range(K):
            nodes[t, s] += best[s]


@leaf
def viterbi(
    nodes: FloatArray,
    T: int,
    tail: FloatArray,
    bounds: FloatArray,
    best: FloatArray,
    picks: IntArray,
    path: Labels,
) -> Any:
    """Write the labeling of largest score to ``path[:T]``; arguments as in :func:`forward`.

    ``nodes`` is overwritten. Returns the score, -inf if no labeling is allowed.
    """
    if T == 0:
        return 0.0
    K = best.size
    moves = tail[: K * K].reshape(K, K)
    forward(nodes, T, tail, bounds, best, picks)

    label = 0
    top = nodes[T - 1, 0] + tail[K * K + K]
    for s in range(1, K):
        total = nodes[T - 1, s] + tail[K * K + K + s]
        if total > top:
            top = total
            label = s
    path[T - 1] = label
    for t in range(T - 1, 0, -1):
        origin = 0
        value = nodes[t - 1, 0] + moves[0, label]
        for r in range(1, K):
            if nodes[t - 1, r] + bounds[1, r] > value:
                total = nodes[t - 1, r] + moves[r, label]
                if total > value:
                    value = total
                    origin = r
        label = origin
        path[t - 1] = label
    return top


@leaf
def path_loss(y: Labels, weight: FloatArray, cost: FloatArray, z: Labels) -> Any:
    """Delta(y, z)."""
    total = 0.0
    for t in range(y.size):
        total += weight[t] * cost[y[t], z[t]]
    return total


@leaf
def tail_difference(tail: FloatArray, K: int, y: Labels, z: Labels) -> Any:
    """Score of the transitions, start and stop of z minus that of y, computed only where they differ."""
    T = y.size
    if T == 0:
        return 0.0
    total = 0.0
    if y[0] != z[0]:
        total += tail[K * K + z[0]] - tail[K * K + y[0]]
    for t in range(1, T):
        if y[t] != z[t] or y[t - 1] != z[t - 1]:
            total += tail[z[t - 1] * K + z[t]] - tail[y[t - 1] * K + y[t]]
    if y[T - 1] != z[T - 1]:
        total += tail[K * K + K + z[T - 1]] - tail[K * K + K + y[T - 1]]
    return total


@leaf
def score_difference(scores: FloatArray, tail: FloatArray, K: int, y: Labels, z: Labels) -> Any:
    """<w, Psi(z) - Psi(y)>; reads ``scores`` only for tokens and labels that differ."""
    total = 0.0
    for t in range(y.size):
        if y[t] != z[t]:
            total += scores[t, z[t]] - scores[t, y[t]]
    return total + tail_difference(tail, K, y, z)


@leaf
def add_tail_difference(tail: FloatArray, K: int, y: Labels, z: Labels, scale: float) -> None:
    """``tail += scale (Psi(z) - Psi(y))`` for transitions, start and stop."""
    T = y.size
    if T == 0:
        return
    if y[0] != z[0]:
        tail[K * K + z[0]] += scale
        tail[K * K + y[0]] -= scale
    for t in range(1, T):
        if y[t] != z[t] or y[t - 1] != z[t - 1]:
            tail[z[t - 1] * K + z[t]] += scale
            tail[y[t - 1] * K + y[t]] -= scale
    if y[T - 1] != z[T - 1]:
        tail[K * K + K + z[T - 1]] += scale
        tail[K * K + K + y[T - 1]] -= scale


@leaf
def add_difference(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    W: FloatArray,
    tail: FloatArray,
    first: int,
    y: Labels,
    z: Labels,
    scale: float,
) -> None:
    """``(W, tail) += scale (Psi(z) - Psi(y))``, touching only what differs."""
    for t in range(y.size):
        if y[t] != z[t]:
            add_token(indptr, indices, data, W, first + t, z[t], scale)
            add_token(indptr, indices, data, W, first + t, y[t], -scale)
    add_tail_difference(tail, W.shape[1], y, z, scale)


@leaf
def longest(starts: IntArray, lo: int, hi: int) -> Any:
    """Length of the longest chain in a range."""
    T = 0
    for i in range(lo, hi):
        T = max(T, starts[i + 1] - starts[i])
    return T


@entry
def oracle_range(
    chains: Chains,
    w: FloatArray,
    lo: int,
    hi: int,
    labels: Labels,
    losses: FloatArray,
    values: FloatArray,
) -> None:
    """Loss-augmented inference for the chains ``lo .. hi-1``.

    Writes the concatenated labelings to ``labels``; ``values`` are computed along the path
    (Delta + <w, Psi(z) - Psi(y)>), so that they agree with the cut up to rounding.
    """
    K = chains.cost.shape[0]
    T_max = longest(chains.starts, lo, hi)
    scores = np.empty((T_max, K))
    nodes = np.empty((T_max, K))
    best = np.empty(K)
    W, tail = parts(w, chains.n_features, K)
    allowed = np.empty(tail.size)
    bounds = np.empty((2, K))
    picks = np.empty(K + 3, dtype=np.int64)
    allow(tail, chains.penalty, allowed, bounds)
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        y, z = chains.truth[first:last], labels[first - base : last - base]
        weight = chains.weight[first:last]
        emissions(chains.indptr, chains.indices, chains.data, W, first, last, scores)
        add_losses(y, weight, chains.cost, scores, nodes)
        viterbi(nodes, last - first, allowed, bounds, best, picks, z)
        losses[i - lo] = path_loss(y, weight, chains.cost, z)
        values[i - lo] = losses[i - lo] + score_difference(scores, tail, K, y, z)


@entry
def predict_range(chains: Chains, w: FloatArray, lo: int, hi: int, labels: Labels) -> Any:
    """Inference for the chains ``lo .. hi-1``. Returns the first chain without a legal labeling, or -1."""
    K = chains.cost.shape[0]
    nodes = np.empty((longest(chains.starts, lo, hi), K))
    best = np.empty(K)
    W, tail = parts(w, chains.n_features, K)
    allowed = np.empty(tail.size)
    bounds = np.empty((2, K))
    picks = np.empty(K + 3, dtype=np.int64)
    allow(tail, chains.penalty, allowed, bounds)
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        emissions(chains.indptr, chains.indices, chains.data, W, first, last, nodes)
        z = labels[first - base : last - base]
        if viterbi(nodes, last - first, allowed, bounds, best, picks, z) == -np.inf:
            return i
    return -1


@entry
def cut_range(
    chains: Chains, lo: int, hi: int, labels: Labels, weights: FloatArray, plane: FloatArray
) -> None:
    """``plane += sum_i weights_i (Psi(z_i) - Psi(y_i))`` over the chains ``lo .. hi-1``."""
    indptr, indices, data = chains.indptr, chains.indices, chains.data
    W, tail = parts(plane, chains.n_features, chains.cost.shape[0])
    base = chains.starts[lo]
    for i in range(lo, hi):
        if weights[i - lo] != 0.0:
            first, last = chains.starts[i], chains.starts[i + 1]
            y, z = chains.truth[first:last], labels[first - base : last - base]
            add_difference(indptr, indices, data, W, tail, first, y, z, weights[i - lo])
