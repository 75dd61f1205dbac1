"""What a solver's bounds become when they are computed anew from a point and a dual point alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxmargin.core import SquaredNorm
from maxmargin.core.bundle_solution import DualPoint
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, RelativeGap, certify, minimize
from maxmargin.solvers.certificate import at_point

W = np.array([1.0])
"""The optimum of one sample x = 1 for C = 2: F = 1/2, and the multiplier 1 proves it."""


def risk() -> ScoreRisk:
    return ScoreRisk(np.array([[1.0]]), np.array([1.0]), Hinge())


def dual(alpha: float, offset: float = 1.0) -> DualPoint:
    return DualPoint((np.array([-1.0]),), np.array([offset]), np.array([alpha]), 0.0)


def test_without_a_dual_point_the_bound_is_that_of_the_loss() -> None:
    assert certify(risk(), SquaredNorm(), 2.0, W, None) == (0.5, 0.0)


def test_the_value_of_the_dual_point_is_the_bound() -> None:
    upper, lower = certify(risk(), SquaredNorm(), 2.0, W, dual(0.5))
    assert (upper, lower) == (0.5, pytest.approx(0.375, rel=1e-12))
    assert lower <= 0.375


@pytest.mark.parametrize("excess", [1e-12, 3e-9, 0.1])
def test_a_bound_above_the_objective_is_never_reported(excess: float) -> None:
    # planes that are too high by so much: as rounding, as much rounding, and as an oracle that is wrong
    upper, lower = certify(risk(), SquaredNorm(), 2.0, W, dual(1.0, 1.0 + excess))
    assert lower <= 0.5 <= upper
    if excess == 0.1:
        assert lower == -np.inf
    elif excess == 3e-9:
        assert upper - lower == pytest.approx(2.0 * excess, rel=1e-3)
    else:
        assert upper - lower <= excess


def solved():
    problem = risk()
    result = minimize(problem, 2.0, solver=CuttingPlane(), stopping=RelativeGap(1e-6))
    return problem, result


def test_another_point_is_evaluated_and_keeps_the_bound() -> None:
    problem, result = solved()
    moved = at_point(result, problem, None, 2.0, RelativeGap(1e-6), np.array([0.5]))
    assert moved.objective == 0.125 + 2.0 * 0.5
    assert moved.lower_bound == result.lower_bound
    assert (moved.converged, moved.stop_reason) == (False, "rounding")
    same = at_point(result, problem, None, 2.0, RelativeGap(1e-6), result.w)
    assert same.converged
    assert same.objective == result.objective


def test_an_unknown_objective_stays_unknown() -> None:
    problem, result = solved()
    unknown = replace(result, objective=np.nan)
    moved = at_point(unknown, problem, None, 2.0, RelativeGap(1e-6), np.array([0.5]))
    assert np.isnan(moved.objective)
    assert moved.w.tolist() == [0.5]
