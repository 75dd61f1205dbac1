"""Constraint cache of chains: the most recently used labelings, and their values at any w.

    value_j  =  Delta_j + <w, Psi(z_j) - Psi(y)>

costs one emission for every (token, label) in which a cached labeling differs from the true one. Each
emission is computed once, even if several labelings share it. Local example i has ``size`` slots, of which
``counts[i]`` are filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.compiled.chain import (
    Chains,
    FloatArray,
    IntArray,
    Labels,
    emission,
    longest,
    parts,
    score_difference,
)
from maxmargin.compiled.chain_planes import block, copy_labels
from maxmargin.compiled.jit import entry, leaf


class Slots(NamedTuple):
    """Slot j of local example i has index ``i * size + j``; its labeling starts at
    ``size * (starts[i] - starts[lo]) + j * T_i``."""

    lo: int
    size: int
    counts: IntArray
    labels: Labels
    loss: FloatArray
    clock: IntArray


@leaf
def slot_labels(chains: Chains, slots: Slots, i: int) -> Any:
    """The labelings of local example i as the rows of a matrix; only ``counts[i]`` are filled."""
    first = chains.starts[slots.lo + i]
    T = chains.starts[slots.lo + i + 1] - first
    return block(slots.labels, slots.size * (first - chains.starts[slots.lo]), slots.size, T)


@entry
def same(y: Labels, z: Labels) -> Any:
    """Whether two labelings are equal."""
    for t in range(y.size):  # noqa: SIM110
        if y[t] != z[t]:
            return False
    return True


@entry
def insert_answers(
    chains: Chains, slots: Slots, labels: Labels, losses: FloatArray, now: int
) -> None:
    """Insert one labeling per example; if the slots are full, replace the least recently used."""
    base = chains.starts[slots.lo]
    for i in range(slots.counts.size):
        first, last = chains.starts[slots.lo + i], chains.starts[slots.lo + i + 1]
        z = labels[first - base : last - base]
        if same(z, chains.truth[first:last]):
            continue
        Z = slot_labels(chains, slots, i)
        place = -1
        oldest = 0
        for j in range(slots.counts[i]):
            if same(z, Z[j]):
                place = j
                break
            if slots.clock[i * slots.size + j] < slots.clock[i * slots.size + oldest]:
                oldest = j
        if place < 0:
            if slots.counts[i] < slots.size:
                place = slots.counts[i]
                slots.counts[i] += 1
            else:
                place = oldest
            copy_labels(z, Z[place])
            slots.loss[i * slots.size + place] = losses[i]
        slots.clock[i * slots.size + place] = now


@entry
def cache_values(chains: Chains, slots: Slots, w: FloatArray, out: FloatArray) -> None:
    """The values of all filled slots, example by example."""
    K = chains.cost.shape[0]
    n = slots.counts.size
    T_max = longest(chains.starts, slots.lo, slots.lo + n)
    scores = np.empty((T_max, K))
    mark = np.zeros((T_max, K), dtype=np.int64)
    indptr, indices, data = chains.indptr, chains.indices, chains.data
    W, tail = parts(w, chains.n_features, K)
    entry = 0
    for i in range(n):
        first, last = chains.starts[slots.lo + i], chains.starts[slots.lo + i + 1]
        y = chains.truth[first:last]
        Z = slot_labels(chains, slots, i)
        for j in range(slots.counts[i]):
            for t in range(last - first):
                z = Z[j, t]
                if z != y[t] and mark[t, z] != i + 1:
                    mark[t, z] = i + 1
                    scores[t, z] = emission(indptr, indices, data, W, first + t, z)
                    if mark[t, y[t]] != i + 1:
                        mark[t, y[t]] = i + 1
                        scores[t, y[t]] = emission(indptr, indices, data, W, first + t, y[t])
            loss = slots.loss[i * slots.size + j]
            out[entry] = loss + score_difference(scores, tail, K, y, Z[j])
            entry += 1
