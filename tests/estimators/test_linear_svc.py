"""LinearSVC takes scikit-learn's place: its law, its tools, its data."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as ScikitSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC
from maxmargin.solvers import CuttingPlane, DualCoordinate


@parametrize_with_checks(
    [
        LinearSVC(loss="hinge"),
        LinearSVC(penalize_intercept=False, loss="hinge"),
        LinearSVC(loss="logistic"),
        LinearSVC(n_jobs=2, solver=CuttingPlane(mu=0.03), loss="hinge"),
    ]
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def test_in_pipelines_searches_and_calibration():
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), LinearSVC(loss="hinge"))
    search = GridSearchCV(pipe, {"linearsvc__C": [0.01, 0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.96
    calibrated = CalibratedClassifierCV(pipe, cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 2)
    assert calibrated.score(X, y) > 0.96
    assert cross_val_score(LinearSVC(loss="hinge"), X, y, cv=3).mean() > 0.93  # unscaled
    X, y = load_iris(return_X_y=True)
    assert OneVsRestClassifier(LinearSVC(loss="hinge")).fit(X, y).score(X, y) > 0.9


def test_same_attributes_as_scikit_learn():
    for loader in (load_breast_cancer, load_iris):
        X, y = loader(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        ours, theirs = LinearSVC().fit(X, y), ScikitSVC().fit(X, y)
        assert ours.coef_.shape == theirs.coef_.shape
        assert ours.intercept_.shape == theirs.intercept_.shape
        assert ours.decision_function(X).shape == theirs.decision_function(X).shape
        np.testing.assert_array_equal(ours.classes_, theirs.classes_)
        assert ours.n_features_in_ == theirs.n_features_in_


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_keep_their_names(package):
    frame = pytest.importorskip(package).DataFrame
    X, y = load_iris(return_X_y=True)
    names = ["a", "b", "c", "d"]
    table = frame(dict(zip(names, X.T, strict=True)))
    svc = LinearSVC(loss="hinge").fit(table, y)
    assert svc.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(svc.predict(table), LinearSVC(loss="hinge").fit(X, y).predict(X))


def test_labels_of_any_kind():
    X, y = load_iris(return_X_y=True)
    for labels in (
        np.array(["x", "y", "z"]),
        np.array([10, -3, 7]),
        np.array(["x", 1, None], object),
    ):
        if labels.dtype == object:
            labels = labels.astype(str)
        svc = LinearSVC(loss="hinge").fit(X, labels[y])
        assert set(svc.predict(X)) <= set(labels.tolist())
        assert svc.score(X, labels[y]) > 0.9
    booleans = LinearSVC(loss="hinge").fit(X, y == 1)
    assert booleans.predict(X).dtype == bool


def test_clone_and_pickle():
    X, y = load_iris(return_X_y=True)
    svc = LinearSVC(
        C=0.5, solver=CuttingPlane(mu=0.2), cost=1 - np.eye(3), multi_class="crammer_singer"
    ).fit(X, y)
    again = pickle.loads(pickle.dumps(svc))
    np.testing.assert_array_equal(again.predict(X), svc.predict(X))
    assert again.gap_ == svc.gap_
    fresh = clone(svc)
    assert fresh.solver == CuttingPlane(mu=0.2)
    assert not hasattr(fresh, "coef_")


def test_history_becomes_a_table():
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(loss="hinge").fit(X, y)
    table = pd.DataFrame(svc.history_)
    assert len(table) == svc.n_iter_
    assert table["objective"].is_monotonic_decreasing
    assert table["lower_bound"].is_monotonic_increasing
    assert (table["lower_bound"] <= table["objective"]).all()
    assert table["gap"].iloc[-1] == pytest.approx(svc.gap_, abs=1e-9)
    assert {"n_cuts", "n_active", "step", "seconds_oracle", "seconds_plane"} <= set(table.columns)


def test_class_weight_is_a_factor_of_c_by_class():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    by_class = LinearSVC(tol=1e-6, class_weight={0: 3.0, 1: 0.5}, loss="hinge").fit(X, y)
    by_row = LinearSVC(tol=1e-6, loss="hinge").fit(X, y, sample_weight=np.where(y == 0, 3.0, 0.5))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)


def test_costs_move_decisions_to_the_cheap_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)) + np.repeat([[0, 0], [1, 0], [0, 1]], 200, axis=0)
    y = np.repeat([0, 1, 2], 200)
    cost = 1.0 - np.eye(3)
    cost[2, :2] = 10.0  # missing class 2 is expensive
    expensive = (
        LinearSVC(C=0.1, cost=cost, tol=1e-5, multi_class="crammer_singer").fit(X, y).predict(X)
    )
    plain = LinearSVC(C=0.1, tol=1e-5, multi_class="crammer_singer").fit(X, y).predict(X)
    assert (expensive[y == 2] == 2).mean() > (plain[y == 2] == 2).mean() + 0.1


def test_an_intercept_that_is_not_penalized_ignores_translations():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    free = [
        LinearSVC(tol=1e-6, penalize_intercept=False, loss="hinge").fit(X + s, y)
        for s in (0.0, 5.0)
    ]
    np.testing.assert_allclose(free[0].objective_, free[1].objective_, rtol=2e-6)
    bound = [LinearSVC(tol=1e-6, loss="hinge").fit(X + s, y).objective_ for s in (0.0, 5.0)]
    assert abs(bound[0] - bound[1]) > 1e-3 * bound[0]


def test_warm_start_saves_iterations():
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(warm_start=True, tol=1e-4, loss="hinge").fit(X, y)
    cold = svc.n_iter_
    optimum = svc.objective_
    svc.fit(X, y)
    assert svc.n_iter_ <= cold
    assert svc.objective_ <= optimum * (1 + 1e-9)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"C": 0.0}, "C=0.0"),
        ({"C": -1.0}, "positive"),
        ({"loss": "huber"}, "huber"),
        ({"cost": np.ones((2, 2))}, "3 classes"),
        ({"cost": np.ones((3, 3))}, "diagonal"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
        ({"n_jobs": 0}, "n_jobs=0: use"),
        ({"tol": -1.0}, "tol"),
        ({"tol": None}, "relative tolerance"),
        ({"solver": "ocas"}, "CuttingPlane"),
    ],
)
def test_errors_say_what_to_do(params, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        LinearSVC(**{"multi_class": "crammer_singer", **params}).fit(X, y)


def test_a_solver_that_cannot_says_so():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match=r"unpenalized intercept. Use solver=CuttingPlane\(\)"):
        LinearSVC(solver=DualCoordinate(), penalize_intercept=False).fit(X, y)
    assert LinearSVC(tol=np.float32(1e-2), loss="hinge").fit(X, y).converged_


def test_weights_that_leave_nothing():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="zero"):
        LinearSVC(loss="hinge").fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="has no weight"):
        LinearSVC(penalize_intercept=False, loss="hinge").fit(X, y, (y != 2).astype(float))
    absent = LinearSVC(loss="hinge").fit(X, y, (y != 2).astype(float))
    assert absent.converged_


def test_sparse_with_empty_rows():
    X = sp.csr_matrix(np.array([[1.0, 0], [0, 0], [0, 2], [0, 0]]))
    svc = LinearSVC(loss="hinge").fit(X, [0, 0, 1, 1])
    assert svc.converged_
