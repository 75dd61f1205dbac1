"""A context-free grammar read from trees, in the form that the CKY algorithm needs.

A tree becomes a derivation in four reversible steps:

* If ``parents``, the symbol of each phrase includes the label of its parent: NP under S and NP under VP are
  different symbols.
* A unary chain such as S -> VP -> VP becomes one rule. A phrase without a chain has the trivial chain.
* A -> B C D E becomes A -> B A|B, A|B -> C A|C, A|C -> D E (binarization). A new symbol includes the last
  ``horizontal`` sisters, or all of them if it is None.
* Words become word classes (:mod:`maxmargin.tasks.parsing.lexicon`).

So trees and derivations correspond one to one. A derivation is the list of its rules in preorder; the counts
of the rules are joint features. The grammar has only rules that occur in the trees, with one exception: a
word of the class of unknown words can have any tag that a rare word has.

If ``attributes``, the counts of pairs (attribute, tag) are joint features too: forms, endings, shapes and
neighbors of words that occur with the tag (:func:`maxmargin.tasks.parsing.lexicon.attributes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.cky import PackedGrammar
from maxmargin.core.vectors import Array
from maxmargin.tasks.parsing.lexicon import Lexicon, attributes
from maxmargin.tasks.parsing.trees import Tree, is_tag, tagged_words

#: ("tag", name), ("phrase", label, parent) or ("part", label, parent, sisters)
Symbol: TypeAlias = tuple[Any, ...]
#: ("start", A), ("chain", (A, .., B)), ("binary", A, B, C) or ("word", tag, class)
Rule: TypeAlias = tuple[Any, ...]
Ints: TypeAlias = npt.NDArray[np.int32]

_KINDS = ("start", "chain", "binary", "word")


class Shape(NamedTuple):
    """How trees are converted to derivations."""

    horizontal: int | None = 1
    parents: bool = True
    attributes: bool = True


def derive(tree: Tree, lexicon: Lexicon, shape: Shape) -> list[Rule]:
    """The rules of a tree, in preorder."""
    rules: list[Rule] = []

    def upper(node: Tree, parent: str) -> Symbol:
        """Append the rules of a node: its chain and everything below. Return its symbol."""
        path = [_symbol(node, parent, shape)]
        while len(node) == 2 and not is_tag(node):
            parent, node = node[0], node[1]
            path.append(_symbol(node, parent, shape))
        if is_tag(node):
            if len(path) > 1:
                rules.append(("chain", tuple(path)))
            rules.append(("word", path[-1], lexicon.number(node[1])))
        else:
            rules.append(("chain", tuple(path)))
            split(path[-1], path[-1], node[0], node[1:], ())
        return path[0]

    def split(top: Symbol, here: Symbol, label: str, children: Tree, before: Tree) -> None:
        """Append the binary rules of the remaining children."""
        place = len(rules)
        rules.append(())
        left = upper(children[0], label)
        if len(children) == 2:
            right = upper(children[1], label)
        else:
            before = (*before, children[0][0])
            memory = before if shape.horizontal is None else before[-shape.horizontal :]
            right = ("part", top[1], top[2], memory if shape.horizontal != 0 else ())
            split(top, right, label, children[1:], before)
        rules[place] = ("binary", here, left, right)

    rules.append(())
    rules[0] = ("start", upper(tree, ""))
    return rules


def _symbol(node: Tree, parent: str, shape: Shape) -> Symbol:
    if is_tag(node):
        return ("tag", node[0])
    return ("phrase", node[0], parent if shape.parents else "")


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """The possible tags of each word, with their lexical rules and features.

    The tags of word i are ``tag[ptr[i]:ptr[i + 1]]``. The features of the x-th tag, including its rule, are
    ``features[feature_ptr[x]:feature_ptr[x + 1]]``.
    """

    words: tuple[str, ...]
    ptr: Ints
    tag: Ints
    rule: Ints
    feature_ptr: Ints
    features: Ints


class Grammar:
    """Symbols, rules and word classes, and their packed form.

    Rules are numbered in the order start rules, chains, binary rules, lexical rules. The number of a rule is
    the index of its joint feature.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        lexicon: Lexicon,
        shape: Shape,
        pairs: Sequence[tuple[str, str]] = (),
        counts: Array | None = None,
    ) -> None:
        self.lexicon, self.shape = lexicon, shape
        self.symbols = _symbols(rules)
        self._number = {symbol: k for k, symbol in enumerate(self.symbols)}
        self.rules = self._ordered(rules)
        self.labels = sorted({s[1] for s in self.symbols if s[0] == "phrase"})
        self.offsets = self._offsets()
        self._feature = {rule: k for k, rule in enumerate(self.rules)}
        self.packed = self._pack()
        #: pairs (attribute, tag), whose features follow those of the rules
        self.pairs = list(pairs)
        self._pair = {pair: len(self.rules) + k for k, pair in enumerate(self.pairs)}
        #: number of occurrences of each rule in the training trees
        self.counts: Array = np.zeros(len(self.rules)) if counts is None else counts

    @classmethod
    def read(cls, trees: Iterable[Tree], shape: Shape, min_count: int) -> Grammar:
        """Read the grammar from trees."""
        trees = list(trees)
        lexicon = Lexicon.of(([word for _, word in tagged_words(t)] for t in trees), min_count)
        counts = Counter(rule for tree in trees for rule in derive(tree, lexicon, shape))
        rare = {r[1] for r in counts if r[0] == "word" and not lexicon.is_word(r[2])}
        if not rare:  # there are no rare words: unknown words can have any tag
            rare = {r[1] for r in counts if r[0] == "word"}
        spare = [("word", tag, len(lexicon) - 1) for tag in sorted(rare)]
        rules = [*counts, *(rule for rule in spare if rule not in counts)]
        pairs = _pairs(trees, min_count) if shape.attributes else []
        grammar = cls(rules, lexicon, shape, pairs)
        grammar.counts = np.array([counts[rule] for rule in grammar.rules], dtype=np.float64)
        return grammar

    @property
    def dim(self) -> int:
        """Number of joint features: rules, then pairs (attribute, tag)."""
        return len(self.rules) + len(self.pairs)

    @property
    def top_label(self) -> str:
        """The most frequent label at the top of a tree."""
        starts = range(self.offsets[1])
        return str(self.rules[max(starts, key=lambda k: (self.counts[k], -k))][1][1])

    def features(self, tree: Tree) -> Ints:
        """The rule numbers of a tree, in preorder."""
        try:
            numbers = [self._feature[rule] for rule in derive(tree, self.lexicon, self.shape)]
        except KeyError as error:
            raise ValueError(
                f"the tree contains a rule that is not in the grammar: {error.args[0]}"
            ) from None
        return np.array(numbers, dtype=np.int32)

    def sentence(self, words: Sequence[str]) -> Sentence:
        """The possible tags of the words of a sentence, with their features."""
        packed, first = self.packed, self.offsets[3]
        ptr, tags, rules = [0], [], []
        feature_ptr, features = [0], []
        seen = attributes(words) if self.pairs else [[]] * len(words)
        for word, own in zip(words, seen, strict=True):
            k = self.lexicon.number(word)
            for r in range(packed.lexical_ptr[k], packed.lexical_ptr[k + 1]):
                tag = packed.lexical_tag[r]
                name = self.symbols[tag][1]
                tags.append(tag)
                rules.append(r)
                features.append(first + r)
                features += [f for a in own if (f := self._pair.get((a, name))) is not None]
                feature_ptr.append(len(features))
            ptr.append(len(tags))
        arrays = (ptr, tags, rules, feature_ptr, features)
        return Sentence(tuple(words), *(_ints(part) for part in arrays))

    def tree(self, numbers: Iterable[int], sentence: Sequence[str]) -> Tree:
        """The tree of a derivation."""
        rules = iter([self.rules[k] for k in numbers])
        words = iter(sentence)
        next(rules)  # the start

        def upper(symbol: Symbol) -> Tree:
            if symbol[0] == "tag":
                next(rules)
                return (symbol[1], next(words))
            path = next(rules)[1]
            bottom = path[-1]
            if bottom[0] == "tag":
                node: Tree = upper(bottom)
            else:
                node = (bottom[1], *children())
            for above in reversed(path[:-1]):
                node = (above[1], node)
            return node

        def children() -> list[Tree]:
            _, _, left, right = next(rules)
            first = upper(left)
            return [first, *(children() if right[0] == "part" else [upper(right)])]

        return upper(self.rules[next(iter(numbers))][1])

    def log_frequencies(self) -> Array:
        """The weights of a probabilistic grammar.

        These are the logarithms of the relative frequencies of rules with the same left-hand side. Rules that
        do not occur in the trees (for unknown words) count 1/2.
        """
        sides = [_left_hand_side(rule) for rule in self.rules]
        total: Counter[Any] = Counter()
        smoothed = np.where(self.counts > 0, self.counts, 0.5)
        for side, count in zip(sides, smoothed, strict=True):
            total[side] += count
        logarithms = np.log(smoothed / np.array([total[side] for side in sides]))
        return np.concatenate([logarithms, np.zeros(len(self.pairs))])

    # -- packing -----------------------------------------------------------------------------------

    def _ordered(self, rules: Sequence[Rule]) -> list[Rule]:
        number = self._number

        def key(rule: Rule) -> tuple[int, ...]:
            kind = _KINDS.index(rule[0])
            if kind == 0:
                return kind, number[rule[1]]
            if kind == 1:
                path = [number[s] for s in rule[1]]
                return kind, *reversed(path)
            if kind == 2:
                parent, left, right = (number[s] for s in rule[1:])
                return kind, left, right, parent
            return kind, rule[2], number[rule[1]]

        return sorted(rules, key=key)

    def _offsets(self) -> tuple[int, int, int, int]:
        """The first rule of each kind."""
        kinds = [_KINDS.index(rule[0]) for rule in self.rules]
        first = np.searchsorted(kinds, np.arange(4))
        return int(first[0]), int(first[1]), int(first[2]), int(first[3])

    def _pack(self) -> PackedGrammar:
        number = self._number
        kinds = [symbol[0] for symbol in self.symbols]
        n_phrases, n_left = kinds.count("phrase"), len(kinds) - kinds.count("part")
        label = {name: k for k, name in enumerate(self.labels)}
        at = self.offsets
        starts, chains = self.rules[: at[1]], self.rules[at[1] : at[2]]
        binary, words = self.rules[at[2] : at[3]], self.rules[at[3] :]
        bottoms = [number[path[-1]] for _, path in chains]
        tops = [number[path[0]] for _, path in chains]
        paths = [[label[s[1]] for s in path if s[0] == "phrase"] for _, path in chains]
        children = [(number[left], number[right]) for _, _, left, right in binary]
        pairs = sorted(set(children))
        place = {pair: k for k, pair in enumerate(pairs)}
        parents = _ints([number[rule[1]] for rule in binary])
        return PackedGrammar(
            n_phrases=n_phrases,
            n_left=n_left,
            n_symbols=len(self.symbols),
            n_labels=len(self.labels),
            start_symbol=_ints([number[rule[1]] for rule in starts]),
            chain_ptr=_pointers(bottoms, n_left),
            chain_top=_ints(tops),
            path_ptr=_ints(np.cumsum([0, *map(len, paths)])),
            path_label=_ints([k for path in paths for k in path]),
            pair_ptr=_pointers([left for left, _ in pairs], n_left),
            pair_right=_ints([right for _, right in pairs]),
            rule_ptr=_pointers([place[pair] for pair in children], len(pairs)),
            rule_parent=parents,
            rule_pair=_ints([place[pair] for pair in children]),
            rule_left=_ints([left for left, _ in children]),
            parent_ptr=_pointers(sorted(parents), len(self.symbols)),
            parent_rule=_ints(np.argsort(parents, kind="stable")),
            lexical_ptr=_pointers([rule[2] for rule in words], len(self.lexicon)),
            lexical_tag=_ints([number[rule[1]] for rule in words]),
            top_ptr=_pointers(sorted(tops), n_phrases),
            top_chain=_ints(np.argsort(tops, kind="stable")),
            chain_bottom=_ints(bottoms),
        )


