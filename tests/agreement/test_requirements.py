"""A solver that does not fit a risk is refused before it starts, with advice."""

import numpy as np
import pytest

from maxmargin import minimize
from maxmargin.core import SquaredNorm
from maxmargin.kernels import RBF
from maxmargin.losses import FBeta, Hinge, Logistic
from maxmargin.risks import KernelRisk, ScoreRisk, TaskRisk
from maxmargin.solvers import (
    CuttingPlane,
    DualCoordinate,
    KernelBlocks,
    Newton,
    SampledCuts,
    SampledNewton,
)
from maxmargin.tasks import Chain

X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 0.5]])
Y = np.array([1.0, -1.0, 1.0, -1.0])
CHAINS, LABELS = [np.eye(3)], [np.array([0, 1, 1])]


def scores(loss):
    return ScoreRisk(X, Y, loss)


def chains():
    task = Chain(n_labels=2)
    return TaskRisk(task, CHAINS, LABELS, task.setup(CHAINS, LABELS))


@pytest.mark.parametrize(
    ("make", "solver", "match"),
    [
        (chains, Newton(), r"Newton cannot train TaskRisk.*Use solver=CuttingPlane\(\)"),
        (chains, CuttingPlane(space="rows"), "needs a risk of scores X w.*space='features'"),
        (chains, KernelBlocks(), r"needs a risk of functions of a kernel.*CuttingPlane\(\)"),
        (chains, SampledCuts(), r"whose cuts can be sampled.*CuttingPlane\(\)"),
        (lambda: scores(FBeta()), Newton(), r"cannot use the newton method.*FBeta.*CuttingPlane"),
        (lambda: scores(FBeta()), DualCoordinate(), r"cannot use the coordinate method.*FBeta"),
        (lambda: scores(Logistic()), DualCoordinate(), r"coordinate method here.*Logistic"),
        (lambda: scores(Hinge()), SampledCuts(constant_time=True), "constant_time=False"),
        (
            lambda: scores(Hinge()),
            SampledNewton(),
            "sample method here: the loss Hinge is not smooth",
        ),
        (lambda: scores(Logistic()), SampledNewton(), "too few rows for a sample"),
        (lambda: KernelRisk(RBF(1.0), X, Y), Newton(), "Newton cannot train KernelRisk"),
        (lambda: KernelRisk(RBF(1.0), X, Y), DualCoordinate(), "no working sets"),
    ],
)
def test_refusals(make, solver, match):
    with pytest.raises(TypeError, match=match):
        minimize(make(), 1.0, solver=solver)


@pytest.mark.parametrize("solver", ["newton", object()])
def test_what_is_no_solver_is_told_so(solver):
    with pytest.raises(TypeError, match=r"is not a solver: use an object of maxmargin\.solvers"):
        minimize(scores(Hinge()), 1.0, solver=solver)


def test_a_method_that_does_not_exist_is_told_so():
    why = scores(Hinge()).refusal("simplex", SquaredNorm())
    known = "coordinate, block coordinate, shard coordinate, newton, quasi-newton, stream, sample"
    assert why == f"there is no such method, only {known}"


def test_a_risk_that_lacks_something_is_told_what():
    class Half:
        dim, n_blocks, lower_bound, oracle = 1, 1, 0.0, "exact"

    with pytest.raises(
        TypeError, match="Half is not a risk: it must have n_examples, offers, evaluate"
    ):
        minimize(Half(), 1.0)
