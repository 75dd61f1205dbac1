"""From relevances and groups to the inputs of ranking losses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, ndcg_score
from sklearn.utils.validation import column_or_1d

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.dataset import Dataset
from maxmargin.losses import NDCG, AveragePrecision, PairHinge, ScoreLoss, query_labels


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Samples in an order in which queries are contiguous, and their loss."""

    #: the indices of the samples in that order; None if it is the given one
    order: IntArray | None
    labels: Array
    weight: Array
    loss: ScoreLoss


def groups_of(X: Any, groups: Any, qid: Any) -> Any:
    """The given queries, under one of two names, or those of a data set. (A data frame's column of that name
    is a feature.) If both are given, ``groups`` are those of a splitter, and contain whole queries."""
    if groups is not None and qid is not None:
        parts = check_groups(groups, len(qid)), check_groups(qid, len(qid))
        if len(np.unique(np.column_stack(parts), axis=0)) > len(np.unique(parts[1])):
            raise ValueError(
                "groups and qid are given, but samples of one query (qid) are in several groups: a splitter "
                "would separate them. Pass one of both, or groups of whole queries."
            )
        groups = None
    groups = qid if groups is None else groups
    return X.group if groups is None and isinstance(X, Dataset) else groups


def reject_names(unknown: dict[str, Any]) -> None:
    """Raise TypeError for arguments of ``fit`` with other names, as other libraries use them."""
    for name in unknown:
        advice = {
            "query_id": "use qid, the query of each sample",
            "group": "use groups or qid, the query of each sample; for sizes of queries "
            "groups=np.repeat(np.arange(len(sizes)), sizes)",
        }.get(name)
        raise TypeError(
            f"RankSVM.fit() got an unexpected keyword argument {name!r}"
            + (f": {advice}." if advice else "")
        )


def check_groups(groups: Any, n: int) -> npt.NDArray[Any]:
    """The query of each sample, as the index of its name in sorted order."""
    if groups is None:
        return np.zeros(n, dtype=np.int64)
    groups = column_or_1d(np.asarray(groups))
    if len(groups) != n:
        sizes = groups.dtype.kind in "iu" and int(groups.sum()) == n
        advice = (
            " These look like sizes of queries: use np.repeat(np.arange(len(groups)), groups)."
            if sizes
            else ""
        )
        raise ValueError(
            f"groups has {len(groups)} entries, but X has {n} samples: pass one query for each.{advice}"
        )
    if groups.dtype.kind == "f" and not np.isfinite(groups).all():
        raise ValueError("groups contains NaN or infinite values: pass a query for every sample.")
    try:
        codes: npt.NDArray[Any] = np.unique(groups, return_inverse=True)[1]
    except TypeError:
        raise ValueError(
            "groups contains values of different types, or None: pass a query for every sample, all of them "
            "numbers or all of them strings."
        ) from None
    return codes


def contiguous_order(codes: npt.NDArray[Any]) -> IntArray | None:
    """An order of samples in which every query is contiguous; None if they are already."""
    runs = 1 + np.count_nonzero(np.diff(codes))
    if runs == codes.max() + 1:
        return None
    order: IntArray = np.argsort(codes, kind="stable")
    return order


def queries(estimator: Any, y: Any, levels: Any, groups: Any, weight: Array) -> Queries:
    """Validate parameters, relevances, groups and weights."""
    codes = check_groups(groups, len(y))
    loss, relevance = _loss(estimator, y, levels)
    order = contiguous_order(codes)
    if order is not None:
        codes, relevance, weight = codes[order], relevance[order], weight[order]
    labels = query_labels(relevance, codes)
    if estimator.loss != "pairs":
        _require_query_weights(weight, labels)
    elif estimator.query_weight == "equal":
        weight = weight / np.sqrt(_pair_sums(loss, labels, weight))
    if not loss.value(np.zeros(len(y)), labels, weight) > 0.0:
        raise ValueError(
            f"there is no pair to learn from (n_samples={len(y)}): in no query do two samples with a "
            "positive weight differ in y. Check y, groups and sample_weight."
        )
    return Queries(order, labels, weight, loss)


def _loss(estimator: Any, y: Any, levels: Any) -> tuple[ScoreLoss, Array]:
    """The loss and the relevances in the form it takes."""
    name = estimator.loss
    given = estimator.pair_weight
    words = isinstance(given, str)
    plain = words and given == "equal" and estimator.query_weight == "pairs"
    if name != "pairs" and not plain:
        raise ValueError(
            f"pair_weight and query_weight require loss='pairs', but loss is {name!r}."
        )
    if name != "ndcg" and estimator.k is not None:
        raise ValueError(f"k={estimator.k!r} requires loss='ndcg', but loss is {name!r}.")
    if name == "ndcg":
        if levels[0] < 0:
            raise ValueError(
                f"loss='ndcg' uses y as gains, which must not be negative, but y contains {levels[0]}."
            )
        return NDCG(estimator.k), y
    if name == "map":
        if len(levels) > 2:
            raise ValueError(
                f"loss='map' requires two levels of relevance, but y has {len(levels)}. Define what is "
                "relevant, for example by fit(X, y > 0, ...)."
            )
        return AveragePrecision(), (y == levels[-1]).astype(np.float64)
    if words:
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
            "sample_weight differs within a query. loss='map' and loss='ndcg' weight whole queries: give all "
            "samples of a query the same weight. (loss='pairs' accepts a weight per sample.)"
        )


def _pair_sums(loss: ScoreLoss, labels: Array, weight: Array) -> Array:
    """For each sample, the sum of the pair weights of its query (1 if there are none)."""
    zero = np.zeros(len(labels))
    out = np.ones(len(labels))
    bounds = loss.boundaries(labels)
    assert bounds is not None
    for lo, hi in pairwise(bounds.tolist()):
        out[lo:hi] = loss.value(zero[lo:hi], labels[lo:hi], weight[lo:hi]) or 1.0
    return out


def list_quality(
    scores: Array, y: Array, groups: Any, weight: Array, k: int | None, kind: str
) -> float:
    """Mean over queries of NDCG@k or of the average precision, as scikit-learn computes them.

    Queries whose samples all have the same y are skipped.
    """
    codes = check_groups(groups, len(y))
    order = np.argsort(codes, kind="stable")
    values, weights = [], []
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        some = part[weight[part] > 0.0]
        gains = y[some]
        if len(some) < 2 or (gains == gains[0]).all():
            continue
        values.append(
            ndcg_score(gains[None], scores[some][None], k=k)
            if kind == "ndcg"
            else average_precision_score(gains, scores[some])
        )
        weights.append(weight[some[0]])
    if not values:
        raise ValueError("there is no query to score: in no query do two samples differ in y.")
    return float(np.average(values, weights=weights))


def pair_accuracy(scores: Array, y: Array, groups: Any, weight: Array) -> float:
    """Mean over queries of the fraction of correctly ordered pairs; ties of scores count half."""
    codes = check_groups(groups, len(y))
    order = np.argsort(codes, kind="stable")
    labels, weight = query_labels(y[order], codes[order]), weight[order]
    turned = query_labels(-y[order], codes[order])
    # with integer scores, the hinge loss of a pair is positive if the less relevant score is not smaller
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
        raise ValueError("there is no pair to score: in no query do two samples differ in y.")
    return float(np.mean(shares))
