"""CKY: the best derivation of a sentence, for a packed grammar.

A derivation gives every span (i, j) that it uses an *upper* and a *lower* symbol, joined by a unary chain:

    lower(i, j, A)  =  max over A -> B C and i < k < j   w(A -> B C) + upper(i, k, B) + upper(k, j, C)
                       score of tag -> word  for spans of one word
    upper(i, j, A)  =  max over chains A = c_0 -> .. -> c_m   w(chain) + loss(chain, i, j) + lower(i, j, c_m)
    best            =  max over A   w(start -> A) + upper(0, n, A)

There is at most one chain per span, and only chains of the grammar (including the trivial one, A alone), so
no closure and no cycles. For tags and for symbols created by binarization, upper and lower are the same.

loss(chain, i, j) = c #labels of the chain - (1 + c) #labels also in the true multiset of (i, j). With the
number of true brackets added, the sum over a derivation is c times the number of wrong brackets plus the
number of missing ones. All labels of a span come from one chain, so repeated labels are counted exactly.
Without a true tree there is no loss.

The order of computation makes this fast. For a fixed end j the starts i descend. Upper scores of left
children are stored in rows L[i, B, k] over their ends k, those of right children in rows R[j, C, k] over
their starts k, so the maximum over the splits k is one vectorized pass over two contiguous rows, without
branches. Rules with the same two children share it. The finite range of each row is stored. Binarization
creates new symbols on the right only, so L is small. The rule and split of a lower score are not stored:
:mod:`maxmargin.compiled.parses` recomputes them along the best derivation, as a bit-identical sum. Measured
on sentences of 40 words and 5,800 binary rules: 14 ms, 2.5 ns per rule and span.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, inlined, inlined_maxima, leaf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
CodeArray = npt.NDArray[np.int64]

#: score of a failed search
LOWEST = -np.inf


class PackedGrammar(NamedTuple):
    """A grammar in flat arrays.

    Symbols: phrases 0 .. n_phrases-1, tags up to n_left-1, then symbols created by binarization. Features are
    numbered in the order starts, chains, binary rules, lexical rules; the feature of a rule is its index plus
    the offset of its kind. Binary rules are sorted by (left, right) child, *pairs*; pairs are sorted by left
    child, chains by their bottom symbol.
    """

    n_phrases: int
    n_left: int
    n_symbols: int
    n_labels: int
    start_symbol: IntArray
    chain_ptr: IntArray  # by bottom symbol (phrases and tags)
    chain_top: IntArray
    path_ptr: IntArray  # by chain
    path_label: IntArray  # labels that count as brackets, top first
    pair_ptr: IntArray  # by left child
    pair_right: IntArray
    rule_ptr: IntArray  # by pair
    rule_parent: IntArray
    rule_pair: IntArray
    rule_left: IntArray
    parent_ptr: IntArray  # by parent symbol: rules in parent_rule
    parent_rule: IntArray
    lexical_ptr: IntArray  # by class of words
    lexical_tag: IntArray
    top_ptr: IntArray  # by top phrase: chains in top_chain
    top_chain: IntArray
    chain_bottom: IntArray


class Words(NamedTuple):
    """A sentence: the possible tags of word i are ``tag[ptr[i]:ptr[i + 1]]``, with their lexical rules and
    scores."""

    ptr: IntArray
    tag: IntArray
    rule: IntArray
    score: FloatArray


class Truth(NamedTuple):
    """The brackets of a true tree by span: ``place[i, j]`` is -1 or an index g, whose labels are
    ``label[ptr[g]:ptr[g + 1]]``. A wrong bracket costs ``wrong``, a missing one 1. ``place`` of shape (0, 0)
    means that there is no true tree and no loss."""

    place: IntArray
    ptr: IntArray
    label: IntArray
    wrong: float


class Chart(NamedTuple):
    """The scores computed by a search."""

    L: FloatArray  # (n, n_left, n + 1): upper scores by start, symbol, end
    R: FloatArray  # (n + 1, n_symbols, n + 1): upper scores by end, symbol, start
    low: FloatArray  # (n, n + 1, n_left): lower scores of phrases and tags
    chain: IntArray  # (n, n + 1, n_phrases): best chain of an upper phrase


@entry
def new_chart(n: int, n_phrases: int, n_left: int, n_symbols: int) -> Chart:
    """An empty chart for n words."""
    return Chart(
        np.full((n, n_left, n + 1), -np.inf),
        np.full((n + 1, n_symbols, n + 1), -np.inf),
        np.full((n, n + 1, n_left), -np.inf),
        np.empty((n, n + 1, n_phrases), dtype=np.int32),
    )


@entry
def fill(
    g: PackedGrammar,
    w: FloatArray,
    offsets: IntArray,
    words: Words,
    truth: Truth,
    beam: int,
    chart: Chart,
) -> None:
    """Compute all upper and lower scores of a sentence.

    With ``beam`` > 0, keep only that many symbols per span (of two words or more), those with the largest
    scores. This is faster, but may miss the best derivation.
    """
    n = len(words.ptr) - 1
    w_chain, w_rule = w[offsets[1] : offsets[2]], w[offsets[2] : offsets[3]]
    low = np.empty(g.n_symbols)
    up = np.empty(g.n_phrases)
    # ranges of finite entries: L[i, B] in [left_lo, left_hi), R[j, C] in [right_lo, right_hi)
    left_lo = np.full((n, g.n_left), n + 1, dtype=np.int32)
    left_hi = np.zeros((n, g.n_left), dtype=np.int32)
    right_lo = np.empty(g.n_symbols, dtype=np.int32)
    right_hi = np.empty(g.n_symbols, dtype=np.int32)
    spare = np.empty(g.n_symbols)
    charge = np.empty(len(g.chain_top))
    with_loss = len(truth.place) > 0
    for c in range(len(charge)):
        charge[c] = truth.wrong * (g.path_ptr[c + 1] - g.path_ptr[c]) if with_loss else 0.0
    for j in range(1, n + 1):
        R = chart.R[j]
        right_lo[:] = n + 1
        right_hi[:] = 0
        for i in range(j - 1, -1, -1):
            low[:] = -np.inf
            if i == j - 1:
                for x in range(words.ptr[i], words.ptr[i + 1]):
                    low[words.tag[x]] = words.score[x]
            else:
                combine(g, w_rule, chart.L[i], R, left_lo[i], left_hi[i], right_lo, right_hi, low)
            chart.low[i, j, :] = low[: g.n_left]
            if with_loss and truth.place[i, j] >= 0:
                spared(g, truth, truth.place[i, j], charge, -1.0 - truth.wrong)
            climb(g, w_chain, charge, low, up, chart.chain[i, j])
            if with_loss and truth.place[i, j] >= 0:
                spared(g, truth, truth.place[i, j], charge, 1.0 + truth.wrong)
            low[: g.n_phrases] = up
            least = keep_best(low, beam, spare) if beam > 0 and i < j - 1 else -np.inf
            for s in range(g.n_symbols):
                value = low[s]
                if value > -np.inf and value >= least:
                    R[s, i] = value
                    right_lo[s] = i
                    right_hi[s] = max(right_hi[s], i + 1)
                    if s < g.n_left:
                        chart.L[i, s, j] = value
                        left_lo[i, s] = min(left_lo[i, s], j)
                        left_hi[i, s] = j + 1


@inlined_maxima
def combine(
    g: PackedGrammar,
    w_rule: FloatArray,
    L: FloatArray,
    R: FloatArray,
    left_lo: IntArray,
    left_hi: IntArray,
    right_lo: IntArray,
    right_hi: IntArray,
    low: FloatArray,
) -> None:
    """Lower scores of one span from all its splits."""
    for b in range(g.n_left):
        lo_b, hi_b = left_lo[b], left_hi[b]
        if lo_b >= hi_b:
            continue
        left = L[b]
        for p in range(g.pair_ptr[b], g.pair_ptr[b + 1]):
            c = np.uint64(g.pair_right[p])
            lo, hi = max(lo_b, right_lo[c]), min(hi_b, right_hi[c])
            if lo >= hi:
                continue
            right = R[c]
            best = -np.inf
            for k in range(lo, hi):
                value = left[np.uint64(k)] + right[np.uint64(k)]
                best = value if value > best else best
            if best == -np.inf:
                continue
            for r in range(g.rule_ptr[p], g.rule_ptr[p + 1]):
                a = np.uint64(g.rule_parent[r])
                value = best + w_rule[r]
                low[a] = value if value > low[a] else low[a]  # no branch: it would be mispredicted


@inlined
def climb(
    g: PackedGrammar,
    w_chain: FloatArray,
    charge: FloatArray,
    low: FloatArray,
    up: FloatArray,
    back: IntArray,
) -> None:
    """Upper scores of phrases from the lower scores, by chains."""
    up[:] = -np.inf
    for b in range(g.n_left):
        if low[b] == -np.inf:
            continue
        for c in range(g.chain_ptr[b], g.chain_ptr[b + 1]):
            value = low[b] + w_chain[c] + charge[c]
            a = g.chain_top[c]
            if value > up[a]:
                up[a] = value
                back[a] = c


@leaf
def keep_best(scores: FloatArray, beam: int, spare: FloatArray) -> float:
    """The smallest of the ``beam`` largest scores."""
    m = 0
    for s in range(len(scores)):
        if scores[s] > -np.inf:
            spare[m] = scores[s]
            m += 1
    if m <= beam:
        return -np.inf
    return np.partition(spare[:m], m - beam)[m - beam]


@leaf
def spared(g: PackedGrammar, truth: Truth, place: int, charge: FloatArray, bonus: float) -> None:
    """Add ``bonus`` to the charge of every chain for each of its labels that the true tree has there."""
    lo, hi = truth.ptr[place], truth.ptr[place + 1]
    for c in range(len(charge)):
        first, last = g.path_ptr[c], g.path_ptr[c + 1]
        for x in range(first, last):
            label, rank, there = g.path_label[x], 0, 0
            for y in range(first, x + 1):
                rank += g.path_label[y] == label
            for y in range(lo, hi):
                there += truth.label[y] == label
            if rank <= there:  # the rank-th copy of the label is in the true tree
                charge[c] += bonus
