"""Whole fits are the same in every bit, whichever shards die before, in or after whichever call."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.latent_tasks import Rows
from tests.rebuilt_shards import RebuildingEngine
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    LatentStructuredSVM,
    LinearSVC,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
)
from maxmargin.engines import SerialEngine
from maxmargin.risks.lines.shard import LostScores
from maxmargin.risks.scores import risk as score
from maxmargin.risks.structured import risk as task
from maxmargin.risks.structured import shard as task_shard
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Enumerable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)) * (RNG.random((60, 6)) < 0.6)
SCORES = X[:, :3] + RNG.normal(size=(60, 3))
CLASSES, SIGNS = SCORES.argmax(axis=1), np.where(SCORES[:, 0] > 0.0, 1, -1)
WEIGHT = RNG.integers(0, 3, 60).astype(float)
SEQUENCES = [RNG.normal(size=(RNG.integers(1, 5), 3)) for _ in range(50)]
LABELS = [(x + RNG.normal(size=x.shape)).argmax(axis=1) for x in SEQUENCES]
ROWS, VECTORS = CuttingPlane(space="rows", max_planes=8), [x[:3] for x in X]
COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [1.0, 3.0, 0.0]])
TINY = TinyMulticlass()

FITS = {
    "signs": (LinearSVC(solver=CuttingPlane(), nonnegative=[0], fixed={5: 0.3}), X, SIGNS, WEIGHT),
    "free": (LinearSVC(loss="squared_hinge", penalize_intercept=False), X, SIGNS, WEIGHT),
    "blocks": (LinearSVC(solver=CuttingPlane(slacks="blocks", max_planes=4)), X, SIGNS, WEIGHT),
    "costs": (LinearSVC(solver=CuttingPlane(), cost=COST), sp.csr_matrix(X), CLASSES, WEIGHT),
    "rows": (LinearSVC(solver=ROWS, max_iter=30), sp.csr_matrix(X), CLASSES, WEIGHT),
    "one against the rest": (
        LinearSVC(solver=ROWS, multi_class="ovr", max_iter=9),
        X,
        CLASSES,
        None,
    ),
    "regression": (LinearSVR(epsilon=0.1, solver=CuttingPlane()), X, SCORES[:, 0], WEIGHT),
    "f1": (MeasureSVC("f1", max_iter=30), X, SIGNS, None),
    "ranking": (RankSVM(max_iter=30), X, CLASSES, None),
    "chain": (SequenceTagger(1.0, solver=CuttingPlane(), tol=1e-3), SEQUENCES, LABELS, None),
    "slack": (
        StructuredSVM(TINY, rescaling="slack", solver=CuttingPlane()),
        VECTORS,
        CLASSES,
        WEIGHT,
    ),
    "expensive": (StructuredSVM(TINY, oracle="expensive", max_iter=9), VECTORS, CLASSES, WEIGHT),
    "signed task": (StructuredSVM(TINY, nonnegative=[1], fixed={0: 0.5}), VECTORS, CLASSES, WEIGHT),
    "candidates": (
        StructuredSVM(Enumerable(), solver=DualCoordinate(batch_size="all"), tol=1e-3),
        [RNG.normal(size=(4, 3)) for _ in range(50)],
        [int(k) for k in RNG.integers(0, 4, 50)],
        None,
    ),
    "latent": (LatentStructuredSVM(Rows(2), max_iter=4), SEQUENCES, [0, 1] * 25, None),
}


@pytest.fixture(autouse=True)
def small_as_if_large(monkeypatch):
    """Five shards of few rows, and caches of constraints that begin anew all the time."""
    monkeypatch.setattr(score, "shard_bounds", lambda n, *_: [n * k // 5 for k in range(6)])
    monkeypatch.setitem(task.MIN_EXAMPLES, "compiled", 8)
    for module in (task, task_shard):
        monkeypatch.setattr(module, "CACHE_SIZE", 3)
    monkeypatch.setattr(task_shard, "MAX_SPAN", 6)


def fit(name, engine):
    estimator, X, y, weight = FITS[name]
    options = {} if weight is None else {"sample_weight": weight}
    fitted = estimator.set_params(engine=engine).fit(
        X, list(y) if isinstance(X, list) else y, **options
    )
    records = (
        [(r["objective"], r["lower_bound"]) for r in fitted.history_] if name != "latent" else []
    )
    weights = np.asarray(fitted.coef_).tobytes()
    return weights, fitted.objective_, fitted.lower_bound_, fitted.stop_reason_, records


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FITS)
def test_the_same_bits(name):
    expected = fit(name, SerialEngine())
    struck = 0
    for seed, rate in enumerate((0.005, 0.01, 0.02, 0.04)):
        if "rows" in repr(FITS[name][0].get_params().get("solver")):
            rate /= 5  # shards take all steps again: a death in the middle of that is one more beginning
        engine = RebuildingEngine(seed, rate)
        assert fit(name, engine) == expected
        struck += engine.deaths + engine.repeats
    assert struck > 0


@pytest.mark.parametrize("name", ["costs", "rows", "chain"])
def test_workers_that_die_all_the_time_are_given_up(name):
    with pytest.raises(LostScores) as caught:
        fit(name, RebuildingEngine(0, 4.0))
    assert any("workers fail faster" in note for note in caught.value.__notes__)
