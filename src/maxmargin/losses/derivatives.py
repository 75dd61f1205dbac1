"""Smooth losses of margins for Newton's method: values, first and second derivatives, and conjugates.

    c l(m),    m = y s - demand,    alpha = -c l'(m),    theta = c l''(m)

The dual value is sum_i alpha_i demand_i - sum_i c_i l*(-alpha_i / c_i) - |Z' alpha|^2 / 2.
:meth:`SmoothMargin.dual` returns -l*(-p) = min over m of l(m) + p m.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from maxmargin.compiled import smooth
from maxmargin.core.vectors import Array


class SmoothMargin(ABC):
    """A smooth, convex, decreasing loss l of margins, with slopes between ``-steepest`` and 0.

    Two methods are required. Override the others if compiled code is available.
    """

    #: largest absolute slope; infinity if unbounded
    steepest: float = 1.0
    #: whether l'' is constant between kinks; a Hessian can then be updated from the rows that crossed a kink
    piecewise_quadratic: bool = False

    @abstractmethod
    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """l, l' and l'' at each margin."""

    @abstractmethod
    def dual(self, p: Array) -> Array:
        """min over m of l(m) + p m for each p between 0 and ``steepest``."""

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        """Fill ``alpha`` and ``theta``; return (sum of losses, conjugate part of the dual, number of
        nonzeros)."""
        value, slope, curvature = self.derivatives(m)
        alpha[:] = -c * slope
        theta[:] = c * curvature
        return float(c @ value), self.dual_sum(alpha, c), int(np.count_nonzero(alpha))

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        """(sum of alpha dm, sum of theta dm^2) after a step k."""
        _, slope, curvature = self.derivatives(m + k * dm)
        return -float((c * slope) @ dm), float((c * curvature) @ (dm * dm))

    def dual_sum(self, alpha: Array, c: Array) -> float:
        """Conjugate part of the dual value."""
        return float(c @ self.dual(alpha / c))

    def size(self, alpha: Array, c: Array) -> float:
        """Upper bound on the sum of absolute values of the terms in :meth:`dual_sum`."""
        return float(c @ np.abs(self.dual(alpha / c)))


@dataclass(frozen=True, slots=True)
class SquaredMargin(SmoothMargin):
    """max(0, -m)^2 / (2 curvature)."""

    curvature: float = 0.5

    steepest = np.inf
    piecewise_quadratic = True

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """See :class:`SmoothMargin`."""
        short = np.maximum(0.0, -m)
        k = self.curvature
        return short**2 / (2.0 * k), -short / k, np.where(short > 0.0, 1.0 / k, 0.0)

    def dual(self, p: Array) -> Array:
        """See :class:`SmoothMargin`."""
        out: Array = -0.5 * self.curvature * p * p
        return out

    def weights_of_squares(self, c: Array) -> Array:
        """Weights of max(0, -m)^2."""
        out: Array = c / (2.0 * self.curvature)
        return out

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        """See :class:`SmoothMargin`."""
        loss, dual, support = smooth.squared_hinge(m, self.weights_of_squares(c), alpha, theta)
        return float(loss), float(dual), int(support)

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        """See :class:`SmoothMargin`."""
        slope, curvature = smooth.squared_hinge_slope(m, dm, self.weights_of_squares(c), k)
        return float(slope), float(curvature)

    def dual_sum(self, alpha: Array, c: Array) -> float:
        """See :class:`SmoothMargin`."""
        return -(float((alpha * alpha / self.weights_of_squares(c)).sum()) / 4.0)

    def size(self, alpha: Array, c: Array) -> float:
        """See :class:`SmoothMargin`."""
        return float(np.sum(alpha * alpha / self.weights_of_squares(c))) / 4.0


class LogisticMargin(SmoothMargin):
    """log(1 + exp(-m)); the conjugate part of the dual is the entropy of alpha / c."""

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """See :class:`SmoothMargin`."""
        p = np.exp(-np.logaddexp(0.0, m))
        return np.logaddexp(0.0, -m), -p, p * (1.0 - p)

    def dual(self, p: Array) -> Array:
        """See :class:`SmoothMargin`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy: Array = -(np.where(p > 0.0, p * np.log(p), 0.0))
            entropy -= np.where(p < 1.0, (1.0 - p) * np.log1p(-p), 0.0)
        return entropy

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        """See :class:`SmoothMargin`."""
        loss, dual, support = smooth.logistic(m, c, alpha, theta)
        return float(loss), float(dual), int(support)

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        """See :class:`SmoothMargin`."""
        slope, curvature = smooth.logistic_slope(m, dm, c, k)
        return float(slope), float(curvature)

    def size(self, alpha: Array, c: Array) -> float:
        """See :class:`SmoothMargin`: each entropy is at most log 2 < 1."""
        return float(c.sum())


@dataclass(frozen=True, slots=True, eq=False)
class NewtonTerms:
    """A smooth loss with one score per sample, as a loss of margins, for losses without :class:`DualTerms`.

    Parameters
    ----------
    labels : array of shape (n,)
        Signs, -1 or +1.
    margin : SmoothMargin
        The loss as a function of y s.
    """

    labels: Array
    margin: SmoothMargin
