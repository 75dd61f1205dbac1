"""Losses of rankings: cuts are minorants, slopes and kinks agree with them, queries add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.losses import NDCG, AveragePrecision, PairHinge, query_labels
from maxmargin.risks import ScoreRisk
from maxmargin.testing import check_loss, check_risk

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
def test_cuts_values_slopes_and_kinks_agree(name, seed, n):
    rng = np.random.default_rng(seed)
    labels = query_labels(relevance(name, n, rng), np.sort(rng.integers(0, 4, n)))
    check_loss(LOSSES[name], labels, random_state=seed)


@pytest.mark.parametrize("name", LOSSES)
def test_kinks_of_long_queries(name):
    """All of them in wide brackets, none where there is no room."""
    rng = np.random.default_rng(0)
    n, loss = 150, LOSSES[name]
    labels = query_labels(relevance(name, n, rng), np.arange(n) // 75)
    scores, other, weight = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    ts, jumps = loss.breakpoints(scores, other, labels, weight, 0.0, 1.0, 100_000)
    probes = np.sort(rng.uniform(0.0, 1.0, 50))
    slopes = loss.slopes(scores, other, labels, weight, np.concatenate([[0.0], probes]))
    expected = [slopes[0] + jumps[ts <= t].sum() for t in probes]
    assert slopes[1:] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert len(ts) > 5
    assert loss.breakpoints(scores, other, labels, weight, 0.0, 1.0, len(ts) - 1) is None


@pytest.mark.parametrize("name", LOSSES)
def test_their_risks_are_risks(name):
    rng = np.random.default_rng(0)
    n = 600
    groups = np.repeat(np.arange(60), rng.multinomial(n, np.full(60, 1 / 60)))
    X = rng.normal(size=(n, 300))
    risk = ScoreRisk(X, query_labels(relevance(name, n, rng), groups), LOSSES[name])
    assert risk.n_blocks > 1
    check_risk(risk, n_trials=6)
