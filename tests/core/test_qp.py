"""The reduced problem's solver against an independent interior-point method, warm and cold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference_optima.problems import solve_reduced_qp

from maxmargin.core import Bundle, Cut, SquaredNorm
from maxmargin.core.qp import SimplexQP


def planes_of(rng, count, dim, rank):
    return rng.normal(size=(count, rank)) @ rng.normal(size=(rank, dim)) + rng.normal(size=dim)


@given(
    seed=st.integers(0, 2**31),
    count=st.integers(1, 60),
    dim=st.integers(1, 12),
    log_c=st.floats(-4, 4),
)
def test_bundle_dual_equals_interior_point(seed, count, dim, log_c):
    rng = np.random.default_rng(seed)
    C = 10.0**log_c
    bundle = Bundle(dim)
    planes, offsets = [], []
    for _ in range(count):
        planes.append(planes_of(rng, 1, dim, 2)[0])
        offsets.append(float(abs(rng.normal())))
        bundle.add([Cut(offsets[-1], planes[-1])])
        solution = bundle.solve(C)
    reference, _ = solve_reduced_qp(np.array(planes), np.array(offsets), C)
    assert solution.lower_bound == pytest.approx(reference, rel=1e-7, abs=1e-9 * C)
    # the point's own value closes the gap: the primal of the reduced problem at w
    model = 0.5 * solution.w @ solution.w + C * solution.model
    assert model >= solution.lower_bound - 1e-9 * (1 + abs(model))
    assert model == pytest.approx(solution.lower_bound, rel=1e-7, abs=1e-9 * C)


def test_rank_deficient_gram_is_solved_to_rounding():
    rng = np.random.default_rng(3)
    planes, offsets = planes_of(rng, 500, 30, 8), np.abs(rng.normal(size=500))
    qp = SimplexQP(1)
    for k, plane in enumerate(planes):
        qp.append(np.concatenate([[0.0], planes[: k + 1] @ plane]), 0)
    c = np.concatenate([[0.0], offsets])
    assert qp.solve(c, 1e-13) <= 1e-12
    assert qp.beta.min() >= 0.0
    assert qp.beta.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("C", [1e-8, 1.0, 1e8])
def test_all_zero_planes(C):
    bundle = Bundle(3)
    bundle.add([Cut(2.0, np.zeros(3))])
    solution = bundle.solve(C)
    assert solution.lower_bound == pytest.approx(2.0 * C)
    assert not solution.w.any()


def test_the_same_bundle_serves_every_c():
    rng = np.random.default_rng(0)
    planes, offsets = planes_of(rng, 40, 6, 6), np.abs(rng.normal(size=40))
    bundle = Bundle(6)
    for plane, offset in zip(planes, offsets, strict=True):
        bundle.add([Cut(float(offset), plane)])
    for C in (1e-3, 10.0, 1e4, 0.1):
        reference, _ = solve_reduced_qp(planes, offsets, C)
        assert bundle.solve(C).lower_bound == pytest.approx(reference, rel=1e-7)


def test_inexact_solves_are_still_lower_bounds():
    rng = np.random.default_rng(1)
    bundle, planes, offsets = Bundle(5), [], []
    for _ in range(30):
        planes.append(rng.normal(size=5))
        offsets.append(abs(rng.normal()))
        bundle.add([Cut(offsets[-1], planes[-1])])
    exact, _ = solve_reduced_qp(np.array(planes), np.array(offsets), 2.0)
    loose = bundle.solve(2.0, tol=0.3 * exact).lower_bound
    assert 0.6 * exact <= loose <= exact * (1 + 1e-9)


@pytest.mark.parametrize("limit", [2, 3, 10])
def test_folding_never_lowers_the_bound(limit):
    rng = np.random.default_rng(limit)
    bundle = Bundle(8, max_planes=limit)
    best = -np.inf
    for _ in range(60):
        bundle.add([Cut(float(abs(rng.normal())), rng.normal(size=8))])
        assert len(bundle) <= limit
        lower = bundle.solve(0.7).lower_bound
        assert lower >= best - 1e-10 * abs(best)
        best = max(best, lower)


def test_folded_planes_stay_below_the_originals_maximum():
    rng = np.random.default_rng(5)
    bundle, cuts = Bundle(4, max_planes=3), []
    for _ in range(25):
        cuts.append(Cut(float(abs(rng.normal())), rng.normal(size=4)))
        bundle.add([cuts[-1]])
        bundle.solve(1.3)
    for _ in range(100):
        v = rng.normal(size=4) * 3
        highest = max(0.0, *(cut.at(v) for cut in cuts))
        for plane, offset in zip(bundle._planes, bundle._offsets, strict=True):
            assert offset + plane @ v <= highest + 1e-9


def test_idle_planes_are_dropped():
    bundle = Bundle(1, idle=5)
    bundle.add([Cut(1.0, np.array([-1.0]))])
    bundle.add([Cut(-50.0, np.array([0.1]))])  # never active
    for _ in range(4):
        bundle.solve(0.5)
        assert len(bundle) == 2
    bundle.solve(0.5)
    assert len(bundle) == 1


def test_free_coordinate_satisfies_its_equality():
    rng = np.random.default_rng(7)
    free = SquaredNorm(np.array([4]), free_bound=100.0)
    bundle = Bundle(5, regularizer=free)
    planes, offsets = rng.normal(size=(30, 5)), np.abs(rng.normal(size=30))
    for plane, offset in zip(planes, offsets, strict=True):
        bundle.add([Cut(float(offset), plane)])
    solution = bundle.solve(1.0)
    residual = sum(a * p[4] for a, p in zip(solution.dual.alpha, solution.dual.planes, strict=True))
    assert abs(residual) <= 1e-10
    # weak penalties on the coordinate converge to the same value from above
    scaled = planes.copy()
    scaled[:, 4] *= 1e4
    weak, _ = solve_reduced_qp(scaled, offsets, 1.0)
    assert solution.lower_bound == pytest.approx(weak, rel=1e-5)


def test_a_bundle_needs_room_for_two():
    with pytest.raises(ValueError, match="at least 2"):
        Bundle(3, max_planes=1)
