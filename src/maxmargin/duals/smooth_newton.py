"""Newton's method with an exact line search for smooth losses: squared losses, the logistic loss, and losses
that declare derivatives.

    F(w) = |w|^2 / 2 + sum_i l_i(<z_i, w> - d_i),    H = P + Z' diag(theta) Z,    theta_i = l_i''

w moves along -H^-1 grad F to the minimizer on that line. With alpha_i = -l_i' the dual
value is F(w) - |grad F(w)|^2 / 2. For squared losses theta changes only where a row enters or
leaves the margin, so H is updated by these rows, and the method ends after finitely many steps.
(P is one on penalized coordinates and zero on the others.)

With many features H is not computed: conjugate gradients need products with it only, which cost two passes
over the rows each. They end early far from the optimum (a truncated Newton method). The bound on the gap is
|grad F(w)|^2 / 2, and near the optimum the next gradient is about as large as the residual of H.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.compiled import small_steps
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.duals.gram import Factor, SmallProblem
from maxmargin.duals.newton import AT_ONCE, NEAR, NewtonDuals, smooth_margin
from maxmargin.duals.rows import Rows
from maxmargin.losses.derivatives import SquaredMargin

#: maximum number of trials of a line search; most need fewer than ten
SEARCHES = 60
#: length of w up to which the Hessian is computed and factored
DENSE = 1000
#: largest and smallest relative residual of a system that is solved by products, and their maximum number
RESIDUALS, PRODUCTS = (0.3, 1e-3), 500


class SmoothNewton(NewtonDuals):
    """Newton steps for smooth losses of margins."""

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        super().__init__(rows, C, regularizer)
        self._margin = smooth_margin(self.terms).of_rows(self.products.index)
        self._multipliers, self._theta = np.zeros_like(self._m), np.zeros_like(self._m)
        self._hessian: Array = np.zeros((0, 0))
        self._hessian_theta: Array = np.zeros(0)
        self._updates = 0
        squared = isinstance(self._margin, SquaredMargin)
        self._small = self.products.small(small_steps.SQUARED_VECTORS) if squared else None
        self._update()

    def _update(self) -> None:
        """Update loss, multipliers and gradient at w."""
        loss, linear, support = self._margin.fill(self._m, self._c, self._multipliers, self._theta)
        combined = self.products.combine(self._multipliers)
        self._gradient: Array = self._penalty * self.w - combined
        self._upper = self.regularizer.value(self.w) + loss
        self.n_support = int(support)
        self._keep(self._multipliers, linear + self._demanded(self._multipliers), combined)

    def improve(self, seed: int) -> SweepStats:
        """See :meth:`NewtonDuals.improve`."""
        before = self._upper
        steps = self._step() if self._small is None else self._steps(self._small)
        if not steps:
            return SweepStats(self.n_examples, float("inf"), 0)
        self._update()
        gap = self._upper - self._lower
        # the gap may increase on the way, but F decreases until rounding ends the method
        falls = before - self._upper > 1e-9 * abs(before)
        idle = self._idles(gap) and not falls
        return SweepStats(steps * self.n_examples, float("inf") if idle else gap, 0)

    def _steps(self, small: SmallProblem) -> int:
        """Take some steps in one call; return their number."""
        assert isinstance(self._margin, SquaredMargin)
        c = self._margin.weights_of_squares(self._c)
        point = (np.ones((1, len(c))), self._m[None], c[None], self.w[None])
        fixed = (small_steps.UNKNOWN, self._penalty[None], SEARCHES)
        steps = small_steps.squared_steps(AT_ONCE, NEAR, *small.rows, *fixed, *point, *small.memory)
        self._m[:] = self._margins(self.w)  # without the rounding errors of several steps
        return int(steps)

    def _step(self) -> int:
        """Take a Newton step; return its cost in visits of all rows, 0 if there was none."""
        direction, visits = self._direction()
        if direction is None:
            return 0
        dm = self.products.margins(direction)
        step = self._search(direction, dm)
        if not step > 0.0:
            return 0
        self.w += step * direction
        self._m += step * dm
        return visits

    def _direction(self) -> tuple[Array | None, int]:
        """-H^-1 grad F, or nearly so; None if H is not finite. And the visits of all rows."""
        if self.products.dim <= DENSE:
            factor = Factor(self.hessian())
            return factor.solve(-self._gradient) if factor.ok else None, 1
        gap = max(0.0, self._upper - self._lower) / max(abs(self._upper), 1e-300)
        tol = min(RESIDUALS[0], max(RESIDUALS[1], gap**0.5))
        diagonal = self._penalty + self.products.squares(self._theta)
        direction, count = _conjugate_gradients(
            self._bent, -self._gradient, diagonal, tol, PRODUCTS
        )
        return direction, 1 + count

    def _bent(self, v: Array) -> Array:
        """H v."""
        bent = self._margin.bend(self._theta, self._c, self.products.margins(v))
        out: Array = self.products.combine(bent)
        out += v
        out[self.regularizer.free] -= v[self.regularizer.free]
        return out

    def hessian(self) -> Array:
        """The Hessian; for squared losses, updated by the rows whose curvature changed."""
        n = self.products.n
        if self._margin.piecewise_quadratic and len(self._hessian_theta):
            change = self._theta - self._hessian_theta
            few = int(np.count_nonzero(change))
            if few + self._updates <= max(n // 4, int(np.count_nonzero(self._theta)) // 2):
                self._hessian += self.products.gram(np.maximum(change, 0.0))[0]
                self._hessian -= self.products.gram(np.maximum(-change, 0.0))[0]
                self._hessian_theta[:] = self._theta
                self._updates += few
                self.n_active = few
                return self._hessian
        self._hessian, self.n_active = self.products.gram(self._theta)
        self._hessian.flat[:: len(self.w) + 1] += self._penalty
        self._hessian_theta, self._updates = self._theta.copy(), 0
        return self._hessian

    def _search(self, direction: Array, dm: Array) -> float:
        """The step that minimizes F, by Newton's method on the slope, kept inside a bracket."""
        omega = self.regularizer
        square = omega.inner(direction, direction)
        linear = omega.inner(self.w, direction)
        start = linear - self._margin.slope(self._m, dm, self._c, 0.0)[0]
        if not start < 0.0:
            return 0.0
        lo, hi, k = 0.0, np.inf, 1.0
        for _ in range(SEARCHES):
            sum_alpha, sum_theta = self._margin.slope(self._m, dm, self._c, k)
            slope, curvature = linear + square * k - sum_alpha, square + sum_theta
            if abs(slope) <= 1e-9 * -start:
                return k
            lo, hi = (k, hi) if slope < 0.0 else (lo, k)
            if hi - lo <= 1e-12 * hi:
                return k
            k = k - slope / curvature if curvature > 0.0 else np.inf
            if not lo < k < hi:
                k = 0.5 * (lo + hi) if np.isfinite(hi) else 4.0 * lo
        return k

    def start_at(self, w: Array, gap: float) -> None:
        """See :meth:`NewtonDuals.start_at`."""
        self.w[:] = w
        self._m[:] = self._margins(self.w)
        self._update()

    def restore(self, state: dict[str, Any]) -> None:
        """See :meth:`NewtonDuals.restore`: everything else follows from w."""
        super().restore(state)
        self._update()

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """See :meth:`NewtonDuals.rescale`: multipliers and matrix follow from w."""
        combined = C / self.C * self._combined
        self._forget(C, regularizer)
        self._hessian_theta = np.zeros(0)
        self._combined, self._linear = combined, self._linear_part()
        self._lower = self._value(self._linear, combined, C)
        self._update()

    def _feasible(self, alpha: Array) -> Array:
        return self._margin.feasible(alpha, self._c)

    def _curved_size(self, alpha: Array) -> float:
        return self._margin.size(alpha, self._c)

    def _linear_part(self) -> float:
        a, c = self._alpha, self._c
        return self._margin.dual_sum(a, c) + self._demanded(a)


def _conjugate_gradients(
    product: Callable[[Array], Array], b: Array, diagonal: Array, tol: float, most: int
) -> tuple[Array, int]:
    """x with |b - H x| <= tol |b| in the norm of the preconditioner, or the best after ``most`` products, and
    the number of products. The preconditioner is the diagonal, because features may differ much in size."""
    scale = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    x, r = np.zeros_like(b), b.copy()
    z = scale * r
    direction, square = z.copy(), float(r @ z)
    enough = tol * tol * square
    for count in range(most):
        if not square > enough:
            return x, count
        bent = product(direction)
        curvature = float(direction @ bent)
        if not curvature > 0.0:  # rounding: nothing more to gain
            return x, count + 1
        step = square / curvature
        x += np.multiply(direction, step, out=z)  # no new memory: vectors may be long
        bent *= step
        r -= bent
        np.multiply(scale, r, out=z)
        before, square = square, float(r @ z)
        direction *= square / before
        direction += z
    return x, most
