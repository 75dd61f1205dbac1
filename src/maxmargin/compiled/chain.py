"""First-order chains: emissions, Viterbi, and the features in which two labellings differ.

A chain of T tokens with feature rows x_t and K labels scores a labelling z by

    <w, Psi(x, z)>  =  sum_t <W[:, z_t], x_t> + sum_{t>0} A[z_{t-1}, z_t] + start[z_0] + stop[z_{T-1}]

w is flat: W feature-major as d x K (the K scores of one feature are neighbours in memory), then the
*tail*: A as K x K [from, to], start, stop. Forbidden moves are a flat ``penalty`` beside the tail, 0 or
-inf; it is added to a copy of the tail for the search and never enters a value, so inf - inf cannot
occur. The loss of z against the truth y is Delta = sum_t weight_t cost[y_t, z_t], a sum over
tokens: the loss-augmented argmax is Viterbi with Delta's terms added to the emissions.

Viterbi keeps only the best score of every (token, label); the label it came from is found again along
the decoded path. The inner loops run over the label a move leads *to*, contiguous in memory, four
labels it comes *from* at a time: plain loops of that form become vector instructions. Ties go to the
smallest label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Labels = npt.NDArray[Any]

#: reordering and fused multiply-add in sums of products; nan and inf keep their meaning
PRODUCTS = {"reassoc", "contract", "nsz"}


class Chains(NamedTuple):
    """Sequences stacked row by row: those of chain i are the tokens ``starts[i] .. starts[i+1]-1``."""

    indptr: IntArray
    indices: npt.NDArray[Any]
    data: npt.NDArray[Any]
    n_features: int
    starts: IntArray
    truth: Labels
    weight: FloatArray
    cost: FloatArray
    penalty: FloatArray


@njit(nogil=True, cache=True, error_model="numpy", fastmath=PRODUCTS)
def emissions(chains: Chains, first: int, last: int, w: FloatArray, out: FloatArray) -> None:
    """Scores of all labels for the tokens ``first .. last-1``, into the leading rows of ``out``."""
    K = chains.cost.shape[0]
    W = w[: chains.n_features * K].reshape(chains.n_features, K)
    for t in range(first, last):
        row = t - first
        for s in range(K):
            out[row, s] = 0.0
        for p in range(chains.indptr[t], chains.indptr[t + 1]):
            feature = np.uint64(chains.indices[p])  # unsigned: no test for negative indices
            x = np.float64(chains.data[p])
            for s in range(K):
                out[row, s] += x * W[feature, s]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=PRODUCTS)
def emission(chains: Chains, token: int, label: int, w: FloatArray) -> Any:
    """Score of a single label for a single token."""
    K = chains.cost.shape[0]
    W = w[: chains.n_features * K].reshape(chains.n_features, K)
    total = 0.0
    for p in range(chains.indptr[token], chains.indptr[token + 1]):
        total += np.float64(chains.data[p]) * W[np.uint64(chains.indices[p]), label]
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def add_token(chains: Chains, token: int, label: int, scale: float, w: FloatArray) -> None:
    """``w += scale * `` the features of one token under one label."""
    K = chains.cost.shape[0]
    W = w[: chains.n_features * K].reshape(chains.n_features, K)
    for p in range(chains.indptr[token], chains.indptr[token + 1]):
        W[np.uint64(chains.indices[p]), label] += scale * chains.data[p]


@njit(nogil=True, cache=True, error_model="numpy")
def add_losses(chains: Chains, first: int, last: int, scores: FloatArray, out: FloatArray) -> None:
    """``out`` = the token scores plus each label's loss there."""
    K = chains.cost.shape[0]
    for t in range(first, last):
        row = t - first
        y = chains.truth[t]
        weight = chains.weight[t]
        for s in range(K):
            out[row, s] = scores[row, s] + weight * chains.cost[y, s]


@njit(nogil=True, cache=True, error_model="numpy")
def viterbi(nodes: FloatArray, T: int, tail: FloatArray, best: FloatArray, path: Labels) -> Any:
    """The labelling of largest score, into ``path[:T]``.

    ``nodes`` (at least T x K) holds the token scores and is overwritten with the best score of a
    prefix that ends in each label; ``tail`` holds moves, start and stop; ``best`` is scratch of size
    K. Returns the score, -inf if no labelling is allowed.
    """
    if T == 0:
        return 0.0
    K = best.size
    moves = tail[: K * K].reshape(K, K)
    for s in range(K):
        nodes[0, s] += tail[K * K + s]
    for t in range(1, T):
        before = nodes[t - 1, 0]
        for s in range(K):
            best[s] = before + moves[0, s]
        r = 1
        while r + 4 <= K:
            b0, b1 = nodes[t - 1, r], nodes[t - 1, r + 1]
            b2, b3 = nodes[t - 1, r + 2], nodes[t - 1, r + 3]
            for s in range(K):
                c0, c1 = b0 + moves[r, s], b1 + moves[r + 1, s]
                c2, c3 = b2 + moves[r + 2, s], b3 + moves[r + 3, s]
                c0 = c0 if c0 > c1 else c1
                c2 = c2 if c2 > c3 else c3
                c0 = c0 if c0 > c2 else c2
                old = best[s]
                best[s] = c0 if c0 > old else old
            r += 4
        while r < K:
            b0 = nodes[t - 1, r]
            for s in range(K):
                c0 = b0 + moves[r, s]
                old = best[s]
                best[s] = c0 if c0 > old else old
            r += 1
        for s in range(K):
            nodes[t, s] += best[s]

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
            total = nodes[t - 1, r] + moves[r, label]
            if total > value:
                value = total
                origin = r
        label = origin
        path[t - 1] = label
    return top


