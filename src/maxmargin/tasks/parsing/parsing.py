"""Parsing as a structured task: rule counts, bracket or 0/1 loss, CKY.

    score(x, y) = <w, Psi(x, y)>

Psi counts the rules, and the attributes of words with their tags.

Two losses between a labeled tree y and another one:

* "span": wrong brackets plus missing brackets, as multisets of (label, first word, last word + 1). It
  is a sum over the other tree's brackets plus a constant, so CKY finds the argmax of loss + score.
* "zero-one": 1 unless the trees are equal. The argmax is the best tree, or, if that is the labeled one,
  the better of it (loss 0) and the second best (loss 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import cky, parses
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.vectors import Array, SparseVector, from_pairs, writable
from maxmargin.tasks.base import Task
from maxmargin.tasks.parsing.grammar import Grammar, Ints, Sentence, Shape
from maxmargin.tasks.parsing.k_best import KBest
from maxmargin.tasks.parsing.trees import Tree, as_tree, constituents, words

_NO_EDGE = parses.Edge(-1, 0, 0, 0, 0)
_NO_TRUTH = cky.Truth(
    np.empty((0, 0), dtype=np.int32), np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32), 0.0
)


@dataclass(frozen=True, slots=True, eq=False)
class Parse:
    """A derivation (its rules in preorder) and its brackets (sorted codes); ``truth`` for labeled ones."""

    rules: Ints
    brackets: npt.NDArray[np.int64]
    truth: cky.Truth | None = None


class Parsing(Task):
    """Trees of sentences, by a grammar read from the training trees.

    Parameters
    ----------
    loss : {"span", "zero-one"}, default "span"
        What training counts: wrong and missing brackets, or wrong trees.
    wrong_cost : float, default 1.0
        With the span loss: what a wrong bracket costs; a missing one costs 1.
    horizontal : int or None, default 1
        How many sisters a symbol made by binarization remembers; None for all.
    parents : bool, default True
        Whether a phrase's symbol has its parent's label in it.
    attributes : bool, default True
        Whether forms, endings, shapes and neighbors of words have weights for each tag. False: rule
        counts alone, as in the paper.
    min_count : int, default 2
        Words seen less often are known by their shape and ending only.
    beam : int, optional
        For sentences of more than ``max_exact_length`` words: how many symbols each span keeps. The argmax
        is then approximate. None: always exact.
    max_exact_length : int, default 40
        See ``beam``; without a beam it has no meaning.

    Examples
    --------
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.tasks import Parsing
    >>> Y = ["(S (NP (DT the) (NN cat)) (VP (VBD sat)))", "(S (NP (DT the) (NN dog)) (VP (VBD ran)))"]
    >>> X = [["the", "cat", "sat"], ["the", "dog", "ran"]]
    >>> svm = StructuredSVM(Parsing(min_count=1)).fit(X, Y)
    >>> svm.predict([["the", "dog", "sat"]])
    [('S', ('NP', ('DT', 'the'), ('NN', 'dog')), ('VP', ('VBD', 'sat')))]
    """

    def __init__(
        self,
        loss: str = "span",
        wrong_cost: float = 1.0,
        horizontal: int | None = 1,
        parents: bool = True,
        attributes: bool = True,
        min_count: int = 2,
        beam: int | None = None,
        max_exact_length: int = 40,
    ) -> None:
        if loss not in ("span", "zero-one"):
            raise ValueError(f"loss={loss!r}: use 'span' or 'zero-one'.")
        self.loss_name = loss
        if not (np.isfinite(wrong_cost) and wrong_cost >= 0.0):
            raise ValueError(f"wrong_cost={wrong_cost!r}: it must be a number of at least 0.")
        self.wrong_cost = float(wrong_cost)
        memory = None if horizontal is None else _least("horizontal", horizontal, 0)
        self.shape = Shape(memory, bool(parents), bool(attributes))
        self.min_count = _least("min_count", min_count, 1)
        self.beam = None if beam is None else _least("beam", beam, 1)
        self.max_exact_length = _least("max_exact_length", max_exact_length, 0)
        #: "undergenerating" once a training sentence is too long for an exact search
        self.oracle_kind: OracleKind = "exact"  # type: ignore[misc]

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Read the grammar from the trees."""
        trees = [as_tree(y) for y in Y]
        sentences = [words(tree) for tree in trees]
        for i, (x, sentence) in enumerate(zip(X, sentences, strict=True)):
            if list(x) != sentence:
                raise ValueError(
                    f"sentence {i} and its tree have different words: {list(x)!r} and {sentence!r}."
                )
        self.set_grammar(Grammar.read(trees, self.shape, self.min_count))
        if any(self._beam(len(sentence)) for sentence in sentences):
            self.oracle_kind = "undergenerating"  # type: ignore[misc]
        return self.grammar.dim

    def _beam(self, length: int) -> int:
        """The beam for a sentence; 0 for an exact search."""
        return self.beam if self.beam is not None and length > self.max_exact_length else 0

    def set_grammar(self, grammar: Grammar) -> None:
        """Use this grammar."""
        self.grammar = grammar
        self._offsets = np.array(grammar.offsets, dtype=np.int32)
        self._label = {name: k for k, name in enumerate(grammar.labels)}
        paths = np.diff(grammar.packed.path_ptr)
        self._longest = int(paths.max()) if len(paths) else 1

    # -- encoding ----------------------------------------------------------------------------------

    def sentence(self, x: Any) -> Sentence:
        """A sentence in the form the argmax works on; both forms are accepted everywhere."""
        if isinstance(x, Sentence):
            return x
        if isinstance(x, str) or len(x) == 0 or not all(isinstance(word, str) for word in x):
            raise ValueError(f"a sentence must be a list of words, and not empty; got {x!r}.")
        return self.grammar.sentence(x)

    def parse(self, y: Any) -> Parse:
        """A tree in the form training works on; both forms are accepted everywhere."""
        if isinstance(y, Parse):
            return y
        tree = as_tree(y)
        found = constituents(tree)
        n = len(words(tree))
        rules = self.grammar.features(tree)
        codes = [(self._label[a] * (n + 1) + i) * (n + 1) + j for a, i, j in found]
        return Parse(rules, np.sort(np.array(codes, dtype=np.int64)), self._truth(found, n))

    def _truth(self, found: list[tuple[str, int, int]], n: int) -> cky.Truth:
        place = np.full((n + 1, n + 1), -1, dtype=np.int32)
        labels: list[list[int]] = []
        for label, i, j in found:
            if place[i, j] < 0:
                place[i, j] = len(labels)
                labels.append([])
            labels[place[i, j]].append(self._label[label])
        ends = np.cumsum([0, *map(len, labels)]).astype(np.int32)
        flat = np.array([k for part in labels for k in part], dtype=np.int32)
        return cky.Truth(place, ends, flat, self.wrong_cost)

    def tree(self, x: Any, y: Any) -> Tree:
        """The tree of a derivation."""
        if not isinstance(y, Parse):
            return as_tree(y)
        return self.grammar.tree(y.rules, self.sentence(x).words)

    # -- the task ----------------------------------------------------------------------------------

    def joint_feature(self, x: Any, y: Any) -> SparseVector:
        """How often each rule, and each attribute with a tag, occurs."""
        sentence, rules = self.sentence(x), self.parse(y).rules
        features = parses.count_features(
            rules,
            self._offsets[3],
            sentence.ptr,
            sentence.rule,
            sentence.feature_ptr,
            sentence.features,
        )
        return from_pairs(features, np.ones(len(features)), self.grammar.dim)

    def loss(self, y: Any, y_hat: Any) -> float:
        """Wrong plus missing brackets, or 0/1."""
        a, b = self.parse(y), self.parse(y_hat)
        if self.loss_name == "zero-one":
            return float(not self.same(a, b))
        both = parses.common_brackets(a.brackets, b.brackets)
        return float(len(a.brackets) - both + self.wrong_cost * (len(b.brackets) - both))

    def same(self, y_a: Any, y_b: Any) -> bool:
        """Whether two derivations, and so two trees, are equal."""
        return bool(np.array_equal(self.parse(y_a).rules, self.parse(y_b).rules))

    def inference(self, x: Any, w: Array) -> Tree:
        """The best tree; where the grammar has none for these words, a flat one (see :meth:`flat`)."""
        search = self._search(x, w, None)
        found = search.read(_NO_EDGE)
        return self.flat(x, w) if found is None else self.tree(x, found)

    def flat(self, x: Any, w: Array) -> Tree:
        """The answer where the grammar has no tree: the label most often seen at the top over all words,
        each with its best tag."""
        sentence = self.sentence(x)
        scores = parses.word_scores(writable(w), sentence.feature_ptr, sentence.features)
        tags: list[Tree] = []
        for word, lo, hi in zip(sentence.words, sentence.ptr, sentence.ptr[1:], strict=False):
            tag = sentence.tag[lo + int(np.argmax(scores[lo:hi]))]
            tags.append((self.grammar.symbols[tag][1], word))
        return (self.grammar.top_label, *tags)

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Parse:
        """The derivation of largest loss plus score."""
        truth = self.parse(y)
        search = self._search(x, w, truth.truth if self.loss_name == "span" else None)
        best = search.read(_NO_EDGE)
        if best is None:
            if self._beam(len(self.sentence(x).words)):
                return truth  # all is lost in the beam: the labeled tree itself has value 0
            raise ValueError(
                f"the grammar has no tree for {' '.join(self.sentence(x).words)!r}: it must be read from "
                "the trees that are trained on."
            )
        if self.loss_name == "span" or not self.same(best, truth):
            return best
        edge, cost = parses.second_edge(*search.found)
        # the labeled tree is the best: the second best has loss 1 and scores less by ``cost``
        return truth if cost >= 1.0 else search.read(edge) or truth

    def k_best(self, x: Any, w: Array, k: int) -> list[tuple[Tree, float]]:
        """The k trees of largest score (fewer if there are not so many), with their scores, best first."""
        search = self._search(x, w, None)
        found = KBest(self.grammar, search.w, search.words, search.chart).derivations(k)
        return [(self.grammar.tree(rules, self.sentence(x).words), score) for score, rules in found]

    def _search(self, x: Any, w: Array, truth: cky.Truth | None) -> _Search:
        s, g, w = self.sentence(x), self.grammar.packed, writable(w)
        n = len(s.words)
        words = cky.Words(s.ptr, s.tag, s.rule, parses.word_scores(w, s.feature_ptr, s.features))
        chart = cky.new_chart(n, g.n_phrases, g.n_left, g.n_symbols)
        cky.fill(g, w, self._offsets, words, truth or _NO_TRUTH, self._beam(n), chart)
        return _Search(g, w, self._offsets, words, chart, self._longest)


class _Search(NamedTuple):
    """A filled chart and what it was filled with."""

    g: cky.PackedGrammar
    w: Array
    offsets: Ints
    words: cky.Words
    chart: cky.Chart
    longest: int

    @property
    def found(self) -> tuple[cky.PackedGrammar, Array, Ints, cky.Words, cky.Chart]:
        """What derivations are read from."""
        return self[:5]

    def read(self, other: parses.Edge) -> Parse | None:
        """The best derivation, with ``other`` taken at its node; None if there is none."""
        if parses.best_start(self.g, self.w, self.chart)[0] < 0:
            return None
        n = len(self.words.ptr) - 1
        rules = np.empty(4 * n, dtype=np.int32)
        brackets = np.empty(2 * n * self.longest, dtype=np.int64)
        m, b = parses.trace(*self.found, other, rules, brackets)
        return Parse(rules[:m].copy(), np.sort(brackets[:b]))


def _least(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: it must be an int of at least {least}.")
    return int(value)
