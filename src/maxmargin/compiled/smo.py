"""Sequential minimal optimization on a block of a kernel problem.

    maximize  <t, b> - 1/2 b'K b      over  lo <= b <= hi   (and sum b fixed, for pairs)

with gradient v = t - K b. A pair step increases b_i and decreases b_j by the same amount: i has the largest v
among those that can increase, and j has the largest second-order gain with i (the rule of Fan, Chen and Lin,
used in LIBSVM),

    (v_i - v_j)^2 / (K_ii + K_jj - 2 K_ij)      over those that can decrease.

If the curvature is not above ``floor``, the rounding error of kernel values (equal rows, kernels that are not
positive semidefinite), it is replaced by ``floor``, so that the step goes to a bound. Single steps, without
the constraint on the sum, take the largest v_i^2 / K_ii.

Maxima and their positions are found in lanes: element t of each chunk competes with element t of the others.
Unlike a search for the overall maximum, this loop has no dependencies and is vectorized.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, inlined, inlined_maxima

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
LANES = 256
ZERO, TWO = np.float32(0.0), np.float32(2.0)
#: steps between two checks of the violation
LOOK = 16

__all__ = ["gather", "pair_steps", "single_steps"]


@inlined_maxima
def _gains(
    v: FloatArray,
    low: Float32Array,
    row: Any,
    diagonal: Float32Array,
    vi: float,
    di: float,
    floor: float,
    k: int,
    best: Float32Array,
    chunk: npt.NDArray[np.int32],
) -> None:
    for t in range(len(v)):
        d = np.float32(vi - v[t]) - low[t]
        d = d if d > ZERO else ZERO
        curvature = di + diagonal[t] - TWO * np.float32(row[t])
        curvature = curvature if curvature > floor else floor
        gain = d * d / curvature
        better = gain > best[t]
        best[t] = gain if better else best[t]
        chunk[t] = k if better else chunk[t]


@inlined_maxima
def _single_gains(
    v: FloatArray,
    up: Float32Array,
    low: Float32Array,
    diagonal: Float32Array,
    floor: float,
    k: int,
    best: Float32Array,
    chunk: npt.NDArray[np.int32],
) -> None:
    for t in range(len(v)):
        x = np.float32(v[t])
        rise, fall = x + up[t], -x - low[t]
        d = rise if rise > fall else fall
        d = d if d > ZERO else ZERO
        curvature = diagonal[t] if diagonal[t] > floor else floor
        gain = d * d / curvature
        better = gain > best[t]
        best[t] = gain if better else best[t]
        chunk[t] = k if better else chunk[t]


@inlined_maxima
def _largest(
    v: FloatArray, up: Float32Array, k: int, best: Float32Array, chunk: npt.NDArray[np.int32]
) -> None:
    for t in range(len(v)):
        x = np.float32(v[t]) + up[t]
        better = x > best[t]
        best[t] = x if better else best[t]
        chunk[t] = k if better else chunk[t]


@inlined_maxima
def _move(
    v: FloatArray,
    up: Float32Array,
    a: Any,
    b: Any,
    step: float,
    k: int,
    best: Float32Array,
    chunk: npt.NDArray[np.int32],
) -> None:
    for t in range(len(v)):
        x = v[t] - step * (np.float64(a[t]) - np.float64(b[t]))
        v[t] = x
        y = np.float32(x) + up[t]
        better = y > best[t]
        best[t] = y if better else best[t]
        chunk[t] = k if better else chunk[t]


@inlined_maxima
def _place(best: Float32Array, chunk: npt.NDArray[np.int32]) -> int:
    """The position of the maximum of all lanes; -1 if none exceeds the initial value."""
    t = 0
    for s in range(len(best)):
        if best[s] > best[t]:
            t = s
    return chunk[t] * len(best) + t if chunk[t] >= 0 else -1


@inlined_maxima
def _free(b: FloatArray, lo: FloatArray, hi: FloatArray, t: int, up: Any, low: Any) -> None:
    up[t] = np.float32(0.0) if b[t] < hi[t] else np.float32(-np.inf)
    low[t] = np.float32(0.0) if b[t] > lo[t] else np.float32(np.inf)


@inlined_maxima
def _violation(v: FloatArray, up: Float32Array, low: Float32Array) -> float:
    """The largest v that can increase minus the smallest that can decrease."""
    top, bottom = -np.inf, np.inf
    for t in range(len(v)):
        if up[t] == ZERO and v[t] > top:
            top = v[t]
        if low[t] == ZERO and v[t] < bottom:
            bottom = v[t]
    return top - bottom


@inlined
def pair_loop(
    K: Any,
    diagonal: Float32Array,
    b: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    v: FloatArray,
    floor: float,
    tol: float,
    max_steps: int,
) -> tuple[int, float]:
    """Pair steps until the violation is at most ``tol``; b and v are updated in place. Returns the number of
    steps and the last violation."""
    n = len(v)
    up, low = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    for t in range(n):
        _free(b, lo, hi, t, up, low)
    lanes = max(1, min(n, LANES))
    best, chunk = np.empty(lanes, dtype=np.float32), np.empty(lanes, dtype=np.int32)
    n_chunks = (n + LANES - 1) // LANES
    best[:], chunk[:] = -np.inf, -1
    for k in range(n_chunks):
        at, to = k * LANES, min(n, (k + 1) * LANES)
        _largest(v[at:to], up[at:to], np.int32(k), best, chunk)
    least = np.float32(floor)
    steps, violation = 0, _violation(v, up, low)
    while violation > tol and steps < max_steps:
        i = _place(best, chunk)
        if i < 0:
            break
        row, vi, di = K[i], v[i], diagonal[i]
        best[:], chunk[:] = ZERO, -1
        for k in range(n_chunks):
            at, to = k * LANES, min(n, (k + 1) * LANES)
            _gains(
                v[at:to],
                low[at:to],
                row[at:to],
                diagonal[at:to],
                vi,
                di,
                least,
                np.int32(k),
                best,
                chunk,
            )
        j = _place(best, chunk)
        if j < 0:  # in single precision, nothing that can decrease is below v_i
            violation = _violation(v, up, low)
            break
        # Do not use the single-precision diagonal: its rounding error could exceed a small curvature.
        curvature = max(float(row[i]) + float(K[j, j]) - 2.0 * float(row[j]), floor)
        step, room_i, room_j = (vi - v[j]) / curvature, hi[i] - b[i], b[j] - lo[j]
        if step >= room_i and room_i <= room_j:
            step, b[i] = room_i, hi[i]
            b[j] = max(lo[j], b[j] - step)
        elif step >= room_j:
            step, b[j] = room_j, lo[j]
            b[i] = min(hi[i], b[i] + step)
        else:
            b[i], b[j] = min(hi[i], b[i] + step), max(lo[j], b[j] - step)
        _free(b, lo, hi, i, up, low)
        _free(b, lo, hi, j, up, low)
        other = K[j]
        best[:], chunk[:] = -np.inf, -1
        for k in range(n_chunks):
            at, to = k * LANES, min(n, (k + 1) * LANES)
            _move(v[at:to], up[at:to], row[at:to], other[at:to], step, np.int32(k), best, chunk)
        steps += 1
        if steps % LOOK == 0:
            violation = _violation(v, up, low)
    return steps, violation


@entry
def pair_steps(
    K: Any,
    diagonal: Float32Array,
    b: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    v: FloatArray,
    floor: float,
    tol: float,
    max_steps: int,
) -> tuple[int, float]:
    """See :func:`pair_loop`, which entries of other files inline."""
    return pair_loop(K, diagonal, b, lo, hi, v, floor, tol, max_steps)


@inlined
def single_loop(
    K: Any,
    diagonal: Float32Array,
    b: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    v: FloatArray,
    floor: float,
    tol: float,
    max_steps: int,
) -> tuple[int, float]:
    """The same without a constraint on the sum; the violation is the largest remaining gradient."""
    n = len(v)
    up, low = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    for t in range(n):
        _free(b, lo, hi, t, up, low)
    lanes = max(1, min(n, LANES))
    best, chunk = np.empty(lanes, dtype=np.float32), np.empty(lanes, dtype=np.int32)
    n_chunks = (n + LANES - 1) // LANES
    least = np.float32(floor)
    steps, violation = 0, np.inf
    while steps < max_steps:
        if steps % LOOK == 0:
            violation = 0.0
            for t in range(n):
                if up[t] == ZERO:
                    violation = max(violation, v[t])
                if low[t] == ZERO:
                    violation = max(violation, -v[t])
            if violation <= tol:
                break
        best[:], chunk[:] = ZERO, -1
        for k in range(n_chunks):
            at, to = k * LANES, min(n, (k + 1) * LANES)
            _single_gains(
                v[at:to], up[at:to], low[at:to], diagonal[at:to], least, np.int32(k), best, chunk
            )
        i = _place(best, chunk)
        if i < 0:
            break
        old = b[i]
        b[i] = min(hi[i], max(lo[i], old + v[i] / max(float(K[i, i]), floor)))
        step, row = b[i] - old, K[i]
        _free(b, lo, hi, i, up, low)
        for t in range(n):
            v[t] -= step * row[t]
        steps += 1
    return steps, violation


@entry
def single_steps(
    K: Any,
    diagonal: Float32Array,
    b: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    v: FloatArray,
    floor: float,
    tol: float,
    max_steps: int,
) -> tuple[int, float]:
    """See :func:`single_loop`, which entries of other files inline."""
    return single_loop(K, diagonal, b, lo, hi, v, floor, tol, max_steps)


@entry
def gather(held: Any, rows: Any, slots: Any, columns: Any, out: Any) -> None:
    """``out[k, columns] = held[rows[k], slots]`` for all k."""
    for k in range(len(rows)):
        source, target = held[rows[k]], out[k]
        for t in range(len(slots)):
            target[columns[t]] = source[slots[t]]
