"""A primal-dual interior-point method (Mehrotra) for small problems over cutting planes.

    min over w, xi     1/2 sum_k p_k w_k^2 + C sum_b xi_b,     or  C / 2 sum_b r_b xi_b^2  for squared losses
    subject to         s_j = xi_b(j) - o_j - <a_j, w> >= 0,     z_k = w_k - f_k >= 0 for signed coordinates

p_k is 1, or 0 for unpenalized coordinates. This is the reduced problem of a bundle, or a whole problem if
every sample is a block and its planes are all the terms of its loss. The active-set method of
:mod:`maxmargin.core.qp` works on the Gram matrix of the planes, whose condition number is the square of that
of the planes. With features of very different scales and a large C it runs out of digits long before the
tolerance is reached. Here columns are scaled to one, and the multipliers beta_j = alpha_j / C of s_j >= 0 and
eta_k of z_k >= 0 are kept positive. With theta = beta / s and rho = eta / z, each Newton step solves

    (diag(p) + diag(rho) + A' (Theta - Theta E (E' Theta E + diag(r))^-1 E' Theta) A) dw = right-hand side

by a QR decomposition of the square root of that matrix, so that no digits are lost by squaring. E indicates
the blocks. It takes about 30 steps of O(m d^2), which is fast for up to a few hundred planes and coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector

MAX_STEPS = 80
#: maximum of planes times coordinates; up to here a step takes milliseconds
MAX_ENTRIES = 100_000
#: complementarity, relative to the objective, at which the method stops
ENOUGH = 1e-15
#: proximal term along unpenalized coordinates, relative to the curvature
PROXIMAL = 1e-13
#: multipliers below this fraction of C are set to zero
INVISIBLE = 1e-14
#: steps that may pass without a smaller duality gap: beyond that only rounding is left
PATIENCE = 8
#: if the planes other than zero planes have less than SMALL of the multipliers of their block, the problem is
#: solved again for a C of ROOM times their multipliers
MAX_ROUNDS, SMALL, ROOM = 3, 1e-3, 10.0
#: weight of equations that must hold, relative to those that should
PRIORITY = 1e4
#: fraction of the distance to the nearest bound that a step may cover
BACK = 0.995


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
        share *= ROOM * used
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
        state = _State(A, o, P, block, signed, f, None if squared is None else squared * unit)
        for _ in range(MAX_STEPS):
            before = state.mu
            if not state.step() or state.in_vain >= PATIENCE:
                break
            if state.mu <= ENOUGH * max(state.scale, 1e-300) or state.mu > 1e3 * before:
                break
    v, beta = state.best
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
    unseen = directions[sizes <= 1e-12 * sizes[0]]
    out: Array = w - unseen.T @ (unseen @ w)
    return out


class _State:
    """The current iterate; s, beta, z and eta stay positive."""

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
        self._p = int(block.max()) + 1
        count = np.bincount(block, minlength=self._p).astype(np.float64)
        self._v = np.zeros(A.shape[1])
        self._v[signed] = np.maximum(0.0, f) + 1.0
        values = o + A @ self._v
        self._xi = np.full(self._p, -np.inf)
        np.maximum.at(self._xi, block, values)
        self._xi += 1.0
        self._s = self._xi[block] - values
        self._beta = (self._slopes() / count)[block]
        self._z = self._v[signed] - f
        self._eta = float(np.mean(self._s * self._beta)) / self._z
        self._least, self.best, self.in_vain = np.inf, (self._v, self._beta), 0
        self._note()

    def _slopes(self) -> Array:
        """The derivative of the cost of each slack, which the multipliers of its block sum to."""
        return np.ones(self._p) if self._squared is None else self._squared * self._xi

    def _cost(self, xi: Array) -> Array:
        """The cost of slacks."""
        return xi if self._squared is None else 0.5 * self._squared * xi * xi

    @property
    def mu(self) -> float:
        """Mean complementarity, which is zero at the solution."""
        total = float(self._s @ self._beta + self._z @ self._eta)
        return total / (len(self._s) + len(self._z))

    @property
    def scale(self) -> float:
        """Magnitude of the objective."""
        return float(0.5 * self._v @ (self._P * self._v) + np.abs(self._cost(self._xi)).sum())

    def _note(self) -> None:
        """Keep the point if its duality gap is the smallest so far."""
        v, beta = self._v, np.maximum(self._beta, 0.0)
        sums, conjugate = self._sums(beta), 0.0
        if self._squared is None:
            beta = beta / sums[self._block]
        else:
            conjugate = 0.5 * float(np.sum(sums * sums / self._squared))
        top = np.full(self._p, -np.inf)
        np.maximum.at(top, self._block, self._o + self._A @ v)
        F = 0.5 * float(v @ (self._P * v)) + float(self._cost(top).sum())
        D = float(self._o @ beta) - conjugate - self._conjugate(-(self._A.T @ beta))
        # with a complementarity far below the gap, rounding is the limit
        self.in_vain += 100.0 * self.mu * len(self._s) < self._least
        gap = F - D
        if gap < self._least:
            self._least, self.best, self.in_vain = gap, (v.copy(), beta), 0

    def _conjugate(self, u: Array) -> float:
        """max of <u, v> - v P v / 2 over feasible v; unpenalized coordinates are as large as they are now."""
        free = self._P == 0.0
        v = np.where(free, np.sign(u) * np.abs(self._v), u / self._P)
        v[self._signed] = np.maximum(v[self._signed], self._f)
        return float(u @ v - 0.5 * v @ (self._P * v))

    def _sums(self, beta: Array) -> Array:
        """The sum over each block."""
        return np.bincount(self._block, weights=beta, minlength=self._p).astype(np.float64)

    def _residual(self, beta: Array) -> Array:
        """P v + A' beta - eta: zero at the optimum."""
        out: Array = self._P * self._v + self._A.T @ beta
        out[self._signed] -= self._eta
        return out

    def step(self) -> bool:
        """Take one predictor-corrector step; return False if no step is possible."""
        A, block, p, signed = self._A, self._block, self._p, self._signed
        theta, rho = self._beta / self._s, self._eta / self._z
        weight = self._sums(theta)
        if self._squared is not None:
            weight = weight + self._squared
        means = np.zeros((p, A.shape[1]))
        np.add.at(means, block, theta[:, None] * A)
        means /= weight[:, None]
        upper = np.sqrt(theta)[:, None] * (A - means[block])
        diagonal = self._P.copy()
        diagonal[signed] += rho
        # some directions of unpenalized coordinates may not appear in any plane: restrict moves along them
        diagonal[self._P == 0.0] += PROXIMAL * float(np.einsum("ij,ij->j", upper, upper).max())
        rows = [upper, np.diag(np.sqrt(diagonal))]
        if self._squared is not None:
            rows.append(np.sqrt(self._squared)[:, None] * means)
        R = np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))
        if not (np.abs(np.diagonal(R)) > 0.0).all():
            return False
        stationary = -self._residual(self._beta)
        feasible = -(self._s - (self._xi[block] - self._o - A @ self._v))
        inside = -(self._z - (self._v[signed] - self._f))
        sums = self._slopes() - self._sums(self._beta)

        def direction(rc: Array, re: Array) -> tuple[Array, ...]:
            g = rc / self._s - theta * feasible
            h = stationary - A.T @ g
            h[signed] += re / self._z - rho * inside
            # xi is eliminated: E' Theta E dxi = E' g - sums + E' Theta A dv
            e = self._sums(g) - sums
            h += means.T @ e
            dv: Array = dtrtrs(R, dtrtrs(R, h, trans=1)[0])[0]
            dxi = e / weight + means @ dv
            ds = feasible + dxi[block] - A @ dv
            dz = inside + dv[signed]
            return (
                dv,
                dxi,
                ds,
                (rc - self._beta * ds) / self._s,
                dz,
                (re - self._eta * dz) / self._z,
            )

        rc, re = -self._s * self._beta, -self._z * self._eta
        _, _, ds, db, dz, de = direction(rc, re)
        t = self._longest(ds, db, dz, de)
        ahead = float(
            (self._s + t * ds) @ (self._beta + t * db) + (self._z + t * dz) @ (self._eta + t * de)
        ) / (len(rc) + len(re))
        target = self.mu * min(1.0, max(0.0, ahead / self.mu)) ** 3
        dv, dxi, ds, db, dz, de = direction(rc + target - ds * db, re + target - dz * de)
        t = min(1.0, BACK * self._longest(ds, db, dz, de, 1.0 / BACK))
        if not t > 1e-12:
            return False
        self._v = self._v + t * dv
        self._xi = self._xi + t * dxi
        self._s, self._beta = self._s + t * ds, self._beta + t * db
        self._z, self._eta = self._z + t * dz, self._eta + t * de
        self._note()
        return bool(np.isfinite(self._v).all())

    def _longest(self, ds: Array, db: Array, dz: Array, de: Array, most: float = 1.0) -> float:
        """The longest step that keeps s, beta, z and eta nonnegative."""
        for value, change in (
            (self._s, ds),
            (self._beta, db),
            (self._z, dz),
            (self._eta, de),
        ):
            down = change < 0.0
            if down.any():
                most = min(most, float((value[down] / -change[down]).min()))
        return most
