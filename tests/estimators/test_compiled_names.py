"""C gives names of features the columns that Python gives them, whatever names and tokens are."""

import enum
import pickle
from collections import ChainMap, OrderedDict

import numpy as np
import pytest

from maxmargin.data import TokenVectorizer
from maxmargin.data.tokens import name_columns

pytestmark = pytest.mark.skipif(
    name_columns.compiled_names() is None, reason="this installation has no module in C"
)


def same(found, expected):
    assert found.shape == expected.shape
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
        assert getattr(found, part).dtype == getattr(expected, part).dtype


class Color(enum.StrEnum):
    """Equal to a string, with another hash."""

    RED = "red"


class Own(str):
    """Equal to a string, with the same hash."""

    __slots__ = ()


UNUSUAL = {
    "numbers": [{"a": 2}, {"a": -1}, {"a": False}, {"a": -1.0}, {"a": 10**30}, {"a": 1e-300}],
    "not ASCII": [{"größe": "é", "字": "漢字", "😀": "😀x", "a": "\x80"}, ["größe=é", "a=\x80"], "字=漢字"],
    "surrogates": [{"a": "\ud800", "\udfff": 2.0}, ["a=\ud800"], "\udfff"],
    "zeros": [{"a\0": "b", "a": "\0b", "": "", "=": 1.0}, ["", "=", "a\0=b"], ""],
    "long": [{"n": "x" * 70_000, "y" * 20_000: 3.0}, ["n=" + "x" * 70_000], "y" * 20_000],
    "many": [{f"f{k}": f"v{k % 7}" for k in range(1500)}, [f"f{k}=v0" for k in range(0, 1500, 7)]],
    "subclasses": [{Own("a"): "x", "b": 1.0}, {np.str_("a"): 2.0, "a": "x"}, [np.str_("b"), "b"]],
    "enumerations": [{Color.RED: 2.0, "red": 3.0}, {Color.RED: "x"}, {"red": "x"}, [Color.RED]],
    "mappings": [OrderedDict(a="x", b=2.0), ChainMap({"a": "x"}, {"c": 1.0}), {"a": "x", "c": 1}],
    "lists": [{"a": ["x", "y", "x"], "b": []}, {"a": ("x", np.str_("y"))}, {"a": {"b": ["c"], "d": 2}}],
    "collections": [("a", "b", "a"), {"a"}, frozenset("b"), ["a", "a", np.str_("b")], [], {}, "a"],
    "integers": [{1: 2.0, 2: 1.0}, {1.0: 3.0}, {True: 4.0, 3: 0.5}],
    "pairs": [{("a", 1): 2.0}, {("a", 1): 1.0, ("b", 2): 1.0}],
    "names of both kinds": [{1: "x", "a": 1.0}, {"1=x": 2.0}, {1: ["x", "y"]}],
}  # fmt: skip


def rows_of(make, monkeypatch, compiled):
    with monkeypatch.context() as patch:
        if not compiled:
            patch.setattr(name_columns, "compiled_names", lambda: None)
        return make()


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("min_count", [1, 2])
def test_names_in_c_are_those_in_python(monkeypatch, kind, min_count):
    tokens = UNUSUAL[kind]
    X = [[], tokens, tokens[::-1], tokens[:1]]
    other = (
        [[{"a": "new", "b": 3}], tokens[1:]] if kind not in ("integers", "pairs") else [tokens[1:]]
    )

    def make():
        vectorizer = TokenVectorizer(min_count=min_count)
        fitted = vectorizer.fit_transform(X)
        stored = pickle.loads(pickle.dumps(vectorizer))
        return [fitted, vectorizer.transform(other), stored.transform(X)], vectorizer.feature_names_

    found, names = rows_of(make, monkeypatch, compiled=True)
    expected, expected_names = rows_of(make, monkeypatch, compiled=False)
    assert names == expected_names
    for a, b in zip(found, expected, strict=True):
        same(a, b)


def test_many_new_names_are_found_again(monkeypatch):
    X = [
        [{"a": f"{k % 9973}", f"n{k}": k} for k in range(j, j + 500)] for j in range(0, 30_000, 500)
    ]

    def make():
        vectorizer = TokenVectorizer()
        return vectorizer.fit_transform(X), vectorizer.transform(X[::-1]), vectorizer.feature_names_

    found, expected = (rows_of(make, monkeypatch, compiled) for compiled in (True, False))
    same(found[0], expected[0])
    same(found[1], expected[1])
    assert found[2] == expected[2]


def test_a_name_that_is_set_twice_has_its_last_column(monkeypatch):
    def make():
        return TokenVectorizer().set_names(["a", "b", "a"]).transform([[["a"], {"b": 2.0}, "a"]])

    found, expected = (rows_of(make, monkeypatch, compiled) for compiled in (True, False))
    same(found, expected)
    np.testing.assert_array_equal(found.toarray(), [[0, 0, 1], [0, 2, 0], [0, 0, 1]])
