"""Sums over all labelings of a chain: log Z, marginals, and the gradient of the log loss.

    log Z  =  log sum_z exp <w, Psi(x, z)>                     over the labelings that are allowed
    a[t, s]  =  log of the sum over prefixes that end in label s at token t, token scores included
    b[t, s]  =  log of the sum over suffixes that follow label s at token t
    p(z_t = s)  =  exp(a[t, s] + b[t, s] - log Z)
    p(z_{t-1} = r, z_t = s)  =  exp(a[t-1, r] + A[r, s] + node[t, s] + b[t, s] - log Z)

The messages a and b are logarithms, so no score is too large. One step takes K exponentials instead of K^2:
with M = exp(A - max A), computed once,

    log sum_r exp(a_r + A[r, s])  =  max a + max A + log sum_r exp(a_r - max a) M[r, s]

Products below 1e-308 are lost in the last sum. This matters only if the sum itself is tiny, and then it is
computed again, term by term. The sums of pairs are outer products of the same exponentials; they are
multiplied by M once, at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.compiled.chain import (
    Chains,
    FloatArray,
    Labels,
    emissions,
    longest,
    parts,
)
from maxmargin.compiled.jit import entry, leaf

#: sums of products below this are computed again as logarithms; its own logarithm
SMALL, LOG_SMALL = 1e-250, -575.0


class Moves(NamedTuple):
    """Transitions as logarithms (-inf if forbidden) and as factors exp(A - top), [from, to] and [to, from];
    start and stop; and ``top``, an array of one number."""

    logs: FloatArray
    factors: FloatArray
    back_logs: FloatArray
    back_factors: FloatArray
    start: FloatArray
    stop: FloatArray
    top: FloatArray


@leaf
def new_moves(K: int) -> Any:
    """Uninitialized transitions."""
    square = np.empty((4, K, K))
    ends = np.empty((2, K))
    return Moves(square[0], square[1], square[2], square[3], ends[0], ends[1], np.empty(1))


@leaf
def set_moves(tail: FloatArray, penalty: FloatArray, moves: Moves) -> None:
    """The transitions of a tail of weights."""
    K = moves.start.size
    top = -np.inf
    for r in range(K):
        for s in range(K):
            value = tail[r * K + s] + penalty[r * K + s]
            moves.logs[r, s] = moves.back_logs[s, r] = value
            top = max(top, value)
        moves.start[r] = tail[K * K + r] + penalty[K * K + r]
        moves.stop[r] = tail[K * K + K + r] + penalty[K * K + K + r]
    if top == -np.inf:  # sequences of one token only
        top = 0.0
    for r in range(K):
        for s in range(K):
            value = np.exp(moves.logs[r, s] - top)
            moves.factors[r, s] = moves.back_factors[s, r] = value
    moves.top[0] = top


@leaf
def log_sum(a: FloatArray, b: FloatArray) -> Any:
    """log sum exp(a + b)."""
    top = -np.inf
    for k in range(a.size):
        top = max(top, a[k] + b[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(a.size):
        total += np.exp(a[k] + b[k] - top)
    return top + np.log(total)


@leaf
def exponentials(logs: FloatArray, out: FloatArray) -> Any:
    """``out = exp(logs - max)``; returns the maximum."""
    top = -np.inf
    for k in range(logs.size):
        top = max(top, logs[k])
    for k in range(logs.size):
        out[k] = np.exp(logs[k] - top) if top > -np.inf else 0.0
    return top


@leaf
def log_products(
    before: FloatArray,
    scaled: FloatArray,
    shift: float,
    factors: FloatArray,
    back_logs: FloatArray,
    out: FloatArray,
) -> None:
    """``out[s] = log sum_r exp(before[r] + logs[r, s])``.

    ``scaled`` holds the :func:`exponentials` of ``before``, ``shift`` is their maximum plus that of the logs.
    """
    K = out.size
    for s in range(K):
        out[s] = 0.0
    for r in range(K):
        p = scaled[r]
        if p > 0.0:
            for s in range(K):
                out[s] += p * factors[r, s]
    for s in range(K):
        if out[s] > SMALL:
            out[s] = shift + np.log(out[s])
        else:
            out[s] = log_sum(before, back_logs[s])


@leaf
def forward_sums(nodes: FloatArray, moves: Moves, a: FloatArray, scaled: FloatArray) -> Any:
    """The messages ``a`` of a chain with these token scores, at least one; returns log Z."""
    T, K = nodes.shape
    for s in range(K):
        a[0, s] = nodes[0, s] + moves.start[s]
    for t in range(1, T):
        top = exponentials(a[t - 1], scaled)
        log_products(a[t - 1], scaled, top + moves.top[0], moves.factors, moves.back_logs, a[t])
        for s in range(K):
            a[t, s] += nodes[t, s]
    return log_sum(a[T - 1], moves.stop)


@leaf
def normalized(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """``out = exp(a + b) / sum exp(a + b)``."""
    top, total = -np.inf, 0.0
    for s in range(a.size):
        out[s] = a[s] + b[s]
        top = max(top, out[s])
    for s in range(a.size):
        out[s] = np.exp(out[s] - top)
        total += out[s]
    for s in range(a.size):
        out[s] /= total


class Backward(NamedTuple):
    """Scratch of the backward pass: K numbers each, and K x K sums of pairs without the factors M."""

    ahead: FloatArray
    b: FloatArray
    p: FloatArray
    q: FloatArray
    pairs: FloatArray


@leaf
def new_backward(K: int) -> Any:
    """Scratch of the backward pass."""
    rows = np.empty((4, K))
    return Backward(rows[0], rows[1], rows[2], rows[3], np.empty((K, K)))


@leaf
def backward_sums(
    nodes: FloatArray,
    moves: Moves,
    a: FloatArray,
    log_z: float,
    scratch: Backward,
    mu: FloatArray,
    scale: float,
    sums: FloatArray,
) -> None:
    """The marginals ``mu`` of tokens; ``sums += scale`` times the expected transitions, start and stop."""
    T, K = nodes.shape
    ahead, b, p, q, pairs = scratch.ahead, scratch.b, scratch.p, scratch.q, scratch.pairs
    for s in range(K):
        b[s] = moves.stop[s]
        for r in range(K):
            pairs[r, s] = 0.0
    for t in range(T - 1, -1, -1):
        normalized(a[t], b, mu[t])
        if t == 0:
            break
        for s in range(K):
            ahead[s] = nodes[t, s] + b[s]
        top = exponentials(ahead, q)
        log_products(ahead, q, top + moves.top[0], moves.back_factors, moves.logs, b)
        top += exponentials(a[t - 1], p) + moves.top[0]
        if log_z - top > LOG_SMALL:
            unit = np.exp(top - log_z)
            for r in range(K):
                share = unit * p[r]
                if share > 0.0:
                    for s in range(K):
                        pairs[r, s] += share * q[s]
        else:
            for r in range(K):
                for s in range(K):
                    value = np.exp(a[t - 1, r] + moves.logs[r, s] + ahead[s] - log_z)
                    sums[r * K + s] += scale * value
    for s in range(K):
        for r in range(K):
            sums[r * K + s] += scale * pairs[r, s] * moves.factors[r, s]
        sums[K * K + s] += scale * mu[0, s]
        sums[K * K + K + s] += scale * mu[T - 1, s]


@leaf
def labeling_score(nodes: FloatArray, moves: Moves, y: Labels) -> Any:
    """<w, Psi(x, y)> of at least one token (-inf if forbidden), and the sum of the absolute values of its
    terms."""
    first, last = moves.start[y[0]], moves.stop[y[y.size - 1]]
    total, size = first + last, abs(first) + abs(last)
    for t in range(y.size):
        total += nodes[t, y[t]]
        size += abs(nodes[t, y[t]])
        if t > 0:
            move = moves.logs[y[t - 1], y[t]]
            total += move
            size += abs(move)
    return total, size


@leaf
def subtract_path(tail: FloatArray, K: int, y: Labels, scale: float) -> None:
    """``tail -= scale Psi(y)`` for transitions, start and stop."""
    tail[K * K + y[0]] -= scale
    for t in range(1, y.size):
        tail[y[t - 1] * K + y[t]] -= scale
    tail[K * K + K + y[y.size - 1]] -= scale


@leaf
def add_expected_token(
    chains: Chains, token: int, scale: float, mu: FloatArray, W: FloatArray, gap: FloatArray
) -> Any:
    """``W += scale x (mu - e_y)'`` for the features x of a token; returns |x| |mu - e_y|_1. ``gap`` is
    scratch."""
    K = mu.size
    size, square, y = 0.0, 0.0, chains.truth[token]
    for s in range(K):
        gap[s] = mu[s]
    gap[y] -= 1.0
    for s in range(K):
        size += abs(gap[s])
        gap[s] *= scale
    for k in range(chains.indptr[token], chains.indptr[token + 1]):
        feature = np.uint64(chains.indices[k])
        x = np.float64(chains.data[k])
        square += x * x
        for s in range(K):
            W[feature, s] += x * gap[s]
    return size * np.sqrt(square)


@entry
def log_sums_range(
    chains: Chains,
    w: FloatArray,
    lo: int,
    hi: int,
    nodes: FloatArray,
    a: FloatArray,
    log_z: FloatArray,
    truth: FloatArray,
    sizes: FloatArray,
) -> None:
    """Token scores and messages of the chains ``lo .. hi-1``, one row per token, and for each chain log Z
    (-inf if no labeling is allowed), the score of the true labeling, and the size of the terms of both."""
    K = chains.cost.shape[0]
    W, tail = parts(w, chains.n_features, K)
    moves, scaled = new_moves(K), np.empty(K)
    set_moves(tail, chains.penalty, moves)
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i], chains.starts[i + 1]
        log_z[i - lo] = truth[i - lo] = sizes[i - lo] = 0.0
        if first == last:
            continue
        own = nodes[first - base : last - base]
        emissions(chains.indptr, chains.indices, chains.data, W, first, last, own)
        log_z[i - lo] = forward_sums(own, moves, a[first - base : last - base], scaled)
        truth[i - lo], size = labeling_score(own, moves, chains.truth[first:last])
        sizes[i - lo] = size + abs(log_z[i - lo]) + (last - first) * np.log(K)


@entry
def marginals_range(
    chains: Chains,
    w: FloatArray,
    lo: int,
    hi: int,
    nodes: FloatArray,
    a: FloatArray,
    log_z: FloatArray,
    out: FloatArray,
) -> None:
    """The marginals of the tokens of the chains ``lo .. hi-1``, from the results of
    :func:`log_sums_range`."""
    K = chains.cost.shape[0]
    tail = parts(w, chains.n_features, K)[1]
    moves, scratch, sums = new_moves(K), new_backward(K), np.zeros(tail.size)
    set_moves(tail, chains.penalty, moves)
    base = chains.starts[lo]
    for i in range(lo, hi):
        first, last = chains.starts[i] - base, chains.starts[i + 1] - base
        if first < last:
            own, messages = nodes[first:last], a[first:last]
            backward_sums(own, moves, messages, log_z[i - lo], scratch, out[first:last], 1.0, sums)


@entry
def gradient_range(
    chains: Chains,
    w: FloatArray,
    lo: int,
    hi: int,
    nodes: FloatArray,
    a: FloatArray,
    log_z: FloatArray,
    weights: FloatArray,
    plane: FloatArray,
) -> Any:
    """``plane += sum_i s_i (E Psi(x_i, z) - Psi(x_i, y_i))`` over the chains ``lo .. hi-1``.

    From the results of :func:`log_sums_range`. Returns the size of the terms of the plane.
    """
    K = chains.cost.shape[0]
    tail = parts(w, chains.n_features, K)[1]
    G, ends = parts(plane, chains.n_features, K)
    moves, scratch, gap = new_moves(K), new_backward(K), np.empty(K)
    mu = np.empty((longest(chains.starts, lo, hi), K))
    set_moves(tail, chains.penalty, moves)
    base, size = chains.starts[lo], 0.0
    for i in range(lo, hi):
        first, last, c = chains.starts[i], chains.starts[i + 1], weights[i - lo]
        if first == last or c == 0.0:
            continue
        own, messages = nodes[first - base : last - base], a[first - base : last - base]
        backward_sums(own, moves, messages, log_z[i - lo], scratch, mu, c, ends)
        subtract_path(ends, K, chains.truth[first:last], c)
        for t in range(first, last):
            size += c * (add_expected_token(chains, t, c, mu[t - first], G, gap) + 2.0)
    return size
