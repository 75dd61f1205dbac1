"""The referee: points with a small F, found without any code of the library.

Any point disproves a lower bound above its F, so these points need not be optimal: clarabel's solution of
the problem in three scalings, the exact solution of the equations that hold at the optimum if the tied terms
were identified correctly, and Newton steps for squared losses. All are evaluated in extended precision.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import clarabel
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from tests.reference_optima.program import LONG, Array, LongArray, Program, by_group

#: multipliers below this fraction of the cost count as zero; tried in turn
THRESHOLDS = (1e-3, 1e-5, 1e-7)
NEWTON_STEPS = 12
Scaling = Literal["none", "columns", "center"]
SCALINGS: tuple[Scaling, ...] = ("columns", "none", "center")


def best_point(program: Any, known: list[Any]) -> tuple[LongArray, np.longdouble, float]:
    """The best point of all, its F, and a bound on the rounding error of F."""
    best, value, error = None, LONG(np.inf), 0.0
    own = getattr(program, "points", None)
    with np.errstate(all="ignore"):
        for point in _points(program, known) if own is None else [*known, *own(known)]:
            z = program.feasible(point)
            if not np.isfinite(z).all():
                continue
            F, slack = program.value(z)
            if F + slack < value + error:
                best, value, error = z, F, slack
    if best is None:  # even the center overflows
        return np.asarray(known[0], dtype=LONG), value, error
    return best, value, error


def _points(program: Program, known: list[Any]) -> Iterator[Any]:
    yield program.center
    found: list[LongArray] = [np.asarray(z, dtype=LONG) for z in known]
    yield from found
    for scaling in SCALINGS:
        solution = solve(program, scaling)
        if solution is None:
            continue
        z, multipliers, _ = solution
        found.append(np.asarray(z, dtype=LONG))
        yield z
        if program.precision.ndim == 1 and not program.squared:
            yield _implied(program, z, multipliers)
        if not program.squared:
            for threshold in THRESHOLDS:
                yield tied(program, z, multipliers, threshold)
    if program.squared:
        best = min(found, key=lambda z: program.value(program.feasible(z))[0])
        yield newton(program, program.feasible(best))
    else:
        for z in known[:1]:
            for threshold in THRESHOLDS:
                yield tied(program, z, _nearly(program, z, threshold), 0.5)
        if len(program.h) <= 2 * len(program.cost) and len(program.cost) <= program.size:
            first = np.unique(program.group, return_index=True)[1]
            multipliers = np.zeros(len(program.h))
            multipliers[first] = 0.5 * program.cost[program.group[first]]
            yield tied(program, program.center, multipliers, 1e-3)


def _implied(program: Program, z: Array, multipliers: Array) -> LongArray:
    """The minimizer of the Lagrangian; weights without a penalty are those of ``z``."""
    center, precision, A, _, _ = program.long()
    moved = center - (A.T @ np.maximum(multipliers, 0.0)) / np.where(precision > 0, precision, 1)
    return np.where(precision > 0, moved, z)


def _units(program: Program, scaling: Scaling) -> tuple[Array, float, float]:
    """The units of the weights, of the maxima, and of F, in which clarabel solves the problem.

    "columns": the largest coefficient of a weight is 1, and so is the largest cost; "center": F is 1 at the
    center, and weights are about 1 or less at the optimum.
    """
    p, cost = program.size, program.cost.astype(float)
    A = program.A.astype(float)
    if scaling == "columns":
        largest = np.abs(A).max(axis=0, initial=0.0)
        D = np.where(largest > 0.0, 1.0 / np.maximum(largest, 1e-300), 1.0)
        return D, 1.0, float(cost.max(initial=0.0))
    if scaling == "none" or program.precision.ndim == 2 or program.squared:
        return np.ones(p), 1.0, 1.0
    spread = 1.0 / np.sqrt(np.where(program.precision > 0, program.precision, 1).astype(float))
    start = float(cost @ program.maxima(program.center.astype(LONG)).astype(float))
    lengths = by_group(np.sqrt(((A * spread) ** 2).sum(axis=1)), program.group, len(cost))
    length = min(math.sqrt(2.0 * start), float(cost @ lengths))
    return spread * (length or 1.0), start / max(float(cost.sum()), 1e-300), start


def solve(
    program: Program, scaling: Scaling, unit: float | None = None, accuracy: float = 1e-13
) -> tuple[Array, Array, Array] | None:
    """clarabel's solution z, the multipliers of the terms, and those of the bounds (negative: lower ones).

    The units are those of ``scaling``; ``unit`` replaces that of F.
    """
    p, G, T = program.size, len(program.cost), len(program.h)
    D, high, own = _units(program, scaling)
    unit = own if unit is None else unit
    if not unit > 0.0:
        return None
    A = program.A.astype(float)
    P = program.precision.astype(float)
    P = sp.diags(P) if P.ndim == 1 else P
    quadratic = sp.csc_matrix(sp.diags(D) @ P @ sp.diags(D)) / unit
    linear = -(D * (P @ program.center.astype(float))) / unit
    cost = program.cost.astype(float) * high / unit
    tail = sp.diags(2.0 * high * cost) if program.squared else sp.csc_matrix((G, G))
    H = sp.block_diag([quadratic, tail], format="csc")
    q = np.concatenate([linear, np.zeros(G) if program.squared else cost])
    right = [-program.h.astype(float)]
    size = np.ones(T)
    if scaling == "center":
        size = np.maximum(
            np.maximum(np.abs(A * D).max(axis=1, initial=0.0), np.abs(right[0])), high
        )
    right[0] = right[0] / size
    picks = sp.csc_matrix((high / size, (np.arange(T), program.group)), shape=(T, G))
    rows = [sp.hstack([sp.csc_matrix(A * D / size[:, None]), -picks])]
    rows.append(sp.hstack([sp.csc_matrix((G, p)), -sp.identity(G)]))
    right.append(np.zeros(G))
    bounded: list[tuple[Any, float]] = []
    for bound, sign in ((program.lower, -1.0), (program.upper, 1.0)):
        if bound is not None:
            where = np.flatnonzero(np.isfinite(bound))
            pick = sp.csc_matrix(
                (np.ones(len(where)), (np.arange(len(where)), where)), (len(where), p + G)
            )
            rows.append(sign * pick)
            right.append(sign * bound[where] / D[where])
            bounded += [(k, sign) for k in where]
    M, b = sp.vstack(rows, format="csc"), np.concatenate(right)
    if not (np.isfinite(H.data).all() and np.isfinite(M.data).all() and np.isfinite(b).all()):
        return None
    found = run_clarabel(sp.triu(H, format="csc"), q, M, b, accuracy=accuracy)
    if found is None:
        return None
    x, s = found
    pushes = np.zeros(p)
    for (k, sign), multiplier in zip(bounded, s[T + G :], strict=True):
        pushes[k] += sign * unit * max(0.0, multiplier) / D[k]
    return D * x[:p], unit * s[:T] / size, pushes


def run_clarabel(
    P: Any, q: Any, M: Any, b: Any, equations: int = 0, accuracy: float = 1e-13
) -> tuple[Array, Array] | None:
    """min 1/2 x'Px + q'x with M x <= b, the first ``equations`` rows with equality: x and multipliers."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 200
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = accuracy
    cones = [clarabel.ZeroConeT(equations), clarabel.NonnegativeConeT(len(b) - equations)]
    try:
        answer = clarabel.DefaultSolver(P, q, M, b, cones, settings).solve()
    except BaseException as error:  # a panic in clarabel is not a Python Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    x, s = np.array(answer.x), np.array(answer.z)
    return (x, s) if np.isfinite(x).all() else None


