"""Small structured problems, solved independently: every output is enumerated, and F is computed in long
double.

    F(w) = 1/2 (w - m)' S^-1 (w - m) + sum_i c_i max_j (b_ij + <a_ij, w>)

with one plane (a_ij, b_ij) for each output j of example i. This is independent of the library: families
compute the planes from the documented joint features, and the QP is solved by clarabel and refined in long
double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

LD = np.longdouble
EPS = float(np.finfo(np.float64).eps)
EPS_LD = float(np.finfo(LD).eps)


@dataclass
class Example:
    """The planes of one example: rows of ``planes`` and ``offsets``, one for each output.

    ``size`` bounds the absolute values of the terms of a sum in double precision.
    """

    planes: Any
    offsets: Any
    size: Any

    @classmethod
    def of(cls, features: Any, truth: int, losses: Any, rescaling: str = "margin") -> Example:
        """From joint features (one row per output), the index of the true output, and losses."""
        psi = np.asarray(features, dtype=LD)
        delta = psi - psi[truth]
        size = np.abs(psi) + np.abs(psi[truth])
        losses = np.asarray(losses, dtype=LD)
        if rescaling == "slack":
            return cls(losses[:, None] * delta, losses, losses[:, None] * size)
        return cls(delta, losses, size)


@dataclass
class Problem:
    """A sum of maxima of planes, and a quadratic term."""

    examples: list[Example]
    caps: Any
    center: Any = None
    variance: Any = None
    fixed: dict[int, float] = field(default_factory=dict)
    nonnegative: tuple[int, ...] = ()
    nonpositive: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        d = self.examples[0].planes.shape[1]
        self.dim = d
        self.caps = np.asarray(self.caps, dtype=LD)
        self.center = np.zeros(d, dtype=LD) if self.center is None else _full(self.center, d)
        self.variance = np.ones(d, dtype=LD) if self.variance is None else _full(self.variance, d)
        self.learned = np.ones(d, dtype=bool)
        self.learned[list(self.fixed)] = False
        self.lower = np.full(d, -np.inf)
        self.upper = np.full(d, np.inf)
        self.lower[list(self.nonnegative)] = 0.0
        self.upper[list(self.nonpositive)] = 0.0

    def feasible(self, w: Any) -> Any:
        """The nearest weights that respect signs and fixed values."""
        w = np.clip(np.asarray(w, dtype=LD), self.lower.astype(LD), self.upper.astype(LD))
        for k, value in self.fixed.items():
            w[k] = LD(value)
        return w

    def quadratic(self, w: Any) -> Any:
        """The prior's term; that of fixed weights is constant and omitted."""
        step = (np.asarray(w, dtype=LD) - self.center)[self.learned]
        return LD(0.5) * (step * step / self.variance[self.learned]).sum()

    def value(self, w: Any) -> Any:
        """F(w)."""
        w = np.asarray(w, dtype=LD)
        total = self.quadratic(w)
        for cap, example in zip(self.caps, self.examples, strict=True):
            if cap > 0:
                total += cap * (example.offsets + example.planes @ w).max()
        return total

    def size(self, w: Any) -> float:
        """The sum of the absolute values of the terms of F(w); times the unit roundoff, an acceptable
        error."""
        w = np.abs(np.asarray(w, dtype=LD))
        total = self.quadratic(w) + self.quadratic(0 * w)
        for cap, example in zip(self.caps, self.examples, strict=True):
            if cap > 0:
                total += cap * (np.abs(example.offsets) + example.size @ w).max()
        return float(total)


def _full(value: Any, d: int) -> Any:
    return np.array(np.broadcast_to(np.asarray(value, dtype=LD), (d,)))


def referee(problem: Problem, *others: Any) -> tuple[Any, Any]:
    """(w, F(w)) of the best point found: attained, so no valid lower bound is above it."""
    points = [problem.feasible(problem.center), *[problem.feasible(w) for w in others]]
    for w in _solved(problem):
        if np.isfinite(np.asarray(w, dtype=np.float64)).all():
            points.append(problem.feasible(w))
    values = [problem.value(w) for w in points]
    order = np.argsort(np.array(values, dtype=np.float64), kind="stable")
    best, value = points[order[0]], values[order[0]]
    for k in order[1:3]:  # search the lines through the best ones
        w, at = _line(problem, best, points[k])
        if at < value:
            best, value = w, at
    return best, value


