"""What a loss declares about the dual of one row: numbers, because compiled loops take no functions.

With c = C s_i the weight of row i and s its score,

    one-sided   c phi(m - y s)        y a sign, m the margin that is asked for
    two-sided   c phi(|y - s| - m)    y a target, m the half width in which nothing is lost

    phi(z) = max of b z - kappa b^2 / 2  over  0 <= b <= top

``top`` is the steepest slope of phi and ``kappa`` its curvature in the dual:

    max(0, z)                                            top = 1         kappa = 0
    max(0, z)^2                                          top = infinity  kappa = 1/2
    z^2 / (2 d) for 0 <= z <= d, z - d / 2 above         top = 1         kappa = d

With a = c b the row's part of the dual is

    one-sided   d(a) = m a - kappa a^2 / (2 c)               0 <= a <= top c     w gets a y x
    two-sided   d(a) = y a - m |a| - kappa a^2 / (2 c)       |a| <= top c        w gets a x

A loss of several scores per row with the form of Crammer and Singer declares :class:`ClassTerms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray

Dot = Callable[[Any, Any], float]


class RowTerms(ABC):
    """The duals of some rows, whatever their form; ``c`` is C times the weights of these rows.

    A loss whose dual has neither form derives a class from this one and hands in its own epochs.
    """

    #: a class of epochs for coordinate ascent, such as
    #: :class:`maxmargin.duals.one_score.BinaryCoordinates`; None where the library has epochs for
    #: this form
    coordinates: Any = None
    #: kappa, zero where a dual is linear
    curvature: float = 0.0
    #: whether weights that must keep a sign can be trained by coordinate ascent
    keeps_signs: bool = False

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest margin, cost or half width that is asked for."""

    @abstractmethod
    def contribution(
        self, c: Array, alpha: Array, offset: Array | None
    ) -> tuple[Array, float, float]:
        """The coefficients of the rows in w, and the sums of d(alpha) + q alpha^2 / 2 and of q alpha^2 / 2,
        where q = kappa / c. ``offset`` is what is added to the scores."""

    @abstractmethod
    def caps(self, c: Array) -> Array:
        """The largest multipliers, infinite where there is no bound."""

    @abstractmethod
    def sizes(self, alpha: Array) -> Array:
        """How much of its cap each row uses."""

    @abstractmethod
    def into_box(self, c: Array, alpha: Array) -> Array:
        """The nearest feasible multipliers, or nearly so."""

    @abstractmethod
    def demands(self, alpha: Array, offset: Array | None) -> float:
        """The sum of the absolute values of all terms of the linear part."""

    @abstractmethod
    def linear_part(self, alpha: Array, offset: Array | None, dot: Dot) -> float:
        """The sum of d(alpha) + q alpha^2 / 2, with sums of products by ``dot``."""


