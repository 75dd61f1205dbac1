"""A primal-dual interior-point method (Mehrotra) for small dense quadratic programs.

    min over x     f(x)     subject to     s = G x + h >= 0,     and <e, x> = 0 if it is balanced

The multipliers z of s >= 0 are kept positive, too. With theta = z / s each step solves

    (H + G' diag(theta) G) dx + e dnu = right-hand side,     H = f''

All multipliers move at once, so strong dependence between samples does not slow it down. There are two
kinds.

**Planes**: the reduced problem of a bundle, or a whole problem if every sample is a block and its planes are
all the terms of its loss.

    min over w, xi     1/2 sum_k p_k w_k^2 + C sum_b xi_b,     or  C / 2 sum_b r_b xi_b^2  for squared losses
    subject to         s_j = xi_b(j) - o_j - <a_j, w> >= 0,     z_k = w_k - f_k >= 0 for signed coordinates

p_k is 1, or 0 for unpenalized coordinates. The active-set method of :mod:`maxmargin.core.qp` works on the
Gram matrix of the planes, whose condition number is the square of that of the planes. With features of very
different scales and a large C it runs out of digits long before the tolerance is reached. Here columns are
scaled to one. With the indicator E of the blocks, and xi eliminated, the matrix of a step is

    diag(p) + diag(rho) + A' (Theta - Theta E (E' Theta E + diag(r))^-1 E' Theta) A

A QR decomposition of its square root loses no digits by squaring. It takes about 30 steps of O(m d^2), which
is fast for up to a few hundred planes and coordinates.

**A box**: multipliers of a small kernel machine on which coordinate methods converge too slowly.

    min over beta     1/2 beta' K beta - <y, beta>,     lo <= beta <= hi,  and sum beta = 0 if it is balanced

by Cholesky factorizations of K + diagonal: O(n^3) per step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dtrtrs

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector

MAX_STEPS = 100
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
#: solved again for a C of FACTOR times their multipliers
MAX_ROUNDS, SMALL, FACTOR = 3, 1e-3, 10.0
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


def solve_box(K: Array, y: Array, lo: Array, hi: Array, balanced: bool) -> Array | None:
    """Return the best multipliers found, or None if the arithmetic breaks down."""
    with np.errstate(all="ignore"):
        found = _BoxProgram(K, y, lo, hi, balanced).solved()[0]
    beta = np.clip(found, lo, hi)
    return beta if np.isfinite(beta).all() else None


#: solves the linear system of a step
Solve = Callable[[Array], Array]


class _PredictorCorrector(ABC):
    """The current iterate x; s and z stay positive."""

    #: the vector e of the equation <e, x> = 0
    _equation: Array | None = None
    _h: Array

    def __init__(self, x: Array, s: Array, z: Array) -> None:
        self._x, self._s, self._z, self._nu = x, s, z, 0.0
        self._least, self._in_vain = np.inf, 0
        self._note()

    @abstractmethod
    def _product(self, x: Array) -> Array:
        """G x."""

    @abstractmethod
    def _back(self, z: Array) -> Array:
        """G' z."""

    @abstractmethod
    def _gradient(self) -> Array:
        """The gradient of f."""

    @abstractmethod
    def _factor(self, theta: Array) -> Solve | None:
        """Factorize H + G' diag(theta) G; None if that is not possible."""

    @abstractmethod
    def _point(self) -> tuple[float, float, Array, Array]:
        """The duality gap, the magnitude of the objective, and a primal and a dual point with that gap."""

    @property
    def _mu(self) -> float:
        """Mean complementarity, which is zero at the solution."""
        return float(self._s @ self._z) / len(self._s)

    def _note(self) -> None:
        """Keep the point if its duality gap is the smallest so far."""
        gap, self._size, *point = self._point()
        # with a complementarity far below the gap, rounding is the limit
        self._in_vain += 100.0 * self._mu * len(self._s) < self._least
        if gap < self._least or self._least == np.inf:
            self._least, self._best, self._in_vain = gap, point, 0

    def solved(self) -> tuple[Array, Array]:
        """The best primal and dual point."""
        for _ in range(MAX_STEPS):
            before = self._mu
            if not self._step() or self._in_vain >= PATIENCE:
                break
            if self._mu <= ENOUGH * max(self._size, 1e-300) or self._mu > 1e3 * before:
                break
        primal, dual = self._best
        return primal, dual

    def _step(self) -> bool:
        """Take one predictor-corrector step; return False if no step is possible."""
        s, z, e = self._s, self._z, self._equation
        theta = z / s
        solve = self._factor(theta)
        if solve is None:
            return False
        infeasible = self._product(self._x) + self._h - s
        wrong = self._gradient() - self._back(z)
        if e is not None:
            wrong = wrong + self._nu * e
        along = None if e is None else solve(e)

        def direction(target: Array) -> tuple[Array, float, Array, Array]:
            dx, dnu = solve(self._back(target / s - theta * infeasible) - wrong), 0.0
            if e is not None and along is not None:
                dnu = float(e @ (dx + self._x)) / float(e @ along)
                dx = dx - dnu * along
            ds = infeasible + self._product(dx)
            return dx, dnu, ds, (target - z * ds) / s

        _, _, ds, dz = direction(-s * z)
        t = self._longest(ds, dz, 1.0)
        ahead = float((s + t * ds) @ (z + t * dz)) / len(s)
        target = self._mu * min(1.0, max(0.0, ahead / self._mu)) ** 3
        dx, dnu, ds, dz = direction(target - s * z - ds * dz)
        t = min(1.0, BACK * self._longest(ds, dz, 1.0 / BACK))
        if not t > 1e-12:
            return False
        self._x, self._nu = self._x + t * dx, self._nu + t * dnu
        self._s, self._z = s + t * ds, z + t * dz
        self._note()
        return bool(np.isfinite(self._x).all())

    def _longest(self, ds: Array, dz: Array, most: float) -> float:
        """The longest step that keeps s and z nonnegative."""
        for value, change in ((self._s, ds), (self._z, dz)):
            down = change < 0.0
            if down.any():
                most = min(most, float((value[down] / -change[down]).min()))
        return most


