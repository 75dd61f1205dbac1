"""Notes in model files: strings of the caller, which nothing else depends on."""

import json

import numpy as np
import pytest
from fuzz.file_damage import Parts, rechecked
from safetensors import safe_open

from maxmargin import LinearSVC, load
from maxmargin.persistence import ModelFileError, read_notes, save

NOTES = {"source": "two points", "ünicode": 'line\n"quoted"'}


@pytest.fixture
def svc():
    return LinearSVC(loss="hinge").fit([[0.0], [1.0]], [0, 1])


def test_notes_come_back_and_change_no_prediction(svc, tmp_path):
    path = tmp_path / "model"
    save(svc, path, NOTES)
    assert read_notes(path) == NOTES
    assert (load(path).coef_ == svc.coef_).all()


def test_a_file_without_notes_has_none(svc, tmp_path):
    svc.save(tmp_path / "a")
    save(svc, tmp_path / "b", {})
    assert read_notes(tmp_path / "a") == {}
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_programs_still_read_the_file(svc, tmp_path):
    save(svc, tmp_path / "model", NOTES)
    with safe_open(tmp_path / "model", "np") as file:
        assert json.loads(file.metadata()["about"])["notes"] == NOTES


@pytest.mark.parametrize("notes", [["a"], {"a": 1}, None, 3])
def test_notes_that_are_no_strings_are_refused(svc, tmp_path, notes):
    path = tmp_path / "model"
    save(svc, path, NOTES)
    parts = Parts(path.read_bytes())
    about = json.loads(parts.metadata["about"])
    parts.metadata["about"] = json.dumps({**about, "notes": notes})
    path.write_bytes(rechecked(parts.join(np.random.default_rng(0))))
    with pytest.raises(ModelFileError):
        read_notes(path)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "model"
    path.write_text("no model")
    with pytest.raises(ModelFileError, match="not a model of maxmargin"):
        read_notes(path)
