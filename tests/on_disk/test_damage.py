"""Damaged data sets are found out, and the error names the file."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import data
from maxmargin.data import manifest


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.5))
    data.write(tmp_path, [(X, rng.choice(["a", "b"], 60), np.ones(60))], shard_bytes=1500)
    return tmp_path


def shard_files(folder):
    return sorted(folder.glob("*.bin"))


def test_every_flipped_byte_is_found(folder):
    rng = np.random.default_rng(1)
    data.open(folder).verify()
    assert len(shard_files(folder)) > 8
    for path in shard_files(folder):
        good = path.read_bytes()
        bad = bytearray(good)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        with pytest.raises(data.DatasetError, match=re.escape(path.name) + ".*wrong checksum"):
            data.open(folder).verify()
        path.write_bytes(good)
    data.open(folder).verify()


def test_truncated_and_missing_files_are_found_at_once(folder):
    opened = data.open(folder)
    for path in shard_files(folder):
        good = path.read_bytes()
        path.write_bytes(good[:-1])
        with pytest.raises(data.DatasetError, match=re.escape(path.name) + " has"):
            data.open(folder)
        path.unlink()
        with pytest.raises(data.DatasetError, match=re.escape(path.name) + ".*missing"):
            data.open(folder)
        path.write_bytes(good)
    opened.verify()


def test_a_file_that_vanishes_after_opening(folder):
    opened = data.open(folder)
    path = shard_files(folder)[0]
    path.write_bytes(b"")
    with pytest.raises(data.DatasetError, match=re.escape(path.name) + ".*truncated"):
        opened.dot(np.zeros(5), 0, 60)
    path.unlink()
    with pytest.raises(data.DatasetError, match=re.escape(path.name) + ".*missing"):
        opened.dot(np.zeros(5), 0, 60)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            lambda m: m.update(version=5),
            "format version 5; this version of maxmargin reads versions 3 and 4",
        ),
        (lambda m: m.update(format="else"), "not the manifest of a data set"),
        (lambda m: m.update(rows=59), "wrong checksum"),
        (lambda m: m["labels"]["values"].reverse(), "wrong checksum"),
        (lambda m: m.pop("version"), "not the manifest"),
    ],
)
def test_manifests(folder, edit, text):
    path = folder / "manifest.json"
    body = json.loads(path.read_text())
    edit(body)
    path.write_text(json.dumps(body))
    with pytest.raises(data.DatasetError, match=text):
        data.open(folder)


def sealed(path, edit):
    """A manifest that someone edited and gave new checksums."""
    body = json.loads(path.read_text())
    edit(body)
    body.pop("checksum")
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    body["checksum"] = manifest.checksum(canonical).hexdigest()
    path.write_text(json.dumps(body))


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m.update(rows=61),
        lambda m: m.update(layout="dense"),
        lambda m: m.pop("rows"),
        lambda m: m["shards"][0].update(rows=1000),
        lambda m: m["shards"][0]["files"].pop("indptr"),
        lambda m: m["shards"][0]["files"]["data"].update(shape=[7]),
        lambda m: m["shards"][0]["files"]["data"].update(name="../else"),
        lambda m: m["labels"].pop("kind"),
        lambda m: m.update(rows=-1),
        lambda m: m.update(n_features=10**18),
        lambda m: m.update(largest_square=float("nan")),
        lambda m: m["labels"].update(dtype="|O"),
    ],
)
def test_manifests_that_contradict_themselves(folder, edit):
    sealed(folder / "manifest.json", edit)
    with pytest.raises(data.DatasetError, match="incomplete or inconsistent"):
        data.open(folder)


def test_manifests_are_checked_without_asserts(folder):
    """Under ``python -O`` as well."""
    sealed(folder / "manifest.json", lambda m: m.update(rows=61))
    code = f"from maxmargin import data; data.open({str(folder)!r})"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert "DatasetError" in done.stderr


def test_pointers_out_of_range(folder):
    sealed(folder / "manifest.json", lambda m: m.update(n_features=3))
    with pytest.raises(data.DatasetError, match=r"indices\.bin: indices out of range"):
        data.open(folder).verify()


def test_a_damaged_data_set_can_be_overwritten(folder):
    (folder / "manifest.json").write_text("{")
    data.write(folder, [(np.eye(2), [0, 1])], overwrite=True)
    assert data.open(folder).shape == (2, 2)
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\x00", b"[" * 100_000, b"9" * 5000])
def test_no_manifests(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(data.DatasetError, match="not the manifest"):
        data.open(folder)
