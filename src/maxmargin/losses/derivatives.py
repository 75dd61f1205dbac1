"""Smooth losses of margins for Newton's method: values, first and second derivatives, and conjugates.

    c l(m),    m = y s - demand,    alpha = -c l'(m),    theta = c l''(m)

The dual value is sum_i alpha_i demand_i - sum_i c_i l*(-alpha_i / c_i) - |Z' alpha|^2 / 2.
:meth:`SmoothMargin.dual` returns -l*(-p) = min over m of l(m) + p m. Losses of several scores per sample have
one column per score: m = s - demand, and :meth:`SmoothMargin.bend` multiplies by the second derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from maxmargin.compiled import smooth, softmax
from maxmargin.core.vectors import Array, IntArray


class SmoothLoss(ABC):
    """A smooth, convex loss of the margins of each sample, as Newton's method needs it."""

    #: whether l'' is constant between kinks; a Hessian can then be updated from the rows that crossed a kink
    piecewise_quadratic: bool = False

    @abstractmethod
    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        """Fill ``alpha`` and ``theta``; return (sum of losses, conjugate part of the dual, number of
        nonzeros)."""

    @abstractmethod
    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        """(sum of alpha dm, sum of theta dm^2) after a step k."""

    @abstractmethod
    def dual_sum(self, alpha: Array, c: Array) -> float:
        """Conjugate part of the dual value."""

    @abstractmethod
    def size(self, alpha: Array, c: Array) -> float:
        """Upper bound on the sum of absolute values of the terms in :meth:`dual_sum`."""

    @abstractmethod
    def feasible(self, alpha: Array, c: Array) -> Array:
        """Approximate projection of ``alpha`` onto the range of -c l'."""

    def bend(self, theta: Array, c: Array, v: Array) -> Array:
        """The second derivative times ``v``, one row per sample; ``v`` is overwritten."""
        v *= theta
        return v

    def of_rows(self, index: IntArray) -> SmoothLoss:
        """The loss of these samples alone."""
        return self


class SmoothMargin(SmoothLoss):
    """A smooth, convex, decreasing loss l of one margin, with slopes between ``-steepest`` and 0.

    Two methods are required. Override the others if compiled code is available.
    """

    #: largest absolute slope; infinity if unbounded
    steepest: float = 1.0

    @abstractmethod
    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        """l, l' and l'' at each margin."""

    @abstractmethod
    def dual(self, p: Array) -> Array:
        """min over m of l(m) + p m for each p between 0 and ``steepest``."""

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        value, slope, curvature = self.derivatives(m)
        alpha[:] = -c * slope
        theta[:] = c * curvature
        return float(c @ value), self.dual_sum(alpha, c), int(np.count_nonzero(alpha))

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        _, slope, curvature = self.derivatives(m + k * dm)
        return -float((c * slope) @ dm), float((c * curvature) @ (dm * dm))

    def dual_sum(self, alpha: Array, c: Array) -> float:
        return float(c @ self.dual(alpha / c))

    def size(self, alpha: Array, c: Array) -> float:
        return float(c @ np.abs(self.dual(alpha / c)))

    def feasible(self, alpha: Array, c: Array) -> Array:
        out: Array = np.clip(alpha, 0.0, self.steepest * c)
        return out


@dataclass(frozen=True, slots=True)
class SquaredMargin(SmoothMargin):
    """max(0, -m)^2 / (2 curvature)."""

    curvature: float = 0.5

    steepest = np.inf
    piecewise_quadratic = True

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        short = np.maximum(0.0, -m)
        k = self.curvature
        return short**2 / (2.0 * k), -short / k, np.where(short > 0.0, 1.0 / k, 0.0)

    def dual(self, p: Array) -> Array:
        out: Array = -0.5 * self.curvature * p * p
        return out

    def weights_of_squares(self, c: Array) -> Array:
        """Weights of max(0, -m)^2."""
        out: Array = c / (2.0 * self.curvature)
        return out

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        loss, dual, support = smooth.squared_hinge(m, self.weights_of_squares(c), alpha, theta)
        return float(loss), float(dual), int(support)

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        slope, curvature = smooth.squared_hinge_slope(m, dm, self.weights_of_squares(c), k)
        return float(slope), float(curvature)

    def dual_sum(self, alpha: Array, c: Array) -> float:
        return -(float((alpha * alpha / self.weights_of_squares(c)).sum()) / 4.0)

    def size(self, alpha: Array, c: Array) -> float:
        return float(np.sum(alpha * alpha / self.weights_of_squares(c))) / 4.0


