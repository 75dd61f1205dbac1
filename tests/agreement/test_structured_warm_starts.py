"""Structured fits that start from the working sets of the last one."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import GaussianPrior, SequenceTagger, StructuredSVM
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Chain


def chains(n=15, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    Y = [tuple(int(k) for k in rng.integers(0, 2, 3)) for _ in X]
    return X, Y, rng.uniform(0.5, 2.0, n)


def calls(svm):
    return svm.history_[-1]["oracle_calls"]


@pytest.mark.parametrize("task", [TinyChain(), Chain(2)], ids=["plain", "compiled"])
def test_sets_of_the_last_fit_save_calls(task):
    X, Y, weight = chains(40)
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
    X, Y, _ = chains(20)
    X = [x.copy() for x in X]
    svm = StructuredSVM(TinyChain(), 0.5, tol=1e-6, warm_start=True).fit(X, Y)
    X[3][:] += 1.0  # the same list of the same arrays, with other values
    changed = svm.fit(X, Y)
    fresh = StructuredSVM(TinyChain(), 0.5, tol=1e-6).fit(X, Y)
    assert changed.lower_bound_ <= fresh.objective_
    assert fresh.lower_bound_ <= changed.objective_
    others = [Y[1], *Y[1:]]
    svm.fit(X, others)
    again = StructuredSVM(TinyChain(), 0.5, tol=1e-6).fit(X, others)
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
    X, Y, _ = chains(10)
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
    X, Y, _ = chains(15)
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
