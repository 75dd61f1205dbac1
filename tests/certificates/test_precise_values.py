"""Upper bounds where scores in double precision have lost all digits of their differences: sums over samples
are computed in twice the precision; other losses end with the reason "rounding", and are never too small."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import MeasureSVC, RankSVM
from maxmargin.losses import (
    AtK,
    CandidateHinge,
    CrammerSinger,
    DualTerms,
    EpsilonInsensitive,
    Hinge,
    OneClass,
    PairHinge,
    RocAuc,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    query_labels,
)
from maxmargin.risks import ScoreRisk


def scores(rng, shape):
    """Scores near 1e15 whose differences are near 1, as two numbers each."""
    high = 1e15 + np.round(4.0 * rng.normal(size=shape)) / 2.0
    return high, rng.uniform(-0.05, 0.05, shape)


def fractions(values):
    return [Fraction(value) for value in np.ravel(values).tolist()]


def phi(terms, z):
    """The loss of a sample whose margin falls short by z, in rational numbers."""
    z, kappa = max(Fraction(0), z), Fraction(terms.curvature)
    if terms.steepest < np.inf and z > Fraction(terms.steepest) * kappa:
        top = Fraction(terms.steepest)
        return top * z - kappa * top * top / 2
    return z * z / (2 * kappa) if z else z


def exact(terms, weight, s):
    """The loss of scores s, in rational numbers."""
    margins = fractions(np.broadcast_to(terms.margin, len(s)))
    total = Fraction(0)
    for c, y, m, score in zip(fractions(weight), fractions(terms.labels), margins, s, strict=True):
        total += c * phi(terms, abs(y - score) - m if terms.two_sided else m - y * score)
    return total


@pytest.mark.parametrize(
    "terms_of",
    [
        lambda y, t: Hinge(0.3).dual_terms(y),
        lambda y, t: SquaredHinge().dual_terms(y),
        lambda y, t: OneClass().dual_terms(y),
        lambda y, t: DualTerms(y, steepest=3.0, curvature=0.4),
        lambda y, t: EpsilonInsensitive(0.1).dual_terms(t),
        lambda y, t: SquaredEpsilonInsensitive().dual_terms(np.c_[t, np.linspace(0, 1, len(t))]),
    ],
    ids=["hinge", "squared", "one-class", "huber", "absolute", "squared-absolute"],
)
def test_sums_over_samples_are_never_too_small_and_have_all_digits(terms_of):
    rng = np.random.default_rng(0)
    n, weight = 30, rng.uniform(0.5, 2.0, 30)
    y, target = rng.choice([-1.0, 1.0], n), 1e15 + rng.normal(size=n)
    terms = terms_of(y, target)
    high, low = scores(rng, n)
    if not terms.two_sided:
        high -= 1e15
    s = [a + b for a, b in zip(fractions(high), fractions(low), strict=True)]
    best = float(exact(terms, weight, s))
    assert terms.precise_loss(weight, high, low, np.zeros(n)) == pytest.approx(best, rel=1e-13)
    off = rng.uniform(0.0, 0.1, n)  # the bound is for all scores within these errors
    bound = terms.precise_loss(weight, high, low, off)
    for _ in range(10):
        sign = rng.choice([-1, 1], n).tolist()
        moved = [a + k * b for a, k, b in zip(s, sign, fractions(off), strict=True)]
        assert float(exact(terms, weight, moved)) <= bound * (1.0 + 1e-15)


def test_classes_are_never_too_small_and_have_all_digits():
    rng = np.random.default_rng(1)
    y, weight = rng.integers(0, 3, 20), rng.uniform(0.5, 2.0, 20)
    cost = rng.random((3, 3)) * (1.0 - np.eye(3))
    high, low = scores(rng, (20, 3))
    terms = CrammerSinger(cost).dual_terms(y)

    def exactly(off):
        total = Fraction(0)
        for i, k in enumerate(y):
            s = [
                Fraction(a) + Fraction(b)
                for a, b in zip(high[i].tolist(), low[i].tolist(), strict=True)
            ]
            s = [a + Fraction(b) for a, b in zip(s, off[i].tolist(), strict=True)]
            total += Fraction(weight[i]) * max(
                Fraction(float(cost[k, j])) * (j != k) + s[j] - s[k] for j in range(3)
            )
        return float(total)

    best = exactly(np.zeros((20, 3)))
    assert terms.precise_loss(weight, high, low, np.zeros(20)) == pytest.approx(best, rel=1e-13)
    value = CrammerSinger(cost).value(high + low, y, weight)
    assert abs(value / best - 1.0) > 1e-4  # in double precision
    off = rng.uniform(0.0, 0.1, 20)
    bound = terms.precise_loss(weight, high, low, off)
    for _ in range(10):
        assert exactly(off[:, None] * rng.choice([-1.0, 1.0], (20, 3))) <= bound * (1.0 + 1e-15)


def canceling(rng, n, d):
    """Columns of which the first is large and cancels."""
    X = rng.normal(size=(n, d))
    X[:, 0] = 1e12 * (1.0 + 1e-13 * rng.normal(size=n))
    return X


def score(X, w):
    return [sum(a * b for a, b in zip(fractions(x), fractions(w), strict=True)) for x in X]


def objective(model, loss):
    return float(
        sum(v * v for v in fractions(model.coef_)) / 2 + Fraction(model.C) * Fraction(loss)
    )


def require_bounds(model, F):
    """True bounds, and if they are too far apart, the reason."""
    assert model.lower_bound_ <= F <= model.objective_ * (1.0 + 1e-12)
    assert model.converged_ == (model.gap_ <= model.tol)
    if not model.converged_:
        assert model.stop_reason_ in ("rounding", "max_iter")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "model", [RankSVM(C=1e4, max_iter=200), MeasureSVC("roc_auc", C=1e4, max_iter=200)]
)
def test_large_columns_that_cancel_do_not_make_the_objective_of_pairs_too_small(model):
    rng = np.random.default_rng(2)
    X, y = canceling(rng, 20, 3), (rng.random(20) < 0.5).astype(int)
    s = score(X, model.fit(X, y).coef_)
    pairs = [(i, j) for i in range(20) for j in range(20) if y[i] > y[j]]
    P, scale = int(y.sum()), Fraction(1)
    if isinstance(model, MeasureSVC):
        scale = Fraction(20, P * (20 - P))
    loss = sum(max(Fraction(0), 1 - (s[i] - s[j])) for i, j in pairs) * scale
    require_bounds(model, objective(model, loss))


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


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["map", "ndcg"])
def test_large_columns_that_cancel_do_not_make_the_objective_of_rankings_too_small(kind):
    rng = np.random.default_rng(7)
    X = canceling(rng, 8, 2)
    groups, relevance = np.repeat([0, 1], 4), np.array([1, 0, 1, 0, 0, 0, 1, 0])
    model = RankSVM(loss=kind, C=1e4, max_iter=200).fit(X, relevance, groups=groups)
    s, y = score(X, model.coef_), relevance.astype(float)
    loss = rankings(kind, y[:4], s[:4]) + rankings(kind, y[4:], s[4:])
    require_bounds(model, objective(model, loss))


def test_rounding_that_exceeds_the_tolerance_is_the_reason_and_the_advice():
    rng = np.random.default_rng(2)
    X, y = canceling(rng, 20, 3), (rng.random(20) < 0.5).astype(int)
    with pytest.warns(ConvergenceWarning, match="rounding errors may exceed tol=.*Scale the feat"):
        model = RankSVM(C=1e4, tol=1e-6).fit(X, y)
    assert (model.stop_reason_, model.converged_) == ("rounding", False)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    assert RankSVM(C=1e4, tol=1e-6).fit(scaled, y).converged_


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (RocAuc(), lambda n: np.where(np.arange(n) % 3 == 0, 1.0, -1.0)),
        (AtK(), lambda n: np.where(np.arange(n) % 3 == 0, 1.0, -1.0)),
        (PairHinge(), lambda n: query_labels(np.arange(n) % 4, np.arange(n) // 10)),
        (CandidateHinge("slack"), lambda n: CandidateHinge.labels([5] * (n // 5), [0] * (n // 5))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_bound_is_raised_by_the_slopes_of_the_loss_times_the_errors_of_scores(loss, labels):
    rng = np.random.default_rng(3)
    X, w, y = canceling(rng, 40, 2), np.array([1.0, 2.0]), labels(40)
    # adding a constant to all scores leaves these losses unchanged
    exact_scores = np.array([float(s - 10**12) for s in score(X, w)])
    F = loss.value(exact_scores, y, np.ones(40))
    risk = ScoreRisk(X, y, loss)
    assert risk.proved_value(w, np.inf) == pytest.approx(F, rel=1e-2)
    assert F <= risk.proved_value(w, 0.0) <= 1.1 * F + 1.0
