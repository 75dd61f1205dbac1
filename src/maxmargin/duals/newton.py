"""Dual points over rows, optimized by Newton steps: for few features and any C.

    minimize  F(w) = |w|^2 / 2 + sum_i l_i(<z_i, w>),    z_i = y_i x_i

A step needs Z' diag(theta) Z for weights theta of the rows, one Cholesky factorization of it, and a few
products with Z. The number of steps hardly depends on C, the scaling of the features or the number
of rows. This module holds what the methods share; losses with bounded multipliers are in ``interior_point``,
smooth ones in ``smooth_newton``.

Losses are functions of margins, l_i(<z_i, w> - demand_i): the demand of the hinge is its margin, minus y_i
times the offset of the score, if there is one. The epsilon-insensitive loss |y_i - <w, x_i>| <= e_i is two
hinges, of x_i and -x_i, with demands y_i - e_i and -y_i - e_i. At most one of them is positive, so this
holds for squares as well. Demands are stored unscaled: nothing is added to 1, which would lose the digits of
small targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale, UpperBound, correction, gamma
from maxmargin.core.stored_values import count, number
from maxmargin.core.vectors import Array
from maxmargin.data.design import row_lengths
from maxmargin.duals.gram import BothSides, ColumnProducts, RowProducts
from maxmargin.duals.proofs import dual_error, proved_multiple
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.losses.derivatives import NewtonTerms, SmoothLoss, SquaredMargin
from maxmargin.losses.dual_terms import DualTerms

#: number of steps without progress after which a method reports that it is stuck
PATIENCE = 6
#: steps of a small problem in one call: at most so many, and only one when the gap may be less than this
#: times the objective
AT_ONCE, NEAR = 3, 3e-4


class NewtonDuals(ABC):
    """Base class of the two methods; see :class:`maxmargin.core.RowDuals`.

    ``w`` is the method's own primal point, which is better than that of its multipliers. The
    multipliers with the best dual value are kept besides those the method works on.
    """

    n_steps = 1

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm) -> None:
        self.terms = newton_losses(rows)
        self.products, self._demand = _signed_rows(rows, self.terms)
        self.rows, self._offset = rows, rows.offset
        self.regularizer = regularizer
        self.n_examples = rows.n
        self.n_active = self.products.n
        self.n_support = 0
        self.C = C
        self._weight: Array = rows.weight[self.products.index]
        self._c: Array = C * self._weight
        self._penalty: Array = np.ones(rows.dim)
        self._penalty[regularizer.free] = 0.0
        self.w: Array = np.zeros(rows.dim)
        self._m: Array = self._margins(self.w)  # Z w - demand
        self._alpha: Array = np.zeros_like(self._m)
        self._combined: Array = np.zeros(rows.dim)  # Z' alpha
        self._linear = 0.0  # the multipliers' own contribution to D
        self._lower, self._upper = 0.0, np.inf
        self._smallest, self._idle = np.inf, 0

    def _margins(self, w: Array) -> Array:
        """Z w - demand."""
        m = self.products.margins(w)
        m -= self._demand
        return m

    def _demanded(self, alpha: Array) -> float:
        """The demands' contribution to the dual value."""
        if isinstance(self._demand, float):
            return self._demand * float(alpha.sum())
        return float(np.vdot(alpha, self._demand))

    @property
    def easy_C(self) -> float:
        """See :class:`maxmargin.core.RowDuals`; not used by these methods themselves."""
        return 1.0 / max(self.products.mean_square(), 1e-300)

    @abstractmethod
    def improve(self, seed: int) -> SweepStats:
        """Take one Newton step; ``stats.gap_estimate`` is F(w) - D, or infinite if steps no longer help."""

    @abstractmethod
    def start_at(self, w: Array, gap: float) -> None:
        """Continue from a point that another method found, given its relative duality gap."""

    @abstractmethod
    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C; w does not change."""

    def check(self, scores: Array) -> None:
        """Set the margins from the exact scores of ``w``."""
        self._m[:] = self.products.of_scores(
            scores if self._offset is None else scores - self._offset
        )
        self._m -= self._demand

    @abstractmethod
    def _feasible(self, alpha: Array) -> Array:
        """The nearest feasible multipliers, approximately."""

    @abstractmethod
    def _curved_size(self, alpha: Array) -> float:
        """The sum of the absolute values of the terms of ``_linear`` that come from the losses' curvature."""

    @abstractmethod
    def _linear_part(self) -> float:
        """``_linear``, recomputed from the multipliers."""

    def dual_estimate(self, C: float) -> float:
        """The best dual value so far, for this C."""
        return self._lower if C == self.C else self._value(self._linear, self._combined, C)

    def dual_value(self, C: float) -> float:
        """The same with all sums over the best multipliers recomputed."""
        self._combined = self.products.combine(self._alpha)
        self._linear = self._linear_part()
        self._lower = self._value(self._linear, self._combined, self.C)
        return self.dual_estimate(C)

    @property
    def multipliers(self) -> Array:
        """The best multipliers, one per row of the feature matrix."""
        return self.products.gather(self._alpha)

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers and their point."""
        self._alpha[:] = self._feasible(self.products.spread(multipliers))
        self.dual_value(self.C)
        w = self.regularizer.penalized(self._combined)
        short = np.maximum(0.0, -self._margins(w))
        # the hinge loss: a guess for other losses
        upper = self.regularizer.value(w) + float(np.sum(self._c @ short))
        self.start_at(w, 1.0 - self._lower / upper if 0.0 < self._lower < upper else 1.0)

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`: the best multipliers and the current iterate."""
        return {"multipliers": self._alpha, "w": self.w, "idle": (self._smallest, self._idle)}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`."""
        self._alpha[:] = self._feasible(same_shape(state["multipliers"], self._alpha))
        self.w[:] = same_shape(state["w"], self.w)
        self._m[:] = self._margins(self.w)
        smallest, idle = state["idle"]
        self._smallest = number(smallest, "the merit", finite=False)
        self._idle = count(idle, "the steps without progress")
        self.dual_value(self.C)

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """See :class:`maxmargin.core.RowDuals`."""
        lengths, alpha = self._lengths(), self.multipliers
        omega = self.regularizer.near(attained.upper)
        if isinstance(self.terms, DualTerms):
            return proved_multiple(self.rows, C, self.C, omega, alpha, lengths, attained.negligible)
        value = self.dual_value(C)
        u, sizes, unit = self._combined, self._sizes(), gamma(len(alpha))
        lost = dual_error(self.rows, omega, u, alpha, sizes, unit)
        lost *= max(1.0, C / self.C) ** 2
        return value - correction(lost, attained.negligible)

    def aggregate(self) -> Cut:
        """The best multipliers as one cut."""
        error = self._sizes().of_cut() / self.C
        return Cut(self._linear / self.C, self._combined / -self.C, error)

    def _lengths(self) -> Array:
        """The norms of the rows, including the constant feature."""
        known = row_lengths(self.rows.design, 0, self.rows.design.shape[0])
        lengths: Array = np.hypot(0.0 if known is None else known, self.rows.intercept)
        return lengths

    def _sizes(self) -> Scale:
        """The magnitudes of the terms of the dual value."""
        alpha = np.abs(self._alpha)
        demands = float(np.sum(alpha * np.abs(self._demand)))
        curved = self._curved_size(alpha)
        plane_size = float(np.sum(self._lengths()[self.products.index] @ alpha))
        return Scale(demands + curved, plane_size, len(alpha))

    def _value(self, linear: float, combined: Array, C: float) -> float:
        """The dual value for C of the best feasible multiple of multipliers that are feasible now.

        The dual value of a multiple k <= C / self.C is at least ``k linear - k^2 |Z' alpha|^2 / 2``: exactly
        so for the hinge, and for other losses because their conjugates are convex and zero at zero.
        """
        omega = self.regularizer
        if len(omega.free):
            limit = omega.free_limit(self._upper if C == self.C else np.inf)
            linear -= float(np.abs(combined[omega.free]).sum()) * limit
        square = 2.0 * omega.value(combined)
        k = C / self.C
        if linear < k * square:
            k = max(0.0, linear / square) if square > 0.0 else 0.0
        return k * linear - 0.5 * k * k * square

    def _keep(self, alpha: Array, linear: float, combined: Array) -> None:
        """Keep these multipliers if they are the best so far."""
        lower = self._value(linear, combined, self.C)
        if lower > self._lower:
            self._alpha[:] = alpha
            self._linear, self._combined, self._lower = linear, combined, lower

    def _forget(self, C: float, regularizer: SquaredNorm) -> None:
        """Change C: the multipliers are scaled with it, so they stay feasible."""
        self._alpha *= C / self.C
        self.C, self._c, self._upper = C, C * self._weight, np.inf
        self.regularizer = regularizer
        self._smallest, self._idle = np.inf, 0

    def _idles(self, merit: float) -> bool:
        """Whether ``merit`` has stopped decreasing."""
        if merit < 0.9 * self._smallest:
            self._smallest, self._idle = merit, 0
        else:
            self._idle += 1
        return self._idle >= PATIENCE


def newton_losses(rows: Rows) -> DualTerms | NewtonTerms:
    """The terms that the loss declares: the duals of its rows, including offsets, or derivatives."""
    terms = rows.loss.dual_terms(rows.y[:])
    if isinstance(terms, DualTerms):
        return terms.shifted(rows.offset)
    smooth = rows.loss.newton_terms(rows.y[:])
    if smooth is None:
        raise TypeError(
            f"Newton's method does not support the loss {type(rows.loss).__name__}: implement dual_terms(y) "
            "or newton_terms(y), or use solver=CuttingPlane()."
        )
    return smooth


def smooth_margin(terms: DualTerms | NewtonTerms) -> SmoothLoss:
    """The smooth loss as a function of margin minus demand."""
    return SquaredMargin(terms.curvature) if isinstance(terms, DualTerms) else terms.margin


def _signed_rows(
    rows: Rows, terms: DualTerms | NewtonTerms
) -> tuple[RowProducts | BothSides | ColumnProducts, Array | float]:
    """The rows z_i, and the demand of each row, or one for all."""
    if isinstance(terms, NewtonTerms):
        several = rows.loss.n_outputs() is not None
        own = ColumnProducts(rows) if several else RowProducts(rows, terms.labels)
        return own, 0.0 if rows.offset is None else 0.0 - own.of_scores(rows.offset)
    margin = terms.margin
    if terms.two_sided:
        both = BothSides(rows)
        width = margin if np.ndim(margin) == 0 else np.asarray(margin)[both.index]
        return both, both.of_scores(terms.labels) - width
    products = RowProducts(rows, terms.labels)
    return products, float(margin) if np.ndim(margin) == 0 else np.asarray(margin)[products.index]
