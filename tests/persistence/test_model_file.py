"""What may be saved, and what the file is."""

from __future__ import annotations

import json
import os
import platform

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from tests.persistence.same import Pick, identical

import maxmargin
from maxmargin import LinearSVC, SequenceTagger, StructuredSVM, load
from maxmargin.compiled.precompiled import precompiled
from maxmargin.files.codec import Decoder, Encoder, dumps
from maxmargin.persistence import ModelFileError, save

X, Y = load_iris(return_X_y=True)
WORDS = [["w=the", "short"], ["w=cat"], ["w=sat"]], [["w=a", "short"], ["w=dog"], ["w=ran"]]
TAGS = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]

# -- refusals and the file -------------------------------------------------------------------------


@pytest.mark.parametrize("est", [LinearSVC(loss="hinge"), SequenceTagger(), StructuredSVM(Pick())])
def test_unfitted(est, path):
    with pytest.raises(NotFittedError):
        est.save(path)
    assert not path.exists()


@pytest.mark.parametrize("label", [np.str_("x"), frozenset("x"), b"x", ("a", 1j), (np.int64(1),)])
def test_labels_that_cannot_be_saved(label, path):
    est = SequenceTagger().fit([np.eye(2)] * 2, [["a", "b"], ["b", "a"]])
    est.classes_ = ["a", label]
    with pytest.raises(ValueError, match=r"the label .* cannot be saved"):
        est.save(path)
    assert os.listdir(path.parent) == []


def test_what_load_would_refuse_is_not_written(path):
    est = LinearSVC(loss="hinge").fit(X, Y)
    est.save(path)
    before = path.read_bytes()
    est.coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="coef_ are not finite numbers"):
        est.save(path)
    est.fit(X, Y).coef_ = np.zeros((3, 2))
    with pytest.raises(ValueError, match="Was it changed after fit"):
        est.save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_subclasses_and_strangers(path):
    class Own(LinearSVC):
        pass

    for est in (Own().fit(X, Y), object()):
        with pytest.raises(TypeError, match=r"cannot be saved; only .*LinearSVC"):
            save(est, path)


def test_an_interrupted_write_leaves_the_old_file(path, monkeypatch):
    est = LinearSVC(loss="hinge").fit(X, Y).save(path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        est.set_params(C=2.0).save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_equal_models_make_equal_files(tmp_path):
    for name in ("a", "b"):
        SequenceTagger(forbidden_transitions={("VERB", "DET"), ("DET", "VERB")}).fit(
            WORDS, TAGS
        ).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_certificates_without_bounds(path):
    est = LinearSVC(loss="hinge").fit(X, Y)
    est.objective_, est.gap_, est.converged_ = float("nan"), float("inf"), False
    est.lower_bound_, est.stop_reason_ = -float("inf"), "interrupted"
    est.save(path)
    again = load(path)
    assert np.isnan(again.objective_)
    assert (again.lower_bound_, again.gap_) == (-np.inf, np.inf)


def test_the_file_is_plain_safetensors_with_a_json_header(path):
    LinearSVC(C=0.5, loss="hinge").fit(X, Y).save(path)
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
        assert file.get_tensor("coef_").shape == (3, 4)
        assert json.loads(file.get_tensor("tree").tobytes())["n_features_in_"] == 4
    header = json.loads(metadata["about"])
    assert metadata["format"] == "maxmargin model 3"
    compiler = precompiled().numba or numba.__version__
    versions = maxmargin.__version__, platform.python_version(), np.__version__, compiler
    assert tuple(metadata[k] for k in ("library", "python", "numpy", "numba")) == versions
    assert set(metadata) == {"checksum", "format", "library", "python", "numpy", "numba", "about"}
    assert (header["class"], header["params"]["C"]) == ("LinearSVC", 0.5)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="is not a file"):
        load(tmp_path)


# -- values ----------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
labels = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
values = st.recursive(
    labels,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(labels, inner, max_size=4)
    ),
    max_leaves=10,
)


def through_json(value):
    encoder = Encoder()
    text = dumps(encoder.encode(value))
    return Decoder(encoder.finish()).decode(text, "it")


@given(values)
def test_values_come_back(value):
    assert identical(through_json(value), value)


@given(st.frozensets(labels, max_size=5))
def test_sets_come_back(value):
    back = through_json(value)
    assert type(back) is frozenset
    assert back == value
