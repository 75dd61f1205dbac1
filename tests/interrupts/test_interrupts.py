"""Ctrl-C, limits and callbacks leave the best point with true bounds; after Ctrl-C the caller hears of it."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from tests.ctrl_c import interrupted
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    LinearSVC,
    LinearSVCCV,
    SequenceTagger,
    StructuredSVM,
    minimize,
    return_on_interrupt,
    svc_path,
)
from maxmargin.core import interrupts
from maxmargin.estimators.linear import grid_paths as _grid_runners
from maxmargin.estimators.linear.problem import LinearModel
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, minimization, session
from maxmargin.testing import binary_objective, structured_objective

X, Y = load_breast_cancer(return_X_y=True)
SIGNED = np.where(Y == 1, 1.0, -1.0)


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

    error = interrupted(
        LinearSVC(C=1e4, tol=1e-15, n_jobs=jobs, callbacks=[press], loss="hinge").fit, X, Y
    )
    svc = error.estimator
    assert svc.stop_reason_ == "interrupted"
    assert f"gap {svc.gap_:.2g}" in error.__notes__[0]
    assert not svc.converged_
    F = binary_objective(svc.coef_[0], svc.intercept_[0], X, SIGNED, 1e4)
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    assert svc.lower_bound_ < svc.objective_
    assert svc.objective_ <= svc.history_[-1]["objective"] * (1 + 1e-12)
    assert svc.score(X, Y) > 0.5


@pytest.mark.parametrize(
    "solver", [DualCoordinate(), DualCoordinate(batch_size="all"), CuttingPlane()]
)
def test_ctrl_c_in_a_python_oracle(solver):
    inputs, outputs = examples()
    svm = StructuredSVM(Pressing(100), 10.0, tol=1e-12, solver=solver)
    assert interrupted(svm.fit, inputs, outputs).estimator is svm
    assert svm.stop_reason_ == "interrupted"
    F = structured_objective(svm.task_, inputs, outputs, svm.coef_, 10.0)
    assert svm.objective_ == pytest.approx(F, rel=1e-9)
    assert 0.0 <= svm.lower_bound_ <= svm.objective_
    assert svm.objective_ <= 10.0 * len(outputs)  # never worse than the start, w = 0


def test_a_second_ctrl_c_skips_the_confirming_pass():
    inputs, outputs = examples()
    error = interrupted(StructuredSVM(Pressing(20, 45), 10.0, tol=1e-12).fit, inputs, outputs)
    svm = error.estimator
    assert "objective not evaluated" in error.__notes__[0]
    assert svm.stop_reason_ == "interrupted"
    assert np.isnan(svm.objective_)
    assert svm.gap_ == np.inf
    assert not svm.converged_
    assert np.isfinite(svm.coef_).all()
    assert len(svm.predict(inputs)) == len(inputs)


def test_time_limit():
    start = time.perf_counter()
    slowly = [lambda record: time.sleep(0.1)]
    svc = LinearSVC(C=1e4, tol=1e-15, max_seconds=0.3, callbacks=slowly, loss="hinge").fit(X, Y)
    assert svc.stop_reason_ == "max_seconds"
    assert time.perf_counter() - start < 5.0
    assert svc.lower_bound_ <= svc.objective_


@pytest.mark.parametrize(
    "solver", [DualCoordinate(), DualCoordinate(batch_size="all"), CuttingPlane()]
)
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
        LinearSVC(callbacks=[broken], loss="hinge").fit(X, Y)


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


@pytest.fixture
def grid():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 20))
    return rows, rows[:, 0] + rng.normal(size=3000) > 0


def test_ctrl_c_in_a_grid_keeps_the_settings_that_are_done(grid):
    Cs = np.geomspace(1e-4, 1e4, 50)
    search = LinearSVCCV(Cs=[1.0], cv=3, loss="hinge").fit(*grid)
    search.set_params(Cs=Cs, prune=True, scoring=CtrlC(20))
    error = interrupted(search.fit, *grid)
    assert error.estimator is search
    assert "6 of 50 settings" in error.__notes__[0]
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores[:6]).all()
    assert np.isnan(scores[6:]).all()
    assert (search.cv_results_["split0_gap"][:6] <= 1e-3).all()
    assert search.best_params_["C"] == Cs[5]
    # nothing is refitted, and nothing of the fit before is left
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "coef_")


def test_a_grid_returns_the_best_of_what_is_done_where_that_is_asked(grid):
    search = LinearSVCCV(
        Cs=np.geomspace(1e-4, 1e4, 50), cv=3, prune=True, scoring=CtrlC(20), loss="hinge"
    )
    with return_on_interrupt(), pytest.warns(ConvergenceWarning, match=r"interrupted: 6 of 50"):
        search.fit(*grid)
    assert search.best_params_["C"] == search.cv_results_["param_C"][5]
    assert search.best_params_["C"] == search.best_estimator_.C
    assert search.predict(grid[0]).shape == (3000,)


def test_ctrl_c_in_the_last_fit_of_a_grid(grid, monkeypatch):
    """All cells are done; the last fit keeps its best point."""
    fit = LinearSVC._fit

    def press(self, *args, **options):
        self.callbacks, self.tol = [raise_ctrl_c], 1e-12
        return fit(self, *args, **options)

    monkeypatch.setattr(LinearSVC, "_fit", press)
    search = LinearSVCCV(Cs=[0.1, 1.0], cv=3, loss="hinge")
    assert interrupted(search.fit, *grid).estimator is search
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.stop_reason_ == "interrupted"
    assert search.predict(grid[0]).shape == (3000,)


def raise_ctrl_c(record):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("returns", [False, True])
def test_ctrl_c_before_any_setting_is_done_is_ctrl_c(grid, monkeypatch, returns):
    """Pressed at a known call: one that falls into a callback of the garbage collector is forgotten."""
    solved = []

    def press(*args, **options):
        solved.append(args[1])
        if len(solved) == 5:
            signal.raise_signal(signal.SIGINT)
        return minimization.solve(*args, **options)

    monkeypatch.setattr(_grid_runners, "solve", press)
    search = LinearSVCCV(Cs=np.geomspace(1e-4, 1e4, 50), cv=3, loss="hinge")
    with return_on_interrupt() if returns else nullcontext():
        interrupted(search.fit, *grid)  # fold by fold: the first one is not through
    assert len(solved) == 5
    assert np.isfinite(search.cv_results_["split0_test_score"]).sum() == 4
    assert not hasattr(search, "best_params_")


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
    result = interrupted(solve).result
    assert result.stop_reason == "interrupted"
    assert result.converged
    assert result.objective == whole.objective
    assert result.lower_bound == whole.lower_bound


def test_ctrl_c_in_a_path_ends_it():
    def press(record):
        if record.C == 1.0:
            signal.raise_signal(signal.SIGINT)

    error = interrupted(svc_path, X, Y, [10.0, 1e-4, 1.0], tol=1e-6, callbacks=[press])
    assert [svc.C for svc in error.result] == [1e-4, 1.0]
    assert [svc.stop_reason_ for svc in error.result] == ["gap", "interrupted"]
    assert error.estimator is error.result[1]
    assert error.estimator.predict(X).shape == Y.shape


def test_return_on_interrupt():
    svc = LinearSVC(C=1e4, tol=1e-15, callbacks=[raise_ctrl_c], loss="hinge")
    risk = ScoreRisk(X, SIGNED, Hinge())
    with return_on_interrupt():
        with return_on_interrupt():
            assert svc.fit(X, Y) is svc
        assert svc.stop_reason_ == "interrupted"
        assert [
            one.C for one in svc_path(X, Y, [1.0, 2.0], callbacks=[raise_ctrl_c], loss="hinge")
        ] == [1.0]
        assert minimize(risk, 1.0, callbacks=[raise_ctrl_c]).stop_reason == "interrupted"
    assert interrupted(svc.fit, X, Y).estimator is svc
    assert interrupted(minimize, risk, 1.0, callbacks=[raise_ctrl_c]).result.w.shape == (30,)


def test_return_on_interrupt_is_this_threads_own():
    with return_on_interrupt():
        assert threads_answer() is False
        assert interrupts._RETURNS.get() is True
    assert interrupts._RETURNS.get() is False


def threads_answer():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(interrupts._RETURNS.get).result()


@pytest.mark.parametrize("returns", [False, True])
def test_a_fit_inside_a_fit_does_not_keep_the_interrupt_to_itself(returns):
    """Ctrl-C during a fit that a user's oracle makes ends the fit around it."""
    inputs, outputs = examples()

    class Nested(TinyMulticlass):
        calls = 0

        def loss_augmented_inference(self, x, y, w):
            Nested.calls += 1
            if Nested.calls == 100:
                LinearSVC(C=1e4, tol=1e-15, callbacks=[raise_ctrl_c], loss="hinge").fit(X, Y)
            return super().loss_augmented_inference(x, y, w)

    svm = StructuredSVM(Nested(), 10.0, tol=1e-12)
    if returns:
        with return_on_interrupt():
            svm.fit(inputs, outputs)
    else:
        assert interrupted(svm.fit, inputs, outputs).estimator is svm
    assert svm.stop_reason_ == "interrupted"
    assert Nested.calls <= 100 + 2 * len(outputs)