@njit(nogil=True, cache=True, error_model="numpy")
def path_loss(chains: Chains, first: int, last: int, z: Labels) -> Any:
    """Delta(y, z) of the chain of tokens ``first .. last-1``."""
    total = 0.0
    for t in range(first, last):
        total += chains.weight[t] * chains.cost[chains.truth[t], z[t - first]]
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def tail_difference(tail: FloatArray, K: int, T: int, y: Labels, z: Labels) -> Any:
    """Score of z's moves, start and stop less that of y's, taken only where they differ."""
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


@njit(nogil=True, cache=True, error_model="numpy")
def score_difference(
    scores: FloatArray, tail: FloatArray, K: int, T: int, y: Labels, z: Labels
) -> Any:
    """<w, Psi(z) - Psi(y)>; of ``scores`` only tokens and labels that differ are read."""
    total = 0.0
    for t in range(T):
        if y[t] != z[t]:
            total += scores[t, z[t]] - scores[t, y[t]]
    return total + tail_difference(tail, K, T, y, z)


@njit(nogil=True, cache=True, error_model="numpy")
def add_tail_difference(
    tail: FloatArray, K: int, T: int, y: Labels, z: Labels, scale: float
) -> None:
    """``tail += scale (Psi(z) - Psi(y))`` for moves, start and stop."""
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


@njit(nogil=True, cache=True, error_model="numpy")
def add_difference(
    chains: Chains, first: int, T: int, y: Labels, z: Labels, scale: float, out: FloatArray
) -> None:
    """``out += scale (Psi(z) - Psi(y))``, touching only what differs."""
    K = chains.cost.shape[0]
    for t in range(T):
        if y[t] != z[t]:
            add_token(chains, first + t, z[t], scale, out)
            add_token(chains, first + t, y[t], -scale, out)
    add_tail_difference(out[chains.n_features * K :], K, T, y, z, scale)


@njit(nogil=True, cache=True, error_model="numpy")
def longest(starts: IntArray, lo: int, hi: int) -> Any:
    """Length of the longest chain of a range."""
    T = 0
    for i in range(lo, hi):
        T = max(T, starts[i + 1] - starts[i])
    return T


@njit(nogil=True, cache=True, error_model="numpy")
def oracle_range(
    chains: Chains,
    w: FloatArray,
    lo: int,
    hi: int,
    labels: Labels,
    losses: FloatArray,
    values: FloatArray,
) -> None:
    """Loss-augmented argmax of the chains ``lo .. hi-1``.

    ``labels`` takes the labellings one after another; ``values`` are taken along the path
    (Delta + <w, Psi(z) - Psi(y)>), so that they agree with the cut to rounding.
    """
    K = chains.cost.shape[0]
    T_max = longest(chains.starts, lo, hi)
    scores = np.empty((T_max, K))
    nodes = np.empty((T_max, K))
    best = np.empty(K)
    tail = w[chains.n_features * K :]
    allowed = tail + chains.penalty
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        T = last - first
        z = labels[first - base : last - base]
        emissions(chains, first, last, w, scores)
        add_losses(chains, first, last, scores, nodes)
        viterbi(nodes, T, allowed, best, z)
        y = chains.truth[first:last]
        losses[i - lo] = path_loss(chains, first, last, z)
        values[i - lo] = losses[i - lo] + score_difference(scores, tail, K, T, y, z)


@njit(nogil=True, cache=True, error_model="numpy")
def predict_range(chains: Chains, w: FloatArray, lo: int, hi: int, labels: Labels) -> Any:
    """Argmax of the chains ``lo .. hi-1``. Returns the first without a legal labelling, or -1."""
    K = chains.cost.shape[0]
    nodes = np.empty((longest(chains.starts, lo, hi), K))
    best = np.empty(K)
    allowed = w[chains.n_features * K :] + chains.penalty
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        emissions(chains, first, last, w, nodes)
        z = labels[first - base : last - base]
        if viterbi(nodes, last - first, allowed, best, z) == -np.inf:
            return i
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def cut_range(
    chains: Chains, lo: int, hi: int, labels: Labels, weights: FloatArray, plane: FloatArray
) -> None:
    """``plane += sum_i weights_i (Psi(z_i) - Psi(y_i))`` over the chains ``lo .. hi-1``."""
    base = chains.starts[lo]
    for i in range(lo, hi):
        if weights[i - lo] != 0.0:
            first, last = chains.starts[i], chains.starts[i + 1]
            y, z = chains.truth[first:last], labels[first - base : last - base]
            add_difference(chains, first, last - first, y, z, weights[i - lo], plane)
