"""Stopping rules: each is met at its tolerance exactly, not above, and says what gap it allows."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.core.stopping import Bounds, stops
from maxmargin.solvers import AbsoluteGap, RelativeGap, RiskEpsilon


@pytest.mark.parametrize(
    ("rule", "lower"),
    [(RelativeGap(0.25), 3.0), (AbsoluteGap(0.5), 3.5), (RiskEpsilon(0.125), 3.0)],
)
def test_a_rule_is_met_at_its_tolerance_and_not_above(rule, lower) -> None:
    # an upper bound of 4 and C = 8, in numbers without rounding errors
    assert rule.met(Bounds(4.0, lower, 8.0))
    assert not rule.met(Bounds(4.0, np.nextafter(lower, 0.0), 8.0))
    assert rule.allowed_gap(4.0, 8.0) == 4.0 - lower


def test_only_true_stops() -> None:
    assert [stops(a) for a in (True, np.bool_(True))] == [True, True]
    assert not any(stops(a) for a in (False, np.bool_(False), 1, "yes", None, np.ones(1)))
