"""Files of a data set that were altered are found when they are first read, before compiled code uses them;
the error names file, shard and row."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC, SequenceTagger, data, minimize
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import DualCoordinate

TYPES = {"indices": "<i4", "indptr": "<i8", "sequence": "<i8", "label": "<i8"}


@pytest.fixture
def sparse(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random(200, 30, 0.2, "csr", rng=rng)
    rows = data.write(tmp_path, [(X, rng.choice([-1, 1], 200), np.ones(200))], shard_bytes=4000)
    assert repr(rows).endswith("4 shards>")
    return tmp_path


def alter(folder, column, at, number):
    """Change one number of the second shard; its file."""
    path = sorted(folder.glob(f"*.{column}.bin"))[1]
    values = np.frombuffer(path.read_bytes(), TYPES.get(column, "<f8")).copy()
    values[at] = number
    path.write_bytes(values.tobytes())
    return path


@pytest.mark.parametrize(
    ("column", "at", "number", "text"),
    [
        ("indices", 5, 2**30, r"row 5\d has an entry in column 1073741824"),
        ("indices", slice(0, 12), 3, r"a row has two entries in one column"),
        ("data", 5, np.nan, r"nan in row 5\d, column \d+"),
        ("indptr", 7, -5, r"pointers of rows"),
        ("indptr", -1, 10**9, r"pointers of rows"),
        ("label", 3, 7, r"a label is not in the manifest"),
        ("weight", 3, -1.0, r"a weight is negative"),
    ],
)
def test_fits_name_file_and_row(sparse, column, at, number, text):
    path = alter(sparse, column, at, number)
    with pytest.raises(data.DatasetError, match=f"{re.escape(path.name)}.*shard 1.*{text}"):
        LinearSVC(loss="hinge").fit(data.open(sparse))


@pytest.mark.parametrize(
    ("column", "number"), [("indices", 2**30), ("data", np.nan), ("indptr", -5)]
)
def test_every_way_to_read_rows(sparse, column, number):
    path = alter(sparse, column, 7, number)
    X, y = data.open(sparse), np.where(np.arange(200) % 2, 1.0, -1.0)
    n, d = X.shape
    found = pytest.raises(data.DatasetError, match=re.escape(path.name))
    for read in (
        lambda X: X.dot(np.ones(d), 0, n),
        lambda X: X.dot(np.ones((d, 3)), 0, n),
        lambda X: X.accumulate(np.ones(n), 0, n, np.zeros(d)),
        lambda X: X.block(0, n),
        lambda X: X.take(np.arange(n)[::-1]),
        lambda X: X.load(),
        lambda X: list(X.design.chunks(0, n)),
        lambda X: minimize(ScoreRisk(X, y, Hinge()), C=1.0),
        lambda X: minimize(ScoreRisk(X, y, Hinge()), C=1.0, solver=DualCoordinate()),
        lambda X: data.hstack([X, np.ones((n, 1))]).block(0, n),
        lambda X: LinearSVC(loss="hinge").fit(np.eye(d), np.arange(d) % 2).predict(X),
    ):
        with found:
            read(data.open(sparse))
    # rows that are not concerned can be had all the same
    assert X.dot(np.ones(d), 0, 10).shape == (10,)
    assert X.take(np.array([0, n - 1])).shape == (2, d)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_dense_files(tmp_path, number):
    X = np.random.default_rng(0).normal(size=(50, 3))
    data.write(tmp_path, [(X, np.arange(50) % 2)], shard_bytes=400)
    path = alter(tmp_path, "features", 10, number)
    with pytest.raises(
        data.DatasetError, match=f"{re.escape(path.name)}.*{number} in row 2\\d, column 1"
    ):
        LinearSVC(loss="hinge").fit(data.open(tmp_path))


def test_sequences(tmp_path):
    rng = np.random.default_rng(0)
    X = [sp.csr_matrix(rng.normal(size=(6, 4))) for _ in range(12)]
    data.write(tmp_path, [(X, [[0, 1] * 3] * 12)], shard_bytes=1000)
    for number in (10**9, -1, 0):
        good = {path: path.read_bytes() for path in tmp_path.glob("*.sequence.bin")}
        path = alter(tmp_path, "sequence", 2, number)
        with pytest.raises(
            data.DatasetError, match=f"{re.escape(path.name)}.*bounds of its sequences"
        ):
            SequenceTagger().fit(data.open(tmp_path))
        path.write_bytes(good[path])
    path = alter(tmp_path, "indices", 5, 2**30)
    with pytest.raises(data.DatasetError, match=re.escape(path.name)):
        SequenceTagger().fit(data.open(tmp_path))


def test_the_second_pass_does_not_look_again(sparse):
    """A file that changes under a data set that was read is not looked at twice: products with it are as
    fast as before. (Whoever opens it again sees it.)"""
    rows = data.open(sparse)
    rows.dot(np.ones(30), 0, 200)
    alter(sparse, "data", 5, np.nan)
    assert np.isnan(rows.dot(np.ones(30), 0, 200)).any()
    with pytest.raises(data.DatasetError):
        data.open(sparse).dot(np.ones(30), 0, 200)
    # and a fit to it is no certificate
    with pytest.raises(ValueError, match="NaN"):
        minimize(ScoreRisk(rows, np.where(np.arange(200) % 2, 1.0, -1.0), Hinge()), C=1.0)
