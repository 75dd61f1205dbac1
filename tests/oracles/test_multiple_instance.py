"""Bags: the argmaxes against brute force, compiled against plain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.working_sets import check_sets
from tests.latent_tasks import bags_problem
from tests.referees.problems import dense

from maxmargin import LatentStructuredSVM
from maxmargin.tasks import MultipleInstance
from maxmargin.testing import check_latent_task, latent_objective


def outputs(x):
    return [(-1, None)] + [(1, h) for h in range(x.shape[0])]


def wrong_terms(task, X, Y, H):
    """Planes, offsets and bags of all wrong outputs, the only ones that the argmax considers."""
    planes, offsets, bags = [], [], []
    for i, (x, y, h) in enumerate(zip(X, Y, H, strict=True)):
        for y_hat, h_hat in outputs(x):
            if y_hat != y:
                gap = dense(task.joint_feature(x, y_hat, h_hat)) - dense(
                    task.joint_feature(x, y, h)
                )
                planes.append(gap)
                offsets.append(task.loss(y, y_hat, h_hat))
                bags.append(i)
    return np.array(planes), np.array(offsets), np.array(bags)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 1.0, 3.0]))
def test_bags(seed, sparse, intercept):
    X, Y = bags_problem(seed, n=8, m=4, d=3, sparse=sparse)
    task = MultipleInstance(intercept=intercept)
    check_latent_task(task, X, Y, outputs=outputs, random_state=seed, n_trials=8)
    first = [task.initial(x, y) for x, y in zip(X, Y, strict=True)]
    check_sets(task.pack(X, Y, first), wrong_terms(task, X, Y, first), "exact", seed)


class Plain(MultipleInstance):
    def pack(self, X, Y, H):
        return None


@pytest.mark.parametrize("sparse", [False, True])
def test_compiled_and_plain_find_the_same(sparse):
    X, Y = bags_problem(1, n=40, sparse=sparse)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(Y))
    fits = [
        LatentStructuredSVM(task, 0.5, tol=1e-5).fit(X, Y, weight)
        for task in (MultipleInstance(), Plain())
    ]
    for svm in fits:
        F = latent_objective(svm.task_, X, Y, svm.coef_, 0.5, weight, outputs=outputs)
        assert svm.objective_ == pytest.approx(F, rel=1e-9)
        assert svm.stop_reason_ == "cccp"
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=0.05)


def test_labels():
    X, y = bags_problem(0)
    for labels in (("no", "yes"), (0, 1), (False, True)):
        named = [labels[v > 0] for v in y]
        svm = LatentStructuredSVM(MultipleInstance()).fit(X, np.array(named))
        assert set(svm.predict(X)) == set(labels)
        assert svm.score(X, named) == -np.mean(np.array(svm.predict(X)) != np.array(named))
    with pytest.raises(ValueError, match="must contain two labels"):
        LatentStructuredSVM(MultipleInstance()).fit(X, [1] * len(y))
    with pytest.raises(ValueError, match=r"must contain the labels \(0, 1\) only"):
        LatentStructuredSVM(MultipleInstance(labels=(0, 1))).fit(X, y)
    svm = LatentStructuredSVM(MultipleInstance(labels=(1, -1))).fit(X, y)  # -1 is the positive one
    assert all(h is None for h, label in zip(svm.latent_, y, strict=True) if label == 1)


@pytest.mark.parametrize(
    ("bags", "what"),
    [
        ([np.zeros((2, 3)), np.zeros((0, 3))], "bag 1"),
        ([np.zeros((2, 3)), np.zeros(3)], "bag 1"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "same number of features"),
        ([np.zeros((2, 3)), np.full((2, 3), np.nan)], "NaN"),
    ],
)
def test_bags_that_are_none(bags, what):
    with pytest.raises(ValueError, match=what):
        LatentStructuredSVM(MultipleInstance()).fit(bags, [0, 1])


def test_thousands_of_bags():
    import time

    X, y = bags_problem(0, n=3000, m=12, d=30, shift=4.0)
    began = time.process_time()
    svm = LatentStructuredSVM(MultipleInstance(), 0.1).fit(X, y)
    assert svm.stop_reason_ == "cccp"
    assert time.process_time() - began < 30.0  # a second or two; machines differ
    assert svm.score(X, y) > -0.25
