"""Priors, fixed and signed weights of structured models: the optimum of a QP over all outputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.latent_tasks import Bags
from tests.reference_optima.problems import solve_structured_prior_qp
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    GaussianPrior,
    GraphLabeler,
    LatentStructuredSVM,
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
)
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Chain, Choice, Enumerable, Graph

C = 0.7
SOLVERS = [
    DualCoordinate(),
    DualCoordinate(batch_size="all"),
    DualCoordinate(oracle="expensive"),
    CuttingPlane(),
    CuttingPlane(use_cache=False),
]


def problem(seed, n=12, d=3, K=3):
    rng = np.random.default_rng(seed)
    X = list(rng.normal(size=(n, d)))
    y = [int(label) for label in rng.permutation(np.arange(n) % K)]
    root = rng.normal(size=(d * K, d * K))
    return TinyMulticlass(), X, y, root @ root.T + 0.5 * np.eye(d * K), rng.normal(size=d * K)


def agrees(svm, best, w):
    assert svm.converged_
    assert svm.certificate_ == "exact"
    assert svm.lower_bound_ <= best + 1e-7 * abs(best)
    assert best <= svm.objective_ + 1e-7 * abs(best)
    np.testing.assert_allclose(svm.coef_, w, atol=2e-2)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_a_dense_prior_with_fixed_weights(solver):
    task, X, y, S, m = problem(0)
    fixed = {2: 0.3, 7: -0.4}
    best, w = solve_structured_prior_qp(task, X, y, C, S, m, fixed=fixed)
    prior = GaussianPrior(m, covariance=S)
    svm = StructuredSVM(task, C, prior=prior, fixed=fixed, tol=1e-6, solver=solver).fit(X, y)
    agrees(svm, best, w)
    assert svm.coef_[2] == 0.3


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(SOLVERS[:5]), st.booleans())
def test_signed_weights_with_a_center(seed, solver, centered):
    task, X, y, S, m = problem(seed, n=8)
    variance = np.diagonal(S)
    m = m if centered else np.zeros(9)
    signs = np.array([1.0, -1.0, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 1.0])
    best, _ = solve_structured_prior_qp(
        task, X, y, C, np.diag(variance), m, signs=signs, fixed={3: 0.2}
    )
    svm = StructuredSVM(
        task,
        C,
        prior=GaussianPrior(m, variance=variance),
        nonnegative=np.flatnonzero(signs > 0).tolist(),
        nonpositive=np.flatnonzero(signs < 0).tolist(),
        fixed={3: 0.2},
        tol=1e-5,
        solver=solver,
    ).fit(X, y)
    assert svm.lower_bound_ <= best + 1e-7 * abs(best)
    assert best <= svm.objective_ + 1e-7 * abs(best)
    assert svm.gap_ <= 1e-5
    assert (signs * svm.coef_ >= 0.0).all()


def chains(seed, n=8):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(rng.integers(1, 4)), 2)) for _ in range(n)]
    return X, [rng.integers(0, 2, len(x)) for x in X]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 1.0, 20.0]), st.sampled_from(SOLVERS))
def test_a_center_in_compiled_working_sets(seed, C, solver):
    """Compiled chains with a prior mean, and the Python methods with planes mapped one by one."""
    X, Y = chains(seed)
    dim = Chain(2).setup(X, Y)
    m = np.random.default_rng(seed + 1).normal(size=dim)
    compiled = StructuredSVM(Chain(2), C, prior=GaussianPrior(m), tol=1e-5, solver=solver)
    compiled.fit(X, Y)
    # a fixed weight at its optimum makes the same problem use the Python methods
    plain = StructuredSVM(
        Chain(2), C, prior=GaussianPrior(m), fixed={0: compiled.coef_[0]}, tol=1e-5
    ).fit(X, Y)
    share = 0.5 * (compiled.coef_[0] - m[0]) ** 2
    assert compiled.converged_
    assert compiled.lower_bound_ <= plain.objective_ + share + 1e-9
    assert compiled.objective_ == pytest.approx(plain.objective_ + share, rel=3e-5, abs=1e-9)


def test_sets_around_a_center_are_dual_feasible_at_all_times():
    X, Y = chains(7)
    best = StructuredSVM(Chain(2), 1.0, prior=GaussianPrior(np.full(12, 0.3)), tol=1e-9)
    best.fit(X, Y)
    for limit in range(1, 8):
        svm = StructuredSVM(
            Chain(2), 1.0, prior=GaussianPrior(np.full(12, 0.3)), tol=1e-9, max_iter=limit
        ).fit(X, Y)
        assert svm.lower_bound_ <= best.objective_ * (1 + 1e-9)
        assert svm.objective_ >= best.lower_bound_ * (1 - 1e-9)


@pytest.mark.slow
def test_a_tagger_is_updated_around_an_earlier_one():
    rng = np.random.default_rng(0)
    words = [[[f"w{int(k)}"] for k in rng.integers(0, 6, 5)] for _ in range(40)]
    tags = [[("A", "B")[int(w[0][1]) % 2] for w in sentence] for sentence in words]
    last = SequenceTagger(1.0).fit(words[:30], tags[:30])
    prior = GaussianPrior.around(last)
    nothing = SequenceTagger(1e-9, prior=prior).fit(words[:30], tags[:30])
    np.testing.assert_allclose(nothing.weights_, last.weights_, atol=1e-6)
    one, other = (
        SequenceTagger(0.1, prior=prior, tol=1e-5, solver=solver).fit(words[:30], tags[:30])
        for solver in (DualCoordinate(), CuttingPlane())
    )
    assert one.objective_ == pytest.approx(other.objective_, rel=2e-5)
    spread = GaussianPrior.around(last, variance=2.0)
    assert SequenceTagger(0.1, prior=spread, tol=1e-4).fit(words[:30], tags[:30]).converged_
    with pytest.raises(TypeError, match=r"mean of a prior only.*CuttingPlane"):
        SequenceTagger(prior=spread, solver=DualCoordinate()).fit(words[:30], tags[:30])


@pytest.mark.parametrize("edges", ["potts", "attractive"])
def test_a_labeler_of_graphs_is_updated_around_an_earlier_one(edges):
    rng = np.random.default_rng(0)
    ring = [[i, (i + 1) % 5] for i in range(5)]
    labels = [np.repeat(rng.permutation(2), [2, 3]) for _ in range(8)]
    graphs = [Graph(rng.normal(size=(5, 2)) + y[:, None], ring) for y in labels]
    last = GraphLabeler(1.0, edges=edges).fit(graphs, labels)
    prior = GaussianPrior(last.weights_)
    nothing = GraphLabeler(1e-9, edges=edges, prior=prior).fit(graphs, labels)
    np.testing.assert_allclose(nothing.weights_, last.weights_, atol=1e-6)
    for spread in (prior, GaussianPrior(last.weights_, variance=0.5)):
        update = GraphLabeler(0.1, edges=edges, prior=spread, tol=1e-4).fit(graphs, labels)
        assert update.converged_
        planes = GraphLabeler(
            0.1, edges=edges, prior=spread, tol=1e-4, solver=CuttingPlane(use_cache=False)
        ).fit(graphs, labels)
        assert update.objective_ == pytest.approx(planes.objective_, rel=2e-4)
    if edges == "attractive":
        assert (update.weights_[update.task_.n_node_weights :] >= 0.0).all()


def test_a_task_with_compiled_examples_is_trained_by_its_python_methods():
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    Y = [rng.integers(0, 2, 3) for _ in X]
    plain = StructuredSVM(Chain(2), 1.0, tol=1e-6).fit(X, Y)
    again = StructuredSVM(Chain(2), 1.0, tol=1e-6, prior=GaussianPrior(plain.coef_, variance=1e-12))
    np.testing.assert_allclose(again.fit(X, Y).coef_, plain.coef_, atol=1e-6)


def test_grids_and_latent_variables_take_a_prior():
    task, X, y, _, m = problem(3, n=15)
    prior = GaussianPrior(m)
    grid = StructuredSVMCV(task, Cs=[1e-9, 1.0], cv=3, prior=prior, nonpositive=[0]).fit(X, y)
    assert all(grid.cv_results_["split0_converged"])
    rng = np.random.default_rng(4)
    bags = [rng.normal(size=(3, 2)) + label for label in (1.0, -1.0) * 6]
    labels = [1, -1] * 6
    around = np.array([0.3, -0.2, 0.1])
    svm = LatentStructuredSVM(Bags(), 1e-9, prior=GaussianPrior(around))
    np.testing.assert_allclose(svm.fit(bags, labels).coef_, around, atol=1e-6)


def test_the_objective_with_a_far_center_is_that_of_the_weights():
    # <plane, mean> is 4e7 here: as part of an offset it left no digits for the value of the example
    X = [
        np.array(
            [
                [
                    24896458.875132013,
                    -7.19198528501936e-06,
                    -0.0003534878979513975,
                    14891736359.6549,
                ],
                [
                    178079169.09209186,
                    -2.5311899664084383e-06,
                    -3.8131366489429995e-05,
                    -15677026237.691423,
                ],
            ]
        )
    ]
    mean = np.array([-0.000126, -0.000956, 0.000941, 0.00118])
    variance = np.array([0.001, 1e-06, 1.08, 6.64e-05])
    prior = GaussianPrior(mean=mean, variance=variance)
    svm = StructuredSVM(Enumerable(), C=1e5, nonnegative=[1], prior=prior)
    svm.fit(X, [Choice(1, np.array([2.0, 0.0]))])
    w, x = svm.coef_.astype(np.longdouble), X[0].astype(np.longdouble)
    F = ((w - mean) ** 2 / variance).sum() / 2 + np.longdouble(1e5) * max(0, 2 + (x[0] - x[1]) @ w)
    assert svm.objective_ == pytest.approx(float(F), rel=1e-6)
