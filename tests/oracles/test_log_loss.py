"""Sums over labelings are right: log Z, marginals and gradients against enumeration, at any scale."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from maxmargin.tasks.chains.chain import Chain
from maxmargin.tasks.chains.log_loss import (
    LogLossExamples,
    log_probabilities_stacked,
    log_z_stacked,
    marginals_stacked,
)

LENGTHS = [3, 1, 0, 4, 2]
K, D = 3, 2


def problem(seed, scale, forbidden):
    """A chain with random weights, its sequences, and their labels."""
    rng = np.random.default_rng(seed)
    allowed, start, stop = np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool)
    if forbidden:
        allowed[0, 1] = allowed[2, 0] = start[2] = stop[1] = False
    task = Chain(K, D, allowed=allowed, allowed_start=start, allowed_stop=stop)
    X = rng.normal(size=(sum(LENGTHS), D))
    labelings = [legal(task, T) for T in LENGTHS]
    y = [own[rng.integers(len(own))] for own in labelings]
    return task, X, y, scale * rng.normal(size=task.dim), labelings


def legal(task, T):
    """All labelings of T tokens that are allowed."""
    moves, ends = task.allowed, (task.allowed_start, task.allowed_stop)
    every = itertools.product(range(K), repeat=T)
    return [
        z for z in every
        if T == 0 or (ends[0][z[0]] and ends[1][z[-1]]
                      and all(moves[a, b] for a, b in itertools.pairwise(z)))
    ]  # fmt: skip


def features(x, z):
    """Psi(x, z), flat."""
    W, A, ends = np.zeros((D, K)), np.zeros((K, K)), np.zeros((2, K))
    for t, label in enumerate(z):
        W[:, label] += x[t]
        if t:
            A[z[t - 1], label] += 1
    if z:
        ends[0, z[0]] += 1
        ends[1, z[-1]] += 1
    return np.concatenate([W.ravel(), A.ravel(), ends.ravel()])


def per_sequence(X):
    return np.split(X, np.cumsum(LENGTHS)[:-1])


@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_sums_over_labelings(scale, forbidden):
    task, X, y, w, labelings = problem(0, scale, forbidden)
    flat = np.concatenate([np.array(own, dtype=int) for own in y])
    examples = LogLossExamples.from_stacked(task, X, LENGTHS, flat)
    weights = np.array([1.0, 2.0, 1.0, 0.5, 0.0])
    answers = examples.oracle(w, 0, len(LENGTHS))
    cut = examples.cut(answers, weights)
    plane, values, found = np.zeros(task.dim), [], []
    for x, own, zs in zip(per_sequence(X), y, labelings, strict=True):
        psi = np.stack([features(x, z) for z in zs])
        p = np.exp(psi @ w - logsumexp(psi @ w))
        values.append(logsumexp(psi @ w) - features(x, own) @ w)
        plane += weights[len(values) - 1] * (p @ psi - features(x, own))
        found.append(np.zeros((len(x), K)))
        for share, z in zip(p, zs, strict=True):
            found[-1][np.arange(len(x)), list(z)] += share
    accuracy = {"rtol": 1e-10, "atol": 1e-11 * max(1.0, scale)}
    np.testing.assert_allclose(answers.values, values, **accuracy)
    assert (answers.uppers >= values).all()
    np.testing.assert_allclose(cut.plane, plane, **accuracy)
    assert cut.at(w) == pytest.approx(weights @ answers.values, abs=cut.error * (1 + scale))
    np.testing.assert_allclose(
        marginals_stacked(task, w, X, LENGTHS), np.concatenate(found), **accuracy
    )
    logs = log_probabilities_stacked(task, w, X, LENGTHS, flat)
    np.testing.assert_allclose(logs, -np.array(values), **accuracy)
    sums = log_z_stacked(task, w, X, LENGTHS)
    scores = [features(x, z) @ w for x, z in zip(per_sequence(X), y, strict=True)]
    np.testing.assert_allclose(sums + logs, scores, **accuracy)


def test_the_plane_is_the_gradient():
    """Central differences of the value."""
    task, X, y, w, _ = problem(1, 1.0, True)
    flat = np.concatenate([np.array(own, dtype=int) for own in y])
    examples = LogLossExamples.from_stacked(task, X, LENGTHS, flat)

    def value(v):
        return examples.oracle(v, 0, len(LENGTHS)).values.sum()

    cut = examples.cut(examples.oracle(w, 0, len(LENGTHS)), np.ones(len(LENGTHS)))
    h = 1e-5
    slopes = [(value(w + h * e) - value(w - h * e)) / (2 * h) for e in np.eye(task.dim)]
    np.testing.assert_allclose(cut.plane, slopes, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_is_below_the_risk_everywhere(seed):
    task, X, y, w, _ = problem(seed, 3.0, seed % 2 == 1)
    flat = np.concatenate([np.array(own, dtype=int) for own in y])
    examples = LogLossExamples.from_stacked(task, X, LENGTHS, flat)
    s = np.random.default_rng(seed).random(len(LENGTHS))
    cut = examples.cut(examples.oracle(w, 0, len(LENGTHS)), s)
    for other in np.random.default_rng(seed).normal(scale=3.0, size=(20, task.dim)):
        allowance = cut.error * (1.0 + np.linalg.norm(other))
        assert cut.at(other) <= s @ examples.oracle(other, 0, len(LENGTHS)).values + allowance


def test_the_offset_of_a_cut_is_the_entropy():
    task, X, y, w, labelings = problem(2, 1.0, False)
    flat = np.concatenate([np.array(own, dtype=int) for own in y])
    examples = LogLossExamples.from_stacked(task, X, LENGTHS, flat)
    cut = examples.cut(examples.oracle(w, 0, len(LENGTHS)), np.ones(len(LENGTHS)))
    entropy = 0.0
    for x, zs in zip(per_sequence(X), labelings, strict=True):
        scores = np.array([features(x, z) @ w for z in zs])
        logs = scores - logsumexp(scores)
        entropy -= np.exp(logs) @ logs
    assert cut.offset == pytest.approx(entropy, rel=1e-12)


def test_transitions_that_are_far_apart():
    """A path whose transition has a factor of e^-2000, below what a product of factors can hold."""
    task = Chain(2, 1)
    w = np.zeros(task.dim)
    w[2 + 1] = -2000.0  # from label 0 to label 1
    w[:2] = 3000.0, -3000.0  # label 0 at the first token, label 1 at the second
    X = np.array([[1.0], [-1.0]])
    expected = logsumexp([3000.0 - 3000.0, 6000.0 - 2000.0, -6000.0, 0.0])
    assert log_z_stacked(task, w, X, [2])[0] == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(marginals_stacked(task, w, X, [2]), np.eye(2), atol=1e-12)
    examples = LogLossExamples.from_stacked(task, X, [2], [0, 0])
    plane = examples.cut(examples.oracle(w, 0, 1), np.ones(1)).plane
    np.testing.assert_allclose(plane[2:6], [-1.0, 1.0, 0.0, 0.0], atol=1e-12)


def test_forbidden_labelings_have_no_probability():
    task, X, _, w, _ = problem(3, 1.0, True)
    labels = np.zeros(sum(LENGTHS), dtype=int)
    labels[1] = 1  # 0, 1 is forbidden in the first sequence
    logs = log_probabilities_stacked(task, w, X, LENGTHS, labels)
    assert logs[0] == -np.inf
    assert np.isfinite(logs[1:]).all()


@pytest.mark.parametrize("memory", [2**29, 1])
def test_dual_values_rise_to_the_optimum(memory, monkeypatch):
    """Every pass raises the dual value; in the end it is the primal value, and a step changes nothing.
    ``memory`` of one byte: all examples share their transitions, and take one step together."""
    monkeypatch.setattr("maxmargin.tasks.chains.log_duals.MEMORY", memory)
    task, X, y, _, _ = problem(4, 1.0, True)
    flat = np.concatenate([np.array(own, dtype=int) for own in y])
    examples = LogLossExamples.from_stacked(task, X, LENGTHS, flat)
    caps = np.array([0.3, 1.0, 1.0, 0.0, 2.0])
    duals = examples.working_sets(caps)
    values = []
    for _ in range(300):
        duals.stream(np.arange(5), 0.0)
        values.append(duals.dual_value())
        primal = 0.5 * duals.w @ duals.w + caps @ examples.oracle(duals.w, 0, 5).values
        assert values[-1] <= primal
    assert (np.diff(values) >= -1e-12 * abs(primal)).all()
    assert values[-1] == pytest.approx(primal, rel=1e-9)
    assert duals.gaps.sum() == pytest.approx(0.0, abs=1e-9)
    assert duals.gaps[3] == 0.0 or memory == 1


def test_duals_are_restored():
    task, X, y, _, _ = problem(5, 1.0, False)
    flat = np.concatenate([np.array(own, dtype=int) for own in y])
    examples = LogLossExamples.from_stacked(task, X, LENGTHS, flat)
    one, other = examples.working_sets(np.ones(5)), examples.working_sets(np.ones(5))
    for _ in range(3):
        one.stream(np.arange(5), 0.0)
    before = one.dual_value()
    other.restore(one.state())
    assert other.dual_value() == before
    np.testing.assert_array_equal(other.w, one.w)
    with pytest.raises(ValueError, match="theta"):
        other.restore({**one.state(), "theta": np.zeros(3)})
    one.rescale(2.0 * np.ones(5))  # the same distributions at twice the weight
    assert one.w == pytest.approx(2.0 * other.w)
