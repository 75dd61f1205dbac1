"""Bounds and labelings of graphs with cycles: sequential tree-reweighted message passing (TRW-S).

Kolmogorov (2006), "Convergent tree-reweighted message passing for energy minimization". Every edge has two
messages, M_lo (to its lower node) and M_hi. They only move score between nodes and edges:

    S(y) = sum_i theta_i(y_i) + sum_e theta_e(y_lo, y_hi)
         = sum_i t_i(y_i)     + sum_e [theta_e(y_lo, y_hi) - M_lo(y_lo) - M_hi(y_hi)]

where t_i is theta_i plus the messages to i. A pass goes up and down the order of nodes; gamma_i is 1 over the
larger of the numbers of lower and higher neighbors. In the downward pass, node j sends to each lower neighbor
M_lo(k) = max_l [gamma_j t_j(l) - M_hi(l) + theta_e(k, l)] - delta_e, where delta_e makes the largest entry
zero. So if each of the b_j downward edges of j gets the share gamma_j t_j, the bracket is at most delta_e:

    S(y)  <=  sum_e delta_e + sum_j (1 - gamma_j b_j) max_k t_j(k)        for every y.

This bound holds for any messages and never increases from pass to pass. In the upward pass, labels are chosen
greedily, given those of lower nodes. If its score equals the bound, the labeling is optimal.

A label with a t_i far below the largest cannot be part of a best labeling: in the upward pass, t_i is (up to
constants) the sum of the max-marginals of the chains at i, so with y_i = k the bound is lower by
max t_i - t_i(k). ``alive`` marks the labels for which this bound is not below the best labeling found.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined, leaf

#: passes between two checks of the progress
_WINDOW = 10


@entry
def score_of(nodes, lo, hi, pairs, labels):
    """The score of a labeling."""
    total = 0.0
    for i in range(len(labels)):
        total += nodes[i, labels[i]]
    for e in range(len(lo)):
        total += pairs[e, labels[lo[e]], labels[hi[e]]]
    return total


@inlined
def collect(i, nodes, lo, first, edge, to_lo, to_hi, t):
    """t_i, and the number of lower neighbors."""
    K = nodes.shape[1]
    for k in range(K):
        t[k] = nodes[i, k]
    lower = 0
    for p in range(first[i], first[i + 1]):
        e = edge[p]
        if lo[e] == i:
            for k in range(K):
                t[k] += to_lo[e, k]
        else:
            lower += 1
            for k in range(K):
                t[k] += to_hi[e, k]
    return lower


@leaf
def _up(nodes, lo, hi, pairs, first, edge, to_lo, to_hi, labels, alive, upper, known):
    """Upward pass: messages to higher nodes, greedy labels, labels that can still be optimal."""
    n, K = nodes.shape
    t, own = np.empty(K), np.empty(K)
    for i in range(n):
        lower = collect(i, nodes, lo, first, edge, to_lo, to_hi, t)
        higher = first[i + 1] - first[i] - lower
        gamma = 1.0 / max(1, lower, higher)
        top = t.max()
        for k in range(K):
            own[k] = t[k]
            if upper - (top - t[k]) < known:
                alive[i, k] = False
        for p in range(first[i], first[i + 1]):
            e = edge[p]
            if hi[e] == i:
                for k in range(K):
                    own[k] += pairs[e, labels[lo[e]], k] - to_hi[e, k]
        labels[i] = np.argmax(own)
        for p in range(first[i], first[i + 1]):
            e = edge[p]
            if lo[e] != i:
                continue
            for l in range(K):
                to_hi[e, l] = -np.inf
            for k in range(K):
                share = gamma * t[k] - to_lo[e, k]
                for l in range(K):
                    to_hi[e, l] = max(to_hi[e, l], share + pairs[e, k, l])
            shift = to_hi[e].max()
            for l in range(K):
                to_hi[e, l] -= shift


@leaf
def _down(nodes, lo, hi, pairs, first, edge, to_lo, to_hi):
    """Downward pass; returns the bound."""
    n, K = nodes.shape
    t, share = np.empty(K), np.empty(K)
    bound = 0.0
    for i in range(n - 1, -1, -1):
        lower = collect(i, nodes, lo, first, edge, to_lo, to_hi, t)
        higher = first[i + 1] - first[i] - lower
        gamma = 1.0 / max(1, lower, higher)
        for p in range(first[i], first[i + 1]):
            e = edge[p]
            if hi[e] != i:
                continue
            for l in range(K):
                share[l] = gamma * t[l] - to_hi[e, l]
            for k in range(K):
                top = -np.inf
                for l in range(K):
                    top = max(top, share[l] + pairs[e, k, l])
                to_lo[e, k] = top
            shift = to_lo[e].max()
            for k in range(K):
                to_lo[e, k] -= shift
            bound += shift
        if gamma * lower < 1.0:
            bound += (1.0 - gamma * lower) * t.max()
    return bound


@leaf
def _improve(nodes, lo, hi, pairs, first, edge, labels):
    """Change single labels while the score increases."""
    n, K = nodes.shape
    own = np.empty(K)
    changed = True
    while changed:
        changed = False
        for i in range(n):
            size = 0.0  # magnitude of the terms, to estimate rounding
            for k in range(K):
                own[k] = nodes[i, k]
                size += abs(nodes[i, k])
            for p in range(first[i], first[i + 1]):
                e = edge[p]
                for k in range(K):
                    if lo[e] == i:
                        score = pairs[e, k, labels[hi[e]]]
                    else:
                        score = pairs[e, labels[lo[e]], k]
                    own[k] += score
                    size += abs(score)
            top = np.argmax(own)
            if own[top] > own[labels[i]] + 1e-13 * size:
                labels[i] = top
                changed = True


@leaf
def run_messages(
    nodes,
    lo,
    hi,
    pairs,
    first,
    edge,
    to_lo,
    to_hi,
    labels,
    value,
    alive,
    limit,
    precision,
    progress,
):
    """(value, bound): ``labels``, of score ``value``, are replaced when a better labeling is found."""
    trial = np.zeros(len(labels), np.int64)
    bound, earlier = np.inf, np.inf
    for number in range(limit):
        # A label as good as the best known one stays alive.
        known = value - precision
        _up(nodes, lo, hi, pairs, first, edge, to_lo, to_hi, trial, alive, bound, known)
        _improve(nodes, lo, hi, pairs, first, edge, trial)
        reached = score_of(nodes, lo, hi, pairs, trial)
        if reached > value:
            value = reached
            labels[:] = trial
        bound = min(bound, _down(nodes, lo, hi, pairs, first, edge, to_lo, to_hi))
        if bound - value <= precision:
            break
        if number % _WINDOW == _WINDOW - 1:
            if earlier - bound <= progress * (bound - value):
                break
            earlier = bound
    return value, bound


@entry
def pass_messages(
    nodes, lo, hi, pairs, first, edge, to_lo, to_hi, labels, alive, limit, precision, progress
):
    """(score of ``labels``, bound on all labelings). Stops when they are ``precision`` apart, after ``limit``
    passes, or when ten passes reduce the gap by less than the fraction ``progress``."""
    return run_messages(
        nodes,
        lo,
        hi,
        pairs,
        first,
        edge,
        to_lo,
        to_hi,
        labels,
        -np.inf,
        alive,
        limit,
        precision,
        progress,
    )
