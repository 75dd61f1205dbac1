"""Ctrl-C, limits and callbacks return the best point with true bounds."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from maxmargin import LinearSVC, LinearSVCCV, SequenceTagger, StructuredSVM, minimize
from maxmargin.estimators import _grid_runners
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.testing import binary_objective, structured_objective
from maxmargin.testing.examples import TinyMulticlass

X, Y = load_breast_cancer(return_X_y=True)
SIGNED = np.where(Y == 1, 1.0, -1.0)


@pytest.fixture(autouse=True)
def listen_to_ctrl_c():
    """A process started in the background by a shell ignores SIGINT; these tests must hear it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Pressing(TinyMulticlass):
    """Ctrl-C is pressed while the argmax is called for these times."""

    def __init__(self, *calls):
        super().__init__()
        self.calls, self.count = calls, 0

    def loss_augmented_inference(self, x, y, w):
        self.count += 1
        if self.count in self.calls:
            signal.raise_signal(signal.SIGINT)
        return super().loss_augmented_inference(x, y, w)


def examples(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return list(X), list((X + 0.5 * rng.normal(size=X.shape)).argmax(axis=1))


@pytest.mark.parametrize("jobs", [None, 2])
def test_ctrl_c_in_a_linear_fit(jobs):
    def press(record):
        if record.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    svc = LinearSVC(C=1e4, tol=1e-15, n_jobs=jobs, callbacks=[press]).fit(X, Y)
    assert svc.stop_reason_ == "interrupted"
    assert not svc.converged_
    F = binary_objective(svc.coef_[0], svc.intercept_[0], X, SIGNED, 1e4)
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    assert svc.lower_bound_ < svc.objective_
    assert svc.objective_ <= svc.history_[-1]["objective"] * (1 + 1e-12)
    assert svc.score(X, Y) > 0.5


@pytest.mark.parametrize("solver", [DualCoordinate(), DualCoordinate(mode="batch"), CuttingPlane()])
def test_ctrl_c_in_a_python_oracle(solver):
    inputs, outputs = examples()
    svm = StructuredSVM(Pressing(100), 10.0, tol=1e-12, solver=solver).fit(inputs, outputs)
    assert svm.stop_reason_ == "interrupted"
    F = structured_objective(svm.task_, inputs, outputs, svm.coef_, 10.0)
    assert svm.objective_ == pytest.approx(F, rel=1e-9)
    assert 0.0 <= svm.lower_bound_ <= svm.objective_
    assert svm.objective_ <= 10.0 * len(outputs)  # never worse than the start, w = 0


def test_a_second_ctrl_c_skips_the_confirming_pass():
    inputs, outputs = examples()
    svm = StructuredSVM(Pressing(20, 45), 10.0, tol=1e-12).fit(inputs, outputs)
    assert svm.stop_reason_ == "interrupted"
    assert np.isnan(svm.objective_)
    assert svm.gap_ == np.inf
    assert not svm.converged_
    assert np.isfinite(svm.coef_).all()


def test_a_real_terminal_interrupt_leaves_a_usable_model():
    code = textwrap.dedent(
        """
        import signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from sklearn.datasets import load_breast_cancer
        from maxmargin import LinearSVC
        X, y = load_breast_cancer(return_X_y=True)
        LinearSVC(max_iter=2).fit(X, y)
        print("ready", flush=True)
        slowly = [lambda record: time.sleep(0.2)]
        svc = LinearSVC(C=1e4, tol=1e-15, callbacks=slowly).fit(X, y)
        print(svc.stop_reason_, svc.lower_bound_ <= svc.objective_, flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "ready"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out.split() == ["interrupted", "True"]
    assert child.returncode == 0


def test_time_limit():
    start = time.perf_counter()
    slowly = [lambda record: time.sleep(0.1)]
    svc = LinearSVC(C=1e4, tol=1e-15, max_seconds=0.3, callbacks=slowly).fit(X, Y)
    assert svc.stop_reason_ == "max_seconds"
    assert time.perf_counter() - start < 5.0
    assert svc.lower_bound_ <= svc.objective_


@pytest.mark.parametrize("solver", [DualCoordinate(), DualCoordinate(mode="batch"), CuttingPlane()])
def test_iteration_limit_of_structures_ends_with_a_confirming_pass(solver):
    inputs, outputs = examples()
    svm = StructuredSVM(TinyMulticlass(), 1.0, tol=1e-9, max_iter=2, solver=solver)
    svm.fit(inputs, outputs)
    assert svm.stop_reason_ == "max_iter"
    assert svm.n_iter_ == 2
    F = structured_objective(svm.task_, inputs, outputs, svm.coef_, 1.0)
    assert svm.objective_ == pytest.approx(F, rel=1e-9)


def test_an_error_in_a_callback_is_the_users_to_see():
    def broken(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        LinearSVC(callbacks=[broken]).fit(X, Y)


def test_the_tagger_keeps_its_best_point_too():
    rng = np.random.default_rng(1)
    S = [rng.normal(size=(4, 3)) for _ in range(50)]
    L = [(s + rng.normal(size=s.shape)).argmax(axis=1) for s in S]
    short = SequenceTagger(1.0, tol=1e-9, max_iter=1).fit(S, L)
    long = SequenceTagger(1.0, tol=1e-3).fit(S, L)
    assert short.lower_bound_ <= long.objective_ * (1 + 1e-12)
    assert long.lower_bound_ <= short.objective_


class CtrlC:
    """A score that rises with C; Ctrl-C is pressed while the n-th one is computed."""

    def __init__(self, n):
        self.left = n

    def __call__(self, estimator, rows, labels):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return float(np.log(estimator.C))


def test_ctrl_c_in_a_grid_keeps_the_settings_that_are_done():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 20))
    labels = rows[:, 0] + rng.normal(size=3000) > 0
    Cs = np.geomspace(1e-4, 1e4, 50)
    with pytest.warns(UserWarning, match=r"interrupted: 6 of 50"):
        search = LinearSVCCV(Cs=Cs, cv=3, prune=True, scoring=CtrlC(20)).fit(rows, labels)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores[:6]).all()
    assert np.isnan(scores[6:]).all()
    assert (search.cv_results_["split0_gap"][:6] <= 1e-3).all()
    assert search.best_params_["C"] == Cs[5]
    assert search.predict(rows).shape == (3000,)


def test_ctrl_c_before_any_setting_is_done_is_ctrl_c(monkeypatch):
    """Pressed at a known call: one that falls into a callback of the garbage collector is forgotten."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 20))
    labels = rows[:, 0] + rng.normal(size=3000) > 0
    solved = []

    def press(*args, **options):
        solved.append(args[1])
        if len(solved) == 5:
            signal.raise_signal(signal.SIGINT)
        return minimize(*args, **options)

    monkeypatch.setattr(_grid_runners, "minimize", press)
    with pytest.raises(KeyboardInterrupt):  # fold by fold: the first one is not through
        LinearSVCCV(Cs=np.geomspace(1e-4, 1e4, 50), cv=3).fit(rows, labels)
    assert len(solved) == 5


def test_ctrl_c_in_the_confirming_pass_is_heard():
    """The fit is over by then and loses nothing, but a path or a grid around it must stop."""

    class Pressed(Hinge):
        calls, press_at = 0, 0

        def value(self, scores, y, weight):
            Pressed.calls += 1
            if Pressed.calls == Pressed.press_at:
                signal.raise_signal(signal.SIGINT)
            return super().value(scores, y, weight)

    def solve():
        return minimize(ScoreRisk(X, SIGNED, Pressed()), 1e-3, solver=CuttingPlane())

    whole = solve()
    Pressed.calls, Pressed.press_at = 0, Pressed.calls  # the last question is the confirming pass
    result = solve()
    assert result.stop_reason == "interrupted"
    assert result.converged
    assert result.objective == whole.objective
    assert result.lower_bound == whole.lower_bound
