"""Hashed n-grams computed on the fly, and designs side by side."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from maxmargin.data import CSRDesign, DenseDesign, HashedNgrams, KmerDesign, hstack

DOCUMENTS = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps!",
    "",
    "a b c",
    "Über den Wolken; über den Bergen, über den Bergen",
    "dog " * 700 + "fox",
]


def as_matrix(design: Any) -> Any:
    return sp.csr_matrix((design.data, design.indices, design.indptr), shape=design.shape)


@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 3), (2, 4)])
def test_counts_are_those_of_scikit_learn_under_other_numbers(
    analyzer: Any, ngram_range: Any
) -> None:
    # these n-grams do not meet in 2^24 columns: then rows hold the same counts
    design = HashedNgrams(
        DOCUMENTS, n_features=2**24, ngram_range=ngram_range, analyzer=analyzer, signed=False,
        norm=None,
    )  # fmt: skip
    # scikit-learn's char analyzer also folds runs of white space; there are none here
    theirs = CountVectorizer(analyzer=analyzer, ngram_range=ngram_range)
    X = theirs.fit_transform(DOCUMENTS)
    ours = as_matrix(design.block(0, len(DOCUMENTS)))
    for i in range(len(DOCUMENTS)):
        assert sorted(ours[i].data) == sorted(X[i].data)
    for ngram, j in theirs.vocabulary_.items():
        column = design.column(ngram)
        assert np.array_equal(ours[:, [column]].toarray(), X[:, [j]].toarray())
        assert design.describe(column) == repr(ngram)


@given(
    st.lists(st.text("abc ", max_size=30), min_size=1, max_size=5),
    st.sampled_from([1, 5, 64]),
    st.booleans(),
    st.sampled_from(["l2", None]),
    st.integers(0, 2**32 - 1),
)
def test_products_are_those_of_the_rows_in_memory(
    documents: Any, n_features: int, signed: bool, norm: Any, seed: int
) -> None:
    design = HashedNgrams(
        documents, n_features=n_features, analyzer="char", ngram_range=(1, 3), signed=signed,
        norm=norm,
    )  # fmt: skip
    n, rng = len(documents), np.random.default_rng(seed)
    X = as_matrix(design.block(0, n)).toarray()
    near = {"rtol": 1e-12, "atol": 1e-12}
    for columns in [(), (3,)]:
        W = rng.normal(size=(n_features, *columns))
        np.testing.assert_allclose(design.dot(W, 0, n), X @ W, **near)
        coef, out = rng.normal(size=(n, *columns)), np.ones((n_features, *columns))
        coef[rng.random(n) < 0.3] = 0.0
        design.accumulate(coef, 0, n, out)
        np.testing.assert_allclose(out, 1.0 + X.T @ coef, **near)
    np.testing.assert_allclose(design.squared_norms, (X**2).sum(axis=1), **near)
    if norm == "l2":
        lengths = np.linalg.norm(X, axis=1)
        np.testing.assert_allclose(lengths[lengths > 0.0], 1.0, rtol=1e-12)
    rows = rng.integers(0, n, 3)
    np.testing.assert_array_equal(as_matrix(design.take(rows)).toarray(), X[rows])


def test_long_documents_are_read_in_stretches() -> None:
    rng = np.random.default_rng(0)
    text = " ".join(f"w{k}" for k in rng.integers(0, 500, 3000))
    design = HashedNgrams([text], n_features=1000, ngram_range=(1, 3))
    w = rng.normal(size=1000)
    np.testing.assert_allclose(design.dot(w, 0, 1), as_matrix(design.block(0, 1)) @ w, rtol=1e-10)


def test_signs_make_collisions_cancel_on_average() -> None:
    documents = [" ".join(f"w{k}" for k in range(2000))]
    signed = HashedNgrams(documents, n_features=8, ngram_range=(1, 1), norm=None)
    total = float(np.abs(signed.dot(np.ones(8), 0, 1))[0])
    assert total < 5 * 2000**0.5


def test_a_column_says_what_counts_negatively() -> None:
    design = HashedNgrams([" ".join(f"w{k}" for k in range(50))], ngram_range=(1, 1), norm=None)
    block = design.block(0, 1)
    assert {float(v) for v in block.data} == {-1.0, 1.0}
    for j, value in zip(block.indices, block.data, strict=True):
        assert design.describe(int(j)).startswith("-") == (value < 0.0)


def test_the_same_columns_in_another_process() -> None:
    program = (
        "from maxmargin.data import HashedNgrams\n"
        "X = HashedNgrams(['to be or not to be']).block(0, 1)\n"
        "print(X.indices.tolist(), X.data.tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    X = HashedNgrams(["to be or not to be"]).block(0, 1)
    assert outputs == {f"{X.indices.tolist()} {X.data.tolist()}\n"}


def test_an_analyzer_of_ones_own() -> None:
    design = HashedNgrams(
        [("x", "y"), ("y",)], analyzer=list, ngram_range=(1, 1), norm=None, signed=False
    )
    assert design.dot(np.ones(design.shape[1]), 0, 2).tolist() == [2.0, 1.0]
    with pytest.raises(TypeError, match="Decode bytes"):
        HashedNgrams([b"text"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngram_range": (2, 1)}, "ngram_range must"),
        ({"n_features": 0}, "n_features must"),
        ({"norm": "l1"}, "norm="),
        ({"analyzer": "char_wb"}, "analyzer="),
    ],
)
def test_refusals(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HashedNgrams(["text"], **options)


def parts() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    strings = ["".join(rng.choice(list("ACGTN"), 10)) for _ in range(20)]
    kmers = KmerDesign(strings, orders=2, normalize=True)
    dense = rng.normal(size=(20, 3))
    sparse = sp.random(20, 7, density=0.3, random_state=0, format="csr")
    text = HashedNgrams(strings, n_features=16, analyzer="char", ngram_range=(2, 3))
    explicit = [as_matrix(kmers.block(0, 20)).toarray(), dense, sparse.toarray()]
    explicit.append(as_matrix(text.block(0, 20)).toarray())
    return [kmers, dense, sparse, text], explicit


@pytest.mark.parametrize("nested", [False, True])
def test_a_stack_is_the_matrices_side_by_side(nested: bool) -> None:
    given, explicit = parts()
    scale = [2.0, 1.0, 0.5, 3.0]
    if nested:
        design = hstack([hstack(given[:2], scale=scale[:2]), hstack(given[2:], scale=scale[2:])])
    else:
        design = hstack(given, scale=scale)
    X = np.hstack([a * e for a, e in zip(scale, explicit, strict=True)])
    rng = np.random.default_rng(1)
    near = {"rtol": 1e-12, "atol": 1e-12}
    assert design.shape == X.shape
    for columns in [(), (4,)]:
        W = rng.normal(size=(X.shape[1], *columns))
        np.testing.assert_allclose(design.dot(W, 3, 17), X[3:17] @ W, **near)
        coef, out = rng.normal(size=(14, *columns)), np.ones((X.shape[1], *columns))
        design.accumulate(coef, 3, 17, out)
        np.testing.assert_allclose(out, 1.0 + X[3:17].T @ coef, **near)
    coef = rng.normal(size=(20, 2))
    np.testing.assert_allclose(design.kernel_dot(coef), X @ (X.T @ coef), **near)
    np.testing.assert_allclose(as_matrix(design.block(3, 17)).toarray(), X[3:17], **near)
    np.testing.assert_allclose(as_matrix(design.take([5, 5, 0])).toarray(), X[[5, 5, 0]], **near)


def test_a_stack_says_what_its_columns_are() -> None:
    (kmers, dense, sparse, text), _ = parts()
    design = hstack([kmers, dense])
    assert design.describe(0) == "part 0: A at 0"
    assert design.describe(kmers.shape[1] + 2) == "part 1: column 2"
    assert design.starts.tolist() == [0, kmers.shape[1], kmers.shape[1] + 3]
    with pytest.raises(ValueError, match="must have the same number of rows"):
        hstack([kmers, np.zeros((3, 1))])
    with pytest.raises(ValueError, match="scale must be 2"):
        hstack([dense, sparse], scale=[1.0])
    with pytest.raises(ValueError, match="at least one"):
        hstack([])
    known = hstack([kmers, text], scale=[2.0, 1.0])
    assert known.largest_square == pytest.approx(known.squared_norms.max())
    assert not hasattr(hstack([kmers, dense]), "largest_square")
    assert isinstance(hstack([dense]).parts[0], DenseDesign)
    assert isinstance(hstack([sparse]).parts[0], CSRDesign)