def _pairs(trees: Sequence[Tree], min_count: int) -> list[tuple[str, str]]:
    """All pairs (attribute, tag) in the trees whose attribute occurs at least ``min_count`` times."""
    counts: Counter[str] = Counter()
    found: dict[tuple[str, str], None] = {}
    for tree in trees:
        tagged = list(tagged_words(tree))
        for (tag, _), own in zip(tagged, attributes([word for _, word in tagged]), strict=True):
            counts.update(own)
            found.update(((a, tag), None) for a in own)
    return sorted(pair for pair in found if counts[pair[0]] >= min_count)


def _symbols(rules: Iterable[Rule]) -> list[Symbol]:
    """All symbols: phrases, tags, parts."""
    found: set[Symbol] = set()
    for rule in rules:
        if rule[0] == "chain":
            found.update(rule[1])
        elif rule[0] == "word":
            found.add(rule[1])
        else:
            found.update(rule[1:])
    order = ("phrase", "tag", "part")
    return sorted(found, key=lambda symbol: (order.index(symbol[0]), symbol[1:]))


def _left_hand_side(rule: Rule) -> Any:
    kind = rule[0]
    if kind == "start":
        return kind
    return kind, (rule[1][0] if kind == "chain" else rule[1])


def _ints(values: Any) -> Ints:
    return np.array(values, dtype=np.int32).reshape(-1)


def _pointers(groups: Sequence[int], n: int) -> Ints:
    """Boundaries of the groups 0 .. n-1 in a sorted sequence of group numbers."""
    return np.searchsorted(np.asarray(groups, dtype=np.int64), np.arange(n + 1)).astype(np.int32)
