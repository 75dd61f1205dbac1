"""lower <= F* <= upper for structured models: every solver, both rescalings, every kind of oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference_optima.problems import brute_force_objective, solve_structured_qp
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import StructuredSVM
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk, TaskRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, RiskEpsilon
from maxmargin.tasks import Bounded, Chain

SOLVERS = {
    "stream": DualCoordinate(),
    "batch": DualCoordinate(batch_size="all"),
    "1-slack": CuttingPlane(use_cache=False, line_search=False),
    "1-slack + cache": CuttingPlane(use_cache=True, line_search=False),
    "oca on the cached model": CuttingPlane(use_cache=True),
}


def words(seed, n=6, labels=2, features=2):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 4), features)) for _ in range(n)]
    return X, [rng.integers(0, labels, len(x)) for x in X]


def rows(seed, n=12, d=2, classes=3):
    rng = np.random.default_rng(seed)
    return list(rng.normal(size=(n, d))), list(rng.permutation(np.arange(n) % classes))


@given(
    seed=st.integers(0, 5_000),
    log_c=st.floats(-2, 1.5),
    weighted=st.booleans(),
    solver=st.sampled_from(sorted(SOLVERS)),
)
def test_plain_python_chain(seed, log_c, weighted, solver):
    X, Y = words(seed)
    C = 10.0**log_c
    weight = np.random.default_rng(seed).random(len(Y)) + 0.01 if weighted else None
    task = TinyChain()
    svm = StructuredSVM(task, C, tol=1e-3, solver=SOLVERS[solver], max_iter=20_000)
    svm.fit(X, Y, sample_weight=weight)
    optimum, _ = solve_structured_qp(task, X, Y, C, task.outputs, weight)
    recomputed = brute_force_objective(svm.task_, X, Y, svm.coef_, C, svm.task_.outputs, weight)
    assert svm.converged_
    assert svm.objective_ == pytest.approx(recomputed, rel=1e-9)
    assert svm.lower_bound_ <= optimum * (1 + 1e-8) <= svm.objective_ * (1 + 2e-8)
    assert svm.gap_ <= 1e-3


@given(seed=st.integers(0, 5_000), log_c=st.floats(-2, 1), solver=st.sampled_from(sorted(SOLVERS)))
def test_slack_rescaling(seed, log_c, solver):
    X, Y = rows(seed)
    C, task = 10.0**log_c, TinyMulticlass()
    svm = StructuredSVM(
        task, C, rescaling="slack", tol=1e-3, solver=SOLVERS[solver], max_iter=20_000
    ).fit(X, Y)
    optimum, _ = solve_structured_qp(task, X, Y, C, task.outputs, rescaling="slack")
    recomputed = brute_force_objective(
        svm.task_, X, Y, svm.coef_, C, svm.task_.outputs, rescaling="slack"
    )
    assert svm.objective_ == pytest.approx(recomputed, rel=1e-9)
    assert svm.lower_bound_ <= optimum * (1 + 1e-8) <= svm.objective_ * (1 + 2e-8)
    assert svm.converged_


class Greedy(TinyMulticlass):
    """Searches two classes only, so it may miss the maximum."""

    oracle_kind = "undergenerating"

    def loss_augmented_inference(self, x, y, w):
        return max((y, (y + 1) % 3), key=lambda c: self.loss(y, c) + self.joint_feature(x, c) @ w)


@pytest.mark.parametrize("solver", ["stream", "1-slack", "oca on the cached model"])
def test_an_undergenerating_oracle_claims_a_lower_bound_only(solver):
    X, Y = rows(1, n=20)
    task = Greedy()
    svm = StructuredSVM(task, 1.0, solver=SOLVERS[solver], max_iter=500).fit(X, Y)
    optimum, _ = solve_structured_qp(task, X, Y, 1.0, task.outputs)
    assert svm.certificate_ == "lower_only"
    assert svm.lower_bound_ <= optimum
    assert svm.gap_ == np.inf
    assert not svm.converged_


class Truncated(TinyMulticlass):
    """Returns the class next to the true one, and a bound, like inference with a time limit."""

    def loss_augmented_inference(self, x, y, w):
        value = {c: self.loss(y, c) + self.joint_feature(x, c) @ w for c in range(3)}
        found = max((y, (y + 1) % 3), key=value.get)
        return Bounded(found, max(value.values()) + 0.05)


@pytest.mark.parametrize("solver", ["stream", "batch", "1-slack", "oca on the cached model"])
def test_a_truncated_oracle_bounds_the_risk_from_both_sides(solver):
    X, Y = rows(2, n=20)
    task = Truncated()
    svm = StructuredSVM(task, 0.3, solver=SOLVERS[solver], max_iter=60).fit(X, Y)
    optimum, _ = solve_structured_qp(task, X, Y, 0.3, task.outputs)
    assert svm.lower_bound_ <= optimum <= svm.objective_
    assert svm.certificate_ == "exact"
    true_value = brute_force_objective(svm.task_, X, Y, svm.coef_, 0.3, svm.task_.outputs)
    assert svm.objective_ >= true_value - 1e-9


class Relaxed(TinyMulticlass):
    oracle_kind = "overgenerating"


def test_a_relaxation_is_called_one():
    X, Y = rows(3)
    svm = StructuredSVM(Relaxed()).fit(X, Y)
    assert svm.certificate_ == "relaxed"
    assert svm.converged_


class WrongOracle(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        others = [c for c in range(3) if c != y]
        return min(others, key=lambda c: self.joint_feature(x, c) @ w)


def test_an_oracle_worse_than_the_truth_is_refused_with_the_example_named():
    X, Y = rows(4)
    with pytest.raises(ValueError, match=r"example \d+ is worse than its own label"):
        StructuredSVM(WrongOracle(), C=10.0).fit(X, Y)


class Raising(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        raise KeyError("broken")


def test_an_error_of_the_users_oracle_names_the_example():
    X, Y = rows(5)
    with pytest.raises(KeyError) as caught:
        StructuredSVM(Raising()).fit(X, Y)
    assert any("example" in note for note in caught.value.__notes__)


@given(seed=st.integers(0, 3_000), solver=st.sampled_from(sorted(SOLVERS)))
def test_the_papers_rule_on_structures(seed, solver):
    X, Y = rows(seed)
    task, epsilon = TinyMulticlass(), 0.2
    svm = StructuredSVM(task, 1.0, tol=RiskEpsilon(epsilon), solver=SOLVERS[solver], max_iter=9_000)
    svm.fit(X, Y)
    optimum, _ = solve_structured_qp(task, X, Y, 1.0, task.outputs)
    assert svm.converged_
    assert svm.objective_ - optimum <= 1.0 * epsilon + 1e-7


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_wrong_outputs_without_loss_are_constraints_too(solver):
    X, Y = rows(7, n=15)
    cost = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    svm = StructuredSVM(TinyMulticlass(cost), tol=1e-3, solver=SOLVERS[solver], max_iter=5_000)
    assert svm.fit(X, Y).converged_


@pytest.mark.parametrize("solver", ["stream", "1-slack", "oca on the cached model"])
def test_data_that_are_not_finite_are_refused(solver):
    X, Y = rows(8)
    X[3] = np.array([np.nan, 1.0])
    with pytest.raises(ValueError, match="example 3"):
        StructuredSVM(TinyMulticlass(), solver=SOLVERS[solver]).fit(X, Y)
    with pytest.raises(ValueError, match=r"NaN|finite"):
        StructuredSVM(Chain(3), solver=SOLVERS[solver]).fit([x[None] for x in X], [[y] for y in Y])


def test_negative_weights_and_wrong_labels_are_refused():
    X, Y = rows(9)
    task = TinyMulticlass()
    dim = task.setup(X, Y)
    with pytest.raises(ValueError, match="nonnegative"):
        TaskRisk(task, X, Y, dim, sample_weight=np.where(np.arange(len(Y)) % 2, 1.0, -1.0))
    A = np.array(X)
    for y, weight in ((np.full(len(A), 7), None), (np.zeros(3, int), None), (Y, -np.ones(len(A)))):
        with pytest.raises(ValueError, match=r"labels must be|shape|nonnegative"):
            ScoreRisk(A, y, CrammerSinger(1 - np.eye(3)), sample_weight=weight)
    with pytest.raises(ValueError, match="-1 or \\+1"):
        ScoreRisk(A, np.arange(len(A)), Hinge())


@pytest.mark.parametrize("bound", [np.nan, -1e9])
@pytest.mark.parametrize("solver", [DualCoordinate(), CuttingPlane()])
def test_a_bound_that_is_none_is_refused(bound, solver):
    """max(value, nan) is value in Python: if accepted, an unknown bound would look like a proof."""

    class Unknown(TinyMulticlass):
        def loss_augmented_inference(self, x, y, w):
            return Bounded(y, bound)

    X, Y = list(np.eye(3)), [0, 1, 2]
    with pytest.raises(ValueError, match="infinity if unknown"):
        StructuredSVM(Unknown(), solver=solver).fit(X, Y)
