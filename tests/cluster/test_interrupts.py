"""Ctrl-C takes effect during a call, and the engine answers the next one; a fit stores its best point."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.cluster.conftest import wait_until
from tests.cluster.shards import Part, count
from tests.ctrl_c import interrupted

from maxmargin import LinearSVC
from maxmargin.core.summation import tree_sum
from maxmargin.engines import ray_team
from maxmargin.solvers import CuttingPlane
from maxmargin.testing import binary_objective


def _interrupted(engine, path, seconds):
    """Call a method that takes so long and press Ctrl-C when it runs; how long it took to be heard."""
    pressed = []

    def press():
        wait_until(lambda: count(path) >= 2)
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.reduce(Part.wait, seconds, path)
    heard = time.monotonic()
    thread.join()
    return heard - pressed[0]


def test_workers_that_are_soon_done_are_kept(make_engine, tmp_path):
    engine = make_engine(2).open(Part, [1, 2])
    # workers that died in earlier tests are back
    wait_until(lambda: len(set(engine.gather(Part.pid))) == 2)
    before = engine.gather(Part.pid)
    # Ray looks for signals once in a second
    _interrupted(engine, str(tmp_path / "calls"), 2.0)
    assert engine.reduce(Part.value) == tree_sum([Part(1).value(), Part(2).value()])
    assert engine.gather(Part.pid) == before


@pytest.mark.nightly
def test_workers_that_are_not_are_started_anew(make_engine, tmp_path):
    engine = make_engine(2).open(Part, [1, 2])
    before = engine.gather(Part.pid)
    assert _interrupted(engine, str(tmp_path / "calls"), 60.0) < ray_team.GRACE + 5.0
    assert engine.reduce(Part.value) == tree_sum([Part(1).value(), Part(2).value()])
    assert not set(engine.gather(Part.pid)) & set(before)


def test_one_press_ends_a_fit_and_leaves_something_usable(make_engine):
    """The exception has the estimator, and the workers are there for the next fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    y = np.where(X[:, 0] + rng.normal(size=2000) > 0, 1.0, -1.0)
    engine, pressed = make_engine(2), []

    def press(record):
        if record.iteration == 3:
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    svc = LinearSVC(
        C=10.0, tol=1e-15, solver=CuttingPlane(), engine=engine, callbacks=[press], loss="hinge"
    )
    error = interrupted(svc.fit, X, y)
    assert time.monotonic() - pressed[0] < ray_team.GRACE + 5.0
    assert error.estimator is svc
    assert "gap" in error.__notes__[0]
    assert svc.stop_reason_ == "interrupted"
    assert svc.predict(X).shape == y.shape
    F = binary_objective(svc.coef_[0], svc.intercept_[0], X, y, 10.0)
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    lower = svc.lower_bound_
    svc.set_params(tol=1e-2, callbacks=None).fit(X, y)
    assert svc.converged_
    assert lower <= svc.objective_ * (1 + 1e-12)
