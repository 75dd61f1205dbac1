"""Writing: one pass, the rows alone decide the files, what does not fit is refused by name."""

import os
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from maxmargin import data


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def columns(folder):
    """Files by names without random digits; of the manifest, the fingerprint."""
    named = {re.sub(r"-\d{15}", "-", name): content for name, content in files(folder).items()}
    return named | {"manifest.json": data.open(folder).fingerprint}


def rows(n, d=4, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return sp.csr_matrix(X) if sparse else X, rng.choice(["a", "b", "c"], n), rng.random(n)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_files_depend_on_the_rows_not_on_the_batches(tmp_path, sparse):
    X, y, weight = rows(500, sparse=sparse)
    for size in (7, 100, 500):
        batches = (
            (X[i : i + size], y[i : i + size], weight[i : i + size]) for i in range(0, 500, size)
        )
        data.write(tmp_path / str(size), batches, shard_bytes=3000)
    assert len(data.open(tmp_path / "7").fingerprint) > 3
    assert columns(tmp_path / "7") == columns(tmp_path / "100") == columns(tmp_path / "500")


def test_a_generator_is_read_once_and_one_batch_at_a_time(tmp_path):
    alive = []

    def batches():
        for k in range(5):
            written = [p for p in tmp_path.glob("*.features.bin") if p.stat().st_size]
            alive.append(len(written))
            yield np.full((100, 2), float(k)), np.zeros(100)

    data.write(tmp_path, batches(), shard_bytes=1600)
    assert alive == [0, 1, 2, 3, 4]  # every shard is on disk before the next batch is asked for


def test_types_of_features(tmp_path):
    X = np.array([[1, 2], [3, 4]])
    for given, asked, stored in [
        (np.int32, None, np.float64),
        (np.float32, None, np.float32),
        (np.float64, None, np.float64),
        (np.float64, np.float32, np.float32),
        (bool, "float32", np.float32),
    ]:
        for matrix in (X.astype(given), sp.csr_matrix(X.astype(given))):
            written = data.write(tmp_path, [(matrix, [0, 1])], dtype=asked, overwrite=True)
            assert written.dtype == stored
            assert written.load()[0].dtype == stored
    fortran = np.asfortranarray(X.astype(np.float32))
    written = data.write(tmp_path, [(fortran, [0, 1])], overwrite=True)
    assert np.array_equal(written.load()[0], X)


def test_entries_stored_twice_are_added(tmp_path):
    X = sp.csr_matrix(
        (np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2)
    )
    assert data.write(tmp_path, [(X, [0])]).load()[0].toarray().tolist() == [[5.0, 3.0]]


def test_sparse_rows_may_get_more_features(tmp_path):
    batches = [(sp.csr_matrix(np.ones((2, d))), [0, 1]) for d in (3, 5, 4)]
    written = data.write(tmp_path, batches)
    assert written.shape == (6, 5)
    written.append([(sp.csr_matrix(np.ones((1, 7))), [1])])
    assert written.shape == (7, 7)
    assert np.array_equal(written.dot(np.arange(7.0), 0, 7), [3.0, 3.0, 10.0, 10.0, 6.0, 6.0, 21.0])
    assert data.open(tmp_path).block(0, 2).shape == (2, 7)


def test_columns_beyond_32_bits(tmp_path):
    wide = sp.csr_matrix(
        (np.array([1.0, 2.0]), np.array([5, 2**33]), np.array([0, 1, 2])), shape=(2, 2**33 + 1)
    )
    written = data.write(tmp_path, [(sp.csr_matrix(np.eye(3)), [0, 1, 2]), (wide, [0, 1])])
    assert written.shape == (5, 2**33 + 1)
    assert [s.files["indices"].dtype for s in written._manifest.shards] == ["<i4", "<i8"]
    assert written.block(0, 5).indices.tolist() == [0, 1, 2, 5, 2**33]


def test_columns_out_of_order_stay_so(tmp_path):
    X = sp.csr_matrix((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert data.write(tmp_path, [(X, [0])]).block(0, 1).indices.tolist() == [2, 0]


def test_appending_leaves_old_files_alone(tmp_path):
    X, y, _ = rows(300)
    written = data.write(tmp_path, [(X[:100], y[:100])])
    before, fingerprint = files(tmp_path), written.fingerprint
    design = written.design
    assert written.append([(X[100:200], y[100:200]), (X[200:], y[200:])]) is written
    after = files(tmp_path)
    assert all(after[name] == before[name] for name in before if name != "manifest.json")
    assert written.shape == (300, 4)
    assert np.array_equal(written.load()[0], X)
    assert written.y[:].tolist() == y.tolist()
    assert written.class_counts.tolist() == np.unique(y, return_counts=True)[1].tolist()
    assert written.extends(fingerprint)
    assert written.extends(written.fingerprint)
    assert not data.write(tmp_path / "b", [(X[1:], y[1:])]).extends(fingerprint)
    assert design.shape == (100, 4)  # who had the old rows still has them
    assert np.array_equal(design.block(0, 100).X, X[:100])


def test_codes_of_texts_are_part_of_the_fingerprint(tmp_path):
    one = data.write(tmp_path / "1", [(np.eye(2), ["a", "b"])])
    two = data.write(tmp_path / "2", [(np.eye(2), ["a", "c"])])
    assert one.fingerprint != two.fingerprint
    assert one.append([(np.eye(2), ["0", "b"])]).classes.tolist() == ["0", "a", "b"]
    assert one.y[:].tolist() == ["a", "b", "0", "b"]
    assert one.codes[:].tolist() == [1, 2, 0, 2]


def test_what_is_there_is_not_overwritten_unless_asked(tmp_path):
    data.write(tmp_path, [(np.eye(2), [0, 1])])
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        data.write(tmp_path, [(np.eye(3), [0, 1, 2])])
    assert data.open(tmp_path).shape == (2, 2)
    data.write(tmp_path, [(np.eye(3), [0, 1, 2])], overwrite=True)
    assert data.open(tmp_path).shape == (3, 3)
    (tmp_path / "mine.txt").rename(tmp_path.parent / "mine.txt")  # it was not removed
    assert set(columns(tmp_path)) == {
        "manifest.json", "0002-00000.features.bin", "0002-00000.label.bin",
    }  # fmt: skip


NAN = np.array([[0.0, 1.0], [2.0, np.nan]])
GOOD = (np.ones((2, 2)), [0, 1])

REFUSED = {
    "nan": ([GOOD, (NAN, [0, 1])], "batch 1: row 1 has a feature that is NaN"),
    "inf": (
        [(sp.csr_matrix([[1.0], [np.inf]]), [0, 1])],
        "batch 0: .* infinite .* in row 1, column 0",
    ),
    "overflow": ([(np.array([[1e200]]), [0])], "batch 0: row 0 has features so large"),
    "missing": ([(pd.DataFrame({"a": [1.0, None]}), [0, 1])], "batch 0: row 1 has a feature"),
    "width": (
        [GOOD, (np.ones((2, 3)), [0, 1])],
        "batch 1: X has 3 features, but previous batches have 2",
    ),
    "type": (
        [GOOD, (np.ones((2, 2), "f4"), [0, 1])],
        "float32, but previous batches have float64",
    ),
    "layout": (
        [GOOD, (sp.eye(2, format="csr"), [0, 1])],
        "X is csr, but previous batches are dense",
    ),
    "labels": ([(np.ones((2, 2)), [0])], r"batch 0: y has shape \(1,\) for 2 rows"),
    "kinds": ([GOOD, (np.ones((2, 2)), ["a", "b"])], "batch 1: labels are of kind text"),
    "halves": ([GOOD, (np.ones((2, 2)), [0.5, 1])], "batch 1: labels of type float64 do not fit"),
    "nan label": ([(np.ones((2, 2)), [0, np.nan])], "batch 0: the label of row 1"),
    "mixed": ([(np.ones((2, 2)), np.array([0, "a"], dtype=object))], "all numbers or all strings"),
    "weight": (
        [(*GOOD, [1.0, -1.0])],
        "batch 0: weight must be finite and nonnegative; number 1 is -1.0",
    ),
    "some weights": ([GOOD, (*GOOD, [1.0, 1.0])], "batch 1: weight and group"),
    "group": ([(*GOOD, None, [0.5, 1])], "batch 0: group ids must be integers"),
    "no list": ((np.ones((2, 2)), [0, 1]), r"a list of one batch: \[\(X, y\)\]"),
    "rows": ([([[1.0, 2.0]], [0])], "batch 0: X is a list"),
    "names": ([{"X": np.eye(2), "z": 1}], "batch 0: a mapping must"),
    "text": ([(np.array([["a"]]), [0])], "batch 0: X has 2 dimensions and type"),
    "bytes": ([(np.eye(2), np.array([b"a", b"b"]))], "labels are bytes"),
    "nothing": ([], "batches must not be empty"),
    "ragged": ([GOOD, ([np.eye(2)], [[0, 1]])], "batch 1: a data set cannot mix sequences"),
    "lengths": ([([np.eye(2)], [[0]])], "sequence 0 has 2 rows but 1 labels"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_name_the_batch_and_leave_nothing(tmp_path, what):
    batches, text = REFUSED[what]
    with pytest.raises((ValueError, TypeError), match=text):
        data.write(tmp_path, batches, shard_bytes=8)
    assert os.listdir(tmp_path) == []
    written = data.write(tmp_path, [GOOD])
    before = files(tmp_path)
    with pytest.raises((ValueError, TypeError)):
        data.write(tmp_path, batches, shard_bytes=8, overwrite=True)
    if what != "nothing" and what != "layout":
        with pytest.raises((ValueError, TypeError)):
            written.append(batches)
    assert files(tmp_path) == before


def test_appending_to_what_has_changed_is_refused(tmp_path):
    one, two = data.write(tmp_path, [GOOD]), data.open(tmp_path)
    two.append([GOOD])
    with pytest.raises(data.DatasetError, match="has changed since it was opened"):
        one.append([GOOD])


def test_errors_of_a_generator_pass_through(tmp_path):
    def batches():
        yield GOOD
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        data.write(tmp_path, batches())
    assert os.listdir(tmp_path) == []


def test_no_data_set(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("manifest.json does not exist")):
        data.open(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Write it with maxmargin\.data\.write"):
        data.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        data.open(tmp_path, storage_options={"key": "x"})
