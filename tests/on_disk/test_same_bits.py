"""Rows on disk give the bits of rows in memory, whatever the shards, chunks, batches and threads."""

import pickle
import threading
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import data
from maxmargin.data import design as designs
from maxmargin.data import sharded
from maxmargin.data.design import CSRDesign, DenseDesign, as_design, as_matrix, shard_bounds


def matrix(layout, dtype, n, d, seed=0):
    rng = np.random.default_rng(seed)
    if layout == "dense":
        return rng.normal(size=(n, d)).astype(dtype)
    X = sp.random(n, d, density=0.2, format="csr", random_state=seed, dtype=np.float64)
    X.data = rng.normal(size=len(X.data))
    return X.astype(dtype)


def batches(X, y, size):
    return ((X[i : i + size], y[i : i + size]) for i in range(0, X.shape[0], size))


def check(design, X, ranges, seed=1):
    """``design`` and the design of X in memory: the same products over row ranges."""
    memory = as_design(X)
    assert design.shape == memory.shape
    assert design.nnz == memory.nnz
    rng = np.random.default_rng(seed)
    d = memory.shape[1]
    for lo, hi in ranges:
        for columns in ((), (1,), (3,), (9,)):
            W = rng.normal(size=(d, *columns))
            assert np.array_equal(design.dot(W, lo, hi), memory.dot(W, lo, hi)), (lo, hi, columns)
            coef = rng.normal(size=(hi - lo, *columns))
            for share in (0.0, 0.5, 1.0):
                coef[rng.random(hi - lo) >= share] = 0.0
                ours, theirs = rng.normal(size=(2, d, *columns))
                theirs[:] = ours
                design.accumulate(coef, lo, hi, ours)
                memory.accumulate(coef, lo, hi, theirs)
                assert np.array_equal(ours, theirs), (lo, hi, columns, share)


@pytest.mark.parametrize("window", [3, 4096])
@pytest.mark.parametrize("order", ["random", "sorted", "few"])
def test_very_many_rows_are_cut_by_entries(tmp_path, monkeypatch, order, window):
    """Shards have equally many entries, though rows do not, in memory and on disk."""
    monkeypatch.setattr(designs, "SHARD_ROWS", 60)
    monkeypatch.setattr(sharded, "POINTERS", window)
    rng = np.random.default_rng(0)
    n, d = 3001, 900
    lengths = rng.integers(0, d, n) // 3
    if order == "sorted":
        lengths.sort()
    elif order == "few":
        lengths[rng.random(n) < 0.7] = 0
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.concatenate([np.sort(rng.choice(d, k, replace=False)) for k in lengths])
    X = sp.csr_matrix((rng.normal(size=len(columns)), columns, pointers), shape=(n, d))
    bounds = shard_bounds(n, X.nnz * 40, 1, as_design(X))
    assert len(bounds) - 1 == 64
    entries = np.diff(pointers[bounds])
    assert entries.max() - entries.min() <= 2 * lengths.max()
    written = data.write(tmp_path / "set", batches(X, np.zeros(n), 170), shard_bytes=60_000)
    assert shard_bounds(n, X.nnz * 40, 1, as_design(written)) == bounds
    full = as_design(np.ones((n, 3)))
    assert shard_bounds(n, 10**7, 1, full) == shard_bounds(n, 10**7, 1)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_over_ranges_that_cross_shards(tmp_path, monkeypatch, layout, dtype):
    n, d = 3001, 13
    X, y = matrix(layout, dtype, n, d), np.arange(n)
    row_bytes = X.data.nbytes / n * (1 if layout == "dense" else 2)
    written = data.write(tmp_path / "set", batches(X, y, 170), shard_bytes=int(700 * row_bytes))
    assert len(written.fingerprint) > 3
    monkeypatch.setattr(sharded, "CHUNK_BYTES", int(300 * row_bytes))
    rng = np.random.default_rng(2)
    ranges = [(0, n), (0, 0), (n, n), (5, 6), (690, 720), (1, n - 1)]
    ranges += [tuple(sorted(pair)) for pair in rng.integers(0, n + 1, size=(12, 2)).tolist()]
    check(data.open(tmp_path / "set").design, X, ranges)


@given(
    shards=st.lists(st.integers(1, 600), min_size=1, max_size=8),
    layout=st.sampled_from(["dense", "csr"]),
    chunk=st.integers(1, 800),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_products_with_any_shards(tmp_path_factory, shards, layout, chunk, cut):
    n = sum(shards)
    X, y = matrix(layout, np.float32, n, 5), np.zeros(n)
    folder = tmp_path_factory.mktemp("set")
    ends = np.cumsum(shards)
    on_disk = data.write(folder, [(X[: ends[0]], y[: ends[0]])])
    for lo, hi in pairwise(ends):  # every append begins a shard
        on_disk.append([(X[lo:hi], y[lo:hi])])
    lo, hi = sorted(round(c * n) for c in cut)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "CHUNK_BYTES", chunk * 20)
        check(on_disk.design, X, [(0, n), (lo, hi)])


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_blocks_are_copies_in_memory(tmp_path, layout):
    X, y = matrix(layout, np.float32, 900, 7), np.zeros(900)
    on_disk = data.write(tmp_path, batches(X, y, 900), shard_bytes=4000)
    for lo, hi in [(0, 900), (100, 500), (3, 4), (9, 9)]:
        block = on_disk.design.block(lo, hi)
        if layout == "dense":
            assert isinstance(block, DenseDesign)
            assert np.array_equal(block.X, X[lo:hi])
            block.X[:] = 0.0  # writing does not reach the files
        else:
            assert isinstance(block, CSRDesign)
            assert (as_matrix(block) != X[lo:hi]).nnz == 0
            assert block.indptr.dtype == block.indices.dtype == np.int32
            block.data[:] = 0.0
    on_disk.verify()


