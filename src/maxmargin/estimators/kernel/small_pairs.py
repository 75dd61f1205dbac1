"""One-vs-one problems of few rows, many at once.

The loop, risk and audit of :func:`maxmargin.estimators.kernel.exact.solve_exactly` take about 5 ms of Python
for each pair of classes; LIBSVM solves a pair of 30 rows in 0.03 ms. So kernel values are computed in double
precision for panels of classes, and one compiled call solves all pairs of a panel
(:mod:`maxmargin.compiled.kernel_pairs`). Bounds of rounding errors are then added for all pairs at once.
Pairs that are not certified to the tolerance are left to the method of the estimator. All this depends on the
data only: results are the same for any number of jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.compiled.kernel_pairs import solve_pairs
from maxmargin.core.result import IterationRecord, SolveResult, relative_gap
from maxmargin.core.rounding import UNIT
from maxmargin.core.stopping import Bounds
from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.kernels.blocks import BLOCK_SHARE
from maxmargin.estimators.base import stopping_rule
from maxmargin.estimators.kernel.classes import Pairs, SmallPairs
from maxmargin.estimators.threads import one_blas_thread
from maxmargin.estimators.watching import watchers
from maxmargin.kernels import FromCallable, GramValues, Kernel, KernelRows, center_of
from maxmargin.kernels.extent import ROUNDING
from maxmargin.kernels.rounding import Rounding, summed

#: rows of a pair; kernel values of a panel, unless one class has more; squared rows of the pairs of a
#: compiled call, between which Ctrl-C takes effect
LIMIT, PANEL, WORK = 1000, 1_000_000, 10_000_000


def solve_small_pairs(estimator: Any, kernel: Kernel, X: Any, c: Array, split: Pairs) -> SmallPairs:
    """Solve the pairs of few rows. ``c``: C times the weights of the rows."""
    began, rule, seconds = (
        time.perf_counter(), stopping_rule(estimator.tol), estimator.max_seconds,
    )  # fmt: skip
    pairs, sizes = np.array(split.pairs), split.sizes
    out = SmallPairs(
        np.zeros((len(split.members) - 1, len(c))), np.zeros(len(pairs)), np.zeros(len(pairs), bool)
    )
    members = [rows if len(rows) < LIMIT else rows[:0] for rows in split.members]
    order, starts = np.concatenate(members), np.cumsum([0, *map(len, members)])
    if not _fits(estimator, kernel, starts):
        return out
    allowed = rule.allowed_gap(0.0, estimator.C)
    slope, terms = rule.allowed_gap(1.0, estimator.C) - allowed, np.full((len(pairs), 6), np.nan)
    watching, _ = watchers(estimator, 0, rule, seconds)
    rows = KernelRows(
        kernel, X[order], np.float64, center_of(X) if kernel.shift_invariant else None
    )
    try:
        with one_blas_thread:
            for first, panel, diagonals, at, numbers in _calls(rows, starts, pairs, out):
                if seconds is not None and time.perf_counter() - began >= seconds:
                    break
                solve_pairs(
                    panel, first, diagonals, at, starts, pairs, numbers, c[order], order,
                    slope, allowed, bool(estimator.fit_intercept), out.coef, terms,
                )  # fmt: skip
    except KeyboardInterrupt:
        out.interrupted = True
    of_class = np.array([c[rows].sum() for rows in members])[pairs]
    F, D = _bounds(terms, sizes, of_class.sum(axis=1), rows.rounding())
    out.intercept = np.where(np.isfinite(F), terms[:, 5], 0.0)
    # no valid lower bound is above the objective of a constant; the method of the estimator says so
    constant = 2.0 * of_class.min(axis=1) if estimator.fit_intercept else of_class.sum(axis=1)
    for k in np.flatnonzero(np.isfinite(F)):
        out.done[k] = D[k] <= constant[k] and rule.met(
            Bounds(float(F[k]), float(D[k]), estimator.C)
        )
        if not out.done[k]:
            i, j = pairs[k]
            out.coef[j - 1, members[i]] = out.coef[i, members[j]] = 0.0
    if not out.done.any():
        return out
    upper, lower = float(F[out.done].sum()), float(D[out.done].sum())
    gap, seconds = relative_gap(upper, lower), time.perf_counter() - began
    record = IterationRecord(
        1, upper, lower, gap, int(sizes[out.done].sum()), int(terms[out.done, 4].sum()), None, 1.0,
        seconds, 0.0, 0.0, 0.0, seconds, "pairs", float(estimator.C),
    )  # fmt: skip
    out.result = SolveResult(np.zeros(0), upper, lower, gap, True, "gap", "exact", 1, [record])
    for callback in watching:
        callback(record)
    return out


def _fits(estimator: Any, kernel: Kernel, starts: IntArray) -> bool:
    """Whether kernel values fit into the memory, and a user's function need not be tested pair by pair."""
    n, counts = int(starts[-1]), np.diff(starts)
    size = max(PANEL, int(counts.max()) * n) + int((counts**2).sum())
    given = isinstance(kernel, FromCallable) and not isinstance(kernel.function, GramValues)
    return n > 0 and 8 * size <= BLOCK_SHARE * estimator.memory and not (given and n * n > PANEL)


