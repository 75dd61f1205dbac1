"""200 random calls with scikit-learn's arguments: the same model, from both libraries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model
import sklearn.svm
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

import maxmargin

CLASSES = ("LinearSVC", "LinearSVR", "LogisticRegression", "SVC", "SVR")
OURS = {"SVC": maxmargin.KernelSVC, "SVR": maxmargin.KernelSVR}
TOL = 1e-7


def _problem(rng: np.random.Generator, name: str) -> tuple[Any, Any]:
    n, d, k = int(rng.integers(20, 50)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 2.0, size=d)
    if name.endswith("SVR"):
        return X, X[:, 0] + 0.3 * rng.normal(size=n)
    y = np.argmax(X @ rng.normal(size=(d, k)) + 0.5 * rng.normal(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    return X, np.array(["a", "b", "c", "d"])[y]


def _arguments(rng: np.random.Generator, name: str) -> dict[str, Any]:
    def one(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    given: dict[str, Any] = {"C": float(10 ** rng.uniform(-1.5, 0.5)), "random_state": 0}
    if name == "LinearSVC":
        given |= {"penalty": "l2", "loss": one("hinge", "squared_hinge"), "dual": one(True, "auto")}
        given |= {"multi_class": one("ovr", "crammer_singer"), "intercept_scaling": one(1, 3.0)}
    elif name == "LinearSVR":
        given |= {"epsilon": one(0.0, 0.2), "dual": one(True, "auto")}
        given |= {"loss": one("epsilon_insensitive", "squared_epsilon_insensitive")}
    elif name == "LogisticRegression":
        given |= {"solver": one("lbfgs", "newton-cholesky"), "l1_ratio": 0.0}
    else:
        given |= {"kernel": one("rbf", "linear", "poly"), "gamma": one("scale", "auto", 0.3)}
        given |= {"degree": 2, "coef0": 1.0, "shrinking": one(True, False), "cache_size": 100}
        given |= {"max_iter": -1}
    if name == "SVC":
        given |= {"decision_function_shape": one("ovr", "ovo"), "break_ties": False}
    if name == "SVR":
        given |= {"epsilon": 0.1}
        del given["random_state"]
    if name.startswith("Linear") or name == "LogisticRegression":
        given["fit_intercept"] = one(True, False)
    if not name.endswith("SVR"):
        given["class_weight"] = one(None, "balanced")
    return given


def _objective(model: Any, name: str, given: dict[str, Any], X: Any, y: Any) -> float:
    """The objective of a fitted model, by plain code."""
    C = given["C"]
    if name == "SVR" or name == "SVC":
        return (
            float("nan") if name == "SVC" and len(set(y)) > 2 else _kernel_value(model, given, X, y)
        )
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    S = X @ W.T + b
    norm = (W**2).sum()
    if name.startswith("Linear") and given["fit_intercept"]:
        norm += (b**2).sum() / given.get("intercept_scaling", 1.0) ** 2
    if name == "LinearSVR":
        error = np.maximum(0.0, np.abs(y - S[:, 0]) - given["epsilon"])
        return 0.5 * norm + C * (error ** (2 if "squared" in given["loss"] else 1)).sum()
    classes, codes = np.unique(y, return_inverse=True)
    K = len(classes)
    counts = np.bincount(codes)
    balanced = given["class_weight"] == "balanced"
    weight = (len(y) / (K * counts))[codes] if balanced else np.ones(len(y))
    if name == "LogisticRegression":
        if K == 2:
            return (
                0.5 * norm + C * (weight * np.logaddexp(0, -np.where(codes, 1, -1) * S[:, 0])).sum()
            )
        return (
            0.5 * norm + C * (weight * (logsumexp(S, axis=1) - S[np.arange(len(y)), codes])).sum()
        )
    if given["multi_class"] == "crammer_singer":
        if K == 2:  # two columns -w/2 and w/2
            S, norm = np.column_stack([-S / 2, S / 2]), norm / 2
        own = S[np.arange(len(y)), codes][:, None]
        violation = (S - own + (np.arange(K) != codes[:, None])).max(axis=1)
        return 0.5 * norm + C * (weight * violation).sum()
    signs = np.where(codes[:, None] == (np.arange(K) if K > 2 else [1]), 1, -1)
    weights = np.ones(signs.shape) * (weight[:, None] if not balanced else 1.0)
    if balanced:
        if K == 2:
            weights = weight[:, None]
        else:  # LIBLINEAR: the class has its own weight, the rest has weight 1
            weights = np.where(signs > 0, weight[:, None], 1.0)
    violation = np.maximum(0.0, 1.0 - signs * S) ** (2 if "squared" in given["loss"] else 1)
    return 0.5 * norm + C * (weights * violation).sum()


def _kernel_value(model: Any, given: dict[str, Any], X: Any, y: Any) -> float:
    gamma = {"scale": 1 / (X.shape[1] * X.var()), "auto": 1 / X.shape[1]}.get(given["gamma"], 0.3)
    options = {} if given["kernel"] == "linear" else {"gamma": gamma}
    if given["kernel"] == "poly":
        options |= {"degree": 2, "coef0": 1.0}
    V = X[model.support_]
    a = model.dual_coef_
    a = (a.toarray() if sp.issparse(a) else np.asarray(a))[0]
    norm = a @ pairwise_kernels(V, metric=given["kernel"], **options) @ a
    f = pairwise_kernels(X, V, metric=given["kernel"], **options) @ a + model.intercept_[0]
    if "epsilon" in given:
        return 0.5 * norm + given["C"] * np.maximum(0, np.abs(y - f) - 0.1).sum()
    codes = np.unique(y, return_inverse=True)[1]
    weight = (len(y) / (2 * np.bincount(codes)))[codes] if given["class_weight"] else 1.0
    return 0.5 * norm + given["C"] * (weight * np.maximum(0, 1 - np.where(codes, 1, -1) * f)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_the_same_call_gives_the_same_model(name: str) -> None:
    theirs_class = getattr(sklearn.linear_model if name[:3] == "Log" else sklearn.svm, name)
    for seed in range(40):
        rng = np.random.default_rng([seed, *name.encode()])
        X, y = _problem(rng, name)
        given = _arguments(rng, name)
        ours = OURS.get(name) or getattr(maxmargin, name)
        tight = {} if name.startswith("SV") else {"max_iter": 100_000}
        data = sp.csr_matrix(X) if rng.random() < 0.3 else X
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = theirs_class(**{**given, **tight, "tol": TOL}).fit(data, y)
        model = ours(**given, tol=1e-6).fit(data, y)
        where = f"{name} {given} seed {seed}"
        for shaped in ("coef_", "intercept_", "classes_", "n_iter_"):
            if shaped == "n_iter_" and name == "SVC":
                continue  # one number per pair there, the largest here
            if shaped == "intercept_" and np.ndim(theirs.intercept_) == 0:
                assert not np.any(
                    model.intercept_
                )  # LIBLINEAR's is the number 0.0 without an intercept
            elif hasattr(theirs, shaped):
                found, wanted = getattr(model, shaped), getattr(theirs, shaped)
                assert np.shape(found) == np.shape(wanted), f"{where}: {shaped}"
        F, G = _objective(model, name, given, X, y), _objective(theirs, name, given, X, y)
        if np.isfinite(F):
            assert F <= G * (1 + 1e-5), f"{where}: objective {F}, scikit-learn's {G}"
            assert G <= F * (1 + 1e-3), (
                f"{where}: scikit-learn's problem is another one, {F} and {G}"
            )
        scores = getattr(theirs, "decision_function", theirs.predict)(data)
        own = getattr(model, "decision_function", model.predict)(data)
        assert np.shape(own) == np.shape(scores), where
        if name.endswith("SVR"):
            assert np.abs(own - scores).max() <= 0.02 * (1 + np.abs(scores).max()), where
            continue
        if given.get("kernel") and given["class_weight"] and np.abs(own - scores).max() > 0.05:
            # balanced weights and all multipliers at their bound: any intercept of an interval is optimal.
            # LIBSVM returns one of its ends, as rounding decides, and here it is the middle.
            continue
        ordered = np.sort(np.atleast_2d(scores.T).T, axis=1)
        margin = np.abs(scores) if scores.ndim == 1 else ordered[:, -1] - ordered[:, -2]
        if scores.ndim == 2 and given.get("decision_function_shape") == "ovo":
            margin = np.abs(scores).min(axis=1)
        clear = margin > 0.05
        same = model.predict(data) == theirs.predict(data)
        assert same[clear].all(), f"{where}: {(~same[clear]).sum()} other predictions"
