"""Fixed weights and nonnegative weights: the same optimum as a QP over all outputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference_optima.problems import solve_structured_qp
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import StructuredSVM, load
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Chain
from maxmargin.testing import structured_objective


def problem(seed, n=12, d=3, K=3):
    rng = np.random.default_rng(seed)
    X = list(rng.normal(size=(n, d)))
    y = [int(label) for label in rng.permutation(np.arange(n) % K)]
    fixed = {
        int(k): float(v)
        for k, v in zip(rng.choice(d * K, 2, replace=False), rng.normal(size=2), strict=True)
    }
    signed = [int(k) for k in range(d * K) if k not in fixed and rng.random() < 0.5]
    return TinyMulticlass(), X, y, fixed, signed


SOLVERS = [
    DualCoordinate(),
    DualCoordinate(batch_size="all"),
    DualCoordinate(oracle="expensive"),
    CuttingPlane(),
    CuttingPlane(use_cache=False),
]


def agrees(svm, best, w, signed=()):
    assert svm.converged_
    assert svm.certificate_ == "exact"
    assert svm.lower_bound_ <= best * (1 + 1e-8)
    assert best <= svm.objective_ * (1 + 1e-8)
    assert svm.gap_ <= 1e-6
    assert (svm.coef_[list(signed)] >= 0.0).all()
    np.testing.assert_allclose(svm.coef_, w, atol=1e-2)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_fixed_weights_reach_the_optimum(solver, rescaling):
    task, X, y, fixed, _ = problem(0)
    best, w = solve_structured_qp(task, X, y, 0.7, task.outputs, rescaling=rescaling, fixed=fixed)
    svm = StructuredSVM(task, 0.7, fixed=fixed, rescaling=rescaling, tol=1e-6, solver=solver).fit(
        X, y
    )
    agrees(svm, best, w)
    for k, value in fixed.items():
        assert svm.coef_[k] == value


@pytest.mark.parametrize("solver", [*SOLVERS[:4], "auto", CuttingPlane(use_cache=False)], ids=str)
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_signed_and_fixed_weights_reach_the_optimum(solver, rescaling):
    task, X, y, fixed, signed = problem(1)
    best, w = solve_structured_qp(
        task, X, y, 0.7, task.outputs, rescaling=rescaling, fixed=fixed, nonnegative=signed
    )
    svm = StructuredSVM(
        task, 0.7, fixed=fixed, nonnegative=signed, rescaling=rescaling, tol=1e-6, solver=solver
    ).fit(X, y)
    agrees(svm, best, w, signed)
    assert (w[signed] == 0.0).any() or (w[signed] < 1e-6).any()  # the signs matter


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.05, 1.0, 20.0]),
    st.sampled_from(
        [CuttingPlane(), DualCoordinate(), DualCoordinate(oracle="expensive", batch_size=2)]
    ),
)
def test_random_problems(seed, C, solver):
    task, X, y, fixed, signed = problem(seed, n=6)
    best, _ = solve_structured_qp(task, X, y, C, task.outputs, fixed=fixed, nonnegative=signed)
    svm = StructuredSVM(task, C, fixed=fixed, nonnegative=signed, tol=1e-5, solver=solver).fit(X, y)
    assert svm.lower_bound_ <= best * (1 + 1e-7)
    assert best <= svm.objective_ * (1 + 1e-7)
    assert svm.gap_ <= 1e-5
    # the upper bound is F of the returned weights, without the contribution of fixed weights to the norm
    F = structured_objective(svm.task_, X, y, svm.coef_, C)
    share = 0.5 * sum(value**2 for value in fixed.values())
    assert svm.objective_ == pytest.approx(F - share, rel=1e-9)


def test_sparse_planes():
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(2, 2)) for _ in range(10)]
    Y = [tuple(int(v) for v in rng.integers(0, 2, 2)) for _ in X]
    task = TinyChain()
    fixed, signed = {0: 0.4, 5: -0.3}, [1, 6, 7]
    best, w = solve_structured_qp(task, X, Y, 1.0, task.outputs, fixed=fixed, nonnegative=signed)
    svm = StructuredSVM(task, 1.0, fixed=fixed, nonnegative=signed, tol=1e-6).fit(X, Y)
    agrees(svm, best, w, signed)


def test_compiled_tasks_fall_back_to_python():
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    Y = [rng.integers(0, 2, 3) for _ in X]
    free = StructuredSVM(Chain(2), 1.0, tol=1e-6).fit(X, Y)
    held = StructuredSVM(Chain(2), 1.0, tol=1e-6, fixed={0: float(free.coef_[0])}).fit(X, Y)
    np.testing.assert_allclose(held.coef_, free.coef_, atol=1e-2)
    assert held.objective_ + 0.5 * free.coef_[0] ** 2 == pytest.approx(free.objective_, rel=1e-5)


def test_compiled_sets_refuse_signed_weights_and_auto_takes_cutting_planes():
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    Y = [rng.integers(0, 2, 3) for _ in X]
    with pytest.raises(TypeError, match=r"ChainExamples.*CuttingPlane"):
        StructuredSVM(Chain(2), nonnegative=[0], solver=DualCoordinate()).fit(X, Y)
    svm = StructuredSVM(Chain(2), nonnegative=[0]).fit(X, Y)
    assert svm.history_[-1]["method"] != "working sets"


def test_a_large_fixed_weight_leaves_no_loss():
    # the fixed weight alone separates the classes: nothing is left to learn
    task = TinyMulticlass()
    X, y = [np.array([1.0]), np.array([-1.0])], [0, 1]
    svm = StructuredSVM(task, 1.0, fixed={0: 5.0}).fit(X, y)
    assert svm.objective_ == pytest.approx(0.0, abs=1e-12)
    assert svm.coef_.tolist() == [5.0, 0.0]


def test_everything_fixed():
    task, X, y, _, _ = problem(2)
    w = np.random.default_rng(0).normal(size=9)
    svm = StructuredSVM(task, 1.0, fixed=dict(enumerate(w))).fit(X, y)
    assert svm.coef_ == pytest.approx(w)
    F = structured_objective(svm.task_, X, y, w, 1.0)
    assert svm.objective_ == pytest.approx(F - 0.5 * w @ w)


class Named(TinyMulticlass):
    """A task with names for its weights."""

    def setup(self, X, Y):
        dim = super().setup(X, Y)
        self.feature_names = [f"class {k // self.n_features}" for k in range(dim)]
        return dim


def test_names():
    X, y = [np.array([1.0]), np.array([-1.0])], [0, 1]
    svm = StructuredSVM(Named(), fixed={"class 0": 0.25}, nonnegative=["class 1"]).fit(X, y)
    assert svm.coef_[0] == 0.25
    assert svm.coef_[1] == 0.0
    with pytest.raises(ValueError, match=r"class 7.*one of"):
        StructuredSVM(Named(), fixed={"class 7": 0.25}).fit(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"fixed": {9: 1.0}}, "an index below 9"),
        ({"fixed": {0: np.nan}}, "finite"),
        ({"fixed": {0: 1.0, -9: 2.0}}, "twice"),
        ({"fixed": {0: -1.0}, "nonnegative": [0]}, "fixed at -1.0"),
        ({"nonnegative": ["a"]}, "an index below"),
    ],
)
def test_contradictions_are_named(params, match):
    task, X, y, _, _ = problem(3)
    with pytest.raises(ValueError, match=match):
        StructuredSVM(task, **params).fit(X, y)


def test_warm_start_and_files(tmp_path):
    task, X, y, fixed, signed = problem(4)
    svm = StructuredSVM(
        task, 1.0, fixed=fixed, nonnegative=signed, warm_start=True, solver=CuttingPlane(), tol=1e-4
    ).fit(X, y)
    first, passes = svm.objective_, svm.history_[-1]["oracle_calls"]
    svm.fit(X, y)
    assert svm.history_[-1]["oracle_calls"] <= passes
    assert svm.objective_ <= first * (1 + 1e-4)
    svm.save(tmp_path / "model")
    again = load(tmp_path / "model", task=svm.task_)
    assert again.fixed == fixed
    assert again.nonnegative == signed
    assert np.array_equal(again.coef_, svm.coef_)
