"""Structured hinge loss over listed candidates: groups of rows, one of which is the true output.

    L(s)  =  sum_g c_g max_j in g [ l_j + rho_j (s_j - s_truth(g)) ],     rho_j = 1 or l_j

Scores are linear in w, so the line search is exact: it computes the upper envelope of the lines of each
group. This is Franc and Sonnenburg's multiclass line search, for arbitrary candidate features and also for
slack rescaling.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import envelope
from maxmargin.core.checks import nonnegative, one_of
from maxmargin.core.vectors import Array, IntArray
from maxmargin.losses.base import Labels, ScoreLoss


class CandidateHinge(ScoreLoss):
    """Structured hinge loss over listed candidates, one row each; see :class:`maxmargin.tasks.Enumerable`.

    Labels have three columns: the group (rows of a group are adjacent), the loss of the candidate, and
    whether it is the true output of its group. :meth:`labels` creates them. The weight of a group is the
    weight of its true row.

    Parameters
    ----------
    rescaling : {"margin", "slack"}, default "margin"
        How the task loss enters the hinge: margin or slack rescaling.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.losses import CandidateHinge
    >>> from maxmargin.risks import ScoreRisk
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> y = CandidateHinge.labels(counts=[3, 2], truth=[0, 1])
    >>> y[:, 1]
    array([0., 1., 1., 1., 0.])
    >>> result = minimize(ScoreRisk(X, y, CandidateHinge()), C=1.0)
    >>> result.certificate, result.converged
    ('exact', True)
    """

    def __init__(self, rescaling: Literal["margin", "slack"] = "margin") -> None:
        self.rescaling = one_of("rescaling", rescaling, ("margin", "slack"))

    @staticmethod
    def labels(
        counts: npt.ArrayLike, truth: npt.ArrayLike, losses: npt.ArrayLike | None = None
    ) -> Array:
        """Create labels for stacked candidates.

        Parameters
        ----------
        counts : (n,) ints
            Number of candidates in each group.
        truth : (n,) ints
            Index of the true candidate within each group.
        losses : array, optional
            Loss of each candidate; by default 1 for each wrong candidate.
        """
        sizes = np.asarray(counts, dtype=np.int64)
        right = np.cumsum(sizes) - sizes + np.asarray(truth, dtype=np.int64)
        out = np.zeros((int(sizes.sum()), 3))
        out[:, 0] = np.repeat(np.arange(len(sizes)), sizes)
        out[right, 2] = 1.0
        out[:, 1] = 1.0 - out[:, 2] if losses is None else losses
        return out

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        if y.ndim != 2 or y.shape[1] != 3:
            raise ValueError(
                f"labels must have three columns (see CandidateHinge.labels); got shape {y.shape}."
            )
        if (np.diff(y[:, 0]) < 0).any():
            raise ValueError(
                "rows of a group must be adjacent and groups must be in ascending order."
            )
        starts = _starts(y)
        if len(y) and (np.add.reduceat(y[:, 2], starts[:-1]) != 1.0).any():
            raise ValueError("every group must have exactly one true row.")
        if (nonnegative("losses", y[:, 1]) * y[:, 2]).any():
            raise ValueError("losses must be zero for true rows.")

    def boundaries(self, y: Labels) -> IntArray | None:
        """Boundaries between groups."""
        return _starts(y)

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        starts, right = _starts(y), np.flatnonzero(y[:, 2])
        chosen = np.empty(len(right), dtype=np.int64)
        envelope.ragged_leaders(self._values(scores, y, starts, right), starts, chosen)
        wrong = chosen >= 0
        rows, truths = chosen[wrong], right[wrong]
        pull = weight[truths] * (y[rows, 1] if self.rescaling == "slack" else 1.0)
        gradient: Array = np.zeros(len(scores))
        gradient[rows] = pull
        gradient[truths] = -pull
        return float(np.sum(weight[truths] * y[rows, 1])), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        starts, right = _starts(y), np.flatnonzero(y[:, 2])
        if len(right) == 0:
            return 0.0
        worst = np.maximum.reduceat(self._values(scores, y, starts, right), starts[:-1])
        return float(weight[right] @ np.maximum(worst, 0.0))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        starts, right = _starts(y), np.flatnonzero(y[:, 2])
        a, b = (self._values(s, y, starts, right) for s in (scores, other))
        out = np.zeros(len(ts))
        envelope.ragged_slopes(a, b, starts, weight[right], np.ascontiguousarray(ts), out)
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
        starts, right = _starts(y), np.flatnonzero(y[:, 2])
        a, b = (self._values(s, y, starts, right) for s in (scores, other))
        room = min(limit, len(scores))
        ts, jumps = np.empty(room), np.empty(room)
        count = envelope.ragged_kinks(a, b, starts, weight[right], lo, hi, ts, jumps)
        return None if count < 0 else (ts[:count].copy(), jumps[:count].copy())

    def _values(self, scores: Array, y: Labels, starts: IntArray, right: IntArray) -> Array:
        """l_j + rho_j (s_j - s_truth): linear in the scores, and exactly 0 for true rows."""
        above = scores - np.repeat(scores[right], np.diff(starts))
        values: Array = y[:, 1] + (y[:, 1] * above if self.rescaling == "slack" else above)
        return values


def _starts(y: Labels) -> IntArray:
    """First row of each group, followed by the number of rows."""
    if len(y) == 0:
        return np.zeros(1, dtype=np.int64)
    inner = np.flatnonzero(np.diff(y[:, 0])) + 1
    return np.concatenate([[0], inner, [len(y)]]).astype(np.int64)
