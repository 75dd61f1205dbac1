"""Sentences on disk: written in one pass, trained on without loading, with the results of memory."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import SequenceTagger, SequenceTaggerCV, data
from maxmargin.data.mapped import mapped_rows
from maxmargin.data.tokens import sentences as reading
from maxmargin.files import scratch
from maxmargin.tasks import Chain
from maxmargin.tasks.chains.examples import ChainExamples


def make(form, n=80):
    """Sentences of one form, and labels that their features tell about."""
    rng = np.random.default_rng(3)
    X, Y = [], []
    for _ in range(n):
        y = rng.integers(0, 3, rng.integers(0, 7))
        words = y + 3 * np.minimum(rng.geometric(0.1, len(y)), 30)
        words[rng.random(len(y)) < 0.2] = 4
        if form == "dicts":
            x = [{"w": f"é{k}", "len": k / 7, "both": [f"a{k % 5}", "b"]} for k in words]
        elif form == "lists":
            x = [[f"w={k}", f"mod={k % 7}", f"mod={k % 7}"] for k in words]
        elif form == "strings":
            x = [f"w{k}" for k in words]
        else:
            x = np.eye(100)[words] * rng.random((len(y), 1))
            x = sp.csr_matrix(x) if form == "sparse" else x
        X.append(x)
        Y.append([("N", "V", "Adj")[k] for k in y])
    return X, Y


FORMS = ["dicts", "lists", "strings", "dense", "sparse"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_weights_are_bit_identical_to_those_from_memory(tmp_path, form, loss):
    X, Y = make(form)
    data.write_sequences(tmp_path, iter(X), iter(Y))
    memory = SequenceTagger(loss=loss).fit(X, Y)
    disk = SequenceTagger(loss=loss).fit(data.open(tmp_path))
    assert np.array_equal(disk.weights_, memory.weights_)
    assert disk.classes_ == memory.classes_
    assert disk.predict(X) == memory.predict(X)
    assert disk.score(data.open(tmp_path)) == memory.score(X, Y)


@pytest.mark.parametrize("options", [{"n_hashed": 50}, {"min_count": 4}])
@pytest.mark.parametrize("form", ["dicts", "lists"])
def test_hashed_and_rare_names(tmp_path, form, options):
    X, Y = make(form)
    written = data.write_sequences(tmp_path, zip(X, Y, strict=True), **options)
    memory = SequenceTagger(**options).fit(X, Y)
    disk = SequenceTagger(**options).fit(written)
    assert written.shape[1] == memory.n_features_in_
    assert np.array_equal(disk.weights_, memory.weights_)
    assert disk.predict(X) == memory.predict(X)
    SequenceTagger().fit(data.open(tmp_path))  # it need not be said twice


@pytest.mark.parametrize("form", ["lists", "sparse"])
def test_files_do_not_depend_on_the_batches(tmp_path, form, monkeypatch):
    X, Y = make(form)
    whole = data.write_sequences(tmp_path / "whole", X, Y)
    monkeypatch.setattr(reading, "BATCH_TOKENS", 5)
    parts = data.write_sequences(tmp_path / "parts", X, Y)
    assert whole.fingerprint == parts.fingerprint
    assert whole.feature_names == parts.feature_names
    parts.verify()
    assert not list((tmp_path / "parts").glob(".*"))


def test_a_tagger_from_disk_is_saved_with_its_vocabulary(tmp_path):
    X, Y = make("dicts")
    tagger = SequenceTagger().fit(data.write_sequences(tmp_path / "d", X, Y))
    tagger.save(tmp_path / "model.safetensors")
    assert maxmargin.load(tmp_path / "model.safetensors").predict(X) == tagger.predict(X)
    again = SequenceTagger().fit(X, Y, start_from=tagger)
    assert again.objective_ <= tagger.objective_ * (1 + 1e-12)


def test_one_sentence_is_not_taken_for_many(tmp_path):
    X, Y = make("lists")
    tagger = SequenceTagger().fit(data.write_sequences(tmp_path, X, Y))
    with pytest.raises(ValueError, match="tokens of X are strings"):
        tagger.predict(X[1])


def test_weights_of_sentences(tmp_path):
    X, Y = make("lists")
    weight = np.linspace(0.0, 2.0, len(X))
    data.write_sequences(tmp_path, zip(X, Y, weight, strict=True))
    disk = SequenceTagger().fit(data.open(tmp_path))
    memory = SequenceTagger().fit(X, Y, sample_weight=weight)
    assert np.array_equal(disk.weights_, memory.weights_)
    with pytest.raises(ValueError, match="weights of its own"):
        disk.fit(data.open(tmp_path), sample_weight=weight)


@pytest.mark.parametrize(
    "options", [{"order": 2}, {"forbidden_transitions": "unseen"}, {"rescaling": "slack"}]
)
def test_options_of_the_tagger(tmp_path, options):
    X, Y = make("lists", 30)
    disk = SequenceTagger(**options).fit(data.write_sequences(tmp_path, X, Y))
    assert np.array_equal(disk.weights_, SequenceTagger(**options).fit(X, Y).weights_)


def test_a_kernel_and_cross_validation(tmp_path):
    X, Y = make("strings", 30)
    stored = data.write_sequences(tmp_path, X, Y)
    disk = SequenceTagger(kernel="rbf").fit(stored)
    assert disk.predict(X) == SequenceTagger(kernel="rbf").fit(X, Y).predict(X)
    best = SequenceTaggerCV([0.1, 1.0], cv=3)
    assert best.fit(stored).predict(X) == best.fit(X, Y).predict(X)


@pytest.mark.parametrize("case", ["shards", "dense", "unsorted", "numbers"])
def test_data_sets_that_cannot_be_mapped_are_loaded(tmp_path, case):
    X, Y = make("dense" if case == "dense" else "sparse")
    if case == "unsorted":
        X = [sp.csr_matrix((x.data[::-1], x.indices[::-1], x.indptr), x.shape) for x in X]
    elif case == "numbers":
        Y = [[len(label) for label in y] for y in Y]
    few = 300 if case == "shards" else 10**9
    stored = data.write(tmp_path, [(X, Y)], shard_bytes=few)
    assert (mapped_rows(stored) is None) == (case in ("shards", "dense"))
    memory = SequenceTagger().fit(X, Y)
    assert np.array_equal(SequenceTagger().fit(stored).weights_, memory.weights_)


def test_checkpoints_and_warm_starts(tmp_path):
    X, Y = make("lists")
    stored = data.write_sequences(tmp_path / "d", X, Y)
    path = tmp_path / "fit"
    with pytest.warns(ConvergenceWarning):
        SequenceTagger(max_iter=2, tol=1e-6, checkpoint=path).fit(stored)
    whole = SequenceTagger(tol=1e-6).fit(stored, resume_from=path)
    assert whole.converged_
    other = data.write_sequences(tmp_path / "e", X[1:], Y[1:])
    with pytest.raises(ValueError, match="X"):
        SequenceTagger(tol=1e-6).fit(other, resume_from=path)
    warm = SequenceTagger(tol=1e-6, warm_start=True)
    first = warm.fit(data.open(tmp_path / "d")).n_iter_
    assert warm.fit(data.open(tmp_path / "d")).n_iter_ < first


# -- memory ----------------------------------------------------------------------------------------


def test_files_are_mapped_and_sent_as_names(tmp_path):
    X, Y = make("sparse", 2000)
    stored = data.write_sequences(tmp_path, X, Y)
    rows = mapped_rows(stored)
    task = Chain(n_labels=3, n_features=100)
    given = task, rows, stored.lengths(0, 2000)[1], np.asarray(stored.codes)
    examples = ChainExamples.from_stacked(*given)
    for name in ("indptr", "indices", "data"):
        assert np.shares_memory(getattr(examples.chains, name), getattr(rows, name))
    part = examples.part(500, 1500)
    sent = pickle.dumps(part)
    size = sum(part.chains[k].nbytes for k in range(3))
    assert len(sent) < size  # labels and lengths only
    again = pickle.loads(sent)
    w = np.random.default_rng(0).normal(size=task.dim)
    there, here = again.oracle(w, 0, 1000), examples.oracle(w, 500, 1500)
    assert np.array_equal(there.values, here.values)
    assert np.array_equal(there.labelings, here.labelings)
    assert np.array_equal(pickle.loads(pickle.dumps(again)).oracle(w, 0, 9).values, here.values[:9])


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="files cannot be reserved here")
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_dual_variables_in_files_give_the_same_weights(tmp_path, loss, monkeypatch):
    X, Y = make("lists")
    stored = data.write_sequences(tmp_path / "d", X, Y)
    memory = SequenceTagger(loss=loss, tol=1e-4).fit(X, Y)
    monkeypatch.setattr(scratch, "SMALL", 1)
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    disk = SequenceTagger(loss=loss, tol=1e-4, warm_start=True).fit(stored)
    assert np.array_equal(disk.weights_, memory.weights_)
    assert pickle.loads(pickle.dumps(disk)).predict(X) == memory.predict(X)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


MEASURE = """
import re, sys
import numpy as np, scipy.sparse as sp
from maxmargin import SequenceTagger, data

