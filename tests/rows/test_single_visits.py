"""A visit maximizes the dual over its row: a problem of one row is solved by one, from wherever it starts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.core import SquaredNorm
from maxmargin.losses import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    OneClass,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.risks import ScoreRisk

KINDS = ["hinge", "squared hinge", "one class", "tube", "squared tube", "classes"]


def problem(kind, rng):
    """One row; every other time with whole numbers, so that kinks and bounds are met exactly."""
    size = rng.integers(1, 4)
    whole = rng.random() < 0.5
    number = (lambda *n: rng.integers(-2, 3, n).astype(float)) if whole else rng.normal
    X = number(1, size) if whole else rng.normal(size=(1, size))
    weight, intercept = [float(rng.choice([0.5, 1.0, 3.0]))], float(rng.choice([0.0, 1.0]))
    offset = (number(1) if whole else rng.normal(size=1)) if rng.random() < 0.7 else None
    epsilon = float(rng.choice([0.0, 0.5, 1.0]))
    if kind == "classes":
        cost = rng.integers(0, 3, (3, 3)).astype(float)
        np.fill_diagonal(cost, 0.0)
        if offset is not None:
            offset = number(1, 3) if whole else rng.normal(size=(1, 3))
        y, loss = np.array([rng.integers(0, 3)]), CrammerSinger(cost)
    elif "tube" in kind:
        make = SquaredEpsilonInsensitive if "squared" in kind else EpsilonInsensitive
        y, loss = (number(1) if whole else 3.0 * rng.normal(size=1)), make(epsilon)
    else:
        y = np.array([rng.choice([-1.0, 1.0])])
        loss = {"hinge": Hinge, "squared hinge": SquaredHinge, "one class": OneClass}[kind]()
    return ScoreRisk(X, y, loss, sample_weight=weight, intercept=intercept, offset=offset)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_one_visit_solves_one_row(kind, seed):
    rng = np.random.default_rng(seed)
    risk, C = problem(kind, rng), float(rng.choice([0.1, 1.0, 7.0]))
    duals = risk.row_duals("coordinate", C, SquaredNorm())
    start = rng.normal(size=duals.multipliers.shape) * rng.choice([0.0, 0.3, 3.0])
    duals.load(start)
    before = duals.dual_value(C)
    duals.improve(int(rng.integers(1000)), 1)
    at = risk.evaluate(duals.w.copy())
    upper, lower = 0.5 * at.w @ at.w + C * at.value, duals.dual_value(C)
    assert lower >= before - 1e-12 * (1.0 + abs(before))
    assert upper - lower <= 1e-10 * (1.0 + abs(upper))
    assert lower <= upper + 1e-12 * (1.0 + abs(upper))
