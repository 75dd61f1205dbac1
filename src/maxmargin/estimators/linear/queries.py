"""From relevances and groups to what the losses of rankings take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.dataset import Dataset
from maxmargin.losses import NDCG, AveragePrecision, PairHinge, ScoreLoss, query_labels

LOSSES = ("pairs", "map", "ndcg")
QUERY_WEIGHTS = ("pairs", "equal")


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Rows in an order in which queries stand together, and their loss."""

    #: the rows' numbers in that order; None if it is the given one
    order: IntArray | None
    labels: Array
    weight: Array
    loss: ScoreLoss


def groups_of(X: Any, groups: Any) -> Any:
    """The queries given, or those of a data set. A data frame's column of that name is a feature."""
    return X.group if groups is None and isinstance(X, Dataset) else groups


def check_groups(groups: Any, n: int) -> npt.NDArray[Any]:
    """One query's name per row, as numbers in the order of the names."""
    if groups is None:
        return np.zeros(n, dtype=np.int64)
    groups = column_or_1d(np.asarray(groups))
    if len(groups) != n:
        raise ValueError(
            f"groups has {len(groups)} entries, but X has {n} rows: one each is needed."
        )
    if groups.dtype.kind == "f" and not np.isfinite(groups).all():
        raise ValueError("groups contains NaN or infinite values: every row needs a query.")
    try:
        codes: npt.NDArray[Any] = np.unique(groups, return_inverse=True)[1]
    except TypeError:
        raise ValueError(
            "groups mixes names of different kinds, or has None among them: every row needs a query, and "
            "all must be numbers or all texts."
        ) from None
    return codes


def together(codes: npt.NDArray[Any]) -> IntArray | None:
    """An order of rows in which every query is one run; None if it is one already."""
    runs = 1 + np.count_nonzero(np.diff(codes))
    if runs == codes.max() + 1:
        return None
    order: IntArray = np.argsort(codes, kind="stable")
    return order


def queries(estimator: Any, y: Any, levels: Any, groups: Any, weight: Array) -> Queries:
    """Check parameters, relevances, groups and weights against each other."""
    codes = check_groups(groups, len(y))
    loss, relevance = _loss(estimator, y, levels)
    order = together(codes)
    if order is not None:
        codes, relevance, weight = codes[order], relevance[order], weight[order]
    labels = query_labels(relevance, codes)
    if estimator.loss != "pairs":
        _require_query_weights(weight, labels)
    elif estimator.query_weight == "equal":
        weight = weight / np.sqrt(_pair_sums(loss, labels, weight))
    if not loss.value(np.zeros(len(y)), labels, weight) > 0.0:
        raise ValueError(
            f"there is no pair to learn from (n_samples={len(y)}): in no query do two rows with a positive "
            "weight differ in y. Check y, groups and sample_weight."
        )
    return Queries(order, labels, weight, loss)


def _loss(estimator: Any, y: Any, levels: Any) -> tuple[ScoreLoss, Array]:
    """The loss and the relevances in the form it takes."""
    name = estimator.loss
    if name not in LOSSES:
        raise ValueError(f"loss={name!r} is not known; use 'pairs', 'map' or 'ndcg'.")
    if estimator.query_weight not in QUERY_WEIGHTS:
        raise ValueError(
            f"query_weight={estimator.query_weight!r} is not known; use 'pairs' or 'equal'."
        )
    given = estimator.pair_weight
    words = isinstance(given, str)
    plain = words and given == "equal" and estimator.query_weight == "pairs"
    if name != "pairs" and not plain:
        raise ValueError(f"pair_weight and query_weight need loss='pairs'; loss is {name!r}.")
    if name != "ndcg" and estimator.k is not None:
        raise ValueError(f"k={estimator.k!r} needs loss='ndcg'; loss is {name!r}.")
    if name == "ndcg":
        if levels[0] < 0:
            raise ValueError(
                f"loss='ndcg' takes y as gains: it must not be negative, as {levels[0]} is."
            )
        return NDCG(estimator.k), y
    if name == "map":
        if len(levels) > 2:
            raise ValueError(
                f"loss='map' needs two levels of relevance, but y has {len(levels)}. Say what is relevant, "
                "for example by fit(X, y > 0, ...)."
            )
        return AveragePrecision(), (y == levels[-1]).astype(np.float64)
    if words:
        if given not in ("equal", "difference"):
            raise ValueError(
                f"pair_weight={given!r} is not known; use 'equal', 'difference' or a matrix of levels."
            )
        return PairHinge(given), y
    matrix: Array = np.asarray(given, dtype=np.float64)
    if matrix.shape != (len(levels), len(levels)):
        raise ValueError(
            f"pair_weight has shape {matrix.shape}, but y has {len(levels)} levels: give a "
            f"({len(levels)}, {len(levels)}) matrix in the order of levels_."
        )
    return PairHinge(matrix), np.searchsorted(levels, y).astype(np.float64)


def _require_query_weights(weight: Array, labels: Array) -> None:
    changes = np.diff(weight) != 0.0
    if (changes & (np.diff(labels[:, 1]) == 0.0)).any():
        raise ValueError(
            "sample_weight differs within a query: loss='map' and loss='ndcg' weigh whole queries, so give "
            "all rows of a query the same weight. (loss='pairs' takes a weight per row.)"
        )


def _pair_sums(loss: ScoreLoss, labels: Array, weight: Array) -> Array:
    """Each row's sum of the pair weights of its query (1 where there is none)."""
    zero = np.zeros(len(labels))
    out = np.ones(len(labels))
    bounds = loss.boundaries(labels)
    assert bounds is not None
    for lo, hi in pairwise(bounds.tolist()):
        out[lo:hi] = loss.value(zero[lo:hi], labels[lo:hi], weight[lo:hi]) or 1.0
    return out


def pair_accuracy(scores: Array, y: Array, groups: Any, weight: Array) -> float:
    """Mean over queries of the share of pairs in the right order, ties in the score counting half."""
    codes = check_groups(groups, len(y))
    order = np.argsort(codes, kind="stable")
    labels, weight = query_labels(y[order], codes[order]), weight[order]
    turned = query_labels(-y[order], codes[order])
    # among whole numbers a pair hinge is violated if the less relevant row's is not smaller
    places = np.unique(scores[order], return_inverse=True)[1].astype(np.float64)
    hinge, shares = PairHinge(), []
    bounds = hinge.boundaries(labels)
    assert bounds is not None
    for lo, hi in pairwise(bounds.tolist()):
        part = slice(lo, hi)
        pairs = hinge.value(np.zeros(hi - lo), labels[part], weight[part])
        if pairs > 0.0:
            wrong = hinge.cut(places[part], labels[part], weight[part])[0]
            right = hinge.cut(places[part], turned[part], weight[part])[0]
            shares.append(0.5 + 0.5 * (right - wrong) / pairs)
    if not shares:
        raise ValueError("there is no pair to score: in no query do two rows differ in y.")
    return float(np.mean(shares))
