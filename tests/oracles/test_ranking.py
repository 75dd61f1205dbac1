"""Losses of rankings against all pairs and all permutations, with ties in scores and relevances."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import average_precision_score, ndcg_score

from maxmargin.estimators.linear.queries import pair_accuracy
from maxmargin.losses import NDCG, AveragePrecision, PairHinge, query_labels

KINDS = ["equal", "difference", "matrix"]


def draw_scores(rng, n):
    """Whole and half numbers (ties, and pairs exactly at the margin), or normal ones of several sizes."""
    if rng.random() < 0.5:
        return rng.integers(-2, 3, n) * rng.choice([0.5, 1.0])
    return rng.normal(size=n) * rng.choice([0.1, 0.5, 3.0])


# -- pairs -----------------------------------------------------------------------------------------


def draw_pairs(kind, seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    groups = np.sort(rng.integers(0, 4, n))
    relevance = rng.integers(0, K, n).astype(float)
    if kind != "matrix" and rng.random() < 0.2:
        relevance = rng.normal(size=n)  # as many levels as rows
    matrix = rng.uniform(0.0, 2.0, (K, K))
    importance = {
        "equal": lambda i, j: 1.0,
        "difference": lambda i, j: relevance[i] - relevance[j],
        "matrix": lambda i, j: matrix[int(relevance[i]), int(relevance[j])],
    }[kind]
    loss = PairHinge(matrix if kind == "matrix" else kind)
    weight = rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.9)
    labels = query_labels(relevance, groups)
    loss.check_labels(labels)
    return loss, labels, importance, weight, draw_scores(rng, n)


def all_pairs(labels, importance, weight, scores):
    """Value, offset and gradient, pair by pair."""
    value, offset, gradient = 0.0, 0.0, np.zeros(len(scores))
    for i, j in itertools.permutations(range(len(scores)), 2):
        if labels[i, 1] == labels[j, 1] and labels[i, 0] > labels[j, 0]:
            c = weight[i] * weight[j] * importance(i, j)
            value += c * max(0.0, 1.0 - (scores[i] - scores[j]))
            if scores[j] > scores[i] - 1.0:
                offset += c
                gradient[i] -= c
                gradient[j] += c
    return value, offset, gradient


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_counted_right(kind):
    for seed in range(700):
        loss, labels, importance, weight, scores = draw_pairs(kind, seed)
        value, offset, gradient = all_pairs(labels, importance, weight, scores)
        found, g = loss.cut(scores, labels, weight)
        assert found == pytest.approx(offset, rel=1e-12, abs=1e-12)
        assert g == pytest.approx(gradient, rel=1e-12, abs=1e-12)
        assert loss.value(scores, labels, weight) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_pairs_of_long_queries():
    """Long enough that runs are merged, not only inserted."""
    rng = np.random.default_rng(0)
    for n in (100, 331, 1000):
        labels = query_labels(rng.integers(0, 40, n), np.arange(n) * 2 // n)
        scores = np.round(rng.normal(size=n), 2)
        s_i, s_j = scores[:, None], scores[None]
        above = (labels[:, None, 0] > labels[None, :, 0]) & (
            labels[:, None, 1] == labels[None, :, 1]
        )
        value = (above * np.maximum(0.0, 1.0 - (s_i - s_j))).sum()
        assert PairHinge().value(scores, labels, np.ones(n)) == pytest.approx(value, rel=1e-12)
        found, g = PairHinge().cut(scores, labels, np.ones(n))
        hit = above & (s_j > s_i - 1.0)
        assert found == hit.sum()
        np.testing.assert_array_equal(g, hit.sum(axis=0) - hit.sum(axis=1))


def test_what_all_scores_of_a_query_share_costs_no_digits():
    rng = np.random.default_rng(1)
    labels, scores = query_labels(rng.integers(0, 3, 50)), rng.normal(size=50).round(3)
    near = PairHinge().value(scores, labels, np.ones(50))
    assert PairHinge().value(scores + 2.0**30, labels, np.ones(50)) == pytest.approx(near, rel=1e-6)


@given(seed=st.integers(0, 10**6))
def test_pair_accuracy_is_kendalls(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    y, groups = rng.integers(0, 4, n).astype(float), rng.integers(0, 4, n)
    scores = draw_scores(rng, n)
    shares = []
    for q in np.unique(groups):
        inside = np.flatnonzero(groups == q)
        signs = [
            np.sign(scores[i] - scores[j])
            for i, j in itertools.permutations(inside, 2)
            if y[i] > y[j]
        ]
        if signs:
            shares.append(0.5 + 0.5 * np.mean(signs))
    if not shares:
        with pytest.raises(ValueError, match="no pair to score"):
            pair_accuracy(scores, y, groups, np.ones(n))
    else:
        assert pair_accuracy(scores, y, groups, np.ones(n)) == pytest.approx(np.mean(shares))


# -- whole rankings --------------------------------------------------------------------------------


def precision(relevant):
    ranks = np.flatnonzero(relevant) + 1.0
    return np.mean(np.arange(1, len(ranks) + 1) / ranks)


def pair_features(ranking, relevance):
    """Yue and others' a(ranking), pair by pair."""
    m, a = len(ranking), np.zeros(len(ranking))
    place = np.empty(m, dtype=int)
    place[list(ranking)] = np.arange(m)
    for i, j in itertools.permutations(range(m), 2):
        if relevance[i] > relevance[j]:
            sign = 1.0 if place[i] < place[j] else -1.0
            a[i] += sign
            a[j] -= sign
    return a / (relevance.sum() * (m - relevance.sum()))


