"""Ctrl-C, limits and callbacks in the concave-convex procedure leave the best point."""

import signal
import time
from itertools import pairwise

import numpy as np
import pytest
from tests.ctrl_c import interrupted
from tests.latent_tasks import WrongRows, rows_problem

from maxmargin import LatentStructuredSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.testing import latent_objective


class Pressing(WrongRows):
    """Ctrl-C is pressed at these calls of a method."""

    def __init__(self, method="loss_augmented_inference", *calls):
        super().__init__()
        self.method, self.calls, self.count = method, calls, 0

    def _called(self, method):
        if method == self.method:
            self.count += 1
            if self.count in self.calls:
                signal.raise_signal(signal.SIGINT)

    def loss_augmented_inference(self, x, y, w):
        self._called("loss_augmented_inference")
        return super().loss_augmented_inference(x, y, w)

    def complete(self, x, y, w):
        self._called("complete")
        return super().complete(x, y, w)


def is_true(svm, X, Y, C):
    F = latent_objective(svm.task_, X, Y, svm.coef_, C, outputs=svm.task_.outputs)
    assert svm.objective_ * (1 + 1e-9) >= F
    assert svm.certificate_ == "local"
    return F


@pytest.mark.parametrize(
    "solver", [DualCoordinate(), DualCoordinate(oracle="expensive"), CuttingPlane()]
)
@pytest.mark.parametrize("call", [1, 30, 200, 500])
def test_ctrl_c_in_a_convex_step(solver, call):
    X, Y = rows_problem(0)
    task = Pressing("loss_augmented_inference", call)
    svm = LatentStructuredSVM(task, 1.0, tol=1e-9, solver=solver)
    assert interrupted(svm.fit, X, Y).estimator is svm
    assert svm.stop_reason_ == "interrupted"
    assert is_true(svm, X, Y, 1.0) == pytest.approx(svm.objective_, rel=1e-9)
    values = [record["objective"] for record in svm.history_]
    assert svm.objective_ <= min(values) * (1 + 1e-12)


@pytest.mark.parametrize("call", [30, 55, 80])
def test_ctrl_c_while_completing(call):
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(Pressing("complete", call), 1.0, tol=1e-9)
    interrupted(svm.fit, X, Y)
    assert svm.stop_reason_ == "interrupted"
    is_true(svm, X, Y, 1.0)  # an upper bound at least: the convex objective
    assert np.isfinite(svm.coef_).all()


def test_a_second_ctrl_c():
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(Pressing("loss_augmented_inference", 20, 30), 1.0)
    interrupted(svm.fit, X, Y)
    assert svm.stop_reason_ == "interrupted"
    assert np.isfinite(svm.coef_).all()


def test_limits():
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(WrongRows(), 1.0, tol=1e-9, max_iter=2).fit(X, Y)
    assert (svm.stop_reason_, svm.n_iter_) == ("max_iter", 2)
    is_true(svm, X, Y, 1.0)

    class Slow(WrongRows):
        def loss_augmented_inference(self, x, y, w):
            time.sleep(1e-3)
            return super().loss_augmented_inference(x, y, w)

    began = time.perf_counter()
    svm = LatentStructuredSVM(Slow(), 1.0, tol=1e-12, max_seconds=0.2).fit(X, Y)
    assert svm.stop_reason_ == "max_seconds"
    assert time.perf_counter() - began < 5.0
    is_true(svm, X, Y, 1.0)


def test_callbacks_hear_every_iteration_and_can_stop():
    X, Y = rows_problem(0)
    records = []

    def watch(record):
        records.append(record)
        return len(records) == 9

    svm = LatentStructuredSVM(WrongRows(), 1.0, tol=1e-9, callbacks=[watch]).fit(X, Y)
    assert svm.stop_reason_ == "callback"
    assert [r.iteration for r in records] == list(range(1, 10))
    assert all(r.lower_bound == -np.inf for r in records)
    assert svm.n_iter_ < 9
    is_true(svm, X, Y, 1.0)


def test_a_warm_start_never_ends_higher():
    X, Y = rows_problem(3)
    svm = LatentStructuredSVM(WrongRows(), 1.0, tol=0.2, max_iter=1, warm_start=True).fit(X, Y)
    values = [svm.objective_]
    for _ in range(5):
        values.append(svm.fit(X, Y).objective_)
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(values))
    assert values[-1] < values[0]
