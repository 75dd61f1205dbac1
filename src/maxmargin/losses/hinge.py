"""Hinge losses: binary and Crammer-Singer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import hinge, multiclass
from maxmargin.core.checks import cost_matrix, signs
from maxmargin.core.vectors import Array
from maxmargin.losses.base import Labels, ScoreLoss, require_classes
from maxmargin.losses.dual_terms import ClassTerms, DualTerms


class CompiledLoss(ScoreLoss):
    """A loss by the compiled functions ``cut``, ``value``, ``slopes``, and, if it is not smooth, ``kinks`` of
    a module. They have one parameter: a margin, or costs."""

    _compiled: Any

    @abstractmethod
    def _arguments(self, y: Labels) -> tuple[Labels, Any]:
        """The labels for these functions, and the parameter."""

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        (y, parameter), gradient = self._arguments(y), np.empty_like(scores)
        return self._compiled.cut(scores, y, weight, parameter, gradient), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        y, parameter = self._arguments(y)
        return float(self._compiled.value(scores, y, weight, parameter))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        (y, parameter), out = self._arguments(y), np.zeros(len(ts))
        self._compiled.slopes(scores, other, y, weight, parameter, ts, out)
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
        (y, parameter), room = self._arguments(y), min(limit, scores.size)
        ts, jumps = np.empty(room), np.empty(room)
        count = self._compiled.kinks(scores, other, y, weight, parameter, lo, hi, ts, jumps)
        return None if count < 0 else (ts[:count].copy(), jumps[:count].copy())


class Hinge(CompiledLoss):
    """sum_i c_i max(0, margin - y_i s_i) with y in {-1, +1}.

    Parameters
    ----------
    margin : float, default 1.0
        Required margin. For per-sample margins m_i use ``margin=0`` and offsets -y_i m_i of the scores; this
        avoids adding small margins to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import Hinge
    >>> Hinge().value(np.array([0.5, 2.0]), np.array([1.0, 1.0]), np.ones(2))
    0.5
    """

    label_kind = "sign"
    _compiled = hinge

    def __init__(self, margin: float = 1.0) -> None:
        self.margin = float(margin)

    def dual_terms(self, y: Labels) -> DualTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        return DualTerms(y, self.margin)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        signs("the hinge loss", y)

    def _arguments(self, y: Labels) -> tuple[Labels, float]:
        return y, self.margin


class CrammerSinger(CompiledLoss):
    """sum_i c_i max_k (cost[y_i, k] + S_ik - S_iy_i) with y in 0..K-1.

    Parameters
    ----------
    cost : array of shape (K, K)
        ``cost[i, j]`` is the cost of predicting class j when the true class is i; nonnegative, with a zero
        diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import CrammerSinger
    >>> loss = CrammerSinger(1.0 - np.eye(3))
    >>> loss.value(np.array([[0.0, 0.5, -1.0]]), np.array([0]), np.ones(1))
    1.5
    """

    label_kind = "class"
    _compiled = multiclass

    def __init__(self, cost: npt.ArrayLike) -> None:
        self.cost = cost_matrix("cost", cost)

    def dual_terms(self, y: Labels) -> ClassTerms:
        """See :meth:`ScoreLoss.dual_terms`."""
        return ClassTerms(y, self.cost)

    def n_outputs(self) -> int | None:
        """One score per class."""
        return len(self.cost)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        require_classes(y, len(self.cost))

    def _arguments(self, y: Labels) -> tuple[Labels, Array]:
        return y, self.cost
