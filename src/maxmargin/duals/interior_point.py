"""A primal-dual interior-point method for losses with bounded multipliers (the hinge): Mehrotra's predictor
and corrector, then Gondzio's correctors, which reuse the factorization and lengthen the step.

    primal   min |w|^2 / 2 + sum_i c_i xi_i         with m_i = <z_i, w> - d_i = u_i - xi_i,  u, xi >= 0
    dual     max sum_i d_i a_i - |Z' a|^2 / 2       with 0 <= a_i <= c_i,  t_i = c_i - a_i

At the optimum w = Z' a, a_i u_i = 0 and t_i xi_i = 0. The method keeps all of a, t, u, xi positive and
takes Newton steps towards a_i u_i = t_i xi_i = sigma mu c_i. Eliminating all but w leaves

    (P + Z' diag(theta) Z) dw = P w residual - Z' theta rho,    1 / theta_i = u_i / a_i + xi_i / t_i

where P is one on penalized coordinates and zero on the others. It starts in the middle of the box
with w = 0, so w = Z' a does not hold at first, but the residual shrinks with every step. The dual
value is always that of the multipliers themselves, inside the box, so it is valid at any time:

    F(w) - D(a) <= sum_i a_i u_i + t_i xi_i + |w - Z' a|^2 / 2.

A loss with a curved dual, d(a) = d_i a - q_i a^2 / 2, has m_i + q_i a_i = u_i - xi_i instead. Then m + q a
replaces m in all formulas, and q is added to 1 / theta. The weights c are those of the losses times
their steepest slope, and q_i = kappa / c_i.

References:

- S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on Optimization
  2 (1992), 575-601, https://doi.org/10.1137/0802028
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.compiled import interior, small_steps
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.duals.gram import Factor, SmallProblem
from maxmargin.duals.newton import AT_ONCE, NEAR, NewtonDuals
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.losses.dual_terms import DualTerms

#: the first point has a u = t xi = FIRST c
FIRST = 0.7
#: fraction of the distance to the nearest bound that a step may cover
BACK = 0.99
#: Gondzio's correctors: the maximum number, and the increase of the step length each one aims at
CORRECTORS, LONGER = 2, 0.3
#: bisection steps to find the center of a curved dual: a start need not be exact
BISECTIONS = 30


class InteriorPoint(NewtonDuals):
    """Newton steps for losses with bounded multipliers."""

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        super().__init__(rows, C, regularizer)
        assert isinstance(self.terms, DualTerms)
        steep: Array | float = float(self.terms.steepest)
        self._kappa = float(self.terms.curvature) * self.terms.steepest
        if self.terms.below is not None:  # rows of Z are those of x, then those of -x
            steep = np.repeat([self.terms.steepest, self.terms.below], self.products.n // 2)
        self._weight, self._c = steep * self._weight, steep * self._c
        n = self.products.n
        self._a, self._t, self._u, self._xi = (np.zeros(n) for _ in range(4))
        self._theta, self._coef, self._r, self._s = (np.empty(n) for _ in range(4))
        self._small = (
            self.products.small(small_steps.INTERIOR_VECTORS) if self._kappa == 0.0 else None
        )
        self._restarted = False
        self._balance = rows.intercept != 0.0 and list(regularizer.free) == [rows.dim - 1]
        # typical size of the demanded margins or targets: all slacks scale with it
        self._size = 1.0
        if not isinstance(self._demand, float) and n:
            mean = float(self._c @ np.abs(self._demand)) / float(self._c.sum())
            self._size = mean if mean > 0.0 else 1.0
        self._place(FIRST)
        self._a[:] = self._t[:] = 0.5 * self._c
        self._update_bounds()

    def _center(self, mu: float) -> None:
        """Move to the center for the current margins, and update the bounds there."""
        self._place(mu)
        self._update_bounds()

    def _place(self, mu: float) -> None:
        """The center for the current margins: a u = t xi = mu c, with a + t = c and u - xi = m."""
        mu = mu * self._size
        r = self._m if self._kappa == 0.0 else self._centered(mu)
        large, small = _roots(r, mu)
        self._u[:] = mu + np.where(r > 0.0, large, small)
        self._xi[:] = mu + np.where(r > 0.0, small, large)
        self._a[:] = np.minimum(mu * self._c / self._u, self._c)
        self._t[:] = mu * self._c / self._xi

    def _centered(self, mu: float) -> Array:
        """m + q a at the center, where a = mu c / u: between m and m + kappa, by bisection."""
        low, high = self._m.copy(), self._m + self._kappa
        for _ in range(BISECTIONS):
            r = 0.5 * (low + high)
            large, small = _roots(r, mu)
            above = r - self._m > self._kappa * mu / (mu + np.where(r > 0.0, large, small))
            low, high = np.where(above, low, r), np.where(above, r, high)
        out: Array = 0.5 * (low + high)
        return out

    def _curvature_of(self, alpha: Array) -> float:
        """The sum of q a^2 / 2."""
        if self._kappa == 0.0:
            return 0.0
        return 0.5 * self._kappa * float(np.sum(alpha * alpha / self._c))

    def _part_of_dual(self, alpha: Array) -> float:
        """The multipliers' contribution to D, without that of w."""
        return self._demanded(alpha) - self._curvature_of(alpha)

    def _loss(self) -> float:
        """The loss at the current margins, if it is not the hinge."""
        short = np.maximum(0.0, -self._m)
        square = short * short / (2.0 * self._kappa)
        return float(self._c @ np.where(short > self._kappa, short - 0.5 * self._kappa, square))

    def _update_bounds(self) -> None:
        """Update bounds and residual at the current point."""
        slack, loss, support = interior.summary(
            self._a, self._t, self._u, self._xi, self._m, self._c
        )
        if self._kappa > 0.0:
            loss = self._loss()
        combined = self.products.combine(self._a)
        self._residual: Array = self._penalty * self.w - combined
        self._slack, self.n_support = float(slack), int(support)
        self._upper = self.regularizer.value(self.w) + float(loss)
        if self._balance:
            # With an unpenalized intercept the bound loses much when the classes are unbalanced,
            # so the heavier class is scaled down, which stays in the box.
            alpha, plus = self._a.copy(), self.products.y > 0.0
            heavy, light = float(alpha[plus].sum()), float(alpha[~plus].sum())
            if heavy < light:
                plus, heavy, light = ~plus, light, heavy
            alpha[plus] *= light / max(heavy, 1e-300)
            self._keep(alpha, self._part_of_dual(alpha), self.products.combine(alpha))
        else:
            self._keep(self._a, self._part_of_dual(self._a), combined)

    def improve(self, seed: int) -> SweepStats:
        """See :meth:`NewtonDuals.improve`."""
        if self.products.n == 0:
            return SweepStats(0, 0.0, 0)
        steps = self._step() if self._small is None else self._steps(self._small)
        if steps:
            self._update_bounds()
            merit = self._slack + math.sqrt(float(self._residual @ self._residual))
        if not steps or self._idles(merit):
            if self._restarted:
                return SweepStats(self.n_examples, float("inf"), 0)
            # the start was too close to a wrong bound: restart once from w, far from all bounds
            self._restarted, self._smallest, self._idle = True, np.inf, 0
            self._m[:] = self._margins(self.w)
            self._center(FIRST)
        return SweepStats(max(1, steps) * self.n_examples, self._upper - self._lower, 0)

    def _steps(self, small: SmallProblem) -> int:
        """Take some steps in one call; return their number."""
        point = (self._a, self._t, self._u, self._xi, self._m, self._c, self.w)
        fixed = (self._penalty, BACK, CORRECTORS, LONGER)
        steps = small_steps.interior_steps(
            AT_ONCE, NEAR, *small.rows, *fixed, *point, *small.memory
        )
        self._m[:] = self._margins(self.w)  # without the rounding errors of several steps
        return int(steps)

    def _step(self) -> int:
        """Take a predictor-corrector step; return whether there was one, as a number."""
        asked = self._m
        if self._kappa > 0.0:
            q = self._kappa / self._c
            asked = self._m + q * self._a
        state = (self._a, self._t, self._u, self._xi, asked)
        theta, coef, products = self._theta, self._coef, self.products
        interior.weigh(*state, theta, coef)
        if self._kappa > 0.0:
            theta /= 1.0 + q * theta
            coef[:] = theta * asked
        H, self.n_active = products.gram(theta)
        H.flat[:: len(H) + 1] += self._penalty
        factor = Factor(H)
        if not factor.ok:
            return 0
        dw = factor.solve(-self._residual - products.combine(coef))
        dm = products.margins(dw)
        total = float(self._c.sum())
        target = interior.correct(
            *state, theta, dm, self._slack, total, self._c, self._r, self._s, coef
        )
        dw = factor.solve(-self._residual - products.combine(coef))
        dm = products.margins(dw)
        step = interior.longest(*state, theta, dm, self._r, self._s)
        for _ in range(CORRECTORS):
            if step > 0.9:
                break
            r, s = self._r.copy(), self._s.copy()
            interior.recenter(
                min(1.0, step + LONGER), target, self._c, *state, theta, dm, r, s, coef
            )
            other = factor.solve(-self._residual - products.combine(coef))
            dm_other = products.margins(other)
            longer = interior.longest(*state, theta, dm_other, r, s)
            if not longer > step + 0.1 * LONGER:
                break
            step, dw, dm, self._r, self._s = longer, other, dm_other, r, s
        step = float(min(1.0, BACK * step))
        if not (np.isfinite(dw).all() and step > 1e-10):
            return 0
        interior.move(step, *state, self._c, theta, dm, self._r, self._s)
        if self._kappa > 0.0:  # ``move`` updated m + q a, not m
            self._m += step * dm
        self.w += step * dw
        return 1

    def start_at(self, w: Array, gap: float) -> None:
        """See :meth:`NewtonDuals.start_at`."""
        self._restarted = False
        self.w[:] = w
        self._m[:] = self._margins(self.w)
        self._center(min(0.3, 0.3 * math.sqrt(gap)))

    def state(self) -> dict[str, Any]:
        """See :meth:`NewtonDuals.state`."""
        point = {"a": self._a, "t": self._t, "u": self._u, "xi": self._xi}
        return {**super().state(), **point, "restarted": self._restarted}

    def restore(self, state: dict[str, Any]) -> None:
        """See :meth:`NewtonDuals.restore`."""
        super().restore(state)
        a, t, u, xi = (same_shape(state[name], self._a) for name in ("a", "t", "u", "xi"))
        inside = all((part > 0.0).all() for part in (a, t, u, xi)) and (a <= self._c).all()
        if not inside:  # possibly an underflow: restart at the center, which is always inside
            self._center(FIRST)
            return
        self._a[:], self._t[:], self._u[:], self._xi[:] = a, t, u, xi
        self._restarted = state["restarted"] is True
        self._update_bounds()

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """See :meth:`NewtonDuals.rescale`; the farther the new C, the more central the point."""
        self._restarted = False
        ratio = max(C / self.C, self.C / C)
        self._forget(C, regularizer)
        np.minimum(self._alpha, self._c, out=self._alpha)
        self.dual_value(C)
        self._center(min(0.3, 0.1 * math.sqrt(ratio)))

    def _feasible(self, alpha: Array) -> Array:
        out: Array = np.clip(alpha, 0.0, self._c)
        return out

    def _curved_size(self, alpha: Array) -> float:
        return self._curvature_of(alpha)

    def _linear_part(self) -> float:
        return self._part_of_dual(self._alpha)


def _roots(r: Array, mu: float) -> tuple[Array, Array]:
    """The solutions of u xi = mu (u + xi) with u - xi = r are mu + (sqrt(r^2 + 4 mu^2) +- r) / 2. Return the
    larger and the smaller one, minus mu."""
    large = 0.5 * (np.sqrt(r * r + 4.0 * mu * mu) + np.abs(r))
    return large, mu * mu / large
