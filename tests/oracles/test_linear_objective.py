"""Predict, then optimize: SPO+ and both argmaxes against all decisions, plain subgradient steps, refusals."""

import heapq
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint
from tests.reference_optima.problems import solve_structured_qp

from maxmargin import StructuredSVM, load
from maxmargin.metrics import regret_score
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Bounded, LinearObjective, TrueCosts
from maxmargin.testing import check_kernel_inputs, check_task, structured_objective

#: choose two of four
ROWS = LinearConstraint(np.ones((1, 4)), 2, 2)
POINTS = np.array([y for y in itertools.product((0.0, 1.0), repeat=4) if sum(y) == 2])


def argmin(costs):
    """The two smallest costs, by sorting."""
    y = np.zeros(4)
    y[np.argsort(costs, kind="stable")[:2]] = 1.0
    return y


FEASIBLE = {"points": POINTS, "function": argmin, "rows": ROWS}


def draw(rng, n, shared):
    """Features, and true costs of either sign around a linear function of them."""
    X = rng.normal(size=(n, 3) if shared else (n, 4, 2))
    teacher = rng.normal(size=(4, 3)) if shared else rng.normal(size=2)
    costs = X @ teacher.T if shared else X @ teacher
    return X, costs + 0.5 * rng.normal(size=(n, 4))


def predicted(x, w):
    return w.reshape(4, 3) @ x if x.ndim == 1 else x @ w


def spo_plus(x, c, w, sign):
    """As Elmachtoub and Grigas define it: z*(c) = min c'y, and max_y (c - 2 c^)'y + 2 c^'y* - z*(c)."""
    c, guess = sign * c, sign * predicted(x, w)
    best = POINTS[np.argmin(POINTS @ c)]
    return (POINTS @ (c - 2 * guess)).max() + 2 * guess @ best - c @ best


@pytest.mark.parametrize("kind", FEASIBLE)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("labels", ["costs", "decisions"])
def test_check_task(kind, shared, labels):
    X, costs = draw(np.random.default_rng(0), 3, shared)
    for sense in ("minimize", "maximize"):
        task = LinearObjective(FEASIBLE[kind], sense=sense)
        Y = task.labels(X, costs)
        Y = Y if labels == "costs" else [y.decision for y in Y]
        check_task(task, list(X), Y, outputs=lambda x: iter(POINTS), n_trials=6)


