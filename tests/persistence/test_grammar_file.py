"""A parser comes back whole from its file, and files that contradict themselves are refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.persistence.test_damaged_files import joined, parts, refused
from tests.persistence.test_persistence import round_trip

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


def rule(kind, *symbols):
    """Replace the first rule of this kind."""

    def apply(fitted):
        rules = fitted["rules"]
        k = next(k for k, rule in enumerate(rules) if rule["$tuple"][0] == kind)
        rules[k] = {"$tuple": [kind, *symbols]}

    return apply


PHRASE = {"$tuple": ["phrase", "S", ""]}
DAMAGE = {
    "no such kind": rule("binary", {"$tuple": ["tag", "DT"]}, PHRASE),
    "class beyond": rule("word", {"$tuple": ["tag", "DT"]}, 9999),
    "word of a phrase": rule("word", PHRASE, 0),
    "order": lambda fitted: fitted["rules"].reverse(),
    "words": lambda fitted: fitted["word_classes"].__setitem__(0, 3),
    "unknown option": lambda fitted: fitted["options"].update(more=1),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused(what, stored, path):
    header, tensors = parts(stored)
    DAMAGE[what](header["fitted"])
    refused(path, joined(header, tensors))
