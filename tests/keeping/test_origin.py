"""What a file says about its origin: versions, and a hash of the training data where a fit had one."""

from __future__ import annotations

import json
import platform

import numba
import numpy as np
import pytest
from safetensors import safe_open
from sklearn.datasets import load_iris

import maxmargin
from maxmargin import LinearSVC, SequenceTagger, load

X, Y = load_iris(return_X_y=True)


def metadata(path) -> dict[str, str]:
    with safe_open(path, framework="np") as file:
        return file.metadata()


def data_hash(path) -> str | None:
    return json.loads(metadata(path)["about"]).get("training_data")


def test_versions(path):
    LinearSVC().fit(X, Y).save(path)
    found = metadata(path)
    assert found["library"] == maxmargin.__version__
    assert found["python"] == platform.python_version()
    assert found["numpy"] == np.__version__
    assert found["numba"] == numba.__version__
    assert set(found) == {"checksum", "format", "library", "python", "numpy", "numba", "about"}


def test_no_hash_is_computed_for_the_file_alone(path):
    LinearSVC().fit(X, Y).save(path)
    assert data_hash(path) is None


def test_fits_with_checkpoints_name_their_data(tmp_path):
    hashes = []
    for k, y in enumerate([Y, Y, Y[::-1]]):
        svc = LinearSVC(checkpoint=tmp_path / "state").fit(X, y).save(tmp_path / str(k))
        load(tmp_path / str(k)).save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / str(k)).read_bytes()
        hashes.append(data_hash(tmp_path / str(k)))
    assert hashes[0] == hashes[1] != hashes[2]
    svc.set_params(checkpoint=None).fit(X, Y).save(tmp_path / "a")
    assert data_hash(tmp_path / "a") is None


def test_taggers_name_their_data(tmp_path):
    tokens, tags = [[["a"], ["b"]]] * 3, [["A", "B"]] * 3
    SequenceTagger(C=1.0, checkpoint=tmp_path / "c").fit(tokens, tags).save(tmp_path / "m")
    assert data_hash(tmp_path / "m") is not None


def test_data_sets_on_disk_are_known_by_their_checksums(tmp_path):
    data = maxmargin.data.write(tmp_path / "iris", [(X, Y)])
    svc = LinearSVC().fit(data).save(tmp_path / "a")
    assert svc.set_params(checkpoint=tmp_path / "c").fit(data).save(tmp_path / "b") is svc
    assert data_hash(tmp_path / "a") == data_hash(tmp_path / "b") is not None
    data.append([(X[:10], Y[:10])])
    svc.set_params(checkpoint=None).fit(maxmargin.data.open(tmp_path / "iris")).save(tmp_path / "c")
    assert data_hash(tmp_path / "c") not in (None, data_hash(tmp_path / "a"))


def test_a_hash_never_outlives_its_fit(tmp_path):
    data = maxmargin.data.write(tmp_path / "iris", [(X, Y)])
    svc = LinearSVC().fit(data)
    with pytest.raises(ValueError, match="NaN"):
        svc.fit(np.full((4, 4), np.nan), [0, 1, 0, 1])
    svc.save(tmp_path / "after an error")
    assert data_hash(tmp_path / "after an error") is None
    LinearSVC().fit(data).partial_fit(X, Y).save(tmp_path / "after a stream")
    assert data_hash(tmp_path / "after a stream") is None
