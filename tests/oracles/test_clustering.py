"""Clustering against enumeration of all partitions, and what each argmax lets the certificate claim.

Claims: "exact" finds the best clustering; "greedy" finds a clustering, never a better one; "lp" is never
below the best, is feasible, and where it is whole it is the best. Fitted on one problem: what greedy computes
may be anything, but its lower bound holds; the relaxed optimum is above the exact one.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.referees.problems import brute_force_objective, solve_structured_qp

from maxmargin import StructuredSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Clustering
from maxmargin.tasks.clustering import relaxed_partition, together
from maxmargin.testing import check_task


def partitions(n):
    """All clusterings of n items, as labels in order of first use."""
    if n == 0:
        yield np.zeros(0, dtype=np.int64)
        return
    for labels in partitions(n - 1):
        for name in range(labels.max(initial=-1) + 2):
            yield np.append(labels, name)


def score(scores, y):
    return float((np.triu(scores, 1) * together(y)).sum())


def draw(seed, n, kind):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n)) if kind == "normal" else rng.integers(-1, 2, (n, n)) * 1.0
    return np.triu(scores, 1) + np.triu(scores, 1).T


@settings(max_examples=max(100, settings().max_examples))
@given(seed=st.integers(0, 10**6), n=st.integers(0, 6), kind=st.sampled_from(["normal", "whole"]))
def test_the_three_argmaxes_against_enumeration(seed, n, kind):
    scores = draw(seed, n, kind)
    x, w = scores[:, :, None], np.ones(1)
    best = max(score(scores, y) for y in partitions(n))
    exact = Clustering("exact").inference(x, w)
    assert exact.shape == (n,)
    assert score(scores, exact) == pytest.approx(best, abs=1e-10)
    greedy = Clustering("greedy").inference(x, w)
    assert greedy.shape == (n,)
    assert score(scores, greedy) <= best + 1e-10
    Z = Clustering("lp").inference(x, w)
    assert score(scores, Z) >= best - 1e-6
    assert Z.shape == (n, n)
    assert np.array_equal(Z, Z.T)
    assert np.all((Z >= 0) & (Z <= 1))
    for j in range(n):
        assert np.all(Z[:, [j]] + Z[[j], :] - Z <= 1 + 1e-6)
    if np.array_equal(Z, np.round(Z)):
        assert score(scores, Z) == pytest.approx(best, abs=1e-6)
        assert np.array_equal(together(Clustering.round(Z)), Z)


def test_the_relaxation_is_strict_somewhere():
    """A wheel: the center likes all, the others dislike each other. The relaxation takes halves."""
    scores = -np.ones((4, 4))
    scores[0, 1:] = scores[1:, 0] = 1.0
    Z, bound = relaxed_partition(scores)
    assert score(scores, Z) == pytest.approx(1.5)
    assert bound == pytest.approx(1.5)
    assert max(score(scores, y) for y in partitions(4)) == 1.0
    assert np.allclose(Z[0, 1:], 0.5)


def test_more_items_than_one_round_of_triangles(monkeypatch):
    scores = draw(1, 20, "normal")
    whole = score(scores, relaxed_partition(scores)[0])
    monkeypatch.setattr("maxmargin.tasks.clustering.MOST_ROWS", 7)
    again, bound = relaxed_partition(scores)
    assert score(scores, again) == pytest.approx(whole, rel=1e-8)
    assert whole <= bound * (1 + 1e-12)


@pytest.mark.parametrize("size", [1e-9, 1e-7, 1.0, 1e6])
def test_the_relaxation_does_not_depend_on_the_size_of_scores(size):
    scores = draw(3, 6, "normal")
    Z, bound = relaxed_partition(scores)
    again, larger = relaxed_partition(size * scores)
    assert score(scores, again) == pytest.approx(score(scores, Z), rel=1e-7)
    assert larger == pytest.approx(size * bound, rel=1e-7)
    assert score(scores, Z) <= bound + 1e-12


@pytest.mark.parametrize("seed", [18, 19, 20])
def test_bounds_of_the_relaxed_risk_do_not_cross(seed):
    """Within the solver's tolerance a solution may break triangles, or fall short of the optimum."""
    rng = np.random.default_rng(seed)
    X = [np.round(rng.normal(size=(k, k, 2)), 1) for k in (3, 4, 5)]
    Y = [rng.integers(0, 2, size=len(x)) for x in X]
    C = float(10 ** rng.uniform(-2, 2))
    svm = StructuredSVM(Clustering("lp"), C=C, tol=1e-5, max_iter=300).fit(X, Y)
    assert svm.certificate_ == "relaxed"
    assert -np.inf < svm.lower_bound_ <= svm.objective_
    assert svm.gap_ <= 1e-4


