"""Upper bounds where scores in double precision have lost all digits of their differences: they are never too
small, and fits end with the reason "rounding"."""

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
    PairHinge,
    RocAuc,
    query_labels,
)
from maxmargin.risks import ScoreRisk


def fractions(values):
    return [Fraction(value) for value in np.ravel(values).tolist()]


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


@pytest.mark.slow
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
    value = risk.evaluate(w).value
    assert risk.raised(w, value, np.inf) == value == pytest.approx(F, rel=1e-2)
    assert F <= risk.raised(w, value, 0.0) <= 1.1 * F + 1.0