def test_ctrl_c_before_a_solver_began_has_nothing_to_attach():
    class Rows:
        def __array__(self, *args, **options):
            raise KeyboardInterrupt

    error = interrupted(LinearSVC(loss="hinge").fit, Rows(), Y)
    assert not hasattr(error, "estimator")


def test_ctrl_c_before_the_weights_are_stored_leaves_no_bounds_of_others(monkeypatch):
    """The weights are still those of the fit before, of which the new bounds say nothing."""
    svc = LinearSVC(C=1e-3, loss="hinge").fit(X, Y)
    before = svc.coef_.copy()
    with monkeypatch.context() as patch:
        patch.setattr(LinearModel, "attributes", raise_ctrl_c_in_a_method)
        interrupted(svc.set_params(C=10.0).fit, X, Y)
    assert np.array_equal(svc.coef_, before)
    assert np.isnan(svc.objective_)
    assert (svc.lower_bound_, svc.gap_, svc.converged_) == (-np.inf, np.inf, False)


def test_ctrl_c_in_the_model_that_completes_labels(monkeypatch):
    rng = np.random.default_rng(1)
    S = [rng.normal(size=(4, 3)) for _ in range(20)]
    L = [list((s + rng.normal(size=s.shape)).argmax(axis=1)) for s in S]
    L[0][0] = None
    monkeypatch.setattr(session.Session, "report", raise_ctrl_c_in_a_method)
    error = interrupted(SequenceTagger(partial="complete").fit, S, L)
    assert error.result.stop_reason == "interrupted"
    assert "first model" in error.__notes__[-1]


def raise_ctrl_c_in_a_method(self, *args, **kwargs):
    signal.raise_signal(signal.SIGINT)
