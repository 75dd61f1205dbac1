"""What one completion leaves to the next: moved planes stay minorants, multipliers stay feasible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.latent_tasks import Bags, Rows, WrongRows, bags_problem, rows_problem

from maxmargin.core import Bundle, Cut, SquaredNorm
from maxmargin.risks import CompletedRisk
from maxmargin.risks.weight_map import WeightMap
from maxmargin.solvers import CuttingPlane, DualCoordinate, minimize


def some_latent(X, rng):
    return [int(rng.integers(len(x))) for x in X]


@given(st.integers(0, 10_000), st.booleans())
def test_shifted_planes_are_minorants(seed, with_prior):
    rng = np.random.default_rng(seed)
    X, Y = rows_problem(seed, n=12)
    weight = rng.uniform(0.0, 2.0, size=len(Y))
    task = Rows(spread=0.5)
    dim = task.setup(X, Y)
    prior = None
    if with_prior:  # two of the weights are fixed
        scale = rng.uniform(0.5, 2.0, size=dim)
        scale[[1, 4]] = 0.0
        prior = WeightMap(rng.normal(size=(dim, 1)), scale)
    risk = CompletedRisk(
        task, X, Y, some_latent(X, rng), dim, sample_weight=weight, weight_map=prior
    )
    bundle = Bundle(dim)

    def point():
        w = rng.normal(size=dim) * rng.choice([0.1, 1.0, 5.0])
        return w if prior is None else prior.learned(w)

    for _ in range(4):
        at = risk.evaluate(point())
        bundle.add([at.cut()])
        bundle.solve(C=1.0)
    before = bundle.solve(C=1.0)
    other, moved = risk.completed(some_latent(X, rng), bundle)
    assert moved is bundle
    after = bundle.solve(C=1.0)
    for _ in range(5):
        v = point()
        value = other.evaluate(v)
        model = max(
            [0.0, *(b + a @ v for b, a in zip(bundle._offsets, bundle._planes, strict=True))]
        )
        assert model <= value.value + 1e-9 * (1.0 + abs(value.value))
        # and so the bound of the reduced problem is one of the new problem
        assert after.lower_bound <= 0.5 * v @ v + value.value + 1e-9
    assert np.isfinite(before.lower_bound)


@given(st.integers(0, 10_000))
def test_the_products_of_a_shifted_bundle(seed):
    """A shifted bundle is the bundle of the shifted planes."""
    rng = np.random.default_rng(seed)
    dim = 6
    omega = SquaredNorm(nonnegative=np.array([0, 3])) if rng.random() < 0.7 else SquaredNorm()
    one, two = Bundle(dim, regularizer=omega), Bundle(dim, regularizer=omega)
    move = Cut(float(rng.normal()), rng.normal(size=dim))
    for _ in range(5):
        cut = Cut(float(rng.uniform(0, 3)), rng.normal(size=dim))
        one.add([cut])
        two.add([Cut(cut.offset + move.offset, cut.plane + move.plane)])
    one.solve(C=0.7)
    one.shift(move)
    a, b = one.solve(C=0.7), two.solve(C=0.7)
    assert a.lower_bound == pytest.approx(b.lower_bound, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(a.w, b.w, atol=1e-7)


@given(st.integers(0, 10_000), st.sampled_from(["rows", "wrong", "bags"]))
def test_moved_multipliers_are_feasible_and_worth_what_they_say(seed, kind):
    rng = np.random.default_rng(seed)
    if kind == "bags":
        (X, Y), task = bags_problem(seed, n=12), Bags()
        Y = [int(y) for y in Y]
    else:
        (X, Y), task = rows_problem(seed, n=12), Rows(spread=0.5) if kind == "rows" else WrongRows()
    dim = task.setup(X, Y)

    def latent():
        found = some_latent(X, rng)
        return (
            found
            if kind != "bags"
            else [h if y > 0 else None for h, y in zip(found, Y, strict=True)]
        )

    weight = rng.uniform(0.0, 2.0, size=len(Y))
    risk = CompletedRisk(task, X, Y, latent(), dim, sample_weight=weight)
    C = 2.0
    sets = minimize(risk, C, solver=DualCoordinate()).dual
    u, old = np.array(sets.w), list(risk.latent)
    alpha0 = [alpha[0] for alpha in by_example(sets)] if kind != "bags" else None
    other, sets = risk.completed(latent(), sets)
    value = sets.dual_value()
    caps = C * weight
    for _ in range(3):  # below F at any point
        v = rng.normal(size=dim) * rng.choice([0.1, 1.0])
        assert value <= 0.5 * v @ v + C * other.evaluate(v).value + 1e-9
    if kind == "bags":
        return
    # u moves by c_i d_i where the old truth goes along, else by what is not with it
    for i, (a, b) in enumerate(zip(old, other.latent, strict=True)):
        share = caps[i] if kind == "rows" else caps[i] - alpha0[i]
        d = task.joint_feature(X[i], Y[i], b) - task.joint_feature(X[i], Y[i], a)
        u += share * d
    np.testing.assert_allclose(sets.w, u, atol=1e-8)
    for i, multipliers in enumerate(by_example(sets)):
        assert (multipliers >= 0.0).all()
        assert multipliers.sum() == pytest.approx(caps[i], abs=1e-9)


def by_example(sets):
    """The multipliers, those of one example after the other; the truth's first."""
    state = sets.state()
    return np.split(state["alpha"], np.cumsum(state["counts"])[:-1])


@pytest.mark.parametrize("solver", [DualCoordinate(), CuttingPlane()])
@pytest.mark.parametrize("make", [Rows, WrongRows])
def test_a_step_after_a_move_agrees_with_a_cold_one(solver, make):
    rng = np.random.default_rng(3)
    X, Y = rows_problem(3, n=70)
    task = make()
    dim = task.setup(X, Y)
    latent = some_latent(X, rng)
    warm, memory = CompletedRisk(task, X, Y, latent, dim), None
    for _ in range(3):
        first = minimize(
            warm, 0.3, solver=solver, start=None if memory is None else _start(dim, memory)
        )
        latent = [task.complete(x, y, first.w) for x, y in zip(X, Y, strict=True)]
        warm, memory = warm.completed(latent, first.dual)
    result = minimize(
        warm, 0.3, solver=solver, start=None if memory is None else _start(dim, memory)
    )
    cold = minimize(CompletedRisk(task, X, Y, latent, dim), 0.3, solver=solver)
    assert result.converged
    assert cold.converged
    assert result.lower_bound <= cold.objective * (1 + 1e-9)
    assert cold.lower_bound <= result.objective * (1 + 1e-9)


def _start(dim, memory):
    from maxmargin.core import Start

    return Start(np.zeros(dim), memory)


def test_summed_cuts_of_wrong_outputs_are_not_moved():
    """In a sum some examples stand at their truth: moving it would not leave a minorant."""
    X, Y = [np.array([[5.0, 0.0], [4.0, 0.0]]), np.array([[0.0, 5.0], [0.0, 4.0]])], [0, 1]
    task = WrongRows(K=2)
    dim = task.setup(X, Y)
    w = np.array([1.0, 0.0, 0.0, 1.0])
    risk = CompletedRisk(task, X, Y, [0, 0], dim)
    cut = risk.evaluate(w).cut()
    assert cut.offset == 0.0  # both examples stand at their truth
    other, memory = risk.completed([1, 1], Bundle(dim))
    assert memory is None
    d = sum(
        task.joint_feature(x, y, 0) - task.joint_feature(x, y, 1) for x, y in zip(X, Y, strict=True)
    )
    assert (cut.plane + d) @ w > other.evaluate(w).value == 0.0