def test_greedy_moves_what_merging_misplaced():
    """Merging joins 0 and 1 first; afterwards 1 is better off elsewhere."""
    scores = np.zeros((4, 4))
    for i, j, s in ((0, 1, 2.0), (1, 2, 1.5), (1, 3, 1.5), (0, 2, -5.0), (0, 3, -5.0), (2, 3, 0.1)):
        scores[i, j] = scores[j, i] = s
    found = Clustering("greedy").inference(scores[:, :, None], np.ones(1))
    assert found.tolist() == [0, 1, 1, 1]


def problem(seed=0, n=8, items=5, d=3):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, items) for _ in range(n)]
    X = []
    for y in Y:
        x = rng.normal(size=(items, items, d))
        x[:, :, 0] += 0.7 * together(y) - 0.4
        X.append(x)
    return X, Y


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("inference", ["exact", "greedy", "lp"])
def test_the_task_passes_its_check(inference, normalize):
    X, Y = problem(items=4)
    X[1], Y[1] = X[1][:1, :1], Y[1][:1]
    task = Clustering(inference, normalize)
    check_task(task, X, Y, outputs=lambda x: partitions(len(x)), n_trials=40)


def test_three_kinds_of_certificate_on_one_problem():
    X, Y = problem(n=12)
    C, every = 2.0, lambda x: partitions(len(x))
    best, _ = solve_structured_qp(Clustering("exact"), X, Y, C, outputs=every)
    fits = {
        kind: StructuredSVM(Clustering(kind), C, tol=1e-3, max_iter=300).fit(X, Y)
        for kind in ("greedy", "exact", "lp")
    }
    assert {k: fit.certificate_ for k, fit in fits.items()} == {
        "greedy": "lower_only",
        "exact": "exact",
        "lp": "relaxed",
    }
    exact, lp, greedy = fits["exact"], fits["lp"], fits["greedy"]
    assert exact.converged_
    assert exact.lower_bound_ <= best * (1 + 1e-9)
    assert exact.objective_ >= best * (1 - 1e-9)
    # the relaxed risk is larger everywhere, so is its minimum: strictly here
    assert lp.converged_
    assert lp.lower_bound_ > best
    true_F = brute_force_objective(Clustering("exact"), X, Y, lp.coef_, C, every)
    assert lp.objective_ >= true_F - 1e-6
    # greedy: the lower bound holds for the true problem; nothing else is claimed
    assert not greedy.converged_
    assert 0.9 * best < greedy.lower_bound_ <= best * (1 + 1e-9)


@pytest.mark.parametrize(
    "solver", [DualCoordinate(), DualCoordinate(batch_size="all"), CuttingPlane()]
)
def test_the_lower_bound_stays_where_the_search_found_less(solver):
    """A search that finds nothing later on: what it computes for F falls below the true lower bound."""

    class Tired(Clustering):
        def loss_augmented_inference(self, x, y, w):
            return super().loss_augmented_inference(x, y, w) if not w.any() else y

    X, Y = problem(n=12)
    best, _ = solve_structured_qp(
        Clustering("exact"), X, Y, 2.0, outputs=lambda x: partitions(len(x))
    )
    fit = StructuredSVM(Tired("greedy"), 2.0, solver=solver, max_iter=50).fit(X, Y)
    assert 0.0 < fit.lower_bound_ <= best * (1 + 1e-9)
    assert fit.objective_ >= fit.lower_bound_
    assert fit.certificate_ == "lower_only"
    assert not fit.converged_


def test_what_does_not_fit_is_refused():
    x = np.zeros((3, 3, 2))
    with pytest.raises(ValueError, match="inference='best'"):
        Clustering("best")
    with pytest.raises(ValueError, match="example 1 has shape"):
        Clustering().setup([x, x[:, :, :1]], [[0, 0, 1]] * 2)
    with pytest.raises(ValueError, match="3 items but 2 labels"):
        Clustering().setup([x], [[0, 1]])
    many = np.zeros((17, 17, 1))
    with pytest.raises(ValueError, match="17 items"):
        Clustering("exact").setup([many], [np.zeros(17)])
    with pytest.raises(ValueError, match="17 items"):
        Clustering("exact").inference(many, np.ones(1))
