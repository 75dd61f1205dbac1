"""The line search finds the minimizer of F on the ray, to rounding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core import line_search
from maxmargin.losses import CrammerSinger, FBeta, Hinge, RocAuc, ScoreLoss
from maxmargin.risks import ScoreRisk


def problem(seed, n, d, classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    weight = rng.random(n)
    if classes == 2:
        return ScoreRisk(X, rng.choice([-1.0, 1.0], n), Hinge(), sample_weight=weight), d
    cost = rng.random((classes, classes)) * (1 - np.eye(classes))
    y = rng.integers(0, classes, n)
    return ScoreRisk(X, y, CrammerSinger(cost), sample_weight=weight), d * classes


def search(risk, a, b, C, guess=1.0):
    d = b - a
    ea, eb = risk.evaluate(a), risk.evaluate(b)
    k = line_search.minimize_on_line(ea, eb, d @ d, a @ d, C, guess)
    return k, lambda t: 0.5 * np.sum((a + t * d) ** 2) + C * risk.evaluate(a + t * d).value


@given(
    seed=st.integers(0, 10_000),
    classes=st.sampled_from([2, 3, 7]),
    log_c=st.floats(-3, 3),
    guess=st.sampled_from([1e-3, 1.0, 50.0]),
    limit=st.sampled_from([1, 20, 20_000]),
)
def test_no_other_step_is_better(seed, classes, log_c, guess, limit):
    rng = np.random.default_rng(seed)
    risk, dim = problem(seed, 60, 4, classes)
    a, b = rng.normal(size=dim), rng.normal(size=dim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_search, "LIMIT", limit)  # small limits force more rounds
        patch.setattr(line_search, "EFFORT", 1e-15)
        k, f = search(risk, a, b, 10.0**log_c, guess)
    best = f(k)
    assert k >= 0.0
    for t in [0.0, 0.5 * k, 0.99 * k, k * (1 - 1e-6), k * (1 + 1e-6), 1.01 * k, k + 1.0, 3.0]:
        assert best <= f(t) + 1e-12 * abs(best)


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("guess", [1e-3, 1.0, 50.0])
def test_sorting_one_part_of_the_kinks_finds_the_same_step(classes, guess, monkeypatch):
    risk, dim = problem(3, 3_000, 4, classes)
    a, b = np.zeros(dim), np.random.default_rng(4).normal(size=dim)
    b *= -np.sign(risk.evaluate(a).slopes(risk.evaluate(b), np.zeros(1))[0])  # downhill
    monkeypatch.setattr(line_search, "BINS", 10**6)  # more parts than kinks: all are sorted
    expected, _ = search(risk, a, b, 1.0, guess)
    monkeypatch.setattr(line_search, "BINS", 5)
    assert expected > 0.0
    assert search(risk, a, b, 1.0, guess)[0] == pytest.approx(expected, rel=1e-12)


def test_ties_at_one_kink():
    # all rows alike: every kink at the same place, one variant of bracketing fails here
    X, y = np.ones((40_000, 1)), np.ones(40_000)
    risk = ScoreRisk(X, y, Hinge())
    k, f = search(risk, np.zeros(1), np.array([0.5]), 1.0)
    assert k == pytest.approx(2.0, rel=1e-12)
    assert f(k) < f(0.0)


def test_uphill_gives_step_zero():
    risk = ScoreRisk(np.array([[1.0]]), np.array([1.0]), Hinge())
    k, _ = search(risk, np.array([1.0]), np.array([2.0]), 1e-3)
    assert k == 0.0


class _SquaredHinge(ScoreLoss):
    def cut(self, scores, y, weight):
        margin = np.maximum(0.0, 1.0 - y * scores)
        gradient = -2.0 * weight * y * margin
        return float(weight @ margin**2 - gradient @ scores), gradient


def test_smooth_losses_are_bracketed_to_rounding_if_asked(monkeypatch):
    monkeypatch.setattr(line_search, "EFFORT", 1e-15)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.choice([-1.0, 1.0], 500)
    risk = ScoreRisk(X, y, _SquaredHinge())
    a, b = rng.normal(size=3), rng.normal(size=3)
    k, f = search(risk, a, b, 1.0)
    for t in (k * 0.999, k * 1.001):
        assert f(k) <= f(t)


@given(
    seed=st.integers(0, 10_000),
    log_c=st.floats(-3, 3),
    guess=st.sampled_from([1e-3, 0.3, 1.0, 50.0]),
    loss=st.sampled_from([RocAuc(), FBeta()]),
)
def test_dear_slopes_are_few_and_end_where_f_is_level_or_turns(seed, log_c, guess, loss):
    rng = np.random.default_rng(seed)
    n, C = 200, 10.0**log_c
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    risk = ScoreRisk(rng.normal(size=(n, 4)) + 0.5 * y[:, None], y, loss)
    a, b = rng.normal(size=4), np.ones(4)
    d = b - a
    ea, eb = risk.evaluate(a), risk.evaluate(b)
    asked = []

    class Counting:
        def slopes(self, other, ts):
            asked.extend(ts)
            return ea.slopes(other, ts)

    k = line_search.minimize_on_line(Counting(), eb, d @ d, a @ d, C, guess, expensive=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_search, "EFFORT", 1e-9)
        exact = line_search.minimize_on_line(ea, eb, d @ d, a @ d, C, guess)
    first, there = d @ d * np.array([0.0, k]) + a @ d + C * ea.slopes(eb, np.array([0.0, k]))
    assert (k == 0.0) == (first >= 0.0)
    level = abs(there) <= -0.1 * first * (1 + 1e-9)
    assert k == 0.0 or level or abs(k - exact) <= 0.051 * max(k, exact)
    assert len(asked) <= 25
