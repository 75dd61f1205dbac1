"""Losses over pairs in twice the precision: never below the exact value, and close to it, where scores in
double precision have lost all digits of their differences."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin import MeasureSVC, RankSVM
from maxmargin.losses import BalancedError, PairHinge, RocAuc, query_labels
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


def test_roc_auc_of_several_ranges_of_rows_is_not_a_sum_over_them():
    rng = np.random.default_rng(3)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    X = np.column_stack([1e14 + rng.normal(size=40), rng.normal(size=40)])
    here = np.r_[0:10, 20:32]
    w = np.array([1.0, 2.0])
    whole = ScoreRisk(X, y, RocAuc(), ranges=[(0, 10), (20, 32)]).proved_value(w, 0.0)
    same = ScoreRisk(X[here], y[here], RocAuc()).proved_value(w, 0.0)
    assert whole >= same * (1.0 - 1e-12)  # without twice the precision, rounding is added
