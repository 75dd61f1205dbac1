"""Kernel problems of many small pairs of classes, in one call.

    maximize  <y, b> - 1/2 b'K b      over  0 <= y_i b_i <= c_i   (and sum b = 0, with an intercept)

for each pair: y is 1 for the samples of its first class and -1 for those of its second. Each is solved by
steps of :mod:`maxmargin.compiled.smo` until the violation is small. Then come the terms of F and D; if the
gap is too large, the allowed violation falls in proportion. The last terms are those of the multipliers that
are returned: these are multiples of the last digit of the largest c, so that their sum is zero exactly and
not up to rounding, and their scores are computed anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, leaf
from maxmargin.compiled.smo import pair_loop, single_loop

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
#: the first violation at which bounds are computed; steps per sample; the largest kernel value
FIRST, EFFORT, LARGEST = 0.3, 50, 1e18
#: the part of the allowed gap to reach; the range of the factor by which the violation falls
READY, LEAST, MOST = 0.9, 0.02, 0.5
#: slope of the loss, as a fraction of all weights, that is due to rounding; 4 units of rounding
FLAT, EPSILON = 1e-13, 2.0**-50

__all__ = ["solve_pairs"]


@leaf
def _assemble(rows: FloatArray, diagonals: FloatArray, at: int, other: int, K: Any) -> None:
    """The kernel matrix of two classes from ``rows``, their values with each other."""
    m, n = rows.shape
    for k in range(m):
        for t in range(m):
            K[k, t] = diagonals[at + k * m + t]
        for t in range(n):
            K[k, m + t] = rows[k, t]
            K[m + t, k] = rows[k, t]
    for k in range(n):
        for t in range(n):
            K[m + k, m + t] = diagonals[other + k * n + t]


@leaf
def _best_intercept(v: FloatArray, c: FloatArray, m: int) -> float:
    """As in :meth:`maxmargin.duals.kernels.terms.KernelTerms.best_intercept`."""
    order, total, goal = np.argsort(v), c.sum(), c[:m].sum()
    low, high = goal - FLAT * total, goal + FLAT * total
    passed, k = 0.0, 0
    while k < len(v) - 1 and passed + c[order[k]] < low:
        passed += c[order[k]]
        k += 1
    first = v[order[k]]
    while k < len(v) - 1 and passed + c[order[k]] < high:
        passed += c[order[k]]
        k += 1
    return float(first + 0.5 * (v[order[k]] - first))


@leaf
def _terms(
    beta: FloatArray, f: FloatArray, c: FloatArray, m: int, balanced: bool, v: FloatArray, out: Any
) -> None:
    """1/2 |f|^2, <y, beta>, loss, |beta|_1, number of support vectors, and intercept; and v = y - f."""
    for t in range(len(v)):
        v[t] = (1.0 if t < m else -1.0) - f[t]
    b = _best_intercept(v, c, m) if balanced else 0.0
    square, linear, loss, size, count = 0.0, 0.0, 0.0, 0.0, 0
    for t in range(len(v)):
        y = 1.0 if t < m else -1.0
        square += beta[t] * f[t]
        linear += y * beta[t]
        loss += c[t] * max(0.0, y * (v[t] - b))
        size += abs(beta[t])
        count += beta[t] != 0.0
    out[0], out[1], out[2], out[3], out[4], out[5] = 0.5 * square, linear, loss, size, count, b


@leaf
def _sum_to_zero(beta: FloatArray, c: FloatArray) -> None:
    """Make the sum exactly zero, by moves toward zero: these stay within all bounds."""
    unit, total = math.ldexp(1.0, math.frexp(c.max())[1] - 53), np.int64(0)
    for t in range(len(beta)):
        multiple = np.int64(beta[t] / unit)  # exact, and at most 2^53: no sum of 1000 overflows
        beta[t] = multiple * unit
        total += multiple
    while total != 0:
        k, room, free = -1, 0.0, False
        for t in range(len(beta)):
            x = beta[t] if total > 0 else -beta[t]
            inside = x < c[t]  # of these first, because others are at their bounds
            if x > 0.0 and ((inside and not free) or (inside == free and x > room)):
                k, room, free = t, x, inside
        step = min(abs(total), np.int64(room / unit))
        step = step if total > 0 else -step
        beta[k] -= step * unit
        total -= step


@leaf
def _scores(K: Any, beta: FloatArray, f: FloatArray) -> None:
    """f = K beta."""
    f[:] = 0.0
    for k in range(len(beta)):
        if beta[k] != 0.0:
            row, factor = K[k], beta[k]
            for t in range(len(f)):
                f[t] += factor * row[t]


@entry
def solve_pairs(
    panel: FloatArray,
    first_class: int,
    diagonals: FloatArray,
    at: IntArray,
    starts: IntArray,
    pairs: IntArray,
    numbers: IntArray,
    c: FloatArray,
    order: IntArray,
    relative: float,
    absolute: float,
    balanced: bool,
    coef: FloatArray,
    terms: FloatArray,
) -> None:
    """Solve the pairs with these numbers until F - D <= ``relative`` F + ``absolute``, as far as possible.

    Samples are sorted by class: class k has ``starts[k]`` to ``starts[k + 1]``, and its kernel values with
    itself are at ``diagonals[at[k]]``. The panel has those of samples from ``first_class`` on, rows and
    columns. ``order[k]`` is the column of sample k in ``coef``, whose rows are those of LIBSVM: see
    :mod:`maxmargin.estimators.kernel.classes`. ``terms`` has one row per pair, see :func:`_terms`; a pair
    that is not solved keeps its row and its coefficients.
    """
    left, largest = starts[first_class], 0
    for p in numbers:
        i, j = pairs[p]
        largest = max(largest, starts[i + 1] - starts[i] + starts[j + 1] - starts[j])
    memory, now = np.empty(largest * largest), np.empty(6)
    for p in numbers:
        i, j = pairs[p]
        m, n_j = starts[i + 1] - starts[i], starts[j + 1] - starts[j]
        n = m + n_j
        K = memory[: n * n].reshape((n, n))
        rows = panel[
            starts[i] - left : starts[i + 1] - left, starts[j] - left : starts[j + 1] - left
        ]
        _assemble(rows, diagonals, at[i], at[j], K)
        own, diagonal = np.empty(n), np.empty(n, dtype=np.float32)
        own[:m], own[m:] = c[starts[i] : starts[i + 1]], c[starts[j] : starts[j + 1]]
        top = 0.0
        for t in range(n):
            diagonal[t] = K[t, t]
            top = max(top, abs(K[t, t]))
        if not top <= LARGEST:
            continue
        lo, hi, beta, f, v = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.empty(n)
        hi[:m], lo[m:], v[:m], v[m:] = own[:m], -own[m:], 1.0, -1.0
        floor, goal, budget = EPSILON * max(top, 1e-30), FIRST, EFFORT * n
        while budget > 0 and goal > 0.0:
            if balanced:
                done, violation = pair_loop(K, diagonal, beta, lo, hi, v, floor, goal, budget)
            else:
                done, violation = single_loop(K, diagonal, beta, lo, hi, v, floor, goal, budget)
            budget -= max(done, 1)
            for t in range(n):
                f[t] = (1.0 if t < m else -1.0) - v[t]
            _terms(beta, f, own, m, balanced, v, now)
            allowed = relative * (now[0] + now[2]) + absolute
            gap = 2.0 * now[0] + now[2] - now[1]
            if gap <= READY * allowed:
                if balanced:
                    _sum_to_zero(beta, own)
                _scores(K, beta, f)
                _terms(beta, f, own, m, balanced, v, now)
                allowed = relative * (now[0] + now[2]) + absolute
                gap = 2.0 * now[0] + now[2] - now[1]
                if gap <= allowed:
                    for t in range(m):
                        coef[j - 1, order[starts[i] + t]] = beta[t]
                    for t in range(m, n):
                        coef[i, order[starts[j] + t - m]] = beta[t]
                    terms[p] = now
                    break
            goal = min(goal, violation) * min(MOST, max(LEAST, 0.5 * allowed / gap))
