"""Integer programs: both argmaxes against all 0/1 vectors, bounds of searches cut short, refusals."""

import itertools
import pickle
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment
from tests.reference_optima.problems import solve_structured_qp

from maxmargin import StructuredSVM, load
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Bounded, IntegerProgram, WeightedSolution
from maxmargin.tasks.recombination import recombine
from maxmargin.testing import check_task, structured_objective


def tiny(rng, n=None, d=3):
    """A program with few variables and at least one solution, the label first among them."""
    n = int(rng.integers(1, 8)) if n is None else n
    m = int(rng.integers(0, 4))
    A = rng.integers(-2, 3, size=(m, n)).astype(float)
    label = rng.integers(0, 2, n)
    lower = np.where(rng.random(m) < 0.5, -np.inf, A @ label - rng.integers(0, 2, m))
    upper = np.where(rng.random(m) < 0.3, np.inf, A @ label + rng.integers(0, 2, m))
    x = {"features": rng.normal(size=(n, d))}
    if m:
        x["constraints"] = LinearConstraint(A, lower, upper)
    return x, label


def feasible(x):
    """Every solution, one by one."""
    n = np.shape(x["features"])[0]
    Y = np.array(list(itertools.product((0, 1), repeat=n)))
    if "constraints" in x:
        rows = Y @ x["constraints"].A.T
        keep = (rows >= x["constraints"].lb) & (rows <= x["constraints"].ub)
        Y = Y[keep.all(axis=1)]
    return Y


@pytest.mark.parametrize("sense", ["minimize", "maximize"])
def test_both_argmaxes_against_all_solutions(sense):
    rng = np.random.default_rng(0)
    sign = -1.0 if sense == "minimize" else 1.0
    for _ in range(300):
        x, label = tiny(rng)
        weights = rng.choice([0.0, 1.0, 0.25], size=len(label))  # some are not labeled
        y = WeightedSolution(label, weights)
        w = rng.normal(size=3) * 10 ** rng.uniform(-3, 3)
        task = IntegerProgram(sense=sense)
        assert task.setup([x], [y]) == 3
        Y = feasible(x)
        scores = sign * (Y @ x["features"] @ w)
        found = task.inference(x, w)
        assert found.dtype == np.int64
        assert (found == Y).all(axis=1).any()
        tolerance = 1e-8 * (1.0 + np.abs(scores).max())
        assert sign * (found @ x["features"] @ w) >= scores.max() - tolerance
        losses = np.abs(Y - label) @ weights
        answer = task.loss_augmented_inference(x, y, w)
        assert isinstance(answer, Bounded)
        assert (answer.y == Y).all(axis=1).any()
        value = task.loss(y, answer.y) + sign * (answer.y @ x["features"] @ w)
        best = (losses + scores).max()
        assert best - tolerance <= value <= best + tolerance
        assert best - tolerance <= answer.upper <= best + tolerance


class Assignment(NamedTuple):
    """An input need not be a dict."""

    features: object
    constraints: object


def assignment(rng, k=3, d=4):
    """Rows to columns, one to one; the label minimizes hidden costs."""
    eye, ones = np.eye(k), np.ones((1, k))
    rows = sp.csr_array(np.vstack([np.kron(eye, ones), np.kron(ones, eye)]))
    features = rng.normal(size=(k * k, d))
    teacher = np.array([1.0, -0.5, 0.3, 0.0])[:d]
    costs = (features @ teacher + 0.1 * rng.normal(size=k * k)).reshape(k, k)
    label = np.zeros((k, k), dtype=int)
    label[linear_sum_assignment(costs)] = 1
    return Assignment(features, [LinearConstraint(rows, 1, 1)]), label.ravel()


def permutations(x):
    k = round(x.features.shape[0] ** 0.5)
    for order in itertools.permutations(range(k)):
        yield np.eye(k, dtype=int)[list(order)].ravel()


def test_check_task():
    rng = np.random.default_rng(1)
    X, Y = zip(*[assignment(rng) for _ in range(3)], strict=True)
    check_task(IntegerProgram(), X, Y, outputs=permutations, n_trials=10)
    Y = [WeightedSolution(y, rng.random(9)) for y in Y]
    check_task(IntegerProgram(sense="maximize"), X, Y, outputs=permutations, n_trials=10)


def hungarian(costs, x):
    """A solver of the user's own."""
    k = round(len(costs) ** 0.5)
    y = np.zeros((k, k))
    y[linear_sum_assignment(costs.reshape(k, k))] = 1.0
    return y.ravel()