class _PlaneProgram(_PredictorCorrector):
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


class _BoxProgram(_PredictorCorrector):
    """x is beta, s holds its distances from both bounds."""

    def __init__(self, K: Array, y: Array, lo: Array, hi: Array, balanced: bool) -> None:
        self._K, self._y, self._lo, self._hi = K, y, lo, hi
        beta, width = 0.5 * (lo + hi), hi - lo
        if balanced:  # as far from the bounds as the sum allows
            beta = lo + width * (-lo.sum() / width.sum())
            self._equation = np.ones(len(y))
        slope = float(np.abs(K @ beta - y).max())
        self._h = np.concatenate([-lo, hi])
        s = self._product(beta) + self._h
        super().__init__(beta, s, np.full(2 * len(y), max(slope, 1.0)))

    def _product(self, x: Array) -> Array:
        return np.concatenate([x, -x])

    def _back(self, z: Array) -> Array:
        out: Array = z[: len(self._y)] - z[len(self._y) :]
        return out

    def _gradient(self) -> Array:
        out: Array = self._K @ self._x - self._y
        return out

    def _factor(self, theta: Array) -> Solve | None:
        H = self._K.copy()
        scale = 1.0 / np.sqrt(np.diagonal(H) + theta[: len(H)] + theta[len(H) :])
        H *= scale[:, None] * scale
        H[np.diag_indices(len(H))] = 1.0 + 1e-15
        try:
            factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=True)
        except (LinAlgError, ValueError):
            return None

        def solve(r: Array) -> Array:
            out: Array = scale * cho_solve(factor, scale * r)
            return out

        return solve

    def _point(self) -> tuple[float, float, Array, Array]:
        beta, f = self._x, self._K @ self._x
        v = self._y - f - self._nu
        loss = float(np.maximum(self._hi * v, self._lo * v).sum())
        linear, square = float(self._y @ beta), float(beta @ f)
        return square + loss - linear, 0.5 * abs(square) + abs(linear), beta.copy(), self._z
