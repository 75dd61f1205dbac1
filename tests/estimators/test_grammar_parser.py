"""GrammarParser as an estimator, and trees as they are read, written and compared."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import GrammarParser
from maxmargin.core.vectors import dot
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks.parsing.trees import (
    as_tree,
    bracket_score,
    clean,
    constituents,
    read_trees,
    words,
    write_tree,
)

TREES = read_trees(
    """
    (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (JJ big) (JJ red) (NN dog))))
    (S (NP (DT a) (NN dog)) (VP (VBD saw) (NP (DT the) (NN man)) (PP (IN with) (NP (DT a) (NN cat)))))
    (S (NP (DT the) (NN man)) (VP (VBD ran)))
    (S (VP (VB run)))
    (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (JJ big) (NN dog))))
    """
)
X = [words(tree) for tree in TREES]


class Node(list):
    """A tree of nltk's kind."""

    def __init__(self, label, children):
        super().__init__(children)
        self._label = label

    def label(self):
        return self._label


def as_node(tree):
    return Node(tree[0], [c if isinstance(c, str) else as_node(c) for c in tree[1:]])


@pytest.mark.parametrize("loss", ["span", "zero_one"])
def test_certificate_by_hand(loss):
    """The objective recomputed from all trees of every sentence is the one reported."""
    parser = GrammarParser(C=0.5, tol=1e-3, loss=loss).fit(X, TREES)
    task, w = parser.task_, parser.coef_
    risk = 0.0
    for x, tree in zip(X, TREES, strict=True):
        truth = dot(task.joint_feature(x, tree), w)
        every = task.k_best(x, w, 2000)
        assert len(every) < 2000
        risk += max(task.loss(tree, other) + score for other, score in every) - truth
    objective = 0.5 * w @ w + 0.5 * risk
    assert parser.objective_ == pytest.approx(objective, rel=1e-9)
    assert parser.lower_bound_ <= objective
    assert parser.converged_
    assert parser.certificate_ == "exact"


@pytest.mark.parametrize("loss", ["span", "zero_one"])
def test_solvers_agree(loss):
    solvers = [
        "auto",
        DualCoordinate(batch_size="all"),
        CuttingPlane(),
        CuttingPlane(use_cache=False),
    ]
    fits = [GrammarParser(C=0.2, tol=1e-4, loss=loss, solver=s).fit(X, TREES) for s in solvers]
    lower = max(fit.lower_bound_ for fit in fits)
    assert all(lower <= fit.objective_ * (1 + 1e-12) for fit in fits)
    assert np.allclose([fit.objective_ for fit in fits], fits[0].objective_, rtol=3e-4)


def test_forms_of_trees_give_the_same_fit():
    plain = GrammarParser().fit(X, TREES)
    for form in (
        [write_tree(tree) for tree in TREES],
        [as_node(tree) for tree in TREES],
        [list(tree) for tree in TREES],
    ):
        assert np.array_equal(GrammarParser().fit(None, form).coef_, plain.coef_)
        assert plain.score(None, form) == plain.score(X, TREES)


def test_threads_and_repeats_give_the_same_bits():
    many, truths = X * 30, TREES * 30  # more than one shard
    one = GrammarParser(C=0.1, tol=1e-2).fit(many, truths)
    two = GrammarParser(C=0.1, tol=1e-2, n_jobs=2).fit(many, truths)
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_learns_and_generalizes():
    parser = GrammarParser(C=10.0).fit(X, TREES)
    assert parser.predict(X) == TREES
    assert parser.score(X, TREES) == 1.0
    new = ["the", "dog", "saw", "a", "man"]
    wanted = "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN man))))"
    assert parser.predict([new]) == [as_tree(wanted)]
    best = parser.predict_k_best([new], 3)[0]
    assert best[0][0] == as_tree(wanted)
    assert [score for _, score in best] == sorted((s for _, s in best), reverse=True)


def test_weight_two_is_twice_the_sentence():
    weight = np.array([1.0, 2.0, 1.0, 0.0, 1.0])
    doubled = [0, 1, 1, 2, 4]
    # the grammar must be the same: sentence 3 stays, with weight zero
    a = GrammarParser(C=0.3, tol=1e-5, min_count=1).fit(X, TREES, sample_weight=weight)
    parser = GrammarParser(C=0.3, tol=1e-5, min_count=1)
    rows = [*doubled, 3]
    b = parser.fit([X[i] for i in rows], [TREES[i] for i in rows], sample_weight=[1, 1, 1, 1, 1, 0])
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-4)


