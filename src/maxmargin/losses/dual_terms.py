"""Dual of a loss, sample by sample, described by numbers because compiled loops cannot call Python functions.

With the weight c = C s_i of sample i and its score s, the loss is

    one-sided   c phi(m - y s)        y a sign, m the required margin
    two-sided   c phi(|y - s| - m)    y a target, m the half width of the insensitive zone

    phi(z) = max of b z - kappa b^2 / 2  over  0 <= b <= top

The slopes of a two-sided loss may be different where scores are too large (quantiles): then top is another
number there, ``below``, and kappa = 0.

``top`` is the largest slope of phi and ``kappa`` the curvature of its dual:

    max(0, z)                                            top = 1         kappa = 0
    max(0, z)^2                                          top = infinity  kappa = 1/2
    z^2 / (2 d) for 0 <= z <= d, z - d / 2 above         top = 1         kappa = d

With a = c b, sample i contributes to the dual and to w

    one-sided   d(a) = m a - kappa a^2 / (2 c)               0 <= a <= top c               a y x
    two-sided   d(a) = y a - m |a| - kappa a^2 / (2 c)       -below c <= a <= top c        a x

Losses of the Crammer-Singer form, with several scores per sample, return :class:`ClassTerms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray


class RowTerms(ABC):
    """Base class for the duals of a set of samples; ``c`` is C times their weights.

    If the dual of a loss has another form than :class:`DualTerms` or :class:`ClassTerms`, derive a class from
    this one and set ``coordinates``.
    """

    #: class that runs epochs of coordinate ascent, such as
    #: :class:`maxmargin.duals.one_score.BinaryCoordinates`; None to use the library's own
    coordinates: Any = None
    #: kappa; zero if the dual is linear
    curvature: float = 0.0
    #: whether coordinate ascent supports sign constraints on the weights
    keeps_signs: bool = False

    @property
    @abstractmethod
    def largest_demand(self) -> float:
        """The largest required margin, cost or half width."""

    @abstractmethod
    def contribution(
        self, c: Array, alpha: Array, offset: Array | None
    ) -> tuple[Array, float, float]:
        """Coefficients of the rows in w, the sum of d(alpha) + q alpha^2 / 2, and the sum of q alpha^2 / 2,
        where q = kappa / c. ``offset`` is added to the scores."""

    @abstractmethod
    def caps(self, c: Array) -> Array:
        """Upper bounds of the dual variables; infinite if unbounded."""

    @abstractmethod
    def sizes(self, alpha: Array) -> Array:
        """How much of its upper bound each sample uses."""

    @abstractmethod
    def into_box(self, c: Array, alpha: Array) -> Array:
        """Approximate projection of ``alpha`` onto the feasible set."""

    @abstractmethod
    def demands(self, alpha: Array, offset: Array | None) -> float:
        """Sum of the absolute values of all terms of the linear part."""


@dataclass(frozen=True, slots=True, eq=False)
class DualTerms(RowTerms):
    """Duals of samples with one score each.

    Parameters
    ----------
    labels : array of shape (n,)
        Signs, -1 or +1; targets if ``two_sided``.
    margin : float or array of shape (n,), default 1.0
        Required margin, common or per sample; if ``two_sided``, the half width of the insensitive zone.
    two_sided : bool, default False
        Whether scores can be too large as well as too small.
    steepest : float, default 1.0
        Largest slope of the loss; infinity if unbounded.
    curvature : float, default 0.0
        kappa in the module docstring: 0 for a piecewise linear loss, 1/2 for a squared loss.
    below : float, optional
        If ``two_sided``: largest slope of the loss where scores are too large; None: ``steepest``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import DualTerms
    >>> huber = DualTerms(np.array([1.0, -1.0]), curvature=0.5)
    >>> [huber.loss(short) for short in (-1.0, 0.25, 2.0)]
    [0.0, 0.0625, 1.75]
    """

    labels: Array
    margin: Array | float = 1.0
    two_sided: bool = False
    steepest: float = 1.0
    curvature: float = 0.0
    below: float | None = None

    keeps_signs = True

    def __post_init__(self) -> None:
        if not (self.steepest > 0.0 and 0.0 <= self.curvature < np.inf):
            raise ValueError(
                f"dual terms with steepest={self.steepest!r} and curvature={self.curvature!r}: steepest "
                "must be positive, and curvature finite and nonnegative."
            )
        if self.steepest == np.inf and self.curvature == 0.0:
            raise ValueError(
                "dual terms with an infinite slope and no curvature are a hard constraint, which has no dual "
                "optimum: set curvature= (1/2 for a squared loss)."
            )
        if self.below is not None and not (
            self.two_sided and self.curvature == 0.0 and 0.0 < self.below < np.inf
        ):
            raise ValueError(
                f"dual terms with below={self.below!r}: another slope where scores are too large must be "
                "positive and finite, of a two-sided loss without curvature."
            )
        if (
            isinstance(self.margin, float)
            and isinstance(self.labels, np.ndarray)
            and self.labels.ndim == 1
        ):
            return
        if np.ndim(self.labels) != 1 or np.ndim(self.margin) > 1:
            raise ValueError(
                f"dual terms have one label and one margin per sample; labels have {np.ndim(self.labels)} "
                f"dimensions, margins {np.ndim(self.margin)}."
            )

    @property
    def largest_demand(self) -> float:
        return float(np.abs(self.margin).max(initial=0.0))

    @property
    def capped(self) -> bool:
        """Whether the dual variables are bounded."""
        return self.steepest < np.inf

    def loss(self, short: float) -> float:
        """phi(short): the loss of a sample of weight 1 whose margin falls short by this amount."""
        if short <= 0.0:
            return 0.0
        if short > self.steepest * self.curvature:
            return self.steepest * short - 0.5 * self.curvature * self.steepest**2
        return short**2 / (2.0 * self.curvature)

    def slope(self, short: Any) -> Any:
        """The largest slope of phi for samples whose margin falls short by at most this amount."""
        return self.steepest if self.capped else short / self.curvature

    def shifted(self, offset: Array | None) -> DualTerms:
        """The same duals with an offset o of the scores moved into margins or targets: y (o + <w, x>) >= m
        requires the margin m - y o of <w, x>, and a target decreases by o."""
        if offset is None:
            return self
        if self.two_sided:
            return replace(self, labels=self.labels - offset)
        return replace(self, margin=self.margin - self.labels * offset)

    def contribution(
        self, c: Array, alpha: Array, offset: Array | None
    ) -> tuple[Array, float, float]:
        own = self.shifted(offset)
        labels, margin = own.labels, own.margin
        linear = labels * alpha - margin * np.abs(alpha) if self.two_sided else margin * alpha
        curved = 0.0
        if self.curvature > 0.0:
            used = alpha != 0.0
            curved = float(np.sum(0.5 * self.curvature * alpha[used] ** 2 / c[used]))
        return (alpha.copy() if self.two_sided else labels * alpha), float(linear.sum()), curved

    @property
    def skew(self) -> float:
        """The lower bound of a dual variable of a two-sided loss, as a multiple of the upper one."""
        return -1.0 if self.below is None else -self.below / self.steepest

    def caps(self, c: Array) -> Array:
        top: Array = self.steepest * c if self.capped else np.where(c > 0.0, np.inf, 0.0)
        return top

    def sizes(self, alpha: Array) -> Array:
        return np.where(alpha < 0.0, alpha / self.skew, alpha) if self.two_sided else np.abs(alpha)

    def into_box(self, c: Array, alpha: Array) -> Array:
        top = self.caps(c)
        out: Array = np.clip(alpha, self.skew * top if self.two_sided else 0.0, top)
        return out

    def demands(self, alpha: Array, offset: Array | None) -> float:
        own = self.shifted(offset)
        asked: Any = np.abs(own.margin) + (0.0 if offset is None else np.abs(offset))
        if self.two_sided:
            asked = asked + np.abs(own.labels)
        return float(np.sum(np.abs(alpha) * asked))


@dataclass(frozen=True, slots=True, eq=False)
class ClassTerms(RowTerms):
    """Duals of c max_k (cost[y, k] + s_k - s_y), with one dual variable per sample and class. The dual
    variables of a sample sum to at most c.

    Parameters
    ----------
    y : array of shape (n,)
        Indices of the true classes.
    cost : array of shape (K, K)
        ``cost[i, j]`` is the cost of predicting class j when the true class is i.
    """

    y: IntArray
    cost: Array

    @property
    def largest_demand(self) -> float:
        return float(self.cost.max(initial=0.0))

    def contribution(
        self, c: Array, alpha: Array, offset: Array | None
    ) -> tuple[Array, float, float]:
        here = np.arange(len(alpha))
        coef = -alpha
        coef[here, self.y] = 0.0
        # Sum the other classes instead of subtracting from c_i: the bound must hold despite rounding.
        coef[here, self.y] = -coef.sum(axis=1)
        demands = self.cost[self.y]
        if offset is not None:
            demands = demands + offset - offset[here, self.y][:, None]
        return coef, float(np.vdot(alpha, demands)), 0.0

    def caps(self, c: Array) -> Array:
        return c

    def sizes(self, alpha: Array) -> Array:
        """See :class:`RowTerms`: the sum over the wrong classes."""
        out: Array = alpha.sum(axis=1) - alpha[np.arange(len(alpha)), self.y]
        return out

    def into_box(self, c: Array, alpha: Array) -> Array:
        alpha = np.maximum(alpha, 0.0)
        alpha[np.arange(len(alpha)), self.y] = 0.0
        total = alpha.sum(axis=1)
        alpha *= np.minimum(1.0, c / np.where(total > 0.0, total, 1.0))[:, None]
        return alpha

    def demands(self, alpha: Array, offset: Array | None) -> float:
        asked = self.cost[self.y]
        if offset is not None:
            own = np.abs(offset[np.arange(len(self.y)), self.y])
            asked = asked + np.abs(offset) + own[:, None]
        return float(np.vdot(np.abs(alpha), asked))
