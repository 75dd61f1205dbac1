"""The constraint cache of chains: the labellings used last, and their values at any w.

    value_j  =  Delta_j + <w, Psi(z_j) - Psi(y)>

costs one emission for every (token, label) in which a cached labelling differs from the truth, each
computed once however many labellings share it. Local example i has ``size`` slots; ``counts[i]`` are filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from maxmargin.compiled.chain import (
    Chains,
    FloatArray,
    IntArray,
    Labels,
    add_difference,
    emission,
    longest,
    score_difference,
)


class Slots(NamedTuple):
    """Slot j of local example i has number ``i * size + j``; its labelling starts at
    ``size * (starts[i] - starts[lo]) + j * T_i``."""

    lo: int
    size: int
    counts: IntArray
    labels: Labels
    loss: FloatArray
    clock: IntArray


@njit(nogil=True, cache=True, error_model="numpy")
def slot_labels(chains: Chains, slots: Slots, i: int, j: int) -> Any:
    """The labelling in slot j of local example i."""
    first = chains.starts[slots.lo + i]
    T = chains.starts[slots.lo + i + 1] - first
    begin = slots.size * (first - chains.starts[slots.lo]) + j * T
    return slots.labels[begin : begin + T]


@njit(nogil=True, cache=True, error_model="numpy")
def insert_answers(
    chains: Chains, slots: Slots, labels: Labels, losses: FloatArray, now: int
) -> None:
    """Take one labelling per example; the least recently used leaves where the slots are full."""
    base = chains.starts[slots.lo]
    for i in range(slots.counts.size):
        first, last = chains.starts[slots.lo + i], chains.starts[slots.lo + i + 1]
        z = labels[first - base : last - base]
        if np.array_equal(z, chains.truth[first:last]):
            continue
        place = -1
        oldest = 0
        for j in range(slots.counts[i]):
            if np.array_equal(z, slot_labels(chains, slots, i, j)):
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
            slot_labels(chains, slots, i, place)[:] = z
            slots.loss[i * slots.size + place] = losses[i]
        slots.clock[i * slots.size + place] = now


@njit(nogil=True, cache=True, error_model="numpy")
def cache_values(chains: Chains, slots: Slots, w: FloatArray, out: FloatArray) -> None:
    """The values of all filled slots, example by example."""
    K = chains.cost.shape[0]
    n = slots.counts.size
    T_max = longest(chains.starts, slots.lo, slots.lo + n)
    scores = np.empty((T_max, K))
    mark = np.full((T_max, K), -1)
    tail = w[chains.n_features * K :]
    entry = 0
    for i in range(n):
        first, last = chains.starts[slots.lo + i], chains.starts[slots.lo + i + 1]
        T = last - first
        y = chains.truth[first:last]
        for j in range(slots.counts[i]):
            z = slot_labels(chains, slots, i, j)
            for t in range(T):
                if z[t] != y[t]:
                    if mark[t, z[t]] != i:
                        mark[t, z[t]] = i
                        scores[t, z[t]] = emission(chains, first + t, z[t], w)
                    if mark[t, y[t]] != i:
                        mark[t, y[t]] = i
                        scores[t, y[t]] = emission(chains, first + t, y[t], w)
            loss = slots.loss[i * slots.size + j]
            out[entry] = loss + score_difference(scores, tail, K, T, y, z)
            entry += 1


@njit(nogil=True, cache=True, error_model="numpy")
def cache_cut(
    chains: Chains, slots: Slots, chosen: IntArray, weights: FloatArray, plane: FloatArray
) -> Any:
    """``plane += sum_i weights_i (Psi(z_i) - Psi(y_i))`` over the chosen slots (-1: none).

    Returns the offset, sum_i weights_i Delta_i.
    """
    offset = 0.0
    for i in range(slots.counts.size):
        j = chosen[i]
        if j >= 0 and weights[i] != 0.0:
            first, last = chains.starts[slots.lo + i], chains.starts[slots.lo + i + 1]
            y, z = chains.truth[first:last], slot_labels(chains, slots, i, j)
            add_difference(chains, first, last - first, y, z, weights[i], plane)
            offset += weights[i] * slots.loss[i * slots.size + j]
    return offset
