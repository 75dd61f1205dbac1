"""Damaged data sets are found out, and the error names the file."""

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import data


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
        with pytest.raises(data.DatasetError, match=re.escape(path.name) + ".*checksum is wrong"):
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
            lambda m: m.update(version=2),
            "format version 2; this version of maxmargin reads up to 1",
        ),
        (lambda m: m.update(format="else"), "not the manifest of a data set"),
        (lambda m: m.update(rows=59), "checksum is wrong"),
        (lambda m: m["labels"]["values"].reverse(), "checksum is wrong"),
        (lambda m: m.pop("version"), "not the manifest"),
    ],
)
def test_manifests(folder, edit, text):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(data.DatasetError, match=text):
        data.open(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\x00"])
def test_no_manifests(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(data.DatasetError, match="not the manifest"):
        data.open(folder)