def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

peak = 0
def sentences(n):
    global peak
    rng = np.random.default_rng(0)
    for i in range(n):
        y = rng.integers(0, 3, 100)
        yield np.eye(3)[y] @ np.ones((3, 300)) + rng.random((100, 300)), y
        if i % 100 == 0:
            peak = max(peak, anonymous())

def look(record):
    global peak
    peak = max(peak, anonymous())

data.write_sequences(sys.argv[1] + "/few", sentences(20))
SequenceTagger(max_iter=2).fit(data.open(sys.argv[1] + "/few"))
before = anonymous()
peak = 0
stored = data.write_sequences(sys.argv[1] + "/many", sentences(750))
writing, peak = peak - before, 0
tagger = SequenceTagger(max_iter=1, callbacks=[look]).fit(stored)
print(writing, max(peak, anonymous()) - before, 12 * stored.nnz)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
def test_neither_writing_nor_training_holds_the_features(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    writing, training, size = map(int, done.stdout.split())
    assert size > 250e6
    assert writing < 0.3 * size
    assert training < 0.2 * size


# -- what is refused -------------------------------------------------------------------------------


def test_a_data_set_with_another_vocabulary(tmp_path):
    X, Y = make("lists")
    tagger = SequenceTagger().fit(X[:40], Y[:40])
    other = data.write_sequences(tmp_path / "other", X[40:], Y[40:])
    with pytest.raises(ValueError, match="another vocabulary than the tagger"):
        tagger.predict(other)
    with pytest.raises(ValueError, match="another vocabulary than the tagger"):
        tagger.score(other)
    same = data.write_sequences(tmp_path / "same", X[40:], Y[40:], vectorizer=tagger.vectorizer_)
    assert tagger.predict(same) == tagger.predict(X[40:])
    assert tagger.score(same) == tagger.score(X[40:], Y[40:])
    with pytest.raises(
        ValueError, match="min_count=2, but the data set was written with min_count=1"
    ):
        SequenceTagger(min_count=2).fit(other)
    with pytest.raises(
        ValueError, match="n_hashed=9, but the data set was written with n_hashed=None"
    ):
        SequenceTagger(n_hashed=9).fit(other)
    with pytest.raises(ValueError, match="nothing can be appended to tokens with named features"):
        other.append([([np.eye(3)], [["N", "N", "V"]])])


@pytest.mark.parametrize(
    ("X", "y", "error", "text"),
    [
        ([], None, ValueError, "X is empty"),
        ([["a"]], None, TypeError, r"entry 0 of X is \['a'\], a list: without y, X must yield pairs"),
        ([["a"]], [], ValueError, "X has more than 0 sequences, but y has only 0"),
        ([["a"]], [["N"], ["N"]], ValueError, "y has more label sequences"),
        ([["a"], "ab"], [["N"], ["N", "N"]], TypeError, "sequence 1 of X is 'ab', which is one token"),
        ([["a"], ["a"]], [["N"], ["N", "V"]], ValueError, "sequence 1 has 1 tokens but 2 labels"),
        ([["a", "b"]], [["N", None]], ValueError, r"token 1 of sequence 0 has no label \(None\)"),
        ([["a", "b"]], [["N", 1]], TypeError, "labels of sequence 0 are strings and numbers"),
        ([["a"]], ["N"], TypeError, "labels of sequence 0 are 'N', not a list"),
        ([["a"], np.eye(1)], [["N"]] * 2, TypeError, "sequence 1 is a matrix, but earlier ones"),
        ([np.eye(1), np.eye(2)], [["N"], ["N"] * 2], ValueError, "sequence 1 has 2 features, but"),
        ([["a"], [{"b": np.nan}]], [["N"]] * 2, ValueError, "token 0 of sequence 1 is nan"),
        ([["a"], [{"b": None}]], [["N"]] * 2, TypeError, "feature 'b' of token 0 in sequence 1"),
        ([["a"], [{1: 2.0}]], [["N"]] * 2, TypeError, "names of features must be strings, but 1"),
        ([(["a"], ["N"]), (["a"], None)], None, ValueError, "sequence 1 has no labels and no weight"),
    ],
)  # fmt: skip
def test_errors_name_the_sequence_and_leave_no_files(tmp_path, X, y, error, text, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_TOKENS", 1)  # the second sequence is in the second batch
    with pytest.raises(error, match=text):
        data.write_sequences(tmp_path, X, y)
    assert not list(tmp_path.iterdir())


def test_options_that_exclude_each_other(tmp_path):
    X, Y = make("sparse")
    with pytest.raises(ValueError, match="X has matrices: leave them out"):
        data.write_sequences(tmp_path, X, Y, n_hashed=5)
    X, Y = make("lists")
    stored = data.write_sequences(tmp_path, X, Y)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        data.write_sequences(tmp_path, X, Y)
    with pytest.raises(ValueError, match="vectorizer replaces n_hashed and min_count"):
        data.write_sequences(tmp_path, X, Y, vectorizer=stored.vectorizer, min_count=2)
    with pytest.raises(ValueError, match="y is given, but the data set has labels of its own"):
        SequenceTagger().fit(stored, Y)
    with pytest.raises(ValueError, match="lengths is given, but the data set has sequences"):
        SequenceTagger().fit(stored, lengths=[1])


def test_what_a_killed_writer_left_is_removed(tmp_path):
    X, Y = make("lists")
    data.write_sequences(tmp_path, X, Y)

    def broken():
        yield from itertools.islice(zip(X, Y, strict=True), 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.write_sequences(tmp_path, broken(), overwrite=True)
    assert len(data.open(tmp_path)) == len(X)  # as before
    left = tmp_path / ".unsorted" / "0001-00000.data.bin"
    left.parent.mkdir()
    left.write_bytes(b"1")
    data.write_sequences(tmp_path, X[:9], Y[:9], overwrite=True)
    assert len(data.open(tmp_path)) == 9
    assert not left.parent.exists()


def test_altered_files_raise_an_error(tmp_path):
    X, Y = make("lists")
    data.write_sequences(tmp_path, X, Y)
    for column, text in (
        ("indices", "indices.bin"),
        ("indptr", "pointers"),
        ("sequence", "bounds"),
    ):
        (file,) = tmp_path.glob(f"*.{column}.bin")
        before = file.read_bytes()
        file.write_bytes(before[:-4] + b"\x7f\x7f\x7f\x7f")
        with pytest.raises(data.DatasetError, match=text):
            SequenceTagger().fit(data.open(tmp_path))
        file.write_bytes(before)
    SequenceTagger().fit(data.open(tmp_path))


def test_data_sets_with_a_vocabulary_say_so(tmp_path):
    X, Y = make("sparse")
    data.write_sequences(tmp_path / "matrices", X, Y)
    X, Y = make("lists")
    data.write_sequences(tmp_path / "names", X, Y)
    bodies = [
        json.loads((tmp_path / k / "manifest.json").read_text()) for k in ("matrices", "names")
    ]
    assert bodies[0]["tokens"] is None
    assert bodies[1]["tokens"] == {"n_hashed": None, "min_count": 1, "strings": False}


def test_a_stacked_matrix_with_lengths(tmp_path):
    X, Y = make("sparse")
    batch = {"X": sp.vstack(X), "y": list(itertools.chain(*Y)), "lengths": [x.shape[0] for x in X]}
    stacked = data.write(tmp_path / "stacked", [batch])
    assert stacked.fingerprint == data.write(tmp_path / "lists", [(X, Y)]).fingerprint
    with pytest.raises(ValueError, match="lengths add up to 1, but X has"):
        data.write(tmp_path / "wrong", [batch | {"lengths": [1]}])
    with pytest.raises(ValueError, match="nonnegative integers"):
        data.write(tmp_path / "wrong", [batch | {"lengths": [-1]}])