def best_precision(scores, relevance):
    if len(set(relevance)) < 2:
        return 0.0
    truth = pair_features(np.argsort(-relevance), relevance)
    return max(
        1.0
        - precision(relevance[list(ranking)])
        + scores @ (pair_features(ranking, relevance) - truth)
        for ranking in itertools.permutations(range(len(scores)))
    )


def best_gain(scores, gains, k):
    m = len(scores)
    if len(set(gains)) < 2:
        return 0.0
    discounts = np.array([1.0 / np.log2(p + 2) if p < k else 0.0 for p in range(m)])
    ideal = np.sort(gains)[::-1] @ discounts
    rankings = [list(ranking) for ranking in itertools.permutations(range(m))]
    truths = [r for r in rankings if (np.diff(gains[r]) <= 0).all()]
    truth = np.zeros(m)
    for r in truths:
        truth[r] += discounts / len(truths)
    return max(
        1.0 - gains[r] @ discounts / ideal + scores[r] @ discounts - scores @ truth
        for r in rankings
    )


@pytest.mark.parametrize(
    ("loss", "levels", "best"),
    [
        (AveragePrecision(), 2, best_precision),
        (NDCG(), 4, lambda scores, gains: best_gain(scores, gains, len(gains))),
        (NDCG(2), 4, lambda scores, gains: best_gain(scores, gains, 2)),
    ],
    ids=["average precision", "ndcg", "ndcg@2"],
)
def test_losses_of_lists_against_all_permutations(loss, levels, best):
    rng = np.random.default_rng(0)
    for trial in range(1000):
        m = int(rng.integers(1, 7 if trial % 20 == 0 else 6))
        gains, scores = rng.integers(0, levels, m).astype(float), draw_scores(rng, m)
        found = loss.value(scores, query_labels(gains), np.ones(m))
        assert found == pytest.approx(best(scores, gains), abs=1e-10)


@given(seed=st.integers(0, 10**6), k=st.sampled_from([None, 5]))
def test_ndcg_is_a_linear_assignment(seed, k):
    """Longer queries: the same maximum over (row, position) pairs, by SciPy's solver."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 60))
    gains, scores = 2.0 ** rng.integers(0, 5, m) - 1.0, draw_scores(rng, m)
    if len(set(gains)) < 2:
        return
    discounts = 1.0 / np.log2(np.arange(2, m + 2))
    discounts[k or m :] = 0.0
    order = np.argsort(-gains)
    ideal = gains[order] @ discounts
    truth = np.zeros(m)
    for gain in set(gains):
        truth[gains == gain] = discounts[gains[order] == gain].mean()
    profit = np.outer(scores, discounts) - np.outer(gains, discounts) / ideal
    rows, places = linear_sum_assignment(profit, maximize=True)
    best = 1.0 + profit[rows, places].sum() - scores @ truth
    found = NDCG(k).value(scores, query_labels(gains), np.ones(m))
    assert found == pytest.approx(best, abs=1e-9)


@given(seed=st.integers(0, 10**6))
def test_the_losses_bound_the_measures(seed):
    """A query's loss is at least one minus scikit-learn's measure of the scores."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 40))
    scores, relevant = rng.normal(size=m), rng.integers(0, 2, m).astype(float)
    relevant[0], relevant[1] = 0.0, 1.0
    gains = rng.integers(0, 5, m).astype(float)
    gains[0], gains[1] = 0.0, 1.0
    one = np.ones(m)
    loss = AveragePrecision().value(scores, query_labels(relevant), one)
    assert loss >= 1.0 - average_precision_score(relevant, scores) - 1e-12
    for k in (None, 10):
        loss = NDCG(k).value(scores, query_labels(gains), one)
        assert loss >= 1.0 - ndcg_score([gains], [scores], k=k) - 1e-12


# -- labels ----------------------------------------------------------------------------------------


def test_labels():
    labels = query_labels([5.0, -1.0, 5.0, 0.0, 2.0], ["x", "x", "x", "a", "a"])
    np.testing.assert_array_equal(labels[:, 1], [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(labels[:, 2], [1, 0, 1, 0, 1])
    np.testing.assert_array_equal(PairHinge().boundaries(labels), [0, 3, 5])
    assert query_labels([], []).shape == (0, 3)
    with pytest.raises(ValueError, match="not adjacent"):
        query_labels([1.0, 2.0, 3.0], [0, 1, 0])
    with pytest.raises(ValueError, match="one number per sample"):
        query_labels([1.0, 2.0, 3.0], [0, 1])


@pytest.mark.parametrize(
    ("loss", "labels", "text"),
    [
        (PairHinge(), np.zeros(3), "query_labels"),
        (PairHinge(), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), "query_labels"),
        (PairHinge(np.ones((2, 2))), query_labels([0, 2]), "integers 0 .. 1"),
        (AveragePrecision(), query_labels([0, 2]), "0 or 1"),
        (NDCG(), query_labels([0, -2]), "nonnegative"),
    ],
)
def test_labels_are_checked(loss, labels, text):
    with pytest.raises(ValueError, match=text):
        loss.check_labels(labels)


@pytest.mark.parametrize(
    "bad", ["other", np.ones((2, 3)), -np.ones((2, 2)), np.full((2, 2), np.nan)]
)
def test_importances_are_checked(bad):
    with pytest.raises(ValueError, match="importance"):
        PairHinge(bad)


def test_positions_are_checked():
    with pytest.raises(ValueError, match="k must be"):
        NDCG(0)