def _line(problem: Problem, a: Any, b: Any) -> tuple[Any, Any]:
    """The smallest F between a and beyond b, by golden-section search."""
    lo, hi = LD(-0.5), LD(1.5)
    ratio = (np.sqrt(LD(5)) - 1) / 2
    at = [hi - ratio * (hi - lo), lo + ratio * (hi - lo)]

    def value(t: Any) -> Any:
        return problem.value(problem.feasible(a + t * (b - a)))

    held = [value(t) for t in at]
    for _ in range(70):
        if held[0] <= held[1]:
            hi, at, held = at[1], [None, at[0]], [None, held[0]]
            at[0] = hi - ratio * (hi - lo)
            held[0] = value(at[0])
        else:
            lo, at, held = at[0], [at[1], None], [held[1], None]
            at[1] = lo + ratio * (hi - lo)
            held[1] = value(at[1])
    k = 0 if held[0] <= held[1] else 1
    return problem.feasible(a + at[k] * (b - a)), held[k]


def _solved(problem: Problem) -> Iterator[Any]:
    """Weights from clarabel: of the QP over scaled weights, then refined in long double with its support."""
    held = np.zeros(problem.dim, dtype=LD)
    for k, value in problem.fixed.items():
        held[k] = value
    base = np.where(problem.learned, problem.center, held)
    spread = np.where(problem.learned, np.sqrt(problem.variance), LD(0))
    planes, offsets, owner = [], [], []
    for i, example in enumerate(problem.examples):
        if problem.caps[i] > 0:
            A = example.planes * spread
            b = example.offsets + example.planes @ base
            planes.append(A)
            offsets.append(b)
            owner.extend([i] * len(b))
    if not planes:
        return
    A, b = np.concatenate(planes), np.concatenate(offsets)
    own = np.array(owner)
    signed = np.isfinite(problem.lower) | np.isfinite(problem.upper)
    for v, alpha in _attempts(problem, A, b, own, base, spread):
        yield base + spread * v
        if alpha is None:
            continue
        yield base + spread * -(alpha @ A)
        if not signed.any():
            for share in (1e-9, 1e-6, 1e-3):
                polished = _polished(A, b, own, alpha, problem.caps, share)
                if polished is not None:
                    yield base + spread * polished


def _attempts(
    problem: Problem, A: Any, b: Any, own: Any, base: Any, spread: Any
) -> Iterator[tuple[Any, Any]]:
    """Solutions of the QP in units in which the weights, or the losses, are about one."""
    caps = problem.caps[np.unique(own)]
    names = np.unique(own)
    place = {i: k for k, i in enumerate(names)}
    n, d = len(names), A.shape[1]
    start = sum(c * max(LD(0), b[own == i].max()) for c, i in zip(caps, names, strict=True))
    if not start > 0:
        return
    reach = np.sqrt(2 * start)
    push = sum(
        c * np.sqrt((A[own == i] ** 2).sum(axis=1).max()) for c, i in zip(caps, names, strict=True)
    )
    unit = min(reach, push) if push > 0 else reach
    if not unit > 0 or not np.isfinite(float(unit)):
        return
    # v = unit * z, xi = start / sum(c) * x, F in units of start
    high = start / caps.sum()
    P = sp.diags(
        np.concatenate([np.full(d, float(unit * unit / start)), np.zeros(n)]), format="csc"
    )
    q = np.concatenate([np.zeros(d), (caps * high / start).astype(np.float64)])
    rows = A * unit
    scale = np.maximum(np.abs(rows).max(axis=1), np.maximum(np.abs(b), high))
    left = (rows / scale[:, None]).astype(np.float64)
    pick = sp.csr_matrix(
        ((high / scale).astype(np.float64), (np.arange(len(own)), [place[i] for i in own])),
        shape=(len(own), n),
    )
    matrix = [sp.hstack([sp.csr_matrix(left), -pick])]
    right = [-(b / scale).astype(np.float64)]
    for k in np.flatnonzero(np.isfinite(problem.lower) | np.isfinite(problem.upper)):
        if spread[k] == 0:
            continue
        sign = -1.0 if np.isfinite(problem.lower[k]) else 1.0
        row = np.zeros(d + n)
        row[k] = sign
        matrix.append(sp.csr_matrix(row))
        right.append(np.array([float(-sign * base[k] / (spread[k] * unit))]))
    G, h = sp.csc_matrix(sp.vstack(matrix)), np.concatenate(right)
    if not (np.isfinite(G.data).all() and np.isfinite(h).all()):
        return
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    settings.max_iter = 100
    try:
        found = clarabel.DefaultSolver(
            sp.csc_matrix(sp.triu(P)), q, G, h, [clarabel.NonnegativeConeT(len(h))], settings
        ).solve()
    except BaseException as error:  # a panic of the solver does not concern the library
        if isinstance(error, KeyboardInterrupt):
            raise
        return
    x, z = np.array(found.x), np.array(found.z)
    if not np.isfinite(x).all():
        return
    v = x[:d].astype(LD) * unit
    alpha = None
    if len(z) and np.isfinite(z).all():
        # multipliers of the constraints in the units of F: they sum to c_i for an example
        raw = np.maximum(z[: len(own)], 0).astype(LD) * (start / scale)
        alpha = np.zeros(len(own), dtype=LD)
        for c, i in zip(caps, names, strict=True):
            mine = own == i
            total = raw[mine].sum()
            alpha[mine] = raw[mine] * (c / total) if total > 0 else 0
    yield v, alpha


