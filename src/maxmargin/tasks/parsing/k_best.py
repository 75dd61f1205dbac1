"""The k best derivations of a CKY chart, computed lazily (algorithm 3 of Huang and Chiang).

Every node of the chart keeps a list of its best derivations so far. A derivation of a node consists of an
edge and a derivation of each child of the edge. The candidates after a derivation are those that use the next
derivation of one child. So a node computes only as many derivations as are needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from maxmargin.compiled.cky import Chart, Words
from maxmargin.compiled.parses import find_word, lower_edges
from maxmargin.core.vectors import Array
from maxmargin.tasks.parsing.grammar import Grammar

#: (whether above unary chains, i, j, symbol)
Node: TypeAlias = tuple[bool, int, int, int]
_ROOT: Node = (True, -1, -1, -1)


class _Hyperedge(NamedTuple):
    """One way to build a node: the rule, its score, and the child nodes."""

    rule: int
    score: float
    children: tuple[Node, ...]


class _Derivation(NamedTuple):
    """An edge and the rank of the derivation of each child (0 is the best). Tuples sort best first."""

    cost: float
    order: int
    ranks: tuple[int, ...]


class KBest:
    """Derivations in descending order of score."""

    def __init__(self, grammar: Grammar, w: Array, words: Words, chart: Chart) -> None:
        self._g, self._offsets = grammar.packed, grammar.offsets
        self._w, self._words, self._chart = w, words, chart
        self._edges: dict[Node, list[_Hyperedge]] = {}
        self._heap: dict[Node, list[_Derivation]] = {}
        self._seen: dict[Node, set[tuple[int, tuple[int, ...]]]] = {}
        self._done: dict[Node, list[_Derivation]] = {}

    def derivations(self, k: int) -> list[tuple[float, list[int]]]:
        """(score, rules in preorder) of at most k derivations."""
        out: list[tuple[float, list[int]]] = []
        while len(out) < k and self._has(_ROOT, len(out)):
            rank = len(out)
            out.append((-self._done[_ROOT][rank].cost, list(self._rules(_ROOT, rank))))
        return out

    def _rules(self, node: Node, rank: int) -> Iterator[int]:
        self._has(node, rank)  # of a best derivation, only the score may be known so far
        derivation = self._done[node][rank]
        edge = self._edges[node][derivation.order]
        yield edge.rule
        for child, r in zip(edge.children, derivation.ranks, strict=True):
            yield from self._rules(child, r)

    def _has(self, node: Node, rank: int) -> bool:
        """Compute the derivations of a node up to ``rank``; False if it has fewer."""
        if node not in self._edges:
            self._open(node)
        done, heap = self._done[node], self._heap[node]
        while len(done) <= rank:
            if done:
                self._follow(node, done[-1])
            if not heap:
                return False
            done.append(heapq.heappop(heap))
        return True

    def _open(self, node: Node) -> None:
        edges = [edge for edge in self._all_edges(node) if edge.score > float("-inf")]
        self._edges[node], self._done[node] = edges, []
        self._heap[node], self._seen[node] = [], set()
        for order, edge in enumerate(edges):
            self._push(node, order, (0,) * len(edge.children))

    def _follow(self, node: Node, last: _Derivation) -> None:
        ranks = last.ranks
        for place in range(len(ranks)):
            self._push(node, last.order, (*ranks[:place], ranks[place] + 1, *ranks[place + 1 :]))

    def _push(self, node: Node, order: int, ranks: tuple[int, ...]) -> None:
        if (order, ranks) in self._seen[node]:
            return
        self._seen[node].add((order, ranks))
        edge = self._edges[node][order]
        cost = -edge.score
        for child, rank in zip(edge.children, ranks, strict=True):
            if rank == 0:
                cost -= self._best(child)  # the chart has it, so the child need not be expanded
            elif self._has(child, rank):
                cost += self._done[child][rank].cost
            else:
                return
        if cost < float("inf"):
            heapq.heappush(self._heap[node], _Derivation(cost, order, ranks))

    def _best(self, node: Node) -> float:
        upper, i, j, a = node
        if upper or a >= self._g.n_left:
            return float(self._chart.R[j, a, i])
        return float(self._chart.low[i, j, a])

    def _all_edges(self, node: Node) -> Iterator[_Hyperedge]:
        g, w, at = self._g, self._w, self._offsets
        upper, i, j, a = node
        if node == _ROOT:
            for s, symbol in enumerate(g.start_symbol):
                yield _Hyperedge(
                    s, float(w[s]), ((True, 0, len(self._words.ptr) - 1, int(symbol)),)
                )
        elif g.n_phrases <= a < g.n_left:
            x = find_word(self._words, i, a)
            yield _Hyperedge(at[3] + int(self._words.rule[x]), float(self._words.score[x]), ())
        elif upper and a < g.n_phrases:
            for c in g.top_chain[g.top_ptr[a] : g.top_ptr[a + 1]]:
                rule = at[1] + int(c)
                yield _Hyperedge(rule, float(w[rule]), ((False, i, j, int(g.chain_bottom[c])),))
        else:
            _, rules, splits = lower_edges(g, w[at[2] : at[3]], self._chart, i, j, a)
            for r, k in zip(rules.tolist(), splits.tolist(), strict=True):
                children = (
                    (True, i, k, int(g.rule_left[r])),
                    (True, k, j, int(g.pair_right[g.rule_pair[r]])),
                )
                yield _Hyperedge(at[2] + r, float(w[at[2] + r]), children)