class LogisticMargin(SmoothMargin):
    """log(1 + exp(-m)); the conjugate part of the dual is the entropy of alpha / c."""

    def derivatives(self, m: Array) -> tuple[Array, Array, Array]:
        p = np.exp(-np.logaddexp(0.0, m))
        return np.logaddexp(0.0, -m), -p, p * (1.0 - p)

    def dual(self, p: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy: Array = -(np.where(p > 0.0, p * np.log(p), 0.0))
            entropy -= np.where(p < 1.0, (1.0 - p) * np.log1p(-p), 0.0)
        return entropy

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        loss, dual, support = smooth.logistic(m, c, alpha, theta)
        return float(loss), float(dual), int(support)

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        slope, curvature = smooth.logistic_slope(m, dm, c, k)
        return float(slope), float(curvature)

    def size(self, alpha: Array, c: Array) -> float:
        """See :class:`SmoothMargin`: each entropy is at most log 2 < 1."""
        return float(c.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Softmax(SmoothLoss):
    """log sum_k exp(m_k) - m_y for classes y; alpha = c (e_y - p), theta = c p, and the conjugate part of the
    dual is the entropy of p."""

    y: IntArray
    n_classes: int

    def dual_sum(self, alpha: Array, c: Array) -> float:
        """See :class:`SmoothLoss`: the probability of the true class is one minus those of the others."""
        p = alpha / -c[:, None]
        p[np.arange(len(c)), self.y] = 0.0
        others: Array = p.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy: Array = -np.where(p > 0.0, p * np.log(p), 0.0).sum(axis=1)
            entropy -= np.where(others < 1.0, (1.0 - others) * np.log1p(-others), 0.0)
        return float(c @ entropy)

    def fill(self, m: Array, c: Array, alpha: Array, theta: Array) -> tuple[float, float, int]:
        dual = softmax.cut(m, self.y, c, np.empty(self.n_classes), alpha)
        theta[:] = alpha
        theta[np.arange(len(c)), self.y] += c
        np.negative(alpha, out=alpha)
        loss = softmax.value(m, self.y, c, np.empty(self.n_classes))
        return float(loss), float(dual), len(c)

    def slope(self, m: Array, dm: Array, c: Array, k: float) -> tuple[float, float]:
        p, at = np.empty(self.n_classes), np.empty((1, self.n_classes))
        slope, curvature = softmax.line(m, dm, self.y, c, k, p, at)
        return -float(slope), float(curvature)

    def size(self, alpha: Array, c: Array) -> float:
        """See :class:`SmoothLoss`: each entropy is at most the logarithm of the number of classes."""
        return float(np.log(self.n_classes) * c.sum())

    def bend(self, theta: Array, c: Array, v: Array) -> Array:
        softmax.bend(theta, c, v)
        return v

    def feasible(self, alpha: Array, c: Array) -> Array:
        here = np.arange(len(alpha))
        out: Array = np.minimum(alpha, 0.0)
        out[here, self.y] = 0.0
        used = -out.sum(axis=1)
        out *= np.minimum(1.0, c / np.where(used > 0.0, used, 1.0))[:, None]
        out[here, self.y] = -out.sum(axis=1)
        return out

    def of_rows(self, index: IntArray) -> Softmax:
        return Softmax(self.y[index], self.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class NewtonTerms:
    """A smooth loss as a loss of margins, for losses without :class:`DualTerms`.

    Parameters
    ----------
    labels : array of shape (n,)
        Signs, -1 or +1; not used if there are several scores per sample.
    margin : SmoothMargin or SmoothLoss
        The loss as a function of y s.
    """

    labels: Array
    margin: SmoothLoss