def test_chunks_are_all_rows_in_order(tmp_path, monkeypatch):
    X, y = matrix("dense", np.float64, 2000, 4), np.zeros(2000)
    on_disk = data.write(tmp_path, batches(X, y, 300), shard_bytes=20_000)
    monkeypatch.setattr(sharded, "CHUNK_BYTES", 10_000)
    spans, rows = [], []
    for first, last, chunk in on_disk.design.chunks(17, 1990):
        spans.append((first, last))
        rows.append(np.array(chunk.X))
    assert len(spans) > 5
    assert [a for a, _ in spans[1:]] == [b for _, b in spans[:-1]]
    assert np.array_equal(np.concatenate(rows), X[17:1990])


def test_threads_on_different_rows(tmp_path, monkeypatch):
    n, d = 20_000, 10
    X, y = matrix("csr", np.float64, n, d), np.zeros(n)
    on_disk = data.write(tmp_path, batches(X, y, 5000), shard_bytes=100_000)
    monkeypatch.setattr(sharded, "CHUNK_BYTES", 20_000)
    w = np.random.default_rng(3).normal(size=d)
    expected = as_design(X).dot(w, 0, n)
    bounds = np.linspace(0, n, 9).astype(int).tolist()
    wrong = []

    def work(lo, hi):
        for _ in range(5):
            if not np.array_equal(on_disk.design.dot(w, lo, hi), expected[lo:hi]):
                wrong.append((lo, hi))

    threads = [threading.Thread(target=work, args=p) for p in pairwise(bounds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pickles_see_the_rows_they_knew(tmp_path):
    X, y = matrix("dense", np.float64, 50, 3), np.arange(50) % 2
    on_disk = data.write(tmp_path, batches(X, y, 50))
    kept = pickle.dumps(on_disk)
    assert len(kept) < 2000
    on_disk.append([(X, y)])
    again = pickle.loads(kept)
    assert again.shape == (50, 3)
    assert on_disk.shape == (100, 3)
    assert np.array_equal(again.design.block(0, 50).X, X)
    assert pickle.loads(pickle.dumps(on_disk)).fingerprint == on_disk.fingerprint
    for part in (on_disk.y, on_disk.codes):
        assert np.array_equal(pickle.loads(pickle.dumps(part))[40:60], part[40:60])
    design = pickle.loads(pickle.dumps(on_disk.design))
    assert np.array_equal(design.dot(np.ones(3), 5, 95), on_disk.dot(np.ones(3), 5, 95))


def test_a_data_set_is_taken_as_a_design(tmp_path):
    on_disk = data.write(tmp_path, [(np.eye(3), [0, 1, 2])])
    assert as_design(on_disk) is on_disk
    assert np.array_equal(on_disk.dot(np.arange(3.0), 1, 3), [1.0, 2.0])
    assert np.array_equal(on_disk.block(1, 2).X, [[0.0, 1.0, 0.0]])


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_rows_in_any_order(tmp_path, layout):
    X, rng = matrix(layout, np.float32, 500, 6), np.random.default_rng(4)
    on_disk = data.write(tmp_path, batches(X, np.zeros(500), 90), shard_bytes=2000)
    for rows in (rng.integers(0, 500, 300), np.array([7]), np.arange(0), np.array([499, 0, 0])):
        taken, W = on_disk.take(rows), rng.normal(size=(6, 2))
        assert taken.shape == (len(rows), 6)
        assert np.array_equal(taken.dot(W, 0, len(rows)), as_design(X[rows]).dot(W, 0, len(rows)))
    with pytest.raises(IndexError):
        on_disk.take(np.array([500]))
    with pytest.raises(IndexError):
        on_disk.take(np.array([-1]))


def test_vectors_of_the_wrong_size_are_refused(tmp_path):
    design = data.write(tmp_path, [(np.eye(3), [0, 1, 2])]).design
    with pytest.raises(ValueError, match="W has 4 rows for 3 features"):
        design.dot(np.zeros(4), 0, 3)
    with pytest.raises(ValueError, match="out has 2 rows"):
        design.accumulate(np.zeros(3), 0, 3, np.zeros(2))
    with pytest.raises(ValueError, match=r"rows 0 \.\. 4 are out of range"):
        design.dot(np.zeros(3), 0, 4)
