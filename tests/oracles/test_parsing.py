"""Parsing against brute force: all trees of short sentences, for grammars of random treebanks.

The enumeration below works on the grammar's list of rules alone; scores, losses and brackets are counted
on the trees. Claims: the best tree, the loss-augmented argmax of both losses, the second best and the k
best are right; trees and derivations determine each other; a beam never finds more than there is.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import StructuredSVM
from maxmargin.core.vectors import dot
from maxmargin.tasks import Parsing
from maxmargin.tasks.parsing.grammar import Grammar, Shape, derive
from maxmargin.tasks.parsing.lexicon import attributes
from maxmargin.tasks.parsing.trees import constituents, tagged_words, words
from maxmargin.testing import check_task

LABELS, TAGS, WORDS = ("A", "B", "C"), ("x", "y", "A"), ("a", "b", "cat", "Dog", "3")


def random_tree(rng, n, depth=0):
    """A random tree over n words, with unary chains (also of repeated labels) and wide nodes."""
    if n == 1 and (depth > 3 or rng.random() < 0.6):
        return (str(rng.choice(TAGS)), str(rng.choice(WORDS)))
    label = str(rng.choice(LABELS))
    if (depth < 3 and rng.random() < 0.25) or n == 1:
        return (label, random_tree(rng, n, depth + 1))
    parts = int(rng.integers(2, n + 1))
    cuts = np.sort(rng.choice(np.arange(1, n), parts - 1, replace=False)).tolist()
    sizes = np.diff([0, *cuts, n])
    return (label, *(random_tree(rng, int(size), depth + 1) for size in sizes))


def all_derivations(grammar: Grammar, sentence, limit):
    """Every derivation of a sentence, as a list of rules in preorder, by plain recursion."""
    lexicon = grammar.lexicon
    starts = [rule for rule in grammar.rules if rule[0] == "start"]
    chains, binary, lexical = {}, {}, set()
    for rule in grammar.rules:
        if rule[0] == "chain":
            chains.setdefault(rule[1][0], []).append(rule)
        elif rule[0] == "binary":
            binary.setdefault(rule[1], []).append(rule)
        elif rule[0] == "word":
            lexical.add(rule)
    memory = {}

    def upper(symbol, i, j):
        if symbol[0] != "phrase":
            return lower(symbol, i, j)
        out = []
        for rule in chains.get(symbol, ()):
            out += [[rule, *rest] for rest in lower(rule[1][-1], i, j)]
        return out

    def lower(symbol, i, j):
        key = symbol, i, j
        if key in memory:
            return memory[key]
        out = []
        if symbol[0] == "tag":
            rule = ("word", symbol, lexicon.number(sentence[i]))
            out = [[rule]] if j == i + 1 and rule in lexical else []
        else:
            for rule, k in itertools.product(binary.get(symbol, ()), range(i + 1, j)):
                lefts = upper(rule[2], i, k)
                rights = upper(rule[3], k, j) if lefts else []
                out += [[rule, *a, *b] for a in lefts for b in rights]
                _not_too_many(out, limit)
        memory[key] = out
        return out

    n = len(sentence)
    found = [[rule, *rest] for rule in starts for rest in upper(rule[1], 0, n)]
    _not_too_many(found, limit)
    return found


def _not_too_many(found, limit):
    if limit is not None:
        assume(len(found) <= limit)


class Problem:
    """A random treebank, its task, weights, and everything by enumeration."""

    def __init__(self, seed, loss="span", **options):
        rng = self.rng = np.random.default_rng(seed)
        self.Y = [random_tree(rng, int(rng.integers(1, 6))) for _ in range(5)]
        self.X = [words(tree) for tree in self.Y]
        self.task = Parsing(
            loss=loss,
            wrong_cost=(0.0, 0.5, 1.0)[int(rng.integers(3))],
            horizontal=(0, 1, 2, None)[int(rng.integers(4))],
            parents=bool(rng.integers(2)),
            attributes=bool(rng.integers(2)),
            min_count=int(rng.integers(1, 4)),
            **options,
        )
        self.dim = self.task.setup(self.X, self.Y)
        self.grammar = self.task.grammar
        self.w = rng.normal(size=self.dim)
        if rng.random() < 0.3:
            self.w = np.round(self.w)  # ties

    def trees(self, sentence, limit=4000):
        """{tree: score} of all trees."""
        out = {}
        place = {rule: k for k, rule in enumerate(self.grammar.rules)}
        n = len(place)
        pairs = {pair: n + k for k, pair in enumerate(self.grammar.pairs)}
        for rules in all_derivations(self.grammar, sentence, limit):
            numbers = [place[rule] for rule in rules]
            tree = self.grammar.tree(numbers, sentence)
            assert tree not in out  # no two derivations of one tree
            assert derive(tree, self.grammar.lexicon, self.grammar.shape) == rules
            tagged = [tag for tag, _ in tagged_words(tree)]
            seen = zip(tagged, attributes(sentence), strict=True)
            also = [pairs[a, tag] for tag, own in seen for a in own if (a, tag) in pairs]
            out[tree] = float(sum(self.w[k] for k in numbers + also))
        return out

    def plain_loss(self, truth, tree):
        if self.task.loss_name == "zero_one":
            return float(truth != tree)
        a, b = Counter(constituents(truth)), Counter(constituents(tree))
        return float((a - b).total() + self.task.wrong_cost * (b - a).total())


seeds = st.integers(0, 2**31)
many = settings(max_examples=100, deadline=None)


@many
@given(seeds)
def test_best_tree(seed):
    problem = Problem(seed)
    new = [str(v) for v in problem.rng.choice((*WORDS, "new"), problem.rng.integers(1, 6))]
    for sentence in (problem.X[0], new):
        every = problem.trees(sentence)
        found = problem.task.inference(sentence, problem.w)
        assert words(found) == list(sentence)
        if every:
            assert every[found] == pytest.approx(max(every.values()), abs=1e-9)
        else:
            assert found == problem.task.flat(sentence, problem.w)
            assert len(found) == len(sentence) + 1
            assert found[0] == problem.grammar.top_label


@many
@given(seeds, st.sampled_from(["span", "zero_one"]))
def test_loss_augmented(seed, loss):
    problem = Problem(seed, loss)
    task = problem.task
    for x, y in zip(problem.X, problem.Y, strict=True):
        every = problem.trees(x)
        best = max(problem.plain_loss(y, tree) + score for tree, score in every.items())
        found = task.loss_augmented_inference(x, y, problem.w)
        tree = task.tree(x, found)
        assert task.loss(y, found) == problem.plain_loss(y, tree) == task.loss(y, tree)
        assert problem.plain_loss(y, tree) + every[tree] == pytest.approx(best, abs=1e-9)
        assert dot(task.joint_feature(x, found), problem.w) == pytest.approx(every[tree], abs=1e-9)


@many
@given(seeds)
def test_k_best(seed):
    problem = Problem(seed)
    x = problem.X[1]
    every = problem.trees(x)
    found = problem.task.k_best(x, problem.w, 7)
    wanted = sorted(every.values(), reverse=True)[:7]
    assert np.allclose([score for _, score in found], wanted, atol=1e-9)
    assert len({tree for tree, _ in found}) == len(found)
    assert all(every[tree] == pytest.approx(score, abs=1e-9) for tree, score in found)
    assert len(problem.task.k_best(x, problem.w, 10**6)) == len(every)


@many
@given(seeds, st.integers(1, 3))
def test_beam(seed, beam):
    exact, pruned = Problem(seed), Problem(seed, beam=beam, max_exact_length=2)
    for x, y in zip(exact.X, exact.Y, strict=True):
        every = exact.trees(x)
        for tree, _ in pruned.task.k_best(x, exact.w, 1):
            assert every[tree] <= max(every.values()) + 1e-9
            if len(x) <= 2:  # short sentences are searched exactly
                assert every[tree] == pytest.approx(max(every.values()), abs=1e-9)
        found = pruned.task.loss_augmented_inference(x, y, exact.w)
        assert pruned.task.tree(x, found) in every
    kind = "undergenerating" if max(map(len, exact.X)) > 2 else "exact"
    assert pruned.task.oracle_kind == kind


def test_wide_beam_loses_nothing():
    for seed in range(20):
        exact, wide = Problem(seed), Problem(seed, beam=10**6, max_exact_length=0)
        for x, y in zip(exact.X, exact.Y, strict=True):
            assert wide.task.inference(x, exact.w) == exact.task.inference(x, exact.w)
            a = wide.task.loss_augmented_inference(x, y, exact.w)
            assert np.array_equal(a.rules, exact.task.loss_augmented_inference(x, y, exact.w).rules)


@pytest.mark.parametrize("loss", ["span", "zero_one"])
def test_check_task(loss):
    problem = Problem(3, loss)

    def outputs(x):
        return list(problem.trees(x, limit=None))

    task = Parsing(loss=loss, horizontal=1, parents=False, min_count=1)
    short = [i for i, x in enumerate(problem.X) if len(x) <= 3]
    X, Y = [problem.X[i] for i in short], [problem.Y[i] for i in short]
    problem.task, problem.dim = task, task.setup(X, Y)
    problem.grammar = task.grammar
    problem.w = np.zeros(problem.dim)
    check_task(task, X, Y, outputs=outputs)


def test_relative_frequencies_are_probabilities():
    """Of every left-hand side they add up to one, and the trees of one rule count as often as seen."""
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, 4) for _ in range(30)]
    grammar = Grammar.read(trees, Shape(1, True, True), 1)
    p = np.exp(grammar.log_frequencies()[: len(grammar.rules)])
    total = Counter()
    for rule, q in zip(grammar.rules, p, strict=True):
        kind = rule[0]
        side = None if kind == "start" else rule[1][0] if kind == "chain" else rule[1]
        total[kind, side] += q
    assert np.allclose(list(total.values()), 1.0)
    start = ("start", grammar.rules[0][1])
    share = np.mean([derive(t, grammar.lexicon, grammar.shape)[0] == start for t in trees])
    assert p[0] == pytest.approx(share)


def test_a_beam_leaves_a_lower_bound_only():
    trees = [
        "(S (NP (D the) (N cat)) (VP (V saw) (NP (D a) (N dog))))",
        "(S (NP (D a) (N dog)) (VP (V ran)))",
    ]
    X = [words(tree) for tree in trees]
    pruned = StructuredSVM(Parsing(beam=1, max_exact_length=2), max_iter=5).fit(X, trees)
    exact = StructuredSVM(Parsing(), tol=1e-4).fit(X, trees)
    assert pruned.certificate_ == "lower_only"
    assert not pruned.converged_
    assert pruned.lower_bound_ <= exact.objective_ + 1e-9
    assert exact.certificate_ == "exact"
    assert exact.converged_
