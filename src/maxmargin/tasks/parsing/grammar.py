"""A context-free grammar read from trees, in the form that CKY wants.

A tree becomes a derivation in four steps, all of which can be undone:

* with ``parents``, the label of every phrase gets its parent's: NP under S is another symbol than NP
  under VP;
* unary chains S -> VP -> VP with one child each are one rule; a phrase without chain has the trivial one;
* A -> B C D E becomes A -> B A|B, A|B -> C A|C, A|C -> D E: a new symbol remembers the last
  ``horizontal`` sisters (None: all of them);
* words become classes of words (:mod:`maxmargin.tasks.parsing.lexicon`).

So tree and derivation determine each other: the derivation is the list of its rules in preorder, the
rules' counts are joint features, and nothing is in the grammar that was not seen, except that words of
the class of all unknown words may have any tag that a rare word had.

With ``attributes`` the counts of (attribute, tag) are joint features too: forms, endings, shapes and
neighbors of words that occurred with the tag (:func:`maxmargin.tasks.parsing.lexicon.attributes`).
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
    """How trees become derivations."""

    horizontal: int | None = 1
    parents: bool = True
    attributes: bool = True


def derive(tree: Tree, lexicon: Lexicon, shape: Shape) -> list[Rule]:
    """The rules of a tree, in preorder."""
    rules: list[Rule] = []

    def upper(node: Tree, parent: str) -> Symbol:
        """Emit a node's chain and what is below it; return its symbol."""
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
        """Emit the binary rules of the children that are left."""
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
    """The tags that word i may have: ``tag[ptr[i]:ptr[i + 1]]``, with their lexical rules; the features of
    the x-th tag are ``features[feature_ptr[x]:feature_ptr[x + 1]]``, its rule among them."""

    words: tuple[str, ...]
    ptr: Ints
    tag: Ints
    rule: Ints
    feature_ptr: Ints
    features: Ints


class Grammar:
    """Symbols, rules and word classes, and their packed form.

    Rules are numbered: starts, chains, binary rules, lexical rules; the numbers are joint features.
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
        #: (attribute, tag) pairs, features after the rules
        self.pairs = list(pairs)
        self._pair = {pair: len(self.rules) + k for k, pair in enumerate(self.pairs)}
        #: how often each rule occurs in the trees the grammar was read from
        self.counts: Array = np.zeros(len(self.rules)) if counts is None else counts

    @classmethod
    def read(cls, trees: Iterable[Tree], shape: Shape, min_count: int) -> Grammar:
        """The grammar of these trees."""
        trees = list(trees)
        lexicon = Lexicon.of(([word for _, word in tagged_words(t)] for t in trees), min_count)
        counts = Counter(rule for tree in trees for rule in derive(tree, lexicon, shape))
        rare = {r[1] for r in counts if r[0] == "word" and not lexicon.is_word(r[2])}
        if not rare:  # no word is rare: an unknown one may have any tag
            rare = {r[1] for r in counts if r[0] == "word"}
        spare = [("word", tag, len(lexicon) - 1) for tag in sorted(rare)]
        rules = [*counts, *(rule for rule in spare if rule not in counts)]
        pairs = _pairs(trees, min_count) if shape.attributes else []
        grammar = cls(rules, lexicon, shape, pairs)
        grammar.counts = np.array([counts[rule] for rule in grammar.rules], dtype=np.float64)
        return grammar

    @property
    def dim(self) -> int:
        """Number of joint features: rules, then attributes with tags."""
        return len(self.rules) + len(self.pairs)

    @property
    def top_label(self) -> str:
        """The label most often seen at the top of a tree."""
        starts = range(self.offsets[1])
        return str(self.rules[max(starts, key=lambda k: (self.counts[k], -k))][1][1])

    def features(self, tree: Tree) -> Ints:
        """The numbers of a tree's rules, in preorder."""
        try:
            numbers = [self._feature[rule] for rule in derive(tree, self.lexicon, self.shape)]
        except KeyError as error:
            raise ValueError(
                f"the tree uses a rule that the grammar does not have: {error.args[0]}"
            ) from None
        return np.array(numbers, dtype=np.int32)

    def sentence(self, words: Sequence[str]) -> Sentence:
        """The tags a sentence's words may have, with their features."""
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
        """Logarithms of the rules' relative frequencies among those of the same left-hand side: the
        weights of a probabilistic grammar. Rules never seen (for unknown words only) get half a count."""
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
    """(attribute, tag) pairs seen, of attributes seen at least ``min_count`` times."""
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
    """Boundaries of the groups 0 .. n-1 in a sorted list of group numbers."""
    return np.searchsorted(np.asarray(groups, dtype=np.int64), np.arange(n + 1)).astype(np.int32)