def _nearly(program: Program, z: Any, threshold: float) -> Array:
    """Substitutes for multipliers at a point: equal ones for the terms that nearly tie, including 0."""
    point = np.asarray(z, dtype=LONG)
    _, _, A, h, _ = program.long()
    scores, top = A @ point + h, program.maxima(point)
    size = np.abs(A) @ np.abs(point) + np.abs(h)
    near = np.abs(scores - top[program.group]) <= threshold * size
    zero = top <= threshold * np.maximum(1e-300, _largest(size, program))
    count = np.bincount(program.group[near], minlength=len(program.cost)) + zero
    return (
        np.where(near, 1.0 / np.maximum(count, 1)[program.group], 0.0) * program.cost[program.group]
    )


def _largest(size: LongArray, program: Program) -> LongArray:
    top = np.zeros(len(program.cost), dtype=LONG)
    np.maximum.at(top, program.group, size)
    return top


def tied(program: Program, z: Any, multipliers: Array, threshold: float) -> LongArray:
    """The minimum of F's quadratic piece on which the terms with a nonzero multiplier tie.

    The KKT system, with an equation for each tie, is solved in double precision and refined with residuals in
    extended precision.
    """
    p, cost = program.size, program.cost
    point = np.asarray(z, dtype=LONG)
    if threshold == 0.5:
        positive = multipliers > 0.0
        threshold = 1e-9
    else:
        # of separable problems, all multipliers may be far below the costs
        top = np.minimum(cost[program.group], multipliers.max(initial=0.0))
        positive = multipliers > threshold * top
    used = np.zeros(len(cost))
    np.add.at(used, program.group, np.where(positive, multipliers, 0.0))
    zero = cost - used > threshold * cost
    pull, rows, right = np.zeros(p, dtype=LONG), [], []
    center, precision, A, h, c = program.long()
    for g in range(len(cost)):
        terms = np.flatnonzero(positive & (program.group == g))
        if len(terms) == 0:
            continue
        if zero[g]:
            rows.extend(A[terms])
            right.extend(-h[terms])
        else:
            pull += c[g] * A[terms[0]]
            rows.extend(A[terms[1:]] - A[terms[0]])
            right.extend(h[terms[0]] - h[terms[1:]])
    for bound in (program.lower, program.upper):
        if bound is None:
            continue
        scale = np.abs(point).max(initial=0.0)
        for j in np.flatnonzero(np.isfinite(bound)):
            if np.abs(point[j] - bound[j]) <= threshold * scale:
                row = np.zeros(p, dtype=LONG)
                row[j] = 1
                rows.append(row)
                right.append(LONG(bound[j]))
    E = np.array(rows, dtype=LONG).reshape(len(rows), p)
    e = np.array(right, dtype=LONG)
    P = np.diag(precision) if precision.ndim == 1 else precision
    return _kkt(P, P @ center - pull, E, e)


