"""Working sets of chains: they climb to the optimum and keep their invariants.

w and the bounds are recomputed naively from ``state()``; distances from the features.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.oracles.test_chain import LENGTHS, Problem, variants

from maxmargin.compiled.simplex import solve_simplex
from maxmargin.core.vectors import dot
from maxmargin.tasks.chains.chain import Chain
from maxmargin.tasks.chains.working_sets import ChainWorkingSets


def naive(p, state):
    """w, dual value, and the constraints, straight from the labelings and multipliers."""
    w, gain, plane, label = np.zeros(p.dim), 0.0, 0, 0
    for i, T in enumerate(LENGTHS):
        total = 0.0
        seen = set()
        for j in range(state["counts"][i]):
            z = state["labels"][label : label + T]
            a = state["alpha"][plane]
            assert a >= 0.0
            if j == 0:
                assert np.array_equal(z, p.Y[i])
            assert tuple(z) not in seen
            seen.add(tuple(z))
            assert state["loss"][plane] == pytest.approx(p.loss(i, z), abs=1e-12)
            w += a * (p.psi(i, p.Y[i]) - p.psi(i, z))
            gain += a * p.loss(i, z)
            total += a
            plane, label = plane + 1, label + T
        assert total == pytest.approx(state["caps"][i], rel=1e-12, abs=1e-300)
    return w, gain - 0.5 * w @ w


@variants
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_working_sets_climb_to_the_optimum(options, C):
    p = Problem(5, **options)
    caps = C * np.where(np.arange(p.n) == 4, 0.0, p.rng.uniform(0.5, 2.0, p.n))
    sets = p.examples.working_sets(caps)
    last = sets.dual_value()
    assert last == 0.0
    for sweep in range(60):
        stats = sets.stream(p.rng.permutation(p.n), 0.0)
        assert stats.oracle_calls == p.n - 1
        assert stats.gap_estimate >= 0.0
        for _ in range(3):
            assert sets.epoch(p.rng.permutation(p.n)).oracle_calls == 0
        if sweep % 5 == 0:
            incremental = sets.w.copy()
            value = sets.dual_value()
            w, expected = naive(p, sets.state())
            assert np.allclose(incremental, sets.w, atol=1e-10 * (1 + C))
            assert np.allclose(sets.w, w, atol=1e-10 * (1 + C))
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-12)
            assert value >= last - 1e-10 * (1 + abs(last))
            last = value
            planes = sets.n_planes
            sets.drop_idle(4)
            assert sets.n_support <= sets.n_planes <= planes
            assert sets.dual_value() == pytest.approx(value, rel=1e-12, abs=1e-14)
    for _ in range(3000):  # few examples and a large C: the slow case of coordinate ascent
        sets.stream(p.rng.permutation(p.n), 0.0)
        for _ in range(10):
            cached = sets.epoch(p.rng.permutation(p.n))
        if cached.gap_estimate <= 1e-7 * last:
            break
    lower = sets.dual_value()
    value, upper = sets.confirm(
        [p.examples.oracle(sets.w, 0, 3), p.examples.oracle(sets.w, 3, p.n)]
    )
    objective = p.objective(sets.w, caps)
    assert value == upper
    assert upper + 0.5 * sets.w @ sets.w == pytest.approx(objective, rel=1e-10)
    assert lower <= objective + 1e-10
    assert objective - lower <= 1e-5 * objective
    # the refreshed gaps add up to the duality gap at this w
    assert sets.state()["gaps"].sum() == pytest.approx(objective - lower, abs=1e-9 * (1 + C))


def test_gaps_after_confirming_far_from_the_optimum():
    p = Problem(6, masked=True, costs=True)
    caps = np.full(p.n, 3.0)
    sets = p.examples.working_sets(caps)
    sets.stream(np.arange(p.n), 0.0)
    lower = sets.dual_value()
    value, _ = sets.confirm([p.examples.oracle(sets.w, 0, p.n)])
    objective = p.objective(sets.w, caps)
    assert value + 0.5 * sets.w @ sets.w == pytest.approx(objective)
    assert sets.state()["gaps"].sum() == pytest.approx(objective - lower)
    naive(p, sets.state())
    with pytest.raises(ValueError, match="answers"):
        sets.confirm([p.examples.oracle(sets.w, 0, 3)])


def test_skipped_examples_cost_no_oracle_and_keep_their_gap():
    p = Problem(7)
    sets = p.examples.working_sets(np.ones(p.n))
    first = sets.stream(np.arange(p.n), 1e300)  # unseen examples have an infinite gap
    assert first.oracle_calls == p.n
    before = sets.w.copy()
    again = sets.stream(np.arange(p.n), 1e300)
    assert again.oracle_calls == 0
    assert again.gap_estimate == pytest.approx(first.gap_estimate)
    assert np.array_equal(before, sets.w)


def test_an_order_may_repeat_and_room_is_made_within_a_sweep():
    p = Problem(8, K=4, d=3)
    sets = p.examples.working_sets(np.full(p.n, 30.0))
    order = np.repeat(np.array([3, 5]), 40)
    p.rng.shuffle(order)
    stats = sets.stream(order, 0.0)
    assert stats.oracle_calls == 80
    assert sets.n_planes == stats.new_planes > 6
    sets.dual_value()
    w, _ = naive(p, sets.state())
    assert np.allclose(sets.w, w)


def test_idle_planes_are_dropped_by_age():
    p = Problem(9, K=4)
    sets = p.examples.working_sets(np.full(p.n, 1.0))
    for _ in range(15):
        sets.stream(p.rng.permutation(p.n), 0.0)
    value, planes = sets.dual_value(), sets.n_planes
    sets.drop_idle(100)
    assert sets.n_planes == planes
    sets.drop_idle(0)
    assert sets.n_planes == sets.n_support < planes
    assert sets.dual_value() == pytest.approx(value, rel=1e-13)
    for _ in range(5):  # distances survived the move
        sets.stream(p.rng.permutation(p.n), 0.0)
        sets.epoch(p.rng.permutation(p.n))
    assert sets.dual_value() >= value - 1e-12


def test_distances_are_those_of_the_features():
    p = Problem(10, K=4, dtype=np.float32)
    sets = p.examples.working_sets(np.full(p.n, 5.0))
    for _ in range(12):
        sets.stream(p.rng.permutation(p.n), 0.0)
    sets.drop_idle(3)
    planes = sets._stored
    for i, T in enumerate(LENGTHS):
        m, room = planes.counts[i], planes.room[i]
        Z = planes.labels[planes.first_label[i] :][: m * T].reshape(m, T)
        psi = [p.psi(i, z) for z in Z]
        D2 = planes.distances[planes.first_distance[i] :][: room * room].reshape(room, room)
        for j in range(m):
            for k in range(m):
                assert D2[j, k] == pytest.approx(np.sum((psi[j] - psi[k]) ** 2), abs=1e-12)
    assert not sets._scratch.rows.any()
    assert not sets._scratch.net.any()


def test_a_saved_state_goes_on_with_the_same_bits():
    p = Problem(11, masked=True)
    sets = p.examples.working_sets(np.full(p.n, 2.0))
    orders = [p.rng.permutation(p.n) for _ in range(12)]
    for order in orders[:6]:
        sets.stream(order, 0.0)
    sets.drop_idle(2)
    sets.dual_value()
    state = pickle.loads(pickle.dumps(sets.state()))
    resumed = ChainWorkingSets.from_state(p.examples.chains, state)
    assert np.array_equal(resumed.w, sets.w)
    for order in orders[6:]:
        sets.stream(order, 0.0)
        resumed.stream(order, 0.0)
    assert np.array_equal(resumed.w, sets.w)
    assert resumed.dual_value() == sets.dual_value()


@pytest.mark.nightly  # read-only arrays are other types: everything is compiled again
def test_nothing_is_written_to_and_empty_ranges_are_fine():
    p = Problem(13)
    p.w.flags.writeable = False
    for array in p.examples.chains:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    answers = p.examples.oracle(p.w, 2, 2)
    assert answers.values.size == answers.labelings.size == 0
    assert p.examples.predict(p.w, 2, 2) == []
    assert p.examples.cut(answers, np.empty(0)).at(p.w) == 0.0
    cache = p.examples.cache(0, p.n, 2)
    cache.insert(p.examples.oracle(p.w, 0, p.n))
    sets = p.examples.working_sets(np.ones(p.n))
    sets.stream(np.arange(p.n), 0.0)
    assert sets.dual_value() > 0.0
    none = Chain(2, 3).pack([], [])
    assert len(none) == 0
    assert none.working_sets(np.empty(0)).dual_value() == 0.0


def test_examples_survive_pickling():
    p = Problem(12)
    copy = pickle.loads(pickle.dumps(p.examples))
    a, b = copy.oracle(p.w, 0, p.n), p.examples.oracle(p.w, 0, p.n)
    assert np.array_equal(a.labelings, b.labelings)
    assert dot(copy.cut(a, np.ones(p.n)).plane, p.w) == dot(
        p.examples.cut(b, np.ones(p.n)).plane, p.w
    )


# -- the small problem -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_simplex_solution_is_optimal(seed):
    rng = np.random.default_rng(seed)
    m, dim, c = 7, 4, 2.5  # more planes than dimensions
    P = rng.normal(size=(m, dim))
    P[0] = 0.0
    P[5] = P[4]  # a distance of zero with different offsets
    loss = rng.random(m)
    loss[0] = 0.0
    D2 = ((P[:, None] - P[None]) ** 2).sum(axis=2)
    alpha = np.zeros(m)
    alpha[0] = c
    g = loss - P @ (P.T @ alpha)
    steps = solve_simplex(alpha, g, D2, 1e-10, 10_000)
    assert 0 < steps < 10_000
    assert alpha.min() >= 0.0
    assert alpha.sum() == pytest.approx(c)
    exact = loss - P @ (P.T @ alpha)
    assert np.allclose(g, exact, atol=1e-9)
    assert c * exact.max() - alpha @ exact <= 1e-8
    # a strided view and no steps at all
    before = alpha.copy()
    padded = np.zeros((m + 2, m + 2))
    padded[:m, :m] = D2
    assert solve_simplex(alpha, g, padded[:m, :m], 1e-9, 100) == 0
    assert np.array_equal(alpha, before)


def test_sets_carried_over_to_other_caps_stay_feasible():
    p = Problem(5)
    caps = np.full(p.n, 2.0)
    caps[0] = 0.0
    sets = p.examples.working_sets(caps)
    order = np.arange(p.n)
    sets.stream(order, 0.0)
    before, planes = sets.dual_value(), sets.n_planes
    assert before > 0.0
    new = 3.0 * caps
    new[0] = 1.0
    w = sets.w.copy()
    sets.rescale(new)
    assert sets.n_planes == planes
    np.testing.assert_allclose(sets.w, 3.0 * w, rtol=1e-9, atol=1e-12)
    state = sets.state()
    ends = np.cumsum(state["counts"])
    sums = [part.sum() for part in np.split(state["alpha"], ends[:-1])]
    np.testing.assert_allclose(sums, new)
    sets.stream(order, 0.0)  # every example is visited, the one that had no weight too
    assert sets.n_planes > planes
