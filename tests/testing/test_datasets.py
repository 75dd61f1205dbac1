"""The loaders give what the data folder's README promises, and say so where a set is absent."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.data import datasets, require


def test_a_missing_set_has_a_clear_word(monkeypatch, tmp_path):
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    with pytest.raises(datasets.DatasetMissing, match=r"MAXMARGIN_DATA"):
        datasets.find("text/rcv1_subset.npz")
    with pytest.raises(pytest.skip.Exception, match="rcv1_subset"):
        require(datasets.find, "text/rcv1_subset.npz")


@pytest.mark.data
def test_covtype():
    X, y = require(datasets.covtype)
    assert X.shape == (581012, 54)
    assert sp.issparse(X)
    counts = [0, 211840, 283301, 35754, 2747, 9493, 17367, 20510]
    assert np.bincount(y).tolist() == counts
    numbers = X[:, :10].toarray()
    np.testing.assert_allclose(numbers.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(numbers.std(axis=0), 1.0, rtol=1e-9)
    ones = X[:, 10:]
    assert ones.nnz == 2 * len(y)
    assert (ones.data == 1.0).all()
    raw = require(datasets.covtype, dense=True, standardize=False).X[0, :10]
    assert raw.tolist() == [2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279]


@pytest.mark.data
@pytest.mark.parametrize(
    ("loader", "args", "shape", "positive"),
    [
        (datasets.rcv1, ("CCAT",), (14401, 47236), 6392),
        (datasets.rcv1, ("C11",), (14401, 47236), 367),
        (datasets.a9a, (), (32561, 123), 7841),
        (datasets.a9a, ("test",), (16281, 123), 3846),
        (datasets.ijcnn1, (), (49990, 22), 4853),
        (datasets.w8a, (), (49749, 300), 1479),
        (datasets.imdb, (), (25000, 64352), 12500),
        (datasets.reuters, (), (7770, 8315), 538),
        (datasets.reuters, ("test",), (3299, 8315), 179),
    ],
)
def test_binary_sets(loader, args, shape, positive):
    X, y = require(loader, *args)
    assert X.shape == shape
    assert X.dtype == np.float64
    assert set(np.unique(y)) == {-1, 1}
    assert int((y > 0).sum()) == positive


@pytest.mark.data
@pytest.mark.slow
def test_newsgroups():
    X, y = require(datasets.newsgroups20)
    assert X.shape == (11314, 130107)
    assert len(set(y)) == 20


@pytest.mark.data
def test_mnist():
    X, y = require(datasets.mnist, "test")
    assert X.shape == (10000, 784)
    assert X.max() == 1.0
    assert np.bincount(y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.data
def test_sequences():
    train, test = require(datasets.conll2000), require(datasets.conll2000, "test")
    assert (len(train), len(test)) == (8936, 2012)
    assert (sum(map(len, train)), sum(map(len, test))) == (211727, 47377)
    assert len({token[2] for s in train + test for token in s}) == 23
    ewt = {split: require(datasets.ud_ewt, split) for split in ("train", "dev", "test")}
    assert [len(ewt[s]) for s in ewt] == [12544, 2001, 2077]
    assert len({token[1] for s in ewt.values() for sentence in s for token in sentence}) == 17
    X, Y, folds = require(datasets.ocr_letters)
    assert (len(X), sum(map(len, X)), X[0].shape) == (6877, 52152, (9, 128))
    assert "".join(chr(97 + c) for c in Y[0]) == "ommanding"
    assert np.bincount(folds)[0] == 626


@pytest.mark.data
def test_brown():
    sentences = require(datasets.brown)
    assert (len(sentences), sum(map(len, sentences))) == (57340, 1161192)
    tags = {tag for s in sentences for _, tag in s}
    assert len(tags) == 92
    assert {"*", "--", "nn", "np$", "wp$", "."} <= tags


def test_token_features_never_see_the_label():
    a = [("The", "DT", "B-NP"), ("2-day", "JJ", "I-NP"), ("trip", "NN", "I-NP")]
    b = [(w, p, "O") for w, p, _ in a]
    assert datasets.token_features(a) == datasets.token_features(b)
    middle = datasets.token_features(a)[1]
    assert {"w=2-day", "shape=d-x", "digit", "hyphen", "w[-1]=the", "w[2]=</s>", "p=JJ"} <= set(
        middle
    )
    assert not any(f.startswith("p") for f in datasets.token_features([("a", "x")])[0][12:])
