"""Slack rescaling by the margin argmax, against enumeration.

The bound is never too small, the value is that of an output, the largest of all vertices of the hull.
Graphs, grammars, and integer programs are compared with all outputs by ``check_task`` in their own files.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.oracles.test_integer_program import feasible, tiny
from tests.reference_optima.problems import brute_force_objective
from tests.tiny_tasks import TinyChain

from maxmargin import StructuredSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Bounded, Chain, GraphLabeling, IntegerProgram, Parsing, Task
from maxmargin.tasks.slack_search import CALLS, common_divisor
from maxmargin.testing.reference import brute_force_inference, violation

seeds = st.integers(0, 2**32 - 1)
SOLVERS = {
    "working sets": "auto",
    "n-slack": DualCoordinate(batch_size="all"),
    "cached model": CuttingPlane(),
    "plain": CuttingPlane(use_cache=False, line_search=False),
}


class Hidden(Task):
    """Rows of features behind a margin argmax; the true output is row 0."""

    def __init__(self, losses, step=0.0, open_=0.0, scale=1.0):
        self.losses, self.step, self.open, self.scale = np.asarray(losses), step, open_, scale
        self.calls = 0

    def setup(self, X, Y):
        return X[0].shape[1]

    def joint_feature(self, x, y):
        return x[y]

    def loss(self, y, y_hat):
        return float(self.losses[y_hat])

    def inference(self, x, w):
        return int(np.argmax(x @ w))

    def loss_augmented_inference(self, x, y, w):
        self.calls += 1
        values = self.losses + x @ w
        best = int(np.argmax(values))
        return Bounded(best, values[best] + self.open) if self.open else best

    def loss_step(self, x, y):
        return self.step


def draw(seed, step, open_=0.0):
    """Outputs whose scores fall with their losses, as those of a trained model do."""
    rng = np.random.default_rng(seed)
    m, scale = int(rng.integers(1, 40)), 10.0 ** rng.uniform(-3, 3)
    losses = rng.integers(0, 9, m) * 0.25 if rng.random() < 0.6 or step else 5 * rng.random(m)
    losses[0] = 0.0
    x = rng.normal(size=(m, 3))
    x[:, 0] -= rng.choice([0.0, 0.5, 3.0]) * losses
    task = Hidden(losses * scale, step * scale, open_ * scale)
    return task, x, np.array([rng.uniform(0.1, 2), *rng.normal(size=2)]) / rng.choice([1.0, scale])


def hull_vertices(points):
    """The outputs that are the only maximizer of loss + s height for some s > 0."""
    for k, (loss, height) in enumerate(points):
        low, high = 0.0, np.inf  # loss' - loss <= s (height - height')
        for other_loss, other_height in points[np.arange(len(points)) != k]:
            more, less = other_loss - loss, height - other_height
            if less > 0.0:
                low = max(low, more / less)
            elif less < 0.0:
                high = min(high, more / less)
            elif more >= 0.0:
                high = -1.0
        if low < high * (1 - 1e-9):
            yield k


@given(seed=seeds, step=st.sampled_from([0.0, 0.25]), open_=st.sampled_from([0.0, 1e-6, 0.1]))
def test_the_bound_holds_and_the_best_vertex_is_found(seed, step, open_):
    task, x, w = draw(seed, step, open_)
    answer = task.slack_augmented_inference(x, 0, w)
    assert 0 < task.calls <= CALLS
    heights = 1.0 + (x - x[0]) @ w
    values = task.losses * heights
    noise = 1e-9 * (1.0 + np.abs(values).max())
    found = answer.y if isinstance(answer, Bounded) else answer
    upper = answer.upper if isinstance(answer, Bounded) else values[found]
    assert upper >= values.max() - noise
    vertices = list(hull_vertices(np.column_stack([task.losses, heights])))
    if not open_:
        assert values[found] >= max([0.0, *(values[k] for k in vertices)]) - noise


@given(seed=seeds, step=st.sampled_from([0.0, 0.25]))
def test_the_bound_is_the_largest_product_in_the_hull(seed, step):
    """By another method: all pairs of outputs, with the largest product on the line between them."""
    task, x, w = draw(seed, step)
    heights = 1.0 + (x - x[0]) @ w
    best = 0.0
    for (d, h), (e, g) in itertools.combinations_with_replacement(
        zip(task.losses, heights, strict=True), 2
    ):
        shares = np.linspace(0.0, 1.0, 2001)
        if task.step:
            low, high = sorted((d, e))
            there = task.step * np.arange(round(low / task.step), round(high / task.step) + 1)
            shares = np.zeros(1) if d == e else (there - d) / (e - d)
        line = (d + shares * (e - d)) * (h + shares * (g - h))
        best = max(best, float(line.max()))
    answer = task.slack_augmented_inference(x, 0, w)
    upper = answer.upper if isinstance(answer, Bounded) else task.losses[answer] * heights[answer]
    assert upper == pytest.approx(best, rel=1e-5, abs=1e-9 * (1 + np.abs(task.losses).max()))


@given(seed=seeds)
def test_with_losses_0_and_1_there_is_no_gap(seed):
    task, x, w = draw(seed, 0.25)
    task.losses, task.step = np.sign(task.losses), 1.0
    values = task.losses * (1.0 + (x - x[0]) @ w)
    answer = task.slack_augmented_inference(x, 0, w)
    assert not isinstance(answer, Bounded)
    assert values[answer] == pytest.approx(values.max(), abs=1e-9 * (1 + np.abs(values).max()))


@given(seed=seeds)
def test_integer_programs_of_any_weights(seed):
    rng = np.random.default_rng(seed)
    x, y = tiny(rng, int(rng.integers(1, 5)))
    task, w = IntegerProgram(), rng.normal(size=3)
    task.setup([x], [y])
    _, value = brute_force_inference(task, x, w, feasible, y, "slack")
    answer = task.slack_augmented_inference(x, y, w)
    bounded = isinstance(answer, Bounded)
    found = violation(task, x, y, answer.y if bounded else answer, w, "slack")
    upper = answer.upper if bounded else found
    assert found - 1e-6 * (1 + abs(value)) <= value <= upper + 1e-6 * (1 + abs(value))


def test_labels_of_integer_programs_beyond_their_bounds():
    x, task = {"features": np.eye(3)}, IntegerProgram()
    for noise, step in ((0.0, 1.0), (9e-6, 0.0)):
        y = np.array([0.0, 1.0, 1.0 + noise])
        task.setup([x], [y])
        assert task.loss_step(x, y) == step
        task.slack_augmented_inference(x, y, np.array([0.3, -0.2, 0.1]))


def test_wrong_argmaxes_and_steps_are_named():
    x, w = np.array([[1.0], [0.0], [0.5]]), np.ones(1)

    class Wrong(Hidden):
        def loss_augmented_inference(self, x, y, w):
            return int(np.argmax(self.losses - x @ w))

    class Nothing(Hidden):
        def loss_augmented_inference(self, x, y, w):
            pass

    with pytest.raises(ValueError, match=r"Wrong\.loss_augmented_inference is worse"):
        Wrong([0.0, 0.1, 0.2]).slack_augmented_inference(x, 0, 10 * w)
    with pytest.raises(TypeError, match="returned None"):
        Nothing([0.0, 1.0, 2.0]).slack_augmented_inference(x, 0, w)
    with pytest.raises(ValueError, match=r"1.5 is not a multiple of Hidden.loss_step"):
        Hidden([0.0, 1.5, 1.0], step=1.0).slack_augmented_inference(x, 0, w)


def test_an_inexact_argmax_gives_no_bound():
    task = Hidden([0.0, 1.0, 4.0])
    task.oracle_kind = "undergenerating"
    answer = task.slack_augmented_inference(np.array([[0.0], [1.0], [-0.5]]), 0, np.ones(1))
    assert answer in (1, 2)  # 1 * 2 and 4 * 0.5: an exact argmax leaves a gap between them
    task.oracle_kind = "exact"
    answer = task.slack_augmented_inference(np.array([[0.0], [1.0], [-0.5]]), 0, np.ones(1))
    assert answer.upper == pytest.approx(3.125)


def test_unknown_bounds_stay_unknown():
    task = Hidden([0.0, 1.0], open_=np.inf)
    answer = task.slack_augmented_inference(np.array([[0.0], [1.0]]), 0, np.ones(1))
    assert answer == Bounded(1, np.inf)


def test_steps_of_the_tasks():
    assert common_divisor([0.0, 0.75, 1.0]) == 0.25
    assert common_divisor([]) == common_divisor([1.0, 1e-9]) == common_divisor([0.1, 1.0]) == 0.0
    assert Parsing(wrong_cost=0.5).loss_step(None, None) == 0.5
    assert Parsing(loss="zero_one", wrong_cost=0.3).loss_step(None, None) == 1.0
    assert GraphLabeling(2, cost=[[0, 3], [6, 0]]).loss_step(None, None) == 3.0
    x, y = {"features": np.eye(2), "integrality": [1, 0]}, np.array([0.0, 1.0])
    task = IntegerProgram()
    task.setup([x], [y])
    assert task.loss_step(x, y) == 0.0
    assert Chain(2, 1, cost=[[0, 2], [4, 0]]).loss_step(None, np.array([0, 1])) == 2.0


# -- fits -------------------------------------------------------------------------------------------


class Searched(TinyChain):
    slack_augmented_inference = Task.slack_augmented_inference

    def __init__(self, step=1.0):
        self.step = step

    def loss_step(self, x, y):
        return self.step


def chains(seed, n=12):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(rng.integers(2, 5)), 2)) for _ in range(n)]
    Y = [tuple(int(a + 0.7 * rng.normal() > 0) for a in x[:, 0]) for x in X]
    return X, Y


@pytest.mark.filterwarnings("ignore:.*stalled before")
@pytest.mark.parametrize("solver", list(SOLVERS))
def test_fits_enclose_the_optimum_of_the_direct_argmax(solver):
    X, Y = chains(0)
    direct = StructuredSVM(TinyChain(), rescaling="slack", tol=1e-6, max_iter=10_000).fit(X, Y)
    assert direct.converged_
    svm = StructuredSVM(Searched(), rescaling="slack", tol=1e-2, solver=SOLVERS[solver]).fit(X, Y)
    F = brute_force_objective(svm.task_, X, Y, svm.coef_, 1.0, svm.task_.outputs, rescaling="slack")
    assert svm.objective_ >= F * (1 - 1e-9)
    assert svm.lower_bound_ <= direct.objective_ * (1 + 1e-9)
    assert svm.certificate_ == "exact"


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_fits_end_where_only_the_hull_gap_is_left(solver):
    """Without a step, no gap closes: the fit ends as soon as the solver can do no more."""
    X, Y = chains(0)
    svm = StructuredSVM(Searched(0.0), rescaling="slack", tol=1e-3, solver=SOLVERS[solver])
    with pytest.warns(ConvergenceWarning, match="stalled before.*define loss_step"):
        svm.fit(X, Y)
    direct = StructuredSVM(TinyChain(), rescaling="slack", tol=1e-3).fit(X, Y)
    assert (svm.stop_reason_, svm.converged_) == ("stalled", False)
    assert svm.n_iter_ < 250
    assert direct.lower_bound_ <= svm.objective_
    assert svm.lower_bound_ <= direct.objective_
    # the weights are nearly optimal all the same
    F = brute_force_objective(svm.task_, X, Y, svm.coef_, 1.0, svm.task_.outputs, rescaling="slack")
    assert direct.objective_ * 1.1 >= F
