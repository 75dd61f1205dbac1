"""Data sets in an object store: files are copied once per machine, columns read once per fit, blocks read
together, and keys are not pickled."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("fsspec")

from tests.flaky_store import FlakyFileSystem as Store

from maxmargin import LinearSVC, LinearSVR, data
from maxmargin.data import cached, remote
from maxmargin.engines import ProcessEngine
from maxmargin.solvers import CuttingPlane, DualCoordinate


def batches(sparse=False, classes=(-1, 1)):
    rng = np.random.default_rng(0)
    for _ in range(4):
        X = rng.normal(size=(300, 5))
        y = rng.choice(classes, 300)
        X[:, 0] += y
        if sparse:
            import scipy.sparse as sp

            X = sp.csr_matrix(X * (rng.random(X.shape) < 0.5))
        yield X, y, rng.uniform(0.5, 2.0, 300)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Writes a data set; returns it and its URL."""
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(Store, "every", 7)

    def write(**options):
        local = data.write(tmp_path / "rows", batches(**options), shard_bytes=12_000)
        Store.reset()
        return local, f"flaky://{tmp_path / 'rows'}"

    return write


def reads(column):
    return Counter(name for name, _ in Store.gets if f".{column}." in name)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("solver", [CuttingPlane(), DualCoordinate()])
def test_a_fit_has_the_same_bits_without_and_with_a_cache(store, tmp_path, sparse, solver):
    local, url = store(sparse=sparse)
    expected = LinearSVC(C=1e-3, tol=0.05, solver=solver, loss="hinge").fit(local)
    for cache in (None, tmp_path / "copies", tmp_path / "copies"):
        Store.reset()
        rows = data.open(url, cache=cache)
        fits = [LinearSVC(C=1e-3, tol=0.05, solver=solver, loss="hinge").fit(rows)]
        first = len(Store.gets)
        if cache is not None:
            fits.append(
                LinearSVC(C=1e-3, tol=0.05, solver=solver, n_jobs=2, loss="hinge").fit(rows)
            )
        for fit in fits:
            assert np.array_equal(fit.coef_, expected.coef_)
            assert fit.lower_bound_ == expected.lower_bound_
        if cache is None:
            assert Store.failures > 0
        else:
            assert len(Store.gets) == first
    assert [name for name, _ in Store.gets] == ["manifest.json"]  # the copies are there


@pytest.mark.parametrize("classes", [(-1, 1), (0, 1, 2)])
def test_labels_and_weights_are_read_once_per_fit(store, monkeypatch, classes):
    monkeypatch.setattr(Store, "every", 0)
    _, url = store(classes=classes)
    rows = data.open(url)
    for make in (LinearSVC, LinearSVR):
        Store.reset()
        make(C=1e-3, tol=0.05, solver=CuttingPlane(), n_jobs=2).fit(rows)
        codes = len(classes) > 2 and make is LinearSVC  # the first class and the codes of all
        for column in ("label", "weight"):
            counts = reads(column)
            assert len(counts) == len(rows.fingerprint)
            assert set(counts.values()) <= ({1, 2} if codes and column == "label" else {1})


def test_a_stream_reads_large_blocks_ahead(store, monkeypatch):
    monkeypatch.setattr(Store, "every", 0)
    local, url = store()
    solver = DualCoordinate()
    LinearSVC(C=1e-3, tol=0.05, solver=solver, loss="hinge").fit(data.open(url))
    sizes = [size for name, size in Store.gets if ".features." in name]
    total = local.shape[0] * 5 * 8
    assert (
        len(sizes) < sum(sizes) / total * 40
    )  # not 600 runs in a pass; 32 shards in an evaluation
    assert max(sizes) >= total / len(local.fingerprint)


