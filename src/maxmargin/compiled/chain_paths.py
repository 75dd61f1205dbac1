"""Max-marginals and the k best labelings of a chain.

Max-marginals.  m[t, s] is the score of the best labeling that has label s at token t:

    m[t, s]  =  (best prefix that ends in s at t)  +  (best suffix that begins with s at t)  -  node

The suffixes are the prefixes of the reversed sequence, with transitions transposed and start and stop
swapped, so both come from :func:`maxmargin.compiled.chain.forward`.

The k best.  For each (token, label), the k best prefixes that end there, in descending order. Those of token
t + 1 are a merge of K sorted lists, one per source label: take the best head k times. O(T K^2 k). A prefix is
identified by the label and the rank of its predecessor, so the labelings are distinct; ties go to the
smallest label, as in Viterbi, whose result is the first one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain import (
    Chains,
    FloatArray,
    IntArray,
    Labels,
    allow,
    emissions,
    forward,
    longest,
    parts,
)
from maxmargin.compiled.jit import entry, leaf


@leaf
def turn(tail: FloatArray, K: int, out: FloatArray) -> None:
    """The tail of the reversed chain."""
    for r in range(K):
        for s in range(K):
            out[s * K + r] = tail[r * K + s]
    for s in range(K):
        out[K * K + s] = tail[K * K + K + s]
        out[K * K + K + s] = tail[K * K + s]


@entry
def max_marginals_range(chains: Chains, w: FloatArray, lo: int, hi: int, out: FloatArray) -> Any:
    """Max-marginals of the chains ``lo .. hi-1``, a row per token.

    Returns the first chain without a legal labeling, or -1.
    """
    K = chains.cost.shape[0]
    T_max = longest(chains.starts, lo, hi)
    scores, prefix, suffix = np.empty((T_max, K)), np.empty((T_max, K)), np.empty((T_max, K))
    best, picks = np.empty(K), np.empty(K + 3, dtype=np.int64)
    W, tail = parts(w, chains.n_features, K)
    onward, back = np.empty(tail.size), np.empty(tail.size)
    bounds, back_bounds = np.empty((2, K)), np.empty((2, K))
    allow(tail, chains.penalty, onward, bounds)
    turned, penalty = np.empty(tail.size), np.empty(tail.size)
    turn(tail, K, turned)
    turn(chains.penalty, K, penalty)
    allow(turned, penalty, back, back_bounds)
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        T = last - first
        if T == 0:
            continue
        emissions(chains.indptr, chains.indices, chains.data, W, first, last, scores)
        for t in range(T):
            for s in range(K):
                prefix[t, s] = scores[t, s]
                suffix[T - 1 - t, s] = scores[t, s]
        forward(prefix, T, onward, bounds, best, picks)
        forward(suffix, T, back, back_bounds, best, picks)
        top = -np.inf
        for t in range(T):
            for s in range(K):
                value = prefix[t, s] + suffix[T - 1 - t, s] - scores[t, s]
                out[first - base + t, s] = value
                top = max(top, value)
        if top == -np.inf:
            return i
    return -1


@leaf
def merge(
    before: FloatArray, moves: FloatArray, s: int, heads: IntArray, ranked: FloatArray, origin: Any
) -> None:
    """The k best of all ``before[r, j] + moves[r, s]``, where the rows of ``before`` are sorted.

    Written to ``ranked`` in descending order, -inf if there are fewer; ``origin`` gets r k + j.
    """
    K, k = before.shape
    for r in range(K):
        heads[r] = 0
    for rank in range(k):
        top, at = -np.inf, -1
        for r in range(K):
            if heads[r] < k:
                value = before[r, heads[r]] + moves[r, s]
                if value > top:
                    top, at = value, r
        ranked[rank] = top
        if at >= 0:
            origin[rank] = at * k + heads[at]
            heads[at] += 1


@leaf
def k_best(
    nodes: FloatArray,
    T: int,
    tail: FloatArray,
    best: FloatArray,
    origin: npt.NDArray[np.int64],
    heads: IntArray,
    labels: Labels,
    scores: FloatArray,
) -> Any:
    """The best labelings of one chain, T > 0, one per row of ``labels``; returns their number.

    ``nodes`` holds T x K token scores; ``tail`` comes from :func:`allow`; ``best`` and ``origin`` (T x K x k)
    and ``heads`` (K) are scratch.
    """
    K, k = best.shape[1], best.shape[2]
    moves = tail[: K * K].reshape(K, K)
    for s in range(K):
        best[0, s, 0] = nodes[0, s] + tail[K * K + s]
        for j in range(1, k):
            best[0, s, j] = -np.inf
    for t in range(1, T):
        for s in range(K):
            merge(best[t - 1], moves, s, heads, best[t, s], origin[t, s])
            for j in range(k):
                best[t, s, j] += nodes[t, s]
    found = np.empty(k)
    ends = np.empty(k, dtype=np.int64)
    stop = tail[K * K + K :].copy().reshape(K, 1)
    merge(best[T - 1], stop, 0, heads, found, ends)
    count = 0
    while count < k and found[count] > -np.inf:
        scores[count] = found[count]
        state = ends[count]
        for t in range(T - 1, -1, -1):
            label, rank = state // k, state % k
            labels[count, t] = label
            state = origin[t, label, rank]
        count += 1
    return count


@entry
def k_best_range(
    chains: Chains,
    w: FloatArray,
    lo: int,
    hi: int,
    k: int,
    labels: Labels,
    scores: FloatArray,
    counts: IntArray,
) -> None:
    """The k best labelings of the chains ``lo .. hi-1``.

    ``labels`` is flat: those of chain i start at ``k (starts[i] - starts[lo])``, T_i labels each.
    ``scores`` (n x k) and ``counts`` are their scores and numbers.
    """
    K = chains.cost.shape[0]
    T_max = longest(chains.starts, lo, hi)
    nodes = np.empty((T_max, K))
    best = np.empty((T_max, K, k))
    origin = np.zeros((T_max, K, k), dtype=np.int64)
    heads = np.empty(K, dtype=np.int64)
    W, tail = parts(w, chains.n_features, K)
    allowed = np.empty(tail.size)
    allow(tail, chains.penalty, allowed, np.empty((2, K)))
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        T = last - first
        if T == 0:  # only the empty labeling
            counts[i - lo] = 1
            scores[i - lo, 0] = 0.0
            continue
        emissions(chains.indptr, chains.indices, chains.data, W, first, last, nodes)
        own = labels[k * (first - base) : k * (last - base)].reshape(k, T)
        counts[i - lo] = k_best(nodes, T, allowed, best, origin, heads, own, scores[i - lo])
