"""Margins of structured examples, and fits warm-started from the working sets of the last one."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from tests.contracts.risk import check_risk
from tests.referees.optimum import optimum, program_of
from tests.referees.problems import solve_structured_qp, terms_of
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import GaussianPrior, SequenceTagger, StructuredSVM
from maxmargin.risks import TaskRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Bounded, Chain


class Scaled(TinyChain):
    """The reference: outputs come with a factor of their loss, x with a dummy."""

    def loss(self, y, y_hat):
        return y[1] * super().loss(y[0], y_hat[0])

    def outputs(self, x):
        return [(z, 1.0) for z in super().outputs(x)]

    def joint_feature(self, x, y):
        return super().joint_feature(x, y[0])

    def setup(self, X, Y):
        return super().setup(X, [y[0] for y in Y])


class Truncated(TinyChain):
    """An oracle that returns a bound, and sometimes a poor output."""

    def loss_augmented_inference(self, x, y, w):
        best = super().loss_augmented_inference(x, y, w)
        return Bounded(best, self.loss(y, best) + self._score(x, best, w) + 0.1)


def chains(n=15, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    Y = [tuple(int(k) for k in rng.integers(0, 2, 3)) for _ in X]
    return X, Y, rng.uniform(0.2, 3.0, n), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("solver", [DualCoordinate(), CuttingPlane()], ids=["sets", "planes"])
def test_the_optimum_of_an_independent_qp(rescaling, solver):
    X, Y, margin, weight = chains()
    if rescaling == "margin":
        best, _ = solve_structured_qp(
            Scaled(), X, list(zip(Y, margin, strict=True)), 0.3, Scaled.outputs.__get__(_ready(X, Y)),
            weight=weight,
        )  # fmt: skip
    else:  # m Delta (1 + <w / m, dPsi>): planes Delta dPsi, offsets m Delta
        best = _slack_optimum(X, Y, margin, weight, 0.3)
    svm = StructuredSVM(TinyChain(), 0.3, tol=1e-6, rescaling=rescaling, solver=solver)
    svm.fit(X, Y, weight, sample_margin=margin)
    assert svm.converged_
    assert svm.lower_bound_ <= best * (1.0 + 1e-8)
    assert best <= svm.objective_ * (1.0 + 1e-8)


def _ready(X, Y):
    task = Scaled()
    task.setup(X, [(y, 1.0) for y in Y])
    return task


def _slack_optimum(X, Y, margin, weight, C):
    task = TinyChain()
    task.setup(X, Y)
    planes, offsets, examples = terms_of(task, X, Y, task.outputs, "slack")
    return optimum(program_of(planes, margin[examples] * offsets, examples, C * weight)).upper


def test_the_risk_is_a_risk_and_bounds_of_truncated_oracles_are_true():
    X, Y, margin, weight = chains(8)
    task = TinyChain()
    dim = task.setup(X, Y)
    risk = TaskRisk(task, X, Y, dim, sample_weight=weight, sample_margin=margin)
    check_risk(risk)
    loose = Truncated()
    loose.setup(X, Y)
    bounded = TaskRisk(loose, X, Y, dim, sample_weight=weight, sample_margin=margin)
    for w in np.random.default_rng(0).normal(size=(10, dim)):
        exact, at = risk.evaluate(w).value, bounded.evaluate(w)
        assert at.value <= exact + 1e-9
        assert exact <= at.upper + 1e-9
        assert at.upper == pytest.approx(exact + 0.1 * weight @ margin)


def test_compiled_tasks_take_margins_by_their_python_methods():
    X, Y, margin, weight = chains(10)
    Y = [np.array(y) for y in Y]
    chain = StructuredSVM(Chain(2), 0.3, tol=1e-5).fit(X, Y, weight, sample_margin=margin)
    cutting = StructuredSVM(Chain(2), 0.3, tol=1e-5, solver=CuttingPlane())
    cutting.fit(X, Y, weight, sample_margin=margin)
    assert chain.lower_bound_ <= cutting.objective_ * (1 + 1e-9)
    assert cutting.lower_bound_ <= chain.objective_ * (1 + 1e-9)
    plain = StructuredSVM(Chain(2), 0.3, tol=1e-5).fit(X, Y, weight)
    ones = StructuredSVM(Chain(2), 0.3, tol=1e-5).fit(X, Y, weight, sample_margin=np.ones(10))
    assert ones.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    task = Chain(2)
    dim = task.setup(X, Y)
    with pytest.raises(ValueError, match="no margins"):
        TaskRisk(task, X, Y, dim, examples=task.pack(X, Y), sample_margin=margin)


@pytest.mark.parametrize("bad", [np.ones(3), np.zeros(15), np.full(15, np.nan), -np.ones(15)])
def test_margins_are_checked(bad):
    X, Y, _, _ = chains()
    with pytest.raises(ValueError, match="sample_margin"):
        StructuredSVM(TinyChain()).fit(X, Y, sample_margin=bad)


# -- warm starts from the working sets of the last fit ---------------------------------------------


def calls(svm):
    return svm.history_[-1]["oracle_calls"]


@pytest.mark.parametrize("task", [TinyChain(), Chain(2)], ids=["plain", "compiled"])
def test_sets_of_the_last_fit_save_calls(task):
    X, Y, _, weight = chains(40)
    Y = [np.array(y) for y in Y] if isinstance(task, Chain) else Y
    warm = StructuredSVM(task, 0.2, tol=1e-5, warm_start=True).fit(X, Y)
    for C, s in ((0.2, None), (0.25, None), (0.25, weight)):
        warm.set_params(C=C).fit(X, Y, s)
        cold = StructuredSVM(task, C, tol=1e-5).fit(X, Y, s)
        assert warm.converged_
        assert calls(warm) < 0.7 * calls(cold)
        assert warm.lower_bound_ <= cold.objective_
        assert cold.lower_bound_ <= warm.objective_


def test_other_examples_are_never_mixed_with_old_planes():
    X, Y, margin, _ = chains(20)
    X = [x.copy() for x in X]
    svm = StructuredSVM(TinyChain(), 0.5, tol=1e-6, warm_start=True).fit(X, Y)
    X[3][:] += 1.0  # the same list of the same arrays, with other values
    changed = svm.fit(X, Y)
    fresh = StructuredSVM(TinyChain(), 0.5, tol=1e-6).fit(X, Y)
    assert changed.lower_bound_ <= fresh.objective_
    assert fresh.lower_bound_ <= changed.objective_
    others = [Y[1], *Y[1:]]
    for more in ({}, {"sample_margin": margin}):
        svm.fit(X, others, **more)
        again = StructuredSVM(TinyChain(), 0.5, tol=1e-6).fit(X, others, **more)
        assert svm.lower_bound_ <= again.objective_
        assert again.lower_bound_ <= svm.objective_
    classes = StructuredSVM(TinyMulticlass(), 0.5, tol=1e-6, warm_start=True)
    for cost in (1.0 - np.eye(2), 3.0 * (1.0 - np.eye(2))):  # another loss of the same dimension
        classes.set_params(task=TinyMulticlass(cost)).fit([x[0] for x in X], [y[0] for y in Y])
        best = StructuredSVM(TinyMulticlass(cost), 0.5, tol=1e-6)
        best.fit([x[0] for x in X], [y[0] for y in Y])
        assert classes.lower_bound_ <= best.objective_
        assert best.lower_bound_ <= classes.objective_


def test_copies_leave_the_sets_behind():
    X, Y, _, _ = chains(10)
    svm = StructuredSVM(TinyChain(), 0.5, warm_start=True).fit(X, Y)
    assert hasattr(svm, "_kept")
    assert not hasattr(pickle.loads(pickle.dumps(svm)), "_kept")
    assert not hasattr(clone(svm), "_kept")
    svm.set_params(solver=CuttingPlane()).fit(X, Y)  # cannot use the working sets
    assert svm.converged_


def test_a_tagger_goes_on_from_its_sets():
    rng = np.random.default_rng(1)
    X = [[[f"w{k}"] for k in rng.integers(0, 30, 8)] for _ in range(60)]
    y = [[str(k) for k in rng.integers(0, 3, 8)] for _ in X]
    warm = SequenceTagger(C=0.3, tol=1e-4, warm_start=True).fit(X, y)
    warm.set_params(C=0.35).fit(X, y)
    cold = SequenceTagger(C=0.35, tol=1e-4).fit(X, y)
    assert calls(warm) < 0.7 * calls(cold)
    assert warm.lower_bound_ <= cold.objective_
    assert cold.lower_bound_ <= warm.objective_
    y[0] = y[1]
    warm.fit(X, y)
    fresh = SequenceTagger(C=0.35, tol=1e-4).fit(X, y)
    assert warm.lower_bound_ <= fresh.objective_
    assert fresh.lower_bound_ <= warm.objective_


def test_sets_around_one_center_are_not_taken_for_another():
    X, Y, _, _ = chains(15)
    Y = [np.array(y) for y in Y]
    warm = StructuredSVM(Chain(2), 0.3, tol=1e-6, warm_start=True)
    for mean, oracle in (
        (0.0, "cheap"),
        (0.5, "cheap"),
        (0.5, "cheap"),
        (0.5, "expensive"),
        (-0.5, "expensive"),
    ):
        prior = GaussianPrior(mean=mean)
        warm.set_params(prior=prior, oracle=oracle).fit(X, Y)
        fresh = StructuredSVM(Chain(2), 0.3, tol=1e-6, prior=prior).fit(X, Y)
        assert warm.converged_
        assert warm.lower_bound_ <= fresh.objective_ * (1 + 1e-9)
        assert fresh.lower_bound_ <= warm.objective_ * (1 + 1e-9)
