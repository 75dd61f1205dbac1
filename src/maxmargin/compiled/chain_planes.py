"""Storage of the working sets of chains: labellings with multipliers and squared distances.

Storage is flat. Example i has room for ``room[i]`` planes from number ``first_plane[i]`` on; plane 0 is
the truth. Its labellings start at ``first_label[i]``, T_i labels each; its distances at
``first_distance[i]``, ``room[i]`` to a row. Labellings are one or two bytes a token, so a plane costs tens
of bytes where its features would cost thousands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from maxmargin.compiled.chain import FloatArray, IntArray, Labels


class Planes(NamedTuple):
    """Labellings of all examples with their multipliers and distances."""

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


@njit(nogil=True, cache=True, error_model="numpy")
def labelling(planes: Planes, i: int, j: int, T: int) -> Any:
    """Plane j of example i."""
    begin = planes.first_label[i] + j * T
    return planes.labels[begin : begin + T]


@njit(nogil=True, cache=True, error_model="numpy")
def label_code(z: Labels, T: int) -> Any:
    """A number that tells most labellings apart (a polynomial modulo 2^64)."""
    code = np.uint64(1469598103934665603)
    for t in range(T):
        code = (code ^ np.uint64(z[t])) * np.uint64(1099511628211)
    return code


@njit(nogil=True, cache=True, error_model="numpy")
def same_labels(y: Labels, z: Labels, T: int) -> Any:
    """Whether two labellings are equal."""
    for t in range(T):
        if y[t] != z[t]:
            return False
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def copy_labels(source: Labels, target: Labels) -> None:
    """``target[:] = source``. (Numba takes seconds to compile the slice assignment.)"""
    for t in range(source.size):
        target[t] = source[t]


@njit(nogil=True, cache=True, error_model="numpy")
def find(planes: Planes, i: int, T: int, z: Labels, code: int) -> Any:
    """The plane of example i with labelling z, or -1."""
    base = planes.first_plane[i]
    for j in range(planes.counts[i]):
        if planes.code[base + j] == code and same_labels(labelling(planes, i, j, T), z, T):
            return j
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def first_planes(starts: IntArray, truth: Labels, planes: Planes) -> None:
    """Start every example with the truth alone, holding all of its weight."""
    for i in range(planes.caps.size):
        first, last = starts[i], starts[i + 1]
        base = planes.first_plane[i]
        copy_labels(truth[first:last], labelling(planes, i, 0, last - first))
        planes.alpha[base] = planes.caps[i]
        planes.code[base] = label_code(truth[first:last], last - first)
        planes.distances[planes.first_distance[i]] = 0.0
        planes.counts[i] = 1


@njit(nogil=True, cache=True, error_model="numpy")
def repack(starts: IntArray, old: Planes, new: Planes) -> None:
    """Copy all planes into storage with more room."""
    for i in range(old.caps.size):
        T = starts[i + 1] - starts[i]
        m = old.counts[i]
        p, q = old.first_plane[i], new.first_plane[i]
        for j in range(m):
            new.alpha[q + j] = old.alpha[p + j]
            new.loss[q + j] = old.loss[p + j]
            new.code[q + j] = old.code[p + j]
            new.used[q + j] = old.used[p + j]
            copy_labels(labelling(old, i, j, T), labelling(new, i, j, T))
            row = old.first_distance[i] + j * old.room[i]
            row_new = new.first_distance[i] + j * new.room[i]
            for k in range(m):
                new.distances[row_new + k] = old.distances[row + k]


@njit(nogil=True, cache=True, error_model="numpy")
def drop_planes(starts: IntArray, planes: Planes, oldest: int) -> Any:
    """Forget planes of multiplier zero last used before ``oldest``. Returns how many."""
    dropped = 0
    for i in range(planes.caps.size):
        base = planes.first_plane[i]
        T = starts[i + 1] - starts[i]
        stride = planes.room[i]
        d0 = planes.first_distance[i]
        m = planes.counts[i]
        kept = 1
        for j in range(1, m):
            if planes.alpha[base + j] == 0.0 and planes.used[base + j] < oldest:
                continue
            if kept < j:
                planes.alpha[base + kept] = planes.alpha[base + j]
                planes.loss[base + kept] = planes.loss[base + j]
                planes.code[base + kept] = planes.code[base + j]
                planes.used[base + kept] = planes.used[base + j]
                copy_labels(labelling(planes, i, j, T), labelling(planes, i, kept, T))
                # rows first, then columns: the target lies before everything still to be read
                for k in range(m):
                    planes.distances[d0 + kept * stride + k] = planes.distances[d0 + j * stride + k]
                for k in range(m):
                    planes.distances[d0 + k * stride + kept] = planes.distances[d0 + k * stride + j]
            kept += 1
        for j in range(kept, m):
            planes.alpha[base + j] = 0.0
            planes.loss[base + j] = 0.0
        planes.counts[i] = kept
        dropped += m - kept
    return dropped
