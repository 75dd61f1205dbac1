"""R(v) >= cut_w(v) for all v, equality at w: every risk, by the public checks."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.risk import check_risk
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin.engines import ThreadEngine
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk, TaskRisk
from maxmargin.tasks import Chain
from maxmargin.testing import check_loss


@given(seed=st.integers(0, 10_000), n=st.integers(1, 40))
def test_losses(seed, n):
    rng = np.random.default_rng(seed)
    check_loss(Hinge(), rng.choice([-1.0, 1.0], n), random_state=seed)
    cost = rng.random((4, 4)) * (1 - np.eye(4))
    check_loss(CrammerSinger(cost), rng.integers(0, 4, n), 4, random_state=seed)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [0.0, 2.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_score_risks(sparse, dtype, intercept, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)).astype(dtype) * (rng.random((50, 4)) < 0.5)
    y = rng.integers(0, classes, 50)
    loss = Hinge() if classes == 2 else CrammerSinger(1.0 - np.eye(classes))
    labels = np.where(y == 1, 1.0, -1.0) if classes == 2 else y
    X = sp.csr_matrix(X) if sparse else X
    check_risk(ScoreRisk(X, labels, loss, sample_weight=rng.random(50), intercept=intercept))


def test_many_shards_on_threads():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30_000, 20)), rng.choice([-1.0, 1.0], 30_000)
    engine = ThreadEngine(3)
    risk = ScoreRisk(X, y, Hinge(), engine=engine)
    assert risk.n_blocks > 4
    check_risk(risk)
    engine.close()


def sequences(seed, n=40, labels=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), 3)) for _ in range(n)]
    return X, [rng.integers(0, labels, len(x)) for x in X]


def test_task_risks():
    X, Y = sequences(0)
    chain = Chain(3)
    check_risk(TaskRisk(chain, X, Y, chain.setup(X, Y)))
    tiny = TinyChain()
    check_risk(TaskRisk(tiny, X, Y, tiny.setup(X, Y)))


def test_slack_risk():
    rng = np.random.default_rng(2)
    X, Y = list(rng.normal(size=(20, 3))), list(rng.integers(0, 3, 20))
    task = TinyMulticlass()
    check_risk(TaskRisk(task, X, Y, task.setup(X, Y), rescaling="slack"))


@pytest.mark.parametrize("compiled", [True, False])
def test_the_cached_model_is_a_lower_model(compiled):
    X, Y = sequences(3, n=70)
    task = Chain(3) if compiled else TinyChain()
    risk = TaskRisk(task, X, Y, task.setup(X, Y))
    rng = np.random.default_rng(3)
    risk.evaluate(np.zeros(risk.dim), exact=False)  # opens the caches
    for _ in range(15):
        w = rng.normal(size=risk.dim)
        model = risk.evaluate(w, exact=False)
        cut = model.cut()
        assert model.upper == np.inf
        real = risk.evaluate(w)
        assert model.value <= real.value + 1e-9
        assert cut.at(w) == pytest.approx(model.value, abs=1e-9)
        v = rng.normal(size=risk.dim)
        assert cut.at(v) <= risk.evaluate(v).value + 1e-9
        # once the oracle was asked at w the model is exact there
        assert risk.evaluate(w, exact=False).value == pytest.approx(real.value)
        a, b = risk.evaluate(w, exact=False), risk.evaluate(v, exact=False)
        t = 0.37
        moved = a.toward(b, t)
        fresh = risk.evaluate(w + t * (v - w), exact=False)
        assert moved.value == pytest.approx(fresh.value)
        rise = (a.toward(b, t + 1e-7).value - moved.value) / 1e-7
        assert a.slopes(b, np.array([t]))[0] == pytest.approx(rise, abs=1e-5 * (1 + abs(rise)))
