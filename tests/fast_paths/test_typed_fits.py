"""Fits and predictions of rows in narrow types are those of their conversion to float64."""

import numpy as np
import pytest
from scipy.special import logsumexp

from maxmargin import (
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    MeasureSVC,
    OrdinalSVC,
    RankSVM,
)
from maxmargin.data import Quantized, as_design
from maxmargin.data.typed_design import TypedDesign
from maxmargin.data.typed_rows import TypedRows, typed_rows
from maxmargin.solvers import CuttingPlane

rng = np.random.default_rng(0)
N, D, K = 3000, 12, 4
NUMBERS = rng.normal(size=(N, D)) + 0.3
CLASSES = (NUMBERS @ rng.normal(size=(D, K)) + rng.normal(size=(N, K))).argmax(axis=1)
SCALE = np.abs(NUMBERS).max(axis=0) / 127


def bfloat16(X):
    return TypedRows((X.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), "bfloat16")


TYPES = {
    "float16": NUMBERS.astype(np.float16),
    "int8": np.rint(20 * NUMBERS).astype(np.int8),
    "uint8": np.rint(20 * NUMBERS + 128).astype(np.uint8),
    "bfloat16": bfloat16(NUMBERS),
    "quantized": Quantized(np.rint(NUMBERS / SCALE).astype(np.int8), SCALE),
    "offset": Quantized(np.rint(NUMBERS * 20 + 128).astype(np.uint8), 0.05, -6.4),
}


def design_of(X):
    """By blocks, although it is small."""
    return TypedDesign(typed_rows(X))


def converted(X):
    return typed_rows(X).toarray()


ESTIMATORS = {
    "logistic": (LogisticRegression(C=0.1), CLASSES),
    "two classes": (LogisticRegression(C=0.1), CLASSES > 1),
    "squared hinge": (LinearSVC(C=0.1), CLASSES),
    "two, squared": (LinearSVC(C=0.1), CLASSES > 1),
    "hinge": (LinearSVC(C=0.01, loss="hinge"), CLASSES > 1),
    "crammer-singer": (LinearSVC(C=0.01, loss="hinge", multi_class="crammer_singer"), CLASSES),
    "regression": (LinearSVR(C=0.01), NUMBERS[:, 0]),
    "measure": (MeasureSVC(C=1.0), CLASSES > 1),
    "ordinal": (OrdinalSVC(C=0.1), CLASSES),
    "rank": (RankSVM(C=0.01), CLASSES),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_fits_have_the_same_optimum(name, kind):
    if kind not in ("float16", "quantized") and name not in ("logistic", "hinge"):
        pytest.skip("covered by pairs of the others")
    estimator, y = ESTIMATORS[name]
    X = TYPES[kind]
    narrow, wide = (estimator.__class__(**estimator.get_params()) for _ in range(2))
    narrow.fit(design_of(X), y)
    wide.fit(converted(X), y)
    assert narrow.converged_
    assert narrow.lower_bound_ <= wide.objective_ * (1 + 1e-9)
    assert wide.lower_bound_ <= narrow.objective_ * (1 + 1e-9)
    if name in ("logistic", "squared hinge"):
        assert narrow.history_[-1]["method"] == "quasi-newton"
    if name == "logistic":
        scores = converted(X) @ narrow.coef_.T + narrow.intercept_
        loss = np.sum(logsumexp(scores, axis=1) - scores[np.arange(N), y])
        plain = 0.5 * np.sum(narrow.coef_**2) + 0.1 * loss
        assert plain * (1 - 1e-12) <= narrow.objective_ <= plain * (1 + 1e-8)  # with rounding


def test_proofs_of_predictions_are_those_of_the_conversion():
    X = TYPES["quantized"]
    model = LinearSVC(C=0.1, tol=0.01).fit(design_of(X), CLASSES)
    own, plain = (model.proven(rows) for rows in (design_of(X), converted(X)))
    np.testing.assert_array_equal(own, plain)
    assert 0.1 < own.mean() < 1.0


@pytest.mark.parametrize("kind", TYPES)
def test_predictions_are_those_of_the_conversion(kind):
    X = TYPES[kind]
    model = LogisticRegression(C=0.1).fit(converted(X), CLASSES)
    scores = model.decision_function(design_of(X))
    np.testing.assert_allclose(scores, model.decision_function(converted(X)), atol=1e-12)
    np.testing.assert_array_equal(model.predict(design_of(X)), model.predict(converted(X)))
    if kind in ("quantized", "float16"):  # small ones are converted as a whole
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)


