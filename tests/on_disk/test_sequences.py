"""Sequences of any length: stored end to end, cut between sequences, given back as they were."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import data
from maxmargin.data.design import as_design


def make(sparse, texts, n=37):
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, n)
    X = [rng.normal(size=(length, 3)) * (rng.random((length, 3)) < 0.6) for length in lengths]
    Y = [rng.integers(0, 4, length) for length in lengths]
    if texts:
        Y = [np.array(["N", "V", "Adj", "Adv"])[y] for y in Y]
    return [sp.csr_matrix(x) if sparse else x for x in X], Y


def plain(x):
    return x.toarray() if sp.issparse(x) else x


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("texts", [False, True])
def test_round_trip(tmp_path, sparse, texts):
    X, Y = make(sparse, texts)
    weight, group = np.arange(37.0), np.arange(37) // 5
    batches = [
        (X[i : i + 10], Y[i : i + 10], weight[i : i + 10], group[i : i + 10])
        for i in range(0, 37, 10)
    ]
    written = data.write(tmp_path, batches, shard_bytes=600)
    assert len(written.fingerprint) > 3
    on_disk = data.open(tmp_path)
    assert on_disk.ragged
    assert len(on_disk) == 37
    for lo, hi in [(0, 37), (0, 0), (37, 37), (4, 5), (3, 30)]:
        xs, ys = on_disk.sequences(lo, hi)
        assert len(xs) == len(ys) == hi - lo
        for x, y, x0, y0 in zip(xs, ys, X[lo:hi], Y[lo:hi], strict=True):
            assert np.array_equal(plain(x), plain(x0))
            assert np.array_equal(y, y0)
    assert np.array_equal(on_disk.weight[5:20], weight[5:20])
    assert np.array_equal(on_disk.group, group)
    assert on_disk.class_counts.sum() == on_disk.shape[0] == sum(x.shape[0] for x in X)
    loaded = on_disk.load()
    assert len(loaded[0]) == len(loaded[1]) == len(loaded[2]) == 37
    flat = as_design((sp.vstack if sparse else np.concatenate)(X))
    W = np.random.default_rng(0).normal(size=(3, 4))
    assert np.array_equal(on_disk.dot(W, 1, 99), flat.dot(W, 1, 99))


def test_appending_and_refusals(tmp_path):
    X, Y = make(False, True)
    on_disk = data.write(tmp_path, [(X, Y)])
    on_disk.append([(X[:5], Y[:5])])
    assert len(on_disk) == 42
    assert np.array_equal(on_disk.sequences(37, 38)[0][0], X[0])
    with pytest.raises(IndexError, match=r"sequences 3 \.\. 43 are out of range: there are 42"):
        on_disk.sequences(3, 43)
    with pytest.raises(ValueError, match="does not hold sequences"):
        data.write(tmp_path / "rows", [(np.eye(2), [0, 1])]).sequences(0, 1)
    with pytest.raises(TypeError, match="all sparse or all dense"):
        on_disk.append([([np.eye(3), sp.eye(3, format="csr")], [[0] * 3] * 2)])


def test_sequences_without_labels_and_empty_ones(tmp_path):
    on_disk = data.write(tmp_path, [{"X": [np.empty((0, 2)), np.eye(2), np.empty((0, 2))]}])
    xs, ys = on_disk.sequences(0, 3)
    assert ys is None
    assert [x.shape for x in xs] == [(0, 2), (2, 2), (0, 2)]


def test_a_batch_of_empty_sequences_says_nothing_about_the_labels(tmp_path):
    nothing, some = ([np.empty((0, 2))], [[]]), ([np.eye(2)], [["a", "b"]])
    on_disk = data.write(tmp_path, [nothing, some])
    on_disk.append([nothing])
    on_disk.append([some, nothing])
    on_disk.verify()
    assert [y.tolist() for y in on_disk.sequences(0, 5)[1]] == [[], ["a", "b"], [], ["a", "b"], []]
    assert on_disk.y[1:3].tolist() == ["b", "a"]
    assert data.write(tmp_path / "none", [nothing]).y is None
