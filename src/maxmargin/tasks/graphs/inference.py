"""Inference for graph labeling: find the labeling with the largest score.

``exact``     dynamic programming for forests; a minimum cut for two labels and submodular edges. For all
              other problems, message passing, whose bound often proves its labeling optimal. If it does not,
              branch and bound with these bounds; if that takes too long, an integer program over the labels
              that the bounds do not exclude
``messages``  the labeling and the bound of message passing, whether they agree or not
``relaxed``   the optimum of the linear relaxation

Each returns what it found and an upper bound of the scores of all labelings.
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

#: no better labeling is looked for within this share of the size of the terms of a score
ROUNDING = 1e-11
MAX_PASSES = 200
#: message passing stops if ten passes reduce the gap by less than this share
PROGRESS = 0.02
#: subproblems that branch and bound may solve before HiGHS is called
MAX_SUBPROBLEMS = 500


class InferenceResult(NamedTuple):
    """A labeling, its score, and an upper bound of the scores of all labelings."""

    y: Any
    value: float
    upper: float


def size_of(scores: Scores) -> float:
    """The size of the terms of a score, which rounding errors are proportional to."""
    nodes = np.abs(scores.nodes).max(axis=1, initial=0.0).sum()
    pairs = np.abs(scores.pairs).max(axis=(1, 2), initial=0.0).sum()
    return float(nodes + pairs)


def exact(graph: Graph, scores: Scores) -> InferenceResult:
    """The best labeling. ``upper`` exceeds ``value`` at most by the tolerance of HiGHS, or by what counts as
    rounding error: a better labeling within it is not looked for, but the bound stays true."""
    if graph.is_forest:
        return on_forest(graph, scores)
    room = ROUNDING * size_of(scores)
    if scores.nodes.shape[1] == 2:
        strength = cut_strength(scores)
        if (strength >= -room).all():
            return by_cut(scores, np.maximum(strength, 0.0))
    state = _Messages(graph, scores)
    found = _pass(graph, scores, state, room)
    if found.upper - found.value <= room:
        return found
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
        return InferenceResult(found.y, best, min(best + room, found.upper))
    found = InferenceResult(found.y, best, found.upper)
    labels, bound = best_integer(scores, state.alive)
    value = _score(scores, labels)
    if value < found.value:  # within the tolerance of HiGHS
        labels, value = found.y, found.value
    return InferenceResult(labels, value, max(value, min(bound, found.upper)))


def messages(graph: Graph, scores: Scores) -> InferenceResult:
    """A good labeling and a bound, in time linear in the size of the graph."""
    if graph.is_forest:
        return on_forest(graph, scores)
    room = ROUNDING * size_of(scores)
    return _pass(graph, scores, _Messages(graph, scores), room)


def relaxed(graph: Graph, scores: Scores) -> InferenceResult:
    """The optimum of the linear relaxation: a labeling if message passing proves one optimal."""
    room = ROUNDING * size_of(scores)
    found = messages(graph, scores)
    if found.upper - found.value <= room:
        return found
    nodes, pairs, bound = best_relaxed(scores)
    value = float((nodes * scores.nodes).sum() + (pairs * scores.pairs).sum())
    labels = nodes.argmax(axis=1)
    if value - _score(scores, labels) <= room:
        return InferenceResult(labels, _score(scores, labels), max(value, min(bound, found.upper)))
    if graph.flipped.any():
        pairs[graph.flipped] = pairs[graph.flipped].transpose(0, 2, 1)
    return InferenceResult(Relaxed(nodes, pairs), value, max(value, min(bound, found.upper)))


def on_forest(graph: Graph, scores: Scores) -> InferenceResult:
    """The best labeling of a graph without cycles."""
    labels = np.zeros(graph.n_nodes, dtype=np.int64)
    value = best_of_forest(*scores, graph.order, graph.up, labels)
    return InferenceResult(labels, value, value)


def cut_strength(scores: Scores) -> Any:
    """For each edge, how much its score favors equal labels. A minimum cut needs all of them >= 0."""
    pairs = scores.pairs
    return pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0]


def by_cut(scores: Scores, strength: Any) -> InferenceResult:
    """The best labeling for two labels and edges that favor equal labels.

    With E = -score, the cost of an edge is

        E(0,0) + [E(1,0) - E(0,0)] y_lo + [E(1,1) - E(1,0)] y_hi + strength (1 - y_lo) y_hi;

    The last term is an arc from lo to hi. The others are costs of label 1: an arc from the source if
    positive, an arc to the sink if negative. Nodes on the source side get label 0.
    """
    nodes, lo, hi, pairs = scores
    n, m = len(nodes), len(lo)
    cost = nodes[:, 0] - nodes[:, 1]
    np.add.at(cost, lo, pairs[:, 0, 0] - pairs[:, 1, 0])
    np.add.at(cost, hi, pairs[:, 1, 0] - pairs[:, 1, 1])
    constant = float(nodes[:, 0].sum() + pairs[:, 0, 0].sum())  # the score of label 0 at all nodes
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
    # cut = flow proves optimality; a difference beyond rounding goes into the upper bound
    return InferenceResult(labels, value, value if upper - value <= room else upper)


class _Messages:
    """Messages, and the labels that are not excluded."""

    def __init__(self, graph: Graph, scores: Scores) -> None:
        K = scores.nodes.shape[1]
        self.to_lo, self.to_hi = np.zeros((graph.n_edges, K)), np.zeros((graph.n_edges, K))
        self.alive = np.ones((graph.n_nodes, K), dtype=bool)


def _pass(graph: Graph, scores: Scores, state: _Messages, room: float) -> InferenceResult:
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
    return InferenceResult(labels, value, max(value, bound))


def _score(scores: Scores, labels: IntArray) -> float:
    return float(score_of(*scores, labels))
