"""Dense programs over planes: the reduced problem of a bundle, or a whole problem if every sample is a block
and its planes are all the terms of its loss.

    min over w, xi     1/2 sum_k p_k w_k^2 + C sum_b xi_b,     or  C / 2 sum_b r_b xi_b^2  for squared losses
    subject to         s_j = xi_b(j) - o_j - <a_j, w> >= 0,     z_k = w_k - f_k >= 0 for signed coordinates

p_k is 1, or 0 for unpenalized coordinates. The active-set method of :mod:`maxmargin.core.qp` works on the
Gram matrix of the planes, whose condition number is the square of that of the planes. With features of very
different scales and a large C it runs out of digits long before the tolerance is reached. Here columns are
scaled to one, and :mod:`maxmargin.core.predictor_corrector` moves all multipliers at once. With the indicator
E of the blocks, and xi eliminated, the matrix of a step is

    diag(p) + diag(rho) + A' (Theta - Theta E (E' Theta E + diag(r))^-1 E' Theta) A

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
#: if the planes other than zero planes have less than SMALL of the multipliers of their block, the problem is
#: solved again for a C of FACTOR times their multipliers
MAX_ROUNDS, SMALL, FACTOR = 3, 1e-3, 10.0
#: weight of equations that must hold, relative to those that should
PRIORITY = 1e4


class DenseSolution(NamedTuple):
    """The point w and the multipliers of the planes, which sum to one in each block (to r_b xi_b for squared
    losses)."""

    w: Array
    beta: Array


def solve_planes(
    planes: Sequence[Vector],
    dim: int,
    offsets: Array,
    block: IntArray,
    C: float,
    omega: SquaredNorm,
) -> DenseSolution | None:
    """Solve the reduced problem of these planes. In ``offsets`` and ``block`` the zero plane of each block
    comes before them. Tiny multipliers are set to zero. Return None if the problem is too large."""
    p, m = len(block) - len(planes), len(block)
    if not planes or (m + dim) * dim > MAX_ENTRIES:
        return None
    rows = np.zeros((m, dim))
    for row, plane in zip(rows[p:], planes, strict=True):
        row[:] = plane.to_dense() if isinstance(plane, SparseVector) else plane
    penalty = np.ones(dim)
    penalty[omega.free] = 0.0
    signed = np.asarray(omega.nonnegative, dtype=np.int64)
    best, share = None, 1.0
    for _ in range(MAX_ROUNDS):
        found = solve_dense(rows, offsets, block, share * C, penalty, signed, omega.floors)
        if found is None:
            break
        beta = np.where(found.beta >= INVISIBLE, found.beta, 0.0)
        beta = beta / np.bincount(block, weights=beta)[block]
        used = float(np.bincount(block[p:], weights=found.beta[p:]).max())
        if best is not None and used > 0.5:  # the smaller C may be too small
            break
        if best is not None:
            beta[p:] *= share
            beta[:p] = 1.0 - np.bincount(block[p:], weights=beta[p:], minlength=p)
        best = DenseSolution(found.w, beta)
        if not 0.0 < used < SMALL:
            break
        # the digits of the multipliers are those of C: the optimum is the same for a C that they do not reach
        share *= FACTOR * used
        if share * C == 0.0:  # no smaller double
            break
    return best


def solve_dense(
    planes: Array,
    offsets: Array,
    block: IntArray,
    C: float,
    penalty: Array,
    signed: IntArray,
    floors: Array,
    squared: Array | None = None,
) -> DenseSolution | None:
    """Solve the problem; return None if the arithmetic breaks down.

    ``planes`` has one row per plane, including the zero planes of the blocks. ``squared`` has r_b of each
    block if slacks are squared.
    """
    size = np.abs(planes).max(axis=0)
    size[size == 0.0] = 1.0
    unit = max(float(np.abs(offsets).max()), 1e-300)
    with np.errstate(all="ignore"):  # a problem beyond the range of doubles ends with None
        # w = unit v / size, all divided by C unit
        A, o = planes / size, offsets / unit
        P = penalty * (unit / C) / size / size
        f = floors * (size[signed] / unit)
        v, beta = _PlaneProgram(
            A, o, P, block, signed, f, None if squared is None else squared * unit
        ).solved()
    w, free = unit * v / size, penalty == 0.0
    if not (np.isfinite(w).all() and np.isfinite(beta).all()):
        return None
    if free.any():
        beta = _balanced(beta, A, P, block if squared is None else None)
        w[free] = _shortest(w[free], planes[:, free])
    return DenseSolution(w, beta)


def _balanced(beta: Array, A: Array, P: Array, block: IntArray | None) -> Array:
    """Nearby multipliers with ``A' beta = 0`` where P is zero, as the dual requires of unpenalized
    coordinates. With blocks, each has the sum one.

    The other coordinates of A' beta should not change: the dual value falls by half of their squared changes
    divided by P, which is tiny at a large C.
    """
    free = P == 0.0
    equations = A[:, free]
    if block is not None:
        one = np.zeros((len(beta), int(block.max()) + 1))
        one[np.arange(len(beta)), block] = 1.0
        equations = np.concatenate([equations, one], axis=1)
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
            wrong[int(free.sum()) : equations.shape[1]] -= 1.0
            x = np.linalg.lstsq(both, -wrong, rcond=1e-13)[0]
            better = beta + beta * x
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
    """x holds v, the scaled w, and the slacks xi of the blocks; z holds beta and the multipliers of signs."""

    def __init__(
        self,
        A: Array,
        o: Array,
        P: Array,
        block: IntArray,
        signed: IntArray,
        f: Array,
        squared: Array | None,
    ) -> None:
        self._A, self._o, self._P, self._block = A, o, P, block
        self._signed, self._f, self._squared = signed, f, squared
        self._p, self._m, self._d = int(block.max()) + 1, len(A), A.shape[1]
        v = np.zeros(self._d)
        v[signed] = np.maximum(0.0, f) + 1.0
        xi = self._tops(v) + 1.0
        x = np.concatenate([v, xi])
        self._h = np.concatenate([-o, -f])
        s = self._product(x) + self._h
        beta = (self._slopes(xi) / np.bincount(block, minlength=self._p))[block]
        eta = float(np.mean(s[: self._m] * beta)) / s[self._m :]
        super().__init__(x, s, np.concatenate([beta, eta]))

    def _slopes(self, xi: Array) -> Array:
        """The derivative of the cost of each slack, which the multipliers of its block sum to."""
        return np.ones(self._p) if self._squared is None else self._squared * xi

    def _tops(self, v: Array) -> Array:
        """The largest plane of each block."""
        top = np.full(self._p, -np.inf)
        np.maximum.at(top, self._block, self._o + self._A @ v)
        return top

    def _sums(self, beta: Array) -> Array:
        """The sum over each block."""
        return np.bincount(self._block, weights=beta, minlength=self._p).astype(np.float64)

    def _product(self, x: Array) -> Array:
        v, xi = x[: self._d], x[self._d :]
        return np.concatenate([xi[self._block] - self._A @ v, v[self._signed]])

    def _back(self, z: Array) -> Array:
        beta = z[: self._m]
        out = np.concatenate([-(self._A.T @ beta), self._sums(beta)])
        out[self._signed] += z[self._m :]
        return out

    def _gradient(self) -> Array:
        return np.concatenate([self._P * self._x[: self._d], self._slopes(self._x[self._d :])])

    def _factor(self, theta: Array) -> Solve | None:
        A, block, d = self._A, self._block, self._d
        theta, rho = theta[: self._m], theta[self._m :]
        weight = self._sums(theta)
        if self._squared is not None:
            weight = weight + self._squared
        means = np.zeros((self._p, d))
        np.add.at(means, block, theta[:, None] * A)
        means /= weight[:, None]
        upper = np.sqrt(theta)[:, None] * (A - means[block])
        diagonal = self._P.copy()
        diagonal[self._signed] += rho
        # some directions of unpenalized coordinates may not appear in any plane: restrict moves along them
        diagonal[self._P == 0.0] += PROXIMAL * float(np.einsum("ij,ij->j", upper, upper).max())
        rows = [upper, np.diag(np.sqrt(diagonal))]
        if self._squared is not None:
            rows.append(np.sqrt(self._squared)[:, None] * means)
        R = np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))
        if not (np.abs(np.diagonal(R)) > 0.0).all():
            return None

        def solve(r: Array) -> Array:
            h, e = r[:d] + means.T @ r[d:], r[d:]
            dv: Array = dtrtrs(R, dtrtrs(R, h, trans=1)[0])[0]
            return np.concatenate([dv, e / weight + means @ dv])

        return solve

    def _point(self) -> tuple[float, float, Array, Array]:
        v, xi, beta = self._x[: self._d], self._x[self._d :], np.maximum(self._z[: self._m], 0.0)
        sums, conjugate, r = self._sums(beta), 0.0, self._squared
        if r is None:
            beta = beta / sums[self._block]
        else:
            conjugate = 0.5 * float(np.sum(sums * sums / r))
        top = self._tops(v)
        costs, now = (top, xi) if r is None else (0.5 * r * top * top, 0.5 * r * xi * xi)
        norm = 0.5 * float(v @ (self._P * v))
        D = float(self._o @ beta) - conjugate - self._conjugate(v, -(self._A.T @ beta))
        return norm + float(costs.sum()) - D, norm + float(np.abs(now).sum()), v.copy(), beta

    def _conjugate(self, v: Array, u: Array) -> float:
        """max of <u, v> - v P v / 2 over feasible v; unpenalized coordinates are as large as they are now."""
        v = np.where(self._P == 0.0, np.sign(u) * np.abs(v), u / self._P)
        v[self._signed] = np.maximum(v[self._signed], self._f)
        return float(u @ v - 0.5 * v @ (self._P * v))
