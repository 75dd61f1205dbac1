"""Errors name what is wrong and what to use instead."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    KernelSVC,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    StructuredSVM,
    data,
    svc_path,
)

X = np.random.default_rng(0).normal(size=(20, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("kind", [LinearSVC, KernelSVC, MeasureSVC])
def test_there_are_no_probabilities(kind):
    svc = kind().fit(X, Y)
    assert not hasattr(svc, "predict_proba")
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        svc.predict_proba(X)


def test_a_text_column_is_named():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(city="Oslo")
    with pytest.raises(ValueError, match="column 'city' of X contains text, such as 'Oslo'"):
        LinearSVC(loss="hinge").fit(frame, Y)


def test_no_classifier_is_recommended_for_regression():
    with pytest.raises(TypeError, match="Nystroem") as error:
        LinearSVR(kernel="rbf")
    assert "KernelSVC" not in str(error.value)
    with pytest.raises(TypeError, match="KernelSVC"):
        LinearSVC(kernel="rbf", loss="hinge")


def test_a_path_over_a_data_set_needs_no_y(tmp_path):
    stored = data.write(tmp_path / "rows", [(X, Y)])
    assert len(svc_path(stored, Cs=[0.1, 1.0], loss="hinge")) == 2
    with pytest.raises(TypeError, match="Cs="):
        svc_path(X, Y, loss="hinge")


@pytest.mark.parametrize(
    "search", [LinearSVC, lambda: make_pipeline(StandardScaler(), LinearSVC(loss="hinge"))]
)
def test_a_search_of_scikit_learn_does_not_split_data_on_disk(tmp_path, search):
    stored = data.write(tmp_path / "rows", [(X, Y)])
    with pytest.raises(TypeError, match=r"LinearSVCCV, or load it .* dataset.load\(\)"):
        GridSearchCV(search(), {}).fit(stored, Y)
    assert LinearSVCCV([0.1, 1.0], cv=2, loss="hinge").fit(stored).best_params_["C"] in (0.1, 1.0)


class WrongDimension(TinyMulticlass):
    """``setup`` forgets the classes."""

    def setup(self, X, Y):
        return super().setup(X, Y) - 1


def test_a_wrong_dimension_from_setup_is_named():
    rows = list(np.eye(3))
    expected = (
        r"WrongDimension.setup returned 8, but joint_feature\(X\[0\], y\[0\]\) has shape \(9,\)"
    )
    with pytest.raises(ValueError, match=expected):
        StructuredSVM(WrongDimension()).fit(rows, [0, 1, 2])
