"""C gives names of features the columns that Python gives them, whatever names and tokens are."""

import enum
import pickle
import subprocess
import sys
import time
from array import array
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


def seconds_to_enter(names):
    begin = time.perf_counter()
    name_columns.compiled_names()(names)
    return time.perf_counter() - begin


def test_no_names_are_slow():
    """Names whose last hash of 64 bits was the same took a thousand times as long when it had no seed."""
    multiplier, target = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x1234567812345678)
    first = np.random.default_rng(0).integers(32, 127, (2_000_000, 8), dtype=np.uint8)
    state = (np.uint64(16) ^ first.view(np.uint64)[:, 0]) * multiplier
    second = (state ^ (state >> np.uint64(32)) ^ target)[:, None].view(np.uint8)
    both = np.hstack([first, second])[(second < 128).all(axis=1)]
    colliding = [row.tobytes().decode("ascii") for row in both[:5000]]
    assert len(set(colliding)) == 5000
    usual = [f"a name {k:09d}" for k in range(5000)]
    slow, fast = (min(seconds_to_enter(names) for _ in range(3)) for names in (colliding, usual))
    assert slow < 20 * fast


MISUSES = {
    "names that are removed": "made.names.clear(); read(['a'], 0, b[0], b[1], b[2], True)",
    "names that are replaced": "made.names[0] = 5; read(['a'], 0, b[0], b[1], b[2], False)",
    "negative t": "read([{'a': 1.0}], -10**6, b[0], b[1], b[2], True)",
    "one buffer for all": "read([['c', 'd'] * 500] * 9, 0, b[0], b[0], b[0], True)",
    "columns and ends": "read([['c', 'd'] * 500] * 9, 0, b[0], b[1], b[0], True)",
    "values and ends": "read([['c', 'd'] * 500] * 9, 0, b[0], b[1], b[1], True)",
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_no_call_writes_or_reads_elsewhere(misuse):
    """In a process of its own: it would crash, or have other names than those that it read."""
    code = f"""
from maxmargin.compiled.precompiled import compiled_names
made = compiled_names()(["a", "b"])
read, b = made.read, [bytearray(8), bytearray(16), bytearray(8)]
try:
    {MISUSES[misuse]}
except ValueError as error:
    print(error)
assert made.names == ["a", "b"], made.names
columns = bytearray()
assert read(["b", ["c", "a"]], 0, columns, bytearray(), bytearray(8), True) == 2
print(columns.hex(), made.append("d"), made.names)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done
    said, columns = done.stdout.splitlines()[:-1], array("i", [1, 2, 0]).tobytes().hex()
    assert done.stdout.endswith(f"{columns} 3 ['a', 'b', 'c', 'd']\n")
    if "names" not in misuse:
        assert said == [
            "t is negative."
            if misuse == "negative t"
            else "columns, values, and ends are not three arrays."
        ]
