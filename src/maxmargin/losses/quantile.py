"""The pinball loss of quantile regression."""

from __future__ import annotations

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels
from maxmargin.losses.dual_terms import DualTerms
from maxmargin.losses.epsilon_insensitive import EpsilonInsensitive


class Quantile(EpsilonInsensitive):
    """``sum_i c_i max(q (y_i - s_i), (1 - q) (s_i - y_i))`` with real targets y: the pinball loss.

    With the residual r = y - s it is ``|r| / 2 + (q - 1/2) r``, so slopes on a line follow from those of
    absolute errors. Values and cuts are those of absolute errors whose weights depend on the sign of r: a
    difference of two sums would lose digits if q is close to 0 or 1.

    Parameters
    ----------
    quantile : float, default 0.5
        Between 0 and 1: the fraction of samples whose targets should lie below their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import Quantile
    >>> Quantile(0.75).value(np.array([1.0, 3.0]), np.array([2.0, 1.0]), np.ones(2))
    1.25
    """

    def __init__(self, quantile: float = 0.5) -> None:
        super().__init__()
        self.quantile = float(quantile)
        if not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile must lie between 0 and 1; got {quantile!r}.")

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        super().check_labels(y)
        if np.ndim(y) != 1:
            raise ValueError("the quantile loss takes one target per sample, without half widths.")

    def dual_terms(self, y: Labels) -> DualTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        q = self.quantile
        return DualTerms(y, 0.0, two_sided=True, steepest=q, below=1.0 - q)

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        return super().cut(scores, y, self._sided(scores, y, weight))

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return super().value(scores, y, self._sided(scores, y, weight))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        tilt = (0.5 - self.quantile) * float(weight @ (other - scores))
        return tilt + super().slopes(scores, other, y, 0.5 * weight, ts)

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
        """See :meth:`ScoreLoss.breakpoints`."""
        return super().breakpoints(scores, other, y, 0.5 * weight, lo, hi, limit)

    def _sided(self, scores: Array, y: Labels, weight: Array) -> Array:
        out: Array = weight * np.where(scores < y, self.quantile, 1.0 - self.quantile)
        return out