@pytest.mark.parametrize("solver", [None, hungarian])
@pytest.mark.parametrize(
    ("method", "signed"),
    [(DualCoordinate(), []), (CuttingPlane(), []), (CuttingPlane(), [0, 1])],
    ids=str,
)
def test_training_reaches_the_optimum(solver, method, signed):
    rng = np.random.default_rng(2)
    X, Y = zip(*[assignment(rng) for _ in range(8)], strict=True)
    Y = [WeightedSolution(y, rng.random(9) < 0.7) for y in Y]
    task = IntegerProgram(solver=solver, feature_names=["a", "b", "c", "d"])
    best, w = solve_structured_qp(task, X, Y, 0.5, permutations, fixed={3: 0.2}, nonnegative=signed)
    names = [task.feature_names[k] for k in signed]
    svm = StructuredSVM(
        task, 0.5, fixed={"d": 0.2}, nonnegative=names, tol=1e-6, solver=method
    ).fit(X, Y)
    assert svm.converged_
    assert svm.lower_bound_ <= best * (1 + 1e-7)
    assert best <= svm.objective_ * (1 + 1e-7)
    np.testing.assert_allclose(svm.coef_, w, atol=2e-3)


def knapsack(rng, n=40):
    A = rng.integers(5, 60, size=(5, n)).astype(float)
    x = {
        "features": rng.normal(size=(n, 4)) - 0.3,
        "constraints": (sp.csr_array(A), -np.inf, A.sum(axis=1) / 3),
    }
    return x, np.zeros(n, dtype=int)


@pytest.mark.parametrize(
    "limits", [{"mip_rel_gap": 0.3}, {"mip_rel_gap": 0.05}, {"time_limit": 1e-9}]
)
def test_a_search_cut_short_bounds_the_risk_from_both_sides(limits):
    rng = np.random.default_rng(3)
    loose = 0
    for _ in range(20):
        x, y = knapsack(rng)
        w = rng.normal(size=4)
        exact, short = IntegerProgram(), IntegerProgram(**limits)
        exact.setup([x], [y])
        short.setup([x], [y])
        best = exact.loss_augmented_inference(x, y, w).upper
        answer = short.loss_augmented_inference(x, y, w)
        value = short.loss(y, answer.y) - answer.y @ x["features"] @ w
        assert value <= best + 1e-6
        assert answer.upper >= best - 1e-6
        loose += answer.upper > value + 1e-3
        if "time_limit" in limits:  # no solution in time: the label, and a bound all the same
            assert np.array_equal(answer.y, y)
    assert loose > 0


def test_the_certificate_of_a_search_cut_short_holds():
    rng = np.random.default_rng(4)
    X, Y = zip(*[knapsack(rng, 15) for _ in range(3)], strict=True)
    true = StructuredSVM(IntegerProgram(), 0.05, tol=1e-4).fit(X, Y)
    short = StructuredSVM(IntegerProgram(mip_rel_gap=0.1), 0.05, tol=1e-4, max_iter=40).fit(X, Y)
    assert true.converged_
    assert short.lower_bound_ <= true.objective_ * (1 + 1e-9)
    assert true.lower_bound_ <= short.objective_ * (1 + 1e-9)
    assert short.objective_ > short.lower_bound_


def test_recombinations_are_feasible_and_no_worse():
    rng = np.random.default_rng(7)
    better = 0
    for _ in range(1500):
        x, _ = tiny(rng, n=7)
        Y = feasible(x).astype(float)
        known = list(Y[rng.integers(0, len(Y), 4)])
        costs = rng.normal(size=7)
        columns = sp.csc_array(x["constraints"].A) if "constraints" in x else None
        found = recombine(columns, costs, known[0], known[1:])
        assert (found == Y).all(axis=1).any()
        assert costs @ found <= min(costs @ known[0], *(costs @ y for y in known)) + 1e-12
        better += costs @ found < min(costs @ y for y in known) - 1e-9
    assert better > 100  # and often ahead of all that was known


def test_quick_answers_save_solves_and_no_bound_comes_from_them():
    # many small choices in one program, independent of each other
    rng = np.random.default_rng(8)
    blocks = [assignment(rng) for _ in range(12)]
    A = sp.block_diag([x.constraints[0].A for x, _ in blocks])
    x = {"features": np.vstack([x.features for x, _ in blocks]), "constraints": (A, 1, 1)}
    y = np.concatenate([label for _, label in blocks])
    solves = {}
    for quick in (False, True):
        count = []

        class Counted(IntegerProgram):
            def _solve(self, known, costs, count=count):
                count.append(1)
                return super()._solve(known, costs)

        svm = StructuredSVM(Counted(recombine=quick), 0.1, tol=1e-5).fit([x], [y])
        assert svm.converged_
        solves[quick] = len(count), svm.lower_bound_, svm.objective_
        # F of the weights, by a task that knows nothing yet
        other = IntegerProgram()
        other.setup([x], [y])
        F = structured_objective(other, [x], [y], svm.coef_, 0.1)
        assert svm.objective_ == pytest.approx(F, rel=1e-8)
    assert solves[True][0] <= 0.5 * solves[False][0]
    assert solves[True][1] <= solves[False][2]
    assert solves[False][1] <= solves[True][2]


