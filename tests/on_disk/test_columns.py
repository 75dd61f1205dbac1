"""Labels, weights and groups: kept as they are, counted, read by slices."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from maxmargin import data

X = np.arange(30.0).reshape(10, 3)


def split(*arrays, size=4):
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, len(arrays[0]), size)]


@pytest.mark.parametrize(
    "y",
    [
        np.array([3, 1, 2, 2, 1, 1, 3, 3, 3, 1]),
        np.array([1, -1] * 5, dtype=np.int8),
        np.linspace(0, 1, 10, dtype=np.float32),
        np.array([True, False, False, True, True] * 2),
        np.array(["b", "a", "long name", "b", "a", "ä", "a", "a", "b", "c"]),
    ],
)
def test_labels(tmp_path, y):
    on_disk = data.write(tmp_path, split(X, y), shard_bytes=60)
    assert len(on_disk.fingerprint) > 2
    on_disk = data.open(tmp_path)
    classes, counts = np.unique(y, return_counts=True)
    assert on_disk.y.dtype == y.dtype or y.dtype.kind == "U"
    assert np.array_equal(np.asarray(on_disk.y), y)
    assert np.array_equal(on_disk.y[2:9], y[2:9])
    assert np.array_equal(on_disk.y[-3:], y[-3:])
    assert len(on_disk.y[5:2]) == 0
    assert on_disk.y[3] == y[3]
    assert list(on_disk.y) == y.tolist()
    assert np.array_equal(on_disk.classes, classes)
    assert np.array_equal(on_disk.class_counts, counts)
    assert np.array_equal(classes[on_disk.codes[1:8]], y[1:8])
    assert len(on_disk.y) == len(on_disk) == 10


def test_slices_are_arrays_of_their_own(tmp_path):
    on_disk = data.write(tmp_path, [(X, np.arange(10))])
    on_disk.y[2:5][:] = 0  # does not reach the file
    on_disk.verify()
    with pytest.raises(TypeError, match="integers and slices"):
        on_disk.y[[1, 2]]


@pytest.mark.parametrize(
    ("y", "stored"),
    [
        (pd.Series(["a", "b"], dtype="string"), ["a", "b"]),
        (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
        (np.array([np.str_("a"), "b"], dtype=object), ["a", "b"]),
        (np.array(["a", "b"], dtype=getattr(np.dtypes, "StringDType", lambda: "U1")()), ["a", "b"]),
        (np.array([1, 2.5], dtype=object), [1.0, 2.5]),
        (pd.Series([2, 3]), [2, 3]),
        ([True, False], [True, False]),
        (("x", "y"), ["x", "y"]),
    ],
)
def test_kinds_of_label_arrays(tmp_path, y, stored):
    assert np.asarray(data.write(tmp_path, [(np.eye(2), y)]).y).tolist() == stored


def test_many_distinct_numbers_are_no_classes(tmp_path):
    n = 10_001
    on_disk = data.write(tmp_path, split(np.ones((n, 1)), np.arange(n), size=3000))
    assert on_disk.classes is None
    assert on_disk.class_counts is None
    assert on_disk.codes is None
    assert np.array_equal(np.asarray(on_disk.y), np.arange(n))


def test_weights_and_groups(tmp_path):
    y, weight, group = np.arange(10) % 2, np.arange(10) / 4, np.arange(10) // 3
    on_disk = data.write(tmp_path / "a", split(X, y, weight, group), shard_bytes=60)
    assert np.array_equal(on_disk.weight[3:7], weight[3:7])
    assert np.array_equal(on_disk.group, group)
    mappings = [{"X": X, "y": y, "group": group.astype(np.float64)}]
    on_disk = data.write(tmp_path / "b", mappings)
    assert on_disk.weight is None
    assert np.array_equal(on_disk.group[:], group)


def test_rows_without_labels(tmp_path):
    on_disk = data.write(tmp_path, [{"X": X}])
    assert on_disk.y is on_disk.classes is on_disk.codes is None
    again, y, weight = on_disk.load()
    assert np.array_equal(again, X)
    assert y is weight is None


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_keep_their_names(tmp_path, package):
    frames = pytest.importorskip(package)
    table = frames.DataFrame({"height": [1.0, 2.0], "Breite": [3.0, 4.5]})
    labels = frames.Series(["x", "y"])
    on_disk = data.write(tmp_path, [(table, labels)])
    assert on_disk.feature_names == ["height", "Breite"]
    assert np.array_equal(on_disk.load()[0], [[1.0, 3.0], [2.0, 4.5]])
    assert on_disk.y[:].tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="feature names differ"):
        on_disk.append([(table[["Breite", "height"]], labels)])


def test_load(tmp_path):
    weight = np.linspace(0, 1, 10)
    loaded = data.write(tmp_path, [(sp.csr_matrix(X), np.arange(10), weight)]).load()
    assert np.array_equal(loaded[0].toarray(), X)
    assert np.array_equal(loaded[1], np.arange(10))
    assert np.array_equal(loaded[2], weight)


def test_facts_in_the_manifest(tmp_path):
    sparse = sp.csr_matrix(X)
    for layout in (X, sparse):
        on_disk = data.write(tmp_path, [(layout, np.arange(10))], overwrite=True)
        assert on_disk.largest_square == (X**2).sum(axis=1).max()
        assert on_disk.nnz == (X.size if layout is X else sparse.nnz)
        assert on_disk.dtype == np.float64
        assert not on_disk.ragged
