"""Data sets in an object store: a real S3 server on this machine, the same bits as on disk."""

import pickle
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import data
from maxmargin.core.engine import pickling_in_memory
from maxmargin.data import sharded
from maxmargin.data.design import as_design

pytest.importorskip("s3fs")
pytest.importorskip("moto.server")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def options(port):
    return {
        "key": "test",
        "secret": "test",
        "client_kwargs": {
            "endpoint_url": f"http://127.0.0.1:{port}",
            "region_name": "eu-central-1",
        },
        "config_kwargs": {"connect_timeout": 2, "retries": {"max_attempts": 1}},
    }


@pytest.fixture(scope="module")
def store():
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            assert server.poll() is None
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        import s3fs

        s3fs.S3FileSystem(**options(port)).mkdir("bucket")
        yield options(port)
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("sparse", [False, True])
def test_the_same_bits(store, monkeypatch, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6)) * (rng.random((2000, 6)) < 0.5)
    X, y = sp.csr_matrix(X) if sparse else X, rng.choice(["a", "b"], 2000)
    url = f"s3://bucket/folder/{'sparse' if sparse else 'dense'}"
    written = data.write(
        url, [(X[:900], y[:900]), (X[900:1500], y[900:1500])], shard_bytes=30_000,
        storage_options=store,
    )  # fmt: skip
    first = written.fingerprint
    written.append([(X[1500:], y[1500:])])
    monkeypatch.setattr(sharded, "CHUNK_BYTES", 10_000)
    with pickling_in_memory():  # these options are not pickled elsewhere
        remote = pickle.loads(pickle.dumps(data.open(url, storage_options=store)))
    assert remote.extends(first)
    assert len(remote.fingerprint) > 3
    remote.verify()
    memory = as_design(X)
    for lo, hi in [(0, 2000), (3, 1801)]:
        for columns in ((), (3,)):
            W, coef = rng.normal(size=(6, *columns)), rng.normal(size=(hi - lo, *columns))
            assert np.array_equal(remote.dot(W, lo, hi), memory.dot(W, lo, hi))
            ours, theirs = np.zeros((6, *columns)), np.zeros((6, *columns))
            remote.accumulate(coef, lo, hi, ours)
            memory.accumulate(coef, lo, hi, theirs)
            assert np.array_equal(ours, theirs)
    assert np.array_equal(np.asarray(remote.y), y)
    rows = rng.integers(0, 2000, 50)
    w = np.ones(6)
    assert np.array_equal(remote.take(rows).dot(w, 0, 50), memory.take(rows).dot(w, 0, 50))


def test_one_of_two_writers_is_refused(store):
    """Both would have written objects of the same names."""
    url = "s3://bucket/folder/shared"
    first = data.write(url, [(np.eye(3), [0, 1, 0])], storage_options=store)
    second = data.open(url, storage_options=store)

    def batches():
        yield np.eye(3), [1, 1, 0]
        with pytest.raises(data.DatasetError, match=r"another writer is at work \(process \d+ on"):
            second.append([(np.zeros((2, 3)), [1, 0])])
        yield np.eye(3), [0, 0, 1]

    first.append(batches())
    whole = data.open(url, storage_options=store)
    whole.verify()
    assert whole.y[:].tolist() == [0, 1, 0, 1, 1, 0, 0, 0, 1]
    assert data.open(url, storage_options=store).append([(np.eye(3), [1, 0, 1])]).shape == (12, 3)
    with pytest.raises(ValueError, match="batch 0"):  # a writer that fails releases the lock
        data.open(url, storage_options=store).append([(np.full((1, 3), np.nan), [0])])
    import s3fs

    names = [path.rsplit("/")[-1] for path in s3fs.S3FileSystem(**store).ls(url, refresh=True)]
    assert "writer.lock" not in names


def test_any_store_of_fsspec():
    written = data.write("memory://folder/set", [(np.eye(3), ["a", "b", "a"])], shard_bytes=1)
    written.append([(np.eye(3), ["a", "b", "c"])])
    written.verify()
    assert data.open("memory://folder/set").y[:].tolist() == ["a", "b", "a", "a", "b", "c"]


def test_what_goes_wrong_is_told(store):
    url = "s3://bucket/folder/other"
    with pytest.raises(
        FileNotFoundError, match=r"s3://bucket/folder/other/manifest\.json does not"
    ):
        data.open(url, storage_options=store)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        data.open("s3://no-bucket/name", storage_options=store)
    batches = [(np.eye(3), [0, 1, 2]), (np.eye(3) * np.nan, [0, 1, 2])]
    with pytest.raises(ValueError, match="batch 1: row 0"):
        data.write(url, batches, storage_options=store)
    written = data.write(url, batches[:1], storage_options=store)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        data.write(url, batches[:1], storage_options=store)
    import s3fs

    files = s3fs.S3FileSystem(**store)
    assert len(files.ls(url, refresh=True)) == 3
    [features] = [f for f in files.ls(url, detail=False) if f.endswith(".features.bin")]
    files.rm(features)
    with pytest.raises(data.DatasetError, match=r"other/0001-\d+\.features\.bin.*missing"):
        written.dot(np.ones(3), 0, 3)
    with pytest.raises(data.DatasetError, match=r"other/0001-\d+\.features\.bin.*missing"):
        data.open(url, storage_options=store)


def test_no_server():
    with pytest.raises(OSError, match=r"s3://bucket/name/manifest\.json cannot be read"):
        data.open("s3://bucket/name", storage_options=options(free_port()))
