"""Pipes, devices, folders and absurd contents in place of files: told at once, and no longer than needed."""

from __future__ import annotations

import os

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


ODD = [pipe, folder, device]


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize(
    ("error", "read"),
    [
        (ModelFileError, maxmargin.load),
        (CheckpointError, lambda path: LinearSVC().fit(X, Y, resume_from=path)),
        (DatasetError, lambda path: data.open(path.parent)),
    ],
)
def test_what_is_not_a_file(tmp_path, make, error, read):
    make(tmp_path / "manifest.json")
    with pytest.raises(error, match="is not a file"):
        read(tmp_path / "manifest.json")


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


# -- checkpoints -----------------------------------------------------------------------------------

SOLVERS = {"planes": CuttingPlane(), "coordinate": DualCoordinate(), "newton": Newton()}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("planes", lambda part: part.update(upper=np.array([1.0, 2.0]))),
        ("planes", lambda part: part.update(place={"guess": "1"})),
        ("planes", lambda part: part["dual"].update(kind="sets")),
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