def test_predictions_in_blocks_of_scores(monkeypatch):
    model = LogisticRegression(C=0.1).fit(NUMBERS, CLASSES)
    expected = model.predict(NUMBERS)
    monkeypatch.setattr("maxmargin.estimators.linear.decision.MOST_SCORES", 2048)
    np.testing.assert_array_equal(model.predict(NUMBERS), expected)
    np.testing.assert_array_equal(model.predict(design_of(TYPES["float16"]))[:9], expected[:9])


def test_large_matrices_are_not_converted_and_small_ones_are():
    large = np.zeros((2**16, 33), np.float16)
    assert isinstance(as_design(large), TypedDesign)
    assert np.shares_memory(as_design(large).rows.codes, large)
    assert not isinstance(as_design(large[:100]), TypedDesign)
    assert isinstance(as_design(Quantized(large.astype(np.int8), 1.0)), TypedDesign)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinite_entries_are_refused_with_their_row(value):
    X = np.ones((2**16, 33), np.float16)
    X[:, 0] = rng.normal(size=len(X))
    y = X[:, 0] > 0
    model = LogisticRegression().fit(X[:500], y[:500])
    X[40_000, 3] = value
    for call in (lambda: LinearSVC().fit(X, y), lambda: model.predict(X)):
        with pytest.raises(ValueError, match="row 40000, column 3"):
            call()


def test_search_over_C_takes_rows_without_a_copy():
    X = TYPES["float16"]
    narrow = LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=3).fit(design_of(X), CLASSES)
    wide = LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=3).fit(converted(X), CLASSES)
    scores = [search.cv_results_["mean_test_score"] for search in (narrow, wide)]
    np.testing.assert_allclose(*scores, atol=2e-3)
    assert narrow.best_estimator_.converged_
    order = rng.permutation(N)[:100]
    taken = design_of(X)[order]
    assert np.shares_memory(taken.rows.codes, X)
    W = rng.normal(size=(D, K))
    np.testing.assert_allclose(taken.dot(W, 20, 70), converted(X)[order[20:70]] @ W)
    coef, out = rng.normal(size=(50, K)), np.zeros((D, K))
    taken.accumulate(coef, 20, 70, out)
    np.testing.assert_allclose(out, converted(X)[order[20:70]].T @ coef)
    np.testing.assert_array_equal(taken.part(5, 9).block(0, 4).X, X[order[5:9]])


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_any_number_of_threads_gives_the_same_bits(kind):
    X, y = np.tile(NUMBERS, (8, 3)).astype(kind), np.tile(CLASSES, 8)
    X = design_of(X) if kind == "float16" else X
    fits = [LogisticRegression(C=0.01, n_jobs=n).fit(X, y) for n in (None, 2, 3)]
    assert fits[0].history_[0]["method"] == "quasi-newton"  # whose products are shared by threads
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
        assert fit.objective_ == fits[0].objective_


def test_other_solvers_read_blocks():
    X, y = TYPES["quantized"], CLASSES > 1
    auto = LinearSVC(C=0.1).fit(design_of(X), y)
    planes = LinearSVC(C=0.1, solver=CuttingPlane(), n_jobs=2).fit(design_of(X), y)
    assert planes.lower_bound_ <= auto.objective_
    assert auto.lower_bound_ <= planes.objective_


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_tensors_fit_and_predict(kind):
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(NUMBERS).to(getattr(torch, kind))
    y = torch.from_numpy(CLASSES)
    model = LogisticRegression(C=0.1).fit(X, y)
    same = LogisticRegression(C=0.1).fit(X.double().numpy(), CLASSES)
    assert model.objective_ == pytest.approx(same.objective_, rel=1e-3)
    large = X.repeat(60, 1)
    np.testing.assert_array_equal(model.predict(large)[:N], model.predict(X))
    tiled = LogisticRegression(C=0.1 / 60).fit(large, y.repeat(60))
    assert tiled.history_[-1]["method"] == "quasi-newton"
    assert tiled.objective_ == pytest.approx(model.objective_, rel=1e-3)
