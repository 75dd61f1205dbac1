"""Parsing with a context-free grammar: rule counts as features, span or 0/1 loss, CKY inference.

    score(x, y) = <w, Psi(x, y)>

Psi counts the rules, and the pairs (attribute of a word, tag of the word).

There are two losses between the true tree y and another tree:

* "span": wrong brackets plus missing brackets, as multisets of (label, first word, last word + 1). This is a
  constant plus a sum over the brackets of the other tree, so CKY finds the argmax of loss + score.
* "zero_one": 1 unless the trees are equal. The argmax is the best tree, or, if that is the true tree, the
  better of it (loss 0) and the second best (loss 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import cky, parses
from maxmargin.core.checks import integer, number, one_of
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.vectors import Array, SparseVector, from_pairs, writable
from maxmargin.tasks.base import Task
from maxmargin.tasks.parsing.grammar import Grammar, Ints, Sentence, Shape
from maxmargin.tasks.parsing.k_best import KBest
from maxmargin.tasks.parsing.trees import Tree, as_tree, constituents, words
from maxmargin.tasks.slack_search import common_divisor

_NO_EDGE = parses.Edge(-1, 0, 0, 0, 0)
_NO_TRUTH = cky.Truth(
    np.empty((0, 0), dtype=np.int32), np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32), 0.0
)


@dataclass(frozen=True, slots=True, eq=False)
class Parse:
    """A derivation (rules in preorder) and its brackets (sorted codes); ``truth`` for true trees only."""

    rules: Ints
    brackets: npt.NDArray[np.int64]
    truth: cky.Truth | None = None


class Parsing(Task):
    """Parse sentences with a grammar read from the training trees.

    Parameters
    ----------
    loss : {"span", "zero_one"}, default "span"
        The loss of a tree: the number of wrong and missing brackets, or 1 if the tree is wrong.
    wrong_cost : float, default 1.0
        The cost of a wrong bracket in the span loss. A missing bracket costs 1.
    horizontal : int or None, default 1
        Number of sisters included in the symbols that binarization adds (horizontal Markovization); None for
        all.
    parents : bool, default True
        Whether the symbol of a phrase includes the label of its parent (parent annotation).
    attributes : bool, default True
        Whether forms, endings, shapes and neighbors of words have weights for each tag. If False, only rule
        counts are features.
    min_count : int, default 2
        Words that occur less often are represented by their shape and ending.
    beam : int, optional
        Number of symbols kept for each span, for sentences of more than ``max_exact_length`` words. Inference
        is then approximate. By default it is always exact.
    max_exact_length : int, default 40
        See ``beam``. It has no effect without a beam.

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
        self.loss_name = one_of("loss", loss, ("span", "zero_one"))
        self.wrong_cost = number("wrong_cost", wrong_cost)
        memory = integer("horizontal", horizontal, 0, optional=True)
        self.shape = Shape(memory, bool(parents), bool(attributes))
        self.min_count = integer("min_count", min_count)
        self.beam = integer("beam", beam, optional=True)
        self.max_exact_length = integer("max_exact_length", max_exact_length, 0)
        #: "undergenerating" if some training sentence is longer than ``max_exact_length`` and ``beam`` is set
        self.oracle_kind: OracleKind = "exact"  # type: ignore[misc]

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Read the grammar from the trees."""
        trees = [as_tree(y) for y in Y]
        sentences = [words(tree) for tree in trees]
        for i, (x, sentence) in enumerate(zip(X, sentences, strict=True)):
            if list(x) != sentence:
                raise ValueError(
                    f"sentence {i} and its tree must have the same words, got {list(x)!r} and {sentence!r}."
                )
        self.set_grammar(Grammar.read(trees, self.shape, self.min_count))
        if any(self._beam(len(sentence)) for sentence in sentences):
            self.oracle_kind = "undergenerating"  # type: ignore[misc]
        return self.grammar.dim

    def _beam(self, length: int) -> int:
        """The beam width for a sentence of this length; 0 means exact search."""
        return self.beam if self.beam is not None and length > self.max_exact_length else 0

    def set_grammar(self, grammar: Grammar) -> None:
        """Set the grammar."""
        self.grammar = grammar
        self._offsets = np.array(grammar.offsets, dtype=np.int32)
        self._label = {name: k for k, name in enumerate(grammar.labels)}
        paths = np.diff(grammar.packed.path_ptr)
        self._longest = int(paths.max()) if len(paths) else 1

    # -- encoding ----------------------------------------------------------------------------------

    def sentence(self, x: Any) -> Sentence:
        """Encode a sentence for inference. All methods accept encoded and plain sentences."""
        if isinstance(x, Sentence):
            return x
        if isinstance(x, str) or len(x) == 0 or not all(isinstance(word, str) for word in x):
            raise ValueError(f"a sentence must be a nonempty list of strings, got {x!r}.")
        return self.grammar.sentence(x)

    def parse(self, y: Any) -> Parse:
        """Encode a tree for training. All methods accept encoded and plain trees."""
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
        """Counts of rules and of pairs (attribute, tag)."""
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
        """The number of wrong and missing brackets, or 0/1."""
        a, b = self.parse(y), self.parse(y_hat)
        if self.loss_name == "zero_one":
            return float(not self.same(a, b))
        both = parses.common_brackets(a.brackets, b.brackets)
        return float(len(a.brackets) - both + self.wrong_cost * (len(b.brackets) - both))

    def loss_step(self, x: Any, y: Any) -> float:
        """The largest common divisor of the costs of brackets."""
        return common_divisor([1.0, self.wrong_cost]) if self.loss_name == "span" else 1.0

    def same(self, y_a: Any, y_b: Any) -> bool:
        """Whether two trees are equal, by their derivations."""
        return bool(np.array_equal(self.parse(y_a).rules, self.parse(y_b).rules))

    def inference(self, x: Any, w: Array) -> Tree:
        """The best tree, or a flat tree if the grammar has none for the sentence (see :meth:`flat`)."""
        search = self._search(x, w, None)
        found = search.read(_NO_EDGE)
        return self.flat(x, w) if found is None else self.tree(x, found)

    def flat(self, x: Any, w: Array) -> Tree:
        """The prediction if the grammar has no tree for the sentence.

        It is one phrase with the most frequent top label over all words, each with its best tag.
        """
        sentence = self.sentence(x)
        scores = parses.word_scores(writable(w), sentence.feature_ptr, sentence.features)
        tags: list[Tree] = []
        for word, lo, hi in zip(sentence.words, sentence.ptr, sentence.ptr[1:], strict=False):
            tag = sentence.tag[lo + int(np.argmax(scores[lo:hi]))]
            tags.append((self.grammar.symbols[tag][1], word))
        return (self.grammar.top_label, *tags)

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Parse:
        """The derivation with the largest loss plus score."""
        truth = self.parse(y)
        search = self._search(x, w, truth.truth if self.loss_name == "span" else None)
        best = search.read(_NO_EDGE)
        if best is None:
            if self._beam(len(self.sentence(x).words)):
                return truth  # the beam found no tree: use the true tree, whose value is 0
            raise ValueError(
                f"the grammar has no tree for {' '.join(self.sentence(x).words)!r}. Read the grammar from "
                "the training trees."
            )
        if self.loss_name == "span" or not self.same(best, truth):
            return best
        edge, cost = parses.second_edge(*search.found)
        # the true tree is the best; the second best has loss 1, and its score is smaller by ``cost``
        return truth if cost >= 1.0 else search.read(edge) or truth

    def k_best(self, x: Any, w: Array, k: int) -> list[tuple[Tree, float]]:
        """The k best trees (fewer if there are fewer) and their scores, best first."""
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
    """A filled chart and its inputs."""

    g: cky.PackedGrammar
    w: Array
    offsets: Ints
    words: cky.Words
    chart: cky.Chart
    longest: int

    @property
    def found(self) -> tuple[cky.PackedGrammar, Array, Ints, cky.Words, cky.Chart]:
        """The parts from which derivations are read."""
        return self[:5]

    def read(self, other: parses.Edge) -> Parse | None:
        """The best derivation, with the edge ``other`` at its node; None if there is none."""
        if parses.best_start(self.g, self.w, self.chart)[0] < 0:
            return None
        n = len(self.words.ptr) - 1
        rules = np.empty(4 * n, dtype=np.int32)
        brackets = np.empty(2 * n * self.longest, dtype=np.int64)
        m, b = parses.trace(*self.found, other, rules, brackets)
        return Parse(rules[:m].copy(), np.sort(brackets[:b]))
