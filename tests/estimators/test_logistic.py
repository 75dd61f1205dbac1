"""LinearSVC(loss="logistic"): the optimum of LogisticRegression, probabilities, and what it combines with."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import scale

import maxmargin
from maxmargin import Checkpoint, LinearSVC, LinearSVCCV, data, svc_path
from maxmargin.losses import Logistic

SETS = {"two": load_breast_cancer, "three": load_wine, "ten": load_digits}


@cache
def problem(name: str) -> tuple[Any, Any]:
    X, y = SETS[name](return_X_y=True)
    return (X / 16.0 if name == "ten" else scale(X)), y


def objective(coef: Any, bias: Any, C: float, X: Any, y: Any, weight: Any) -> float:
    """F by plain code, without the intercepts' part of the norm."""
    scores = X @ coef.T + bias
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(y)), scores])
    log = np.log(softmax(scores, axis=1))[np.arange(len(y)), y]
    return float(0.5 * np.sum(coef**2) - C * np.sum(weight * log))


@pytest.mark.parametrize("free", [False, True], ids=["no intercept", "unpenalized"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("name", SETS)
def test_the_optimum_is_that_of_scikit_learn(name: str, C: float, free: bool) -> None:
    X, y = problem(name)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    svc = LinearSVC(
        C=C,
        loss="logistic",
        multi_class="multinomial",
        tol=1e-6,
        fit_intercept=free,
        penalize_intercept=False,
    )
    svc.fit(X, y, sample_weight=weight)
    solver: Any = "newton-cholesky"
    theirs = LogisticRegression(C=C, fit_intercept=free, tol=1e-9, max_iter=10_000, solver=solver)
    theirs.fit(X, y, sample_weight=weight)
    F = objective(theirs.coef_, theirs.intercept_, C, X, y, weight)
    own = objective(svc.coef_, svc.intercept_, C, X, y, weight)
    assert svc.converged_
    assert svc.objective_ == pytest.approx(own, rel=1e-9)
    assert own == pytest.approx(F, rel=1e-6)
    assert svc.lower_bound_ <= F * (1 + 1e-12)
    np.testing.assert_allclose(svc.predict_proba(X), theirs.predict_proba(X), atol=0.01)


def test_two_classes_have_logistic_probabilities() -> None:
    X, y = problem("two")
    for loss in ("logistic", Logistic()):
        svc = LinearSVC(loss=loss).fit(X, np.array(["no", "yes"])[y])
        p = svc.predict_proba(X)
        np.testing.assert_allclose(p[:, 1], expit(svc.decision_function(X)), rtol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        assert (svc.classes_[p.argmax(axis=1)] == svc.predict(X)).all()


def test_several_classes_have_softmax_probabilities_or_normalized_ones() -> None:
    X, y = problem("three")
    joint = LinearSVC(loss="logistic", multi_class="multinomial").fit(X, y)
    expected = softmax(joint.decision_function(X), axis=1)
    np.testing.assert_allclose(joint.predict_proba(X), expected, rtol=1e-12)
    ovr = LinearSVC(loss="logistic", multi_class="ovr").fit(X, y)
    single = expit(ovr.decision_function(X))
    expected = single / single.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ovr.predict_proba(X), expected, rtol=1e-12)
    assert joint.objective_ != pytest.approx(ovr.objective_)


@pytest.mark.parametrize("name", ["two", "three"])
def test_logarithms_of_tiny_probabilities_are_finite(name: str) -> None:
    X, y = problem(name)
    svc = LinearSVC(C=100.0, loss="logistic", multi_class="multinomial").fit(X, y)
    with np.errstate(all="raise", under="ignore"):
        logs, p = svc.predict_log_proba(1e5 * X), svc.predict_proba(1e5 * X)
    assert np.isfinite(logs).all()
    assert logs.min() < -1e4
    np.testing.assert_allclose(p, np.exp(logs))
    np.testing.assert_allclose(np.exp(svc.predict_log_proba(X)), svc.predict_proba(X), rtol=1e-12)


def test_probabilities_are_calibrated_on_average() -> None:
    """With an unpenalized intercept the mean probability of a class is its share of the samples."""
    X, y = problem("three")
    svc = LinearSVC(
        loss="logistic", multi_class="multinomial", penalize_intercept=False, tol=1e-10
    ).fit(X, y)
    np.testing.assert_allclose(
        svc.predict_proba(X).mean(axis=0), np.bincount(y) / len(y), atol=1e-4
    )


def test_other_losses_have_no_probabilities() -> None:
    X, y = problem("two")
    svc = LinearSVC(loss="hinge").fit(X, y)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(svc, name)
    with pytest.raises(AttributeError, match=r"loss='logistic'.*CalibratedClassifierCV"):
        svc.predict_log_proba(X)
    assert LinearSVC.predict_proba.__doc__  # for help()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"loss": "hinge", "multi_class": "multinomial"}, "requires loss='logistic'"),
        ({"loss": "logistic", "multi_class": "crammer_singer"}, "leave out loss="),
        (
            {"loss": "logistic", "cost": 1.0 - np.eye(3)},
            "cost requires multi_class='crammer_singer'",
        ),
        ({"loss": "logistic", "multi_class": "softmax"}, "'multinomial' or 'ovr'"),
    ],
)
def test_refusals_say_what_to_use(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LinearSVC(**params).fit(*problem("three"))


def test_there_is_no_partial_fit() -> None:
    svc = LinearSVC(loss="logistic")
    assert not hasattr(svc, "partial_fit")
    with pytest.raises(AttributeError) as error:
        _ = svc.partial_fit
    assert "use fit, or another loss" in str(error.value)


@pytest.mark.parametrize("name", ["two", "three"])
def test_searches_and_paths_equal_single_fits(name: str) -> None:
    X, y = problem(name)
    options: Any = {"loss": "logistic", "multi_class": "multinomial", "tol": 1e-5}
    train, test = np.arange(len(y)) % 3 > 0, np.arange(len(y)) % 3 == 0
    folds = [(np.flatnonzero(train), np.flatnonzero(test))]
    search = LinearSVCCV([0.01, 1.0], cv=folds, scoring="neg_log_loss", **options).fit(X, y)
    best = LinearSVC(C=search.best_params_["C"], **options).fit(X, y)
    np.testing.assert_allclose(search.predict_proba(X), best.predict_proba(X), atol=1e-2)
    assert search.cv_results_["split0_converged"].all()
    for C, score in zip([0.01, 1.0], search.cv_results_["split0_test_score"], strict=True):
        cell = LinearSVC(C=C, **options).fit(X[train], y[train])
        assert -score == pytest.approx(log_loss(y[test], cell.predict_proba(X[test])), rel=0.02)
    for svc in svc_path(X, y, [0.01, 1.0], **options):
        alone = LinearSVC(C=svc.C, **options).fit(X, y)
        assert svc.lower_bound_ <= alone.objective_
        assert alone.lower_bound_ <= svc.objective_
        assert svc.converged_


@pytest.mark.parametrize("name", ["two", "three"])
def test_files_checkpoints_sparse_rows_and_data_sets(name: str, tmp_path: Any) -> None:
    X, y = problem(name)
    svc = LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-5).fit(X, y)
    svc.save(tmp_path / "model.safetensors")
    again = maxmargin.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), svc.predict_proba(X))
    keep = Checkpoint(tmp_path / "fit", None, 1)
    with pytest.warns(Warning, match="max_iter"):
        LinearSVC(
            loss="logistic", multi_class="multinomial", tol=1e-5, max_iter=1, checkpoint=keep
        ).fit(sp.csr_matrix(X), y)
    resumed = LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-5).fit(
        sp.csr_matrix(X), y, resume_from=tmp_path / "fit"
    )
    others = [
        resumed,
        LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-5).fit(sp.csr_matrix(X), y),
    ]
    stored = data.write(tmp_path / "rows", [(X, y)])
    others.append(
        LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-3).fit(stored)
    )  # by cutting planes
    warm = LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-5, warm_start=True).fit(
        X, y
    )
    others.append(warm.set_params(C=2.0).fit(X, y).set_params(C=1.0).fit(X, y))
    for other in others:
        assert other.converged_
        assert other.lower_bound_ <= svc.objective_
        assert svc.lower_bound_ <= other.objective_
    threads = LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-5, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(threads.coef_, svc.coef_)


@pytest.mark.parametrize("name", ["two", "three"])
def test_weights_can_be_fixed_and_have_signs(name: str) -> None:
    X, y = problem(name)
    svc = LinearSVC(
        loss="logistic", multi_class="multinomial", nonnegative=[0], nonpositive=[1], fixed={2: 0.5}
    ).fit(X, y)
    assert svc.converged_
    assert (svc.coef_[:, 0] >= 0).all()
    assert (svc.coef_[:, 1] <= 0).all()
    assert (svc.coef_[:, 2] == 0.5).all()


def test_class_weights_multiply_the_loss() -> None:
    X, y = load_iris(return_X_y=True)
    weighted = LinearSVC(
        loss="logistic", multi_class="multinomial", class_weight={0: 1.0, 1: 3.0, 2: 0.5}, tol=1e-7
    ).fit(X, y)
    plain = LinearSVC(loss="logistic", multi_class="multinomial", tol=1e-7)
    plain.fit(X, y, sample_weight=np.array([1.0, 3.0, 0.5])[y])
    assert weighted.objective_ == pytest.approx(plain.objective_, rel=1e-7)
