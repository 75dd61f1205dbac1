"""Weights that must not be negative: the reduced problem and its bounds against an interior-point method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference_optima.optimum import optimum, program_of
from tests.reference_optima.problems import solve_reduced_qp

from maxmargin import minimize
from maxmargin.core import Bundle, Cut, SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.core.vectors import from_pairs
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto, CuttingPlane, DualCoordinate, Newton, RelativeGap


def random_bundle(seed, **options):
    rng = np.random.default_rng(seed)
    d, t = int(rng.integers(1, 12)), int(rng.integers(1, 20))
    signed = np.flatnonzero(rng.random(d) < rng.choice([0.3, 0.7, 1.0]))
    C = 10 ** rng.uniform(-2, 2)
    scale = 10 ** rng.uniform(-1, 1, size=d) if seed % 2 else np.ones(d)
    bundle = Bundle(d, regularizer=SquaredNorm(nonnegative=signed), **options)
    planes, offsets = [], []
    for _ in range(t):
        plane = rng.normal(size=d) * scale
        if seed % 3 == 0:  # ties and duplicates
            plane = np.round(plane)
        planes.append(plane)
        offsets.append(abs(rng.normal()))
        bundle.add([Cut(offsets[-1], plane)])
        solution = bundle.solve(C)
    return bundle, solution, C, np.array(planes), np.array(offsets), signed


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_reduced_problem_is_solved(seed):
    bundle, solution, C, planes, offsets, signed = random_bundle(seed, idle=10**9)
    best, _ = solve_reduced_qp(planes, offsets, C, nonnegative=signed)
    assert solution.lower_bound == pytest.approx(best, rel=1e-8, abs=1e-10)
    assert (solution.w[signed] >= 0.0).all()
    model = 0.5 * solution.w @ solution.w + C * solution.model
    assert model == pytest.approx(best, rel=1e-6, abs=1e-8)
    again = solution.dual.value(bundle.regularizer, bundle.dim, UpperBound(0.0))
    assert again == pytest.approx(solution.lower_bound, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_memory_bound_and_dropped_planes_keep_true_bounds(seed):
    _, solution, C, planes, offsets, signed = random_bundle(seed, idle=2, max_planes=3)
    best, _ = solve_reduced_qp(planes, offsets, C, nonnegative=signed)
    assert solution.lower_bound <= best * (1 + 1e-9) + 1e-10


def test_the_sign_is_not_forgotten_when_u_comes_back():
    # clipping w in place would lose how far u was below zero: the second plane must first pay it back
    bundle = Bundle(1, regularizer=SquaredNorm(nonnegative=np.array([0])))
    bundle.add([Cut(1.0, np.array([2.0]))])
    assert bundle.solve(C=1.0).w == [0.0]
    bundle.add([Cut(1.5, np.array([-1.0]))])
    solution = bundle.solve(C=1.0)
    best, alpha = solve_reduced_qp([[2.0], [-1.0]], [1.0, 1.5], 1.0, nonnegative=[0])
    assert solution.lower_bound == pytest.approx(best)
    assert solution.w == pytest.approx(max(0.0, alpha[1] - 2.0 * alpha[0]), abs=1e-6)


def test_sparse_planes_and_another_C():
    rng = np.random.default_rng(0)
    d, signed = 2000, np.arange(0, 2000, 2)
    bundle = Bundle(d, regularizer=SquaredNorm(nonnegative=signed))
    planes = [from_pairs(rng.integers(0, d, 40), rng.normal(size=40), d) for _ in range(15)]
    for plane in planes:
        bundle.add([Cut(1.0, plane)])
    for C in (0.01, 1.0, 0.1):
        best, _ = solve_reduced_qp(planes, np.ones(15), C, nonnegative=signed)
        assert bundle.solve(C).lower_bound == pytest.approx(best, rel=1e-8)


def signed_hinge(seed, n=60, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize(
    "solver",
    [
        CuttingPlane(),
        CuttingPlane(line_search=False),
        CuttingPlane(max_planes=10),
        Auto(),
    ],
)
@pytest.mark.parametrize("C", [0.01, 3.0])
def test_cutting_planes_reach_the_optimum(solver, C):
    X, y = signed_hinge(0)
    signed = np.array([0, 2, 3, 5])
    terms = -y[:, None] * X, np.ones(60), np.arange(60), np.full(60, C)
    found = optimum(program_of(*terms, nonnegative=signed))
    best, w, free = found.upper, found.z, optimum(program_of(*terms)).upper
    assert free < best * (1 - 1e-6)  # the signs matter here
    result = minimize(
        ScoreRisk(X, y, Hinge()),
        C,
        solver=solver,
        regularizer=SquaredNorm(nonnegative=signed),
        stopping=RelativeGap(1e-6),
        w0=-np.ones(6),  # not allowed: it is clipped first
    )
    assert result.converged
    assert (result.w[signed] >= 0.0).all()
    assert result.lower_bound <= best * (1 + 1e-9)
    assert best <= result.objective * (1 + 1e-9)
    np.testing.assert_allclose(result.w, w, atol=2e-2)


def test_every_incumbent_on_the_way_is_allowed():
    X, y = signed_hinge(1, n=200, d=10)
    seen = []
    minimize(
        ScoreRisk(X, y, Hinge()),
        10.0,
        regularizer=SquaredNorm(nonnegative=np.arange(10)),
        stopping=RelativeGap(1e-8),
        observer=lambda record, w: seen.append(w.copy()),
    )
    assert len(seen) > 5
    assert min(w.min() for w in seen) >= 0.0


def test_with_an_intercept_that_is_not_penalized():
    X, y = signed_hinge(2)
    X = np.hstack([X, np.ones((60, 1))])
    reference = program_of(
        -y[:, None] * X,
        np.ones(60),
        np.arange(60),
        np.full(60, 0.1),
        np.arange(7) < 6,
        np.arange(3),
    )
    best = optimum(reference).upper
    result = minimize(
        ScoreRisk(X, y, Hinge()),
        0.1,
        regularizer=SquaredNorm(free=np.array([6]), free_bound=100.0, nonnegative=np.arange(3)),
        stopping=RelativeGap(1e-6),
    )
    assert result.converged
    assert result.lower_bound <= best * (1 + 1e-9) <= result.objective * (1 + 2e-9)


def test_methods_over_rows_refuse_and_the_portfolio_goes_round_them():
    X, y = signed_hinge(3)
    omega = SquaredNorm(nonnegative=np.array([0]))
    signed = {"coordinate", "block coordinate", "shard coordinate"}
    assert ScoreRisk(X, y, Hinge()).methods(omega) == signed
    with pytest.raises((TypeError, ValueError), match="negative"):
        minimize(ScoreRisk(X, y, Hinge()), 1.0, solver=Newton(), regularizer=omega)
    codes = (y > 0).astype(int)
    result = minimize(
        ScoreRisk(X, codes, CrammerSinger(1.0 - np.eye(2))), 1.0, solver=Auto(), regularizer=omega
    )
    assert result.converged
    assert {record.method for record in result.history} == {"cutting planes"}


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="both free and nonnegative"):
        SquaredNorm(free=np.array([1]), nonnegative=np.array([0, 1]))
    X, y = signed_hinge(4)
    risk = ScoreRisk(X, y, Hinge())
    first = minimize(risk, 1.0, solver=CuttingPlane())
    with pytest.raises(ValueError, match="start with a new one"):
        minimize(
            risk,
            1.0,
            solver=CuttingPlane(),
            start=first,
            regularizer=SquaredNorm(nonnegative=np.array([0])),
        )


def test_row_coordinates_keep_signs_or_refuse():
    X, y = signed_hinge(5)
    omega = SquaredNorm(nonnegative=np.array([0]))
    risk = ScoreRisk(X, y, Hinge())
    rows = minimize(risk, 1.0, solver=DualCoordinate(), regularizer=omega)
    planes = minimize(risk, 1.0, solver=CuttingPlane(), regularizer=omega)
    assert rows.converged
    assert rows.w[0] >= 0.0
    assert max(rows.lower_bound, planes.lower_bound) <= min(rows.objective, planes.objective)
    classes = ScoreRisk(X, (y > 0).astype(int), CrammerSinger(1.0 - np.eye(2)))
    with pytest.raises(TypeError, match="negative"):
        minimize(classes, 1.0, solver=DualCoordinate(), regularizer=omega)
