"""Losses in twice the precision: never below the exact value, and close to it, where scores in double
precision have lost all digits of their differences."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from maxmargin import MeasureSVC, RankSVM
from maxmargin.losses import (
    NDCG,
    AllConfusionMatrices,
    AtK,
    AveragePrecision,
    BalancedError,
    CandidateHinge,
    FBeta,
    PairHinge,
    QMeasure,
    QuantificationLoss,
    RocAuc,
    confusion_matrix_losses,
    query_labels,
)
from maxmargin.risks import ScoreRisk


def scores(rng, n):
    """Scores near 1e15 whose differences are near 1, as two numbers each."""
    high = 1e15 + np.round(4.0 * rng.normal(size=n)) / 2.0
    return high, rng.uniform(-0.05, 0.05, n)


def exact(pairs, high, low):
    """The sum over (i, j, c) of c max(0, 1 - (s_i - s_j))."""
    s = [Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]
    return sum(Fraction(c) * max(Fraction(0), 1 - (s[i] - s[j])) for i, j, c in pairs)


@pytest.mark.parametrize("importance", ["equal", "difference", "matrix"])
def test_pairs_of_queries(importance):
    rng = np.random.default_rng(0)
    matrix = np.abs(rng.normal(size=(4, 4)))
    n, weight = 30, rng.uniform(0.5, 2.0, 30)
    y = query_labels(rng.integers(0, 4, n).astype(float), np.repeat([0, 1, 2], 10))
    high, low = scores(rng, n)
    worth = {"equal": lambda a, b: 1.0, "difference": lambda a, b: a - b}.get(
        importance, lambda a, b: matrix[int(a), int(b)]
    )
    pairs = [
        (i, j, worth(y[i, 0], y[j, 0]) * weight[i] * weight[j])
        for i in range(n)
        for j in range(n)
        if y[i, 1] == y[j, 1] and y[i, 0] > y[j, 0]
    ]
    loss = PairHinge(matrix if importance == "matrix" else importance)
    best = exact(pairs, high, low)
    assert loss.precise_value(high, low, np.zeros(n), y, weight) == pytest.approx(
        float(best), rel=1e-13
    )
    assert abs(loss.value(high + low, y, weight) / float(best) - 1.0) > 1e-4
    off = np.full(n, 1e-3)
    assert loss.precise_value(high, low, off, y, weight) > float(best)


def test_roc_auc_and_the_balanced_error():
    rng = np.random.default_rng(1)
    n, weight = 25, rng.uniform(0.5, 2.0, 25)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    high, low = scores(rng, n)
    P, N = weight[y > 0].sum(), weight[y < 0].sum()
    pairs = [
        (i, j, weight[i] * weight[j] * (P + N) / (P * N))
        for i in np.flatnonzero(y > 0)
        for j in np.flatnonzero(y < 0)
    ]
    found = RocAuc().precise_value(high, low, np.zeros(n), y, weight)
    assert found == pytest.approx(float(exact(pairs, high, low)), rel=1e-13)
    assert RocAuc().precise_value(high, low, np.zeros(n), np.ones(n), weight) == 0.0
    small = high - 1e15
    margins = np.where(y > 0, (P + N) / (2.0 * P), (P + N) / (2.0 * N))
    wanted = float(weight @ np.maximum(0.0, margins - y * (small + low)))
    assert BalancedError().precise_value(small, low, np.zeros(n), y, weight) == pytest.approx(
        wanted, rel=1e-13
    )


def labelings(loss, y, s):
    """The maximum over all labelings, in fractions."""
    best, n = Fraction(0), len(y)
    for v in product([-1, 1], repeat=n):
        v = np.array(v)
        tp, fp = np.sum((v > 0) & (y > 0)), np.sum((v > 0) & (y < 0))
        fn, tn = np.sum((v < 0) & (y > 0)), np.sum((v < 0) & (y < 0))
        measure = float(loss.loss(int(tp), int(fp), int(fn), int(tn)))
        if measure < 0.0:
            continue
        inner = sum(Fraction(int(a - b)) / 2 * c for a, b, c in zip(v, y, s, strict=True))
        delta = n * Fraction(measure)
        if getattr(loss, "rescaling", "margin") == "slack":
            inner *= delta
        best = max(best, delta + inner)
    return best


ERRORS = confusion_matrix_losses(lambda tp, fp, fn, tn: (fp + 2.0 * fn) / 12.0, 3, 4)


@pytest.mark.parametrize(
    "loss",
    [
        FBeta(),
        QMeasure(),
        QuantificationLoss("kld"),
        AtK(),
        AtK("recall", k=2),
        AllConfusionMatrices(ERRORS),
        AllConfusionMatrices(ERRORS, "slack"),
    ],
    ids=lambda loss: f"{type(loss).__name__}-{getattr(loss, 'rescaling', 'margin')}",
)
def test_measures_of_confusion_matrices(loss):
    rng = np.random.default_rng(4)
    y, ones = np.repeat([1.0, -1.0], [3, 4]), np.ones(7)
    high, low = rng.normal(size=7), 1e-3 * rng.normal(size=7)
    if loss.shift_invariant:
        high = 1e15 + np.round(4.0 * high)
    s = [Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]
    best = float(labelings(loss, y, s))
    found = loss.precise_value(high, low, np.zeros(7), y, ones)
    assert best <= found <= best * (1.0 + 1e-12)
    off = rng.uniform(0.0, 0.1, 7)  # the bound is for all scores within these errors
    bound = loss.precise_value(high, low, off, y, ones)
    for _ in range(10):
        sign = rng.choice([-1, 1], 7).tolist()
        moved = [a + k * Fraction(b) for a, k, b in zip(s, sign, off.tolist(), strict=True)]
        assert float(labelings(loss, y, moved)) <= bound


def rankings(kind, y, s):
    """The maximum over all rankings of a query, in fractions (up to the rounding of the discounts)."""
    n, best = len(y), Fraction(0)
    discount = [Fraction(float(1.0 / np.log2(p + 2.0))) for p in range(n)]
    ideal = sorted(y.tolist(), reverse=True)
    top = sum(d * Fraction(g) for d, g in zip(discount, ideal, strict=True))
    mean = {
        g: sum(d for d, h in zip(discount, ideal, strict=True) if h == g) / ideal.count(g)
        for g in ideal
    }
    good, bad = np.flatnonzero(y > 0), np.flatnonzero(y == 0)
    for order in permutations(range(n)):
        if kind == "ndcg":
            reached = sum(discount[p] * Fraction(y[i]) for p, i in enumerate(order))
            inner = sum((discount[p] - mean[y[i]]) * s[i] for p, i in enumerate(order))
            best = max(best, 1 - reached / top + inner)
            continue
        place = {i: p for p, i in enumerate(order)}
        found = [Fraction(sum(place[j] <= place[i] for j in good), place[i] + 1) for i in good]
        wrong = sum((s[j] - s[i] for i in good for j in bad if place[j] < place[i]), Fraction(0))
        best = max(best, 1 - sum(found) / len(good) + 2 * wrong / (len(good) * len(bad)))
    return best


@pytest.mark.parametrize("kind", ["map", "ndcg"])
def test_rankings(kind):
    rng = np.random.default_rng(5)
    relevance = [1, 0, 0, 1, 0, 0, 1, 0, 1] if kind == "map" else [2, 0, 1, 1, 0, 0, 3, 0, 1]
    y = query_labels(np.array(relevance, float), np.repeat([0, 1], [5, 4]))
    weight = np.repeat([1.0, 0.5], [5, 4])
    high, low = scores(rng, 9)
    s = [Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]

    def exactly(s):
        first = rankings(kind, y[:5, 0], s[:5])
        return float(first + rankings(kind, y[5:, 0], s[5:]) / 2)

    loss, best = {"map": AveragePrecision(), "ndcg": NDCG()}[kind], exactly(s)
    found = loss.precise_value(high, low, np.zeros(9), y, weight)
    assert best * (1.0 - 1e-15) <= found <= best * (1.0 + 1e-12)
    assert abs(loss.value(high + low, y, weight) / best - 1.0) > 1e-4
    off = rng.uniform(0.0, 0.1, 9)
    bound = loss.precise_value(high, low, off, y, weight)
    for _ in range(20):
        sign = rng.choice([-1, 1], 9).tolist()
        moved = [a + k * Fraction(b) for a, k, b in zip(s, sign, off.tolist(), strict=True)]
        assert exactly(moved) <= bound


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_listed_candidates(rescaling):
    rng = np.random.default_rng(6)
    y = CandidateHinge.labels([3, 4, 1], [0, 2, 0], np.array([0, 1.5, 0.3, 2, 1, 0, 0.7, 0]))
    weight = np.repeat([1.0, 0.5, 2.0], [3, 4, 1])
    high, low = scores(rng, 8)
    loss = CandidateHinge(rescaling)

    def exactly(s):
        total = Fraction(0)
        for rows, truth, c in (((0, 1, 2), 0, 1), ((3, 4, 5, 6), 5, Fraction(1, 2))):
            cost = {j: Fraction(float(y[j, 1])) for j in rows}
            scale = {j: cost[j] if rescaling == "slack" else 1 for j in rows}
            total += c * max(cost[j] + scale[j] * (s[j] - s[truth]) for j in rows)
        return float(total)

    s = [Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)]
    best = exactly(s)
    assert loss.precise_value(high, low, np.zeros(8), y, weight) == pytest.approx(best, rel=1e-14)
    assert abs(loss.value(high + low, y, weight) / best - 1.0) > 1e-4
    off = rng.uniform(0.0, 0.1, 8)
    bound = loss.precise_value(high, low, off, y, weight)
    for sign in product([-1, 1], repeat=8):
        moved = [a + k * Fraction(b) for a, k, b in zip(s, sign, off.tolist(), strict=True)]
        assert exactly(moved) <= bound * (1.0 + 1e-15)
    assert loss.precise_value(high[:0], low[:0], off[:0], y[:0], weight[:0]) == 0.0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_large_columns_that_cancel_do_not_make_an_objective_too_small():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 3))
    X[:, 0] = 1e12 * (1.0 + 1e-13 * rng.normal(size=20))
    y = (rng.random(20) < 0.5).astype(int)
    for model in (RankSVM(C=1e4, max_iter=200), MeasureSVC("roc_auc", C=1e4, max_iter=200)):
        model.fit(X, y)
        w = model.coef_.ravel().tolist()
        s = [sum(Fraction(a) * Fraction(b) for a, b in zip(x, w, strict=True)) for x in X.tolist()]
        pairs = [(i, j) for i in range(20) for j in range(20) if y[i] > y[j]]
        P, scale = int(y.sum()), Fraction(1)
        if isinstance(model, MeasureSVC):
            scale = Fraction(20, P * (20 - P))
        loss = sum(max(Fraction(0), 1 - (s[i] - s[j])) for i, j in pairs) * scale
        F = sum(Fraction(v) ** 2 for v in w) / 2 + Fraction(model.C) * loss
        assert float(F) * (1.0 - 1e-9) <= model.objective_ <= float(F) * (1.0 + 1e-6)
        assert model.lower_bound_ <= float(F) * (1.0 + 1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["map", "ndcg"])
def test_the_objective_of_rankings_is_not_too_small_if_large_columns_cancel(kind):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(8, 2))
    X[:, 0] = 1e12 * (1.0 + 1e-13 * rng.normal(size=8))
    groups, relevance = np.repeat([0, 1], 4), np.array([1, 0, 1, 0, 0, 0, 1, 0])
    model = RankSVM(loss=kind, C=1e4, max_iter=200).fit(X, relevance, groups=groups)
    w = model.coef_.ravel().tolist()
    s = [sum(Fraction(a) * Fraction(b) for a, b in zip(x, w, strict=True)) for x in X.tolist()]
    y = relevance.astype(float)
    loss = rankings(kind, y[:4], s[:4]) + rankings(kind, y[4:], s[4:])
    F = float(sum(Fraction(v) ** 2 for v in w) / 2 + Fraction(model.C) * loss)
    assert F * (1.0 - 1e-12) <= model.objective_ <= F * (1.0 + 1e-8)
    assert model.lower_bound_ <= F


def test_roc_auc_of_several_ranges_of_rows_is_not_a_sum_over_them():
    rng = np.random.default_rng(3)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    X = np.column_stack([1e14 + rng.normal(size=40), rng.normal(size=40)])
    here = np.r_[0:10, 20:32]
    w = np.array([1.0, 2.0])
    whole = ScoreRisk(X, y, RocAuc(), ranges=[(0, 10), (20, 32)]).proved_value(w, 0.0)
    same = ScoreRisk(X[here], y[here], RocAuc()).proved_value(w, 0.0)
    assert whole >= same * (1.0 - 1e-12)  # without twice the precision, rounding is added