@pytest.mark.parametrize("sense", ["minimize", "maximize"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_objective_is_spo_plus_and_its_optimum_is_found(sense, shared):
    rng = np.random.default_rng(1)
    X, costs = draw(rng, 12, shared)
    sign, C = (1.0 if sense == "minimize" else -1.0), 0.3
    weight = rng.uniform(0.5, 2.0, 12)

    def F(w):
        losses = [spo_plus(x, c, w, sign) for x, c in zip(X, costs, strict=True)]
        return w @ w / 2 + C * weight @ losses

    for feasible in FEASIBLE.values():
        task = LinearObjective(feasible, sense=sense)
        Y = task.labels(X, costs)
        task.setup(X, Y)
        for _ in range(5):
            w = rng.normal(size=task.dim) * 10 ** rng.uniform(-2, 2)
            ours = structured_objective(task, X, Y, w, C, weight=weight)
            assert ours == pytest.approx(F(w), rel=1e-9)
        scaled = LinearObjective(feasible, sense=sense)
        svm = StructuredSVM(scaled, C, tol=1e-6).fit(X, Y, sample_weight=weight)
        assert svm.converged_
        assert svm.objective_ == pytest.approx(F(svm.coef_), rel=1e-9)
    # no subgradient step is ever below the lower bound, and none beats the optimum
    w, reached = np.zeros(task.dim), np.inf
    for t in range(1, 500):
        g = w.copy()
        for x, y, c, s in zip(X, Y, costs, weight, strict=True):
            worst = POINTS[np.argmax(POINTS @ (sign * (c - 2 * predicted(x, w))))]
            change = 2 * sign * (y.decision - worst)
            g += C * s * (np.outer(change, x).ravel() if shared else x.T @ change)
        w -= g / t
        reached = min(reached, F(w))
    assert svm.lower_bound_ <= reached <= svm.objective_ * 1.02
    assert svm.objective_ <= reached * (1 + 1e-6)


@pytest.mark.parametrize("labels", ["costs", "decisions"])
@pytest.mark.parametrize("method", ["auto", CuttingPlane()], ids=str)
def test_training_agrees_with_a_quadratic_program(labels, method):
    X, costs = draw(np.random.default_rng(2), 10, False)
    for feasible in FEASIBLE.values():
        task = LinearObjective(feasible)
        Y = task.labels(X, costs)
        Y = Y if labels == "costs" else [y.decision for y in Y]
        best, w = solve_structured_qp(task, X, Y, 0.5, lambda x: POINTS)
        svm = StructuredSVM(task, 0.5, tol=1e-6, solver=method).fit(X, Y)
        assert svm.lower_bound_ <= best * (1 + 1e-7)
        assert best <= svm.objective_ * (1 + 1e-7)
        assert svm.converged_
        np.testing.assert_allclose(svm.coef_, w, atol=2e-3)


def test_distances_between_any_points_need_not_be_linear():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(7, 4))
    X = rng.normal(size=(6, 4, 2))
    Y = points[rng.integers(0, 7, 6)]
    check_task(LinearObjective(points), X, Y, outputs=lambda x: points, n_trials=12)


GRID = [((r, c), (r + a, c + 1 - a)) for r in range(4) for c in range(4) for a in (0, 1)]
GRID = [(a, b) for a, b in GRID if max(b) < 4]


def shortest_path(costs, dijkstra):
    """From one corner to the other: Dijkstra's algorithm, or in the order of the nodes."""
    nodes = sorted({a for a, _ in GRID} | {(3, 3)}, key=lambda a: (sum(a), a))
    far, back, done = {nodes[0]: 0.0}, {}, set()
    queue = [(0.0, nodes[0])]
    for node in nodes if not dijkstra else itertools.repeat(None):
        if dijkstra:
            _, node = heapq.heappop(queue)
            if node == (3, 3):
                break
            if node in done:
                continue
        done.add(node)
        for k, (a, b) in enumerate(GRID):
            if a == node and b not in done and far[a] + costs[k] < far.get(b, np.inf):
                far[b], back[b] = far[a] + costs[k], k
                heapq.heappush(queue, (far[b], b))
    y, at = np.zeros(len(GRID)), (3, 3)
    while at != (0, 0):
        y[back[at]] = 1.0
        at = GRID[back[at]][0]
    return y


def test_solvers_that_fail_for_negative_costs_are_refused_before_training():
    rng = np.random.default_rng(4)
    X, costs = rng.normal(size=(5, 2)), rng.uniform(1.0, 3.0, (5, len(GRID)))
    exact = LinearObjective(lambda c: shortest_path(c, dijkstra=False))
    greedy = LinearObjective(lambda c: shortest_path(c, dijkstra=True))
    Y = exact.labels(X, costs)
    assert all(map(exact.same, Y, greedy.labels(X, costs)))  # it is right for positive costs
    assert StructuredSVM(exact).fit(X, Y).converged_
    with pytest.raises(ValueError, match=r"can be negative.*Dijkstra's algorithm is not"):
        StructuredSVM(greedy).fit(X, Y)
    with pytest.raises(ValueError, match="Dijkstra"):  # labels are decisions
        StructuredSVM(greedy).fit(X, [y.decision for y in Y])

    def demanding(costs):
        if (costs < 0).any():
            raise KeyError("negative weight")
        return shortest_path(costs, dijkstra=True)

    with pytest.raises(ValueError, match=r"failed for negative costs: KeyError.*Dijkstra"):
        StructuredSVM(LinearObjective(demanding)).fit(X, Y)


def test_searches_cut_short_bound_the_optimum():
    X, costs = draw(np.random.default_rng(5), 8, True)

    def short(c):
        values = np.sort(POINTS @ c)  # the second best, and a bound
        return Bounded(POINTS[np.argsort(POINTS @ c)[1]], -values[0] + 0.01)

    Y = LinearObjective(POINTS).labels(X, costs)
    true = StructuredSVM(LinearObjective(POINTS), tol=1e-6).fit(X, Y)
    svm = StructuredSVM(LinearObjective(short), tol=1e-3, max_iter=20)
    with pytest.warns(UserWarning, match="gap"):
        svm.fit(X, Y)
    assert svm.lower_bound_ <= true.objective_ * (1 + 1e-9)
    assert true.lower_bound_ <= svm.objective_ * (1 + 1e-9)


def test_feasible_sets_that_differ_by_example():
    rng = np.random.default_rng(6)
    sizes = rng.integers(2, 5, 6)
    inputs = [
        {"features": rng.normal(size=(n, 2)), "constraints": (np.ones((1, n)), 1, 1)} for n in sizes
    ]
    costs = [x["features"] @ [1.0, -2.0] for x in inputs]

    def one(costs, x):
        assert len(costs) == len(x["features"])
        return np.eye(len(costs))[np.argmin(costs)]

    models = []
    for feasible in (None, one):
        task = LinearObjective(feasible)
        models.append(StructuredSVM(task, tol=1e-5).fit(inputs, task.labels(inputs, costs)))
        assert regret_score(task.labels(inputs, costs), models[-1].predict(inputs)) == 0.0
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-3)


