"""Candidates that come with their inputs: enumeration is the oracle, so everything can be proved.

Claims: the task and its compiled form pass check_task; the loss passes check_loss; the structured path
(margin and slack, plain and compiled, every solver) and the score path reach the same optimum, that of an
independent QP; what does not fit is refused by name.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.risk import check_risk
from tests.contracts.working_sets import check_sets
from tests.reference_optima.problems import solve_structured_qp, terms_of

from maxmargin import StructuredSVM, minimize
from maxmargin.losses import CandidateHinge
from maxmargin.risks import ScoreRisk, TaskRisk
from maxmargin.risks.structured.python_examples import PlainExamples
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap
from maxmargin.tasks import Choice, Enumerable
from maxmargin.tasks.enumerable_examples import EnumerableExamples
from maxmargin.testing import check_loss, check_task


def draw(seed, n=8, d=4, form=np.asarray, losses="own", widest=5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, widest + 1, n)
    if losses == "matrix":
        sizes[:] = widest
    X = [form(np.round(rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.7), 1)) for m in sizes]
    Y = [int(rng.integers(m)) for m in sizes]
    cost = None
    if losses == "own":
        Y = [
            Choice(y, np.where(np.arange(m) == y, 0, rng.integers(0, 4, m) / 2))
            for y, m in zip(Y, sizes, strict=True)
        ]
    if losses == "matrix":
        cost = rng.integers(0, 4, (widest, widest)) * (1.0 - np.eye(widest))
    return Enumerable(cost), X, Y


FORMS = [np.asarray, sp.csr_matrix, lambda x: sp.csr_matrix(x.astype(np.float32))]


@pytest.mark.parametrize("losses", ["zero_one", "own", "matrix"])
@pytest.mark.parametrize("form", FORMS)
def test_task_and_compiled_form(form, losses):
    task, X, Y = draw(0, form=form, losses=losses)
    every = lambda x: range(x.shape[0])  # noqa: E731
    check_task(task, X, Y, outputs=every, n_trials=30)
    check_sets(task.pack(X, Y), terms_of(task, X, Y, every))


@settings(max_examples=max(100, settings().max_examples))
@given(seed=st.integers(0, 10**6), rescaling=st.sampled_from(["margin", "slack"]))
def test_compiled_oracle_is_plain_python(seed, rescaling):
    task, X, Y = draw(seed)
    dim = task.setup(X, Y)
    rng = np.random.default_rng(seed)
    examples = task.pack(X, Y, rescaling=rescaling)
    for w in (np.zeros(dim), rng.normal(size=dim), rng.integers(-1, 2, dim).astype(float)):
        answers = examples.oracle(w, 0, len(X))
        cut = examples.cut(answers, np.ones(len(X)))
        assert cut.at(w) == pytest.approx(answers.values.sum(), abs=1e-9)
        v = rng.normal(size=dim)
        worst = 0.0
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            margin = x @ v - x[y.right] @ v
            values = y.losses + margin if rescaling == "margin" else y.losses * (1 + margin)
            worst += values.max()
            here = x @ w - x[y.right] @ w
            values = y.losses + here if rescaling == "margin" else y.losses * (1 + here)
            assert answers.values[i] == pytest.approx(values.max(), abs=1e-9)
        assert cut.at(v) <= worst + 1e-9


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_the_loss(rescaling):
    rng = np.random.default_rng(1)
    counts, truth = [3, 1, 4, 2, 2, 4], [2, 0, 3, 0, 1, 1]  # half of the rows end with a group
    y = CandidateHinge.labels(counts, truth)
    check_loss(CandidateHinge(rescaling), y, n_trials=60)
    y = CandidateHinge.labels(counts, truth, rng.integers(0, 4, 16) * (1 - y[:, 2]))
    check_loss(CandidateHinge(rescaling), y, n_trials=60)
    assert CandidateHinge(rescaling).value(np.empty(0), np.empty((0, 3)), np.empty(0)) == 0.0


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_the_risk_is_parted_between_groups(rescaling):
    _, X, Y = draw(2, n=400, d=6)
    y = CandidateHinge.labels(
        [len(x) for x in X], [c.right for c in Y], np.concatenate([c.losses for c in Y])
    )
    risk = ScoreRisk(np.concatenate(X), y, CandidateHinge(rescaling))
    check_risk(risk, n_trials=5)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("seed", range(4))
def test_both_families_and_all_solvers_reach_the_optimum(seed, rescaling):
    task, X, Y = draw(seed, n=12)
    C, dim = 0.7, task.setup(X, Y)
    best, _ = solve_structured_qp(
        task, X, Y, C, outputs=lambda x: range(len(x)), rescaling=rescaling
    )
    labels = CandidateHinge.labels(
        [len(x) for x in X], [c.right for c in Y], np.concatenate([c.losses for c in Y])
    )
    plain = PlainExamples(task, X, Y, dim, rescaling)
    risks = {
        "scores": lambda: ScoreRisk(np.concatenate(X), labels, CandidateHinge(rescaling)),
        "plain": lambda: TaskRisk(task, X, Y, dim, rescaling=rescaling, examples=plain),
        "compiled": lambda: TaskRisk(task, X, Y, dim, rescaling=rescaling),
    }
    solvers = [CuttingPlane(), CuttingPlane(use_cache=False, line_search=False)]
    for name, risk in risks.items():
        own = [] if name == "scores" else [DualCoordinate(), DualCoordinate(batch_size="all")]
        for solver in solvers + own:
            result = minimize(risk(), C, solver=solver, stopping=RelativeGap(1e-5))
            assert result.converged, (name, solver)
            assert result.lower_bound <= best * (1 + 1e-9)
            assert result.objective >= best * (1 - 1e-9)


def test_weights_are_those_of_the_right_rows():
    task, X, Y = draw(3, n=10)
    s = np.random.default_rng(0).random(10) * 2
    sizes = [len(x) for x in X]
    labels = CandidateHinge.labels(
        sizes, [c.right for c in Y], np.concatenate([c.losses for c in Y])
    )
    risk = ScoreRisk(np.concatenate(X), labels, CandidateHinge(), sample_weight=np.repeat(s, sizes))
    a = minimize(risk, 1.0, stopping=RelativeGap(1e-5))
    b = StructuredSVM(task, 1.0, tol=1e-5).fit(X, Y, sample_weight=s)
    assert a.lower_bound <= b.objective_
    assert b.lower_bound_ <= a.objective


def test_working_sets_and_cache_in_slack_rescaling():
    task, X, Y = draw(4)
    task.setup(X, Y)
    terms = terms_of(task, X, Y, lambda x: range(len(x)), "slack")
    check_sets(task.pack(X, Y, rescaling="slack"), terms)


def test_sets_are_carried_over_to_other_caps():
    task, X, Y = draw(5, n=20)
    task.setup(X, Y)
    sets = task.pack(X, Y).working_sets(np.ones(20))
    for _ in range(5):
        sets.stream(np.arange(20), 0.0)
    w = sets.w.copy()
    sets.rescale(np.full(20, 2.0))
    np.testing.assert_allclose(sets.w, 2 * w, atol=1e-12)
    sets.rescale(np.zeros(20))
    assert sets.dual_value() == 0.0
    sets.rescale(np.ones(20))
    assert sets.n_support == 0


@pytest.mark.parametrize(
    ("X", "Y", "words"),
    [
        ([np.ones((2, 2)), np.ones((2, 3))], [0, 0], "same number of columns"),
        ([np.ones((2, 2)), np.ones((2, 2))], [0, 2], "example 1: .* candidate is 2"),
        ([np.ones((2, 2))], [Choice(0, np.ones(2))], "0 for the correct"),
        ([np.ones((2, 2))], [Choice(0, np.zeros(3))], r"losses has shape \(3,\); expected \(2,\)"),
        ([], [], "X is empty"),
    ],
)
def test_what_does_not_fit_is_refused(X, Y, words):
    with pytest.raises(ValueError, match=words):
        Enumerable().setup(X, Y)


def test_bad_costs_and_labels_are_refused():
    for cost in (np.ones((2, 2)), np.zeros((2, 3)), -np.ones((2, 2))):
        with pytest.raises(ValueError, match="cost"):
            Enumerable(cost)
    with pytest.raises(ValueError, match="cost matrix is for 3"):
        Enumerable(np.zeros((3, 3))).setup([np.ones((2, 1))], [0])
    with pytest.raises(ValueError, match="rescaling"):
        CandidateHinge("none")
    good = CandidateHinge.labels([2, 2], [0, 1])
    for column, row, value in ((2, 0, 0.0), (1, 1, -1.0), (0, 0, 5.0), (1, 0, 1.0)):
        bad = good.copy()
        bad[row, column] = value
        with pytest.raises(ValueError):
            CandidateHinge().check_labels(bad)
    with pytest.raises(ValueError, match="three columns"):
        CandidateHinge().check_labels(np.zeros(3))
    with pytest.raises(ValueError, match="rows"):
        EnumerableExamples(sp.csr_matrix(np.ones((2, 1))), [3], [0], np.zeros(3))


def test_weights_that_must_not_be_negative_keep_working_sets():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(4, 3)) for _ in range(60)]
    Y = [int(np.argmax(x @ [-1.0, 2.0, 0.5] + rng.normal(size=4))) for x in X]
    free, sets, planes = (
        StructuredSVM(Enumerable(), 0.1, nonnegative=signed, tol=1e-6, solver=solver).fit(X, Y)
        for signed, solver in (
            (None, "auto"),
            ([0, 2], DualCoordinate()),
            ([0, 2], CuttingPlane()),
        )
    )
    assert sets.objective_ == pytest.approx(planes.objective_, rel=3e-6)
    assert (sets.coef_[[0, 2]] >= 0.0).all()
    assert free.objective_ < sets.lower_bound_  # the bounds of the weights matter
    auto = StructuredSVM(Enumerable(), 0.1, nonnegative=[0, 2]).fit(X, Y)
    assert auto.history_[-1]["method"] == "working sets"


def test_dozens_of_planes_find_room_and_the_optimum_is_that_of_plain_python():
    rng = np.random.default_rng(0)
    X = [sp.random(300, 40, 0.2, "csr", rng=rng) for _ in range(3)]
    task, Y = Enumerable(), [0, 1, 2]
    sets = task.pack(X, Y).working_sets(np.full(3, 1e4))
    everyone = np.arange(3)
    found = sum(sets.stream(everyone, 0.0).new_planes for _ in range(200))
    assert found == sets.n_planes > 20
    plain = PlainExamples(task, X, Y, 40, "margin").working_sets(np.full(3, 1e4))
    for _ in range(200):
        plain.stream(everyone, 0.0)
    assert sets.dual_value() == pytest.approx(plain.dual_value(), rel=1e-6)
