"""Paths and grids of structured models: every cell is a certified fit, and all together are cheap."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from tests.ctrl_c import interrupted
from tests.data import datasets, require
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import StructuredSVM, StructuredSVMCV, minimize, return_on_interrupt, structured_path
from maxmargin.risks import TaskRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Chain
from maxmargin.testing import structured_objective

CS = [1e-3, 1e-2, 0.1, 1.0, 10.0]


def classes(n=60, d=4, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + 0.7 * rng.normal(size=(n, K))).argmax(axis=1)
    return list(X), [int(label) for label in y]


def chains(n=40, length=4):
    rng = np.random.default_rng(1)
    Y = [tuple(int(v) for v in rng.integers(0, 3, length)) for _ in range(n)]
    return [np.eye(3)[list(y)] + 1.0 * rng.normal(size=(length, 3)) for y in Y], Y


PROBLEMS = {
    "plain, dense": (TinyMulticlass(), classes()),
    "plain, sparse": (TinyChain(), chains(20, 3)),
    "compiled": (Chain(3), chains()),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "solver",
    [DualCoordinate(), DualCoordinate(oracle="expensive"), DualCoordinate(batch_size="all")],
    ids=str,
)
def test_every_fit_of_a_path_is_certified(name, solver):
    task, (X, y) = PROBLEMS[name]
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(y)).round(1)
    order = [CS[k] for k in (2, 0, 4, 1, 3)]
    path = structured_path(task, X, y, order, sample_weight=weight, tol=1e-3, solver=solver)
    for svm, C in zip(path, order, strict=True):
        assert svm.C == C
        assert svm.converged_
        F = structured_objective(svm.task_, X, y, svm.coef_, C, weight)
        assert svm.objective_ == pytest.approx(F, rel=1e-9)
        cold = StructuredSVM(task, C, tol=1e-3, solver=solver).fit(X, y, sample_weight=weight)
        assert svm.lower_bound_ <= cold.objective_ * (1 + 1e-9)
        assert cold.lower_bound_ <= svm.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("oracle", ["cheap", "expensive"])
def test_all_values_cost_at_most_two_hard_fits(name, oracle):
    task, (X, y) = PROBLEMS[name]
    solver = DualCoordinate(oracle)
    path = structured_path(task, X, y, CS, tol=1e-2, solver=solver)
    hard = StructuredSVM(task, CS[-1], tol=1e-2, solver=solver).fit(X, y)
    calls = sum(svm.history_[-1]["oracle_calls"] for svm in path)
    assert calls <= 2.0 * hard.history_[-1]["oracle_calls"]


@pytest.mark.data
def test_all_values_cost_at_most_two_hard_fits_on_letters():
    X, Y, folds = require(datasets.ocr_letters)
    some = np.flatnonzero(folds == 0)
    X, Y = [X[i] for i in some], [Y[i] for i in some]
    Cs = [1e-4, 1e-3, 1e-2, 1e-1]
    path = structured_path(Chain(26), X, Y, Cs)
    hard = StructuredSVM(Chain(26), Cs[-1]).fit(X, Y)
    calls = sum(svm.history_[-1]["oracle_calls"] for svm in path)
    assert calls <= 2.0 * hard.history_[-1]["oracle_calls"]


def test_a_path_of_cutting_planes():
    X, y = classes()
    path = structured_path(TinyMulticlass(), X, y, [0.01, 0.1], tol=1e-2, solver=CuttingPlane())
    assert all(svm.converged_ for svm in path)


@pytest.mark.parametrize("params", [{}, {"oracle": "expensive"}, {"nonnegative": [0, 5]}], ids=str)
def test_the_grid_is_the_one_of_scikit_learn(params):
    X, y = classes()
    Cs, folds = [0.01, 0.1, 1.0], KFold(3, shuffle=True, random_state=0)
    ours = StructuredSVMCV(TinyMulticlass(), Cs, cv=folds, tol=1e-5, **params).fit(X, y)
    theirs = GridSearchCV(
        StructuredSVM(TinyMulticlass(), tol=1e-5, **params), {"C": Cs}, cv=folds
    ).fit(np.array(X), np.array(y))
    for k in range(3):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=0.051)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.02
    )
    assert set(ours.cv_results_) >= {"params", "param_C", "rank_test_score", "mean_fit_time"}
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    whole = StructuredSVM(TinyMulticlass(), ours.best_params_["C"], tol=1e-5, **params).fit(X, y)
    assert ours.best_estimator_.converged_
    assert ours.best_estimator_.lower_bound_ <= whole.objective_
    assert whole.lower_bound_ <= ours.best_estimator_.objective_
    np.testing.assert_allclose(ours.coef_, whole.coef_, atol=2e-2)
    assert len(ours.predict(X)) == len(X)
    assert ours.score(X, y) == ours.best_estimator_.score(X, y)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_cell_is_a_certified_fit_of_its_fold(name):
    task, (X, y) = PROBLEMS[name]
    Cs = [0.01, 0.3]
    splits = list(ShuffleSplit(3, test_size=0.4, random_state=1).split(X))
    search = StructuredSVMCV(task, Cs, cv=splits, tol=1e-2, refit=False).fit(X, y)
    for k, (train, _) in enumerate(splits):
        for i, C in enumerate(Cs):
            fold = [X[j] for j in train], [y[j] for j in train]
            alone = StructuredSVM(task, C, tol=1e-2).fit(*fold)
            objective = search.cv_results_[f"split{k}_objective"][i]
            lower = search.cv_results_[f"split{k}_lower_bound"][i]
            assert search.cv_results_[f"split{k}_converged"][i]
            assert lower <= alone.objective_ * (1 + 1e-9)
            assert alone.lower_bound_ <= objective * (1 + 1e-9)


def test_folds_share_what_the_argmax_said():
    X, y = classes(120)
    cv = KFold(4)
    search = StructuredSVMCV(TinyMulticlass(), CS, cv=cv, tol=1e-2, refit=False).fit(X, y)
    alone = sum(
        StructuredSVM(TinyMulticlass(), C, tol=1e-2)
        .fit([X[i] for i in train], [y[i] for i in train])
        .history_[-1]["oracle_calls"]
        * len(train)
        / len(X)
        for train, _ in cv.split(X)
        for C in CS
    )
    assert search.oracle_calls_ <= 0.6 * alone


def test_own_scoring_and_clone():
    X, y = classes()
    seen = []

    def scoring(estimator, X, Y):
        seen.append(len(Y))
        return float(np.mean(np.array(estimator.predict(X)) == np.array(Y)))

    search = StructuredSVMCV(TinyMulticlass(), 2, cv=3, scoring=scoring)
    search = clone(search).fit(X, y)
    assert seen == [20] * 6
    assert 0.3 < search.best_score_ <= 1.0
    with pytest.raises(ValueError, match="X has 60 examples but y has 59"):
        search.score(X, y[:-1])


def test_what_cannot_be_is_named():
    X, y = classes()
    risks = []
    for n in (60, 50):
        task = TinyMulticlass()
        risks.append(TaskRisk(task, X[:n], y[:n], task.setup(X, y)))
    first = minimize(risks[0], 0.1, solver=DualCoordinate())
    with pytest.raises(ValueError, match="60 examples; the risk has 50"):
        minimize(risks[1], 0.1, solver=DualCoordinate(), start=first)
    with pytest.raises(ValueError, match="use a function or None"):
        StructuredSVMCV(TinyMulticlass(), scoring="accuracy").fit(X, y)
    with pytest.raises(ValueError, match="positive numbers"):
        StructuredSVMCV(TinyMulticlass(), [0.0, 1.0]).fit(X, y)
    with pytest.raises(ValueError, match="use a list of positive numbers"):
        structured_path(TinyMulticlass(), X, y, [])


class Interrupting(TinyMulticlass):
    """Presses Ctrl-C in its n-th prediction."""

    calls = 0

    def inference(self, x, w):
        type(self).calls += 1
        if type(self).calls == 70:
            raise KeyboardInterrupt
        return super().inference(x, w)


def test_ctrl_c_keeps_what_is_done(monkeypatch):
    X, y = classes()
    search = StructuredSVMCV(Interrupting(), [0.01, 0.1, 1.0], cv=3)
    error = interrupted(search.fit, X, y)
    assert error.estimator is search
    assert "1 of 3 settings" in error.__notes__[0]
    assert search.best_params_ == {"C": 0.01}
    assert np.isnan(search.cv_results_["mean_test_score"][1:]).all()
    assert not hasattr(search, "best_estimator_")  # nothing is refitted
    monkeypatch.setattr(Interrupting, "calls", 0)
    with return_on_interrupt(), pytest.warns(ConvergenceWarning, match=r"interrupted: 1 of 3"):
        search.fit(X, y)
    assert search.best_estimator_.C == 0.01


def test_ctrl_c_in_a_path_ends_it():
    X, y = classes()
    seen = []

    def press(record):
        seen.append(record.C)
        if seen.count(1.0) == 1:
            raise KeyboardInterrupt

    options = {"tol": 1e-6, "callbacks": [press]}
    error = interrupted(structured_path, TinyMulticlass(), X, y, [10.0, 1.0, 0.1], **options)
    assert [svm.C for svm in error.result] == [1.0, 0.1]
    assert [svm.stop_reason_ for svm in error.result] == ["interrupted", "gap"]
    assert error.estimator is error.result[0]
    assert error.estimator.predict(X[:3])
    seen.clear()
    with return_on_interrupt():
        path = structured_path(TinyMulticlass(), X, y, [10.0, 1.0, 0.1], **options)
    assert [svm.C for svm in path] == [1.0, 0.1]
