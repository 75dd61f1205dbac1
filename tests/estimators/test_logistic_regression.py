"""LogisticRegression: scikit-learn's optimum, attributes and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin
from maxmargin import LogisticRegression


@parametrize_with_checks([LogisticRegression()])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn_and_the_bounds_hold(n_classes: int) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes]
    ours = LogisticRegression(tol=1e-9).fit(X, y)
    theirs = sklearn.linear_model.LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    P = theirs.predict_proba(X)[np.arange(len(y)), y]
    F = 0.5 * (theirs.coef_**2).sum() - np.log(P).sum()
    assert ours.lower_bound_ <= F * (1 + 1e-12)
    assert ours.objective_ <= F * (1 + 1e-8)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.n_iter_.shape == theirs.n_iter_.shape


def test_names_of_methods_mean_auto_and_liblinear_is_refused() -> None:
    X, y = load_iris(return_X_y=True)
    auto = LogisticRegression().fit(X, y)
    for name in ("lbfgs", "newton-cholesky", "saga"):
        assert (LogisticRegression(solver=name).fit(X, y).coef_ == auto.coef_).all()
    with pytest.raises(ValueError, match=r"LinearSVC\(loss='logistic'\)"):
        LogisticRegression(solver="liblinear").fit(X, y)
    with pytest.raises(ValueError, match="penalty='l1'"):
        LogisticRegression(penalty="l1").fit(X, y)
    with pytest.raises(ValueError, match="l1_ratio=1"):
        LogisticRegression(l1_ratio=1).fit(X, y)


def test_a_model_file_keeps_the_model(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(C=3.0).fit(X, y)
    model.save(tmp_path / "model")
    found = maxmargin.load(tmp_path / "model")
    assert isinstance(found, LogisticRegression)
    assert (found.predict_proba(X) == model.predict_proba(X)).all()
    assert found.n_iter_.tolist() == model.n_iter_.tolist()
