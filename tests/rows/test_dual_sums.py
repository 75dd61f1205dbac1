"""The dual value of multipliers at another C, worked out by hand for one row with x = y = 1."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.core import SquaredNorm
from maxmargin.core.rounding import Scale
from maxmargin.duals import proofs
from maxmargin.duals.dual_sums import DualSums
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk


class OneRow(DualSums):
    """The multiplier ``a`` of C = 1."""

    def __init__(self, a, curved=0.0, curvature=0.0, norm=None, sign=1.0) -> None:
        self.C, self._u, self._linear = 1.0, np.array([sign * a]), a
        self._curved, self._curvature, self._norm = curved, curvature, norm or SquaredNorm()

    def sizes(self) -> Scale:
        """No rounding errors."""
        return Scale(1.0, 1.0, 1)


@pytest.mark.parametrize(
    ("a", "C", "value"),
    [(1.0, 1.0, 0.5), (1.0, 4.0, 0.5), (1.0, 0.5, 0.375), (0.5, 4.0, 0.5), (0.5, 1.0, 0.375)],
)
def test_the_best_multiple_of_the_multipliers(a, C, value) -> None:
    # these are optima of w^2 / 2 + C max(0, 1 - w), except for the last
    assert OneRow(a).dual_estimate(C) == value


@pytest.mark.parametrize(("C", "value"), [(1.0, 0.125), (2.0, 1.0 / 6.0), (0.5, 0.0625)])
def test_curved_duals_are_not_overestimated(C, value) -> None:
    # 1/8 is the value at C = 1. At C = 2 the curvature is kept, at C = 1/2 doubled: both are bounds.
    assert OneRow(0.5, curved=0.25, curvature=1.0).dual_estimate(C) == pytest.approx(value)


@pytest.mark.parametrize(("C", "value"), [(1.0, 1.28125), (0.5, 0.65625), (2.0, 2.53125)])
def test_floors_do_not_scale_with_the_multipliers(C, value) -> None:
    floor = SquaredNorm(nonnegative=np.array([0]), floor=np.array([0.25]))
    assert OneRow(1.0, norm=floor, sign=-1.0).dual_estimate(C) == value
    curved = OneRow(1.0, curved=0.25, norm=floor, sign=-1.0)
    # the better of two multiples, 2 and 1 at C = 2
    assert curved.dual_estimate(C) == value - 0.25 * C * C


def test_multipliers_as_one_cut() -> None:
    cut = OneRow(0.5, curved=0.125).aggregate()
    assert (cut.offset, cut.plane.tolist()) == (0.375, [-0.5])
    assert cut.error == Scale(1.0, 1.0, 1).of_cut()


def test_an_unpenalized_coordinate_of_the_multipliers_costs_its_bound() -> None:
    # x = (1, 1), of which the second is free: u = (1/2, 1/2), D = 1/2 - 1/8 - 1/2 * 1/4
    rows = ScoreRisk(np.ones((1, 1)), np.ones(1), Hinge(), intercept=1.0).rows
    omega = SquaredNorm(free=np.array([1]), free_bound=0.25)
    alpha = np.array([0.5])
    point = proofs.DualValue.of(rows, 1.0, alpha)
    assert (point.u.tolist(), point.linear, point.curved) == ([0.5, 0.5], 0.5, 0.0)
    assert proofs._proved(rows, omega, alpha, point, np.ones(1), np.inf) == 0.25
