"""Checkpoints in an object store: complete, written by the shards themselves, and continued from."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import Checkpoint, CheckpointError, LinearSVC
from maxmargin.checkpoints import CheckpointFolder
from maxmargin.duals.shard_block import BlockShard
from maxmargin.duals.shard_duals import ShardCoordinates
from maxmargin.solvers import CuttingPlane, DualCoordinate

fsspec = pytest.importorskip("fsspec")
URL = "memory://checkpoints/fit"


@pytest.fixture
def store():
    files = fsspec.filesystem("memory")
    yield files
    if files.exists("/checkpoints"):
        files.rm("/checkpoints", recursive=True)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    return X, np.where(X[:, 0] + rng.normal(size=600) > 0, 1, -1)


def _svc(**options):
    solver = DualCoordinate(blocks=4, dealing="shards")
    return LinearSVC(tol=1e-4, **{"solver": solver, **options}, loss="hinge")


def _names(store):
    return sorted(path.rsplit("/", 1)[-1] for path in store.ls("/checkpoints/fit", detail=False))


def test_shards_write_and_read_their_own_multipliers(store, samples, monkeypatch):
    def gathered(self):
        raise AssertionError("multipliers were gathered")

    monkeypatch.setattr(ShardCoordinates, "multipliers", property(gathered))
    monkeypatch.setattr(BlockShard, "block_multipliers", gathered)
    sizes = []
    load = BlockShard.block_restore

    def block_restore(self, *args):
        sizes.append(self._rows.n)
        return load(self, *args)

    monkeypatch.setattr(BlockShard, "block_restore", block_restore)
    checkpoint = Checkpoint(URL, iterations=1)
    first = _svc(checkpoint=checkpoint, max_iter=3).fit(*samples)
    assert not first.converged_
    names = _names(store)
    assert names[-1] == "state"
    assert len(names) == 5  # one part of each of the 4 shards; those of earlier writes are removed
    again = _svc().fit(*samples, resume_from=URL)
    assert again.converged_
    assert sum(sizes) == 600
    # the restored dual point proves at least what was proved before
    assert again.history_[3]["lower_bound"] >= first.lower_bound_ - 1e-9 * abs(first.lower_bound_)
    assert [record["iteration"] for record in again.history_[:5]] == [1, 2, 3, 4, 5]
    straight = _svc().fit(*samples)
    assert again.objective_ == pytest.approx(straight.objective_, rel=2e-4)


def test_other_solvers_and_errors(store, samples):
    options = {"solver": CuttingPlane()}
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        _svc(**options).fit(*samples, resume_from=URL)
    _svc(checkpoint=URL, max_iter=3, **options).fit(*samples)
    assert _names(store) == ["state"]
    assert _svc(**options).fit(*samples, resume_from=URL).history_[3]["iteration"] == 4
    with pytest.raises(CheckpointError, match=r"C was 1\.0 and is 2\.0"):
        _svc(C=2.0, **options).fit(*samples, resume_from=URL)
    content = bytearray(store.cat_file("/checkpoints/fit/state"))
    content[-1] ^= 1
    store.pipe_file("/checkpoints/fit/state", bytes(content))
    with pytest.raises(CheckpointError, match=r"memory://checkpoints/fit/state: .* damaged"):
        _svc(**options).fit(*samples, resume_from=URL)
    with pytest.raises(ValueError, match="give a plain path"):
        _svc(checkpoint="file:///tmp/fit", **options).fit(*samples)


def test_a_missing_part_and_a_store_that_fails(store, samples, monkeypatch):
    _svc(checkpoint=URL, max_iter=2).fit(*samples)
    (part, *_) = [name for name in _names(store) if name.startswith("part-")]
    store.rm_file(f"/checkpoints/fit/{part}")
    with pytest.raises(CheckpointError, match=f"{part} is missing"):
        _svc().fit(*samples, resume_from=URL)

    def block_save(*args):
        raise OSError("out of order")

    monkeypatch.setattr(BlockShard, "block_save", block_save)
    with pytest.warns(UserWarning, match="which are gathered instead: out of order"):
        assert _svc(checkpoint=URL).fit(*samples).converged_
    assert _names(store) == ["state"]
    monkeypatch.setattr(CheckpointFolder, "write", block_save)
    with pytest.warns(UserWarning, match="could not be written: out of order. The fit continues"):
        assert _svc(checkpoint=URL).fit(*samples).converged_
