"""The best labeling of a forest, by dynamic programming from the leaves.

Nodes have the scores ``nodes[i, k]`` and edges ``pairs[e, k, l]`` for label k at ``lo[e]`` and l at
``hi[e]``. Toward the roots, ``best[i, k]`` is the best score of the subtree below i with label k at i; the
choice for each label of a parent is stored for backtracking.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry


@entry
def incidence(lo, hi, first, edge):
    """Incident edges: node i has ``edge[first[i] .. first[i+1]-1]``."""
    n = len(first) - 1
    first[:] = 0
    for e in range(len(lo)):
        first[lo[e] + 1] += 1
        first[hi[e] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    place = first[:-1].copy()
    for e in range(len(lo)):
        edge[place[lo[e]]] = e
        edge[place[hi[e]]] = e
        place[lo[e]] += 1
        place[hi[e]] += 1


@entry
def forest_order(lo, hi, first, edge, order, up):
    """Nodes with parents first, and the edge of each node to its parent (-1 for roots); False if there is a
    cycle."""
    n = len(order)
    up[:] = -2
    done = 0
    for root in range(n):
        if up[root] != -2:
            continue
        up[root] = -1
        order[done] = root
        at, done = done, done + 1
        while at < done:
            i = order[at]
            at += 1
            for p in range(first[i], first[i + 1]):
                e = edge[p]
                if e == up[i]:
                    continue
                j = hi[e] if lo[e] == i else lo[e]
                if up[j] != -2:
                    return False
                up[j] = e
                order[done] = j
                done += 1
    return True


@entry
def best_of_forest(nodes, lo, hi, pairs, order, up, labels):
    """The largest score; ``labels`` becomes a labeling that attains it (ties: the smallest label)."""
    n, K = nodes.shape
    best = nodes.copy()
    choice = np.empty((n, K), np.int32)
    total = 0.0
    for at in range(n - 1, -1, -1):
        i = order[at]
        e = up[i]
        if e < 0:
            labels[i] = np.argmax(best[i])
            total += best[i, labels[i]]
            continue
        below = lo[e] == i
        parent = hi[e] if below else lo[e]
        for k in range(K):
            top, which = -np.inf, 0
            for l in range(K):
                value = best[i, l] + (pairs[e, l, k] if below else pairs[e, k, l])
                if value > top:
                    top, which = value, l
            best[parent, k] += top
            choice[i, k] = which
    for at in range(n):
        i = order[at]
        e = up[i]
        if e >= 0:
            labels[i] = choice[i, labels[hi[e] if lo[e] == i else lo[e]]]
    return total
