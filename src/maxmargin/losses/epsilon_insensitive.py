"""Epsilon-insensitive losses for support vector regression."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import epsilon_insensitive
from maxmargin.core.checks import number
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss
from maxmargin.losses.dual_terms import DualTerms


class EpsilonInsensitive(ScoreLoss):
    """``sum_i c_i max(0, |s_i - y_i| - epsilon)`` with real targets y.

    Parameters
    ----------
    epsilon : float, default 0.0
        Half width of the insensitive zone. If targets have shape (n, 2), the second column holds a half width
        for every sample, and this parameter is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import EpsilonInsensitive
    >>> loss = EpsilonInsensitive(0.5)
    >>> loss.value(np.array([1.0, 3.0]), np.array([1.2, 1.0]), np.ones(2))
    1.5
    >>> loss.value(np.array([1.0, 3.0]), np.array([[1.2, 0.0], [1.0, 1.5]]), np.ones(2))
    0.7
    """

    label_kind = "target"

    def __init__(self, epsilon: float = 0.0) -> None:
        self.epsilon = number("epsilon", epsilon)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        y = np.asarray(y)
        if y.dtype != np.float64 or y.shape[1:] not in ((), (2,)):
            raise ValueError(
                f"targets must be float64 arrays of shape (n,), or (n, 2) with half widths in the second "
                f"column; got {y.dtype} of shape {y.shape}."
            )
        if not np.isfinite(y).all() or (y.ndim == 2 and (y[:, 1] < 0.0).any()):
            raise ValueError("targets must be finite and half widths nonnegative.")

    def targets(self, y: Labels) -> tuple[Array, Array | None]:
        """The targets, and the half width of each sample or None."""
        if y.ndim == 1:
            return y, None
        return np.ascontiguousarray(y[:, 0]), np.ascontiguousarray(y[:, 1])

    def dual_terms(self, y: Labels) -> DualTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        target, width = self.targets(y)
        shape = {"steepest": np.inf, "curvature": 0.5} if self.smooth else {}
        return DualTerms(target, self.epsilon if width is None else width, two_sided=True, **shape)

    def _rows(self, y: Labels) -> tuple[Array, Array]:
        target, width = self.targets(y)
        return target, np.full(len(y), self.epsilon) if width is None else width

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        gradient = np.empty_like(scores)
        return epsilon_insensitive.cut(
            scores, *self._rows(y), weight, self.smooth, gradient
        ), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return float(epsilon_insensitive.value(scores, *self._rows(y), weight, self.smooth))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        out = np.zeros(len(ts))
        kernel = epsilon_insensitive.squared_slopes if self.smooth else epsilon_insensitive.slopes
        kernel(scores, other, *self._rows(y), weight, ts, out)
        return out

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
        if self.smooth:
            return None
        room = min(limit, 2 * len(scores))
        ts, jumps = np.empty(room), np.empty(room)
        count = epsilon_insensitive.kinks(scores, other, *self._rows(y), weight, lo, hi, ts, jumps)
        return None if count < 0 else (ts[:count].copy(), jumps[:count].copy())


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """``sum_i c_i max(0, |s_i - y_i| - epsilon)^2`` with real targets y; least squares if epsilon = 0.

    Parameters
    ----------
    epsilon : float, default 0.0
        As in :class:`EpsilonInsensitive`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import SquaredEpsilonInsensitive
    >>> SquaredEpsilonInsensitive(0.5).value(np.array([1.0, 3.0]), np.array([1.2, 1.0]), np.ones(2))
    2.25
    """

    smooth = True
