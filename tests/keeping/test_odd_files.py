"""Pipes, devices, folders and absurd contents in place of files: told at once, and no longer than needed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import maxmargin
from maxmargin import Checkpoint, CheckpointError, LinearSVC, data
from maxmargin.checkpoints import read_file, write_file
from maxmargin.data import DatasetError
from maxmargin.persistence import ModelFileError
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.where(X[:, 0] + RNG.normal(size=40) > 0, 1, -1)


def pipe(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def device(path):
    path.symlink_to("/dev/zero")


def terabyte(path):
    with path.open("wb") as file:
        file.truncate(2**40)


ODD = [pipe, folder, device]


@pytest.mark.parametrize("make", ODD)
def test_models(tmp_path, make):
    make(tmp_path / "odd")
    with pytest.raises(ModelFileError, match="is not a file"):
        maxmargin.load(tmp_path / "odd")


@pytest.mark.parametrize("make", ODD)
def test_checkpoints(tmp_path, make):
    make(tmp_path / "odd")
    with pytest.raises(CheckpointError, match="is not a file"):
        LinearSVC(loss="hinge").fit(X, Y, resume_from=tmp_path / "odd")


@pytest.mark.parametrize("make", [*ODD, terabyte])
def test_manifests(tmp_path, make):
    data.write(tmp_path, [(X, Y)])
    (tmp_path / "manifest.json").unlink()
    make(tmp_path / "manifest.json")
    with pytest.raises(DatasetError, match=r"is not a file|too many"):
        data.open(tmp_path)


@pytest.mark.parametrize("make", ODD)
def test_columns(tmp_path, make):
    opened = data.write(tmp_path, [(X, Y)])
    column = next(tmp_path.glob("*.features.bin"))
    column.unlink()
    make(column)
    with pytest.raises(DatasetError, match="missing"):
        data.open(tmp_path)
    with pytest.raises(DatasetError):
        opened.dot(np.zeros(3), 0, 40)


def test_a_data_set_that_is_a_link_to_itself(tmp_path):
    (tmp_path / "manifest.json").symlink_to("manifest.json")
    with pytest.raises(FileNotFoundError, match="there is no data set"):
        data.open(tmp_path)


# -- manifests -------------------------------------------------------------------------------------


def sealed(body):
    body.pop("checksum", None)
    for shard in body["shards"]:
        files = {k: [f["dtype"], f["shape"], f["checksum"]] for k, f in shard["files"].items()}
        content = [shard["rows"], shard["sequences"], shard["new_classes"], files]
        shard["checksum"] = checksum(content)
    body["checksum"] = checksum(body)
    return json.dumps(body)


def checksum(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda m: m.update(n_features=10**18), "shape of"),
        (lambda m: m.update(rows=-1), "rows of the manifest is -1"),
        (lambda m: m.update(rows=40.0), r"rows of the manifest is 40\.0"),
        (lambda m: m.update(rows=True), "rows of the manifest is True"),
        (lambda m: m.update(dtype="|O"), "dtype"),
        (lambda m: m.update(dtype="f8,i4"), "dtype"),
        (lambda m: m.update(ragged=1), "ragged"),
        (lambda m: m.update(largest_square="1"), "largest_square"),
        (lambda m: m.update(largest_square=float("nan")), "largest_square"),
        (lambda m: m.update(feature_names=["a"]), "feature_names"),
        (lambda m: m.update(more=1), "'more'"),
        (lambda m: m.update(generation=None), "generation"),
        (lambda m: m["labels"].update(dtype="|O"), "labels of dtype"),
        (lambda m: m["labels"].update(values=[1, -1]), "not distinct labels"),
        (lambda m: m["labels"].update(values=[-1, 2**64]), "not distinct labels"),
        (lambda m: m["labels"].update(counts=[1, 1]), "label counts"),
        (lambda m: m["labels"].update(kind="text"), "labels of dtype"),
        (lambda m: m["shards"][0]["files"]["features"].update(name="٠٠٠١-٠٠٠٠٠.x.bin"), "name"),
        (lambda m: m["shards"][0]["files"]["features"].update(dtype="<i8"), "dtype"),
        (lambda m: m["shards"][0]["files"].pop("label"), "labels without a column"),
    ],
)
def test_manifests_with_right_checksums(tmp_path, edit, text):
    data.write(tmp_path, [(X, Y)])
    path = tmp_path / "manifest.json"
    body = json.loads(path.read_text())
    edit(body)
    path.write_text(sealed(body))
    with pytest.raises(DatasetError, match=text) as caught:
        data.open(tmp_path)
    assert len(str(caught.value)) < len(str(path)) + 400


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"format":' * 5000, '{"rows":1,"rows":2}', "9" * 5000, "x" * 10_000]
)
def test_json_that_is_absurd(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DatasetError) as caught:
        data.open(tmp_path)
    assert len(str(caught.value)) < len(str(tmp_path)) + 400


def test_labels_that_are_no_class_are_found(tmp_path):
    data.write(tmp_path, [(X, Y)])
    path, column = tmp_path / "manifest.json", next(tmp_path.glob("*.label.bin"))
    labels = np.frombuffer(column.read_bytes(), dtype="<i8").copy()
    labels[3] = 7
    column.write_bytes(labels.tobytes())
    body = json.loads(path.read_text())
    file = body["shards"][0]["files"]["label"]
    file["checksum"] = hashlib.blake2b(labels.tobytes(), digest_size=16).hexdigest()
    path.write_text(sealed(body))
    opened = data.open(tmp_path)
    with pytest.raises(DatasetError, match="invalid numbers"):
        opened.verify()
    with pytest.raises(DatasetError, match="not in the manifest"):
        opened.codes[:]


def test_manifests_are_checked_without_asserts(tmp_path):
    """Under ``python -O`` as well."""
    data.write(tmp_path, [(X, Y)])
    path = tmp_path / "manifest.json"
    body = json.loads(path.read_text())
    body["rows"] = 41
    path.write_text(sealed(body))
    code = f"from maxmargin import data; data.open({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert "DatasetError" in done.stderr
    assert "rows: the shards have 40" in done.stderr


# -- checkpoints -----------------------------------------------------------------------------------

SOLVERS = {"planes": CuttingPlane(), "coordinate": DualCoordinate(), "newton": Newton()}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("planes", lambda part: part.update(w="x" * 10_000)),
        ("planes", lambda part: part.update(upper=np.array([1.0, 2.0]))),
        ("planes", lambda part: part.update(phase=10**30)),
        ("planes", lambda part: part.update(place={"guess": "1"})),
        ("planes", lambda part: part.update(place={})),
        ("planes", lambda part: part.update(identity=np.zeros(3))),
        ("planes", lambda part: part.update(elapsed=None)),
        ("planes", lambda part: part.update(history={"iteration": np.zeros(2, dtype=np.int64)})),
        ("planes", lambda part: part["memory"].update(n_blocks=10**18)),
        ("planes", lambda part: part["memory"].update(max_planes=-1)),
        ("planes", lambda part: part["memory"].update(ages=np.full(2, 1.5))),
        ("planes", lambda part: part["memory"].update(planes=None)),
        ("planes", lambda part: part["memory"].pop("kind")),
        ("planes", lambda part: part["dual"].update(kind="sets")),
        ("coordinate", lambda part: part["place"].update(rng={"bit_generator": "PCG64"})),
        ("coordinate", lambda part: part["place"].update(stages=["1"])),
        ("coordinate", lambda part: part["duals"].update(nonsense={"C": 1.0})),
        ("coordinate", lambda part: part["duals"]["coordinate"].update(C=-1.0)),
        ("newton", lambda part: part["duals"]["newton"].update(idle=3)),
    ],
)
def test_checkpoints_with_right_checksums(tmp_path, name, edit):
    path = tmp_path / "fit.checkpoint"
    svc = LinearSVC(
        tol=1e-9, solver=SOLVERS[name], max_iter=2, checkpoint=Checkpoint(path), loss="hinge"
    )
    svc.fit(X, Y)
    about, tree = read_file(path)
    edit(tree["parts"][0])
    write_file(path, about, tree)
    with pytest.raises(CheckpointError) as caught:
        svc.set_params(max_iter=9, checkpoint=None).fit(X, Y, resume_from=path)
    assert len(str(caught.value)) < len(str(path)) + 700
