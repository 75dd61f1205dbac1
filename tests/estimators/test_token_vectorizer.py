"""Tokens with named features become the rows of scikit-learn's DictVectorizer, in bounded memory."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.feature_extraction import DictVectorizer

from maxmargin.data import TokenVectorizer
from maxmargin.data.tokens import name_columns


@pytest.fixture(autouse=True, params=["C", "Python"])
def code(request, monkeypatch):
    """Which code reads tokens."""
    if request.param == "Python":
        monkeypatch.setattr(name_columns, "compiled_names", lambda: None)
    elif name_columns.compiled_names() is None:
        pytest.skip("this installation has no module in C")
    return request.param


def random_tokens(seed, n_sequences=40):
    rng = np.random.default_rng(seed)

    def token():
        features = {"bias": 1.0, "word": f"w{rng.integers(30)}", "is_title": bool(rng.integers(2))}
        if rng.random() < 0.5:
            features |= {"length": int(rng.integers(8)), "score": float(rng.normal())}
        if rng.random() < 0.3:
            features["shapes"] = [f"s{k}" for k in set(rng.integers(0, 9, 3).tolist())]
        if rng.random() < 0.2:
            features["previous=same"] = 0.0
        return features

    return [[token() for _ in range(rng.integers(0, 6))] for _ in range(n_sequences)]


def flat(X):
    return [token for sequence in X for token in sequence]


def same(found, expected):
    expected = expected.tocsr()
    expected.sort_indices()
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limits", [{}, {"NUMBERS": 3, "REMEMBERED": 5}])
def test_rows_are_those_of_scikit_learn(monkeypatch, seed, limits):
    for name, value in limits.items():
        monkeypatch.setattr(name_columns, name, value)
    train, test = random_tokens(seed), random_tokens(seed + 100)
    ours, theirs = TokenVectorizer(), DictVectorizer()
    same(ours.fit_transform(train), theirs.fit_transform(flat(train)))
    assert ours.feature_names_ == theirs.feature_names_
    assert ours.vocabulary_ == theirs.vocabulary_
    for _ in range(2):  # from the vocabulary, then from memory
        same(ours.transform(test), theirs.transform(flat(test)))
    again = pickle.loads(pickle.dumps(ours))
    same(again.transform(test), theirs.transform(flat(test)))
    stored = TokenVectorizer().set_names(theirs.feature_names_)
    same(stored.transform(test), theirs.transform(flat(test)))


def test_forms_of_a_token():
    X = [
        [{"a": {"b": 2.0, "c": "x", "d": ["y"]}}],
        [["p", "q", "p"], ("q",), {"r"}, "s"],
        [{"t": np.float32(3.0), "u": np.True_}],
    ]
    vectorizer = TokenVectorizer()
    rows = vectorizer.fit_transform(X).toarray()
    assert vectorizer.feature_names_ == ["a:b", "a:c:x", "a:d:y", "p", "q", "r", "s", "t", "u"]
    expected = np.zeros((6, 9))
    expected[0, :3] = [2.0, 1.0, 1.0]
    expected[[1, 1, 2, 3, 4], [3, 4, 4, 5, 6]] = 1.0
    expected[5, 7:] = [3.0, 1.0]
    np.testing.assert_array_equal(rows, expected)


def test_one_name_is_one_column_however_it_is_written():
    vectorizer = TokenVectorizer()
    X = [[{"a": "b"}, {"a=b": 2.0}, ["a=b"], {"a": ["b", "b"]}]]
    np.testing.assert_array_equal(vectorizer.fit_transform(X).toarray(), [[1], [2], [1], [2]])
    assert vectorizer.feature_names_ == ["a=b"]
    np.testing.assert_array_equal(vectorizer.transform(X).toarray(), [[1], [2], [1], [2]])
    split = TokenVectorizer().fit([[{"a": "b=c"}]])
    np.testing.assert_array_equal(split.transform([[{"a=b": "c"}]]).toarray(), [[1]])


def test_equal_values_of_different_types_are_told_apart():
    X = [[{"a": 1}, {"a": "1"}, {"a": True}, {"a": 0}, {"a": False}, {"a": "True"}, {"a": 1.0}]]
    vectorizer = TokenVectorizer()
    rows = vectorizer.fit_transform(X).toarray()
    assert vectorizer.feature_names_ == ["a", "a=1", "a=True"]
    np.testing.assert_array_equal(rows[:, 0], [1, 0, 1, 0, 0, 0, 1])
    np.testing.assert_array_equal(
        rows[:, 1:].argmax(axis=1) * rows[:, 1:].sum(axis=1), [0, 0, 0, 0, 0, 1, 0]
    )
    np.testing.assert_array_equal(vectorizer.transform(X).toarray(), rows)


def test_unknown_names_take_no_memory():
    vectorizer = TokenVectorizer().fit([[{"word": "known", "length": 5}]])
    for k in range(50):
        rows = vectorizer.transform([[{"word": f"new{k}", f"name{k}": 1.0, f"other{k}": "x"}]])
        assert rows.shape == (1, 2)
        assert rows.nnz == 0
    names = vectorizer._names()
    assert sum(map(len, names.codes.values())) == 0
    assert len(names.names) == 2


def test_numbers_that_do_not_repeat_take_little_memory(code):
    vectorizer = TokenVectorizer()
    values = np.random.default_rng(0).normal(size=5000)
    rows = vectorizer.fit_transform([[{"x": float(value)} for value in values]])
    np.testing.assert_array_equal(rows.toarray()[:, 0], values)
    again = vectorizer.transform([[{"x": float(value)} for value in values]])
    np.testing.assert_array_equal(again.toarray()[:, 0], values)
    remembered = vectorizer._names().codes.get("x", {})
    assert len(remembered) == (name_columns.NUMBERS if code == "Python" else 0)


def test_threads_share_a_vectorizer():
    names = [f"n{k}" for k in range(40)]
    rng = np.random.default_rng(0)
    X = [[{name: int(rng.integers(2, 40)) for name in names}] for _ in range(300)]
    expected = TokenVectorizer().fit_transform(X).toarray()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            transform = TokenVectorizer().fit(X).transform
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(transform, [[x] for x in X]))
            np.testing.assert_array_equal([row.toarray()[0] for row in found], expected)
    finally:
        sys.setswitchinterval(interval)


HASHED = """
from maxmargin.data import TokenVectorizer
X = [[{"word": f"w{k}", "length": k, "b": ["x", "y"]}, [f"v{k}"]] for k in range(50)]
rows = TokenVectorizer(32).transform(X)
print(rows.indices.tolist(), rows.data.tolist(), rows.indptr.tolist(), rows.shape)
"""


def test_hashed_columns_are_the_same_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", HASHED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert "(100, 32)" in found.pop()


def test_hashing_bounds_memory_and_loses_no_entry(monkeypatch):
    monkeypatch.setattr(name_columns, "REMEMBERED", 20)
    vectorizer = TokenVectorizer(7)
    X = [[{"word": f"w{k}", "one": 1.0, f"n{k}": 2.0}, [f"v{k}", "z"]] for k in range(200)]
    rows = vectorizer.fit_transform(X)
    np.testing.assert_array_equal(rows.sum(axis=1).A1, [4.0, 2.0] * 200)
    names = vectorizer._names()
    assert sum(map(len, names.codes.values())) <= 20
    assert len(names.names) <= 20
    with pytest.raises(AttributeError):
        vectorizer.vocabulary_


@pytest.mark.parametrize(
    ("token", "error", "text"),
    [
        ({"a": None}, TypeError, "feature 'a' of token 1 in sequence 2 is None"),
        ({"a": [1.0]}, TypeError, "a list that contains 1.0"),
        ({"a": b"x"}, TypeError, "Decode it first"),
        (["a", 3], TypeError, "token 1 of sequence 2 is a list of names that contains 3"),
        (7, TypeError, "token 1 of sequence 2 is 7, a int"),
        ({"a": 10**400}, ValueError, "the feature 'a' has too large a value"),
        ({1: 1.0}, TypeError, "names of different types"),
    ],
)
def test_other_values_are_refused(token, error, text):
    X = [[{"b": 1}], [], [{"b": "x"}, token]]
    with pytest.raises(error, match=text):
        TokenVectorizer().fit(X)
    if "different types" not in text:
        with pytest.raises(error, match=text):
            TokenVectorizer().fit([[{"a": 1}]]).transform(X)


def test_misuse():
    with pytest.raises(ValueError, match="not fitted"):
        TokenVectorizer().transform([[{"a": 1}]])
    for one in ([{"a": 1}, {"a": 2}], ["a", "b"], "ab", {"a": 1}):  # a sequence, or a token
        with pytest.raises(TypeError, match=r"sequence 0 of X is .* one token"):
            TokenVectorizer().fit(one)
    for n_hashed in (0, -1, 2.5, 2**31):
        with pytest.raises(ValueError, match="n_hashed"):
            TokenVectorizer(n_hashed).transform([[{"a": 1}]])


def test_names_that_occur_too_rarely_have_no_column():
    X = [[["a", "b"], ["a"]], [[], {"c": 2.0, "a": 1.0}]]
    vectorizer = TokenVectorizer(min_count=2)
    matrix = vectorizer.fit_transform(X)
    assert vectorizer.feature_names_ == ["a"]
    np.testing.assert_array_equal(matrix.toarray(), [[1], [1], [0], [1]])
    np.testing.assert_array_equal(vectorizer.transform(X).toarray(), matrix.toarray())


@pytest.mark.parametrize(
    "options", [{"min_count": 0}, {"min_count": 1.5}, {"min_count": 2, "n_hashed": 8}]
)
def test_counts_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="min_count"):
        TokenVectorizer(**options).fit([[["a"]]])


def test_generators_are_read_once():
    X = random_tokens(0)
    found = TokenVectorizer().fit_transform((token for token in x) for x in X)
    same(found, TokenVectorizer().fit_transform(X))
