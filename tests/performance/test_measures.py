"""Non-decomposable metrics: a slope costs a sort, so a fit must not use many."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from maxmargin import minimize
from maxmargin.losses import FBeta, QuantificationLoss, RocAuc
from maxmargin.risks import ScoreRisk


@pytest.mark.parametrize(
    ("base", "iterations"),
    [(FBeta, 24), (RocAuc, 18), (QuantificationLoss, 30)],
    ids=lambda v: str(v),
)
def test_iterations_and_sorts(base, iterations):
    cuts, slopes = [], []

    class Counting(base):
        def cut(self, scores, y, weight):
            cuts.append(1)
            return super().cut(scores, y, weight)

        def slopes(self, scores, other, y, weight, ts):
            slopes.extend(ts)
            return super().slopes(scores, other, y, weight, ts)

    X, y = make_classification(3000, 10, weights=[0.8], flip_y=0.05, random_state=0)
    risk = ScoreRisk(X, np.where(y == 1, 1.0, -1.0), Counting(), intercept=1.0)
    result = minimize(risk, C=0.1)
    assert result.converged
    assert result.n_iter <= iterations
    assert len(slopes) <= 8 * result.n_iter
    # value at w_t, slopes, value at w_b, cut at w_c
    assert len(cuts) <= 11 * result.n_iter
