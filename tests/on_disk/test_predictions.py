"""Predictions and scores of a data set on disk: those of the same samples in memory, in little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import KernelSVC, LinearSVC, LinearSVR, MeasureSVC, RankSVM, data
from maxmargin.callbacks import ValidationScore
from maxmargin.estimators import chunks
from maxmargin.solvers import CuttingPlane
from maxmargin.solvers.auto import Auto

N = 5000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
NOISY = X[:, :3] + RNG.normal(size=(N, 3))
WEIGHT = RNG.uniform(size=N)
LABELS = {
    "signs": np.where(NOISY[:, 0] > 0, 1, -1),
    "names": np.array(["low", "medium", "higher"])[NOISY.argmax(axis=1)],
    "numbers": NOISY[:, 0],
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 256 and 512 samples, three to a wave."""
    monkeypatch.setattr(chunks, "CHUNK", 512)
    monkeypatch.setattr(chunks, "WAVE", 3)


def written(folder: Path, labels: str, rows: Any = X) -> data.Dataset:
    y, parts = LABELS[labels], [slice(lo, lo + 700) for lo in range(0, N, 700)]
    return data.write(folder, ((rows[p], y[p], WEIGHT[p]) for p in parts), shard_bytes=50_000)


@pytest.mark.parametrize("where", [{}, {"n_jobs": 2}])
@pytest.mark.parametrize("labels", ["signs", "names"])
@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
def test_classes_are_those_of_samples_in_memory(tmp_path, where, labels, rows):
    there, y = written(tmp_path / "rows", labels, rows), LABELS[labels]
    svc = (
        LinearSVC(C=1e-2, loss="logistic", multi_class="multinomial")
        .fit(rows, y)
        .set_params(**where)
    )
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        call, out = getattr(svc, method), tmp_path / f"{method}.npy"
        assert np.array_equal(call(there), call(rows))
        assert np.array_equal(call(there, out=out), call(rows))
        assert np.load(out).dtype == call(rows).dtype
    assert svc.score(there) == pytest.approx(svc.score(rows, y, WEIGHT), rel=1e-12)
    assert not list(tmp_path.glob("*.part"))


def test_numbers_and_ranks(tmp_path):
    there = written(tmp_path / "rows", "numbers")
    svr = LinearSVR(C=1.0).fit(X, LABELS["numbers"])
    assert np.array_equal(svr.predict(there, out=tmp_path / "y.npy"), svr.predict(X))
    assert svr.score(there) == pytest.approx(svr.score(X, LABELS["numbers"], WEIGHT), rel=1e-12)
    ranker = RankSVM().fit(X[:100], LABELS["numbers"][:100].round())
    assert np.array_equal(ranker.predict(there), ranker.predict(X))


def test_kernels(tmp_path):
    there, y = written(tmp_path / "rows", "names"), LABELS["names"]
    svc = KernelSVC().fit(X[:300], y[:300])
    assert np.allclose(svc.decision_function(there), svc.decision_function(X))
    assert np.array_equal(svc.predict(there, out=tmp_path / "y.npy"), svc.predict(X))
    assert svc.score(there) == pytest.approx(svc.score(X, y, WEIGHT), rel=1e-12)


def test_the_coefficient_of_equal_targets(tmp_path):
    there = data.write(tmp_path / "rows", [(X, np.ones(N))])
    svr = LinearSVR(C=1.0).fit(X, LABELS["numbers"])
    assert svr.score(there) == svr.score(X, np.ones(N)) == 0.0


def test_a_method_that_calls_that_of_its_base_class(tmp_path):
    """The threshold of MeasureSVC is subtracted once."""
    there, y = written(tmp_path / "rows", "signs"), LABELS["signs"]

    class Shifted(LinearSVC):
        def decision_function(self, X):
            return super().decision_function(X) + 1.0

    for svc in (MeasureSVC("f1", C=1e-3).fit(X, y), Shifted(C=1e-3).fit(X, y)):
        assert np.array_equal(svc.decision_function(there), svc.decision_function(X))
        assert np.array_equal(svc.predict(there), svc.predict(X))


