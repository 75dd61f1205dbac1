"""All solvers find the same optimum of the same problem, within their certificates."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC as ScikitSVC
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import LinearSVC, SequenceTagger, StructuredSVM, minimize
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk, TaskRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap
from maxmargin.tasks import Chain
from maxmargin.testing import binary_objective, multiclass_objective


def overlap(intervals, slack=1e-9):
    """Whether all [lower, upper] intervals contain a common point."""
    top = max(lower for lower, _ in intervals)
    bottom = min(upper for _, upper in intervals)
    return top <= bottom * (1 + slack)


def test_binary_agrees_with_scikit_learn():
    X, y = make_classification(400, 10, random_state=0)
    for C in (0.01, 1.0):
        ours = LinearSVC(C=C, tol=1e-5, loss="hinge").fit(X, y)
        theirs = ScikitSVC(C=C, loss="hinge", tol=1e-8, max_iter=1_000_000).fit(X, y)
        F = binary_objective(theirs.coef_[0], theirs.intercept_[0], X, 2.0 * y - 1, C)
        assert ours.lower_bound_ <= F * (1 + 1e-7)
        assert pytest.approx(F, rel=2e-5) == ours.objective_
        assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99


def test_multiclass_agrees_with_scikit_learn():
    X, y = make_classification(300, 8, n_informative=6, n_classes=4, random_state=0)
    ours = LinearSVC(C=0.1, tol=1e-5, multi_class="crammer_singer").fit(X, y)
    theirs = ScikitSVC(C=0.1, multi_class="crammer_singer", tol=1e-8, max_iter=1_000_000).fit(X, y)
    F = multiclass_objective(theirs.coef_, theirs.intercept_, X, y, 0.1)
    assert pytest.approx(F, rel=2e-5) == ours.objective_


def test_class_weights_agree_with_scikit_learn():
    X, y = make_classification(300, 5, weights=[0.9], random_state=1)
    for class_weight in ("balanced", {0: 0.5, 1: 3.0}):
        ours = LinearSVC(C=0.1, tol=1e-6, class_weight=class_weight, loss="hinge").fit(X, y)
        theirs = ScikitSVC(
            C=0.1, loss="hinge", class_weight=class_weight, tol=1e-9, max_iter=1_000_000
        ).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.02)


def test_one_objective_from_every_solver_and_every_form():
    # multiclass as scores, and as a structured task in Python, by six solvers
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.permutation(np.arange(60) % 3)
    results = []
    for solver in (CuttingPlane(), CuttingPlane(line_search=False)):
        risk = ScoreRisk(X, y, CrammerSinger(1.0 - np.eye(3)))
        results.append(minimize(risk, 0.5, solver=solver, stopping=RelativeGap(1e-5)))
    task = TinyMulticlass()
    dim = task.setup(list(X), list(y))
    for structured in (
        CuttingPlane(),
        CuttingPlane(use_cache=False),
        DualCoordinate(),
        DualCoordinate(batch_size="all"),
        DualCoordinate(batch_size=7),
    ):
        risk = TaskRisk(task, list(X), list(y), dim)
        results.append(minimize(risk, 0.5, solver=structured, stopping=RelativeGap(1e-5)))
    assert all(r.converged for r in results)
    assert overlap([(r.lower_bound, r.objective) for r in results])


def test_pure_python_and_compiled_tagger_reach_the_same_optimum():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(rng.integers(1, 5), 4)) for _ in range(60)]
    teacher = rng.normal(size=(4, 3))
    Y = [(x @ teacher + 0.5 * rng.normal(size=(len(x), 3))).argmax(axis=1) for x in X]

    class PlainChain(Chain):
        """The same task without its compiled form: only the Python methods remain."""

        def pack(self, X, Y):
            return None

    intervals = []
    for solver in (DualCoordinate(), CuttingPlane()):
        plain = StructuredSVM(PlainChain(3), 0.2, tol=1e-4, solver=solver).fit(X, Y)
        packed = StructuredSVM(Chain(3), 0.2, tol=1e-4, solver=solver).fit(X, Y)
        tagger = SequenceTagger(0.2, tol=1e-4, solver=solver).fit(X, Y)
        for svm in (plain, packed, tagger):
            assert svm.converged_
            intervals.append((svm.lower_bound_, svm.objective_))
        np.testing.assert_allclose(
            plain.coef_, packed.coef_, atol=0.05 * np.abs(packed.coef_).max()
        )
    assert overlap(intervals)


def test_another_authors_chain_has_the_same_optimum():
    # TinyChain was written independently of Chain and enumerates; it has no start and end features
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(2, 3)) for _ in range(30)]
    Y = [rng.integers(0, 2, 2) for _ in X]
    extended = [np.hstack([x, np.eye(2)]) for x in X]  # first and last position as features
    tiny = StructuredSVM(TinyChain(), 0.3, tol=1e-5).fit(extended, Y)
    chain = StructuredSVM(Chain(2), 0.3, tol=1e-5).fit(X, Y)
    assert overlap(
        [(tiny.lower_bound_, tiny.objective_), (chain.lower_bound_, chain.objective_)], slack=1e-6
    )


@pytest.mark.slow
def test_shared_slack_needs_pair_steps_between_wrong_planes(monkeypatch):
    """Ramanan's case 4: with the cap active, steps with the true output alone stop short of the optimum."""
    from tests.python_sets import PythonWorkingSets

    from maxmargin.risks.structured import python_examples

    rng = np.random.default_rng(3)
    X, y = list(rng.normal(size=(8, 3)) + 2.0), list(np.arange(8) % 4)
    full = StructuredSVM(TinyMulticlass(), 0.05, tol=1e-6, max_iter=100).fit(X, y)
    assert full.converged_

    def with_truth_only(alpha, g, D2, tol, max_steps):
        for _ in range(10):
            for j in range(1, len(alpha)):
                if D2[j, 0] == 0.0:
                    continue
                a = np.clip(g[j] / D2[j, 0], -alpha[j], alpha[0])
                alpha[j] += a
                alpha[0] -= a
                g += 0.5 * a * (D2[0, 0] + D2[j] - D2[0] - D2[j, 0])
        return 0

    monkeypatch.setattr(PythonWorkingSets, "solve", staticmethod(with_truth_only))
    monkeypatch.setattr(python_examples, "PlainWorkingSets", PythonWorkingSets)
    crippled = StructuredSVM(TinyMulticlass(), 0.05, tol=1e-6, max_iter=8).fit(X, y)
    assert crippled.lower_bound_ < full.lower_bound_ * (1 - 1e-5)
    assert not crippled.converged_


def test_hinge_is_crammer_singer_with_two_classes():
    # two columns w/2 and -w/2: the norm is halved, so C must be doubled
    X, y = make_classification(200, 5, random_state=2)
    hinge = minimize(ScoreRisk(X, 2.0 * y - 1, Hinge()), 0.5, stopping=RelativeGap(1e-6))
    pair = minimize(
        ScoreRisk(X, y, CrammerSinger(1.0 - np.eye(2))), 1.0 * 0.5, stopping=RelativeGap(1e-6)
    )
    # F_cs(W) with W = (-v, v)/... : min over v of |v|^2 + C sum max(0, 1 - 2 y v x); with w = 2v: |w|^2/4
    rescaled = minimize(ScoreRisk(X, 2.0 * y - 1, Hinge()), 1.0, stopping=RelativeGap(1e-6))
    assert pair.objective == pytest.approx(0.5 * rescaled.objective, rel=1e-5)
    assert hinge.objective < rescaled.objective
