"""The typed program of a user runs; ``.ci/run`` checks it with mypy --strict and pyright."""

from __future__ import annotations

import typing

import pytest
from tests.typed import program

from maxmargin import LinearSVC, LinearSVR, load
from maxmargin.persistence import ModelFileError, SavedEstimator
from maxmargin.persistence._models import MODELS


def test_the_program_runs():
    program.main()


def test_the_type_of_load_names_every_class_that_can_be_saved():
    assert set(typing.get_args(SavedEstimator)) == {model.cls for model in MODELS.values()}


def test_a_file_with_another_class_is_refused(tmp_path):
    svc = LinearSVC(loss="hinge").fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "svc")
    assert load(tmp_path / "svc", expected=LinearSVC).objective_ == svc.objective_
    with pytest.raises(ModelFileError, match="holds a LinearSVC, not a LinearSVR"):
        load(tmp_path / "svc", expected=LinearSVR)


@pytest.mark.parametrize("wrong", [LinearSVC(loss="hinge"), "LinearSVC", int, object])
def test_only_classes_of_the_library_can_be_expected(wrong, tmp_path):
    with pytest.raises(TypeError, match=r"give one of the classes .*LinearSVC"):
        load(tmp_path / "svc", expected=wrong)
