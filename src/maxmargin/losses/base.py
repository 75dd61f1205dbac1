"""Losses of scores: R(w) = L(X w). A new one is one function, scores to (offset, gradient).

Two methods suffice; the others have correct, slower defaults that a loss may override.
``maxmargin.testing.check_loss`` proves that they agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray

Labels = npt.NDArray[Any]


def difference(a: Any, b: Any) -> tuple[Array, Array]:
    """a - b and what the result lost by rounding."""
    s: Array = a - b
    t = s - a
    return s, (a - (s - t)) - (b + t)


class ScoreLoss(ABC):
    """A convex loss of scores that is never negative.

    Examples
    --------
    The squared hinge, from its value and its slope alone:

    >>> import numpy as np
    >>> from maxmargin.losses import ScoreLoss
    >>> class SquaredHinge(ScoreLoss):
    ...     def cut(self, scores, y, weight):
    ...         margin = np.maximum(0.0, 1.0 - y * scores)
    ...         gradient = -2.0 * weight * y * margin
    ...         return float(weight @ margin**2 - gradient @ scores), gradient
    >>> from maxmargin import minimize
    >>> from maxmargin.risks import ScoreRisk
    >>> X, y = np.array([[2.0], [-1.0]]), np.array([1.0, -1.0])
    >>> minimize(ScoreRisk(X, y, SquaredHinge()), C=1.0, solver=None).converged
    True
    """

    #: a sum over rows, so that shards can be evaluated on their own
    decomposable: ClassVar[bool] = True
    #: with all weights doubled the loss is 2 ** weight_degree times as large (2 for losses of pairs)
    weight_degree: ClassVar[int] = 1
    #: differentiable: Newton's method then needs few steps
    smooth: ClassVar[bool] = False
    #: takes weights of rows; a loss that does not is only called with ones
    weighted: ClassVar[bool] = True
    #: a slope costs as much as a cut, a sort or more: lines are searched with few of them
    dear: ClassVar[bool] = False

    def n_outputs(self) -> int | None:
        """Scores per row: None for one (then scores are 1-d), else the number of columns."""
        return None

    def check_labels(self, y: Labels) -> None:
        """Raise ValueError unless these are labels of this loss. Compiled losses must check: they
        use labels as they are."""
        return

    def boundaries(self, y: Labels) -> IntArray | None:
        """Rows at which the sum may be parted, ascending, 0 and ``len(y)`` among them; None for all.

        A loss over groups of rows (queries) parts between groups only; its labels then tell the groups,
        e.g. as a second column, for it is called with the labels of a part.
        """
        return None

    @abstractmethod
    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """(offset, g) with L(s') >= offset + <g, s'> for all s', with equality at ``scores``."""

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """L(scores)."""
        offset, gradient = self.cut(scores, y, weight)
        return offset + float(np.sum(gradient * scores))

    def change(self, value: float, first: float, second: float) -> float:
        """How much L, which is ``value``, may rise when the scores of row i move by at most d_i, where
        ``first`` = sum_i c_i d_i and ``second`` = sum_i c_i d_i^2. The value of a loss that does not say so
        is trusted as it was computed."""
        return 0.0

    def precise_value(
        self, high: Array, low: Array, off: Array, y: Labels, weight: Array
    ) -> float | None:
        """An upper bound of L(high + low) for scores of twice the precision, where those of row i may still
        be wrong by ``off[i]``; None where the loss cannot be computed so well."""
        return None

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """Derivatives of L(scores + t (other - scores)) at each t (right derivatives at kinks, if known)."""
        direction = other - scores
        return np.array(
            [float(np.sum(self.cut(scores + t * direction, y, weight)[1] * direction)) for t in ts]
        )

    def breakpoints(
        self,
        scores: Array,
        other: Array,
        y: Labels,
        weight: Array,
        lo: float,
        hi: float,
        limit: int,
    ) -> tuple[Array, Array] | None:
        """Kinks on the same line in (lo, hi) and the jumps of slope there; None if the loss is not
        piecewise linear or there are more than ``limit``."""
        return None
