"""K-mers computed on the fly: the same numbers as words written down, and as the kernels by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data import datasets, require

from maxmargin.data import KmerDesign
from maxmargin.data import kmer_layout as layouts
from maxmargin.data.design import as_matrix

KINDS = ["weighted_degree", "spectrum"]


def written_down(strings: list[str], design: KmerDesign, beta: Any) -> Any:
    """The matrix, from the definition."""
    first, last = design.orders
    start, stop = design.positions or (0, None)
    X = np.zeros(design.shape)
    for i, whole in enumerate(strings):
        s = whole[start:stop]
        for k in range(first, last + 1):
            for p in range(len(s) - k + 1):
                word = s[p : p + k]
                if set(word) <= set(design.alphabet):
                    position = None if design.kind == "spectrum" else p + start
                    X[i, design.column(word, position)] += beta[k - first] ** 0.5
        if design.normalize and X[i].any():
            X[i] /= np.linalg.norm(X[i])
    return X


@st.composite
def problems(draw: Any) -> tuple[list[str], dict[str, Any], Any]:
    kind = draw(st.sampled_from(KINDS))
    alphabet = draw(st.sampled_from(["ACGT", "AB", "ABCDE"]))
    first = draw(st.integers(1, 3))
    last = draw(st.integers(first, 4))
    letters = st.sampled_from(alphabet + draw(st.sampled_from(["", "N"])))
    n = draw(st.integers(1, 6))
    if kind == "spectrum":
        strings = draw(st.lists(st.text(letters, max_size=9), min_size=n, max_size=n))
    else:
        length = draw(st.integers(first, 9))
        one = st.text(letters, min_size=length, max_size=length)
        strings = draw(st.lists(one, min_size=n, max_size=n))
    beta = draw(st.lists(st.integers(0, 3), min_size=last - first + 1, max_size=last - first + 1))
    options = {
        "kind": kind,
        "alphabet": alphabet,
        "orders": (first, last),
        "normalize": draw(st.booleans()),
        "weighting": np.array(beta, dtype=float),
    }
    return strings, options, beta


@given(problems(), st.booleans(), st.integers(0, 2**32 - 1))
def test_products_are_those_of_the_words_written_down(
    problem: Any, by_tables: bool, seed: int
) -> None:
    strings, options, beta = problem
    design = KmerDesign(strings, **options)
    X, n, rng = written_down(strings, design, beta), len(strings), np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "WORTH_FILLING", 1e9 if by_tables else 0.0)
        lo, hi = sorted(rng.integers(0, n + 1, 2))
        w, W = rng.normal(size=X.shape[1]), rng.normal(size=(X.shape[1], 3))
        near = {"rtol": 1e-12, "atol": 1e-12}
        np.testing.assert_allclose(design.dot(w, lo, hi), X[lo:hi] @ w, **near)
        np.testing.assert_allclose(design.dot(W, lo, hi), X[lo:hi] @ W, **near)
        for shape in [(hi - lo,), (hi - lo, 3)]:
            coef = rng.normal(size=shape) * (rng.random(shape) < 0.7)
            out = rng.normal(size=(X.shape[1], *shape[1:]))
            expected = out + X[lo:hi].T @ coef
            design.accumulate(coef, lo, hi, out)
            np.testing.assert_allclose(out, expected, **near)
        for shape in [(n,), (n, 3)]:
            coef = rng.normal(size=shape)
            np.testing.assert_allclose(design.kernel_dot(coef), X @ (X.T @ coef), **near)
    np.testing.assert_allclose(as_matrix(design.block(lo, hi)).toarray(), X[lo:hi], **near)
    rows = rng.integers(0, n, 4)
    np.testing.assert_allclose(as_matrix(design.take(rows)).toarray(), X[rows], **near)
    np.testing.assert_allclose(design.squared_norms, (X**2).sum(axis=1), **near)
    assert design.nnz == design.block(0, n).nnz


@given(problems(), st.integers(0, 2**32 - 1))
def test_a_score_has_the_same_bits_whatever_else_is_asked(problem: Any, seed: int) -> None:
    strings, options, _ = problem
    design = KmerDesign(strings, **options)
    w = np.random.default_rng(seed).normal(size=design.shape[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "WORTH_FILLING", 1e9)
        tables = design.dot(w, 0, len(strings))
        patch.setattr(layouts, "WORTH_FILLING", 0.0)
        for i in range(len(strings)):
            assert design.dot(w, i, i + 1)[0] == tables[i]


@pytest.mark.parametrize("normalize", [False, True])
def test_the_inner_product_is_the_weighted_degree_kernel(normalize: bool) -> None:
    rng = np.random.default_rng(0)
    strings = ["".join(rng.choice(list("ACGT"), 12, p=[0.6, 0.2, 0.1, 0.1])) for _ in range(8)]
    K = 5

    def kernel(x: str, z: str) -> float:
        return sum(
            2
            * (K - k + 1)
            / (K * (K + 1))
            * sum(x[p : p + k] == z[p : p + k] for p in range(13 - k))
            for k in range(1, K + 1)
        )

    gram = np.array([[kernel(x, z) for z in strings] for x in strings])
    if normalize:
        gram /= np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
    X = as_matrix(KmerDesign(strings, orders=K, normalize=normalize).block(0, 8))
    np.testing.assert_allclose((X @ X.T).toarray(), gram, rtol=1e-12)


def test_the_inner_product_is_the_spectrum_kernel() -> None:
    strings = ["ACGTACGT", "ACG", "", "TTTTTTTACG"]
    X = as_matrix(KmerDesign(strings, orders=(3, 3), kind="spectrum").block(0, 4)).toarray()
    triples = [[s[p : p + 3] for p in range(len(s) - 2)] for s in strings]
    gram = [[sum(a.count(word) for word in b) for b in triples] for a in triples]
    np.testing.assert_array_equal(X @ X.T, gram)


@pytest.mark.data
@pytest.mark.parametrize("kind", KINDS)
def test_exact_numbers_have_the_bits_of_an_explicit_matrix(kind: Any) -> None:
    letters, _ = require(datasets.uci_splice)
    design = KmerDesign(letters, orders=3, kind=kind, weighting="flat")
    n, d = design.shape
    X = as_matrix(design.block(0, n))
    assert X.nnz == design.nnz
    rng = np.random.default_rng(0)
    w = rng.integers(-(2**20), 2**20, d) / 64.0  # no sum of these rounds
    assert np.array_equal(design.dot(w, 0, n), X @ w)
    coef = rng.integers(-(2**20), 2**20, n) / 64.0
    out = np.zeros(d)
    design.accumulate(coef, 0, n, out)
    assert np.array_equal(out, X.T @ coef)


def test_every_column_says_what_it_is() -> None:
    positional = KmerDesign(["ACGTA", "TTTTT"], orders=(2, 4), positions=(1, 5))
    names = [positional.describe(j) for j in range(positional.shape[1])]
    assert len(set(names)) == positional.shape[1]
    for j, name in enumerate(names):
        word, position = name.split(" at ")
        assert positional.column(word, int(position)) == j
    counted = KmerDesign(["ACGTA"], orders=3, kind="spectrum")
    assert [counted.column(counted.describe(j)) for j in range(84)] == list(range(84))
    assert positional.shape[1] == 2 * (16 + 64) + 256 + 16
    with pytest.raises(IndexError, match="column 84 is out of range"):
        counted.describe(84)


def test_arrays_bytes_and_lower_case_are_the_same_strings() -> None:
    strings = ["ACGTNA", "TTGACA"]
    array = np.frombuffer("".join(strings).encode(), np.uint8).reshape(2, 6)
    expected = as_matrix(KmerDesign(strings, orders=3).block(0, 2)).toarray()
    for same in (array, [s.encode() for s in strings], [s.lower() for s in strings]):
        found = as_matrix(KmerDesign(same, orders=3).block(0, 2)).toarray()
        assert np.array_equal(found, expected)
    both = KmerDesign(["aA"], orders=1, alphabet="aA", kind="spectrum")
    assert as_matrix(both.block(0, 1)).toarray().tolist() == [[1.0, 1.0]]


def test_indices_beyond_32_bits() -> None:
    strings = ["ACGTTGCAACGTTGCA" * 10, "TTTT" * 40]
    design = KmerDesign(
        strings, orders=(12, 12)
    )  # 2.5e9 columns: no vector of weights is made here
    block = design.block(0, 2)
    assert design.shape[1] == 149 * 4**12
    assert block.indices.dtype == np.int64
    assert design.describe(int(block.indices[-1])) == "T" * 12 + " at 148"
    assert design.describe(int(block.indices[148])) == strings[0][-12:] + " at 148"


@pytest.mark.parametrize(
    ("strings", "options", "message"),
    [
        (["ACGT", "ACG"], {}, "different lengths"),
        ([], {}, "different lengths"),
        ("ACGT", {}, "not a single string"),
        ([1, 2], {}, r"strings\[0\] is a int"),
        (["ACGT"], {"orders": (0, 3)}, "shortest"),
        (["ACGT"], {"orders": (3, 2)}, "shortest"),
        (["ACGT"], {"orders": 16}, "more than 2"),
        (["ACGT"], {"orders": (5, 6)}, "too few"),
        (["ACGT"], {"alphabet": "AA"}, "different ASCII"),
        (["ACGT"], {"kind": "gapped"}, "kind='gapped': use"),
        (["ACGT"], {"weighting": "steep"}, "weighting="),
        (["ACGT"], {"orders": 2, "weighting": [1.0, -1.0]}, "nonnegative"),
        (["ACGT"], {"orders": 2, "positions": (3, 3)}, "positions must"),
    ],
)
def test_refusals(strings: Any, options: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        KmerDesign(strings, **options)


def test_wrong_lengths_do_not_reach_compiled_code() -> None:
    design = KmerDesign(["ACGT", "TTTT"], orders=2)
    d = design.shape[1]
    with pytest.raises(ValueError, match="W has shape"):
        design.dot(np.zeros(d - 1), 0, 2)
    with pytest.raises(ValueError, match="coef has shape"):
        design.accumulate(np.zeros(1), 0, 2, np.zeros(d))
    with pytest.raises(ValueError, match="out has shape"):
        design.accumulate(np.zeros(2), 0, 2, np.zeros(d - 1))
    with pytest.raises(IndexError, match="rows 0 to 2"):
        design.take([0, 2])
    with pytest.raises(ValueError, match="same length"):
        design.like(["ACGTA"])