@dataclass(frozen=True, slots=True, eq=False)
class DualTerms(RowTerms):
    """The duals of rows with one score each, in numbers.

    Parameters
    ----------
    labels : array of shape (n,)
        Signs, -1 or +1; with ``two_sided`` targets.
    margin : float or array of shape (n,), default 1.0
        The margin that is asked for, of all rows or of each; with ``two_sided`` the half width in which
        nothing is lost.
    two_sided : bool, default False
        Whether scores may be too large as well as too small.
    steepest : float, default 1.0
        The largest slope of the loss; infinity if there is none.
    curvature : float, default 0.0
        kappa in the mathematics at the top of this file: 0 for a loss that is piecewise linear, 1/2 for a
        square.

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

    keeps_signs = True

    def __post_init__(self) -> None:
        if not (self.steepest > 0.0 and 0.0 <= self.curvature < np.inf):
            raise ValueError(
                f"dual terms with steepest={self.steepest!r} and curvature={self.curvature!r}: the first "
                "must be positive, the second finite and not negative."
            )
        if self.steepest == np.inf and self.curvature == 0.0:
            raise ValueError(
                "dual terms with an infinite slope and no curvature are a hard constraint, which has no dual "
                "optimum: give curvature=, 1/2 for a square."
            )
        if np.ndim(self.labels) != 1 or np.ndim(self.margin) > 1:
            raise ValueError(
                f"dual terms have one label and one margin per row; labels have {np.ndim(self.labels)} "
                f"dimensions, margins {np.ndim(self.margin)}."
            )

    @property
    def reach(self) -> float:
        """See :class:`RowTerms`."""
        return float(np.abs(self.margin).max(initial=0.0))

    @property
    def capped(self) -> bool:
        """Whether multipliers are bounded."""
        return self.steepest < np.inf

    def loss(self, short: float) -> float:
        """phi: the loss of a row of weight 1 that falls short by this much."""
        if short <= 0.0:
            return 0.0
        if short > self.steepest * self.curvature:
            return self.steepest * short - 0.5 * self.curvature * self.steepest**2
        return short**2 / (2.0 * self.curvature)

    def slope(self, short: Any) -> Any:
        """The largest slope of phi for rows that fall short by no more than this."""
        return self.steepest if self.capped else short / self.curvature

    def shifted(self, offset: Array | None) -> DualTerms:
        """With an offset o of the score as a part of what is asked of <w, x>: y (o + <w, x>) >= m asks for
        the margin m - y o, and a target is less by o."""
        if offset is None:
            return self
        if self.two_sided:
            return replace(self, labels=self.labels - offset)
        return replace(self, margin=self.margin - self.labels * offset)

    def contribution(
        self, c: Array, alpha: Array, offset: Array | None
    ) -> tuple[Array, float, float]:
        """See :class:`RowTerms`."""
        own = self.shifted(offset)
        labels, margin = own.labels, own.margin
        linear = labels * alpha - margin * np.abs(alpha) if self.two_sided else margin * alpha
        curved = 0.0
        if self.curvature > 0.0:
            used = alpha != 0.0
            curved = float(np.sum(0.5 * self.curvature * alpha[used] ** 2 / c[used]))
        return (alpha.copy() if self.two_sided else labels * alpha), float(linear.sum()), curved

    def caps(self, c: Array) -> Array:
        """See :class:`RowTerms`."""
        top: Array = self.steepest * c if self.capped else np.where(c > 0.0, np.inf, 0.0)
        return top

    def sizes(self, alpha: Array) -> Array:
        """See :class:`RowTerms`."""
        return np.abs(alpha)

    def into_box(self, c: Array, alpha: Array) -> Array:
        """See :class:`RowTerms`."""
        top = self.caps(c)
        out: Array = np.clip(alpha, -top if self.two_sided else 0.0, top)
        return out

    def demands(self, alpha: Array, offset: Array | None) -> float:
        """See :class:`RowTerms`."""
        own = self.shifted(offset)
        asked: Any = np.abs(own.margin) + (0.0 if offset is None else np.abs(offset))
        if self.two_sided:
            asked = asked + np.abs(own.labels)
        return float(np.sum(np.abs(alpha) * asked))

    def linear_part(self, alpha: Array, offset: Array | None, dot: Dot) -> float:
        """See :class:`RowTerms`."""
        labels = self.labels
        margin = np.full(len(alpha), self.margin) if np.ndim(self.margin) == 0 else self.margin
        if self.two_sided:
            total = dot(alpha, labels) - dot(np.abs(alpha), margin)
            return total if offset is None else total - dot(alpha, offset)
        total = dot(alpha, margin)
        return total if offset is None else total - dot(labels * alpha, offset)


@dataclass(frozen=True, slots=True, eq=False)
class ClassTerms(RowTerms):
    """The duals of c max_k (cost[y, k] + s_k - s_y): a multiplier per row and class, and those of a row add
    up to c at most.

    Parameters
    ----------
    y : array of shape (n,)
        Numbers of the true classes.
    cost : array of shape (K, K)
        Costs of classes that are not the true one.
    """

    y: IntArray
    cost: Array

    @property
    def reach(self) -> float:
        """See :class:`RowTerms`."""
        return float(self.cost.max(initial=0.0))

    def contribution(
        self, c: Array, alpha: Array, offset: Array | None
    ) -> tuple[Array, float, float]:
        """See :class:`RowTerms`."""
        here = np.arange(len(alpha))
        coef = -alpha
        coef[here, self.y] = 0.0
        # what left the true class, not c_i less what stayed: a bound must not hang on rounding
        coef[here, self.y] = -coef.sum(axis=1)
        demands = self.cost[self.y]
        if offset is not None:
            demands = demands + offset - offset[here, self.y][:, None]
        return coef, float(np.vdot(alpha, demands)), 0.0

    def caps(self, c: Array) -> Array:
        """See :class:`RowTerms`."""
        return c

    def sizes(self, alpha: Array) -> Array:
        """See :class:`RowTerms`: what is off the true class."""
        out: Array = alpha.sum(axis=1) - alpha[np.arange(len(alpha)), self.y]
        return out

    def into_box(self, c: Array, alpha: Array) -> Array:
        """See :class:`RowTerms`."""
        alpha = np.maximum(alpha, 0.0)
        alpha[np.arange(len(alpha)), self.y] = 0.0
        total = alpha.sum(axis=1)
        alpha *= np.minimum(1.0, c / np.where(total > 0.0, total, 1.0))[:, None]
        return alpha

    def demands(self, alpha: Array, offset: Array | None) -> float:
        """See :class:`RowTerms`."""
        asked = self.cost[self.y]
        if offset is not None:
            own = np.abs(offset[np.arange(len(self.y)), self.y])
            asked = asked + np.abs(offset) + own[:, None]
        return float(np.vdot(np.abs(alpha), asked))

    def linear_part(self, alpha: Array, offset: Array | None, dot: Dot) -> float:
        """See :class:`RowTerms`."""
        total = dot(alpha, self.cost[self.y])
        if offset is not None:
            own = np.broadcast_to(offset[np.arange(len(self.y)), self.y][:, None], alpha.shape)
            total += dot(alpha, offset) - dot(alpha, own)
        return total
