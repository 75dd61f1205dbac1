"""Confidences of a calibrated tagger: as often right as they say, on data that was not used before."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.data import datasets, require

from maxmargin import SequenceTagger, load
from maxmargin.estimators.structured.confidence import calibration_table, margins_of


def problem(n, seed):
    """Labels in runs, with noise."""
    rng = np.random.default_rng(seed)
    y = [np.repeat(rng.integers(0, 3, size=4), 3) for _ in range(n)]
    return [np.eye(3)[labels] + rng.normal(scale=0.8, size=(12, 3)) for labels in y], y


@pytest.fixture(scope="module")
def tagger():
    return SequenceTagger(C=0.1).fit(*problem(60, 0))


def calibration_error(confidence, right, bins=10):
    """Expected calibration error, over bins of equal width."""
    place = np.minimum((bins * confidence).astype(int), bins - 1)
    gaps = [
        abs(np.sum(confidence[place == b]) - np.sum(right[place == b])) for b in np.unique(place)
    ]
    return float(np.sum(gaps)) / len(right)


def rights(tagger, X, y):
    return np.concatenate([np.equal(a, b) for a, b in zip(tagger.predict(X), y, strict=True)])


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_confidences_are_as_often_right_as_they_say(tagger, method):
    tagger.calibrate(*problem(200, 1), method=method)
    X, y = problem(200, 2)
    confidence = np.concatenate(tagger.predict_confidence(X))
    right = rights(tagger, X, y)
    assert 0.6 < right.mean() < 0.98  # there is something to predict
    assert calibration_error(confidence, right) < 0.04
    # and they distinguish: the confident half has less than half of the errors of the other
    sure = confidence > np.median(confidence)
    assert np.mean(~right[sure]) < 0.5 * np.mean(~right[~sure])


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_calibration_error_on_parts_of_speech(method):
    parts = [require(datasets.ud_ewt, split)[:n] for split, n in (("train", 600), ("dev", 500))]
    parts.append(require(datasets.ud_ewt, "test")[:500])
    (X, y), held, (X_test, y_test) = (
        (
            [datasets.token_features([(t[0], t[1]) for t in s]) for s in part],
            [[t[1] for t in s] for s in part],
        )
        for part in parts
    )
    tagger = SequenceTagger(C=0.1, tol=0.1).fit(X, y).calibrate(*held, method=method)
    confidence = np.concatenate(tagger.predict_confidence(X_test))
    right = rights(tagger, X_test, y_test)
    assert 0.75 < right.mean() < 0.95
    assert calibration_error(confidence, right) < 0.03


def test_predictions_and_shapes_stay(tagger):
    X, y = problem(20, 3)
    before = tagger.predict(X)
    tagger.calibrate(X, y)
    assert tagger.predict(X) == before
    assert [len(c) for c in tagger.predict_confidence(X)] == [12] * 20
    flat = tagger.predict_confidence(np.concatenate(X), lengths=[12] * 20)
    np.testing.assert_array_equal(flat, np.concatenate(tagger.predict_confidence(X)))
    assert ((flat > 0.0) & (flat < 1.0)).all()


def test_a_larger_margin_never_means_less_confidence(tagger):
    X, y = problem(50, 4)
    for method in ("isotonic", "sigmoid"):
        tagger.calibrate(X, y, method=method)
        margins = margins_of(np.concatenate(tagger.max_marginals(X)))
        confidence = np.concatenate(tagger.predict_confidence(X))
        assert (np.diff(confidence[np.argsort(margins)]) >= 0.0).all()


def test_missing_labels_are_ignored(tagger):
    X, y = problem(30, 5)
    half = [[label if t % 2 else None for t, label in enumerate(labels)] for labels in y]
    tagger.calibrate(X, half)
    right = rights(tagger, X, y)[1::2]
    confidence = np.concatenate(tagger.predict_confidence(X))[1::2]
    assert confidence.mean() == pytest.approx(right.mean(), abs=0.01)


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_a_model_file_keeps_the_calibration(tagger, tmp_path, method):
    X, y = problem(30, 6)
    tagger.calibrate(X, y, method=method).save(tmp_path / "model")
    again = load(tmp_path / "model")
    for a, b in zip(again.predict_confidence(X), tagger.predict_confidence(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_new_fit_removes_the_calibration():
    X, y = problem(10, 7)
    tagger = SequenceTagger().fit(X, y)
    with pytest.raises(NotFittedError, match="call calibrate"):
        tagger.predict_confidence(X)
    tagger.calibrate(X, y).fit(X, y)
    with pytest.raises(NotFittedError, match="call calibrate"):
        tagger.predict_confidence(X)


def test_the_sigmoid_is_that_of_logistic_regression():
    rng = np.random.default_rng(0)
    margins = rng.exponential(size=4000)
    right = rng.random(4000) < 1.0 / (1.0 + np.exp(-(2.0 * margins - 0.5)))
    table = calibration_table(margins, right, "sigmoid")
    at = np.linspace(0.0, 3.0, 31)
    expected = 1.0 / (1.0 + np.exp(-(2.0 * at - 0.5)))
    np.testing.assert_allclose(np.interp(at, *table), expected, atol=0.04)


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
@pytest.mark.parametrize("right", [[True, True], [False, False], [True, False]])
def test_few_tokens_and_infinite_margins_give_probabilities(method, right):
    for margins in ([1.0, np.inf], [np.inf, np.inf], [0.0, 0.0]):
        table = calibration_table(np.array(margins), np.array(right), method)
        found = np.interp([0.0, 1.0, np.inf], *table)
        assert ((found > 0.0) & (found < 1.0)).all()


def test_one_label_and_forbidden_transitions_have_infinite_margins():
    assert margins_of(np.zeros((2, 1))).tolist() == [np.inf, np.inf]
    assert margins_of(np.array([[1.0, -np.inf], [1.0, 3.0]])).tolist() == [np.inf, 2.0]


def test_wrong_inputs_are_refused(tagger):
    X, y = problem(3, 8)
    with pytest.raises(ValueError, match="use 'isotonic' or 'sigmoid'"):
        tagger.calibrate(X, y, method="platt")
    with pytest.raises(ValueError, match="no labels to calibrate with"):
        tagger.calibrate(X, [[None] * 12] * 3)
