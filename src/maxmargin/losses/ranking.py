"""Ranking losses: sums over queries, each a group of adjacent samples.

Labels have three columns, created by :func:`query_labels`: the relevance of a sample, the index of its query,
and the rank of its relevance within the query.

References:

- Y. Yue, T. Finley, F. Radlinski and T. Joachims, "A support vector method for optimizing average
  precision", SIGIR 2007, https://doi.org/10.1145/1277741.1277790
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import listwise, pairs
from maxmargin.core.checks import integer, nonnegative, one_of
from maxmargin.core.vectors import Array, IntArray
from maxmargin.losses.base import Labels, ScoreLoss

_NOTHING: Array = np.empty(0)
_KINDS = {"equal": pairs.EQUAL, "difference": pairs.DIFFERENCE}


def query_labels(relevance: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Array:
    """Create labels for ranking losses.

    Parameters
    ----------
    relevance : array of shape (n,)
        Relevance of each sample; larger is better.
    groups : array of shape (n,), optional
        Query of each sample; samples of a query must be adjacent. One query by default.

    Returns
    -------
    array of shape (n, 3)
        Relevance, index of the query, rank of the relevance within the query (from 0).

    Examples
    --------
    >>> from maxmargin.losses import query_labels
    >>> query_labels([0, 3, 3, 1, 0], ["b", "b", "b", "a", "a"])
    array([[0., 0., 0.],
           [3., 0., 1.],
           [3., 0., 1.],
           [1., 1., 1.],
           [0., 1., 0.]])
    """
    y: Array = np.asarray(relevance, dtype=np.float64)
    given = np.zeros(len(y)) if groups is None else np.asarray(groups)
    if y.ndim != 1 or given.shape != y.shape:
        raise ValueError(
            f"relevance has shape {y.shape} and groups {given.shape}: one number per sample is required."
        )
    new = np.ones(len(y), dtype=bool)
    new[1:] = given[1:] != given[:-1]
    if new.sum() != len(np.unique(given)):
        raise ValueError(
            "samples of a query are not adjacent: sort X, relevance and groups by query first."
        )
    number = np.cumsum(new) - 1
    order = np.lexsort((y, number))
    step = np.zeros(len(y), dtype=np.int64)  # 1 where the relevance level increases
    step[1:] = (np.diff(y[order]) > 0.0) & (np.diff(number[order]) == 0)
    rank = np.cumsum(step)
    rank -= rank[new][number[order]]  # sorting keeps queries in place
    out = np.empty((len(y), 3))
    out[:, 0], out[:, 1] = y, number
    out[order, 2] = rank
    return out


class _QueryLoss(ScoreLoss):
    """Base class of ranking losses."""

    #: each slope sorts the queries
    expensive_slopes: ClassVar[bool] = True

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        good = y.ndim == 2 and y.shape[1] == 3 and y.dtype == np.float64
        if not good or not np.array_equal(query_labels(y[:, 0], y[:, 1])[:, 2], y[:, 2]):
            raise ValueError(
                f"labels of {type(self).__name__} must come from losses.query_labels(relevance, groups)."
            )

    def boundaries(self, y: Labels) -> IntArray | None:
        """Boundaries between queries."""
        inner = np.flatnonzero(np.diff(y[:, 1])) + 1
        out: IntArray = np.concatenate([[0], inner, [len(y)]]).astype(np.int64)
        return out


class PairHinge(_QueryLoss):
    """sum over pairs of samples of the same query with y_i > y_j of c_ij max(0, 1 - (s_i - s_j)).

    c_ij is the product of the two sample weights and the importance of the pair; a sample of weight 2 counts
    like two equal samples. Sums over pairs are computed by sorting, in O(m log m) for a query of m samples
    and any number of relevance levels.

    Parameters
    ----------
    importance : {"equal", "difference"} or array of shape (K, K), default "equal"
        Importance of a pair: 1, the difference of the relevances, or entry [y_i, y_j] of a nonnegative
        matrix. With a matrix, relevances must be integers 0 .. K-1; only entries below the diagonal are used.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import PairHinge, query_labels
    >>> labels = query_labels([2, 1, 0])
    >>> PairHinge().value(np.array([1.0, 0.5, 0.0]), labels, np.ones(3))
    1.0
    >>> PairHinge("difference").value(np.zeros(3), labels, np.ones(3))
    4.0
    """

    weight_degree: ClassVar[int] = 2
    exact_demands: ClassVar[bool] = True

    def __init__(self, importance: Any = "equal") -> None:
        words = isinstance(importance, str)
        if words:
            one_of("importance", importance, _KINDS)
        self._kind: int = _KINDS[importance] if words else pairs.MATRIX
        self._matrix: Array = np.zeros((0, 0)) if words else _levels_matrix(importance)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        super().check_labels(y)
        size = len(self._matrix)
        if self._kind == pairs.MATRIX and not np.isin(y[:, 0], np.arange(size)).all():
            raise ValueError(
                f"with a matrix of shape ({size}, {size}), relevances must be integers 0 .. {size - 1}."
            )

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        gradient = np.empty_like(scores)
        _, offset = pairs.cut(scores, y, weight, self._kind, self._matrix, gradient)
        return float(offset), gradient

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """See :meth:`ScoreLoss.value`."""
        return float(pairs.cut(scores, y, weight, self._kind, self._matrix, _NOTHING)[0])

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        out = np.zeros(len(ts))
        pairs.slopes(scores, other, y, weight, self._kind, self._matrix, ts, out)
        return out


def _levels_matrix(importance: Any) -> Array:
    matrix: Array = np.ascontiguousarray(importance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(f"importance must be a square matrix; its shape is {matrix.shape}.")
    below = matrix[np.tril_indices(len(matrix), -1)]
    nonnegative("importance below the diagonal", below)
    return matrix


class _ListLoss(_QueryLoss):
    """Base class of listwise losses. The weight of a query is the mean weight of its samples."""

    _kind: ClassVar[int]
    #: number of top positions that count
    _k: int = np.iinfo(np.int64).max

    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """See :meth:`ScoreLoss.cut`."""
        gradient = np.empty_like(scores)
        return float(listwise.cut(scores, y, weight, self._kind, self._k, gradient)), gradient

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """See :meth:`ScoreLoss.slopes`."""
        out = np.zeros(len(ts))
        listwise.slopes(scores, other, y, weight, self._kind, self._k, ts, out)
        return out


class AveragePrecision(_ListLoss):
    """sum over queries of max over rankings of 1 - AP(ranking) + <s, a(ranking) - a(truth)>; relevances are 0
    or 1.

    This uses the joint feature map of Yue, Finley, Radlinski and Joachims (2007): a(ranking) is the sum, over
    pairs of a relevant sample i and an irrelevant sample j of the query, of ±(e_i - e_j) / (R N), with + if i
    is ranked above j. R and N are the numbers of relevant and irrelevant samples. Their algorithm finds the
    maximum exactly in O(R N). The loss of a query is at least 1 - AP of the ranking by score.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import AveragePrecision, query_labels
    >>> labels = query_labels([1, 0, 0])
    >>> round(AveragePrecision().value(np.array([0.0, 1.0, -1.0]), labels, np.ones(3)), 4)
    1.5
    """

    _kind = listwise.PRECISION

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        super().check_labels(y)
        if not ((y[:, 0] == 0.0) | (y[:, 0] == 1.0)).all():
            raise ValueError("relevances must be 0 or 1 for average precision.")


class NDCG(_ListLoss):
    """sum over queries of max over rankings of 1 - NDCG(ranking) + <s, a(ranking) - a(truth)>; relevances are
    gains.

    This uses the joint feature map of Chapelle, Le and Smola with the discounts of NDCG: a(ranking) is the
    sum over positions p of D_p e_ranking(p), D_p = 1 / log2(1 + p). By the rearrangement inequality, sorting
    by s - gain / IDCG in descending order gives the exact maximum. a(truth) is the mean over all ideal
    rankings, so that samples of equal gain are treated alike. The loss of a query is at least 1 - NDCG of the
    ranking by score. A query whose samples all have the same gain has loss zero.

    Parameters
    ----------
    k : int, optional
        Number of top positions that count; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import NDCG, query_labels
    >>> labels = query_labels([1, 0])
    >>> round(NDCG().value(np.array([0.0, 0.0]), labels, np.ones(2)), 4)
    0.3691
    """

    _kind = listwise.GAIN

    def __init__(self, k: int | None = None) -> None:
        if k is not None:
            self._k = integer("k", k)

    def check_labels(self, y: Labels) -> None:
        """See :meth:`ScoreLoss.check_labels`."""
        super().check_labels(y)
        nonnegative("gains", y[:, 0])