def _kkt(P: LongArray, q: LongArray, E: LongArray, e: LongArray) -> LongArray:
    """min 1/2 z'Pz - q'z with E z = e."""
    p, k = len(q), len(e)
    K = np.block([[P, E.T], [E, np.zeros((k, k), dtype=LONG)]])
    r = np.concatenate([q, e])
    diagonal = np.sqrt(np.maximum(np.diagonal(P), 1e-300).astype(float))
    free = np.diagonal(P) == 0
    D = np.where(free, 1.0, 1.0 / np.where(free, 1.0, diagonal))
    lengths = np.sqrt(((E * D) ** 2).sum(axis=1).astype(float))
    scale = np.concatenate([D, 1.0 / np.where(lengths > 0.0, lengths, 1.0)])
    S = (scale[:, None] * K * scale).astype(float)
    shift = np.concatenate([np.where(free, 0.0, 0.0), np.full(k, -1e-13)])
    if not np.isfinite(S).all():
        return np.full(p, np.nan, dtype=LONG)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a singular system gives no point, or a bad one
            factor = sl.lu_factor(S + np.diag(shift), check_finite=False)
    except (ValueError, sl.LinAlgError):
        return np.full(p, np.nan, dtype=LONG)
    x = np.zeros(p + k, dtype=LONG)
    for _ in range(8):
        rest = scale * (r - K @ x)
        if not np.isfinite(rest).all():
            break
        x = x + scale * sl.lu_solve(factor, rest.astype(float), check_finite=False)
    return x[:p]


def newton(program: Program, start: LongArray) -> LongArray:
    """Newton steps for squared losses, with gradients and F in extended precision."""
    center, precision, A, h, cost = program.long()
    P = np.diag(precision) if precision.ndim == 1 else precision
    z, (value, _) = start, program.value(start)
    for _ in range(NEWTON_STEPS):
        scores = A @ z + h
        top = program.maxima(z)
        lead = (scores > 0) & (scores == top[program.group])
        slope = np.where(lead, cost[program.group] * scores, LONG(0))
        gradient = P @ (z - center) + 2 * (A.T @ slope)
        H = (P + 2 * (A[lead].T * cost[program.group[lead]]) @ A[lead]).astype(float)
        free = np.ones(len(z), dtype=bool)
        for bound, sign in ((program.lower, 1), (program.upper, -1)):
            if bound is not None:
                free &= ~((z == bound) & (sign * gradient >= 0))
        root = np.sqrt(np.maximum(np.diagonal(H), 1e-300))
        scaled = (H / root / root[:, None])[np.ix_(free, free)]
        if not np.isfinite(scaled).all() or not free.any():
            break
        step = np.zeros(len(z), dtype=LONG)
        try:
            step[free] = sl.lstsq(scaled, (gradient / root)[free].astype(float))[0] / root[free]
        except (ValueError, sl.LinAlgError):
            break
        better = False
        for t in (1.0, 0.5, 0.25, 0.1, 0.01, 1e-4):
            trial = program.feasible(z - t * step)
            F, _ = program.value(trial)
            if value > F:
                z, value, better = trial, F, True
                break
        if not better:
            break
    return z
