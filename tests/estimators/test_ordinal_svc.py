"""OrdinalSVC: the optimum of an independent solver, and predictions, from any kind of data."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.reference_optima.optimum import optimum, program_of

import maxmargin
from maxmargin import LinearSVC, OrdinalSVC, data
from maxmargin.data import threshold_rows
from maxmargin.solvers import CuttingPlane, Newton


@parametrize_with_checks(
    [
        OrdinalSVC(),
        OrdinalSVC(loss="squared_hinge"),
        OrdinalSVC(loss="logistic", thresholds="immediate"),
        OrdinalSVC(loss="logistic"),
    ],
    expected_failed_checks=lambda estimator: (
        {"check_classifiers_train": "predict is the median class, and not the most probable one"}
        if estimator.loss == "logistic" and estimator.thresholds == "all"
        else {}
    ),
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def grades(n=80, d=4, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, np.argsort(np.argsort(score)) * classes // n, rng.uniform(0.2, 2.0, n)


def rows(X, y, thresholds):
    """By definition: a row of features and thresholds, its sign, and its sample."""
    last = y.max()
    for i, k in enumerate(y):
        for j in range(last):
            if thresholds == "all" or k in (j, j + 1):
                yield np.concatenate([X[i], -np.eye(last)[j]]), 1.0 if k > j else -1.0, i


@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), Newton()], ids=str)
@pytest.mark.parametrize("C", [0.02, 2.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("thresholds", ["all", "immediate"])
def test_the_optimum_of_an_independent_solver(solver, C, loss, thresholds):
    X, y, weight = grades()
    A, sign, sample = map(np.array, zip(*rows(X, y, thresholds), strict=True))
    Z, cost, penalized = sign[:, None] * A, C * weight[sample], np.r_[np.ones(4), np.zeros(3)]
    if loss == "hinge":  # clarabel
        one = np.ones(len(A))
        best = optimum(program_of(-Z, one, np.arange(len(A)), cost, penalized=penalized)).upper
    else:
        lost = lambda m: np.maximum(0.0, 1.0 - m) ** 2  # noqa: E731
        if loss == "logistic":
            lost = lambda m: np.logaddexp(0.0, -m)  # noqa: E731
        F = lambda z: 0.5 * z @ (penalized * z) + cost @ lost(Z @ z)  # noqa: E731
        best = minimize(F, np.zeros(7), method="BFGS", options={"gtol": 1e-5}).fun
    model = OrdinalSVC(C, thresholds=thresholds, loss=loss, solver=solver, tol=1e-5)
    model.fit(X, y, weight)
    assert model.converged_
    assert model.lower_bound_ <= best * (1.0 + 1e-9)
    assert best <= model.objective_ * (1.0 + 1e-8)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_two_classes_are_those_of_linear_svc(loss):
    X, y, weight = grades(classes=2)
    own = OrdinalSVC(2.0, loss=loss, tol=1e-6).fit(X, y, weight)
    svc = LinearSVC(loss=loss, C=2.0, penalize_intercept=False, tol=1e-6).fit(X, y, weight)
    assert own.lower_bound_ <= svc.objective_ * (1.0 + 1e-12)
    assert svc.lower_bound_ <= own.objective_ * (1.0 + 1e-12)
    np.testing.assert_allclose(own.decision_function(X), svc.decision_function(X), atol=0.05)


@pytest.mark.parametrize("solver", [CuttingPlane(), Newton()], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_thresholds_are_in_order_wherever_a_fit_stops(solver):
    X, y, weight = grades(classes=6, n=24)
    for stop in range(6):
        model = OrdinalSVC(0.1, loss="hinge", solver=solver, max_iter=stop).fit(X, y, weight)
        assert (np.diff(model.thresholds_) >= 0.0).all()
        A, sign, sample = map(np.array, zip(*rows(X, y, "all"), strict=True))
        w = np.concatenate([model.coef_, model.thresholds_])
        value = 0.5 * model.coef_ @ model.coef_
        value += 0.1 * weight[sample] @ np.maximum(0.0, 1.0 - sign * (A @ w))
        assert value == pytest.approx(model.objective_, rel=1e-12)


def test_a_rare_class_between_immediate_thresholds_is_not_predicted():
    X, target = load_diabetes(return_X_y=True)
    y = np.digitize(target, [100, 150, 200])
    model = OrdinalSVC(100.0, thresholds="immediate", loss="logistic").fit(X, y)
    assert model.thresholds_[2] < model.thresholds_[1]
    assert set(model.predict(X)) == {0, 1, 3}
    assert (np.diff(model.set_params(thresholds="all").fit(X, y).thresholds_) > 0.0).all()


@pytest.mark.parametrize("thresholds", ["all", "immediate"])
def test_probabilities(thresholds):
    X, y, _ = grades(400)
    model = OrdinalSVC(10.0, thresholds=thresholds, loss="logistic").fit(X, y)
    P, s, theta = model.predict_proba(X), X @ model.coef_, model.thresholds_
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    above = 1.0 / (1.0 + np.exp(theta - s[:, None]))
    if thresholds == "all":
        np.testing.assert_allclose(P[:, ::-1].cumsum(axis=1)[:, 2::-1], above, atol=1e-12)
    else:
        np.testing.assert_allclose(P[:, 1:] / (P[:, 1:] + P[:, :-1]), above, atol=1e-12)
    # at the optimum of unpenalized thresholds, mean probabilities are shares of classes
    if thresholds == "all":
        np.testing.assert_allclose(P.mean(axis=0), np.bincount(y) / len(y), atol=0.01)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))
    np.testing.assert_array_equal(model.predict(X), (s[:, None] > theta).sum(axis=1))
    # the median, or the mode
    half = (P.cumsum(axis=1) < 0.5).sum(axis=1) if thresholds == "all" else P.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), half)
    far = model.predict_log_proba(1e3 * X)
    assert np.isfinite(far).all()
    assert not hasattr(OrdinalSVC(), "predict_proba")


def test_a_class_between_equal_thresholds_has_probability_zero():
    model = OrdinalSVC(loss="logistic").fit(*grades()[:2])
    model.thresholds_[:] = 0.5
    P = model.predict_proba(np.eye(4))
    assert (P[:, 1:3] == 0.0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0)


@pytest.mark.parametrize("thresholds", ["all", "immediate"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_sparse_disk_and_rows_that_are_not_stored_have_the_same_optimum(
    thresholds, loss, tmp_path, monkeypatch
):
    X, y, weight = grades(200)
    X = np.where(np.abs(X) > 0.6, X, 0.0)
    model = lambda **more: OrdinalSVC(thresholds=thresholds, loss=loss, tol=1e-5, **more)  # noqa: E731
    held = data.write(
        tmp_path / "set", [(X[:90], y[:90], weight[:90]), (X[90:], y[90:], weight[90:])]
    )
    fits = [model().fit(X, y, weight), model().fit(sp.csr_matrix(X), y, weight)]
    fits += [model().fit(held), model(n_jobs=2).fit(X, y, weight)]
    monkeypatch.setattr(threshold_rows, "STORED", 0)
    fits += [model().fit(X, y, weight), model().fit(sp.csr_matrix(X), y, weight)]
    fits += [model(n_jobs=2, engine="processes").fit(X, y, weight)]
    for fit in fits:
        assert fit.converged_
        assert fit.lower_bound_ <= fits[0].objective_ * (1.0 + 1e-12)
        assert fits[0].lower_bound_ <= fit.objective_ * (1.0 + 1e-12)
    assert (fits[2].predict(held) == fits[2].predict(X)).all()
    assert fits[2].score(held) == pytest.approx(fits[2].score(X, y, weight), rel=1e-12)


def test_weights_of_samples_and_classes_are_repeated_samples():
    X, y, _ = grades()
    twice = np.where(y == 2, 2.0, 1.0)
    fits = [
        OrdinalSVC(tol=1e-6).fit(X, y, twice),
        OrdinalSVC(tol=1e-6, class_weight={2: 2.0}).fit(X, y),
        OrdinalSVC(tol=1e-6).fit(np.r_[X, X[y == 2]], np.r_[y, y[y == 2]]),
    ]
    for fit in fits:
        assert fit.objective_ == pytest.approx(fits[0].objective_, rel=2e-6)


def test_a_search_maximizes_the_metric():
    X, y, weight = grades(200)
    names = np.array(["a", "b", "c", "d"])[y]
    search = GridSearchCV(OrdinalSVC(metric="absolute_error"), {"C": [1e-4, 1.0]}).fit(X, names)
    assert search.best_params_ == {"C": 1.0}
    model = search.best_estimator_
    wrong = np.abs(np.searchsorted(model.classes_, model.predict(X)) - y)
    assert model.score(X, names, weight) == pytest.approx(-np.average(wrong, weights=weight))
    assert model.set_params(metric="accuracy").score(X, names) == np.mean(wrong == 0)
    with pytest.raises(ValueError, match="y contains e"):
        model.set_params(metric="absolute_error").score(X[:1], ["e"])


@pytest.mark.parametrize("thresholds", ["all", "immediate"])
def test_a_class_without_weight_is_refused(thresholds):
    X, y, _ = grades()
    with pytest.raises(ValueError, match="between class 0 and class 1 has no weight on one side"):
        OrdinalSVC(thresholds=thresholds).fit(X, y, y > 0)


def test_saved_resumed_and_warm(tmp_path):
    X, y, weight = grades(classes=5)
    model = OrdinalSVC(3.0, loss="hinge", solver=CuttingPlane(), warm_start=True).fit(X, y, weight)
    loaded = maxmargin.load(
        model.save(tmp_path / "model.safetensors") and tmp_path / "model.safetensors"
    )
    for name in ("coef_", "thresholds_", "classes_", "objective_", "lower_bound_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    cold, warm = model.n_iter_, model.fit(X, y, weight).n_iter_
    assert warm < cold
