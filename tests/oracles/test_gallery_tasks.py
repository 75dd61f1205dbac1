"""The tasks of the gallery against enumeration, and what an approximate argmax lets a certificate claim.

Claims: the argmaxes of the examples are those of brute force over all outputs, or of the kind they declare;
on one problem, the bounds of an exact, a greedy and a relaxed argmax enclose what each may claim.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from benchmarks.examples import definitions, find
from tests.reference_optima.problems import brute_force_objective, solve_structured_qp

from maxmargin import StructuredSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.testing import check_latent_task, check_task

alignment = definitions("plot_alignment")
clustering = definitions("plot_clustering")
multilabel = definitions("plot_multilabel")
parts = definitions("plot_parts_detector")
METHODS = ["exact", "greedy", "relaxed"]


@pytest.mark.parametrize("module", [alignment, clustering, multilabel, parts])
def test_a_task_is_short(module):
    assert len(find(module.__name__).read_text().splitlines()) <= 120


def every_alignment(x):
    """All sets of pairs that increase in both sequences."""
    n, m = len(x[0]), len(x[1])
    for k in range(min(n, m) + 1):
        for top, bottom in product(combinations(range(n), k), combinations(range(m), k)):
            yield np.array(list(zip(top, bottom, strict=True)), dtype=int).reshape(k, 2)


def test_alignment():
    X = [("ACG", "AG"), ("GGA", "CGA"), ("", "AC"), ("A", "A"), ("ACCA", "CAC")]
    Y = [[(0, 0), (2, 1)], [(1, 1), (2, 2)], [], [(0, 0)], [(1, 0)]]
    Y = [np.array(y, dtype=int).reshape(-1, 2) for y in Y]
    check_task(alignment.Alignment("ACG"), X, Y, outputs=every_alignment, n_trials=200)


@pytest.mark.parametrize("pairs", [False, True])
def test_sets_of_labels(pairs):
    rng = np.random.default_rng(0)
    X, Y = list(rng.normal(size=(6, 2))), list(rng.integers(0, 2, (6, 3)))
    every = [np.array(y) for y in product([0, 1], repeat=3)]
    check_task(multilabel.LabelSets(pairs), X, Y, outputs=lambda x: every)


@pytest.mark.parametrize("anchors", [[], [(0, 1)], [(-1, 0), (1, 2)]])
def test_parts(anchors):
    def outputs(x):
        places = [list(product(*(range(n - size + 1) for n in x.shape))) for size in sizes]
        return [(0, None)] + [(1, np.array(place)) for place in product(*places)]

    rng, sizes = np.random.default_rng(0), [2] + [1] * len(anchors)
    task = parts.PartsDetector(2, 1, anchors)
    X = [rng.normal(size=shape) for shape in ((3, 4), (4, 3))]
    check_latent_task(task, X, [1, 0], outputs=outputs, n_trials=10)


def pairs_of(labels):
    return (labels[:, None] == labels)[np.triu_indices(len(labels), 1)].astype(float)


def problem(n=12, items=5, d=3):
    rng = np.random.default_rng(0)
    Y = [pairs_of(rng.integers(0, 3, items)) for _ in range(n)]
    return [np.column_stack([rng.normal(size=(len(y), d - 1)), rng.normal(y - 0.5)]) for y in Y], Y


#: all 52 partitions of five items, by brute force over their labels
PARTITIONS = np.unique([pairs_of(np.array(y)) for y in product(range(5), repeat=5)], axis=0)


def every_clustering(x):
    return PARTITIONS


@pytest.mark.parametrize("method", METHODS)
def test_clustering(method):
    X, Y = problem()
    check_task(clustering.Clustering(method), X, Y, outputs=every_clustering, n_trials=40)


def test_three_kinds_of_certificate_on_one_problem():
    X, Y = problem()
    C, exact_task = 2.0, clustering.Clustering("exact")
    best, _ = solve_structured_qp(exact_task, X, Y, C, outputs=every_clustering)
    exact, greedy, relaxed = (
        StructuredSVM(clustering.Clustering(method), C, tol=1e-3, max_iter=300).fit(X, Y)
        for method in METHODS
    )
    assert [fit.certificate_ for fit in (exact, greedy, relaxed)] == [
        "exact",
        "lower_only",
        "relaxed",
    ]
    assert exact.converged_
    assert exact.lower_bound_ <= best * (1 + 1e-9)
    assert exact.objective_ >= best * (1 - 1e-9)
    # the relaxed risk is larger everywhere, so is its minimum
    assert relaxed.converged_
    true_F = brute_force_objective(exact_task, X, Y, relaxed.coef_, C, every_clustering)
    assert relaxed.lower_bound_ <= relaxed.objective_
    assert relaxed.objective_ >= true_F - 1e-6
    # greedy: the lower bound holds for the true problem; nothing else is claimed
    assert not greedy.converged_
    assert 0.9 * best < greedy.lower_bound_ <= best * (1 + 1e-9)


@pytest.mark.parametrize(
    "solver", [DualCoordinate(), DualCoordinate(batch_size="all"), CuttingPlane()]
)
def test_the_lower_bound_stays_where_the_search_found_less(solver):
    """A search that finds nothing later on: what it computes for F falls below the true lower bound."""

    class Tired(clustering.Clustering):
        def loss_augmented_inference(self, x, y, w):
            return super().loss_augmented_inference(x, y, w) if not w.any() else y

    X, Y = problem()
    best, _ = solve_structured_qp(
        clustering.Clustering("exact"), X, Y, 2.0, outputs=every_clustering
    )
    fit = StructuredSVM(Tired("greedy"), 2.0, solver=solver, max_iter=50).fit(X, Y)
    assert 0.0 < fit.lower_bound_ <= best * (1 + 1e-9)
    assert fit.objective_ >= fit.lower_bound_
    assert fit.certificate_ == "lower_only"
    assert not fit.converged_
