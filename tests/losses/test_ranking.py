"""Losses of rankings: cuts are minorants, slopes agree with them, queries add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.risk import check_risk

from maxmargin.losses import NDCG, AveragePrecision, PairHinge, query_labels
from maxmargin.risks import ScoreRisk
from maxmargin.testing import check_loss

LOSSES = {
    "pairs": PairHinge(),
    "difference": PairHinge("difference"),
    "matrix": PairHinge(np.arange(16.0).reshape(4, 4)),
    "map": AveragePrecision(),
    "ndcg": NDCG(),
    "ndcg@3": NDCG(3),
}


def relevance(name, n, rng):
    return rng.integers(0, 2 if name == "map" else 4, n)


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 40))
def test_cuts_values_and_slopes_agree(name, seed, n):
    rng = np.random.default_rng(seed)
    labels = query_labels(relevance(name, n, rng), np.sort(rng.integers(0, 4, n)))
    check_loss(LOSSES[name], labels, random_state=seed)


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_at_the_start_are_right_derivatives(name):
    """Whole numbers: many pairs exactly at the margin, and many equal scores."""
    rng = np.random.default_rng(0)
    for trial in range(50):
        n, loss = 40 if trial % 2 else 150, LOSSES[name]
        labels = query_labels(relevance(name, n, rng), np.arange(n) * 3 // n)
        scores = rng.integers(-1, 2, n).astype(float)
        other, weight = scores + rng.integers(-2, 3, n), rng.uniform(0.5, 2.0, n)
        slope = loss.slopes(scores, other, labels, weight, np.array([0.0]))[0]
        here = loss.value(scores, labels, weight)
        there = loss.value(scores + 1e-6 * (other - scores), labels, weight)
        assert (there - here) / 1e-6 == pytest.approx(slope, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_their_risks_are_risks(name):
    rng = np.random.default_rng(0)
    n = 600
    groups = np.repeat(np.arange(60), rng.multinomial(n, np.full(60, 1 / 60)))
    X = rng.normal(size=(n, 300))
    risk = ScoreRisk(X, query_labels(relevance(name, n, rng), groups), LOSSES[name])
    assert risk.n_blocks > 1
    check_risk(risk, n_trials=6)
