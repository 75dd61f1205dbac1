"""What is made from a file is bounded by what was read: at most 20 times its size, in linear time.

The files are valid to the last checksum; their authors want memory or time. Each is refused, or takes
no more.
"""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from dataclasses import asdict

import numpy as np
import pytest
from fuzz.file_bombs import BOMBS, bomb

import maxmargin
from maxmargin import LinearSVC, SequenceTagger
from maxmargin.checkpoints import CheckpointError, read_file
from maxmargin.data import DatasetError, manifest
from maxmargin.data.manifest import Labels, Manifest
from maxmargin.files import codec, container

#: bytes that any file may take
FREE = 3 * 2**19


def peak(use):
    """The largest number of bytes that Python and NumPy held during a call."""
    tracemalloc.start()
    try:
        use()
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


@pytest.mark.parametrize("name", BOMBS)
def test_no_file_takes_more_than_twenty_times_its_size(name, tmp_path):
    path = tmp_path / "file"
    bomb(name, path, 200_000)

    def use():
        with contextlib.suppress(CheckpointError):
            read_file(path)

    assert peak(use) <= 20 * path.stat().st_size + FREE


@pytest.mark.parametrize("name", ["set", "frozenset", "dict", "checked again"])
def test_reading_takes_linear_time(name, tmp_path):
    bomb(name, tmp_path / "file", 2_000_000)
    start = time.process_time()
    with pytest.raises(CheckpointError, match=r"same hash|asks for more"):
        read_file(tmp_path / "file")
    assert time.process_time() - start < 5.0  # one second; without the check, many minutes


def write(path, tree, **arrays):
    container.write(path, "checkpoint", codec.dumps({}), codec.dumps(tree), arrays)


def test_ordinary_values_are_far_from_the_limit(tmp_path):
    r = np.random.default_rng(0)
    values = {
        "tuples": [("tag", f"N{k}", k) for k in range(20_000)],
        "arrays": [r.integers(9, size=3) for _ in range(20_000)],
        "scalars": [np.float64(k) for k in range(20_000)],
        "dict": {(k, "x"): [k, float(k)] for k in range(20_000)},
        "names": {f"w[{k}]=x": k for k in range(20_000)},
    }
    for name, value in values.items():
        encoder = codec.Encoder()
        text = codec.dumps(encoder.encode(value))
        arrays = encoder.finish()
        decoder = codec.Decoder(arrays)
        room = codec.TIMES * (len(text) + sum(array.nbytes for array in arrays.values()))
        decoder.decode(text, name)
        assert codec.FREE + room - decoder.room <= 0.95 * room, name


def test_a_tagger_of_few_weights_stays_below_the_limit(tmp_path):
    X = [[[f"a{k}", f"b{k}"] for k in range(i, i + 5)] for i in range(0, 10_000, 5)]
    y = [["ABCDEFGH"[k % 8] for k in range(5)] for _ in X]
    tagger = SequenceTagger(max_iter=1).fit(X, y)
    tagger.weights_[:] *= np.arange(tagger.weights_.size) % 100 == 0  # most are zero
    path = tmp_path / "tagger"
    tagger.save(path)
    again = None

    def use():
        nonlocal again
        again = maxmargin.load(path)

    assert peak(use) <= 20 * path.stat().st_size
    assert path.stat().st_size < 2 * tagger.weights_.nbytes / 3
    assert np.array_equal(again.weights_, tagger.weights_)


def test_an_error_shows_little_of_a_large_file(tmp_path):
    path = tmp_path / "model"
    LinearSVC().fit([[0.0], [1.0]], ["a", "b"]).save(path)
    about, tree, arrays = container.read(path, "model")
    tree = codec.loads(tree, "the tree")
    array = {"$array": [0, "<f8", [500]]}
    tree["classes_"] = {"$objects": [array] * 5_000}
    arrays[codec.POOL] = np.random.default_rng(0).normal(size=500).view(np.uint8)
    container.write(path, "model", about, codec.dumps(tree), arrays)

    def use():
        with pytest.raises(maxmargin.persistence.ModelFileError, match="not labels"):
            maxmargin.load(path)

    assert peak(use) <= 20 * path.stat().st_size + FREE


# -- manifests -------------------------------------------------------------------------------------


def test_one_long_label_does_not_lengthen_the_others(tmp_path):
    texts = (*(f"c{k}" for k in range(8_000)), "x" * 33_000)
    labels = Labels("text", "<i4", texts, (1,) * len(texts))
    assert peak(labels.array) <= FREE  # 1 GB, when they were padded
    assert labels.array().tolist() == list(texts)
    folder = tmp_path / "set"
    data = maxmargin.data.write(folder, [(np.zeros((3, 1)), np.array(["b", "a" * 70_000, "b"]))])
    assert data.classes.tolist() == ["a" * 70_000, "b"]
    assert np.asarray(data.codes).tolist() == [1, 0, 1]
    svc = LinearSVC().fit(data)
    assert svc.predict([[0.0]])[0] in data.classes
    assert Labels("text", "<i4", ("a", "bbb"), (1, 1)).array().dtype == "<U3"


def _sealed(body):
    body["checksum"] = manifest.checksum(manifest._canonical(body)).hexdigest()
    return json.dumps(body, separators=(",", ":")).encode()


@pytest.mark.parametrize("kind", ["lists", "dicts", "empty", "numbers", "names"])
def test_manifests_take_no_more_than_their_size_allows(kind, tmp_path):
    n = 20_000
    deep = {
        "lists": "[" * 60 + "]" * 60,
        "dicts": '{"a":' * 60 + "1" + "}" * 60,
        "empty": "[" + "{}," * 40 + "{}]",
    }
    body = {"format": manifest.FORMAT, "version": manifest.VERSION}
    if kind in deep:
        body["shards"] = [json.loads(deep[kind])] * (n // 10)
    elif kind == "names":
        body["feature_names"] = [f"{k:x}" for k in range(n)]
    else:
        labels = Labels("number", "<i8", tuple(range(1000, n)), (1,) * (n - 1000))
        body |= asdict(Manifest("csr", False, "<f8", n, 0, 0, 0, 1.0, None, labels))
    content = _sealed(body)

    def use():
        with pytest.raises(DatasetError):
            manifest.decode(content, "it")

    assert peak(use) <= 19 * len(content) + FREE  # and the content itself
