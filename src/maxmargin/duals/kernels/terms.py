"""The losses of a kernel machine with one score per sample, and their duals.

With the residual r = target - f - b, sample i costs

    hi max(0, r - width) - lo max(0, -r - width)

and contributes target beta - width |beta| to the dual, where lo <= beta <= hi:

    hinge                 target y (a sign)   width 0         beta in y [0, c]
    epsilon-insensitive   target y            width epsilon   beta in [-c, c]
    quantile q            target y            width 0         beta in [-c (1 - q), c q]
    one-class             target 1            width 0         beta in [0, c]

The dual has a *kink* at beta = 0 if the width is positive and both signs are feasible. Once the sign of such
a multiplier is fixed, the kink is a bound, and the width is a part of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from maxmargin.core.rounding import UNIT
from maxmargin.core.vectors import Array
from maxmargin.kernels.rounding import summed
from maxmargin.losses.dual_terms import DualTerms

#: slope of the loss, as a fraction of all weights, that is due to rounding
FLAT = 1e-13


@dataclass(frozen=True, eq=False)
class KernelTerms:
    """The samples of a problem; see the module."""

    target: Array
    width: Array
    lo: Array
    hi: Array

    @classmethod
    def of(cls, terms: Any, c: Array) -> Self:
        """From the dual terms of a loss, for samples with the weights ``c``."""
        if (
            not isinstance(terms, DualTerms)
            or terms.curvature != 0.0
            or max(terms.steepest, terms.below or 0.0) > 1.0
        ):
            raise ValueError(
                "kernel blocks require a piecewise linear loss of one score per sample, such as Hinge, "
                "EpsilonInsensitive, Quantile or OneClass, with slopes of at most 1."
            )
        labels, margin = terms.labels, np.broadcast_to(terms.margin, len(c)).astype(np.float64)
        if terms.two_sided:
            return cls(labels, margin, terms.skew * terms.caps(c), terms.caps(c))
        lo, hi = np.minimum(0.0, labels) * c, np.maximum(0.0, labels) * c
        return cls(labels * margin, np.zeros(len(c)), lo, hi)

    def take(self, rows: Any) -> Self:
        """The terms of some samples."""
        return type(self)(self.target[rows], self.width[rows], self.lo[rows], self.hi[rows])

    def times(self, C: float) -> Self:
        """The same with all weights multiplied by C."""
        return type(self)(self.target, self.width, C * self.lo, C * self.hi)

    def slope(self, r: Any, error: Any = 0.0) -> Array:
        """The slopes of the losses at the residuals ``r``; the larger one of the two sides where an ``error``
        of r may change the side."""
        steep = np.maximum(self.hi, -self.lo)
        return np.where(r > error, self.hi, np.where(r < -error, -self.lo, steep))

    @cached_property
    def two_sided(self) -> bool:
        """Whether scores can be too large as well as too small."""
        return bool(((self.lo < 0.0) & (self.hi > 0.0)).any())

    @cached_property
    def kinked(self) -> Any:
        """Which multipliers have a kink at zero."""
        return (self.lo < 0.0) & (self.hi > 0.0) & (self.width > 0.0)

    def short(self, r: Array) -> Array:
        """By how much the samples fall short of having no loss; the loss is c max(0, short)."""
        if not self.two_sided:
            return np.where(self.hi > 0.0, r, np.where(self.lo < 0.0, -r, -np.inf))
        out: Array = np.abs(r) - self.width
        return out

    def of_constant(self, b: float) -> float:
        """An upper bound of the loss of the function b. Only differences are rounded: zero remains zero."""
        r = self.target - b
        error = 4.0 * UNIT * (np.abs(r) + self.width)
        short = self.short(r) + error
        return summed(float(self.slope(r, error) @ np.maximum(0.0, short)), len(r))

    def linear(self, beta: Array) -> float:
        """The linear part of the dual."""
        value = float(self.target @ beta)
        return value - float(self.width @ np.abs(beta)) if self.two_sided else value

    def sizes(self, beta: Array) -> float:
        """The sum of the absolute values of the terms of the linear part."""
        return float((np.abs(beta) * (np.abs(self.target) + self.width)).sum())

    def rounding(self, intercept: Array) -> float:
        """A bound on the rounding error of a residual besides that of its score."""
        largest = float(np.max(np.abs(self.target) + self.width, initial=0.0))
        return 4.0 * UNIT * (largest + float(np.abs(intercept).sum()))

    def slopes(self, beta: Array, v: Array) -> tuple[Array, Array]:
        """The gradient for increasing and for decreasing multipliers, from v = target - f."""
        if not self.two_sided:
            return v, v
        return (
            v - np.where(beta >= 0.0, self.width, -self.width),
            v - np.where(beta > 0.0, self.width, -self.width),
        )

    def free(self, beta: Array) -> Any:
        """Which multipliers are neither at a bound nor at a kink."""
        inside = (beta > self.lo) & (beta < self.hi)
        return inside & ~(self.kinked & (beta == 0.0)) if self.two_sided else inside

    def violation(self, beta: Array, v: Array, balanced: bool) -> tuple[float, float]:
        """The violation of the optimality conditions, and the intercept in the middle of it; -inf if no
        step is feasible. ``balanced``: steps keep the sum."""
        up, down = self.slopes(beta, v)
        top = float(up[beta < self.hi].max(initial=-np.inf))
        bottom = float((-down[beta > self.lo]).max(initial=-np.inf))
        if balanced:
            return top + bottom, 0.5 * (top - bottom)
        return max(top, bottom), 0.0

    def best_intercept(self, v: Array) -> float:
        """The b that minimizes the loss, where v = target - f. If an interval does, its middle, as in LIBSVM:
        at its ends, samples begin to have a loss."""
        kinks, weights, rising = v, self.slope(0.0), self.hi > 0.0
        if self.two_sided:
            falling = self.lo < 0.0
            kinks = np.concatenate([(v - self.width)[rising], (v + self.width)[falling]])
            weights = np.concatenate([self.hi[rising], -self.lo[falling]])
        order = np.argsort(kinks, kind="stable")
        passed = np.cumsum(weights[order])
        goal = float(self.hi[rising].sum()) + FLAT * passed[-1] * np.array([-1.0, 1.0])
        ends = np.minimum(np.searchsorted(passed, goal), len(kinks) - 1)
        first, last = kinks[order[ends]].tolist()
        return float(first + 0.5 * (last - first))

    def orthant(self, beta: Array, v: Array) -> tuple[Array, Array, Array]:
        """Fix the signs of multipliers with a kink, those at zero by the sign of v: what to subtract from the
        gradient, and the bounds."""
        sign = np.where(self.kinked, np.sign(np.where(beta != 0.0, beta, v)), 0.0)
        sign[self.kinked & (sign == 0.0)] = 1.0
        lo = np.where(sign > 0.0, 0.0, self.lo)
        hi = np.where(sign < 0.0, 0.0, self.hi)
        return self.width * sign, lo, hi
