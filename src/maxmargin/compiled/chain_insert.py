"""Insertion of planes into a working set: duplicate detection, and distances to the held planes.

With p_j = Psi(y_j) - Psi(y_0), the distances of a new plane come from one scatter of p_new into a small table
of zeros with a row for each feature it touches,

    |p_new - p_k|^2  =  |p_new|^2 + |p_k|^2 - 2 <p_new, p_k>

This is correct also if tokens share features (and exact for integer features). A distance of zero may come
out as 1e-16 or be clipped to 0; in both cases the pair step goes to its bound, as it should.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain import (
    Chains,
    Data,
    FloatArray,
    Indices,
    IntArray,
    Labels,
    add_tail_difference,
    tail_difference,
)
from maxmargin.compiled.chain_planes import Planes, block, copy_labels, find, label_code
from maxmargin.compiled.jit import entry, leaf

Places = npt.NDArray[np.int32]


@leaf
def scatter(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    place: Places,
    V: FloatArray,
    tail: FloatArray,
    first: int,
    y: Labels,
    z: Labels,
) -> None:
    """``(V, tail) += Psi(z) - Psi(y)``; rows of V are assigned to features as they occur."""
    n_rows = 0
    for t in range(y.size):
        if y[t] != z[t]:
            for p in range(indptr[first + t], indptr[first + t + 1]):
                f = np.uint64(indices[p])
                if place[f] < 0:
                    place[f] = n_rows
                    n_rows += 1
                V[place[f], z[t]] += data[p]
                V[place[f], y[t]] -= data[p]
    add_tail_difference(tail, V.shape[1], y, z, 1.0)


@leaf
def difference_product(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    place: Places,
    V: FloatArray,
    tail: FloatArray,
    first: int,
    y: Labels,
    z: Labels,
) -> Any:
    """<v, Psi(z) - Psi(y)> for the v written by :func:`scatter`; features without a row are zero."""
    total = 0.0
    for t in range(y.size):
        if y[t] != z[t]:
            for p in range(indptr[first + t], indptr[first + t + 1]):
                row = place[np.uint64(indices[p])]
                if row >= 0:
                    total += np.float64(data[p]) * (V[row, z[t]] - V[row, y[t]])
    return total + tail_difference(tail, V.shape[1], y, z)


@leaf
def clear(
    indptr: IntArray,
    indices: Indices,
    place: Places,
    V: FloatArray,
    tail: FloatArray,
    first: int,
    y: Labels,
    z: Labels,
) -> None:
    """Undo :func:`scatter`. (Subtraction would leave rounding errors.)"""
    for t in range(y.size):
        if y[t] != z[t]:
            for p in range(indptr[first + t], indptr[first + t + 1]):
                row = place[np.uint64(indices[p])]
                V[row, y[t]] = 0.0
                V[row, z[t]] = 0.0
    for t in range(y.size):
        if y[t] != z[t]:
            for p in range(indptr[first + t], indptr[first + t + 1]):
                place[np.uint64(indices[p])] = -1
    for k in range(tail.size):
        tail[k] = 0.0


@entry
def insert(
    chains: Chains,
    planes: Planes,
    place: Places,
    V: FloatArray,
    tail: FloatArray,
    i: int,
    z: Labels,
    loss: float,
) -> Any:
    """Find or add labeling z of example i, which must have room. Returns the index of its plane."""
    indptr, indices, data = chains.indptr, chains.indices, chains.data
    first, T = chains.starts[i], z.size
    base, m, stride = planes.first_plane[i], planes.counts[i], planes.room[i]
    code = label_code(z)
    Z = block(planes.labels, planes.first_label[i], m, T)
    j = find(Z, planes.code[base:], z, code)
    if j >= 0:
        return j

    copy_labels(z, planes.labels[planes.first_label[i] + m * T :])
    planes.alpha[base + m] = 0.0
    planes.loss[base + m] = loss
    planes.code[base + m] = code
    planes.counts[i] = m + 1

    D2 = planes.distances[planes.first_distance[i] :]
    D2[m * stride + m] = 0.0
    scatter(indptr, indices, data, place, V, tail, first, Z[0], z)
    norm = difference_product(indptr, indices, data, place, V, tail, first, Z[0], z)
    for k in range(m):
        cross = difference_product(indptr, indices, data, place, V, tail, first, Z[0], Z[k])
        d2 = max(0.0, norm + D2[k * stride] - 2.0 * cross)
        D2[m * stride + k] = d2
        D2[k * stride + m] = d2
    clear(indptr, indices, place, V, tail, first, Z[0], z)
    return m


@entry
def restore_planes(
    chains: Chains,
    planes: Planes,
    place: Places,
    V: FloatArray,
    tail: FloatArray,
    counts: IntArray,
    labels: Labels,
    alpha: FloatArray,
    loss: FloatArray,
    used: Any,
) -> None:
    """Fill new working sets, which must have room, with stored planes (including the true labelings)."""
    plane = 0
    label = 0
    for i in range(counts.size):
        T = chains.starts[i + 1] - chains.starts[i]
        base = planes.first_plane[i]
        for j in range(counts[i]):
            if j > 0:
                insert(chains, planes, place, V, tail, i, labels[label : label + T], loss[plane])
            planes.alpha[base + j] = alpha[plane]
            planes.used[base + j] = used[plane]
            plane += 1
            label += T