def test_the_file_is_there_only_when_it_is_complete(tmp_path, monkeypatch):
    there, out = written(tmp_path / "rows", "signs"), tmp_path / "scores.npy"
    svc = LinearSVC(C=1e-3, loss="hinge").fit(there)
    with pytest.raises(ValueError, match=r"end its name in \.npy"):
        svc.predict(there, out=tmp_path / "scores.txt")
    svc.coef_[0, 0] = np.inf
    with pytest.raises(ValueError, match="NaN or infinite"):
        svc.decision_function(there, out=out)
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    svc.coef_[0, 0] = 1.0
    assert np.array_equal(svc.predict(X, out=out), np.load(out))  # of samples in memory, too


def test_workers_read_and_write_their_chunks(tmp_path, processes):
    there, out = written(tmp_path / "rows", "names"), tmp_path / "names.npy"
    svc = LinearSVC(C=1e-2, loss="hinge").fit(X, LABELS["names"]).set_params(engine=processes)
    svc.callbacks = [lambda record: False]  # cannot be pickled, and is not needed
    assert np.array_equal(svc.decision_function(there), svc.decision_function(X))
    assert np.array_equal(svc.predict(there, out=out), svc.predict(X))
    assert svc.score(there) == pytest.approx(svc.score(X, LABELS["names"], WEIGHT), rel=1e-12)
    svc.coef_[0, 0] = np.inf
    with pytest.raises(ValueError, match="NaN or infinite"):
        svc.predict(there, out=tmp_path / "more.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["names.npy", "rows"]


def test_a_callback_does_not_replace_the_shards_of_the_fit(tmp_path, processes):
    there, solver = written(tmp_path / "rows", "signs"), CuttingPlane()
    watch = ValidationScore(there, None)
    svc = LinearSVC(C=1e-2, solver=solver, engine=processes, callbacks=[watch], loss="hinge").fit(
        there
    )
    assert np.array_equal(
        svc.coef_, LinearSVC(C=1e-2, solver=solver, loss="hinge").fit(there).coef_
    )
    assert len(watch.scores) > 1


def test_other_processes_read_the_rows_themselves(tmp_path, monkeypatch, processes):
    """With many features the automatic choice reads rows in this process only if it does all the work."""
    monkeypatch.setattr("maxmargin.solvers.auto.MANY_COORDINATES", 3)
    monkeypatch.setattr("maxmargin.solvers.auto.TINY", 0)
    there = written(tmp_path / "rows", "signs")
    for engine, method in (("threads", "stream"), (processes, "cutting planes")):
        svc = LinearSVC(C=1e-3, engine=engine, loss="hinge").fit(there)
        assert {record["method"] for record in svc.history_} == {method}
        assert svc.converged_
    assert "remote" not in repr(Auto(remote=True))  # checkpoints hold it


MEMORY = """
import sys
import numpy as np
from maxmargin import KernelSVC, LinearSVC, data
def anonymous():
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) / 1024
import threading, time
rows = data.open(sys.argv[1])
svc = LinearSVC(C=1e-3).fit(rows.block(0, 1000), rows.y[0:1000])
svc.decision_function(rows.block(0, 10))
before, top = anonymous(), [0.0]
def watch():
    while True:
        top[0] = max(top[0], anonymous())
        time.sleep(0.002)
threading.Thread(target=watch, daemon=True).start()
svc.decision_function(rows, out=sys.argv[2])
svc.score(rows)
print(top[0] - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_holds_chunks_only(tmp_path):
    """Scores of four million samples take 32 MB, and the samples as much."""
    rng = np.random.default_rng(0)
    some = rng.normal(size=(500_000, 2)).astype(np.float32)
    data.write(tmp_path / "rows", [(some, np.where(some[:, 0] > 0, 1, -1)) for _ in range(8)])
    command = [sys.executable, "-c", MEMORY, tmp_path / "rows", tmp_path / "scores.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 20
    assert np.load(tmp_path / "scores.npy", mmap_mode="r").shape == (4_000_000,)