def test_what_is_in_the_cache_was_checked(store, tmp_path, monkeypatch):
    _, url = store()
    monkeypatch.setattr(
        Store, "every", 0
    )  # the last of several tries is reported, which may be a reset
    damaged = next((tmp_path / "rows").glob("*.features.bin"))
    content = bytearray(damaged.read_bytes())
    content[7] ^= 1
    damaged.write_bytes(content)
    rows = data.open(url, cache=tmp_path / "copies")
    with pytest.raises(data.DatasetError, match=r"\.features\.bin: wrong checksum"):
        rows.dot(np.ones(5), 0, rows.shape[0])
    for copy in (tmp_path / "copies").glob("*.*"):
        if not copy.name.startswith("."):
            assert copy.stem == cached.checksum(copy.read_bytes()).hexdigest()


def test_a_cache_is_for_urls(tmp_path):
    data.write(tmp_path / "rows", batches())
    with pytest.raises(ValueError, match=r"cache is for URLs such as s3://"):
        data.open(tmp_path / "rows", cache=tmp_path / "copies")


READ = """
import sys, numpy as np
import tests.flaky_store
from maxmargin import data
rows = data.open(sys.argv[1], cache=sys.argv[2])
print(flush=True)
np.save(sys.argv[3], rows.dot(np.ones(5), 0, rows.shape[0]))
"""


def start(url, tmp_path, number, latency):
    log, out = str(tmp_path / "log"), str(tmp_path / f"scores{number}.npy")
    environ = {**os.environ, "FLAKY_LATENCY": str(latency), "FLAKY_LOG": log}
    command = [sys.executable, "-c", READ, url, str(tmp_path / "copies"), out]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE), out


def test_processes_copy_each_file_once_and_a_killed_one_does_no_harm(store, tmp_path):
    local, url = store()
    killed, _ = start(url, tmp_path, 0, 0.3)
    assert killed.stdout.readline() == b"\n"
    time.sleep(0.5)  # some files are copied, and another one is on its way
    killed.kill()
    killed.wait()
    done = {path.stem for path in (tmp_path / "copies").glob("*.bin")}
    (tmp_path / "log").unlink()
    started = [start(url, tmp_path, k, 0.05) for k in (1, 2)]
    for process, _ in started:
        assert process.wait(120) == 0
        process.stdout.close()
    killed.stdout.close()
    expected = local.dot(np.ones(5), 0, local.shape[0])
    assert all(np.array_equal(np.load(out), expected) for _, out in started)
    requests = Counter((tmp_path / "log").read_text().splitlines())
    assert requests.pop("manifest.json None None") == 2
    assert set(requests.values()) == {1}
    assert len(requests) == len(local.fingerprint) - len(done)
    assert not list((tmp_path / "copies").glob("*.part"))


def test_unpickling_makes_no_request(store, tmp_path):
    _, url = store()
    for cache in (None, tmp_path / "copies"):
        rows = data.open(url, cache=cache)
        pickled = pickle.dumps(rows)
        Store.reset()
        again = pickle.loads(pickled)
        assert (Store.gets, Store.lists) == ([], 0)
        assert again.fingerprint == rows.fingerprint
        assert np.array_equal(again.y[:9], rows.y[:9])


def test_keys_are_not_pickled_where_they_could_reach_a_disk(store, tmp_path):
    local, url = store()
    options = {"auto_mkdir": True}  # stands for a key
    rows = data.open(url.replace("flaky", "file"), storage_options=options)
    for part in (rows, rows.design, rows.y):
        with pytest.raises(TypeError, match=r"FSSPEC_FILE='\{\.\.\.\}', the options as JSON"):
            pickle.dumps(part)
    engine = ProcessEngine(2)  # pickles into pipes
    svc = LinearSVC(C=1e-3, tol=0.05, solver=CuttingPlane(), loss="hinge")
    try:
        found = svc.set_params(engine=engine).fit(rows).coef_.copy()
    finally:
        engine.close()
    assert np.array_equal(found, svc.set_params(engine=None).fit(local).coef_)
    with pytest.raises(TypeError, match="not pickled"):  # also after the engine
        pickle.dumps(rows)


def test_a_password_in_a_url_is_refused():
    with pytest.raises(ValueError, match="must not contain a password") as raised:
        data.open("sftp://me:secret@host/rows")
    assert "secret" not in str(raised.value)