def test_the_limits_of_a_fit_find_a_true_bound_however_short():
    rng = np.random.default_rng(9)
    X, Y = zip(*[assignment(rng) for _ in range(5)], strict=True)
    for limit in (1, 2, 3):
        svm = StructuredSVM(IntegerProgram(), 10.0, tol=1e-9, max_iter=limit).fit(X, Y)
        assert np.isfinite(svm.objective_)


@pytest.mark.parametrize(
    "engine",
    [
        {"oracle": "expensive"},
        {"oracle": "expensive", "n_jobs": 2},
        {"n_jobs": 2, "engine": "processes"},
    ],
    ids=str,
)
def test_expensive_oracles_and_processes_reach_the_same_optimum(engine):
    rng = np.random.default_rng(10)
    X, Y = zip(*[assignment(rng) for _ in range(8)], strict=True)
    plain = StructuredSVM(IntegerProgram(), 0.5, tol=1e-4).fit(X, Y)
    other = StructuredSVM(IntegerProgram(), 0.5, tol=1e-4, **engine).fit(X, Y)
    assert other.converged_
    assert other.lower_bound_ <= plain.objective_ * (1 + 1e-9)
    assert plain.lower_bound_ <= other.objective_ * (1 + 1e-9)


def test_known_solutions_replace_worse_answers():
    """A solver that forgets: once it has found a solution, worse answers are not taken any more."""
    x = {"features": np.eye(2), "constraints": ([[1, 1]], 0, 1)}
    answers = iter([np.array([0, 1]), np.array([0, 0])])
    task = IntegerProgram(solver=lambda costs, x: Bounded(next(answers), 10.0))
    y = np.array([1, 0])
    task.setup([x], [y])
    w = np.array([1.0, -2.0])
    for _ in range(2):
        assert task.loss_augmented_inference(x, y, w).y.tolist() == [0, 1]


def test_integer_and_continuous_variables_in_a_box():
    # y0 in {0..3}, y1 in [0, 2], y0 + y1 <= 4: the loss is a distance where the label is at a bound
    x = {
        "features": np.array([[1.0], [1.0]]),
        "constraints": LinearConstraint([[1, 1]], -np.inf, 4),
        "bounds": Bounds([0, 0], [3, 2]),
        "integrality": [1, 0],
    }
    y = np.array([3.0, 0.0])
    task = IntegerProgram()
    task.setup([x], [y])
    answer = task.loss_augmented_inference(x, y, np.array([-0.25]))
    # loss 3 - y0 + y1, gain (y0 + y1) / 4: y = (0, 2) has 5 + 0.5
    assert answer.y == pytest.approx([0.0, 2.0])
    assert answer.upper == pytest.approx(5.5)
    assert task.inference(x, np.array([-1.0])).sum() == pytest.approx(4.0)


def test_sparse_features_agree_with_dense_ones():
    rng = np.random.default_rng(5)
    X, Y = zip(*[assignment(rng) for _ in range(4)], strict=True)
    sparse = [x._replace(features=sp.csc_array(x.features)) for x in X]
    a, b = (StructuredSVM(IntegerProgram(), tol=1e-5).fit(inputs, Y) for inputs in (X, sparse))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "label", "match"),
    [
        (
            {},
            [1, 1],
            "example 1: the labeled solution is not feasible: constraint 0 has the value 2",
        ),
        ({}, [2, 0], "variable 0 has the value 2, not in"),
        ({}, [0.5, 0], "not an integer"),
        ({}, [1, 0, 0], "3 values"),
        ({"features": None}, [1, 0], "'features' is missing"),
        ({"features": [[np.nan], [0.0]]}, [1, 0], "NaN"),
        ({"features": [1.0, 2.0]}, [1, 0], "must be a matrix"),
        ({"constraints": ([[1, 1, 1]], 0, 1)}, [1, 0], "3 columns, but there are 2 variables"),
        ({"constraints": 3}, [1, 0], "LinearConstraint"),
        ({"bounds": (1, 0)}, [1, 0], "lower bound above"),
        ({"integrality": 2}, [1, 0], "1 .integer. or 0"),
        ({"bounds": (0, 3), "constraints": None}, [1, 0], "inside its bounds"),
        ({}, WeightedSolution([1, 0], [1, -1]), "nonnegative"),
        ({"features": np.ones((2, 2))}, [1, 0], "same number of features"),
    ],
)
def test_what_is_wrong_is_named(change, label, match):
    good = {"features": np.ones((2, 1)), "constraints": ([[1, 1]], 0, 1)}
    with pytest.raises(ValueError, match=match):
        IntegerProgram().setup([good, {**good, **change}], [[1, 0], label])


