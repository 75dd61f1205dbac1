"""The rounding rule: what is subtracted from bounds, and that it covers what exact arithmetic shows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.core import SquaredNorm
from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.rounding import AROUND, UNIT, Scale, UpperBound, correction, gamma, level


def test_short_sums_are_proven_and_long_ones_grow_with_the_square_root() -> None:
    assert gamma(10) == (10 + AROUND) * UNIT
    assert gamma(64) == (64 + AROUND) * UNIT
    assert gamma(10_000) == (800 + AROUND) * UNIT
    assert level(10) == 100.0 * gamma(10)


@pytest.mark.parametrize(
    ("error", "negligible", "subtracted"),
    [(0.0, 0.0, 0.0), (3.0, 3.0, 0.0), (3.0, 2.0, 4.0), (4.0, 2.0, 4.0), (np.inf, 1.0, np.inf)],
)
def test_errors_are_ignored_or_rounded_up_to_a_power_of_two(error, negligible, subtracted) -> None:
    assert correction(error, negligible) == subtracted


def test_scales_are_added_and_bound_errors() -> None:
    both = Scale(1.0, 2.0, 3) + Scale(4.0, 8.0, 16)
    assert (both.offset, both.plane, both.terms) == (5.0, 10.0, 19)
    assert both.of_cut() == gamma(19) * 15.0
    assert both.error(3.0, 0.5) == 0.5 * (5.0 + 10.0 * (3.0 + 0.5 * 10.0))


def test_attained_values_say_what_is_negligible() -> None:
    assert UpperBound.by(-4.0, 10).negligible == 4.0 * max(1e-10, level(10))


def exactly(point: DualPoint) -> Fraction:
    """The value of a dual point whose regularizer is half the squared norm."""
    planes = [[Fraction(float(v)) for v in plane] for plane in point.planes]
    alpha = [Fraction(float(a)) for a in point.alpha]
    u = [
        sum(a * plane[k] for a, plane in zip(alpha, planes, strict=True))
        for k in range(len(planes[0]))
    ]
    gain = sum(a * Fraction(float(o)) for a, o in zip(alpha, point.offsets, strict=True))
    return Fraction(point.base) + gain - sum(v * v for v in u) / 2


def test_no_dual_value_is_above_that_of_exact_arithmetic() -> None:
    above = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        m, d = rng.integers(1, 12, size=2)
        planes = rng.normal(size=(m, d)) * 10.0 ** rng.integers(-3, 4)
        offsets, alpha = rng.normal(size=m) * 10.0 ** rng.integers(-6, 3), rng.random(m)
        point = DualPoint(tuple(planes), offsets, alpha, float(rng.random()))
        u = planes.T @ alpha
        plain = point.base + float(offsets @ alpha) - 0.5 * float(u @ u)
        above += Fraction(plain) > exactly(point)
        value = point.value(SquaredNorm(), d, UpperBound(float(alpha.sum())))
        assert Fraction(value) <= exactly(point)
    assert above > 50  # without the correction


def test_every_part_of_a_dual_value_pays_for_its_rounding() -> None:
    # u = -2, F* below 8: its radius is 4; errors are counted to the next power of two
    planes, alpha = (np.array([2.0]),), np.array([1.0])

    def lost(error: float, offset: float, upper: float, negligible: float = 0.0) -> float:
        point = DualPoint(planes, np.array([offset]), alpha, 0.0, error)
        return offset - 2.0 - point.value(SquaredNorm(), 1, UpperBound(upper, negligible))

    # the error of the planes counts 1 + radius times; the radius is |w| = 2 if no smaller F is known
    assert lost(1.0, 1.0, 8.0) == 8.0
    assert lost(2.0**40, 1.0, 0.0) == 2.0**42
    assert lost(2.0**40, 1.0, 72.0) == 2.0**44
    # the sizes of planes and offsets, and the multipliers, which sum to C
    assert lost(0.0, 2.0**30, 0.0) == correction(gamma(1) * 2.0**30 * 3.0, 0.0)
    here = gamma(1) * 3.0
    upper = 2.0**40
    expected = gamma(1) * (2.0 + upper) + here * (1.0 + np.sqrt(2.0 * upper) + here)
    assert lost(0.0, 1.0, upper) == correction(expected, 0.0)
    assert lost(0.0, 1.0, 8.0, negligible=1e-6) == 0.0


def test_free_coordinates_pay_their_bound() -> None:
    point = DualPoint((np.array([2.0, 1.0]),), np.array([4.0]), np.array([1.0]), 0.0)
    omega = SquaredNorm(free=np.array([1]), free_bound=0.25)
    assert point.value(omega, 2, UpperBound(8.0, np.inf)) == 4.0 - 2.0 - 0.25


def test_an_attained_objective_bounds_free_coordinates() -> None:
    omega = SquaredNorm().with_free(np.array([1]), near=0.25, growth=0.5, first=8.0)
    assert omega.free_bound == omega.free_limit(np.inf) == omega.free_limit(8.0) == 2.25
    assert omega.free_limit(0.5) == 0.75
    assert omega.radius(0.5) == 1.75
    point = DualPoint((np.array([2.0, 1.0]),), np.array([4.0]), np.array([1.0]), 0.0)
    assert point.value(omega, 2, UpperBound(0.5, np.inf)) == 4.0 - 2.0 - 0.75
    flat = SquaredNorm().with_free(np.array([1]), near=0.25, growth=0.0, first=1.0)
    assert flat.free_limit(np.inf) == 0.25


def test_radius_and_steps_of_a_regularizer() -> None:
    assert SquaredNorm().radius(8.0) == 4.0
    assert SquaredNorm().radius(-1.0) == 0.0
    assert SquaredNorm(free=np.array([0, 2]), free_bound=3.0).radius(8.0) == 10.0
    signed = SquaredNorm(nonnegative=np.array([1]), floor=np.array([1.0]))
    w, down = np.array([5.0, 3.0]), np.array([-1.0, -0.5])
    limit = signed.step_limit(w, down)
    assert 4.0 * (1.0 - 1e-11) <= limit < 4.0
    assert (w + limit * down)[1] >= 1.0
    assert signed.step_limit(w, np.array([-1.0, 0.5])) == np.inf
    # a step of 1e12 is shortened by no more than a half
    assert (
        0.5 * 1e13 <= signed.step_limit(np.array([0.0, 1.0 + 1.0]), np.array([0.0, -1e-13])) < 1e13
    )
