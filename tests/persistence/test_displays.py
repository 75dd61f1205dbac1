"""Displays of models show the numbers of the models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from maxmargin import (
    KernelSVC,
    LinearSVC,
    LinearSVCCV,
    LogisticRegression,
    SequenceTagger,
    StructuredSVM,
    svc_path,
)
from maxmargin.inspection import MarginsDisplay, PathDisplay, TransitionsDisplay, WeightsDisplay
from maxmargin.tasks import Enumerable

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

X, Y = load_iris(return_X_y=True)
SENTENCES = [[["w=the"], ["w=cat"], ["w=sat"]], [["w=a"], ["w=dog"], ["w=ran"]]]
TAGS = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_bars_are_the_largest_weights_with_their_names():
    frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LinearSVC(C=0.1)).fit(frame, y)
    display = WeightsDisplay.from_estimator(model, n=4)
    coef = model[-1].coef_[0]
    largest = np.argsort(-np.abs(coef))[:4]
    assert display.names == frame.columns[largest].tolist()
    np.testing.assert_array_equal([bar.get_width() for bar in display.bars_], coef[largest])


def test_weights_of_one_class_and_of_one_label():
    svc = LinearSVC().fit(X, Y)
    display = WeightsDisplay.from_estimator(svc, target=1, feature_names=list("abcd"))
    np.testing.assert_array_equal(np.sort(display.weights), np.sort(svc.coef_[1]))
    assert display.ax_.get_title() == "LinearSVC, class 1"
    tagger = SequenceTagger().fit(SENTENCES, TAGS)
    display = WeightsDisplay.from_estimator(tagger, target="DET", n=2)
    assert sorted(display.names) == ["w=a", "w=the"]


def test_margins_of_two_and_of_several_classes_and_what_is_proven():
    for svc, y in ((LinearSVC().fit(X, Y == 2), Y == 2), (LinearSVC(tol=0.1).fit(X, Y), Y)):
        display = MarginsDisplay.from_estimator(svc, X, y)
        np.testing.assert_array_equal(display.margins > 0, svc.predict(X) == y)
        np.testing.assert_array_equal(display.proven, svc.proven(X))
        proven, others = display.counts_.sum(axis=1)
        assert (proven, proven + others) == (svc.proven(X).sum(), len(X))
        tops = sum(patch.get_height() for patch in display.ax_.patches)
        assert tops == len(X)


def test_margins_of_a_pipeline_are_those_of_its_last_step():
    model = make_pipeline(StandardScaler(), LinearSVC()).fit(X, Y)
    display = MarginsDisplay.from_estimator(model, X, Y)
    scaled = model[0].transform(X)
    np.testing.assert_array_equal(display.proven, model[1].proven(scaled))
    assert (display.margins > 0).mean() == model.score(X, Y)


def test_margins_without_a_proof_are_not_shaded():
    kernel = MarginsDisplay.from_estimator(KernelSVC().fit(X, Y == 1), X, Y == 1)
    assert kernel.proven is None
    assert kernel.counts_.shape[0] == 1
    stream = LinearSVC(loss="hinge").partial_fit(X, Y == 1, classes=[False, True])
    assert not MarginsDisplay.from_estimator(stream, X, Y == 1).proven.any()


def test_transitions_have_starts_ends_and_crosses():
    tagger = SequenceTagger(forbidden_transitions=[("VERB", "DET"), ("DET", None)])
    tagger.fit(SENTENCES, TAGS)
    display = TransitionsDisplay.from_estimator(tagger)
    shown = display.weights
    assert shown.shape == (4, 4)
    np.testing.assert_array_equal(shown[0, :-1], tagger.starts_)
    np.testing.assert_array_equal(shown[2:, -1], tagger.stops_[1:])
    assert np.argwhere(np.isnan(shown)).tolist() == [[0, 3], [1, 3], [3, 0]]
    crosses = display.ax_.lines[0].get_xydata().tolist()
    assert sorted(crosses) == [[0.0, 3.0], [3.0, 1.0]]  # an empty sequence is not a transition


def test_scores_of_a_search_by_c_and_class_weight():
    search = LinearSVCCV(Cs=[1.0, 0.01, 0.1], class_weights=[None, "balanced"], cv=3).fit(X, Y)
    display = PathDisplay.from_search(search)
    results = search.cv_results_
    assert sorted(display.curves) == ["class_weight=None", "class_weight=balanced"]
    assert display.Cs.tolist() == [0.01, 0.1, 1.0]
    for name, curve in display.curves.items():
        for C, score in zip(display.Cs, curve, strict=True):
            cell = [
                k
                for k, params in enumerate(results["params"])
                if params["C"] == C and name == f"class_weight={params['class_weight']}"
            ]
            assert score == results["mean_test_score"][cell].item()
    grid = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert list(PathDisplay.from_search(grid).curves) == ["mean score"]


def test_weights_over_c_are_those_of_the_path():
    path = svc_path(scale(X), Y == 1, Cs=[0.1, 1.0, 10.0])
    display = PathDisplay.from_models(path[::-1], n=2)
    weights = np.array([svc.coef_[0] for svc in path])
    largest = np.argsort(-np.abs(weights).max(axis=0))[:2]
    assert list(display.curves) == [f"x{k}" for k in largest]
    for line, k in zip(display.lines_, largest, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), weights[:, k])


def test_refusals():
    svc = LinearSVC().fit(X, Y)
    with pytest.raises(
        ValueError, match="target=None: choose whose weights to plot, one of 0, 1, 2"
    ):
        WeightsDisplay.from_estimator(svc)
    with pytest.raises(ValueError, match="feature_names has 2 names for 4 features"):
        WeightsDisplay.from_estimator(svc, target=0, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="target is for several classes"):
        WeightsDisplay.from_estimator(LinearSVC().fit(X, Y == 1), target=1)
    with pytest.raises(TypeError, match="KernelSVC has no coef_"):
        WeightsDisplay.from_estimator(KernelSVC().fit(X, Y))
    with pytest.raises(ValueError, match="y has the class 7"):
        MarginsDisplay.from_estimator(svc, X, np.full(len(X), 7))
    with pytest.raises(ValueError, match="decision_function_shape='ovr'"):
        MarginsDisplay.from_estimator(KernelSVC(decision_function_shape="ovo").fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="no parameter C"):
        PathDisplay.from_search(GridSearchCV(LinearSVC(), {"tol": [0.1]}, cv=3).fit(X, Y))
    with pytest.raises(ValueError, match="models is empty"):
        PathDisplay.from_models([])
    choice = StructuredSVM(Enumerable()).fit([X[:5]], [0])
    with pytest.raises(TypeError, match="StructuredSVM has no transitions_"):
        TransitionsDisplay.from_estimator(choice)
