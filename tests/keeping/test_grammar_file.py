"""A parser comes back whole from its file, and files that contradict themselves are refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.keeping.test_damaged_files import joined, parts, refused
from tests.keeping.test_persistence import round_trip

from maxmargin import GrammarParser
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
        {"horizontal": 0, "min_count": 1, "loss": "zero_one", "beam": 50, "max_exact_length": 2},
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


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("parser") / "model"
    GrammarParser(max_iter=2).fit(X, TREES).save(path)
    return path.read_bytes()


def tensor(name, change):
    def apply(fitted, tensors):
        tensors[name] = tensors[name].copy()
        change(tensors[name])

    return apply


def option(**changes):
    return lambda fitted, tensors: fitted["options"].update(changes)


def beyond(array):
    array.flat[0] = 9999


def below(array):
    array.flat[0] = -1


def reverse(array):
    array[:] = array[::-1].copy()


def same(array):
    array[:] = array[0]


DAMAGE = {
    "symbol beyond": tensor("binary", beyond),
    "symbol below": tensor("starts", below),
    "class beyond": tensor("word_classes", beyond),
    "chain lengths": tensor("chain_lengths", beyond),
    "chain of nothing": tensor("chain_lengths", below),
    "order": tensor("binary", reverse),
    "repeats": tensor("binary", same),
    "attribute": tensor("pair_names", beyond),
    "word of a phrase": tensor("word_tags", lambda a: a.__setitem__(0, 0)),
    "loss": option(loss="none"),
    "beam": option(beam="wide"),
    "horizontal": option(horizontal=-3),
    "unknown option": option(more=1),
    "symbols": lambda fitted, tensors: fitted["symbols"].__setitem__(0, "S"),
    "words": lambda fitted, tensors: fitted["words"].__setitem__(0, 3),
    "shapes": lambda fitted, tensors: fitted["shapes"].clear(),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused(what, stored, path):
    header, tensors = parts(stored)
    DAMAGE[what](header["fitted"], tensors)
    refused(path, joined(header, tensors))