def _polished(A: Any, b: Any, own: Any, alpha: Any, caps: Any, share: float) -> Any:
    """The point at which the support planes tie exactly: a linear system in long double."""
    support = np.zeros(len(own), dtype=bool)
    for i in np.unique(own):
        mine = own == i
        support |= mine & (alpha > share * caps[i])
    rows = np.flatnonzero(support)
    names = np.unique(own[rows])
    if not 0 < len(rows) <= 80:
        return None
    m, n = len(rows), len(names)
    gram = A[rows] @ A[rows].T
    system = np.zeros((m + n, m + n), dtype=LD)
    right = np.zeros(m + n, dtype=LD)
    # b_j - <A_j, sum alpha A> = xi_i for all j in the support; sum of alpha = c_i
    scale = np.sqrt(np.maximum(np.diagonal(gram), LD(0)))
    scale[scale == 0] = 1
    for r, j in enumerate(rows):
        k = int(np.searchsorted(names, own[j]))
        system[r, :m] = gram[r] / scale[r] / scale
        system[r, m + k] = 1 / scale[r]
        right[r] = b[j] / scale[r]
        system[m + k, r] = 1 / scale[r]
        right[m + k] = caps[own[j]]
    solved = solve(system, right)
    if solved is None:
        return None
    return -((solved[:m] / scale) @ A[rows])


def solve(matrix: Any, right: Any) -> Any:
    """Gaussian elimination with full row pivoting in long double; dependent rows are omitted."""
    M, r = np.array(matrix, dtype=LD), np.array(right, dtype=LD)
    n = len(r)
    big = np.abs(M).max()
    if not (np.isfinite(big) and big > 0):
        return None
    out = np.zeros(n, dtype=LD)
    columns: list[int] = []
    row = 0
    for column in range(n):
        pivot = row + int(np.argmax(np.abs(M[row:, column]))) if row < n else n
        if pivot >= n or np.abs(M[pivot, column]) <= 1e-16 * big:
            continue
        M[[row, pivot]], r[[row, pivot]] = M[[pivot, row]], r[[pivot, row]]
        factor = M[row + 1 :, column] / M[row, column]
        M[row + 1 :] -= factor[:, None] * M[row]
        r[row + 1 :] -= factor * r[row]
        columns.append(column)
        row += 1
    for k in range(len(columns) - 1, -1, -1):
        c = columns[k]
        out[c] = (r[k] - M[k, c + 1 :] @ out[c + 1 :]) / M[k, c]
    return out if np.isfinite(out).all() else None