def test_programmes_without_a_solution_are_named_at_prediction():
    good = {"features": np.ones((2, 1)), "constraints": ([[1, 1]], 1, 1)}
    svm = StructuredSVM(IntegerProgram()).fit([good], [np.array([1, 0])])
    with pytest.raises(ValueError, match="no feasible solution") as caught:
        svm.predict([good, {**good, "constraints": ([[1, 1]], 3, 3)}])
    assert "input 1" in str(caught.value.__notes__)
    with pytest.raises(ValueError, match="2 features, but the model has 1 weights"):
        svm.predict([{"features": np.ones((2, 2))}])
    x, _ = knapsack(np.random.default_rng(0), 60)
    with pytest.raises(RuntimeError, match="time_limit"):
        IntegerProgram(time_limit=1e-9).inference(x, np.ones(4))


def test_solvers_of_the_users_own_are_checked():
    x = {"features": np.eye(2), "constraints": ([[1, 1]], 0, 1)}
    for answer, match in (([1, 1], "not feasible"), ([1], "shape")):
        task = IntegerProgram(solver=lambda costs, x, answer=answer: answer)
        with pytest.raises(ValueError, match=match):
            StructuredSVM(task).fit([x], [np.array([1, 0])])
    # one that claims to be exact and is not: the label itself is better
    lazy = IntegerProgram(solver=lambda costs, x: np.array([0, 0]))
    with pytest.raises(ValueError, match="worse than its own label"):
        StructuredSVM(lazy, fixed={0: -9.0}).fit([x], [np.array([1, 0])])


@pytest.mark.parametrize(
    "params", [{"sense": "up"}, {"mip_rel_gap": -1.0}, {"time_limit": 0.0}], ids=str
)
def test_parameters_are_checked(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        IntegerProgram(**params)


def test_pickled_and_saved(tmp_path):
    rng = np.random.default_rng(6)
    X, Y = zip(*[assignment(rng) for _ in range(4)], strict=True)
    task = IntegerProgram(time_limit=10.0)
    svm = StructuredSVM(task, tol=1e-3).fit(X, Y)
    again = pickle.loads(pickle.dumps(svm))
    assert not again.task_._known  # inputs do not travel with the task
    assert all(map(np.array_equal, again.predict(X), svm.predict(X)))
    one, two = (t.loss_augmented_inference(X[0], Y[0], svm.coef_) for t in (again.task_, svm.task_))
    assert one.upper == two.upper
    svm.save(tmp_path / "model")
    loaded = load(tmp_path / "model", task=IntegerProgram())
    assert all(map(np.array_equal, loaded.predict(X), svm.predict(X)))


def test_a_bound_of_the_users_solver_that_is_nan_is_refused():
    jobs = {"features": np.eye(2), "constraints": ([[1, 1]], 0, 1)}
    task = IntegerProgram(solver=lambda costs, x: Bounded(np.array([0, 1]), np.nan))
    with pytest.raises(ValueError, match="Return infinity if there is no bound"):
        StructuredSVM(task).fit([jobs], [np.array([0, 1])])


def test_predictions_see_inputs_as_they_are_now():
    jobs = {"features": np.eye(2), "constraints": ([[1, 1]], 0, 1)}
    svm = StructuredSVM(IntegerProgram()).fit([jobs], [np.array([0, 1])])
    assert svm.predict([jobs])[0].tolist() == [0, 1]
    jobs["features"] = -jobs["features"]
    assert svm.predict([jobs])[0].tolist() == svm.predict([dict(jobs)])[0].tolist() == [1, 0]


def test_labels_that_a_solver_left_unrounded_are_named():
    jobs = {"features": np.eye(2), "constraints": ([[1, 1]], 0, 1)}
    with pytest.raises(
        ValueError, match=r"labeled 0\.999999999.*If a solver produced it, round it"
    ):
        StructuredSVM(IntegerProgram()).fit([jobs], [np.array([0.0, 1.0 - 1e-9])])