def test_unknown_words_and_sentences_without_a_tree():
    parser = GrammarParser().fit(X, TREES)
    (tree,) = parser.predict([["the", "gnu", "saw", "the", "zebra"]])
    assert words(tree) == ["the", "gnu", "saw", "the", "zebra"]
    (flat,) = parser.predict([["saw", "saw", "saw"]])
    assert flat == ("S", ("VBD", "saw"), ("VBD", "saw"), ("VBD", "saw"))
    assert parser.predict_k_best([["saw", "saw", "saw"]], 2) == [[]]


def test_pcfg_of_the_same_grammar():
    parser = GrammarParser().fit(X, TREES)
    other = parser.pcfg()
    assert not hasattr(other, "objective_")
    assert hasattr(parser, "objective_")
    assert other.predict(X)[2] == TREES[2]
    scores = [score for _, score in other.predict_k_best(X[:1], 1000)[0]]
    assert np.exp(scores).sum() <= 1.0 + 1e-12  # probabilities of different trees


def test_clone_and_pickle():
    parser = GrammarParser(C=0.5, horizontal=None, parents=False).fit(X, TREES)
    assert clone(parser).get_params() == parser.get_params()
    again = pickle.loads(pickle.dumps(parser))
    assert again.predict(X) == parser.predict(X)


def test_wrong_input():
    with pytest.raises(ValueError, match="must have the same words"):
        GrammarParser().fit([["a", "cat"], *X[1:]], TREES)
    with pytest.raises(ValueError, match="X has 4 examples"):
        GrammarParser().fit(X[1:], TREES)
    with pytest.raises(ValueError, match="nothing to learn"):
        GrammarParser().fit([], [])
    parser = GrammarParser().fit(X, TREES)
    for wrong in ("a text", [], [1, 2]):
        with pytest.raises(ValueError, match="list of strings"):
            parser.predict([wrong])
    with pytest.raises(ValueError, match="k must be an integer of at least 1, got 0"):
        parser.predict_k_best(X, 0)


# -- trees -----------------------------------------------------------------------------------------


def test_brackets_round_trip():
    for tree in TREES:
        assert read_trees(write_tree(tree)) == [tree]
    assert write_tree(("X", ("-LRB-", "("))) == "(X (-LRB- -LRB-))"
    assert read_trees("( (S (A a)) )") == [("", ("S", ("A", "a")))]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(S (A a)", "not closed"),
        ("(S (A a)))", "without an opening bracket"),
        ("word", "outside"),
        ("(S)", "no children"),
        ("(S (A a) b)", "its own tag"),
        ("(S a b)", "its own tag"),
        ("(A a) (B b)", "has 2"),
    ],
)
def test_bad_brackets(text, error):
    with pytest.raises(ValueError, match=error):
        as_tree(text)


def test_clean():
    text = "(TOP (S-1 (NP-SBJ=2 (-NONE- *T*)) (VP (-LRB- -LRB-) (VB-X go)) (PRN (NP (-NONE- 0)))))"
    assert write_tree(clean(text)) == "(S (VP (-LRB- -LRB-) (VB-X go)))"
    assert clean("(ROOT (NP (-NONE- 0)))") is None
    assert clean("(ROOT (A a) (B b))")[0] == "ROOT"
    assert clean("(S-1 (A a))", strip_functions=False) == ("S-1", ("A", "a"))


def test_bracket_score_by_hand():
    gold = "(S (NP (NP (A a) (B b))) (VP (C c)))"
    found = "(S (NP (A a) (B b)) (VP (NP (C c))))"
    # in common: S, one of the two NP over a b, VP over c; wrong: NP over c
    score = bracket_score([gold], [found])
    assert score.precision == score.recall == score.f1 == 0.75
    assert bracket_score([gold], [gold]) == (1.0, 1.0, 1.0, 1.0)
    assert bracket_score([gold], [found], ignore=("S",)).f1 == pytest.approx(2 / 3)
    assert constituents(as_tree(gold))[:2] == [("S", 0, 3), ("NP", 0, 2)]
