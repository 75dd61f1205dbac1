"""Storage of the working sets of chains: labelings with dual variables and squared distances.

Storage is flat. Example i has room for ``room[i]`` planes from index ``first_plane[i]``; plane 0 is the true
labeling. Its labelings start at ``first_label[i]``, T_i labels each; its distances at ``first_distance[i]``,
``room[i]`` per row. Labelings take one or two bytes per token, so a plane takes tens of bytes instead of the
thousands that its features would take.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain import FloatArray, IntArray, Labels
from maxmargin.compiled.jit import entry, leaf


class Planes(NamedTuple):
    """Labelings of all examples with their dual variables and distances."""

    caps: FloatArray
    gaps: FloatArray
    counts: IntArray
    room: IntArray
    first_plane: IntArray
    first_label: IntArray
    first_distance: IntArray
    alpha: FloatArray
    loss: FloatArray
    code: npt.NDArray[np.uint64]
    used: npt.NDArray[np.int32]
    labels: Labels
    distances: FloatArray


@entry
def block(labels: Labels, begin: int, m: int, T: int) -> Any:
    """The m labelings of an example as the rows of a matrix."""
    return labels[begin : begin + m * T].reshape(m, T)


@leaf
def copy_labels(source: Labels, target: Labels) -> None:
    """``target[:] = source``. (Numba takes seconds to compile the slice assignment.)"""
    for t in range(source.size):
        target[t] = source[t]


@leaf
def label_code(z: Labels) -> Any:
    """A hash of a labeling (a polynomial modulo 2^64)."""
    code = np.uint64(1469598103934665603)
    for t in range(z.size):
        code = (code ^ np.uint64(z[t])) * np.uint64(1099511628211)
    return code


@entry
def find(Z: Labels, codes: npt.NDArray[np.uint64], z: Labels, code: int) -> Any:
    """The row of Z that equals z, or -1."""
    for j in range(Z.shape[0]):
        if codes[j] == code:
            t = 0
            while t < z.size and Z[j, t] == z[t]:
                t += 1
            if t == z.size:
                return j
    return -1


@entry
def first_planes(starts: IntArray, truth: Labels, planes: Planes) -> None:
    """Initialize every example with the true labeling alone, which gets all of its weight."""
    for i in range(planes.caps.size):
        y = truth[starts[i] : starts[i + 1]]
        copy_labels(y, planes.labels[planes.first_label[i] :])
        planes.alpha[planes.first_plane[i]] = planes.caps[i]
        planes.code[planes.first_plane[i]] = label_code(y)
        planes.distances[planes.first_distance[i]] = 0.0
        planes.counts[i] = 1


@entry
def repack(starts: IntArray, old: Planes, new: Planes) -> None:
    """Copy all planes into storage with more room."""
    for i in range(old.caps.size):
        m = old.counts[i]
        p, q = old.first_plane[i], new.first_plane[i]
        for j in range(m):
            new.alpha[q + j] = old.alpha[p + j]
            new.loss[q + j] = old.loss[p + j]
            new.code[q + j] = old.code[p + j]
            new.used[q + j] = old.used[p + j]
            row = old.first_distance[i] + j * old.room[i]
            row_new = new.first_distance[i] + j * new.room[i]
            for k in range(m):
                new.distances[row_new + k] = old.distances[row + k]
        p, q = old.first_label[i], new.first_label[i]
        for t in range(m * (starts[i + 1] - starts[i])):
            new.labels[q + t] = old.labels[p + t]


@entry
def drop_planes(starts: IntArray, planes: Planes, oldest: int) -> Any:
    """Remove planes with a zero dual variable last used before sweep ``oldest``. Returns their number."""
    dropped = 0
    distances = planes.distances
    for i in range(planes.caps.size):
        base = planes.first_plane[i]
        m = planes.counts[i]
        stride = planes.room[i]
        d0 = planes.first_distance[i]
        Z = block(planes.labels, planes.first_label[i], m, starts[i + 1] - starts[i])
        kept = 1
        for j in range(1, m):
            if planes.alpha[base + j] == 0.0 and planes.used[base + j] < oldest:
                continue
            if kept < j:
                planes.alpha[base + kept] = planes.alpha[base + j]
                planes.loss[base + kept] = planes.loss[base + j]
                planes.code[base + kept] = planes.code[base + j]
                planes.used[base + kept] = planes.used[base + j]
                copy_labels(Z[j], Z[kept])
                # In row-major order, writes stay behind reads.
                for k in range(m):
                    distances[d0 + kept * stride + k] = distances[d0 + j * stride + k]
                for k in range(m):
                    distances[d0 + k * stride + kept] = distances[d0 + k * stride + j]
            kept += 1
        for j in range(kept, m):
            planes.alpha[base + j] = 0.0
            planes.loss[base + j] = 0.0
        planes.counts[i] = kept
        dropped += m - kept
    return dropped
