"""New planes of a working set: are they new, and how far are they from those held?

With p_j = Psi(y_j) - Psi(y_0), the distances of a new plane come from one scatter of p_new into a
vector of zeros,

    |p_new - p_k|^2  =  |p_new|^2 + |p_k|^2 - 2 <p_new, p_k>

which is right also where tokens share features (and exact for integer ones). A distance of zero may
come out as 1e-16 or be clipped at 0; both send the pair step to its bound, as they should.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.compiled.chain import (
    Chains,
    Data,
    FloatArray,
    Indices,
    IntArray,
    Labels,
    add_difference,
    parts,
    tail_difference,
)
from maxmargin.compiled.chain_planes import Planes, block, copy_labels, find, label_code
from maxmargin.compiled.jit import entry, leaf, leaf_products


@leaf_products
def difference_product(
    indptr: IntArray,
    indices: Indices,
    data: Data,
    V: FloatArray,
    tail: FloatArray,
    first: int,
    y: Labels,
    z: Labels,
) -> Any:
    """<v, Psi(z) - Psi(y)> for the vector v of parts V and ``tail``."""
    total = 0.0
    for t in range(y.size):
        if y[t] != z[t]:
            for p in range(indptr[first + t], indptr[first + t + 1]):
                f = np.uint64(indices[p])
                total += np.float64(data[p]) * (V[f, z[t]] - V[f, y[t]])
    return total + tail_difference(tail, V.shape[1], y, z)


@leaf
def clear_difference(
    indptr: IntArray,
    indices: Indices,
    V: FloatArray,
    tail: FloatArray,
    first: int,
    y: Labels,
    z: Labels,
) -> None:
    """Zero what ``add_difference`` wrote. (Subtracting again would leave rounding behind.)"""
    for t in range(y.size):
        if y[t] != z[t]:
            for p in range(indptr[first + t], indptr[first + t + 1]):
                f = np.uint64(indices[p])
                V[f, y[t]] = 0.0
                V[f, z[t]] = 0.0
    for k in range(tail.size):
        tail[k] = 0.0


@entry
def insert(
    chains: Chains, planes: Planes, vector: FloatArray, i: int, z: Labels, loss: float
) -> Any:
    """Find or add labelling z of example i, which must have room. Returns its plane."""
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
    V, tail = parts(vector, chains.n_features, chains.cost.shape[0])
    add_difference(indptr, indices, data, V, tail, first, Z[0], z, 1.0)
    norm = difference_product(indptr, indices, data, V, tail, first, Z[0], z)
    for k in range(m):
        cross = difference_product(indptr, indices, data, V, tail, first, Z[0], Z[k])
        d2 = max(0.0, norm + D2[k * stride] - 2.0 * cross)
        D2[m * stride + k] = d2
        D2[k * stride + m] = d2
    clear_difference(indptr, indices, V, tail, first, Z[0], z)
    return m


@entry
def restore_planes(
    chains: Chains,
    planes: Planes,
    vector: FloatArray,
    counts: IntArray,
    labels: Labels,
    alpha: FloatArray,
    loss: FloatArray,
    used: Any,
) -> None:
    """Fill fresh sets, which have the room, with planes kept elsewhere (truths included)."""
    plane = 0
    label = 0
    for i in range(counts.size):
        T = chains.starts[i + 1] - chains.starts[i]
        base = planes.first_plane[i]
        for j in range(counts[i]):
            if j > 0:
                insert(chains, planes, vector, i, labels[label : label + T], loss[plane])
            planes.alpha[base + j] = alpha[plane]
            planes.used[base + j] = used[plane]
            plane += 1
            label += T
