"""The reduced problem of a bundle without its Gram matrix, for small bundles whose columns differ by decades.

    min over w, xi     1/2 sum_k p_k w_k^2 + C xi
    subject to         s_j = xi - o_j - <a_j, w> >= 0,     z_k = w_k - f_k >= 0 for signed coordinates

p_k is 1, or 0 for unpenalized coordinates. The active-set method of :mod:`maxmargin.core.qp` works on the
Gram matrix of the planes, whose condition number is the square of that of the planes. With features of very
different scales and a large C it runs out of digits long before the tolerance is reached. Here columns are
scaled to one, and :mod:`maxmargin.core.predictor_corrector` moves all multipliers at once. With xi eliminated
and theta = beta / s, the matrix of a step is

    diag(p) + diag(rho) + A' (Theta - theta theta' / sum(theta)) A

A QR decomposition of its square root loses no digits by squaring. It takes about 30 steps of O(m d^2), which
is fast for up to a few hundred planes and coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from maxmargin.core.predictor_corrector import PredictorCorrector, Solve
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector

#: maximum of planes times coordinates; up to here a step takes milliseconds
MAX_ENTRIES = 100_000
#: proximal term along unpenalized coordinates, relative to the curvature
PROXIMAL = 1e-13
#: multipliers below this fraction of C are set to zero
INVISIBLE = 1e-14
#: if the planes other than the zero plane have less than SMALL of the multipliers, the problem is solved
#: again for a C of FACTOR times their multipliers
MAX_ROUNDS, SMALL, FACTOR = 3, 1e-3, 10.0
#: weight of equations that must hold, relative to those that should
PRIORITY = 1e4


class DenseSolution(NamedTuple):
    """The point w and the multipliers of the planes, which sum to one."""

    w: Array
    beta: Array


def solve_planes(
    planes: Sequence[Vector], offsets: Array, C: float, omega: SquaredNorm, dim: int
) -> DenseSolution | None:
    """Solve the reduced problem of these planes; ``offsets`` begin with that of the zero plane. Tiny
    multipliers are set to zero. Return None if the problem is too large or the arithmetic breaks down."""
    if not planes or (len(planes) + 1 + dim) * dim > MAX_ENTRIES:
        return None
    rows = np.zeros((len(planes) + 1, dim))
    for row, plane in zip(rows[1:], planes, strict=True):
        row[:] = plane.to_dense() if isinstance(plane, SparseVector) else plane
    best, share = None, 1.0
    for _ in range(MAX_ROUNDS):
        found = _solve(rows, offsets, share * C, omega)
        if found is None:
            break
        beta = np.where(found.beta >= INVISIBLE, found.beta, 0.0)
        beta /= beta.sum()
        used = float(found.beta[1:].sum())
        if best is not None:
            if used > 0.5:  # the smaller C may be too small
                break
            beta[1:] *= share
            beta[0] = 1.0 - beta[1:].sum()
        best = DenseSolution(found.w, beta)
        if not 0.0 < used < SMALL:
            break
        # the digits of the multipliers are those of C: the optimum is the same for a C that they do not reach
        share *= FACTOR * used
        if share * C == 0.0:  # no smaller double
            break
    return best


def _solve(planes: Array, offsets: Array, C: float, omega: SquaredNorm) -> DenseSolution | None:
    """Solve the problem of these rows; return None if the arithmetic breaks down."""
    penalty = np.ones(planes.shape[1])
    penalty[omega.free] = 0.0
    signed = np.asarray(omega.nonnegative, dtype=np.int64)
    size = np.abs(planes).max(axis=0)
    size[size == 0.0] = 1.0
    unit = max(float(np.abs(offsets).max()), 1e-300)
    with np.errstate(all="ignore"):  # a problem beyond the range of doubles ends with None
        # w = unit v / size, all divided by C unit
        A, P = planes / size, penalty * (unit / C) / size / size
        floors = omega.floors * (size[signed] / unit)
        v, beta = _PlaneProgram(A, offsets / unit, P, signed, floors).solved()
    w = unit * v / size
    if not (np.isfinite(w).all() and np.isfinite(beta).all()):
        return None
    if len(omega.free):
        beta = _balanced(beta, A, P)
        w[omega.free] = _shortest(w[omega.free], planes[:, omega.free])
    return DenseSolution(w, beta)


def _balanced(beta: Array, A: Array, P: Array) -> Array:
    """Nearby multipliers with the sum one and ``A' beta = 0`` where P is zero, as the dual requires of
    unpenalized coordinates.

    The other coordinates of A' beta should not change: the dual value falls by half of their squared changes
    divided by P, which is tiny at a large C.
    """
    free = P == 0.0
    equations = np.concatenate([A[:, free], np.ones((len(beta), 1))], axis=1)
    with np.errstate(all="ignore"):
        # relative changes, so that small multipliers stay positive
        required = beta[:, None] * equations
        kept = beta[:, None] * (A[:, ~free] / np.sqrt(P[~free]))
        largest = float(np.abs(kept).max(initial=0.0))
        kept *= float(np.abs(required).max()) / (PRIORITY * largest) if largest > 0.0 else 0.0
        both = np.concatenate([required, kept], axis=1).T
        if not np.isfinite(both).all():
            both = required.T
        for _ in range(4):
            wrong = np.zeros(len(both))
            wrong[: equations.shape[1]] = equations.T @ beta
            wrong[equations.shape[1] - 1] -= 1.0
            better = beta + beta * np.linalg.lstsq(both, -wrong, rcond=1e-13)[0]
            if not (better >= 0.0).all():
                break
            beta = better
    return beta


def _shortest(w: Array, planes: Array) -> Array:
    """The shortest of the points that have equal values on all planes: for multiclass, intercepts that sum to
    zero."""
    _, found, directions = np.linalg.svd(planes, full_matrices=len(planes) < len(w))
    sizes = np.zeros(len(w))
    sizes[: len(found)] = found
    null_space = directions[sizes <= 1e-12 * sizes[0]]
    out: Array = w - null_space.T @ (null_space @ w)
    return out


class _PlaneProgram(PredictorCorrector):
    """x holds v, the scaled w, and the slack xi; z holds beta and the multipliers of signs."""

    def __init__(self, A: Array, o: Array, P: Array, signed: IntArray, floors: Array) -> None:
        self._A, self._o, self._P = A, o, P
        self._signed, self._floors, self._m, self._d = signed, floors, len(A), A.shape[1]
        v = np.zeros(self._d)
        v[signed] = np.maximum(0.0, floors) + 1.0
        x = np.append(v, float(np.max(o + A @ v)) + 1.0)
        self._h = np.concatenate([-o, -floors])
        s = self._product(x) + self._h
        beta = np.full(self._m, 1.0 / self._m)
        eta = float(np.mean(s[: self._m] * beta)) / s[self._m :]
        super().__init__(x, s, np.concatenate([beta, eta]))

    def _product(self, x: Array) -> Array:
        v = x[:-1]
        return np.concatenate([x[-1] - self._A @ v, v[self._signed]])

    def _back(self, z: Array) -> Array:
        beta = z[: self._m]
        out = np.append(-(self._A.T @ beta), beta.sum())
        out[self._signed] += z[self._m :]
        return out

    def _gradient(self) -> Array:
        return np.append(self._P * self._x[:-1], 1.0)

    def _factor(self, theta: Array) -> Solve | None:
        theta, rho = theta[: self._m], theta[self._m :]
        weight = float(theta.sum())
        mean = theta @ self._A / weight
        upper = np.sqrt(theta)[:, None] * (self._A - mean)
        diagonal = self._P.copy()
        diagonal[self._signed] += rho
        # some directions of unpenalized coordinates may not appear in any plane: restrict moves along them
        diagonal[self._P == 0.0] += PROXIMAL * float(np.einsum("ij,ij->j", upper, upper).max())
        rows = np.concatenate([upper, np.diag(np.sqrt(diagonal))])
        R = np.asarray(np.linalg.qr(rows, mode="r"))
        if not (np.abs(np.diagonal(R)) > 0.0).all():
            return None

        def solve(r: Array) -> Array:
            dv: Array = dtrtrs(R, dtrtrs(R, r[:-1] + mean * r[-1], trans=1)[0])[0]
            return np.append(dv, r[-1] / weight + float(mean @ dv))

        return solve

    def _point(self) -> tuple[float, float, Array, Array]:
        v, beta = self._x[:-1], np.maximum(self._z[: self._m], 0.0)
        beta = beta / beta.sum()
        top = float(np.max(self._o + self._A @ v))
        dual = float(self._o @ beta) - self._conjugate(v, -(self._A.T @ beta))
        norm = 0.5 * float(v @ (self._P * v))
        return norm + top - dual, norm + abs(float(self._x[-1])), v.copy(), beta

    def _conjugate(self, v: Array, u: Array) -> float:
        """max of <u, v> - v P v / 2 over feasible v; unpenalized coordinates are as large as they are now."""
        v = np.where(self._P == 0.0, np.sign(u) * np.abs(v), u / self._P)
        v[self._signed] = np.maximum(v[self._signed], self._floors)
        return float(u @ v - 0.5 * v @ (self._P * v))