def _calls(
    rows: KernelRows, starts: IntArray, pairs: IntArray, out: SmallPairs
) -> Iterator[tuple[int, Array, Array, IntArray, IntArray]]:
    """The panels of classes, and the numbers of the pairs of each call. The last classes come first: of later
    classes, a panel needs only the values with themselves."""
    n, counts, hi = int(starts[-1]), np.diff(starts), len(starts) - 1
    ends = np.cumsum(counts**2)
    at, diagonals, sizes = ends - counts**2, np.empty(ends[-1]), counts[pairs].sum(axis=1)
    usable = (counts[pairs] > 0).all(axis=1) & (sizes <= LIMIT)
    while hi > 0:
        lo = hi - 1
        while lo > 0 and (starts[hi] - starts[lo - 1]) * (n - starts[lo - 1]) <= PANEL:
            lo -= 1
        left = starts[lo]
        panel: Any = np.ascontiguousarray(
            rows.take(slice(left, starts[hi])).block(rows.take(slice(left, n)))
        )
        out.kernel_values += panel.size
        for k in range(lo, hi):
            own = panel[
                starts[k] - left : starts[k + 1] - left, starts[k] - left : starts[k + 1] - left
            ]
            diagonals[at[k] : ends[k]] = own.ravel()
        numbers = np.flatnonzero(usable & (lo <= pairs[:, 0]) & (pairs[:, 0] < hi))
        if isinstance(rows.kernel, FromCallable):
            numbers = _semidefinite(rows, panel, starts, pairs, numbers)
        hi, work = lo, np.cumsum(sizes[numbers] ** 2) // WORK
        for part in np.split(numbers, np.flatnonzero(np.diff(work)) + 1):
            if len(part):
                yield lo, panel, diagonals, at, part


def _semidefinite(
    rows: KernelRows, panel: Any, starts: IntArray, pairs: IntArray, numbers: IntArray
) -> IntArray:
    """The pairs whose given kernel values are those of a kernel."""
    if panel.shape == (len(rows), len(rows)):
        return numbers if _is_semidefinite(panel) else numbers[:0]
    kept = []
    for number in numbers:
        pair = rows.take(
            np.concatenate([np.arange(starts[k], starts[k + 1]) for k in pairs[number]])
        )
        if _is_semidefinite(pair.block(pair)):
            kept.append(number)
    return np.array(kept, dtype=np.int64)


def _is_semidefinite(K: Any) -> bool:
    """As :func:`maxmargin.kernels.extent.semidefinite`, but cheaper, and False for some of those."""
    allowed = ROUNDING * len(K) * float(np.diagonal(K).max())
    if not float(np.abs(K - K.T).max()) <= allowed:
        return False
    try:
        np.linalg.cholesky(K + allowed * np.eye(len(K)))
    except np.linalg.LinAlgError:
        return False
    return True


def _bounds(terms: Array, sizes: Any, weight: Any, rounding: Rounding) -> tuple[Array, Array]:
    """F and D of all pairs: see :class:`maxmargin.risks.KernelRisk` and ``KernelDual``."""
    square, linear, loss, size, m, b = terms.T
    norm: Any = rounding.of_norms(sizes, m, size)
    error: Any = rounding.of_sums(m, size) + rounding.of_intercept(b)
    F: Any = summed(square + norm, 2) + summed(loss + error * weight, sizes)
    return F, linear - square - norm - (sizes + 1) * UNIT * size