@pytest.mark.parametrize(
    "engine",
    [{"oracle": "expensive"}, {"oracle": "expensive", "n_jobs": 2, "engine": "processes"}],
    ids=str,
)
def test_expensive_solvers_and_processes(engine):
    X, costs = draw(np.random.default_rng(7), 10, True)
    for feasible in (argmin, ROWS):
        task = LinearObjective(feasible)
        Y = task.labels(X, costs)
        plain = StructuredSVM(task, tol=1e-3).fit(X, Y)
        other = StructuredSVM(task, tol=1e-3, **engine).fit(X, Y)
        assert other.converged_
        assert other.lower_bound_ <= plain.objective_ * (1 + 1e-9)
        assert plain.lower_bound_ <= other.objective_ * (1 + 1e-9)


def test_kernels_and_saved_models(tmp_path):
    X, costs = draw(np.random.default_rng(8), 12, True)
    task = LinearObjective(POINTS)
    Y = task.labels(X, costs)
    check_kernel_inputs(task, X, Y)
    for params in ({}, {"kernel": "rbf"}):
        svm = StructuredSVM(task, C=10.0, **params).fit(X, Y)
        svm.save(tmp_path / "model")
        loaded = load(tmp_path / "model", task=LinearObjective(POINTS))
        assert all(map(np.array_equal, loaded.predict(X), svm.predict(X)))
    assert -svm.score(X, Y) == pytest.approx(regret_score(Y, svm.predict(X), normalize=False))


def test_arrays_are_not_shared_with_the_user():
    buffer = np.zeros(4)

    def reusing(costs):
        buffer[:] = argmin(costs)
        return buffer

    X, costs = draw(np.random.default_rng(10), 5, False)
    Y = LinearObjective(reusing).labels(X, costs)
    for a, b in zip(Y, LinearObjective(POINTS).labels(X, costs), strict=True):
        assert np.array_equal(a.decision, b.decision)
    task = LinearObjective(POINTS)
    task.inference(X[0], np.ones(2))[:] = 7.0
    assert task.feasible.max() == 1.0


def test_sparse_features_agree_with_dense_ones():
    X, costs = draw(np.random.default_rng(9), 6, False)
    task = LinearObjective(POINTS)
    Y = task.labels(X, costs)
    sparse = [sp.csr_array(x) for x in X]
    assert sp.issparse(task.kernel_inputs(sparse[0]))
    a, b = (StructuredSVM(task, tol=1e-5).fit(inputs, Y) for inputs in (list(X), sparse))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)


