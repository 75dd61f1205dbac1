"""Derivations from a CKY chart: the best, the second best, and all ways to build one node.

A derivation is stored as its rules (features) in preorder. Nodes are (level, i, j), where ``level`` is UPPER
or LOWER: a span occurs at most once at each level of a derivation.

The second-best derivation differs from the best at one node v, where it takes the second-best edge, with best
derivations below: so its score is best - min over v of [value(v) - second-best edge of v].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.compiled.cky import Chart, CodeArray, FloatArray, IntArray, PackedGrammar, Words
from maxmargin.compiled.jit import entry, leaf

ROOT, UPPER, LOWER = 0, 1, 2


class Edge(NamedTuple):
    """One way to build a node: a start, a chain, or a binary rule with its split. ``level`` is -1 for
    none."""

    level: int
    i: int
    j: int
    rule: int
    split: int


@leaf
def push(stack: CodeArray, depth: int, level: int, i: int, j: int, a: int) -> int:
    """Push a node onto the stack; returns the new depth."""
    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = level, i, j, a
    return depth + 1


@leaf
def note(
    found: CodeArray, price: float, level: int, i: int, j: int, rule: int, split: int
) -> float:
    """Store an edge; returns its cost."""
    found[0], found[1], found[2], found[3], found[4] = level, i, j, rule, split
    return price


@entry
def best_start(g: PackedGrammar, w: FloatArray, chart: Chart) -> tuple[int, float]:
    """The start of the best derivation (-1: there is none) and its score."""
    n = chart.low.shape[0]
    best, at = -np.inf, -1
    for s in range(len(g.start_symbol)):
        value = chart.R[n, g.start_symbol[s], 0] + w[s]
        if value > best:
            best, at = value, s
    return at, best


@leaf
def find_rule(
    g: PackedGrammar, w_rule: FloatArray, chart: Chart, i: int, j: int, a: int
) -> tuple[int, int]:
    """The binary rule and the split that attain a lower score."""
    wanted = chart.low[i, j, a] if a < g.n_left else chart.R[j, a, i]
    best, rule, split = -np.inf, -1, -1
    for x in range(g.parent_ptr[a], g.parent_ptr[a + 1]):
        r = g.parent_rule[x]
        left, right = chart.L[i, g.rule_left[r]], chart.R[j, g.pair_right[g.rule_pair[r]]]
        for k in range(i + 1, j):
            value = left[k] + right[k] + w_rule[r]
            if value > best:
                best, rule, split = value, r, k
                if value >= wanted:
                    return rule, split
    return rule, split


@entry
def find_word(words: Words, i: int, tag: int) -> int:
    """The index of a tag of word i among the tags of the sentence."""
    for x in range(words.ptr[i], words.ptr[i + 1]):
        if words.tag[x] == tag:
            return x
    return -1


@entry
def word_scores(w: FloatArray, ptr: IntArray, features: IntArray) -> FloatArray:
    """Sums of the weights of the features of each tag."""
    out = np.zeros(len(ptr) - 1)
    for x in range(len(out)):
        for f in range(ptr[x], ptr[x + 1]):
            out[x] += w[features[f]]
    return out


@entry
def trace(
    g: PackedGrammar,
    w: FloatArray,
    offsets: IntArray,
    words: Words,
    chart: Chart,
    other: Edge,
    rules: IntArray,
    brackets: CodeArray,
) -> tuple[int, int]:
    """Write the best derivation, with ``other`` taken at its node, and its brackets; return their numbers.

    A bracket (label, i, j) is encoded as ``(label * (n + 1) + i) * (n + 1) + j``.
    """
    n = len(words.ptr) - 1
    w_rule = w[offsets[2] : offsets[3]]
    start = other.rule if other.level == ROOT else best_start(g, w, chart)[0]
    stack = np.empty((2 * n + 2, 4), dtype=np.int64)
    rules[0] = start
    n_rules, n_brackets = 1, 0
    depth = push(stack, 0, UPPER, 0, n, g.start_symbol[start])
    while depth > 0:
        depth -= 1
        level, i, j, a = stack[depth]
        taken = other.level == level and other.i == i and other.j == j
        if level == UPPER and a < g.n_phrases:
            c = other.rule if taken else chart.chain[i, j, a]
            rules[n_rules] = offsets[1] + c
            n_rules += 1
            for x in range(g.path_ptr[c], g.path_ptr[c + 1]):
                brackets[n_brackets] = (np.int64(g.path_label[x]) * (n + 1) + i) * (n + 1) + j
                n_brackets += 1
            depth = push(stack, depth, LOWER, i, j, g.chain_bottom[c])
        elif a >= g.n_phrases and a < g.n_left:
            rules[n_rules] = offsets[3] + words.rule[find_word(words, i, a)]
            n_rules += 1
        else:
            # Symbols created by binarization are on both levels; their edges belong to the lower one.
            taken = other.level == LOWER and other.i == i and other.j == j
            r, k = (other.rule, other.split) if taken else find_rule(g, w_rule, chart, i, j, a)
            rules[n_rules] = offsets[2] + r
            n_rules += 1
            depth = push(stack, depth, UPPER, k, j, g.pair_right[g.rule_pair[r]])
            depth = push(stack, depth, UPPER, i, k, g.rule_left[r])
    return n_rules, n_brackets


@entry
def second_edge(
    g: PackedGrammar, w: FloatArray, offsets: IntArray, words: Words, chart: Chart
) -> tuple[Edge, float]:
    """The edge at which the second-best derivation leaves the best one, and its cost (inf: none).

    For charts filled without a loss.
    """
    n = len(words.ptr) - 1
    w_chain, w_rule = w[offsets[1] : offsets[2]], w[offsets[2] : offsets[3]]
    start, best = best_start(g, w, chart)
    found, cost = np.full(5, -1, dtype=np.int64), np.inf
    for s in range(len(g.start_symbol)):
        price = best - (chart.R[n, g.start_symbol[s], 0] + w[s])
        if s != start and price < cost:
            cost = note(found, price, ROOT, 0, n, s, 0)
    stack = np.empty((2 * n + 2, 4), dtype=np.int64)
    depth = push(stack, 0, UPPER, 0, n, g.start_symbol[start])
    while depth > 0:
        depth -= 1
        level, i, j, a = stack[depth]
        if level == UPPER and a < g.n_phrases:
            chosen = chart.chain[i, j, a]
            here = chart.R[j, a, i]
            for x in range(g.top_ptr[a], g.top_ptr[a + 1]):
                c = g.top_chain[x]
                price = here - (chart.low[i, j, g.chain_bottom[c]] + w_chain[c])
                if c != chosen and price < cost:
                    cost = note(found, price, UPPER, i, j, c, 0)
            depth = push(stack, depth, LOWER, i, j, g.chain_bottom[chosen])
        elif a < g.n_phrases or a >= g.n_left:
            here = chart.low[i, j, a] if a < g.n_left else chart.R[j, a, i]
            rule, split = find_rule(g, w_rule, chart, i, j, a)
            for x in range(g.parent_ptr[a], g.parent_ptr[a + 1]):
                r = g.parent_rule[x]
                left, right = chart.L[i, g.rule_left[r]], chart.R[j, g.pair_right[g.rule_pair[r]]]
                for k in range(i + 1, j):
                    price = here - (left[k] + right[k] + w_rule[r])
                    if price < cost and not (r == rule and k == split):
                        cost = note(found, price, LOWER, i, j, r, k)
            depth = push(stack, depth, UPPER, split, j, g.pair_right[g.rule_pair[rule]])
            depth = push(stack, depth, UPPER, i, split, g.rule_left[rule])
    return Edge(found[0], found[1], found[2], found[3], found[4]), cost


@entry
def common_brackets(a: CodeArray, b: CodeArray) -> int:
    """Number of common entries of two sorted lists, with multiplicity."""
    x, y, both = 0, 0, 0
    while x < len(a) and y < len(b):
        if a[x] == b[y]:
            both += 1
            x += 1
            y += 1
        elif a[x] < b[y]:
            x += 1
        else:
            y += 1
    return both


@entry
def lower_edges(
    g: PackedGrammar, w_rule: FloatArray, chart: Chart, i: int, j: int, a: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """All binary rules and splits of a lower node: scores, rules, splits."""
    size = (g.parent_ptr[a + 1] - g.parent_ptr[a]) * (j - i - 1)
    values = np.empty(size)
    rules, splits = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    m = 0
    for x in range(g.parent_ptr[a], g.parent_ptr[a + 1]):
        r = g.parent_rule[x]
        left, right = chart.L[i, g.rule_left[r]], chart.R[j, g.pair_right[g.rule_pair[r]]]
        for k in range(i + 1, j):
            value = left[k] + right[k] + w_rule[r]
            if value > -np.inf:
                values[m], rules[m], splits[m] = value, r, k
                m += 1
    return values[:m], rules[:m], splits[:m]


@entry
def count_features(
    rules: IntArray,
    first_word: int,
    ptr: IntArray,
    rule: IntArray,
    feature_ptr: IntArray,
    features: IntArray,
) -> IntArray:
    """The features of a derivation, with repetitions: its rules, and the features of the tags of its words
    (see :class:`maxmargin.tasks.parsing.grammar.Sentence`) in place of their lexical rules."""
    out = np.empty(len(rules) + len(features), dtype=np.int32)
    m, i = 0, 0
    for r in rules:
        if r < first_word:
            out[m] = r
            m += 1
            continue
        for x in range(ptr[i], ptr[i + 1]):
            if first_word + rule[x] == r:
                for f in range(feature_ptr[x], feature_ptr[x + 1]):
                    out[m] = features[f]
                    m += 1
        i += 1
    return out[:m]
