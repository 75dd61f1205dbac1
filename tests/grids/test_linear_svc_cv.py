"""LinearSVCCV: scikit-learn's rules, the same answers as a loop of fits, and true bounds per cell."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.model_selection._search import BaseSearchCV
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import estimator_checks_generator

from maxmargin import LinearSVC, LinearSVCCV, svc_path
from maxmargin.estimators.linear.grid_paths import order_rows
from maxmargin.solvers import auto
from maxmargin.testing import binary_objective

CS = [0.003, 0.03, 0.3]
WEIGHTS = [None, "balanced", {0: 3.0, 1: 0.5}]


def cancer(rows: Any = slice(None)) -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[rows], y[rows]


CHECKS = list(
    estimator_checks_generator(
        LinearSVCCV(Cs=[0.1, 1.0], cv=2, loss="hinge"),
        mark="skip",
        expected_failed_checks={
            "check_sample_weight_equivalence_on_dense_data": "folds are made from rows",
            "check_sample_weight_equivalence_on_sparse_data": "folds are made from rows",
        },
    )
)


def test_programs_that_know_searches_use_it_as_one() -> None:
    """As mokapot does: search without a refit, then train ``estimator`` with ``best_params_``."""
    X, y = cancer()
    search = LinearSVCCV(Cs=CS, class_weights=WEIGHTS, cv=3, loss="squared_hinge", tol=1e-4)
    assert isinstance(search, BaseSearchCV)
    assert not isinstance(LinearSVC(loss="hinge"), BaseSearchCV)
    search = clone(search).set_params(refit=False).fit(X, y)
    again = search.estimator.set_params(**search.best_params_).fit(X, y)
    best = clone(search).set_params(refit=True).fit(X, y).best_estimator_
    assert again.get_params() == best.get_params()
    np.testing.assert_array_equal(again.coef_, best.coef_)
    assert search.estimator.C == LinearSVC(loss="hinge").C  # a new one every time


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CHECKS)))
def test_scikit_learn_checks(number: int) -> None:
    estimator, check = CHECKS[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("kind", ["dense", "float32", "csr"])
def test_same_scores_as_a_loop_of_fits(kind: str) -> None:
    X, y = cancer()
    X = {"dense": X, "float32": X.astype(np.float32), "csr": sp.csr_matrix(X)}[kind]
    search = LinearSVCCV(CS, class_weights=WEIGHTS, tol=1e-5, scoring="roc_auc", loss="hinge")
    found = search.fit(X, y).cv_results_
    loop = GridSearchCV(
        LinearSVC(tol=1e-5, loss="hinge"), {"C": CS, "class_weight": WEIGHTS}, scoring="roc_auc"
    ).fit(X, y)
    for row, params in enumerate(found["params"]):
        other = loop.cv_results_["params"].index(params)
        for k in range(5):
            expected = loop.cv_results_[f"split{k}_test_score"][other]
            assert found[f"split{k}_test_score"][row] == pytest.approx(expected, abs=2e-3)
    assert search.best_score_ == pytest.approx(loop.best_score_, abs=1e-3)


@pytest.mark.parametrize("penalize", [True, False])
def test_bounds_of_every_cell_enclose_an_independent_fit(penalize: bool) -> None:
    X, y = cancer()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    search = LinearSVCCV(
        CS, class_weights=WEIGHTS, cv=3, penalize_intercept=penalize, refit=False, loss="hinge"
    )
    found = search.fit(X, y, sample_weight=weight).cv_results_
    for k, (train, _) in enumerate(StratifiedKFold(3).split(X, y)):
        for row, params in enumerate(found["params"]):
            svc = LinearSVC(**params, tol=1e-6, penalize_intercept=penalize, loss="hinge")
            svc.fit(X[train], y[train], sample_weight=weight[train])
            slack = 1e-9 * svc.objective_
            assert found[f"split{k}_converged"][row]
            assert found[f"split{k}_gap"][row] <= 1e-3
            assert found[f"split{k}_lower_bound"][row] <= svc.objective_ + slack
            assert svc.lower_bound_ <= found[f"split{k}_objective"][row] + slack


def test_refit_is_the_certified_fit_of_the_best_setting() -> None:
    X, y = cancer()
    search = LinearSVCCV(CS, class_weights=WEIGHTS[:2], loss="hinge").fit(X, y)
    best = search.best_estimator_
    assert {k: best.get_params()[k] for k in ("C", "class_weight")} == search.best_params_
    counts = np.bincount(y)
    factors = np.ones(2) if search.best_params_["class_weight"] is None else len(y) / (2 * counts)
    F = binary_objective(
        search.coef_, float(search.intercept_[0]), X, 2 * y - 1, best.C, factors[y]
    )
    assert best.lower_bound_ <= F <= best.lower_bound_ * (1 + 2e-3)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    np.testing.assert_array_equal(search.decision_function(X), best.decision_function(X))
    assert search.best_index_ == search.cv_results_["rank_test_score"].argmin()
    assert search.score(X, y) > 0.95


def test_results_are_named_as_by_grid_search() -> None:
    X, y = cancer(slice(0, 200))
    ours = LinearSVCCV(CS, cv=3, loss="hinge").fit(X, y).cv_results_
    theirs = GridSearchCV(LinearSVC(loss="hinge"), {"C": CS, "class_weight": [None]}, cv=3).fit(
        X, y
    )
    missing = set(theirs.cv_results_) - set(ours)
    assert missing <= {"mean_score_time", "std_score_time"}
    assert ours["params"] == theirs.cv_results_["params"]
    for name in ("param_C", "mean_test_score", "std_test_score", "rank_test_score"):
        assert len(ours[name]) == 3
    assert (ours["mean_fit_time"] > 0).all()


@pytest.mark.parametrize(
    "cv",
    [
        KFold(3, shuffle=True, random_state=0),
        ShuffleSplit(4, random_state=0),
        TimeSeriesSplit(3),
        PredefinedSplit([0, 1, -1, 0] * 50),
        [(np.r_[0:100, 0:100], np.arange(100, 200))],
        StratifiedKFold(25),
    ],
)
def test_any_splitter(cv: Any) -> None:
    X, y = cancer(slice(0, 200))
    search = LinearSVCCV([0.01, 0.1], cv=cv, tol=1e-6, loss="hinge").fit(X, y)
    loop = GridSearchCV(
        LinearSVC(tol=1e-6, loss="hinge"), {"C": [0.01, 0.1]}, cv=cv, scoring="roc_auc"
    )
    search.set_params(scoring="roc_auc").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop.fit(X, y)
    for k in range(search.n_splits_):
        np.testing.assert_allclose(
            search.cv_results_[f"split{k}_test_score"],
            loop.cv_results_[f"split{k}_test_score"],
            atol=2e-3,
        )


def test_proportional_weights_are_one_problem() -> None:
    X, y = cancer()
    weights = [{0: a, 1: b} for a in (0.1, 1.0) for b in (0.1, 1.0)]
    found = (
        LinearSVCCV([0.1, 1.0], class_weights=weights, refit=False, loss="hinge")
        .fit(X, y)
        .cv_results_
    )
    rows = {(p["C"], *p["class_weight"].values()): k for k, p in enumerate(found["params"])}
    # C = 1 with factors of 0.1 is C = 0.1 with factors of 1
    a, b = rows[1.0, 0.1, 0.1], rows[0.1, 1.0, 1.0]
    for k in range(5):
        assert found[f"split{k}_objective"][a] == found[f"split{k}_objective"][b]
        assert found[f"split{k}_test_score"][a] == found[f"split{k}_test_score"][b]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_several_classes(loss: str) -> None:
    X, y = load_iris(return_X_y=True)
    search = LinearSVCCV([0.01, 0.1, 1.0], loss=loss, class_weights=[None, "balanced"]).fit(X, y)
    assert search.coef_.shape == (3, 4)
    assert all(search.cv_results_[f"split{k}_converged"].all() for k in range(5))
    assert search.best_score_ > 0.9
    train = next(StratifiedKFold(5).split(X, y))[0]
    alone = LinearSVC(C=1.0, loss=loss, tol=1e-5).fit(X[train], y[train])
    assert search.cv_results_["split0_lower_bound"][2] <= alone.objective_
    assert alone.lower_bound_ <= search.cv_results_["split0_objective"][2]


def test_a_class_missing_from_a_fold_is_a_nan_and_a_warning() -> None:
    X, y = cancer(slice(0, 120))
    order = np.argsort(y, kind="stable")
    cv = [(np.arange(0, 80), np.arange(80, 120)), (np.arange(40, 120), np.arange(0, 40))]
    X, y = X[order], np.r_[np.zeros(80), np.ones(40)]
    search = LinearSVCCV(CS, cv=[*cv, (np.arange(20, 110), np.arange(0, 20))], loss="hinge")
    with (
        pytest.warns(FitFailedWarning, match="3 of 9 cells have score NaN"),
        pytest.raises(ValueError, match="no setting has a score for every fold"),
    ):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    assert not np.isnan(search.cv_results_["split2_test_score"]).any()


def test_pruning_leaves_out_large_C_and_says_so() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 60))
    y = X[:, 0] + 1.5 * rng.normal(size=300) > 0
    Cs = np.logspace(-4, 3, 12)
    full = LinearSVCCV(Cs, refit=False, loss="hinge").fit(X, y)
    search = LinearSVCCV(Cs, prune=True, loss="hinge").fit(X, y)
    scores, whole = (s.cv_results_["mean_test_score"] for s in (search, full))
    left_out = np.isnan(scores)
    assert 0 < left_out.sum() == len(search.pruned_)
    assert [p["C"] for p in search.pruned_] == list(Cs[left_out])
    first = int(np.argmax(left_out))
    assert left_out[first:].all()
    # the rule itself: twice in a row below the best by more than its standard error
    best = int(np.argmax(scores[:first]))
    folds = [search.cv_results_[f"split{k}_test_score"][best] for k in range(5)]
    limit = scores[best] - np.std(folds, ddof=1) / np.sqrt(5)
    low = scores[best:first] < limit
    assert list(np.flatnonzero(low[:-1] & low[1:])) == [len(low) - 2]
    assert search.best_score_ >= whole.max() - 0.01


def test_a_scorer_may_look_at_the_model_itself() -> None:
    X, y = cancer(slice(0, 150))

    def norm(svc: Any, X: Any, y: Any) -> float:
        assert svc.predict(X[:5]).shape == (5,)
        return -float(np.linalg.norm(svc.coef_))

    search = LinearSVCCV(CS, scoring=norm, cv=2, loss="hinge").fit(X, y)
    assert search.best_params_["C"] == CS[0]
    area = make_scorer(roc_auc_score, response_method="decision_function")
    assert LinearSVCCV(CS, scoring=area, cv=2, loss="hinge").fit(X, y).best_score_ > 0.95


def test_workers_change_no_bit() -> None:
    X, y = cancer()
    a, b = (
        LinearSVCCV(CS, class_weights=WEIGHTS, n_jobs=jobs, loss="hinge").fit(X, y)
        for jobs in (None, 2)
    )
    for name in ("split0_objective", "split3_lower_bound", "mean_test_score"):
        np.testing.assert_array_equal(a.cv_results_[name], b.cv_results_[name])
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize("prune", [False, True])
def test_cutting_planes_go_on_where_coordinates_are_slow(
    monkeypatch: pytest.MonkeyPatch, prune: bool
) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 8)) @ rng.normal(size=(8, 8))
    y = X[:, 0] + 4.0 * rng.normal(size=3000) > 0
    Cs = [1e-3, 1.0, 30.0, 1e4]
    alone = LinearSVCCV(Cs, cv=2, tol=1e-5, refit=False, loss="hinge").fit(X, y).cv_results_
    used: set[str] = set()
    phases = auto.plan_on_path

    def seen(problem: Any, last: Any) -> Any:
        out = phases(problem, last)
        used.add(out[0].method)
        return out

    monkeypatch.setattr(auto, "PATH_ROWS", 1_000)
    monkeypatch.setattr(auto, "plan_on_path", seen)
    found = LinearSVCCV(Cs, cv=2, prune=prune, refit=False, loss="hinge").fit(X, y).cv_results_
    assert used == {"coordinate", "cutting planes"}
    for k in range(2):
        assert found[f"split{k}_converged"].all()
        assert (found[f"split{k}_lower_bound"] <= alone[f"split{k}_objective"] * (1 + 1e-9)).all()
        assert (alone[f"split{k}_lower_bound"] <= found[f"split{k}_objective"] * (1 + 1e-9)).all()


@pytest.mark.parametrize("splitter", [StratifiedKFold(4), ShuffleSplit(3, random_state=0)])
def test_ranges_give_each_split_its_own_rows(splitter: Any) -> None:
    y = np.random.default_rng(0).random(300) < 0.4
    trains = [train for train, _ in splitter.split(np.zeros((len(y), 1)), y)]
    order, ranges = order_rows(trains, len(y))
    assert sorted(order) == list(range(len(y)))
    for train, mine in zip(trains, ranges, strict=True):
        assert sorted(np.concatenate([order[lo:hi] for lo, hi in mine])) == sorted(train)
        assert all(a[1] < b[0] for a, b in itertools.pairwise(mine))


def test_an_iteration_limit_leaves_true_bounds() -> None:
    X, y = cancer()
    short = LinearSVCCV([10.0], max_iter=2, refit=False, loss="hinge").fit(X, y).cv_results_
    full = LinearSVCCV([10.0], refit=False, loss="hinge").fit(X, y).cv_results_
    assert not short["split0_converged"][0]
    assert short["split0_lower_bound"][0] <= full["split0_objective"][0]
    assert full["split0_lower_bound"][0] <= short["split0_objective"][0]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"Cs": []}, "positive numbers"),
        ({"Cs": [0.0, 1.0]}, "positive numbers"),
        ({"class_weights": {0: 1.0, 1: 2.0}}, "a list of class weights"),
        ({"class_weights": "balanced"}, "a list of class weights"),
    ],
)
def test_errors_say_what_to_do(params: dict[str, Any], text: str) -> None:
    X, y = cancer()
    with pytest.raises(ValueError, match=text):
        LinearSVCCV(**params).fit(X, y)


def test_without_refit_there_is_nothing_to_predict_with() -> None:
    X, y = cancer(slice(0, 150))
    search = LinearSVCCV(CS, refit=False, cv=2, loss="hinge").fit(X, y)
    with pytest.raises(NotFittedError):
        search.predict(X)
    assert clone(search).get_params() == search.get_params()


@pytest.mark.parametrize(
    "Cs", [5.0, np.float64(5.0), np.array(5), True, 0, -2, [], [[0.1, 1.0]], [1.0, -1.0]]
)
def test_a_number_of_values_is_no_value(Cs):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(
        ValueError, match=r"Cs=.*: use an integer of at least 1 or a list of positive"
    ):
        LinearSVCCV(Cs=Cs).fit(X, y)
    with pytest.raises(ValueError, match=r"Cs=.*: use a list of positive numbers"):
        svc_path(X, y, Cs)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_a_path_of_several_classes_is_that_of_single_fits(loss: str) -> None:
    X, y = load_iris(return_X_y=True)
    for fitted in svc_path(X, y, [0.01, 1.0, 30.0], loss=loss, tol=1e-6):
        single = LinearSVC(C=fitted.C, loss=loss, tol=1e-6).fit(X, y)
        assert fitted.objective_ == pytest.approx(single.objective_, rel=2e-6)
        assert fitted.lower_bound_ <= fitted.objective_ <= fitted.lower_bound_ * (1.0 + 2e-6)