def test_regret():
    Y = [TrueCosts([1.0, 3.0], [1, 0]), TrueCosts([-2.0, -5.0], [0, 1])]
    assert regret_score(Y, [[0, 1], [0, 1]]) == pytest.approx(2 / 6)
    assert regret_score(Y, [[0, 1], [1, 0]], normalize=False) == pytest.approx(5 / 2)
    values = [TrueCosts([1.0, 3.0], [0, 1], "maximize")]
    assert regret_score(values, [[1, 0]]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"must be a maxmargin\.tasks\.TrueCosts"):
        regret_score([[1, 0]], [[1, 0]])
    with pytest.raises(ValueError, match="normalize=False"):
        regret_score([TrueCosts([0.0], [1.0])], [[1.0]])
    with pytest.raises(ValueError, match="sense"):
        regret_score([TrueCosts([1.0], [1.0], "max")], [[1.0]])


def test_labels_know_whether_their_costs_are_values():
    X, costs = draw(np.random.default_rng(4), 8, False)
    task = LinearObjective(POINTS, sense="maximize")
    Y = task.labels(X, costs)
    svm = StructuredSVM(task).fit(X, Y)
    worst = [POINTS[np.argmin(POINTS @ c)] for c in costs]
    assert regret_score(Y, worst, normalize=False) > 0.0
    assert -svm.score(X, Y) == pytest.approx(regret_score(Y, svm.predict(X), normalize=False))
    with pytest.raises(ValueError, match=r"example 0: the task has sense='maximize'.*'minimize'"):
        StructuredSVM(task).fit(X, LinearObjective(POINTS).labels(X, costs))


GOOD = TrueCosts([1.0, 1.0, 2.0, 2.0], [1, 1, 0, 0])


@pytest.mark.parametrize(
    ("feasible", "x", "y", "match"),
    [
        (POINTS, np.ones(3), [1.5, 0.2, 3.0, 1.0], r"example 1: .*use task.labels\(X, costs\)"),
        (argmin, np.ones(3), [1.5, 0.2, 3.0, 1.0], r"use task.labels\(X, costs\)"),
        (ROWS, np.ones(3), [1.5, 0.2, 3.0, 1.0], r"not feasible.*use task.labels\(X, costs\)"),
        (ROWS, np.ones(3), TrueCosts(np.ones(4), np.ones(4)), "not feasible"),
        (ROWS, np.ones(3), TrueCosts(np.ones(3), [1, 1, 0, 0]), "4 finite costs"),
        (POINTS, np.full(3, np.nan), GOOD, "NaN"),
        (POINTS, np.ones((3, 3)), GOOD, "3 variables, but 4"),
        (POINTS, np.ones(2), GOOD, "same number of weights"),
        (POINTS, {}, GOOD, "'features' is missing"),
        (None, np.ones(3), GOOD, "must be a dict"),
    ],
)
def test_what_is_wrong_is_named(feasible, x, y, match):
    with pytest.raises(ValueError, match=match):
        LinearObjective(feasible).setup([np.ones(3), x] if feasible is not None else [x], [GOOD, y])


def test_labels_that_are_not_optimal_are_named():
    y = TrueCosts([2.0, 2.0, 1.0, 1.0], [1, 1, 0, 0])
    for feasible in (POINTS, argmin):
        with pytest.raises(ValueError, match=r"not optimal for its true costs.*better by 2"):
            StructuredSVM(LinearObjective(feasible)).fit(
                [np.ones(3)] * 2, [y, TrueCosts(y.costs, [0, 0, 1, 1])]
            )


def test_parameters_and_inputs_are_checked():
    for feasible, match in (([1.0, 2.0], "matrix"), ([[np.nan]], "matrix"), ("path", "could not")):
        with pytest.raises(ValueError, match=match):
            LinearObjective(feasible)
    with pytest.raises(ValueError, match="sense"):
        LinearObjective(POINTS, sense="min")
    task = LinearObjective(POINTS)
    with pytest.raises(ValueError, match="example 0: the costs must be a vector"):
        task.labels([None], [[np.nan] * 4])
    with pytest.raises(ValueError, match="but there are 3 costs"):
        task.labels([None], [[1.0] * 3])
    with pytest.raises(ValueError, match="2 features, but the model has 5 weights"):
        task.inference(np.ones(2), np.ones(5))
