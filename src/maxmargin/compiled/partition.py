"""Clusterings of largest total pair score: exact for few items, greedy for many.

A clustering of n items scores the sum of s_ij over the pairs i < j that share a cluster.

Exact: with v(T) the score inside a set T, the best clustering of S is

    best(S)  =  max over T in S that contain S's first item of  v(T) + best(S \\ T)

over subsets as bit masks: 3^n / 2 steps. Greedy: merge the two clusters with the largest positive sum until
there is none, then move single items while the score increases. It may miss the maximum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@entry
def best_partition(scores: FloatArray, labels: IntArray) -> None:
    """Write the clustering of largest score to ``labels``; ``scores`` is symmetric."""
    n = labels.size
    size = 1 << n
    inside, best = np.zeros(size), np.zeros(size)
    chosen = np.zeros(size, dtype=np.int64)
    for S in range(1, size):
        first = 0
        while not (S >> first) & 1:
            first += 1
        rest = S & ~(1 << first)
        value = inside[rest]
        for j in range(first + 1, n):
            if (rest >> j) & 1:
                value += scores[first, j]
        inside[S] = value
        top, at = best[rest], S & (1 << first)  # the first item alone
        T = rest
        while T > 0:
            cluster = T | (1 << first)
            value = inside[cluster] + best[S & ~cluster]
            if value > top:
                top, at = value, cluster
            T = (T - 1) & rest
        best[S], chosen[S] = top, at
    S, name = size - 1, 0
    while S > 0:
        cluster = chosen[S]
        for j in range(n):
            if (cluster >> j) & 1:
                labels[j] = name
        S, name = S & ~cluster, name + 1


@entry
def greedy_partition(scores: FloatArray, labels: IntArray) -> None:
    """Write a clustering of large score to ``labels``; ``scores`` is symmetric."""
    n = labels.size
    between = scores.copy()
    alive = np.ones(n, dtype=np.bool_)
    for i in range(n):
        labels[i] = i
    while True:
        top, a, b = 0.0, -1, -1
        for i in range(n):
            if alive[i]:
                for j in range(i + 1, n):
                    if alive[j] and between[i, j] > top:
                        top, a, b = between[i, j], i, j
        if a < 0:
            break
        alive[b] = False
        for j in range(n):
            between[a, j] += between[b, j]
            between[j, a] = between[a, j]
            if labels[j] == b:
                labels[j] = a
    # A move must gain more than rounding, or two clusters could exchange an item forever.
    floor = 1e-12 * np.abs(scores).sum()
    to = np.empty(n)
    taken = np.empty(n, dtype=np.bool_)
    moved = True
    while moved:
        moved = False
        for i in range(n):
            to[:] = 0.0
            taken[:] = False
            for j in range(n):
                if j != i:
                    to[labels[j]] += scores[i, j]
                    taken[labels[j]] = True
            target = 0  # initially a new cluster: one of the n indices is free
            while taken[target]:
                target += 1
            for name in range(n):
                if to[name] > to[target]:
                    target = name
            if to[target] > to[labels[i]] + floor:
                labels[i] = target
                moved = True
