"""Exact inference by branch and bound on the labels of single nodes, with message-passing bounds.

A subproblem forbids labels of some nodes. Its messages start from those of the previous subproblem; any
messages give a valid bound. If the bound does not exceed the best labeling known, the subproblem is pruned.
Otherwise it branches on the possible labels of the least certain node.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, leaf
from maxmargin.compiled.messages import collect, run_messages, score_of

#: score of a forbidden label; finite, so that sums and differences stay finite
_FORBIDDEN = -1e100
_PASSES = 40
_PROGRESS = 0.1
#: maximum depth of the search tree
_DEPTH = 100


@leaf
def _least_certain(nodes, lo, first, edge, to_lo, to_hi, alive, t):
    """The node whose two best possible labels are closest, -1 if no node has two."""
    closest, which = np.inf, -1
    for i in range(len(nodes)):
        collect(i, nodes, lo, first, edge, to_lo, to_hi, t)
        top, second = -np.inf, -np.inf
        for k in range(len(t)):
            if alive[i, k]:
                second = max(second, min(top, t[k]))
                top = max(top, t[k])
        if top - second < closest:
            closest, which = top - second, i
    return which


@entry
def search(nodes, lo, hi, pairs, first, edge, to_lo, to_hi, labels, value, alive, limit, precision):
    """(score of the best labeling, whether the search is complete) after at most ``limit`` subproblems.

    ``labels`` of score ``value`` is the best known labeling; ``alive`` marks the labels not ruled out.
    """
    n, K = nodes.shape
    scores = np.empty((_DEPTH + 1, n, K))  # of the subproblem at each depth
    branch, upcoming = np.empty(_DEPTH + 1, np.int64), np.zeros(_DEPTH + 1, np.int64)
    order, t, trial = np.empty((_DEPTH + 1, K), np.int64), np.empty(K), np.empty(n, np.int64)
    scores[0] = np.where(alive, nodes, _FORBIDDEN)
    depth, seen, fresh = 0, 0, True
    while depth >= 0:
        mine = scores[depth]
        if fresh:
            fresh = False
            seen += 1
            if seen > limit:
                return value, False
            here = mine > 0.5 * _FORBIDDEN
            value, bound = run_messages(
                mine,
                lo,
                hi,
                pairs,
                first,
                edge,
                to_lo,
                to_hi,
                labels,
                value,
                here,
                _PASSES,
                precision,
                _PROGRESS,
            )
            if bound - value <= precision:
                depth -= 1
                continue
            for i in range(n):
                for k in range(K):
                    if not here[i, k]:
                        mine[i, k] = _FORBIDDEN
            i = _least_certain(mine, lo, first, edge, to_lo, to_hi, here, t)
            if i < 0:  # one labeling is left
                for j in range(n):
                    trial[j] = np.argmax(mine[j])
                reached = score_of(mine, lo, hi, pairs, trial)
                if reached > value:
                    value = reached
                    labels[:] = trial
                depth -= 1
                continue
            if depth == _DEPTH:
                return value, False
            branch[depth], upcoming[depth] = i, 0
            collect(i, mine, lo, first, edge, to_lo, to_hi, t)
            order[depth] = np.argsort(-t)
        i, at = branch[depth], upcoming[depth]
        if at == K or mine[i, order[depth, at]] <= 0.5 * _FORBIDDEN:  # forbidden labels come last
            depth -= 1
            continue
        upcoming[depth] += 1
        scores[depth + 1] = mine
        for k in range(K):
            if k != order[depth, at]:
                scores[depth + 1, i, k] = _FORBIDDEN
        depth += 1
        fresh = True
    return value, True
