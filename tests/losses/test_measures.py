"""Cuts of joint measures lie below the risk everywhere and touch it where they were taken."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.risk import check_risk

from maxmargin.losses import (
    AllConfusionMatrices,
    AtK,
    BalancedError,
    FBeta,
    QMeasure,
    QuantificationLoss,
    RocAuc,
)
from maxmargin.risks import ScoreRisk
from maxmargin.testing import check_loss

LOSSES = {
    "f1": FBeta(),
    "f0.5": FBeta(0.5),
    "prbep": AtK(),
    "precision_at_1": AtK("precision", 1),
    "recall_at_2": AtK("recall", 2),
    "ae": QuantificationLoss("ae"),
    "rae": QuantificationLoss("rae"),
    "kld": QuantificationLoss("kld"),
    "nkld": QuantificationLoss("nkld"),
    "q": QMeasure(),
    "roc_auc": RocAuc(),
    "balanced_error": BalancedError(),
}


def labels(seed, n):
    y = np.random.default_rng(seed).choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    return y


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 40))
def test_cuts_values_and_slopes_agree(name, seed, n):
    check_loss(LOSSES[name], labels(seed, n), random_state=seed, n_trials=8)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@given(seed=st.integers(0, 10_000), n=st.integers(2, 20))
def test_any_measure(rescaling, seed, n):
    y = labels(seed, n)
    losses = np.random.default_rng(seed).random((np.sum(y > 0) + 1, np.sum(y < 0) + 1))
    losses[0, 0] = 0.0
    check_loss(AllConfusionMatrices(losses, rescaling), y, random_state=seed, n_trials=8)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
def test_their_risks_are_risks(name, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    X = sp.csr_matrix(X.astype(np.float32)) if sparse else X
    check_risk(ScoreRisk(X, labels(0, 60), LOSSES[name], intercept=1.0))


def test_measures_of_whole_rows_take_no_weights():
    X, y = np.ones((3, 1)), np.array([1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="FBeta takes no sample weights"):
        ScoreRisk(X, y, FBeta(), sample_weight=[1.0, 2.0, 1.0])
    ScoreRisk(X, y, RocAuc(), sample_weight=[1.0, 2.0, 1.0])
