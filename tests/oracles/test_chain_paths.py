"""Chains, beyond the best labeling, against enumeration of all labelings.

Claims: the k best are the k best, distinct, in falling order; max-marginals are the best score through
each label; the slack-rescaled argmax finds the largest Delta (1 + score difference); token weights enter
all of it; what does not fit is refused.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.working_sets import check_sets
from tests.oracles.test_chain import LENGTHS, VARIANTS, Problem
from tests.reference_optima.problems import brute_force_objective, terms_of

from maxmargin import StructuredSVM
from maxmargin.risks import TaskRisk
from maxmargin.tasks import Bounded, Chain, WeightedLabels
from maxmargin.tasks.chains.examples import predict_stacked, stack_rows
from maxmargin.tasks.chains.k_best import k_best_stacked, max_marginals_stacked
from maxmargin.testing import check_task

variants = pytest.mark.parametrize("options", VARIANTS)


def ties(p):
    """A problem at whole-numbered weights: many labelings score the same."""
    p.w = p.rng.integers(-1, 2, p.dim).astype(float)
    p.X = [x.copy() for x in p.X]
    for x in p.X:
        x.data[:] = np.round(x.data)
    return p


@variants
@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_k_best_are_those_of_enumeration(options, k):
    for seed in range(4):
        p = Problem(seed, **options)
        if seed == 3:
            ties(p)
        X = stack_rows(p.X, None)
        answers = k_best_stacked(p.task, p.w, X, LENGTHS, k)
        assert len(answers) == p.n
        for i, answer in enumerate(answers):
            every = sorted((float(p.psi(i, z) @ p.w) for z in p.legal[i]), reverse=True)
            assert len(answer) == min(k, len(every))
            np.testing.assert_allclose([s for _, s in answer], every[:k], atol=1e-10)
            legal = {tuple(z) for z in p.legal[i]}
            found = [tuple(z.tolist()) for z, _ in answer]
            assert len(set(found)) == len(found)
            assert set(found) <= legal
            for z, score in answer:
                assert p.psi(i, z) @ p.w == pytest.approx(score, abs=1e-10)
        first = np.concatenate([answer[0][0] for answer in answers])
        assert np.array_equal(first, predict_stacked(p.task, p.w, X, LENGTHS))


@variants
def test_max_marginals_are_those_of_enumeration(options):
    for seed in range(6):
        p = Problem(seed, **options)
        found = p.split(max_marginals_stacked(p.task, p.w, stack_rows(p.X, None), LENGTHS))
        for i, T in enumerate(LENGTHS):
            expected = np.full((T, p.task.n_labels), -np.inf)
            for z in p.legal[i]:
                through = expected[np.arange(T), z]
                expected[np.arange(T), z] = np.maximum(through, p.psi(i, z) @ p.w)
            np.testing.assert_allclose(found[i], expected, atol=1e-10)


def test_long_lists_are_made_in_pieces(monkeypatch):
    p = Problem(0)
    X = stack_rows(p.X, None)
    whole = k_best_stacked(p.task, p.w, X, LENGTHS, 5)
    monkeypatch.setattr("maxmargin.tasks.chains.k_best.MAX_LABELS", 1)
    for a, b in zip(whole, k_best_stacked(p.task, p.w, X, LENGTHS, 5), strict=True):
        assert [(z.tolist(), s) for z, s in a] == [(z.tolist(), s) for z, s in b]


def test_no_legal_labeling_is_told_by_name():
    task = Chain(2, 1, allowed=np.zeros((2, 2), dtype=bool))
    for ask in (max_marginals_stacked, lambda *a: k_best_stacked(*a, 3)):
        with pytest.raises(ValueError, match="sequence 1, of length 2"):
            ask(task, np.zeros(task.dim), np.ones((3, 1)), [1, 2])
    with pytest.raises(ValueError, match="at least 1"):
        k_best_stacked(task, np.zeros(task.dim), np.ones((1, 1)), [1], 0)


# -- slack rescaling -------------------------------------------------------------------------------


def slack_problem(seed, K, masked, costs, weights):
    """A problem whose losses are whole numbers."""
    p = Problem(seed, K=K, masked=masked)
    rng = np.random.default_rng(seed)
    if costs:
        p.task.cost = rng.integers(0, 4, (K, K)) * (1.0 - np.eye(K))
    if weights:
        p.weight = [rng.integers(0, 3, T).astype(float) for T in LENGTHS]
        p.Y = [WeightedLabels(y, s) for y, s in zip(p.Y, p.weight, strict=True)]
    return p


@settings(max_examples=max(60, settings().max_examples))
@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 4),
    masked=st.booleans(),
    costs=st.booleans(),
    weights=st.booleans(),
    scale=st.sampled_from([0.0, 0.1, 1.0, 5.0]),
)
def test_slack_argmax_is_that_of_enumeration(seed, K, masked, costs, weights, scale):
    masked = masked and K > 2  # with two labels the masks leave a single token none
    p = slack_problem(seed, K, masked, costs, weights)
    w = scale * p.w
    for i in range(p.n):
        truth = p.Y[i].labels if weights else p.Y[i]
        own = p.psi(i, truth) @ w

        def value(z, i=i, own=own):
            return p.task.loss(p.Y[i], z) * (1.0 + p.psi(i, z) @ w - own)

        found = p.task.slack_augmented_inference(p.X[i], p.Y[i], w)
        assert tuple(found) in {tuple(z) for z in p.legal[i]}
        assert value(found) == pytest.approx(max(value(z) for z in p.legal[i]), abs=1e-9)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_task_passes_its_check_with_every_output_listed(masked, weights):
    p = slack_problem(3, 3, masked, True, weights)
    every = lambda x: p.labelings(x.shape[0])  # noqa: E731
    check_task(p.task, p.X, p.Y, outputs=every)
    check_sets(p.task.pack(p.X, p.Y), terms_of(p.task, p.X, p.Y, every))


@pytest.mark.parametrize("weights", [False, True])
def test_slack_rescaled_training_is_certified(weights):
    p = slack_problem(5, 3, False, True, weights)
    svm = StructuredSVM(p.task, C=0.5, rescaling="slack", tol=1e-4).fit(p.X, p.Y)
    assert svm.converged_
    every = lambda x: p.labelings(x.shape[0])  # noqa: E731
    F = brute_force_objective(svm.task_, p.X, p.Y, svm.coef_, 0.5, every, rescaling="slack")
    assert svm.objective_ == pytest.approx(F, rel=1e-9)
    assert svm.lower_bound_ <= F * (1 + 1e-9)


@pytest.mark.parametrize("costs", [False, True])
def test_slack_rescaling_searches_where_the_table_is_too_large(monkeypatch, costs):
    """Costs that are no integers, or too many cells."""
    monkeypatch.setattr("maxmargin.tasks.chains.chain.MOST_CELLS", 10)
    p = Problem(0, costs=costs)
    answer = p.task.slack_augmented_inference(p.X[0], p.Y[0], p.w)
    values = [
        p.task.loss(p.Y[0], z) * (1.0 + (p.psi(0, z) - p.psi(0, p.Y[0])) @ p.w) for z in p.legal[0]
    ]
    upper = answer.upper if isinstance(answer, Bounded) else max(values)
    assert max(values) <= upper * (1 + 1e-9) <= 1.5 * max(values)


# -- token weights ---------------------------------------------------------------------------------


def test_weights_reach_the_compiled_form():
    p = Problem(7, costs=True)
    s = [p.rng.random(T) for T in LENGTHS]
    Y = [WeightedLabels(y, part) for y, part in zip(p.Y, s, strict=True)]
    a, b = p.task.pack(p.X, Y), p.task.pack(p.X, p.Y, s)
    np.testing.assert_array_equal(a.oracle(p.w, 0, p.n).values, b.oracle(p.w, 0, p.n).values)
    risk = TaskRisk(p.task, p.X, Y, p.dim)
    expected = sum(max(0.0, *(p_value(p, i, z, s) for z in p.legal[i])) for i in range(p.n))
    assert risk.evaluate(p.w).value == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="per token"):
        p.task.loss(WeightedLabels(p.Y[0], np.ones(1)), p.Y[0])


def p_value(p, i, z, s):
    loss = float((p.task.cost[p.Y[i], z] * s[i]).sum()) if len(z) else 0.0
    return loss + p.w @ (p.psi(i, z) - p.psi(i, p.Y[i]))
