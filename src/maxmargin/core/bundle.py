"""The bundle: cutting planes, their Gram matrix, and the reduced problem they define.

For planes (a_j, b_j), the first of them the zero plane,

    primal   min over w of  Omega(w) + C max_j (b_j + <a_j, w>)
    dual     max over alpha >= 0, sum_j alpha_j = C  of  D(alpha) = <b, alpha> - 1/2 alpha' G alpha,
             w = - sum_j alpha_j a_j

D(alpha) is a valid lower bound of F(w*) for every feasible alpha. Planes do not depend on C, so one bundle
serves a whole regularization path.

Free coordinates (see :mod:`maxmargin.core.regularizer`) add the equality constraints A' alpha = 0 to the
dual. The proximal method of multipliers enforces them: with v the multiplier, repeat

    maximize  <b + A v, alpha> - 1/2 alpha' G alpha - tau/2 |A' alpha|^2,     v <- v - tau A' alpha

Each round is a problem of the ordinary form with the *same* factorization, so it costs one warm-started
solve.

Coordinates constrained to be nonnegative turn 1/2 |u|^2 into 1/2 |primal(u)|^2; see
:mod:`maxmargin.core.nonnegative`.

Memory limit: when a bundle holds ``max_planes`` planes, idle planes are removed first. Then the planes with
the smallest positive alpha are merged into an aggregate, (sum alpha_j a_j, sum alpha_j b_j) / sum alpha_j.
This leaves D unchanged, so the lower bound never decreases. ``max_planes = 2`` keeps one aggregate and the
newest plane, the variant for which Joachims, Finley and Yu prove convergence.

References:

- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 3, the dual problems OP6 and OP7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from maxmargin.core import stored_values as stored
from maxmargin.core.bundle_solution import BundleSolution, DualPoint
from maxmargin.core.cut import Cut, average
from maxmargin.core.dense_qp import DenseSolution, solve_planes
from maxmargin.core.nonnegative import SignedPart
from maxmargin.core.qp import SimplexQP
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound, correction
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector, combine, dot, entries

MAX_MULTIPLIER_ROUNDS = 60
MAX_SIGN_ROUNDS = 100


class Bundle:
    """A growing set of cutting planes with a warm-started solver for the reduced problem.

    Parameters
    ----------
    dim : int
        Length of the planes.
    base : float
        Lower bound of the risk: the offset of the zero plane.
    regularizer : SquaredNorm
        The regularizer Omega.
    max_planes : int or None
        Maximum number of planes, at least 2; None for no limit.
    idle : int
        Drop planes whose multiplier was zero in this many consecutive solves.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core import Bundle, Cut
    >>> bundle = Bundle(dim=1)
    >>> bundle.add([Cut(1.0, np.array([-1.0]))])
    >>> solution = bundle.solve(C=0.5)
    >>> solution.w, solution.lower_bound
    (array([0.5]), 0.375)
    """

    def __init__(
        self,
        dim: int,
        *,
        base: float = 0.0,
        regularizer: SquaredNorm | None = None,
        max_planes: int | None = None,
        idle: int = 50,
    ) -> None:
        if max_planes is not None and max_planes < 2:
            raise ValueError(
                f"max_planes={max_planes}: a bundle must hold at least 2 planes, one aggregate "
                "and the newest."
            )
        self.dim = dim
        self.base = base
        self.regularizer = regularizer or SquaredNorm()
        self.max_planes = max_planes
        self.idle = idle
        self._planes: list[Vector] = []
        self._offsets: list[float] = []
        self._errors: list[float] = []
        self._idle_for: list[int] = []
        self._free_parts: list[Array] = []
        self._v: Array = np.zeros(len(self.regularizer.free))
        self._qp = SimplexQP(1)
        self._tau = 0.0
        signed = self.regularizer.nonnegative
        self._signed = SignedPart(signed, self.regularizer.floors) if len(signed) else None

    def __len__(self) -> int:
        return len(self._planes)

    @property
    def planes(self) -> list[Vector]:
        """The plane vectors, in the order in which they were added."""
        return self._planes

    @planes.setter
    def planes(self, planes: list[Vector]) -> None:
        """Replace the planes by other representations of the same planes; their inner products are kept."""
        if len(planes) != len(self._planes):
            raise ValueError(f"{len(planes)} vectors for {len(self._planes)} planes.")
        self._planes = planes

    def take_over(self, regularizer: SquaredNorm) -> None:
        """Replace the regularizer by one that differs only in the bound on the free coordinates."""
        mine = self.regularizer
        if not (
            np.array_equal(mine.free, regularizer.free)
            and np.array_equal(mine.nonnegative, regularizer.nonnegative)
            and np.array_equal(mine.floors, regularizer.floors)
        ):
            raise ValueError(
                "this bundle has other free or nonnegative coordinates; start with a new one."
            )
        self.regularizer = regularizer

    def add(self, cuts: Sequence[Cut]) -> None:
        """Add cuts of the whole risk, one after the other."""
        for cut in cuts:
            if self.max_planes is not None:
                self._make_room(self.max_planes)
            self._append(cut)

    def _append(self, cut: Cut) -> None:
        plane = cut.plane
        dense = plane.to_dense() if isinstance(plane, SparseVector) else plane
        dense = self.regularizer.penalized(dense)
        if self._signed is not None:
            dense = dense.copy()
            dense[self._signed.indices] = 0.0
        row = np.zeros(self._qp.size + 1)
        row[1:-1] = [dot(other, dense) for other in self._planes]
        row[-1] = dot(plane, dense)
        if self._signed is not None:
            part = entries(plane, self._signed.indices)
            row[1:] = self._signed.append(part, row[1:])
        if len(self.regularizer.free):
            # Terms that cancel (balanced classes at w = 0) leave rounding errors, which are set to zero here.
            # The lower bound is computed from the plane itself, so it accounts for them.
            part = self.regularizer.free_part(plane)
            part = np.where(np.abs(part) <= 1e-12 * abs(cut.offset), 0.0, part)
            parts = np.array([*self._free_parts, part])
            # the Gram matrix of the penalized coordinates, plus tau times that of the free ones
            row[1:] += self._tau * (parts @ part)
            self._free_parts.append(part)
        self._planes.append(plane)
        self._offsets.append(cut.offset)
        self._errors.append(cut.error)
        self._idle_for.append(0)
        self._qp.append(row, 0)

    def shift(self, move: Cut) -> None:
        """Add ``move`` to every plane. Multipliers and the zero plane do not change.

        The Gram matrix is recomputed: corrections would accumulate rounding errors over many shifts.
        """
        beta = self._qp.beta.copy()
        planes, offsets, ages = self._planes, self._offsets, self._idle_for
        errors = self._errors
        self._keep(np.zeros(len(planes), dtype=bool))
        for plane, offset, error in zip(planes, offsets, errors, strict=True):
            self._append(Cut(offset, plane, error) + move)
        self._idle_for = ages
        self._qp.move(beta)
        if self._signed is not None:  # the point moved, so other coordinates may be clipped
            self._signed.is_stale = True

    def value(self, w: Array) -> float:
        """The model's risk at any ``w``, by a pass over the planes: never above the true risk."""
        values = [b + dot(a, w) for a, b in zip(self._planes, self._offsets, strict=True)]
        return max([float(self.base), *values])

    def value_error(self, w: Array) -> float:
        """Bound on the rounding error of :meth:`value`."""
        return max(self._errors, default=0.0) * (1.0 + float(np.linalg.norm(w)))

    def state(self) -> dict[str, Any]:
        """The state from which :meth:`from_state` continues. Planes are not copied: they never change."""
        return {
            "base": self.base,
            "max_planes": self.max_planes,
            "idle": self.idle,
            "planes": list(self._planes),
            "offsets": np.array(self._offsets),
            "errors": np.array(self._errors),
            "ages": np.array(self._idle_for, dtype=np.int64),
            "beta": self._qp.beta.copy(),
            "v": self._v.copy(),
            "tau": self._tau,
        }

    @classmethod
    def from_state(cls, dim: int, regularizer: SquaredNorm, state: dict[str, Any]) -> Self:
        """Rebuild a bundle from :meth:`state`; the Gram matrix is recomputed."""
        names = ("base", "max_planes", "idle", "tau", "planes", "beta")
        base, most, idle, tau, planes, beta = stored.entries(state, *names)
        offsets, errors, ages, v = stored.entries(state, "offsets", "errors", "ages", "v")
        m = len(planes)
        bundle = cls(
            dim,
            base=stored.number(base, "the lower bound of a bundle"),
            regularizer=regularizer,
            max_planes=None if most is None else stored.count(most, "the room for planes"),
            idle=stored.count(idle, "the age at which planes are dropped"),
        )
        bundle._tau = stored.number(tau, "the penalty of free weights", 0.0)
        offsets = stored.floats(offsets, "the offsets of planes", (m,))
        errors = stored.floats(errors, "the errors of planes", (m,))
        for j, plane in enumerate(planes):
            bundle._append(Cut(float(offsets[j]), plane, float(errors[j])))
        bundle._idle_for = stored.integers(ages, "the ages of planes", (m,)).tolist()
        bundle._v = stored.floats(
            v, "the multipliers of free weights", (len(regularizer.free),)
        ).copy()
        bundle._qp.move(stored.floats(beta, "the multipliers", (1 + m,)))
        if bundle._signed is not None:
            bundle._signed.is_stale = True
        return bundle

    def _make_room(self, limit: int) -> None:
        excess = len(self) + 1 - limit
        if excess <= 0:
            return
        beta = self._qp.beta[1:]
        idle = [j for j in range(len(self)) if beta[j] == 0.0]
        idle.sort(key=lambda j: -self._idle_for[j])
        if idle:
            kept = np.ones(len(self._planes), dtype=bool)
            kept[idle[:excess]] = False
            self._keep(kept)
            self._make_room(limit)
            return
        self._fold(np.argsort(beta, kind="stable")[: excess + 1])

    def _fold(self, which: IntArray) -> None:
        """Replace planes by their average, weighted by beta. The dual value does not change."""
        beta = self._qp.beta[1:][which].copy()
        total = float(beta.sum())
        cuts = [Cut(self._offsets[j], self._planes[j], self._errors[j]) for j in which]
        merged = average(cuts, beta / total, self.dim)
        keep = np.ones(len(self._planes), dtype=bool)
        keep[which] = False
        self._keep(keep)
        self._append(merged)
        point = self._qp.beta.copy()
        point[-1] = total
        self._qp.move(point)

    def _keep(self, mask: np.ndarray) -> None:
        self._qp.keep(np.concatenate([[True], mask]))
        kept = np.flatnonzero(mask)
        self._planes = [self._planes[j] for j in kept]
        self._offsets = [self._offsets[j] for j in kept]
        self._errors = [self._errors[j] for j in kept]
        self._idle_for = [self._idle_for[j] for j in kept]
        if self._free_parts:
            self._free_parts = [self._free_parts[j] for j in kept]
        if self._signed is not None:
            self._signed.keep(kept)

    def solve(
        self,
        C: float,
        tol: float = 0.0,
        attained: UpperBound | None = None,
        *,
        precise: bool = False,
    ) -> BundleSolution:
        """Solve the reduced problem for this C to within ``tol`` of its dual value.

        If ``attained`` is given, rounding errors of the planes are subtracted from the lower bound.
        ``precise`` solves small bundles without the Gram matrix, which loses digits
        (:mod:`maxmargin.core.dense_qp`).
        """
        offsets = np.array([self.base, *self._offsets])
        # the QP is scaled by C^2; its rounding errors limit the attainable tolerance
        scaled_tol = max(tol / C / C, 1e-15 * float(np.abs(offsets).max()) / C)
        free = len(self.regularizer.free) > 0 and len(self._planes) > 0
        dense = self._solve_densely(C, offsets) if precise else None
        if dense is not None:
            self._v = dense.w[self.regularizer.free]
        elif self._signed is None or not self._planes:
            self._maximize(C, offsets, scaled_tol)
        else:
            self._solve_by_signs(self._signed, C, offsets, scaled_tol)
        beta = self._qp.beta if dense is None else dense.beta
        alpha = C * beta[1:]
        u = -combine(alpha, self._planes, self.dim)
        w = self.regularizer.primal(u)
        support = np.flatnonzero(alpha)
        dual = DualPoint(
            tuple(self._planes[j] for j in support),
            offsets[1:][support],
            alpha[support],
            self.base * C * float(beta[0]),
            float(np.array(self._errors)[support] @ alpha[support]),
        )
        lower = dual.base + float(offsets[1:] @ alpha) - self.regularizer.conjugate(u, w)
        if attained is not None:
            lost = dual.error * (1.0 + self.regularizer.radius(attained.upper))
            lower -= correction(lost, attained.negligible)
        if free:
            limit = self.regularizer.free_limit(np.inf if attained is None else attained.upper)
            lower -= float(np.abs(w[self.regularizer.free]).sum()) * limit
            w[self.regularizer.free] = self._v
        # assign a new list at the end, so that an interrupt never leaves the ages half updated
        self._idle_for = [
            0 if a > 0.0 else age + 1 for a, age in zip(alpha, self._idle_for, strict=True)
        ]
        if dense is not None:
            w = dense.w  # more accurate than the rounded combination of planes
        model = self._model(C, offsets, w, by_pass=dense is not None)
        n_active = len(support)
        in_use = np.array(self._idle_for) < self.idle
        if not in_use.all():
            self._keep(in_use)
        return BundleSolution(w, lower, model, n_active, dual)

    def _solve_densely(self, C: float, offsets: Array) -> DenseSolution | None:
        """Solve by an interior-point method; return None if the bundle is too large."""
        # other regularizers define their own inner product
        if type(self.regularizer) is not SquaredNorm:
            return None
        found = solve_planes(self._planes, offsets, C, self.regularizer, self.dim)
        if found is not None:
            self._qp.move(found.beta)  # warm start for the next solve
        return found

    def _maximize(self, C: float, offsets: Array, tol: float) -> None:
        """Maximize the dual with the current Gram matrix, with free coordinates but without sign
        constraints."""
        if self._free_parts:
            self._solve_with_multipliers(C, offsets, tol)
        else:
            self._qp.solve(offsets / C, tol)

    def _solve_by_signs(self, signed: SignedPart, C: float, offsets: Array, tol: float) -> None:
        """Solve with nonnegative coordinates; see :mod:`maxmargin.core.nonnegative`."""
        qp = self._qp
        if signed.is_stale:
            signed.clip_at(qp.beta[1:], C)
            qp.replace_gram(self._gram(signed))
        for _ in range(MAX_SIGN_ROUNDS):
            before = qp.beta.copy()
            shown = offsets
            if self.regularizer.floor is not None:
                shown = np.concatenate([offsets[:1], offsets[1:] + signed.clipped_values()])
            self._maximize(C, shown, tol)
            c = offsets[1:] / C
            if self._free_parts:  # the Lagrangian: the previous point may violate the equalities
                c = c + np.array(self._free_parts) @ self._v / C
            step, clipped, outlook = signed.search(c, before[1:], qp.beta[1:], C)
            if step < 1.0:
                qp.move(before + step * (qp.beta - before))
            unchanged = np.array_equal(clipped, signed.clipped)
            if not unchanged:
                signed.clipped = clipped
                qp.replace_gram(self._gram(signed))
            # Optimal after a full step without a sign change; otherwise only rounding is left.
            if (unchanged and step in (0.0, 1.0)) or outlook <= 1e-3 * tol:
                break

    def _gram(self, signed: SignedPart) -> Array:
        gram = signed.gram()
        if self._free_parts:
            parts = np.array(self._free_parts)
            gram += self._tau * (parts @ parts.T)
        return gram

    def _model(self, C: float, offsets: Array, w: Array, by_pass: bool) -> float:
        """The model's risk at w = -C sum beta_j a_j, from the Gram matrix: no pass over the planes.

        With sign constraints the Gram matrix may be that of other signs, so a pass is made then.
        """
        qp = self._qp
        by_pass = by_pass or self._signed is not None
        if by_pass:
            values = offsets.copy()
            values[1:] += [dot(plane, w) for plane in self._planes]
        else:
            values = offsets - C * (qp.gram @ qp.beta)
        if self._free_parts and not by_pass:
            parts = np.array(self._free_parts)
            residual = parts.T @ qp.beta[1:]
            values[1:] += parts @ (self._v + C * self._tau * residual)
        return float(values.max())

    def _choose_tau(self, C: float, parts: Array) -> None:
        """Choose tau large compared with the planes' curvature, and large enough to move v by 1."""
        squares = np.einsum("ij,ij->i", parts, parts)
        if not squares.any():
            return
        own = np.diagonal(self._qp.gram)[1:] - self._tau * squares
        wanted = max(
            1e3 * float(own.max()) / float(squares.max()), 1.0 / (C * squares.max() ** 0.5)
        )
        if not 0.01 * wanted <= self._tau <= 100.0 * wanted:
            self._qp.shift_gram((wanted - self._tau) * (parts @ parts.T))
            self._tau = wanted

    def _solve_with_multipliers(self, C: float, offsets: Array, tol: float) -> None:
        bound = self.regularizer.free_bound
        parts = np.array(self._free_parts)
        self._choose_tau(C, parts)
        last = np.inf
        for _ in range(MAX_MULTIPLIER_ROUNDS):
            shifted = offsets.copy()
            shifted[1:] += parts @ self._v
            self._qp.solve(shifted / C, tol)
            residual = C * (parts.T @ self._qp.beta[1:])
            self._v = np.clip(self._v - self._tau * residual, -bound, bound)
            size = float(np.abs(residual).sum())
            if size * bound <= max(tol * C * C, 1e-14 * float(np.abs(offsets).max()) * C):
                break
            if size > 0.5 * last and size * bound < 1e-9 * C * float(np.abs(offsets).max()):
                break  # only rounding is left
            last = min(last, size)
