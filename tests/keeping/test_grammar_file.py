"""A parser comes back whole from its file, and files that contradict themselves are refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.keeping.test_persistence import round_trip

from maxmargin import GrammarParser
from maxmargin.persistence import ModelFileError
from maxmargin.persistence._arrays import ArrayReader, ArrayWriter
from maxmargin.persistence._grammars import read_parser, write_parser
from maxmargin.tasks.parsing.trees import words

TREES = [
    "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (JJ big) (JJ red) (NN dog))))",
    "(S (NP (DT a) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
    "(S (VP (VB run)))",
]
X = [words(tree) for tree in TREES]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"horizontal": None, "parents": False, "attributes": False},
        {"horizontal": 0, "min_count": 1, "loss": "zero-one", "beam": 50, "max_exact_length": 2},
    ],
)
def test_round_trip(options, path):
    parser = GrammarParser(C=0.5, **options, max_iter=5).fit(X, TREES)
    again = round_trip(parser, path)
    assert again.coef_.tobytes() == parser.coef_.tobytes()
    assert again.grammar_.rules == parser.grammar_.rules
    assert np.array_equal(again.grammar_.counts, parser.grammar_.counts)
    new = [["the", "gnu", "saw", "a", "dog"], ["run"], ["red", "red"]]
    assert again.predict(X + new) == parser.predict(X + new)
    assert again.predict_k_best(new, 3) == parser.predict_k_best(new, 3)
    assert again.pcfg().predict(X) == parser.pcfg().predict(X)


def stored():
    parser = GrammarParser(max_iter=2).fit(X, TREES)
    writer = ArrayWriter()
    return write_parser(parser, writer), writer


def read(header, writer):
    return read_parser(header, ArrayReader(writer.specs, writer.tensors))


def test_the_file_as_it_is():
    assert set(read(*stored())) == {"coef_", "task_"}


def tensor(name, change):
    def apply(header, writer):
        writer.tensors[name] = writer.tensors[name].copy()
        change(writer.tensors[name])

    return apply


def beyond(array):
    array.flat[0] = 9999


def below(array):
    array.flat[0] = -1


def reverse(array):
    array[:] = array[::-1].copy()


def same(array):
    array[:] = array[0]


DAMAGE = {
    "symbol beyond": tensor("rules.binary", beyond),
    "symbol below": tensor("rules.start", below),
    "class beyond": tensor("rules.word", lambda a: a.__setitem__((0, 1), 9999)),
    "chain lengths": tensor("rules.chain.lengths", beyond),
    "chain of nothing": tensor("rules.chain.lengths", below),
    "order": tensor("rules.binary", reverse),
    "repeats": tensor("rules.binary", same),
    "attribute": tensor("pairs", beyond),
    "word of a phrase": tensor("rules.word", lambda a: a.__setitem__((0, 0), 0)),
    "loss": lambda header, writer: header.update(loss="none"),
    "beam": lambda header, writer: header.update(beam="wide"),
    "horizontal": lambda header, writer: header.update(horizontal=-3),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused(what):
    header, writer = stored()
    DAMAGE[what](header, writer)
    with pytest.raises(ModelFileError):
        read(header, writer)
