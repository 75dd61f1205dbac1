"""Schedules of working sets: all reach the optimum with true bounds; what makes no sense is refused."""

import numpy as np
import pytest
from tests.tiny_tasks import TinyMulticlass

from maxmargin import LinearSVC, SequenceTagger, StructuredSVM
from maxmargin.solvers import DualCoordinate


def sentences(n=60, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d", "e"])
    X, Y = [], []
    for _ in range(n):
        picked = rng.integers(0, 5, rng.integers(2, 7))
        tags = (picked + rng.integers(0, 2, len(picked)) * (rng.random(len(picked)) < 0.3)) % 3
        X.append([[word] for word in words[picked]])
        Y.append([f"t{tag}" for tag in tags])
    return X, Y


@pytest.fixture(scope="module")
def best():
    return SequenceTagger(C=0.1, tol=1e-5).fit(*sentences())


@pytest.mark.parametrize("schedule", ["gap", "n_slack"])
def test_every_schedule_of_sets_converges(schedule, best):
    records = []
    tagger = SequenceTagger(
        C=0.1,
        tol=1e-3,
        solver=DualCoordinate(schedule=schedule),
        callbacks=[records.append],
    ).fit(*sentences())
    assert tagger.converged_
    assert tagger.lower_bound_ <= best.objective_ * (1 + 1e-9)
    assert tagger.objective_ >= best.lower_bound_ * (1 - 1e-9)
    assert all(record.lower_bound <= best.objective_ * (1 + 1e-9) for record in records)


def test_one_pass_of_sets_is_one_pass_and_its_confirmation(best):
    tagger = SequenceTagger(C=0.1, tol=1e-6, solver=DualCoordinate(schedule="one_pass"))
    tagger.fit(*sentences())
    assert tagger.stop_reason_ == "max_iter"
    assert tagger.n_iter_ == 1
    assert tagger.history_[-1]["oracle_calls"] == pytest.approx(2.0)
    assert best.lower_bound_ <= tagger.objective_ <= 1.5 * best.objective_
    assert 0.0 < tagger.lower_bound_ <= best.objective_


@pytest.mark.parametrize("schedule", ["one_pass", "n_slack"])
def test_schedules_of_tasks_in_plain_python(schedule):
    rng = np.random.default_rng(0)
    X, y = list(rng.normal(size=(30, 3))), list(rng.integers(0, 3, 30))
    solver = DualCoordinate(schedule=schedule)
    best = StructuredSVM(TinyMulticlass(), C=0.5, tol=1e-4).fit(X, y)
    svm = StructuredSVM(TinyMulticlass(), C=0.5, tol=1e-3, solver=solver).fit(X, y)
    assert svm.converged_ or schedule == "one_pass"
    assert svm.lower_bound_ <= best.objective_ * (1 + 1e-9)
    assert svm.objective_ >= best.lower_bound_ * (1 - 1e-9)


def test_n_slack_drops_no_constraint_and_ends_when_no_example_violates_its_slack():
    X, y = sentences()
    tol = 1e-2
    solver = DualCoordinate(schedule="n_slack", batch_size=10, idle=1)
    tagger = SequenceTagger(C=0.1, tol=tol, solver=solver).fit(X, y)
    held = [record["n_cuts"] for record in tagger.history_]
    assert held == sorted(held)
    by_gap = SequenceTagger(C=0.1, tol=tol, solver=DualCoordinate(idle=1)).fit(X, y)
    assert held[-1] > by_gap.history_[-1]["n_cuts"]
    # the largest violation, not the mean one, is small enough: the gap is far below the tolerance
    assert tagger.objective_ - tagger.lower_bound_ < 0.5 * tol * tagger.objective_


def test_n_slack_is_for_structures():
    solver = DualCoordinate(schedule="n_slack", batch_size="all")
    with pytest.raises(ValueError, match="a number as batch_size"):
        SequenceTagger(solver=solver).fit(*sentences(5))
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(TypeError, match="no working sets"):
        LinearSVC(solver=DualCoordinate(schedule="n_slack"), loss="hinge").fit(X, X[:, 0] > 0.0)


def test_what_sets_cannot_do_is_refused():
    with pytest.raises(ValueError, match="rows of a stream"):
        SequenceTagger(solver=DualCoordinate(max_cached=5)).fit(*sentences(5))
