"""The argmaxes of graph labeling: which method finds the best labeling of given scores.

``exact``     forests by dynamic programming; two labels and submodular edges by a minimum cut; everything
              else by messages, whose bound often meets their labeling; where it does not, by branching
              with these bounds, and if that takes too long by an integer program over the labels
              that the bound leaves possible
``messages``  the labeling and the bound that messages give, met or not
``relaxed``   the optimum of the linear relaxation

Each answers with what it found and an upper bound of the score of all labelings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.compiled.max_flow import flow_arcs, max_flow
from maxmargin.compiled.messages import pass_messages, score_of
from maxmargin.compiled.search import search
from maxmargin.compiled.tree import best_of_forest
from maxmargin.core.vectors import IntArray
from maxmargin.tasks.graphs.inputs import Graph
from maxmargin.tasks.graphs.programs import Relaxed, Scores, best_integer, best_relaxed

#: two sums of scores that differ by less than this share of their terms are equal
ROUNDING = 1e-11
MAX_PASSES = 200
#: messages stop when ten passes take off less than this share of what is open
PROGRESS = 0.02
#: subproblems that a search may look at before HiGHS is asked
MAX_SUBPROBLEMS = 500


class Answer(NamedTuple):
    """A labeling, its score, and a bound of the score of every labeling."""

    y: Any
    value: float
    upper: float


def size_of(scores: Scores) -> float:
    """The size of the terms that a score sums: what rounding errors scale with."""
    nodes = np.abs(scores.nodes).max(axis=1, initial=0.0).sum()
    pairs = np.abs(scores.pairs).max(axis=(1, 2), initial=0.0).sum()
    return float(nodes + pairs)


def exact(graph: Graph, scores: Scores) -> Answer:
    """The best labeling. ``upper`` is above ``value`` only by what HiGHS cannot tell apart."""
    if graph.is_forest:
        return on_forest(graph, scores)
    room = ROUNDING * size_of(scores)
    if scores.nodes.shape[1] == 2:
        strength = cut_strength(scores)
        if (strength >= -room).all():
            return by_cut(scores, np.maximum(strength, 0.0))
    state = _State(graph, scores)
    found = _pass(graph, scores, state, room)
    if found.upper - found.value <= room:
        return Answer(found.y, found.value, found.value)
    best, done = search(
        *scores,
        graph.first,
        graph.incident,
        state.to_lo,
        state.to_hi,
        found.y,
        found.value,
        state.alive,
        MAX_SUBPROBLEMS,
        room,
    )
    if done:
        return Answer(found.y, best, best)
    found = Answer(found.y, best, found.upper)
    labels, bound = best_integer(scores, state.alive)
    value = _score(scores, labels)
    if value < found.value:  # HiGHS stopped just short of it
        labels, value = found.y, found.value
    return Answer(labels, value, max(value, min(bound, found.upper)))


def messages(graph: Graph, scores: Scores) -> Answer:
    """A good labeling and a bound, in time linear in the graph."""
    if graph.is_forest:
        return on_forest(graph, scores)
    room = ROUNDING * size_of(scores)
    return _pass(graph, scores, _State(graph, scores), room)


def relaxed(graph: Graph, scores: Scores) -> Answer:
    """The optimum of the relaxation: a labeling where messages prove one optimal, or else HiGHS's vertex."""
    room = ROUNDING * size_of(scores)
    found = messages(graph, scores)
    if found.upper - found.value <= room:
        return Answer(found.y, found.value, found.value)
    nodes, pairs, bound = best_relaxed(scores)
    value = float((nodes * scores.nodes).sum() + (pairs * scores.pairs).sum())
    labels = nodes.argmax(axis=1)
    if value - _score(scores, labels) <= room:
        return Answer(labels, _score(scores, labels), max(value, min(bound, found.upper)))
    if graph.flipped.any():
        pairs[graph.flipped] = pairs[graph.flipped].transpose(0, 2, 1)
    return Answer(Relaxed(nodes, pairs), value, max(value, min(bound, found.upper)))


def on_forest(graph: Graph, scores: Scores) -> Answer:
    """The best labeling of a graph without cycles."""
    labels = np.zeros(graph.n_nodes, dtype=np.int64)
    value = best_of_forest(*scores, graph.order, graph.up, labels)
    return Answer(labels, value, value)


def cut_strength(scores: Scores) -> Any:
    """Per edge, by how much two labels prefer to agree: a minimum cut needs all of them >= 0."""
    pairs = scores.pairs
    return pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0]


def by_cut(scores: Scores, strength: Any) -> Answer:
    """The best labeling with two labels whose edges prefer to agree.

    With E = -score, the cost of an edge is

        E(0,0) + [E(1,0) - E(0,0)] y_lo + [E(1,1) - E(1,0)] y_hi + strength (1 - y_lo) y_hi;

    the last term is an arc from lo to hi, the others are costs of label 1 (an arc from the source where
    positive, to the sink where negative). Nodes on the source's side get label 0.
    """
    nodes, lo, hi, pairs = scores
    n, m = len(nodes), len(lo)
    cost = nodes[:, 0] - nodes[:, 1]
    np.add.at(cost, lo, pairs[:, 0, 0] - pairs[:, 1, 0])
    np.add.at(cost, hi, pairs[:, 1, 0] - pairs[:, 1, 1])
    constant = float(nodes[:, 0].sum() + pairs[:, 0, 0].sum())  # the score of 0 everywhere
    constant -= float(np.minimum(cost, 0.0).sum())
    first = np.zeros(n + 1, dtype=np.int64)
    head, sister = np.empty(2 * m, dtype=np.int64), np.empty(2 * m, dtype=np.int64)
    left = np.empty(2 * m)
    flow_arcs(lo, hi, strength, first, head, sister, left)
    source_side = np.zeros(n, dtype=bool)
    flow = max_flow(first, head, sister, left, cost, source_side)
    labels: IntArray = np.where(source_side, 0, 1)
    value, upper = _score(scores, labels), constant - flow
    room = ROUNDING * size_of(scores)
    # cut = flow is the proof; a difference beyond rounding is reported, never hidden
    return Answer(labels, value, value if upper - value <= room else upper)


class _State:
    """Messages, and the labels that are not ruled out."""

    def __init__(self, graph: Graph, scores: Scores) -> None:
        K = scores.nodes.shape[1]
        self.to_lo, self.to_hi = np.zeros((graph.n_edges, K)), np.zeros((graph.n_edges, K))
        self.alive = np.ones((graph.n_nodes, K), dtype=bool)


def _pass(graph: Graph, scores: Scores, state: _State, room: float) -> Answer:
    labels = np.zeros(graph.n_nodes, dtype=np.int64)
    value, bound = pass_messages(
        *scores,
        graph.first,
        graph.incident,
        state.to_lo,
        state.to_hi,
        labels,
        state.alive,
        MAX_PASSES,
        room,
        PROGRESS,
    )
    return Answer(labels, value, max(value, bound))


def _score(scores: Scores, labels: IntArray) -> float:
    return float(score_of(*scores, labels))
