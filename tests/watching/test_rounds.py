"""history_ counts the rounds and bytes of engines whose workers are other processes."""

from __future__ import annotations

import numpy as np

from maxmargin.core.result import IterationRecord
from maxmargin.engines import ProcessEngine
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, minimize
from maxmargin.solvers.history_columns import counted, history_columns


def _history(engine, n_features=30):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, n_features))
    risk = ScoreRisk(X, np.where(X[:, 0] > 0, 1.0, -1.0), Hinge(), engine=engine)
    return minimize(risk, 1e-4, solver=CuttingPlane(), max_iter=4).history


def test_rounds_and_bytes_of_each_iteration():
    engine = ProcessEngine(2)
    try:
        _history(engine)  # what other fits have sent is not counted
        history = _history(engine)
    finally:
        engine.close()
    for record in history:
        assert 3 <= record.rounds <= 15
        assert 0 < record.seconds_rounds <= record.elapsed
        assert record.bytes_sent >= 2 * 30 * 8  # w goes to two workers
        assert record.bytes_received >= 2 * 30 * 8  # and a plane comes from each
    assert sum(record.bytes_sent for record in history) < engine.traffic.sent
    assert {record.rounds for record in _history(None)} == {0}


def test_a_checkpoint_stores_them_and_older_ones_lack_them():
    record = IterationRecord(
        1, 2.0, 1.0, 0.5, 1, 1, None, 1.0, 0.1, 0.1, 0.1, 0.1, 1.0, "m", 1.0, 7, 0.5, 80, 90
    )
    kept = {"history": history_columns([record]), "passes": 1.0, "elapsed": 1.0, "stop": None}
    assert counted(kept)[0] == [record]
    for name in ("rounds", "seconds_rounds", "bytes_sent", "bytes_received"):
        del kept["history"][name]
    assert counted(kept)[0][0].rounds == 0
    assert counted(kept)[0][0].C == 1.0
